"""The pool on shards: the whole table's scores, weights and posterior, wherever the table is cut."""

import numpy as np
import pytest
from hypothesis import given, settings

from quality import CrowdLabels, LocalEngine, encode, regular_assignment, simulate_crowd
from quality.choice.automatic import CANDIDATES, Auto, auto
from quality.choice.held_out_labels import folds, read_held_out
from quality.choice.sharded_automatic import (
    SHARDED,
    AutoByShards,
    auto_by_shards,
    auto_result,
    fit_by_shards,
)
from tests.quality.labels.strategies import crowds
from tests.quality.labels.test_shards import CUTS, cut_at

THE_SAME = {name: CANDIDATES[name] for name in SHARDED}
CUT_IN = {2: [0.3], 5: [0.1, 0.35, 0.6, 0.61]}


def crowd_of(
    rng: np.random.Generator, n_tasks: int = 300, n_classes: int = 3, **adversaries: int
) -> CrowdLabels:
    """30 workers, 5 labels a task."""
    rows = regular_assignment(n_tasks=n_tasks, n_workers=30, labels_per_task=5, rng=rng)
    truth = rng.integers(n_classes, size=n_tasks)
    crowd = simulate_crowd(rows, truth, n_classes=n_classes, adversaries=adversaries, rng=rng)
    return encode(crowd.worker, crowd.task, crowd.label)


def posterior_of(engine: LocalEngine, found: AutoByShards) -> np.ndarray:
    posterior, belief, _ = found.pool
    return np.concatenate(engine.map(posterior, belief))


def check_scores(found: AutoByShards, expected: Auto) -> None:
    for one, other in zip(found.scores, expected.scores, strict=True):
        assert one.name == other.name
        assert one.log_likelihood == pytest.approx(other.log_likelihood, abs=1e-9, nan_ok=True)
        assert one.weight == pytest.approx(other.weight, abs=1e-6)


@pytest.mark.long
@pytest.mark.parametrize("n_shards", [2, 5])
@pytest.mark.parametrize("enough", [100, 30_000])
def test_the_pool_is_the_whole_tables(n_shards: int, enough: int, rng: np.random.Generator) -> None:
    """Up to the rounding of sums in another order; one fold held out of ten, and all of them."""
    labels = crowd_of(rng, random=6, malicious=4)
    engine = cut_at(labels, CUT_IN[n_shards])
    found = auto_by_shards(engine, enough=enough)
    expected = auto(labels, candidates=THE_SAME, enough=enough)
    assert found.n_held_out == expected.n_held_out
    check_scores(found, expected)
    posterior = posterior_of(engine, found)
    assert posterior == pytest.approx(expected.posterior, abs=1e-6)
    best = np.concatenate(engine.map(*found.fits[found.chosen][:2]))
    assert best == pytest.approx(expected.result.posterior, abs=1e-6)
    whole = auto_result(found, engine, posterior, expected.result, None)
    assert whole.confusion == pytest.approx(expected.confusion, abs=1e-6)
    assert (whole.label == expected.label).all()
    assert whole.chosen == expected.chosen


@pytest.mark.long
def test_a_crowd_that_hardly_knows_is_left_to_the_vote_as_of_the_whole_table(
    rng: np.random.Generator,
) -> None:
    labels = crowd_of(rng, random=28)
    found = auto_by_shards(cut_at(labels, CUT_IN[5]))
    expected = auto(labels, candidates=THE_SAME)
    assert found.chosen == expected.chosen == "majority_vote"
    check_scores(found, expected)


def test_first_looks_are_the_whole_tables_and_contenders_go_on_from_them(
    rng: np.random.Generator,
) -> None:
    """Half of the crowd shifts ordered classes, so that one coin and MACE are far behind."""
    labels, asked = crowd_of(rng, n_tasks=12_000, n_classes=5, shifted=15), []

    def fit(part, name, fold, **how):
        found = fit_by_shards(part, name, **how)
        asked.append((name, fold, how["at_first"], how["begun"], found.fit))
        return found

    found = auto_by_shards(cut_at(labels, CUT_IN[2]), enough=1, fit=fit)
    expected = auto(labels, candidates=THE_SAME, enough=1)
    assert [score.weight for score in found.scores] == pytest.approx(
        [score.weight for score in expected.scores], abs=1e-6
    )
    looked = {name: one.n_iter for name, _, at_first, _, one in asked if at_first}
    more = {
        name: (begun.n_iter, one.n_iter) for name, _, _, begun, one in asked if begun is not None
    }
    assert len(looked) == 4
    assert set(more) == {"hierarchical_dawid_skene", "dawid_skene"}
    for name, (begun, ended) in more.items():
        assert looked[name] == begun <= ended


def test_it_is_the_default_pool_where_message_passing_has_no_weight(
    rng: np.random.Generator,
) -> None:
    labels = crowd_of(rng, n_tasks=600, n_classes=4, random=10)
    engine = cut_at(labels, CUT_IN[2])
    expected = auto(labels)
    assert {score.name: score.weight for score in expected.scores}["kos"] == 0
    found = auto_by_shards(engine)
    assert posterior_of(engine, found) == pytest.approx(expected.posterior, abs=1e-6)


def test_matrices_that_would_be_nearly_empty_are_not_tried_on_shards_either(
    rng: np.random.Generator,
) -> None:
    labels = crowd_of(rng, n_classes=200)
    engine = cut_at(labels, CUT_IN[2])
    expected, found = auto(labels), auto_by_shards(engine)
    check_scores(found, expected)
    posterior = posterior_of(engine, found)
    assert posterior == pytest.approx(expected.posterior, abs=1e-6)
    whole = auto_result(found, engine, posterior, expected.result, None)
    assert whole.left_out == ("hierarchical_dawid_skene", "dawid_skene")
    assert expected.left_out == (*whole.left_out, "kos")


@pytest.mark.long
@settings(max_examples=15, deadline=None, derandomize=True)
@given(crowds(), CUTS)
def test_labels_held_out_are_those_of_the_whole_table(
    labels: CrowdLabels, places: list[float]
) -> None:
    """Whatever the table: also one in which nothing can be held out, and the first is taken."""
    found = auto_by_shards(cut_at(labels, places))
    expected = auto(labels, candidates=THE_SAME)
    assert found.n_held_out == expected.n_held_out
    if not found.n_held_out:
        assert found.chosen == expected.chosen == "majority_vote"


@pytest.mark.long
def test_workers_of_one_class_are_predicted_as_on_the_whole_table(rng: np.random.Generator) -> None:
    labels = crowd_of(rng, n_tasks=600, random=6)
    one = np.where(labels.worker % 3 == 0, 0, labels.label)
    labels = encode(labels.worker, labels.task, one, classes=range(labels.n_classes))
    found, expected = auto_by_shards(cut_at(labels, CUT_IN[5])), auto(labels, candidates=THE_SAME)
    assert found.n_held_out == expected.n_held_out == 3 * labels.n_labels
    check_scores(found, expected)


@pytest.mark.long
@pytest.mark.parametrize("enough", [100, 30_000])
def test_common_errors_are_heard_as_on_the_whole_table(
    enough: int, rng: np.random.Generator
) -> None:
    """All take each of four classes for the next in three labels of ten."""
    rows = regular_assignment(n_tasks=400, n_workers=80, labels_per_task=5, rng=rng)
    truth = rng.integers(4, size=400)
    label = (truth[rows.task] + (rng.random(len(rows.task)) < 0.3)) % 4
    labels = encode(rows.worker, rows.task, label)
    expected = auto(labels, candidates=THE_SAME, enough=enough)
    assert read_held_out(labels, folds(labels, 10) == 0, expected.posterior).error.max() > 0.5
    check_scores(auto_by_shards(cut_at(labels, CUT_IN[5]), enough=enough), expected)


@pytest.mark.long
def test_groups_vote_once_on_the_merged_table(rng: np.random.Generator) -> None:
    labels = crowd_of(rng, random=6)
    groups = np.where(np.arange(30) < 6, np.arange(30) // 3, -1)
    merged = cut_at(labels, CUT_IN[2]).merge_workers(groups)
    found, expected = auto_by_shards(merged), auto(labels, candidates=THE_SAME, groups=groups)
    check_scores(found, expected)
    posterior = posterior_of(merged, found)
    assert posterior == pytest.approx(expected.posterior, abs=1e-6)
    whole = auto_result(found, merged, posterior, expected.result, groups)
    assert whole.confusion == pytest.approx(expected.confusion, abs=1e-6)


def test_what_a_fitter_has_kept_is_not_found_twice(rng: np.random.Generator) -> None:
    engine, kept = cut_at(crowd_of(rng, random=6), CUT_IN[2]), {}

    def fit(part, name, fold, **how):
        key = name, fold, how["at_first"]
        if key not in kept:
            kept[key] = fit_by_shards(part, name, **how)
        return kept[key]

    first = auto_by_shards(engine, enough=1, fit=fit)
    assert {fold for _, fold, _ in kept} == {0, -1}
    n_fits = len(kept)
    again = auto_by_shards(engine, enough=1, fit=fit)
    assert len(kept) == n_fits
    assert again.scores == first.scores


@pytest.mark.refusal
@pytest.mark.parametrize(
    ("knob", "words"),
    [
        ({"n_folds": 1}, "n_folds must be >= 2"),
        ({"n_folds": 40_000}, "n_folds must be at most 32,767"),
        ({"enough": 0}, "enough must be"),
    ],
)
def test_parameters_out_of_range_are_refused(
    knob: dict[str, int], words: str, rng: np.random.Generator
) -> None:
    with pytest.raises(ValueError, match=words):
        auto_by_shards(cut_at(crowd_of(rng), CUT_IN[2]), **knob)
