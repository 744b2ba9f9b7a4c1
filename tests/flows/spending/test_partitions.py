"""Partitions that grow: what tasks that join cost, and that a task which moves is never free."""

from __future__ import annotations

import fcntl
import json
import multiprocessing
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flows.spending import grow_partition, partitions
from privacy import LatticeLaplace, Ledger, Part, Query, Release, Unit, class_counts

DATASET = "toy"
EPSILON = 0.5
NOISE = LatticeLaplace(EPSILON)


class State:
    """A state folder with its ledger, and releases from it as a run makes them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.ledger = Ledger(folder / "ledger.sqlite", key=bytes(32))
        self.ledger.open_budget(DATASET, unit=Unit.CONSENSUS_LABEL, epsilon=50.0, delta=0.0, n=4)

    @property
    def file(self) -> Path:
        return self.folder / f"groups-{DATASET}.npz"

    @property
    def spent(self) -> Fraction:
        return self.ledger.statement(DATASET, entries=0).spent.epsilon

    def queries(self, groups: dict[str, str], labels: dict[str, int]) -> list[Query]:
        """The counts of every group, in the partition they belong to."""
        task = np.array(list(groups))
        group = np.array(list(groups.values()))
        names, code = np.unique(group, return_inverse=True)
        counts = class_counts(
            np.array([labels.get(name, 0) for name in groups]),
            code,
            dataset=DATASET,
            n_classes=2,
            n_groups=names.size,
            group_names=tuple(names.tolist()),
            unit=Unit.CONSENSUS_LABEL,
            local=False,
            tasks=task,
        )
        part = counts[0].part
        assert part is not None
        partition = grow_partition(
            self.folder, self.ledger, DATASET, task=task, group=group, exact=part.partition
        )
        return [
            Query(DATASET, one.name, one.value, one.unit, one.n, one.l1, Part(partition, str(name)))
            for one, name in zip(counts, names, strict=True)
        ]

    def publish(
        self, groups: dict[str, str], labels: dict[str, int] | None = None
    ) -> dict[str, Release[object]]:
        """Release the counts of every group."""
        queries = self.queries(groups, labels or {})
        released = self.ledger.release_all(NOISE, queries)
        return {
            query.part.name: release
            for query, release in zip(queries, released, strict=True)
            if query.part is not None
        }


@pytest.fixture
def state(tmp_path: Path) -> State:
    return State(tmp_path / "state")


def fresh(released: dict[str, Release[object]]) -> set[str]:
    return {group for group, release in released.items() if release.fresh}


DAY_1 = {"t1": "a", "t2": "a", "t3": "b"}


def test_tasks_in_new_groups_cost_what_the_dearest_group_costs(state: State) -> None:
    state.publish(DAY_1)
    released = state.publish(DAY_1 | {"t4": "c", "t5": "c"})
    assert fresh(released) == {"c"}
    assert state.spent == Fraction(EPSILON)


def test_a_group_that_tasks_join_adds_up_alone(state: State) -> None:
    """The maximum over groups of the sums over their releases: b's three."""
    state.publish(DAY_1)
    state.publish(DAY_1 | {"t4": "b"})
    released = state.publish(DAY_1 | {"t4": "b", "t5": "b", "t6": "c"})
    assert fresh(released) == {"b", "c"}
    assert state.spent == 3 * Fraction(EPSILON)


def test_a_task_that_moves_makes_all_costs_add(state: State) -> None:
    state.publish(DAY_1 | {"t4": "b"})
    released = state.publish(DAY_1 | {"t4": "a"})
    assert fresh(released) == {"a", "b"}
    assert state.spent == 2 * Fraction(EPSILON)


def test_a_task_that_left_and_comes_back_elsewhere_has_moved(state: State) -> None:
    """The adversary: t4 is away for a day, so that no two runs in a row disagree."""
    state.publish(DAY_1 | {"t4": "b"})
    state.publish(DAY_1 | {"t5": "c"})
    assert state.spent == 2 * Fraction(EPSILON)  # b has lost a task: another release of b
    state.publish(DAY_1 | {"t4": "c", "t5": "c"})
    assert state.spent == 3 * Fraction(EPSILON)


def test_an_assignment_that_comes_back_is_in_its_partition_again(state: State) -> None:
    state.publish(DAY_1)
    state.publish(DAY_1 | {"t3": "a"})
    assert fresh(state.publish(DAY_1)) == set()
    assert state.spent == 2 * Fraction(EPSILON)


def test_a_group_that_has_lost_tasks_is_known_in_what_is_left_of_it(state: State) -> None:
    """Its smaller set is noted though no task is new, so that it is paid once; others are another set."""
    state.publish(DAY_1)
    assert fresh(state.publish({"t1": "a", "t3": "b"})) == {"a"}
    assert fresh(state.publish({"t1": "a", "t3": "b"})) == set()
    assert fresh(state.publish({"t2": "a", "t3": "b"})) == {"a", "b"}


def test_where_nothing_is_new_the_file_stays_as_it_is(state: State) -> None:
    state.publish(DAY_1)
    before = state.file.stat().st_mtime_ns
    state.publish(DAY_1)
    assert state.file.stat().st_mtime_ns == before


def test_as_many_other_tasks_are_no_growth(state: State) -> None:
    """Counts that are equal would otherwise tell that the task that left and the one that came agree."""
    state.publish(DAY_1)
    released = state.publish({"t1": "a", "t2": "a", "t9": "b"})
    assert fresh(released) == {"a", "b"}
    assert state.spent == 2 * Fraction(EPSILON)


@pytest.mark.parametrize("how", ["lost", "torn", "turned"])
def test_a_lost_or_damaged_file_is_a_new_partition(state: State, how: str) -> None:
    grown = DAY_1 | {"t4": "c"}
    state.publish(DAY_1)
    state.publish(grown)
    content = state.file.read_bytes()
    if how == "lost":
        state.file.unlink()
    else:
        half = len(content) // 2
        turned = bytes(byte ^ 255 for byte in content[half : half + 64])  # more than a date
        rest = b"" if how == "torn" else turned + content[half + 64 :]
        state.file.write_bytes(content[:half] + rest)
    state.publish(DAY_1)
    assert state.spent == 2 * Fraction(EPSILON)
    state.publish(DAY_1 | {"t4": "a"})  # which the lost file knew to be in c
    assert state.spent == 3 * Fraction(EPSILON)


def test_a_file_older_than_a_release_is_a_new_partition(state: State) -> None:
    state.publish(DAY_1)
    older = state.file.read_bytes()
    state.publish(DAY_1 | {"t4": "b"})
    state.file.write_bytes(older)
    assert fresh(state.publish(DAY_1 | {"t4": "a"})) == {"a", "b"}
    assert state.spent == 3 * Fraction(EPSILON)


def test_releases_of_the_earlier_naming_are_found_and_never_grow(state: State) -> None:
    """A ledger from before partitions grew: nothing is paid until a task joins, and then all."""
    task, group = np.array(list(DAY_1)), np.array([0, 0, 1])
    counts = class_counts(
        np.zeros(3, dtype=np.int64), group, dataset=DATASET, n_classes=2, n_groups=2,
        group_names=("a", "b"), unit=Unit.CONSENSUS_LABEL, local=False, tasks=task,
    )  # fmt: skip
    state.ledger.release_all(NOISE, counts)
    assert fresh(state.publish(DAY_1)) == set()
    assert fresh(state.publish(DAY_1 | {"t4": "c"})) == {"a", "b", "c"}
    assert fresh(state.publish(DAY_1 | {"t4": "c", "t5": "d"})) == {"d"}
    assert state.spent == 2 * Fraction(EPSILON)


def test_places_of_several_labels_are_counted_by_the_task(state: State) -> None:
    """Two classes a task may hold: a group's counts add up to twice its tasks; no kind joins another's."""

    def partition(groups: dict[str, str]) -> str:
        return grow_partition(
            state.folder, state.ledger, DATASET, task=np.array(list(groups)),
            group=np.array(list(groups.values())), exact=f"group of 2 places:{len(groups)}", records=2,
        )  # fmt: skip

    state.publish(DAY_1)
    first = partition(DAY_1)
    assert first.startswith("group of 2 places:")
    places = [
        Query(DATASET, "sets", np.array([2 * n, 0]), Unit.CONSENSUS_LABEL, 2 * n, 4.0, Part(first, name))
        for name, n in (("a", 2), ("b", 1))
    ]  # fmt: skip
    state.ledger.release_all(NOISE, places)
    assert partition(DAY_1 | {"t4": "b"}) == first
    assert partition(DAY_1 | {"t4": "a"}) != first  # t4 has moved
    assert fresh(state.publish(DAY_1)) == set()
    assert state.spent == 2 * Fraction(EPSILON)


def test_the_file_is_its_owners_alone_and_tells_no_task(state: State) -> None:
    state.publish(DAY_1)
    assert state.file.stat().st_mode & 0o777 == 0o600
    with np.load(state.file, allow_pickle=False) as stored:
        assert [len(mark) for mark in stored["task 0"].tolist()] == [32] * len(DAY_1)
        held = {key.rpartition(" ")[0] for key in stored.files if key != "names"}
    assert held == {"task", "group", "set group", "set size", "set"}


def test_what_was_noted_and_never_released_costs_nothing(state: State) -> None:
    """A run that dies, or is refused, between the note and the release."""
    state.queries(DAY_1 | {"t4": "c"}, {})
    state.publish(DAY_1)
    state.publish(DAY_1 | {"t4": "c"})
    assert state.spent == Fraction(EPSILON)


def _grow(folder: Path, groups: dict[str, str], together: multiprocessing.Barrier) -> None:
    state = State(folder)
    together.wait()
    for step in range(4, 10):
        state.queries(groups | {f"t{j}": groups["extra"] for j in range(4, step)}, {})


def test_two_runs_cannot_grow_one_partition_in_two_ways(tmp_path: Path) -> None:
    """Each gives t4 to t9 to its own group: one partition must not have them in both."""
    context = multiprocessing.get_context("spawn")
    folder, together = tmp_path / "state", context.Barrier(2)
    state = State(folder)
    state.publish(DAY_1)
    runs = [
        context.Process(target=_grow, args=(folder, DAY_1 | {"extra": name}, together))
        for name in ("a", "b")
    ]
    for run in runs:
        run.start()
    for run in runs:
        run.join()
    assert [run.exitcode for run in runs] == [0, 0]
    with np.load(state.file, allow_pickle=False) as stored:
        n_partitions = stored["names"].size
        for number in range(n_partitions):
            assert len(set(stored[f"task {number}"].tolist())) == stored[f"task {number}"].size
    assert n_partitions == 2


MOVES = st.dictionaries(
    st.sampled_from([f"t{j}" for j in range(5)]), st.sampled_from("abc"), min_size=1
)


@settings(max_examples=15, deadline=None, derandomize=True)
@given(days=st.lists(MOVES, min_size=1, max_size=5), lost=st.sets(st.integers(0, 4)))
def test_no_task_is_ever_in_two_cells_of_a_partition(
    tmp_path_factory: pytest.TempPathFactory, days: list[dict[str, str]], lost: set[int]
) -> None:
    """Any assignments in any order, the file lost at any day: what was released tells on the ledger."""
    state = State(tmp_path_factory.mktemp("days") / "state")
    seen: dict[str, dict[str, str]] = {}
    sets: dict[tuple[str, str, int], frozenset[str]] = {}
    for day, groups in enumerate(days):
        if day in lost:
            state.file.unlink(missing_ok=True)
        queries = state.queries(groups, {})
        state.ledger.release_all(NOISE, queries)
        part = queries[0].part
        assert part is not None
        known = seen.setdefault(part.partition, {})
        assert all(known.get(task, group) == group for task, group in groups.items())
        known |= groups
        for group in set(groups.values()):
            tasks = frozenset(task for task, other in groups.items() if other == group)
            assert sets.setdefault((part.partition, group, len(tasks)), tasks) == tasks


def test_the_partitions_name_tells_no_task(state: State) -> None:
    state.publish({"t-canary": "a", "t2": "b"})
    told = json.dumps([str(entry.part) for entry in state.ledger.statement(DATASET).entries])
    assert "canary" not in told


def test_assignments_are_made_one_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lock is of the open file, so that a second one in this process stands for another process."""
    read, tried, state = partitions._read, list[Path](), State(tmp_path / "state")

    def trying(path: Path) -> object:
        with open(state.folder / "groups.lock", "rb") as other, pytest.raises(BlockingIOError):
            fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
        tried.append(path)
        return read(path)

    monkeypatch.setattr(partitions, "_read", trying)
    state.queries({"a": "north"}, {})
    assert tried
    with open(state.folder / "groups.lock", "rb") as other:  # left to the next
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_a_file_that_holds_objects_is_not_loaded(state: State) -> None:
    """An object in a file is code that loading it would run."""
    state.publish(DAY_1)
    with np.load(state.file) as stored:
        arrays = dict(stored)
    np.savez(state.file, **arrays | {"names": arrays["names"].astype(object)}, allow_pickle=True)
    assert partitions._read(state.file) == {}
