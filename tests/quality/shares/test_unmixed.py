"""Groups corrected by the errors of all of them together."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from quality.shares import unmixed_shares
from quality.shares.unmixed import on_simplex


def unmix(said: np.ndarray, true: np.ndarray, wrong: float, **given: np.ndarray):  # type: ignore[no-untyped-def]
    k = said.shape[1]
    about = {
        "weight": np.ones(len(said)),
        "share": true.mean(axis=0),
        "share_covariance": np.zeros((k, k)),
    } | given
    return unmixed_shares(said, np.zeros((len(said), k, k)), wrong=wrong, **about)


def read_wrong(true: np.ndarray, errors: np.ndarray) -> tuple[np.ndarray, float]:
    """Shares as a crowd says them, and the share of wrong labels over all groups."""
    return true @ errors, float(true.mean(axis=0) @ (1 - np.diag(errors)))


@pytest.mark.parametrize("rates", list(itertools.product([0.02, 0.2, 0.35], repeat=2)))
def test_two_classes_are_solved_exactly(rates: tuple[float, float]) -> None:
    true = np.array([[0.9, 0.1], [0.5, 0.5], [0.2, 0.8]])
    errors = np.array([[1 - rates[0], rates[0]], [rates[1], 1 - rates[1]]])
    said, wrong = read_wrong(true, errors)
    found = unmix(said, true, wrong)
    np.testing.assert_allclose(found.share, true, atol=1e-9)
    np.testing.assert_allclose(found.errors, errors, atol=1e-9)


def test_where_nothing_is_wrong_shares_stay_as_they_were_said(rng: np.random.Generator) -> None:
    said = rng.dirichlet(np.ones(4), size=6)
    found = unmix(said, said, 0.0)
    np.testing.assert_allclose(found.share, said, atol=1e-12)


def test_shares_lie_on_the_simplex(rng: np.random.Generator) -> None:
    for _ in range(200):
        k = int(rng.integers(2, 7))
        said, true = rng.normal(0.2, 0.3, (5, k)), rng.dirichlet(np.ones(k), size=5)
        share = unmix(said, true, float(rng.random())).share
        assert (share >= 0).all()
        np.testing.assert_allclose(share.sum(axis=1), 1)


def test_the_order_of_classes_plays_no_part(rng: np.random.Generator) -> None:
    said, true = rng.dirichlet(np.ones(4), size=5), rng.dirichlet(np.ones(4), size=5)
    order = rng.permutation(4)
    found, turned = unmix(said, true, 0.3), unmix(said[:, order], true[:, order], 0.3)
    np.testing.assert_allclose(found.share[:, order], turned.share, atol=1e-9)


def test_errors_between_classes_are_undone_for_the_most_part(rng: np.random.Generator) -> None:
    """Random errors of four classes, 50 tables: L1 falls by half in the mean, as seen once (by .66)."""
    before, after = [], []
    for _ in range(50):
        true = rng.dirichlet(np.ones(4), size=8)
        errors = 0.75 * np.eye(4) + 0.25 * rng.dirichlet(np.ones(4), size=4)
        said, wrong = read_wrong(true, errors)
        found = unmix(said, true, wrong)
        before.append(np.abs(said - true).sum(axis=1).mean())
        after.append(np.abs(found.share - true).sum(axis=1).mean())
    assert np.mean(after) < 0.5 * np.mean(before)


def test_the_covariance_is_turned_and_the_corrections_own_is_added() -> None:
    true, errors = np.array([[0.8, 0.2], [0.2, 0.8]]), np.array([[0.8, 0.2], [0.2, 0.8]])
    said, wrong = read_wrong(true, errors)
    noise = np.array([[1.0, -1.0], [-1.0, 1.0]])
    found = unmixed_shares(
        said, np.stack([noise, noise]) * 0.01, weight=np.ones(2), share=true.mean(axis=0),
        share_covariance=noise * 0.001, wrong=wrong,
    )  # fmt: skip
    np.testing.assert_allclose(found.covariance[0], noise * (0.01 / 0.6**2 + 0.001), atol=1e-9)


@pytest.mark.refusal
def test_what_does_not_fit_is_refused() -> None:
    said = np.array([[0.5, 0.5]])
    with pytest.raises(ValueError, match="wrong in"):
        unmix(said, said, 1.0)
    with pytest.raises(ValueError, match="weights must be"):
        unmix(said, said, 0.1, weight=np.zeros(1))
    with pytest.raises(ValueError, match="same groups and classes"):
        unmix(said, said, 0.1, share=np.ones(3))
    for wrong in ({"share": np.array([np.nan, 1.0])}, {"weight": np.array([np.inf])}):
        with pytest.raises(ValueError, match="must be finite, got NaN or infinity"):
            unmix(said, said, 0.1, **wrong)
    with pytest.raises(ValueError, match="must be finite, got NaN or infinity"):
        unmix(np.array([[np.nan, 0.5]]), said, 0.1)


@pytest.mark.parametrize("scale", [1e-300, 1.0, 1e17, 1e300])
def test_the_nearest_point_of_the_simplex_is_found_at_any_scale(scale: float) -> None:
    """By hand: the two largest are equal and share what there is, but for what the third has."""
    found = on_simplex(np.array([1.0, 0.0, 1.0]) * scale)
    third = max(0.0, (1.0 - 2.0 * scale) / 3.0)
    expected = [(1.0 - third) / 2.0, third, (1.0 - third) / 2.0]
    np.testing.assert_allclose(found, expected, atol=1e-15)
