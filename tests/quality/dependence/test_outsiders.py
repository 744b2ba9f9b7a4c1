"""Members who count one by one: what labels of others say of them."""

import numpy as np
import pytest

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


GROUPS = np.repeat([0, -1, 1], [4, 16, 4])


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
    assert dependent_groups(labels).group.max() == 0


def test_where_nobody_else_labels_a_groups_tasks_nothing_is_gained() -> None:
    labels = encode(["ann", "bob"] * 9, np.repeat(np.arange(9), 2), list("xxyyxy" * 3))
    engine = LocalEngine(cut_labels(labels, [0, 9]))
    assert outsiders.gains_one_by_one(engine, np.array([0, 0]), 18).tolist() == [0.0]
