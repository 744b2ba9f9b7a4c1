"""Soft penalties against an honest null: its moments, its calibration, and the filter on top."""

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom, norm

from quality import (
    CrowdLabels,
    encode,
    regular_assignment,
    simulate_crowd,
    soft_penalty,
)
from quality.reputation.false_removal import Rounds, filter_dishonest
from quality.reputation.filtering import ShrinkingCrowd
from quality.reputation.honest_null import (
    expected_reliability,
    fit_honest,
    honest_level,
    honest_null,
)
from quality.reputation.honest_population import (
    RELIABILITY,
    SHARES,
    SIZES,
    Candidates,
    evidence_work,
    fit_population,
    looked_at,
    write_evidence,
)
from tests.quality.labels.strategies import crowds
from tests.quality.reputation.test_other_answers import dense

QUICK = settings(max_examples=12, deadline=None, derandomize=True)
ARRAYS = (
    "keep", "removed", "removed_penalty", "removed_p_value",
    "refused", "refused_penalty", "refused_p_value", "level",
)  # fmt: skip


def simulated(
    seed: int,
    *,
    n_workers: int = 40,
    n_tasks: int = 160,
    labels_per_task: int = 6,
    n_classes: int = 2,
    adversaries: dict[str, int] | None = None,
) -> tuple[CrowdLabels, np.ndarray]:
    """Labels of a regular crowd, and who is an adversary; the honest are Beta(12, 3)."""
    rng = np.random.default_rng(seed)
    asked = regular_assignment(
        n_tasks=n_tasks, n_workers=n_workers, labels_per_task=labels_per_task, rng=rng
    )
    crowd = simulate_crowd(
        asked,
        rng.integers(n_classes, size=n_tasks),
        n_classes=n_classes,
        adversaries=adversaries or {},
        rng=rng,
    )
    labels = encode(crowd.worker, crowd.task, crowd.label, classes=range(n_classes))
    return labels, crowd.kind != "honest"


def one_always_wrong() -> tuple[list[int], list[int], list[int]]:
    """Twenty workers on the same 60 tasks, right four times in five; worker 7 never is."""
    rng = np.random.default_rng(0)
    truth, wrong = rng.integers(2, size=60), rng.random((20, 60)) < 0.2
    wrong[7] = True
    worker, task = np.divmod(np.arange(1200), 60)
    return worker.tolist(), task.tolist(), (truth ^ wrong).ravel().tolist()


def slow_p_value(labels: CrowdLabels, worker: int) -> float:
    """The null enumerated task by task: every answer she could give, with its chance and its penalty."""
    fit = fit_honest(labels)
    population, others = fit.population, dense(fit.others)
    penalty, counts, n_classes = soft_penalty(labels)[worker], labels.counts(), labels.n_classes
    tail = np.zeros(len(RELIABILITY))
    for place, reliability in enumerate(RELIABILITY):
        mean = variance = 0.0
        for row in np.flatnonzero(labels.worker == worker):
            left = counts[labels.task[row]] - (np.arange(n_classes) == labels.label[row])
            wrong = (1 - reliability) / (n_classes - 1)
            chance = others[row] * reliability + (1 - others[row]) * wrong
            excess = np.where(left < left.sum(), 1 / (left + 1) - penalty, 0.0)
            mean += chance @ excess
            variance += chance @ excess**2 - (chance @ excess) ** 2
        tail[place] = norm.cdf(mean / np.sqrt(variance))
    return float(tail @ population.probability)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_p_values_are_those_of_the_null_told_task_by_task(n_classes: int) -> None:
    """Of 30 labels each: those of workers of few are in test_penalty_tails.py."""
    labels, _ = simulated(3, n_workers=12, n_tasks=60, n_classes=n_classes)
    everybody = np.full(12, True)
    null = honest_null(labels, everybody)
    slow = [slow_p_value(labels, worker) for worker in range(12)]
    np.testing.assert_allclose(null.p_value, slow, rtol=1e-8)
    np.testing.assert_array_equal(null.penalty, soft_penalty(labels))


def test_the_others_say_nothing_where_nobody_else_labelled() -> None:
    labels = encode(["ann", "bob", "cy"], [1, 2, 3], ["x", "y", "z"])
    np.testing.assert_allclose(dense(fit_honest(labels).others), 1 / 3)


@pytest.mark.parametrize("strategy", [None, "malicious", "random"])
def test_the_honest_population_is_found_beside_adversaries(strategy: str | None) -> None:
    """Beta(12, 3) has mean 0.8 and spread 0.1; 30 % adversaries, taken for honest, would make a
    mean of 0.71 or less and a spread of 0.16 or more."""
    adversaries = {strategy: 60} if strategy else {}
    labels, _ = simulated(
        1, n_workers=200, n_tasks=1500, labels_per_task=10, adversaries=adversaries
    )
    population = fit_honest(labels).population
    assert abs(population.mean - 0.8) < 0.03
    assert abs(population.spread - 0.1) < 0.03
    assert abs(population.adversaries - 0.3 * bool(strategy)) < 0.06
    assert population.probability.sum() == pytest.approx(1)


def test_more_classes_than_the_grid_is_fine_for_are_no_trouble() -> None:
    labels = encode(
        ["ann", "bob", "cy"] * 2, [1, 1, 1, 2, 2, 2], [0, 0, 1] * 2, classes=range(9000)
    )
    population = fit_honest(labels).population
    assert np.isfinite(population.probability).all()


def test_a_worker_who_is_always_wrong_is_removed_and_nobody_else() -> None:
    filtered = filter_dishonest(encode(*one_always_wrong()), rng=np.random.default_rng(0))
    assert filtered.removed.tolist() == [7]
    assert filtered.removed_p_value[0] < 1e-4
    assert np.flatnonzero(~filtered.keep).tolist() == [7]
    assert filtered.removed_penalty[0] == soft_penalty(encode(*one_always_wrong()))[7]
    assert filtered.stopped == "nobody flagged in round 2"
    assert repr(filtered).startswith("FilteredDishonest(1 of 20 workers removed, 0 refused;")


def test_the_worst_worker_kept_is_named_with_the_reason() -> None:
    labels = encode(*one_always_wrong())
    filtered = filter_dishonest(labels, rng=np.random.default_rng(0))
    kept = np.where(filtered.keep, filtered.p_value, np.inf)
    assert filtered.worst_kept == kept.argmin()
    assert filtered.p_value[7] == filtered.removed_p_value[0] < kept.min()
    hers = soft_penalty(labels.keep_workers(filtered.keep))[filtered.worst_kept]
    assert f"among the workers left is {hers:.2g};" in filtered.worst_kept_reason
    told = rf"with probability {kept.min():.2g}\. Of the \d+ workers left to judge"
    assert re.search(told, filtered.worst_kept_reason)
    nobody = filter_dishonest(encode(["ann"], [1], ["x"]), rng=np.random.default_rng(0))
    assert (nobody.worst_kept, nobody.worst_kept_reason) == (-1, "")
    assert nobody.p_value.tolist() == [1.0]


def test_a_kept_worker_has_the_penalty_that_her_p_value_is_of() -> None:
    labels = encode(*one_always_wrong())
    filtered = filter_dishonest(labels, rng=np.random.default_rng(0))
    last = soft_penalty(labels.keep_workers(filtered.keep))
    np.testing.assert_array_equal(filtered.penalty[filtered.keep], last[filtered.keep])
    assert filtered.penalty[7] == filtered.removed_penalty[0]


def test_malicious_workers_in_number_are_found() -> None:
    """18 of 60 with 35 labels each; a null widened by them would find next to nobody."""
    labels, adversary = simulated(
        5, n_workers=60, n_tasks=300, labels_per_task=7, adversaries={"malicious": 18}
    )
    filtered = filter_dishonest(labels, rng=np.random.default_rng(0))
    assert np.count_nonzero(adversary[filtered.removed]) >= 16
    assert np.count_nonzero(~adversary[filtered.removed]) <= 3
    assert filtered.population.adversaries < 0.1


@pytest.mark.long
def test_an_honest_crowd_is_left_alone_about_as_often_as_asked() -> None:
    """40 crowds at rate 0.1: 16 or more with a removal have chance 6e-7. P-values of one tenth,
    taken at face value for each of 40 workers, flag somebody in nearly all."""
    n_crowds, rate = 40, 0.1
    allowed = int(binom.isf(1e-6, n_crowds, rate))
    lost = sum(
        len(filter_dishonest(simulated(seed)[0], rng=np.random.default_rng(seed)).removed) > 0
        for seed in range(n_crowds)
    )
    assert lost <= allowed < n_crowds / 2


def test_p_values_of_honest_workers_are_small_as_often_as_they_say() -> None:
    """1200 workers of 30 crowds; a share of 0.05 has standard error 0.006."""
    small = []
    for seed in range(30):
        labels, _ = simulated(100 + seed)
        null = honest_null(labels, np.full(40, True))
        small.append(np.mean(null.p_value <= 0.05))
    assert 0.015 < np.mean(small) < 0.085


def test_a_stricter_rate_has_a_stricter_level() -> None:
    labels = simulated(2)[0]
    null = honest_null(labels, np.full(40, True))
    levels = [
        honest_level(labels, null, false_removal_rate=rate, rng=np.random.default_rng(0))
        for rate in (0.05, 0.1, 0.3)
    ]
    assert levels == sorted(levels)
    assert len(set(levels)) == 3


def test_workers_without_conflict_tasks_are_not_flagged() -> None:
    """Zoe labels alone, and is not judged though she is the only one left to remove."""
    worker, task, label = one_always_wrong()
    labels = encode(worker + [99] * 5, task + list(range(100, 105)), label + [0] * 5)
    null = honest_null(labels, np.full(21, True))
    assert null.p_value[20] == 1.0
    assert filter_dishonest(labels, rng=np.random.default_rng(0)).keep[20]
    alone = encode(["ann", "bob"], [1, 2], ["x", "y"])
    filtered = filter_dishonest(alone, rng=np.random.default_rng(0))
    assert filtered.keep.all()
    assert filtered.stopped == "nobody flagged in round 1"


def test_a_table_of_one_class_says_nothing_about_anybody() -> None:
    labels = encode(["ann", "bob"], [1, 1], ["x", "x"])
    assert filter_dishonest(labels, rng=np.random.default_rng(0)).keep.all()


@QUICK
@given(crowds(), st.integers(0, 3))
def test_no_task_falls_below_the_least_number_of_labels(labels: CrowdLabels, least: int) -> None:
    filtered = filter_dishonest(
        labels, false_removal_rate=0.9, min_labels_per_task=least, rng=np.random.default_rng(0)
    )
    before = np.diff(labels.task_start)
    after = np.diff(labels.keep_workers(filtered.keep).task_start)
    assert ((after >= least) | (after == before)).all()
    assert sorted(filtered.removed.tolist()) == np.flatnonzero(~filtered.keep).tolist()


def test_a_refusal_is_recorded_with_its_reason() -> None:
    labels = encode(*one_always_wrong())
    filtered = filter_dishonest(labels, min_labels_per_task=20, rng=np.random.default_rng(0))
    assert filtered.keep.all()
    assert filtered.refused.tolist() == [7]
    assert filtered.refused_p_value[0] < 1e-4
    assert filtered.refused_reason == (
        "60 tasks would be left with fewer than 20 labels, the first is 0",
    )


def test_without_an_honest_majority_nobody_is_removed() -> None:
    """Ten adversaries label ten times as much as the twenty honest: their word is the majority."""
    rng = np.random.default_rng(0)
    asked = np.array([np.arange(200) % 20 == worker % 20 if worker < 20 else np.full(200, True)
                      for worker in range(30)])  # fmt: skip
    worker, task = np.nonzero(asked)
    wrong = np.where(worker < 20, rng.random(len(worker)) < 0.2, True)
    labels = encode(worker, task, rng.integers(2, size=200)[task] ^ wrong)
    filtered = filter_dishonest(labels, rng=np.random.default_rng(0))
    assert filtered.keep.all()
    assert filtered.stopped == "as many dishonest as honest workers fitted in round 1"
    assert filtered.worst_kept_reason.endswith(  # and not by a bound, as there was none
        "nobody is removed: as many dishonest as honest workers fitted"
    )


def test_the_order_of_the_rows_does_not_matter_and_runs_are_the_same() -> None:
    labels, _ = simulated(4, adversaries={"malicious": 10})
    rows = np.random.default_rng(1).permutation(labels.n_labels)
    shuffled = encode(labels.worker[rows], labels.task[rows], labels.label[rows], classes=[0, 1])
    one, other, third = (
        filter_dishonest(table, rng=np.random.default_rng(0))
        for table in (labels, labels, shuffled)
    )
    assert len(one.removed) >= 5
    for name in ARRAYS:
        assert getattr(one, name).tobytes() == getattr(other, name).tobytes()
        assert getattr(one, name).tobytes() == getattr(third, name).tobytes()
        assert not getattr(one, name).flags.writeable


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"false_removal_rate": 0.0}, r"must be in \[0.001, 1\), got false_removal_rate=0.0"),
        ({"false_removal_rate": 1.0}, r"must be in \[0.001, 1\), got false_removal_rate=1.0"),
        ({"false_removal_rate": float("nan")}, "got false_removal_rate=nan"),
        ({"min_labels_per_task": -1}, "must be >= 0, got min_labels_per_task=-1"),
    ],
)
def test_values_out_of_range_are_refused(asked: dict[str, float], message: str) -> None:
    labels = encode(["a", "b"], [1, 1], ["x", "y"])
    with pytest.raises(ValueError, match=message):
        filter_dishonest(labels, rng=np.random.default_rng(0), **asked)  # type: ignore[arg-type]


def test_mixtures_given_up_on_the_way_do_not_change_the_population() -> None:
    """Every mixture of every worker, in one product of matrices; the adversaries come last."""
    labels, _ = simulated(
        6, n_workers=300, n_tasks=900, labels_per_task=8, adversaries={"random": 60}
    )
    rng, n_workers = np.random.default_rng(0), labels.n_workers
    evidence = np.exp(-((RELIABILITY - np.sort(rng.beta(8, 3, n_workers))[::-1, None]) ** 2) / 0.02)
    candidates = Candidates.of(2)
    honest, adversary = evidence @ candidates.honest.T, evidence @ candidates.adversary.T
    alone = np.log(honest).sum(axis=0)[:, None] + np.log(0.5)
    mixed = np.log(
        honest[:, :, None, None] * (1 - SHARES) + adversary[:, None, :, None] * SHARES
    ).sum(axis=0) + np.log(0.5 / 21)
    log_likelihood = np.concatenate([alone, mixed.reshape(len(SIZES) * 18, -1)], axis=1)
    weight = np.exp(log_likelihood - log_likelihood.max())
    weight /= weight.sum()
    population, _ = fit_population(evidence, looked_at(np.arange(n_workers)), candidates)
    expected = weight.sum(axis=1) @ candidates.honest
    np.testing.assert_allclose(population.probability, expected, rtol=1e-9, atol=1e-15)


def test_a_fit_from_an_earlier_one_is_that_from_the_beginning() -> None:
    """Three turns against eight: populations as near as the eighth turn is to the seventh."""
    labels, adversary = simulated(7, n_workers=60, n_tasks=300, adversaries={"malicious": 12})
    before = fit_honest(labels)
    kept = labels.keep_workers(~adversary[np.argsort(labels.workers)] | (np.arange(60) % 2 > 0))
    anew, onward = fit_honest(kept), fit_honest(kept, before=before)
    assert onward.population.mean == pytest.approx(anew.population.mean, abs=2e-3)
    assert onward.population.adversaries == pytest.approx(anew.population.adversaries, abs=5e-3)


def test_a_level_drawn_from_a_part_of_the_crowd_is_that_of_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The 20th of 200 least ratios has a relative error of about 0.22; five of it on each side."""
    labels, _ = simulated(8, n_workers=240, n_tasks=1600, labels_per_task=6)
    null, levels = honest_null(labels, np.full(240, True)), []
    for most in (1000, 120):
        monkeypatch.setattr("quality.reputation.honest_null.MAX_DRAWN", most)
        monkeypatch.setattr("quality.reputation.honest_null.MAX_LABELS", most)
        rng = np.random.default_rng(1)
        levels.append(honest_level(labels, null, false_removal_rate=0.1, rng=rng))
    assert 1 / 3 < levels[1] / levels[0] < 3


def test_a_worker_without_labels_is_as_reliable_as_the_crowd() -> None:
    crowd = np.random.default_rng(0).random(len(RELIABILITY))
    nobodys = np.zeros(0, dtype=np.int64), np.zeros(3, dtype=np.int64), np.zeros(0)
    mean = crowd @ RELIABILITY / crowd.sum()
    assert expected_reliability(*nobodys, 3, crowd) == pytest.approx([mean, mean])
    labels, _ = simulated(9, n_workers=30, n_tasks=60, labels_per_task=5)
    found = fit_honest(labels.keep_workers(np.arange(30) < 28))
    assert found.reliability[28] == found.reliability[29] != 0.75


def test_workers_not_looked_at_have_the_reliability_that_the_grid_gives(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A crowd of five labels each, a third of it looked at: by polynomials, and all on the grid."""
    labels, _ = simulated(9, n_workers=60, n_tasks=60, labels_per_task=5, n_classes=3)
    monkeypatch.setattr("quality.reputation.honest_population.MAX_FITTED", 20)
    found = fit_honest(labels)
    monkeypatch.setattr("quality.reputation.honest_null.FEW", 0)
    on_grid = fit_honest(labels)
    np.testing.assert_allclose(found.reliability, on_grid.reliability, rtol=1e-10)
    np.testing.assert_allclose(
        found.population.probability, on_grid.population.probability, rtol=1e-8
    )
    assert np.ptp(found.reliability) > 0.05


def test_a_crowd_that_is_renumbered_is_judged_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    """P-values, the population and the level drawn with the same numbers, up to the rounding of sums."""
    labels, _ = simulated(
        10, n_workers=50, n_tasks=60, labels_per_task=5, adversaries={"malicious": 8}
    )
    everybody, found = np.full(50, True), []
    for most in (100, 1):
        monkeypatch.setattr("quality.labels.nearness.MANY_WORKERS", most)
        null = honest_null(labels, everybody)
        level = honest_level(labels, null, false_removal_rate=0.1, rng=np.random.default_rng(3))
        onward = honest_null(labels, everybody, before=null.fit)
        found.append((null.p_value, null.fit.reliability, onward.p_value, level))
        assert (null.fit.near.row is None) == (most == 100)
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(other, one, rtol=1e-9)


@pytest.mark.parametrize("n_labels", [1, 31, 32, 33, 64, 65])
def test_evidence_is_the_likelihood_over_the_largest(n_labels: int) -> None:
    """On both sides of where powers of two are taken out, against a product in logarithms throughout."""
    rng = np.random.default_rng(n_labels)
    right, evidence = rng.random(n_labels), np.empty((1, len(RELIABILITY)))
    rows = np.arange(1), np.arange(n_labels), np.array([0, n_labels])
    write_evidence(*rows, right, 3, RELIABILITY, evidence, *evidence_work())
    flat = (1 - right[:, None]) / 2
    log_p = np.log(flat + (right[:, None] - flat) * RELIABILITY).sum(axis=0)
    np.testing.assert_allclose(evidence[0], np.exp(log_p - log_p.max()), rtol=1e-11)


@pytest.mark.parametrize("n_wrong", [0, 50, 3000])
def test_evidence_keeps_what_later_labels_bring_back(n_wrong: int) -> None:
    """Of a hundred right labels at first, which leave the least reliability nothing that a double holds."""
    right, evidence = np.repeat([1.0, 0.0], [100, n_wrong]), np.empty((1, len(RELIABILITY)))
    rows = np.arange(1), np.arange(len(right)), np.array([0, len(right)])
    write_evidence(*rows, right, 2, RELIABILITY, evidence, *evidence_work())
    log_p = 100 * np.log(RELIABILITY) + n_wrong * np.log1p(-RELIABILITY)
    expected = np.exp(log_p - log_p.max())
    np.testing.assert_allclose(evidence[0], expected, rtol=1e-10, atol=1e-300)


@pytest.mark.parametrize(
    ("n_workers", "n_flagged", "n_removed"), [(99, 8, 4), (300, 8, 4), (300, 5, 3), (900, 12, 9)]
)
def test_half_of_the_flagged_go_and_more_while_they_gave_a_hundredth_of_the_labels(
    n_workers: int, n_flagged: int, n_removed: int
) -> None:
    """Each worker has four labels."""
    labels, _ = simulated(0, n_workers=n_workers, n_tasks=2 * n_workers, labels_per_task=2)
    null = honest_null(labels, np.ones(n_workers, dtype=np.bool_))
    rounds = Rounds(ShrinkingCrowd(labels), 0)
    rounds.remove(np.arange(n_flagged, dtype=np.int32), null)
    assert [worker for worker, _ in rounds.removals.removed] == list(range(n_removed))
