"""Members who count one by one: what labels of others say of them."""

import numpy as np
import pytest
from scipy.special import expit

from quality import (
    CrowdLabels,
    LocalEngine,
    cut_labels,
    dependent_groups,
    encode,
    hierarchical_dawid_skene,
    one_coin_dawid_skene,
    regular_assignment,
    simulate_crowd,
)
from quality.aggregation import confusion_under
from quality.dependence import outsiders


def crowd(n_tasks: int = 300) -> CrowdLabels:
    """Twenty honest workers, and four sybils with the last codes."""
    rng = np.random.default_rng(0)
    rows = regular_assignment(n_tasks=n_tasks, n_workers=20, labels_per_task=4, rng=rng)
    truth = rng.integers(3, size=n_tasks)
    drawn = simulate_crowd(rows, truth, n_classes=3, adversaries={"sybils": 4}, rng=rng)
    return encode(drawn.worker, drawn.task, drawn.label)


def log_chances(labels: CrowdLabels, groups: np.ndarray) -> np.ndarray:
    """Each label's log-probability given the others of its task: two consensuses, label by label."""
    found = np.zeros(labels.n_labels)
    for rule in (one_coin_dawid_skene, hierarchical_dawid_skene):
        posterior = rule(labels, groups=groups, tol=outsiders.SETTLED).posterior
        confusion = confusion_under(labels, posterior)
        for row in range(labels.n_labels):
            chance = confusion[labels.worker[row], :, labels.label[row]]
            without = posterior[labels.task[row]] / chance  # belief without this label, unscaled
            found[row] += np.log(without @ chance / without.sum()) / 2
    return found


def panel(seed: int = 8) -> CrowdLabels:
    """Twenty honest workers who label everything: on hard tasks all but the best take a tempting answer."""
    rng = np.random.default_rng(seed)
    truth, wrong = rng.integers(4, size=300), rng.integers(1, 4, size=300)
    known = expit(rng.normal(0.8, 1.2, (20, 1)) - rng.normal(0.0, 2.0, 300))
    guess = np.where(
        rng.random((20, 300)) < 0.8, (truth + wrong) % 4, rng.integers(4, size=(20, 300))
    )
    label = np.where(rng.random((20, 300)) < known, truth, guess)
    worker, task = np.divmod(np.arange(label.size), 300)
    return encode(worker, task, label[worker, task])


def sides_task_by_task(labels: CrowdLabels, groups: np.ndarray, code: int) -> float:
    """How far others who are right more often elsewhere give the group's wrong-looking answer."""
    fit = one_coin_dawid_skene(labels, groups=groups, tol=outsiders.SETTLED)
    of_task = [np.flatnonzero(labels.task == task) for task in range(labels.n_tasks)]
    answer = np.full(labels.n_tasks, -1)
    for task, own in enumerate(of_task):
        given = labels.label[own[groups[labels.worker[own]] == code]]
        odd = [c for c in range(labels.n_classes) if c != fit.label[task]]
        number = [np.count_nonzero(given == c) for c in odd]
        answer[task] = odd[int(np.argmax(number))] if max(number) >= 2 else -1
    right = fit.posterior[labels.task, labels.label]
    plain = (groups[labels.worker] != code) & (answer[labels.task] < 0)
    mean = right[plain].mean()
    share = [
        (right[plain & (labels.worker == w)].sum() + mean)
        / (np.count_nonzero(plain & (labels.worker == w)) + 1)
        for w in range(labels.n_workers)
    ]
    sums = []
    for odd_one in np.flatnonzero(answer >= 0):
        rows = of_task[odd_one][groups[labels.worker[of_task[odd_one]]] != code]
        better = np.array(share)[labels.worker[rows]]
        sums.append(((better - better.mean()) * (labels.label[rows] == answer[odd_one])).sum())
    return float(np.sum(sums) / np.sqrt(np.sum(np.square(sums))))


GROUPS = np.repeat([0, -1, 1], [4, 16, 4])
BEST = [1, 2, 4, 8, 13, 16]


def test_honest_workers_are_no_group_if_the_better_of_the_others_side_with_them() -> None:
    labels = panel()
    assert (dependent_groups(labels).group == -1).all()
    best = np.where(np.isin(np.arange(20), BEST), 0, -1)  # a group but for the others' sides
    engine = LocalEngine(cut_labels(labels, [0, 300]))
    assert outsiders.gains_one_by_one(engine, best, labels.n_labels)[0] < -2
    assert outsiders.sided_with(engine, best, labels.n_labels)[0] > 2
    judged = engine, best, labels.n_labels
    assert outsiders.better_apart(*judged, np.array([False])).tolist() == [True]
    assert outsiders.better_apart(*judged, np.array([True])).tolist() == [False]


def test_groups_are_judged_again_when_one_is_dropped() -> None:
    labels = panel(19)
    groups = np.full(20, -1)
    groups[[0, 1, 5, 7, 13, 17]], groups[[9, 11, 14, 15, 16, 19]] = 0, 1
    engine = LocalEngine(cut_labels(labels, [0, 300]))
    sides = outsiders.sided_with(engine, groups, labels.n_labels)
    assert (sides > 2).tolist() == [False, True]
    apart = outsiders.better_apart(engine, groups, labels.n_labels, np.array([False, False]))
    assert apart.tolist() == [True, True]
    assert (dependent_groups(labels).group == -1).all()


@pytest.mark.parametrize("cuts", [[0, 300], [0, 70, 200, 300]])
def test_better_workers_side_as_counted_task_by_task(cuts: list[int]) -> None:
    labels = crowd()
    engine = LocalEngine(cut_labels(labels, cuts))
    groups = np.where(np.arange(24) >= 20, 0, -1)
    groups[[0, 1]] = 1
    sides = outsiders.sided_with(engine, groups, labels.n_labels)
    assert sides[0] == pytest.approx(sides_task_by_task(labels, groups, 0))
    assert sides[0] < 0


@pytest.mark.parametrize("cuts", [[0, 300], [0, 70, 200, 300]])
def test_the_gain_is_that_of_others_labels_one_by_one(cuts: list[int]) -> None:
    labels = crowd()
    engine = LocalEngine(cut_labels(labels, cuts))
    gains = outsiders.gains_one_by_one(engine, GROUPS, labels.n_labels)
    together = log_chances(labels, GROUPS)
    for code in (0, 1):
        gain = log_chances(labels, np.where(code == GROUPS, -1, GROUPS)) - together
        member = code == GROUPS[labels.worker]
        has_member = np.bincount(labels.task, member, labels.n_tasks) > 0
        rows = has_member[labels.task] & ~member
        of_task = np.bincount(labels.task[rows], gain[rows], labels.n_tasks)
        assert gains[code] == pytest.approx(of_task.sum() / np.sqrt((of_task**2).sum()))
    assert gains[0] > -2 > gains[1]


def test_of_a_large_table_every_nth_task_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    labels = crowd()
    engine = LocalEngine(cut_labels(labels, [0, 100, 300]))
    monkeypatch.setattr(outsiders, "ENOUGH", labels.n_labels // 3 + 1)
    thinned = outsiders.gains_one_by_one(engine, GROUPS, labels.n_labels)
    some = labels.keep_labels(labels.task % 3 == 0)
    whole = LocalEngine(cut_labels(some, [0, 100, 300]))
    expected = outsiders.gains_one_by_one(whole, GROUPS, some.n_labels)
    assert thinned.tolist() == expected.tolist()


def test_groups_beyond_the_largest_are_kept_unjudged(monkeypatch: pytest.MonkeyPatch) -> None:
    labels = crowd()
    monkeypatch.setattr(outsiders, "MOST_GROUPS", 1)
    engine = LocalEngine(cut_labels(labels, [0, 300]))
    gains = outsiders.gains_one_by_one(engine, GROUPS, labels.n_labels)
    assert np.isfinite(gains).tolist() == [True, False]
    sides = outsiders.sided_with(engine, GROUPS, labels.n_labels)
    assert np.isfinite(sides).tolist() == [True, False]
    assert dependent_groups(labels).group.max() == 0


def test_where_nobody_else_labels_a_groups_tasks_nothing_is_gained() -> None:
    labels = encode(["ann", "bob"] * 9, np.repeat(np.arange(9), 2), list("xxyyxy" * 3))
    engine = LocalEngine(cut_labels(labels, [0, 9]))
    assert outsiders.gains_one_by_one(engine, np.array([0, 0]), 18).tolist() == [0.0]
    assert outsiders.sided_with(engine, np.array([0, 0]), 18).tolist() == [0.0]
