"""Labels held out: their folds, and what predicts them against slow definitions."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quality import CrowdLabels, encode, majority_vote, regular_assignment
from quality.choice.held_out_labels import (
    dealt,
    fold_sizes,
    folds,
    held_folds,
    predict_held_out,
)
from tests.quality.choice.hard_crowds import hardly_knowing, mostly_alone, taking_each_for_the_next
from tests.quality.labels.strategies import crowds

QUICK = settings(max_examples=40, deadline=None, derandomize=True)


@QUICK
@given(crowds(), st.integers(0, 2))
def test_every_label_of_a_task_with_two_or_more_is_held_out_once_a_deal(
    labels: CrowdLabels, deal: int
) -> None:
    fold = dealt(labels.task_start, 0, 4, deal)
    n_labels = np.diff(labels.task_start)
    assert np.array_equal(fold >= 0, n_labels[labels.task] > 1)
    for number in range(4):
        left = np.bincount(labels.task[fold != number], minlength=labels.n_tasks)
        assert (left[n_labels > 0] > 0).all()  # no fold has all of a task's
    for task in range(labels.n_tasks):
        sizes = np.bincount(fold[labels.task == task].clip(0), minlength=4)
        assert sizes.max() <= max(1, -(-n_labels[task] // min(4, max(n_labels[task], 1))))


@given(
    st.lists(st.integers(0, 9), min_size=2, max_size=6), st.integers(1, 200), st.integers(1, 400)
)
def test_whole_deals_are_held_out_while_they_fit_into_enough(
    sizes: list[int], more: int, enough: int
) -> None:
    """Oracle: all folds of all deals that fit, or else the first folds up to enough; no empty one."""
    deals = [np.roll(sizes, deal) + np.arange(len(sizes)) * more % 7 for deal in range(3)]
    total = int(deals[0].sum())
    deals = [one if one.sum() == total else deals[0] for one in deals]
    numbers, n_labels = held_folds(lambda deal: deals[deal], enough)
    n_deals = min(max(enough // max(total, 1), 1), 3)
    expected, left = list[int](), enough
    for number, size in enumerate(np.concatenate(deals[:n_deals]).tolist()):
        if left > 0 and size:
            expected.append(number)
            left -= size
    assert numbers == expected
    assert n_labels == enough - left
    assert n_labels >= min(enough, n_deals * total)


def test_another_deal_holds_out_other_labels_together(rng: np.random.Generator) -> None:
    """Two tasks whose first labels are in one fold of a deal seldom are in the next one's."""
    assignment = regular_assignment(n_tasks=400, n_workers=30, labels_per_task=4, rng=rng)
    labels = encode(assignment.worker, assignment.task, rng.integers(2, size=1600))
    first = [dealt(labels.task_start, 0, 10, deal)[::4] for deal in range(3)]
    together = [one[:, np.newaxis] == one for one in first]
    for one, other in ((0, 1), (0, 2), (1, 2)):
        assert np.mean(together[one][together[other]]) < 0.25
    for deal in range(3):
        assert fold_sizes(labels.task_start, 0, 10, deal).tolist() == [160] * 10


def test_a_fold_has_a_tenth_of_the_labels_where_tasks_have_two(rng: np.random.Generator) -> None:
    """Halves would judge every candidate on one label a task, and choose the simplest."""
    assignment = regular_assignment(n_tasks=400, n_workers=30, labels_per_task=2, rng=rng)
    labels = encode(assignment.worker, assignment.task, rng.integers(2, size=800))
    assert np.bincount(folds(labels, 10)).tolist() == [80] * 10


def test_a_worker_who_labels_everything_is_in_every_fold() -> None:
    worker, task = np.divmod(np.arange(400), 40)
    labels = encode(worker, task, task % 2)
    fold = folds(labels, 5)
    for code in range(10):
        assert np.array_equal(np.bincount(fold[labels.worker == code]), np.full(5, 8))


@QUICK
@given(crowds())
def test_a_prediction_is_by_habit_by_what_a_worker_knows_and_by_common_errors(
    labels: CrowdLabels,
) -> None:
    """Oracle: all three, worker for worker and label for label."""
    check_prediction(labels, folds(labels, 3) == 0)


def test_what_a_crowd_takes_for_another_is_a_common_error() -> None:
    """Oracle, where common errors have a share."""
    labels, _ = taking_each_for_the_next(n_tasks=60, seed=0)
    assert check_prediction(labels, folds(labels, 3) == 0)[1] > 0


def test_what_workers_seem_to_know_need_not_hold() -> None:
    """Oracle, where most labels are their task's only ones: its vote takes each for the truth."""
    labels, _ = mostly_alone(0)
    assert check_prediction(labels, folds(labels, 3) == 0)[0] < 0.7


@pytest.mark.parametrize("seed", range(3))
def test_it_is_no_fault_of_a_posterior_to_be_too_sure(seed: int) -> None:
    labels, _ = mostly_alone(seed)
    out = folds(labels, 10) == 0
    sure = majority_vote(labels.keep_labels(~out)).posterior
    found = [predict_held_out(labels, out, p).mean() for p in (sure, 0.6 * sure + 0.4 / 5)]
    assert found[0] == pytest.approx(found[1], abs=0.15)  # 0.4 to 1 where all of it holds


def check_prediction(labels: CrowdLabels, out: np.ndarray) -> tuple[float, float]:
    """Compare with loops; return how much of what seems known holds, and the share of common errors."""
    posterior = majority_vote(labels.keep_labels(~out)).posterior
    kept = list(zip(labels.worker[~out], labels.task[~out], labels.label[~out], strict=True))
    n_classes = labels.n_classes
    crowd = np.bincount(labels.label[~out], minlength=n_classes) + 1 / n_classes
    errors = np.zeros((n_classes, n_classes))
    for truth in range(n_classes if len(kept) >= n_classes**2 else 0):
        for _, task, label in kept:
            errors[truth, label] += (label != truth) * posterior[task, truth]
        others = np.where(np.arange(n_classes) == truth, 0, crowd)
        errors[truth] = (errors[truth] + 5 * others / others.sum()) / (errors[truth].sum() + 5)
    habit, right, chance, n_labels = {}, {}, {}, {}
    for worker in range(labels.n_workers):
        hers = [(task, label) for by, task, label in kept if by == worker]
        counts = np.bincount(np.array([label for _, label in hers], dtype=int), minlength=n_classes)
        habit[worker] = (counts + 5 * crowd / crowd.sum()) / (len(hers) + 5)
        n_labels[worker] = len(hers)
        right[worker] = sum(posterior[task, label] for task, label in hers)
        chance[worker] = sum(posterior[task] @ habit[worker] for task, _ in hers)
    beyond = {worker: right[worker] - chance[worker] for worker in habit}
    of_all = sum(beyond.values()) / (len(kept) - sum(chance.values()) + 1)
    knows = {
        worker: np.clip((more + 5 * of_all) / (n_labels[worker] - chance[worker] + 5), 0, 0.99)
        for worker, more in beyond.items()
    }
    known = sum(knows[worker] for worker, _, _ in kept) / len(kept)
    rows = list(zip(labels.worker[out], labels.task[out], labels.label[out], strict=True))

    def predicted(trust: float, shared: float) -> np.ndarray:
        expected = []
        for worker, task, label in rows:
            unknown = (1 - shared) * habit[worker][label]
            unknown += shared * (posterior[task] @ errors[:, label])
            hers = trust * knows[worker]
            expected.append(hers * posterior[task, label] + (1 - hers) * unknown)
        return np.log(expected)

    def likely(both: tuple[float, float]) -> float:
        doubt = 20 * np.log(both[0]) + 5 * np.log(1 - both[1])
        return float(predicted(*both).sum() + doubt)

    most = known / (1 - known) if errors.any() else 0
    shares = [at for at in np.linspace(0, 0.9, 10) if at <= most]
    best = max(product(np.linspace(0.1, 1, 10), shares), key=likely)
    found = predict_held_out(labels, out, posterior)
    assert found == pytest.approx(predicted(*best), abs=1e-9)
    return best


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("skill", [0.5, 0.9])
def test_a_posterior_that_renames_the_classes_predicts_worse(skill: float, seed: int) -> None:
    """All labels would be common errors, and nobody would know the truth."""
    labels, truth = hardly_knowing(skill, 5, seed)
    out = folds(labels, 10) == 0
    posterior = np.where(np.eye(5)[truth[labels.tasks]] > 0, 0.96, 0.01)
    found = predict_held_out(labels, out, posterior).mean()
    for renamed in (np.roll(posterior, 1, axis=1), posterior[:, [1, 0, 2, 3, 4]]):
        assert found > predict_held_out(labels, out, renamed).mean() + 0.1
