"""Groups that vote once: the majority of the members, none where they are level, shards alike."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quality import CrowdLabels, LocalEngine, cut_labels
from quality.labels import join_shards, of_voters, voters
from tests.quality.labels.strategies import crowds

QUICK = settings(max_examples=60, deadline=None, derandomize=True)


@st.composite
def grouped(draw: st.DrawFn) -> tuple[CrowdLabels, np.ndarray]:
    """A small table and the groups of its workers."""
    labels = draw(crowds())
    codes = st.lists(st.integers(-1, 2), min_size=labels.n_workers, max_size=labels.n_workers)
    return labels, np.array(draw(codes))


def slow_votes(labels: CrowdLabels, groups: np.ndarray) -> dict[tuple[int, int], int]:
    """Label of each (voter, task), by counting in dictionaries."""
    given_labels: dict[tuple[int, int], Counter[int]] = {}
    for worker, task, label in zip(
        labels.worker.tolist(), labels.task.tolist(), labels.label.tolist(), strict=True
    ):
        alone = groups[worker] < 0
        voter = worker if alone else int(np.flatnonzero(groups == groups[worker])[0])
        given_labels.setdefault((voter, task), Counter())[label] += 1
    votes = {}
    for place, counts in given_labels.items():
        most = max(counts.values())
        best = [label for label, count in counts.items() if count == most]
        if len(best) == 1:
            votes[place] = best[0]
    return votes


@QUICK
@given(table=grouped())
def test_a_group_gives_the_label_of_most_of_its_members_and_none_where_two_are_level(
    table: tuple[CrowdLabels, np.ndarray],
) -> None:
    labels, groups = table
    merged = labels.merge_workers(groups)
    rows = zip(merged.worker.tolist(), merged.task.tolist(), strict=True)
    assert dict(zip(rows, merged.label.tolist(), strict=True)) == slow_votes(labels, groups)
    order = np.lexsort((merged.worker, merged.task))
    assert np.array_equal(order, np.arange(merged.n_labels))


@QUICK
@given(table=grouped())
def test_shards_merged_are_the_merged_table(table: tuple[CrowdLabels, np.ndarray]) -> None:
    labels, groups = table
    cuts = sorted({0, labels.n_tasks // 2, labels.n_tasks})
    engine = LocalEngine(cut_labels(labels, cuts)).merge_workers(groups)
    joined = join_shards(engine.map(lambda shard, _: shard, None), labels)
    merged = labels.merge_workers(groups)
    for name in ("worker", "task", "label", "task_start"):
        assert np.array_equal(getattr(joined, name), getattr(merged, name))


@QUICK
@given(labels=crowds())
def test_without_groups_the_table_is_itself(labels: CrowdLabels) -> None:
    assert labels.merge_workers(None) is labels
    alone = labels.merge_workers(np.full(labels.n_workers, -1))
    for name in ("worker", "task", "label", "task_start", "worker_order", "worker_start"):
        assert np.array_equal(getattr(alone, name), getattr(labels, name))


def test_members_share_what_is_estimated_of_their_voter() -> None:
    groups = np.array([-1, 4, -1, 4, 4])
    assert voters(groups).tolist() == [0, 1, 2, 1, 1]
    assert of_voters(np.arange(5.0), groups).tolist() == [0, 1, 2, 1, 1]
    values = np.arange(5.0)
    assert of_voters(values, None) is values


@pytest.mark.refusal
@pytest.mark.parametrize(
    ("groups", "message"),
    [
        (np.array([0, 0]), "groups must be 3 codes"),
        (np.array([0.0, 0.0, 1.0]), "groups must be 3 codes"),
        (np.array([0, 0, -2]), "groups must be codes of at least -1, got -2"),
    ],
)
def test_groups_that_are_no_codes_are_refused(groups: np.ndarray, message: str) -> None:
    one = np.arange(3)
    labels = CrowdLabels.from_codes(one, one, one, workers=one, tasks=one, classes=one)
    with pytest.raises(ValueError, match=message):
        labels.merge_workers(groups)
