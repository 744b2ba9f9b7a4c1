"""M-MSR: skills that are known, pairs against loops, and colluders who are left out."""

from collections.abc import Callable

import numpy as np
import pytest

from quality import CrowdLabels, encode, majority_vote, mmsr
from quality.aggregation.mmsr_pairs import LEAST, _Pairs, _pairs, _signs, trimmed_means
from quality.labels import LabelError
from quality.many_classes import mmsr_of_named


def crowd(
    rng: np.random.Generator, right: np.ndarray, n_tasks: int = 2000, n_classes: int = 2
) -> tuple[CrowdLabels, np.ndarray]:
    """Every worker labels every task, and errs evenly."""
    truth = rng.integers(n_classes, size=n_tasks)
    wrong = (truth + rng.integers(1, n_classes, size=(len(right), n_tasks))) % n_classes
    label = np.where(rng.random(wrong.shape) < right[:, None], truth, wrong)
    worker, task = np.divmod(np.arange(label.size), n_tasks)
    return encode(worker, task, label.ravel()), truth


@pytest.mark.parametrize("n_classes", [2, 4])
def test_skills_are_found(rng: np.random.Generator, n_classes: int) -> None:
    """Standard error of an agreement about .02, of a skill less; an adversary's is negative."""
    right = np.array([0.95, 0.9, 0.85, 0.8, 0.75, 0.7, 0.65, 0.6, 1 / n_classes / 2])
    labels, _ = crowd(rng, right, n_classes=n_classes)
    skill = (n_classes * right - 1) / (n_classes - 1)
    assert mmsr(labels).skill == pytest.approx(skill, abs=0.12)


def test_colluders_are_left_out(rng: np.random.Generator) -> None:
    """Three of fifteen copy one guesser: to each other they look perfect."""
    labels, truth = crowd(rng, np.full(12, 0.7), n_tasks=500)
    guess = rng.integers(2, size=500)
    worker = np.concatenate([labels.worker, 12 + np.arange(1500) // 500])
    task = np.concatenate([labels.task, np.arange(1500) % 500])
    given = np.concatenate([labels.label, np.tile(guess, 3)])
    result = mmsr(encode(worker, task, given))
    assert (np.abs(result.skill[12:]) < 0.25).all()
    assert (result.skill[:12] > 0.25).all()
    kept_all = mmsr(encode(worker, task, given), trim=0.0)
    assert np.abs(result.skill[12:]).max() < np.abs(kept_all.skill[12:]).max()
    vote = majority_vote(encode(worker, task, given))
    assert np.mean(result.label == truth) > np.mean(vote.label == truth)


def test_pairs_are_those_of_loops(rng: np.random.Generator) -> None:
    rows = np.unique(rng.integers(12, size=(90, 2)), axis=0)
    labels = encode(rows[:, 0], rows[:, 1], rng.integers(3, size=len(rows)))
    given = {(w, t): k for w, t, k in zip(labels.worker, labels.task, labels.label, strict=True)}
    pairs = _pairs(labels)
    found = zip(pairs.worker, pairs.partner, pairs.n_common, pairs.beyond, strict=True)
    expected = []
    for worker in range(labels.n_workers):
        for partner in range(labels.n_workers):
            both = [t for t in range(labels.n_tasks) if {(worker, t), (partner, t)} <= given.keys()]
            if both and worker != partner:
                same = np.mean([given[worker, t] == given[partner, t] for t in both])
                expected.append((worker, partner, len(both), (3 * same - 1) / 2))
    assert np.array(list(found)) == pytest.approx(np.array(expected))


@pytest.mark.parametrize("trim", [0.0, 0.25, 0.45])
def test_trimmed_means_are_those_of_a_sort(rng: np.random.Generator, trim: float) -> None:
    """Few distinct agreements and sizes, so that many of what partners say are equal."""
    n_workers, degree = 30, 20
    partner = np.array(
        [
            np.sort(rng.choice(np.delete(np.arange(n_workers), w), degree, replace=False))
            for w in range(n_workers)
        ]
    ).ravel()
    n_common = rng.integers(1, 4, partner.size).astype(float)
    beyond, size = rng.integers(-4, 5, partner.size) / 4, rng.integers(5, size=n_workers) / 4
    start = np.arange(n_workers + 1) * degree
    found = trimmed_means(start, partner, n_common, beyond, size, trim)
    held = np.maximum(size[partner], LEAST).reshape(n_workers, degree)
    said, weight = beyond.reshape(held.shape) / held, n_common.reshape(held.shape) * held**2
    for worker in range(n_workers):
        own, now = said[worker], size[worker]
        low = min(int(trim * degree), int((own < now).sum()))
        high = min(int(trim * degree), int((own > now).sum()))
        before, after = ((own[:, None] > own).sum(axis=1), (own[:, None] >= own).sum(axis=1))
        stay = np.minimum(after, degree - high) - np.maximum(before, low)
        kept = np.maximum(stay, 0) / (after - before)  # of equals the same part of each
        mean = np.average(own, weights=kept * weight[worker])
        assert found[worker] == pytest.approx(np.clip(mean, 0.0, 1.0), rel=1e-12)


def test_guessers_with_few_tasks_in_common_have_little_skill(rng: np.random.Generator) -> None:
    """Two who share one task agree on it or not: noise of either sign, which must cancel in the mean."""
    task = np.repeat(np.arange(2000), 5)
    worker = np.concatenate([rng.choice(200, 5, replace=False) for _ in range(2000)])
    result = mmsr(encode(worker, task, rng.integers(2, size=10_000)))
    assert np.abs(np.median(result.skill)) < 0.3


def test_renaming_the_workers_changes_nothing(rng: np.random.Generator) -> None:
    """Few tasks in common, so that many partners say the same: by code order posteriors moved by up to .7."""
    moved = []
    for _ in range(60):
        n_workers, n_tasks = int(rng.integers(4, 20)), int(rng.integers(10, 60))
        rows = np.unique(rng.integers([n_workers, n_tasks], size=(4 * n_tasks, 2)), axis=0)
        given = rng.integers(2, size=len(rows)) * (rng.random(len(rows)) < 0.6)
        one = mmsr(encode(rows[:, 0], rows[:, 1], given))
        other = mmsr(encode(rng.permutation(n_workers)[rows[:, 0]], rows[:, 1], given))
        moved.append(np.abs(one.posterior - other.posterior).max())
    assert max(moved) < 1e-9


def test_two_who_contradict_each_other_do_not_turn_for_ever() -> None:
    """Both turn at once, time and again; they are left as better than chance."""
    pairs = _Pairs(
        np.array([0, 1, 2]), np.array([0, 1]), np.array([1, 0]), np.full(2, 9.0), np.full(2, -0.5)
    )
    assert (_signs(pairs, np.full(2, 0.7)) == 1).all()


def test_the_posterior_is_bayes_rule_of_workers_who_err_evenly(rng: np.random.Generator) -> None:
    labels, _ = crowd(rng, np.array([0.9, 0.7, 0.6]), n_tasks=100)
    result = mmsr(labels)
    chance = (np.clip(result.skill, -0.9, 0.9) + 1) / 2
    for task in range(5):
        given = labels.label[labels.task == task]
        belief = [np.prod(np.where(given == k, chance, 1 - chance)) for k in range(2)]
        assert result.posterior[task] == pytest.approx(np.array(belief) / sum(belief))


def test_a_worker_who_meets_nobody_has_the_median_skill() -> None:
    labels = encode(list("abcabcd"), [1, 1, 1, 2, 2, 2, 3], list("xxyyyyx"))
    skill = mmsr(labels).skill
    assert skill[3] == np.median(skill[:3])


@pytest.mark.parametrize("aggregate", [mmsr, mmsr_of_named])
def test_more_pairs_than_memory_holds_are_refused(aggregate: Callable[..., object]) -> None:
    """Twelve thousand who all labelled one task: 144 million numbers of several kinds."""
    labels = encode(np.arange(12_000), np.zeros(12_000, int), np.arange(12_000) % 2)
    with pytest.raises(
        LabelError, match="at most 67,108,864 pairs of workers .* got up to 71,994,000"
    ):
        aggregate(labels)


@pytest.mark.parametrize("trim", [-0.1, 0.5, np.nan])
def test_a_trim_out_of_its_range_is_refused(trim: float) -> None:
    with pytest.raises(ValueError, match=r"trim must be in \[0, 0.5\), got trim="):
        mmsr(encode(["a", "b"], [1, 1], ["x", "y"]), trim=trim)
