"""The consensus so far: near the batch fit, the same however it is cut, and honest about who judges whom."""

from __future__ import annotations

import io
from contextlib import suppress

import numpy as np
import pytest

from learners.streams import ConfigError, RunningConsensus, StreamMonitor
from quality import dawid_skene, encode, hierarchical_dawid_skene


def crowd(n_tasks: int = 600, each: int = 5) -> tuple[np.ndarray, ...]:
    """Workers, tasks and labels in random order, and the truth: three classes, skills from .4 to .95."""
    rng = np.random.default_rng(0)
    truth = rng.integers(3, size=n_tasks)
    skill = rng.uniform(0.4, 0.95, size=30)
    worker = np.concatenate([rng.permutation(30)[:each] for _ in range(n_tasks)])
    task = np.repeat(np.arange(n_tasks), each)
    right = rng.random(worker.size) < skill[worker]
    label = np.where(right, truth[task], (truth[task] + rng.integers(1, 3, size=worker.size)) % 3)
    order = rng.permutation(worker.size)
    return worker[order], task[order], label[order], truth


def test_it_comes_within_a_point_of_the_batch_fit_in_one_pass() -> None:
    """On real sets: `python -m benchmarks.learners.running_consensus`."""
    worker, task, label, truth = crowd()
    consensus = RunningConsensus(3)
    consensus.partial_fit(worker, task, label)
    ours = np.mean(consensus.posterior().argmax(axis=1) == truth)
    labels = encode(worker, task, label)
    for fit in (dawid_skene, hierarchical_dawid_skene):
        assert ours >= np.mean(fit(labels).label == truth) - 0.01
    majority = np.stack([np.bincount(task[label == k], minlength=600) for k in range(3)], axis=1)
    assert ours > np.mean(majority.argmax(axis=1) == truth) + 0.02


def by_hand(
    worker: np.ndarray, task: np.ndarray, label: np.ndarray, k: int, quorum: int, revisits: int
) -> tuple[np.ndarray, list[tuple[int, int]]]:
    """Oracle: posterior and judged labels of the model in obvious code, one label after another."""
    given: list[list[int]] = [[] for _ in range(task.max() + 1)]
    counts, crowd = np.zeros((worker.max() + 1, k, k)), np.zeros((k, k))
    mass, post, judged, shared = np.zeros(k), np.full((len(given), k), 1 / k), [], np.zeros((k, k))

    def crowds_rows() -> np.ndarray:
        rate = (7 + np.trace(crowd)) / (10 + crowd.sum())
        even = np.where(np.eye(k) > 0, rate, (1 - rate) / (k - 1))
        return np.asarray((crowd + 1000 * even) / (1000 + crowd.sum(axis=1, keepdims=True)))

    def add(t: int, sign: int) -> None:
        for row in given[t]:
            counts[worker[row], :, label[row]] += sign * post[t]
            crowd[:, label[row]] += sign * post[t]
        mass[:] += sign * post[t] * (len(given[t]) > 0)

    def says(row: int) -> np.ndarray:
        own = counts[worker[row]]
        chance = own[:, label[row]] + 2 * shared[:, label[row]]
        return np.asarray(np.log(chance / (own.sum(axis=1) + 2)))

    def weigh(t: int) -> np.ndarray:
        score = np.log(mass + 1) + sum((says(row) for row in given[t]), np.zeros(k))
        post[t] = np.exp(score - score.max()) / np.exp(score - score.max()).sum()
        return np.asarray(score)

    for row, t in enumerate(task.tolist()):
        shared = crowds_rows() if row % 16 == 0 else shared
        add(t, -1)
        given[t].append(row)
        score = weigh(t)
        for one in {quorum: given[t][::-1]}.get(len(given[t]), [row] * (len(given[t]) > quorum)):
            second, first = np.sort(score - says(one))[-2:]
            judged.append((one, int(np.argmax(score - says(one))) if first - second > 1e-9 else -1))
        add(t, 1)
        for r in range(revisits):
            old = (row * revisits + r) % (task[: row + 1].max() + 1)
            if given[old]:
                add(old, -1)
                weigh(old)
                add(old, 1)
    shared = crowds_rows()
    for t in range(len(given)):
        if given[t]:
            weigh(t)
    return post, judged


@pytest.mark.parametrize(("quorum", "revisits"), [(3, 4), (2, 0), (4, 7)])
def test_posterior_and_judged_labels_are_those_of_the_model_in_obvious_code(
    quorum: int, revisits: int
) -> None:
    worker, task, label, _ = crowd(60)
    consensus = RunningConsensus(3, quorum=quorum, revisits=revisits)
    found = consensus.partial_fit(worker, task, label)
    post, judged = by_hand(worker, task, label, 3, quorum, revisits)
    np.testing.assert_allclose(consensus.posterior(), post, atol=1e-9)
    assert list(zip(found.row.tolist(), found.consensus.tolist(), strict=True)) == judged


def test_the_result_does_not_depend_on_how_the_labels_are_cut() -> None:
    worker, task, label, _ = crowd(100)
    whole, cut = RunningConsensus(3), RunningConsensus(3)
    judged = whole.partial_fit(worker, task, label)
    parts = [
        cut.partial_fit(worker[i : i + 7], task[i : i + 7], label[i : i + 7])
        for i in range(0, worker.size, 7)
    ]
    assert (whole.posterior() == cut.posterior()).all()
    for name in ("row", "worker", "label", "consensus"):
        found = np.concatenate([getattr(part, name) for part in parts])
        np.testing.assert_array_equal(found, getattr(judged, name))


def test_every_label_is_judged_once_where_its_task_has_enough() -> None:
    worker, task, label, _ = crowd(100)
    judged = RunningConsensus(3, quorum=4).partial_fit(worker, task, label)
    assert sorted(judged.row.tolist()) == list(range(500))
    np.testing.assert_array_equal(judged.label, label[judged.row])
    np.testing.assert_array_equal(judged.worker, worker[judged.row])
    assert RunningConsensus(3, quorum=6).partial_fit(worker, task, label).row.size == 0


def test_no_label_judges_itself() -> None:
    """The others give a task the same class whatever the label is."""
    others = np.array([0, 1, 2, 3]), np.zeros(4, int), np.array([1, 1, 0, 1])
    found = set()
    for label in range(3):
        consensus = RunningConsensus(3)
        consensus.partial_fit(*others)
        judged = consensus.partial_fit(np.array([9]), np.array([0]), np.array([label]))
        found.add(int(judged.consensus[0]))
    assert found == {1}


def test_a_tie_judges_nobody() -> None:
    judged = RunningConsensus(2).partial_fit(
        np.array([0, 1, 2]), np.zeros(3, int), np.array([1, 0, 1])
    )
    assert dict(zip(judged.row.tolist(), judged.consensus.tolist(), strict=True)) == {
        0: -1, 1: 1, 2: -1,
    }  # fmt: skip


def test_a_snapshot_restored_goes_on_with_the_same_results_to_the_bit() -> None:
    worker, task, label, _ = crowd(100)
    one = RunningConsensus(3)
    one.partial_fit(worker[:200], task[:200], label[:200])
    again = RunningConsensus.from_snapshot(one.snapshot())
    for consensus in (one, again):
        consensus.partial_fit(worker[200:], task[200:], label[200:])
    assert one.snapshot() == again.snapshot()
    with pytest.raises(ConfigError, match="cannot be read"):
        RunningConsensus.from_snapshot(one.snapshot()[:50])


def test_a_snapshot_whose_directory_is_damaged_is_refused() -> None:
    data = RunningConsensus(2).snapshot()
    for at in range(data.rindex(b"PK\x01\x02"), len(data)):
        for bit in (0, 3):
            bad = bytearray(data)
            bad[at] ^= 1 << bit
            with suppress(ConfigError):
                assert RunningConsensus.from_snapshot(bytes(bad)).snapshot() == data


def test_a_consensus_of_more_classes_goes_on() -> None:
    worker, task, label, _ = crowd(200)
    two = RunningConsensus(3)
    two.partial_fit(worker, task, label)
    wide = two.with_classes(5)
    post = wide.posterior()
    assert post.shape == (200, 5)
    assert (post[:, :3].argmax(axis=1) == two.posterior().argmax(axis=1)).mean() > 0.98
    wide.partial_fit(np.arange(30, 36), np.full(6, 300), np.full(6, 4))
    assert wide.posterior()[300].argmax() == 4
    with pytest.raises(ConfigError, match="at least 5"):
        wide.with_classes(2)


def test_a_task_without_labels_is_not_decided() -> None:
    consensus = RunningConsensus(2)
    consensus.partial_fit(np.array([0]), np.array([3]), np.array([1]))
    np.testing.assert_allclose(consensus.posterior()[:3], 0.5)
    np.testing.assert_allclose(consensus.with_classes(4).posterior()[:3], 0.25)
    assert consensus.n_tasks == 4
    assert consensus.n_rows == 1


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (([0], [0], [2]), "labels must be below 2, got 2"),
        (([-1], [0], [0]), "workers must be >= 0"),
        # as an int64 it would be below 0, and written outside of the counts
        ((np.array([2**63 + 1], np.uint64), [0], [0]), "workers must be below"),
        (([0], np.array([2**63 + 1], np.uint64), [0]), "tasks must be below"),
        (([10**14], [0], [0]), "workers must be below"),
        (([0], [-2], [0]), "tasks must be >= 0"),
        (([0, 1], [0], [0]), "vectors of the same length"),
        ((0, 0, 0), "vectors of the same length"),
        (([0.7], [0], [0]), "workers must be whole numbers, got float64"),
        (([0], [np.nan], [0]), "tasks must be whole numbers"),
        (([0], [0], [1.2]), "labels must be whole numbers"),
    ],
)
def test_labels_that_do_not_fit_are_refused(columns: tuple[list[int], ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        RunningConsensus(2).partial_fit(*(np.array(one) for one in columns))


def test_numbers_that_are_too_small_are_refused() -> None:
    for knobs in (
        {"n_classes": 1},
        {"n_classes": 2, "quorum": 1},
        {"n_classes": 2, "revisits": -1},
    ):
        with pytest.raises(ConfigError, match="must be whole numbers >= 2"):
            RunningConsensus(**knobs)


@pytest.mark.refusal
def test_a_quorum_that_is_no_whole_number_is_refused_and_not_cut() -> None:
    with pytest.raises(ConfigError, match="must be whole numbers >= 2.*quorum=2.5"):
        RunningConsensus(2, quorum=2.5)  # type: ignore[arg-type]


def test_numbers_that_memory_does_not_hold_are_refused_in_a_sentence(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def full(*_: object) -> None:
        raise MemoryError

    consensus, one = RunningConsensus(2), np.array([0])
    monkeypatch.setattr(np, "full", full)
    with pytest.raises(ValueError, match="does not hold 10001 workers and 1 tasks"):
        consensus.partial_fit(one + 10_000, one, one)
    assert consensus.n_rows == 0


@pytest.mark.parametrize("n_classes", [10**7, 10**30])
def test_classes_that_memory_does_not_hold_are_refused_in_a_sentence(n_classes: int) -> None:
    sentence = f"memory does not hold the counts of 64 workers for n_classes={n_classes}"
    with pytest.raises(ConfigError, match=sentence):
        RunningConsensus(n_classes)
    with pytest.raises(ConfigError, match=sentence):
        RunningConsensus(2).with_classes(n_classes)


def test_a_large_quorum_takes_no_memory_and_judges_nobody() -> None:
    """Room was made for `quorum` judged labels at each label: 1.4 PB here."""
    consensus = RunningConsensus(2, quorum=10**9)
    n = 100_000
    judged = consensus.partial_fit(np.arange(n) % 100, np.arange(n) // 5, np.zeros(n, int))
    assert len(judged.row) == 0
    for knob in ("quorum", "revisits"):
        with pytest.raises(ConfigError, match=f"below 4294967296, .*{knob}=1000000000000"):
            RunningConsensus(2, **{knob: 10**12})


def test_a_task_that_comes_to_its_quorum_at_once_is_judged_whole() -> None:
    zero = np.zeros(7, int)
    consensus = RunningConsensus(2, quorum=7)
    assert len(consensus.partial_fit(np.arange(6), zero[:6], zero[:6]).row) == 0
    assert sorted(consensus.partial_fit(zero[:1] + 6, zero[:1], zero[:1]).row) == list(range(7))


@pytest.mark.refusal
@pytest.mark.parametrize("n_classes", [2.5, "3", 1])
def test_more_classes_are_a_whole_number_of_them(n_classes: object) -> None:
    for one in (RunningConsensus(2), StreamMonitor(2)):
        with pytest.raises(ConfigError, match="n_classes must be a whole number of at least 2"):
            one.with_classes(n_classes)  # type: ignore[arg-type]


def test_a_file_of_one_array_is_no_snapshot() -> None:
    file = io.BytesIO()
    np.save(file, np.zeros(3))
    with pytest.raises(ConfigError, match=r"must be an \.npz file"):
        RunningConsensus.from_snapshot(file.getvalue())
