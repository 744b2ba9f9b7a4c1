"""Sorting rows of codes: what a slow sort says, on any number of threads."""

import numpy as np
import pytest

from quality.labels.sort import RepeatError, SortedRows, keep_rows, sort_rows, sorted_ranges

TASKS, WORKERS = 30_000, 500


def rows_of(n_tasks: int, n_workers: int) -> tuple[np.ndarray, ...]:
    """70,000 rows, some in a task of more than 32: several chunks and ranges of tasks."""
    rng = np.random.default_rng(0)
    pair = rng.choice(n_tasks * n_workers, size=70_000, replace=False)
    crowded = np.arange(300) + 7 * n_workers
    pair = rng.permutation(np.unique(np.append(pair, crowded)))
    worker, task = pair % n_workers, pair // n_workers
    return worker, task, rng.integers(40, size=len(pair))


@pytest.fixture(scope="module")
def columns() -> tuple[np.ndarray, ...]:
    return rows_of(TASKS, WORKERS)


def as_numpy_sorts(
    worker: np.ndarray, task: np.ndarray, label: np.ndarray, n_workers: int, n_tasks: int
) -> SortedRows:
    order = np.lexsort((worker, task))
    return SortedRows(
        worker[order].astype(np.int32),
        task[order].astype(np.int32),
        label[order].astype(np.int16),
        np.searchsorted(task[order], np.arange(n_tasks + 1)),
        np.lexsort((task[order], worker[order])),
        np.searchsorted(np.sort(worker), np.arange(n_workers + 1)),
    )


def check(found: SortedRows, expected: SortedRows) -> None:
    for name in SortedRows._fields:
        one, other = getattr(found, name), getattr(expected, name)
        assert (one.dtype, one.tobytes()) == (other.dtype, other.tobytes()), name


@pytest.mark.parametrize("cores", [1, 2, 5, None])
def test_rows_are_sorted_as_numpy_sorts_them_on_any_number_of_cores(
    columns: tuple[np.ndarray, ...], cores: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: cores)
    found = sort_rows(*columns, WORKERS, TASKS + 9)
    check(found, as_numpy_sorts(*columns, WORKERS, TASKS + 9))


@pytest.mark.parametrize("key_bits", [17, 22, 63])
def test_rows_that_fill_their_number_are_sorted_in_more_ranges(
    columns: tuple[np.ndarray, ...], key_bits: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Worker and label take 15 bits; 2, 7 and (of the 15 a task has) 9 are left for its place."""
    monkeypatch.setattr("quality.labels.sort.KEY_BITS", key_bits)
    found = sort_rows(*columns, WORKERS, TASKS)
    check(found, as_numpy_sorts(*columns, WORKERS, TASKS))


def test_codes_that_use_all_their_bits_are_sorted(rng: np.random.Generator) -> None:
    """Up to 4 million workers, a million tasks, 32,767 classes; the highest of each occurs."""
    sizes = 2**22, 2**20, 2**15 - 1
    worker, task, label = (np.append(rng.integers(size, size=999), size - 1) for size in sizes)
    found = sort_rows(worker, task, label, *sizes[:2])
    check(found, as_numpy_sorts(worker, task, label, *sizes[:2]))


def test_a_repeat_among_many_rows_is_named(columns: tuple[np.ndarray, ...]) -> None:
    worker, task, label = (np.append(column, column[5]) for column in columns)
    with pytest.raises(RepeatError, match=f"rows 5 and {len(worker) - 1} "):
        sort_rows(worker, task, label, WORKERS, TASKS)


@pytest.mark.parametrize("cores", [1, 2])
def test_sorted_rows_may_take_the_memory_of_those_given(
    columns: tuple[np.ndarray, ...], cores: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: cores)
    expected = sort_rows(*columns, WORKERS, TASKS)
    worker, task = (column.astype(np.int32) for column in columns[:2])
    label = columns[2].astype(np.int16)
    found = sort_rows(worker, task, label, WORKERS, TASKS, overwrite=True)
    check(found, expected)
    assert [found.worker is worker, found.task is task, found.label is label] == [True] * 3


@pytest.mark.parametrize("overwrite", [False, True])
def test_rows_that_cannot_be_used_up_stay(columns: tuple[np.ndarray, ...], overwrite: bool) -> None:
    """Without leave; of another type; read-only; or where the columns share their memory."""
    given = [column.astype(np.int32) for column in columns]
    for column in given[: 3 if overwrite else 0]:
        column.flags.writeable = False
    expected, held = sort_rows(*columns, WORKERS, TASKS), [column.copy() for column in given]
    for taken in (given, [column.astype(np.int64) for column in given]):
        check(sort_rows(*taken, WORKERS, TASKS, overwrite=overwrite), expected)
        assert all(np.array_equal(*pair) for pair in zip(taken, held, strict=True))
    same = np.arange(7, dtype=np.int32)[::-1].copy()
    found = sort_rows(same, same, same, 7, 7, overwrite=True)
    assert found.worker.tolist() == found.task.tolist() == same[::-1].tolist()


def test_a_repeat_in_memory_used_up_is_refused_without_its_rows(
    columns: tuple[np.ndarray, ...],
) -> None:
    codes = (np.append(column, column[5]).astype(np.int32) for column in columns)
    with pytest.raises(RepeatError, match="a worker labels a task twice") as refused:
        sort_rows(*codes, WORKERS, TASKS, overwrite=True)
    assert (refused.value.column, refused.value.row) == ("worker", None)


@pytest.mark.parametrize(("n_tasks", "n_workers"), [(0, 0), (1, 1), (65, 3)])
def test_no_rows_leave_empty_tasks_and_workers(n_tasks: int, n_workers: int) -> None:
    none = np.empty(0, dtype=np.int64)
    found = sort_rows(none, none, none, n_workers, n_tasks)
    assert found.task_start.tolist() == [0] * (n_tasks + 1)
    assert found.worker_start.tolist() == [0] * (n_workers + 1)


def test_rows_kept_are_those_sorted_anew(columns: tuple[np.ndarray, ...]) -> None:
    rows = sort_rows(*columns, WORKERS, TASKS)
    keep = rows.worker % 3 > 0
    kept = keep_rows(rows.worker, rows.task, rows.label, keep, WORKERS, TASKS)
    some = columns[0] % 3 > 0
    anew = sort_rows(*(column[some] for column in columns), WORKERS, TASKS)
    for name in SortedRows._fields:
        assert getattr(kept, name).tobytes() == getattr(anew, name).tobytes(), name


@pytest.mark.parametrize("keep", ["any", "first", "last"])
@pytest.mark.parametrize("in_range", [1, 5_000, 10**6])
def test_ranges_one_after_another_are_the_rows_sorted(keep: str, in_range: int) -> None:
    """Rows that repeat a worker and a task stand by their order, the one to keep first."""
    rng = np.random.default_rng(1)
    n_workers, n_tasks = 70, 900
    columns = [rng.integers(n, size=20_000).astype(np.int32) for n in (n_workers, n_tasks, 40)]
    worker, task, label = columns
    key = np.empty(len(worker), dtype=np.int64)
    ranges = list(
        sorted_ranges(*columns, key, n_workers, n_tasks, in_range=in_range, keep=keep)  # type: ignore[arg-type]
    )
    row = np.arange(len(worker))
    third = {"any": label, "first": row, "last": -row}[keep]
    order = np.lexsort((third, worker, task))
    assert len(ranges) == {1: 900, 5_000: 4, 10**6: 1}[in_range]
    for at, column in enumerate(columns):
        assert np.array_equal(np.concatenate([part[at] for part in ranges]), column[order])
