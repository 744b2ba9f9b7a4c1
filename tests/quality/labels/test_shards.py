"""Tables in shards: every result is the whole table's, on any number of threads and from any point."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quality import (
    CrowdLabels,
    balanced_loads,
    balanced_penalty,
    conflict_graph,
    conflict_graph_by_shards,
    conflict_tasks,
    dependent_groups,
    encode,
    filter_workers,
    krippendorff_alpha,
    load_levels,
    majority_vote,
    regular_assignment,
    simulate_crowd,
    soft_penalty,
    worker_agreement,
)
from quality.aggregation.sharded_em import (
    majority_of_shard,
)
from quality.labels.shards import (
    LabelShard,
    LocalEngine,
    add_parts,
    cut_labels,
    join_shards,
    tree_total,
)
from quality.reports.agreement import crowd_sums
from quality.reputation.penalties import soft_penalty_by_shards
from quality.reputation.sharded_filtering import filter_workers_by_shards
from tests.quality.labels.strategies import crowds

QUICK = settings(max_examples=30, deadline=None, derandomize=True)
CUTS = st.lists(st.floats(0, 1), max_size=4)


def crowd_of(rng: np.random.Generator, n_tasks: int = 400, n_workers: int = 25) -> CrowdLabels:
    """Three classes, five labels a task, a fifth of the workers at random."""
    rows = regular_assignment(n_tasks=n_tasks, n_workers=n_workers, labels_per_task=5, rng=rng)
    truth = rng.integers(3, size=n_tasks)
    adversaries = {"random": n_workers // 5}
    crowd = simulate_crowd(rows, truth, n_classes=3, adversaries=adversaries, rng=rng)
    return encode(crowd.worker, crowd.task, crowd.label)


def cut_at(labels: CrowdLabels, places: list[float], **gold: np.ndarray) -> LocalEngine:
    inner = sorted(int(place * labels.n_tasks) for place in places)
    return LocalEngine(cut_labels(labels, [0, *inner, labels.n_tasks], **gold), threads=2)


def level_by_level(parts: list[int]) -> str:
    """The oracle of the tree: neighbours in pairs, again and again, as text with brackets."""
    level = [str(part) for part in parts]
    while len(level) > 1:
        pairs = [level[at : at + 2] for at in range(0, len(level), 2)]
        level = [f"({pair[0]}+{pair[1]})" if len(pair) == 2 else pair[0] for pair in pairs]
    return level[0]


class Words:
    """What is added up to see in which order."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __add__(self, other: Words) -> Words:
        return Words(f"({self.text}+{other.text})")


@pytest.mark.refusal
@pytest.mark.parametrize("n", range(1, 40))
def test_the_tree_adds_neighbours_level_by_level(n: int) -> None:
    (total,) = tree_total((Words(str(part)),) for part in range(n))  # type: ignore[arg-type]
    assert total.text == level_by_level(list(range(n)))


def test_few_parts_are_kept_at_a_time() -> None:
    """A thousand parts: never more than eleven alive, ten trees and the one that came."""
    alive, most = 0, 0

    class Counted(np.ndarray):
        def __del__(self) -> None:
            nonlocal alive
            alive -= 1

    def part() -> np.ndarray:
        nonlocal alive, most
        alive += 1
        most = max(most, alive)
        return np.ones(1).view(Counted)

    def parts():
        for _ in range(1000):
            yield (part(),)

    assert tree_total(parts())[0][0] == 1000
    assert most <= 12


@pytest.mark.refusal
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"worker": np.array([0, 2, 1])}, r"worker must be codes from 0 to 1, got 0 to 2"),
        ({"worker": np.array([0, -1, 1])}, r"worker must be codes from 0 to 1, got -1 to 1"),
        ({"label": np.array([0, 3, 1])}, r"label must be codes from 0 to 2, got 0 to 3"),
        ({"gold": np.array([-2, 0])}, r"gold must be codes from -1 to 2, got -2 to 0"),
        ({"task_start": np.array([0, 2, 9])}, "task_start must be 3 ends that ascend from 0"),
        ({"task_start": np.array([0, 5, 3])}, "task_start must be 3 ends that ascend from 0"),
        ({"worker": np.array([0, 1])}, "got 3 for 3 labels by 2 workers' codes"),
    ],
)
def test_a_shard_of_codes_out_of_range_is_refused(
    change: dict[str, np.ndarray], message: str
) -> None:
    sound: dict[str, Any] = {
        "worker": np.array([0, 1, 1]), "label": np.array([0, 2, 1]), "gold": np.array([-1, 2]),
        "task_start": np.array([0, 2, 3]), "first_task": 0, "n_workers": 2, "n_classes": 3,
    }  # fmt: skip
    assert LabelShard(**sound).n_labels == 3
    with pytest.raises(ValueError, match=message):
        LabelShard(**(sound | change))


def test_no_parts_and_no_shards_are_refused() -> None:
    with pytest.raises(ValueError, match="parts must be one or more, got none"):
        tree_total([])
    with pytest.raises(ValueError, match="shards must be one or more, got none"):
        LocalEngine([])


def test_parts_are_added_array_by_array() -> None:
    one, other = (np.array([1]), np.array([2.0])), (np.array([3]), np.array([4.0]))
    assert [part.tolist() for part in add_parts(one, other)] == [[4], [6.0]]


@QUICK
@given(crowds(), CUTS)
def test_shards_hold_every_label_once_and_never_split_a_task(
    labels: CrowdLabels, places: list[float]
) -> None:
    inner = sorted(int(place * labels.n_tasks) for place in places)
    shards = cut_labels(labels, [0, *inner, labels.n_tasks])
    joined = join_shards(shards, labels)
    for name in ("worker", "task", "label", "task_start", "worker_order", "worker_start"):
        assert np.array_equal(getattr(joined, name), getattr(labels, name))
    assert all(a.first_task + a.n_tasks == b.first_task for a, b in pairwise(shards))


@pytest.mark.refusal
@pytest.mark.parametrize(
    ("gold", "message"),
    [
        (np.array([np.nan, 0.0]), "gold must be 2 class codes, one per task .* got float64"),
        (np.array([0, 1, 0]), r"gold must be 2 class codes, one per task .* of shape \(3,\)"),
        (np.array([9, 0]), "gold must be class codes from -1 to 1"),
    ],
)
@pytest.mark.parametrize(
    "ask", [dependent_groups, lambda labels, gold: cut_labels(labels, [0, 2], gold=gold)]
)
@pytest.mark.refusal
def test_gold_that_is_not_one_class_code_a_task_is_refused(
    ask: Callable[..., object], gold: np.ndarray, message: str
) -> None:
    labels = encode(["ann", "bob"], [1, 2], ["x", "y"])
    with pytest.raises(ValueError, match=message):
        ask(labels, gold=gold)


@pytest.mark.parametrize("cuts", [[0], [0, 1], [1, 2], [0, 2, 1, 2]])
def test_cuts_that_leave_tasks_out_are_refused(cuts: list[int]) -> None:
    labels = encode(["a", "b"], [1, 2], ["x", "y"])
    with pytest.raises(ValueError, match="cuts must ascend from 0 to 2"):
        cut_labels(labels, cuts)


@QUICK
@given(crowds(), CUTS)
def test_soft_penalty_is_the_whole_tables_to_the_bit(
    labels: CrowdLabels, places: list[float]
) -> None:
    engine = cut_at(labels, places)
    assert soft_penalty_by_shards(engine).tobytes() == soft_penalty(labels).tobytes()


@QUICK
@given(crowds(), CUTS)
def test_the_conflict_graph_and_what_is_shared_on_it_are_the_whole_tables(
    labels: CrowdLabels, places: list[float]
) -> None:
    whole, graph = conflict_graph(labels), conflict_graph_by_shards(cut_at(labels, places))
    assert graph.shape == whole.shape
    for name in ("indptr", "indices", "data"):
        np.testing.assert_array_equal(getattr(graph, name), getattr(whole, name), strict=True)
    np.testing.assert_array_equal(load_levels(graph).level, load_levels(whole).level)
    np.testing.assert_array_equal(balanced_loads(graph).load, balanced_penalty(labels))


@QUICK
@given(crowds(), CUTS, st.integers(0, 4), st.integers(0, 2), st.sampled_from([1, 4, 10_000_000]))
def test_the_filter_is_the_whole_tables_to_the_bit(
    labels: CrowdLabels, places: list[float], n_workers: int, least: int, at_hand: int
) -> None:
    """However many workers' tasks are fetched at once: each one's alone, a few, or all."""
    asked = {"n_workers": n_workers, "min_labels_per_task": least}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("quality.reputation.sharded_filtering.LABELS_AT_HAND", at_hand)
        found = filter_workers_by_shards(cut_at(labels, places), labels.tasks, **asked)
    expected = filter_workers(labels, **asked)
    for name in ("keep", "removed", "removed_penalty", "refused", "refused_penalty"):
        assert getattr(found, name).tobytes() == getattr(expected, name).tobytes()
    assert found.refused_reason == expected.refused_reason
    assert (found.stopped, found.criterion) == (expected.stopped, expected.criterion)


class CountingEngine(LocalEngine):
    """Knows how often it has passed over its shards."""

    passes = 0

    def _each(self, work: Any, parameters: Any) -> Iterator[Any]:
        self.passes += 1
        return super()._each(work, parameters)


def test_the_filter_passes_over_the_shards_once_for_many_removals(rng: np.random.Generator) -> None:
    """Once for penalties, once for all who may go, and once more where agreement breaks a tie."""
    labels = crowd_of(rng, n_workers=50)
    engine = CountingEngine(cut_labels(labels, [0, 90, 300, 400]))
    found = filter_workers_by_shards(engine, labels.tasks, n_workers=15)
    assert len(found.removed) == 15
    assert 2 <= engine.passes <= 3


def test_who_was_refused_is_not_fetched_again(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody can go; fifty workers of 40 labels are fetched by tens."""
    monkeypatch.setattr("quality.reputation.sharded_filtering.LABELS_AT_HAND", 400)
    labels = crowd_of(rng, n_workers=50)
    engine = CountingEngine(cut_labels(labels, [0, 90, 300, 400]))
    asked = {"n_workers": 1, "min_labels_per_task": 5}
    found = filter_workers_by_shards(engine, labels.tasks, **asked)
    assert len(found.refused) == 50
    assert 5 <= engine.passes - 1 <= 6  # agreement may take one


@pytest.mark.parametrize(
    "asked", [{}, {"n_workers": 1, "fraction": 0.1}, {"fraction": 2.0}, {"n_workers": -1}]
)
def test_the_filter_refuses_what_the_whole_tables_does(asked: dict[str, float]) -> None:
    labels = encode(["a", "b"], [1, 1], ["x", "y"])
    with pytest.raises(ValueError) as expected:  # noqa: PT011  # the same words are asked for below
        filter_workers(labels, **asked)
    with pytest.raises(ValueError) as found:  # noqa: PT011
        filter_workers_by_shards(cut_at(labels, []), labels.tasks, **asked)
    assert str(found.value) == str(expected.value)


@QUICK
@given(crowds(), CUTS, st.integers(0, 2**32 - 1))
def test_sums_about_workers_are_the_whole_tables(
    labels: CrowdLabels, places: list[float], seed: int
) -> None:
    rng = np.random.default_rng(seed)
    gold = rng.integers(-1, 3, size=labels.n_tasks)
    keep = rng.random(labels.n_workers) < 0.8
    kept = labels.keep_workers(keep)
    found = crowd_sums(cut_at(labels, places, gold=gold), keep, keep, majority_of_shard, None)
    assert np.array_equal(found.n_labels, np.diff(labels.worker_start))
    agreement = worker_agreement(labels, majority_vote(kept).label)
    assert np.array_equal(found.agreement, agreement, equal_nan=True)
    of_worker = [labels.worker == worker for worker in range(labels.n_workers)]
    known, truth = gold[labels.task] >= 0, gold[labels.task]
    conflict = conflict_tasks(labels)[labels.task]
    for worker, rows in enumerate(of_worker):
        assert found.gold_n[worker] == np.count_nonzero(rows & known)
        assert found.gold_correct[worker] == np.count_nonzero(rows & (labels.label == truth))
        assert found.n_conflict[worker] == np.count_nonzero(rows & conflict)
        named = set(labels.label[rows].tolist())
        constant = len(named) == 1 and rows.sum() > 1
        assert found.only_class[worker] == (named.pop() if constant else -1)
    for table, alpha in ((labels, found.alpha), (kept, found.alpha_kept)):
        assert alpha == pytest.approx(krippendorff_alpha(table), abs=1e-12, nan_ok=True)


@QUICK
@given(crowds(), CUTS, st.integers(0, 2**32 - 1))
def test_an_engine_of_kept_workers_is_that_of_the_kept_labels(
    labels: CrowdLabels, places: list[float], seed: int
) -> None:
    keep = np.random.default_rng(seed).random(labels.n_workers) < 0.6
    inner = sorted(int(place * labels.n_tasks) for place in places)
    cuts = [0, *inner, labels.n_tasks]
    expected = cut_labels(labels.keep_workers(keep), cuts)
    in_memory = LocalEngine(cut_labels(labels, cuts)).keep_workers(keep)
    loaded = LocalEngine([lambda s=s: s for s in cut_labels(labels, cuts)]).keep_workers(keep)
    for engine in (in_memory, loaded):
        for found, part in zip(engine.map(itself, None), expected, strict=True):
            for name in ("worker", "label", "task_start", "gold"):
                assert np.array_equal(getattr(found, name), getattr(part, name))


@pytest.mark.refusal
@pytest.mark.parametrize(
    "keep", [np.ones(3, dtype=int), np.ones(2, dtype=bool), np.ones(9, dtype=bool)]
)
def test_workers_to_keep_are_one_truth_value_each(keep: np.ndarray) -> None:
    """Ones that are numbers would be places of rows: each row would be the second."""
    labels = encode(["ann", "bob", "cy", "ann"], [1, 1, 2, 2], list("xyxx"))
    shards = cut_labels(labels, [0, 1, 2])
    with pytest.raises(ValueError, match="keep must be 3 truth values, one per worker, got"):
        LocalEngine(shards).keep_workers(keep)
    with pytest.raises(ValueError, match="keep must be 2 truth values, one per label, got"):
        shards[0].keep_labels(np.ones(3, dtype=bool))


def itself(shard: LabelShard, _: object) -> LabelShard:
    return shard


@pytest.mark.parametrize("threads", [1, 2, 7])
def test_an_engine_gives_the_same_bytes_on_any_number_of_threads(threads: int) -> None:
    shares = np.random.default_rng(0).dirichlet(np.ones(300), size=1)[0]  # sums show their order
    labels = encode(np.arange(300) % 7, np.arange(300), np.zeros(300, dtype=int))
    shards = cut_labels(labels, list(range(0, 301, 20)))

    def work(shard: LabelShard, parameters: np.ndarray) -> tuple[np.ndarray]:
        return (parameters[shard.first_task : shard.first_task + shard.n_tasks].cumsum(),)

    one, other = LocalEngine(shards, threads=threads), LocalEngine(shards, threads=3)
    assert one.add_up(work, shares)[0].tobytes() == other.add_up(work, shares)[0].tobytes()


def test_nothing_is_kept_of_a_shard_that_is_loaded(rng: np.random.Generator) -> None:
    """Three threads: the loads of one pass are as many as the shards, and begin anew in the next."""
    shards, loads = cut_labels(crowd_of(rng), range(0, 401, 50)), []

    def loader(number: int):
        def load() -> LabelShard:
            loads.append(number)
            return shards[number]

        return load

    engine = LocalEngine([loader(number) for number in range(8)], threads=3)
    for _ in range(2):
        assert engine.map(lambda shard, _: shard.first_task, None) == list(range(0, 400, 50))
    assert sorted(loads) == sorted([*range(8)] * 2)
