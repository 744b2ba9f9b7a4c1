"""Rows lifted a slice at a time: the bytes of rows lifted at once, and no more memory than a block."""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from learners import (
    NoisyGradientDescent,
    NoisyMoments,
    PrincipalSubspace,
    ReducedTraining,
    ScoredTraining,
    StabilityValidation,
    fit_linear,
)
from learners.private import logistic_minimum
from learners.private.logistic_minimum import (
    LiftedRows,
    all_finite,
    clipped,
    lift,
    lifted,
    minimise,
    scores,
)
from learners.private.objective_perturbation import training_query
from learners.selection.public_split import split_rows
from tests.learners.scripted_noise import SeededNoise

STABLE = StabilityValidation((0.01, 0.1), 1.0, 0.5, norm_bound=2.0, n_classes=3)
DESCENT = NoisyGradientDescent(1.0, 1e-6, norm_bound=2.0, n_classes=3)
REDUCED = ReducedTraining(DESCENT, NoisyMoments(0.5, 1e-6, 2))
REDUCED_CHOICE = ReducedTraining(STABLE, PrincipalSubspace(0.5, 2))


def drawn(n: int = 2000, width: int = 5) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows around three centres, some of them beyond the bound; and a split."""
    rng = np.random.default_rng(0)
    y = rng.integers(3, size=n)
    return rng.normal(size=(n, width)) + np.eye(3, width)[y], y, rng.random(n) < 0.25


def test_a_slice_is_the_rows_that_it_names_lifted() -> None:
    x, _, judges = drawn()
    whole = lift(x, 2.0)
    places = np.flatnonzero(judges)
    for rows, expected in (
        (LiftedRows(x, 2.0), whole),
        (LiftedRows(x, 2.0, places), whole[judges]),
    ):
        assert (len(rows), rows.shape) == (len(expected), expected.shape)
        for part in (slice(None), slice(3, 90), slice(None, None, 16), slice(len(rows), None)):
            assert rows[part].tobytes() == expected[part].tobytes()


def test_no_repr_shows_a_row_or_a_label() -> None:
    x, y, judges = drawn(6, 1)
    query = training_query(31337.0 + 0 * x, y, dataset="toy", validation=judges)
    shown = repr(LiftedRows(query.value["x"], 1e6)), repr(split_rows(query, 1e6, 3))
    assert shown == (
        "LiftedRows(norm_bound=1000000.0, places=None, components=None)",
        "SplitRows(norm_bound=1000000.0)",
    )
    row, linear = lift(query.value["x"], 1e6), np.zeros(2)
    found = minimise(row, np.where(y > 0, 1.0, -1.0), linear, regularization=0.1)
    assert repr(found) == f"Minimum(gradient_norm={found.gradient_norm}, n_iter={found.n_iter})"


def test_a_slice_is_the_projections_of_the_rows_that_it_names_lifted() -> None:
    """A row on two axes is a row of two cells; along others, up to the rounding of its sums."""
    x, _, judges = drawn()
    places = np.flatnonzero(judges)
    axes = LiftedRows(x, 2.0, places, np.eye(5)[[3, 1]])
    assert axes.shape == (len(places), 3)
    expected = lift(clipped(x, 2.0)[judges][:, [3, 1]], 2.0)
    for part in (slice(None), slice(3, 90), slice(None, None, 16), slice(len(places), None)):
        np.testing.assert_allclose(axes[part], expected[part], rtol=0, atol=1e-15)
    turned, _ = np.linalg.qr(np.random.default_rng(1).normal(size=(5, 2)))
    found = LiftedRows(x, 2.0, None, turned.T)[7:]
    np.testing.assert_allclose(found, lift(clipped(x, 2.0) @ turned, 2.0)[7:], rtol=0, atol=1e-15)


def test_few_rows_are_held_and_many_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    x, _, judges = drawn()
    places = np.flatnonzero(judges)
    assert isinstance(lifted(x, 2.0, places), np.ndarray)
    monkeypatch.setattr(logistic_minimum, "HELD_CELLS", 5 * len(places))
    assert isinstance(lifted(x, 2.0, places), np.ndarray)
    assert isinstance(lifted(x, 2.0), LiftedRows)
    assert isinstance(lifted(x, 2.0, None, np.eye(1, 5)), np.ndarray)  # one cell each


def test_rows_that_are_held_are_lifted_a_block_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logistic_minimum, "BLOCK", 300)
    x, _, judges = drawn()
    places = np.flatnonzero(judges)
    assert lifted(x, 2.0, places).tobytes() == lift(x, 2.0)[judges].tobytes()
    assert lifted(x[:0], 2.0).shape == (0, 6)


def test_scores_of_blocks_are_those_of_all_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logistic_minimum, "BLOCK", 77)
    row, weight = lift(drawn()[0], 2.0), np.random.default_rng(1).normal(size=(3, 6))
    np.testing.assert_allclose(scores(row, weight), weight @ row.T, rtol=0, atol=1e-14)
    assert scores(row[:0], weight).shape == (3, 0)
    for cell in (np.inf, np.nan):
        assert all_finite(row)
        row[-1, -1] = cell
        assert not all_finite(row)
        row[-1, -1] = 0.0


@pytest.mark.parametrize("training", [STABLE, DESCENT])
def test_rows_that_are_not_held_train_the_same_model_on_the_same_noise(
    training: StabilityValidation | NoisyGradientDescent, monkeypatch: pytest.MonkeyPatch
) -> None:
    held, lifted_anew = trained_both_ways(training, monkeypatch)
    assert held == lifted_anew


@pytest.mark.parametrize("training", [REDUCED, REDUCED_CHOICE])
def test_rows_that_are_not_held_train_the_same_model_on_the_same_components(
    training: ReducedTraining, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Up to the rounding of projections, whose products come in blocks of another length."""
    (event, model), (other_event, other) = trained_both_ways(training, monkeypatch)
    assert event == other_event
    coef, other_coef = model.pop("coef"), other.pop("coef")
    np.testing.assert_allclose(coef, other_coef, rtol=0, atol=1e-10)
    assert model == other


def trained_both_ways(
    training: StabilityValidation | NoisyGradientDescent | ReducedTraining,
    monkeypatch: pytest.MonkeyPatch,
) -> list[tuple[Any, Any]]:
    """Event and release of rows that are held, then of rows that are lifted in every pass."""
    x, y, judges = drawn()
    query = training_query(x, y, dataset="toy", validation=judges)
    found = []
    for held in (logistic_minimum.HELD_CELLS, 0):
        monkeypatch.setattr(logistic_minimum, "HELD_CELLS", held)
        mechanism = ScoredTraining(training, epsilon_score=0.5)
        found.append((mechanism.event(query), mechanism.draw(query, SeededNoise(3))))
    return found


def test_some_rows_train_the_model_that_they_train_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y, judges = drawn()
    knobs = {"regularization": 0.01, "norm_bound": 2.0, "n_classes": 3}
    alone = fit_linear(x[judges], y[judges], **knobs)
    monkeypatch.setattr(logistic_minimum, "HELD_CELLS", 0)
    some = fit_linear(x, y, places=np.flatnonzero(judges), **knobs)
    assert some.coef.tobytes() == alone.coef.tobytes()


@pytest.mark.long
@pytest.mark.parametrize("training", [STABLE, DESCENT, REDUCED, REDUCED_CHOICE])
def test_training_on_pages_of_a_file_holds_a_fraction_of_the_rows(
    training: StabilityValidation | NoisyGradientDescent | ReducedTraining,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """8,000 rows of 64 features, 4 MB: half of them could not be held."""
    monkeypatch.setattr(logistic_minimum, "HELD_CELLS", 0)
    for blocks in ("logistic_minimum", "noisy_descent", "linear_model", "subspaces"):
        monkeypatch.setattr(f"learners.private.{blocks}.BLOCK", 512)
    monkeypatch.setattr("learners.selection.public_split.BLOCK", 512)
    x, y, judges = drawn(8_000, 64)
    np.save(tmp_path / "x.npy", x)
    pages = np.load(tmp_path / "x.npy", mmap_mode="r")
    query = training_query(pages, y, dataset="toy", validation=judges)
    del x
    tracemalloc.start()
    mechanism = ScoredTraining(training, epsilon_score=0.5)
    mechanism.event(query)
    mechanism.draw(query, SeededNoise(0))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < pages.nbytes / 2
