"""Task tables as they are: which columns are features, embeddings, and what says what a task is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from flows.settings import GroupSettings, SettingsError, input_settings
from flows.tables import (
    Coded,
    TableError,
    TaskColumns,
    TaskTable,
    TextTable,
    feature_lengths,
    open_table,
    read_tasks,
    stream_features,
    task_texts,
)
from flows.tables.columns import ColumnScale, features_of, standardized, task_columns

NAMES = ("task", "group", "x1", "x2", "note", "title")
TABLE = (
    "task,group,x1,x2,note,title\n"
    "t2,g,3,4,by hand,<b>Dogs</b>\n"
    "t1,g,1,2,,Cats  and\u202e dogs\n"
)  # fmt: skip


@pytest.fixture
def table(tmp_path: Path) -> Path:
    (tmp_path / "tasks.csv").write_text(TABLE, encoding="utf-8")
    return tmp_path / "tasks.csv"


def read(path: Path, **given: Any) -> TaskTable:
    return read_tasks([path], GroupSettings(), columns=TaskColumns(**given))


@pytest.mark.parametrize(
    ("given", "names"),
    [
        ({"features": ("x*",)}, ("x1", "x2")),
        ({"features": ("x*",), "ignore": ("x1",)}, ("x2",)),
        ({"features": ("x2", "x1")}, ("x1", "x2")),
        ({"ignore": ("note",)}, ("x1", "x2")),
        ({"ignore": ("n*", "x?")}, ()),
    ],
)
def test_patterns_choose_the_features_in_the_tables_order(
    table: Path, given: dict[str, Any], names: tuple[str, ...]
) -> None:
    found = read(table, **given)
    assert found.feature_names == names
    whole = {"x1": [1.0, 3.0], "x2": [2.0, 4.0]}  # tasks sorted by name
    assert found.features.T.tolist() == [whole[name] for name in names]


def test_a_text_that_is_no_text_column_must_still_be_ignored(table: Path) -> None:
    with pytest.raises(TableError, match="column note: a feature must be a finite number"):
        read(table)


@pytest.mark.parametrize("given", [{"features": ("y*",)}, {"ignore": ("y*",)}])
def test_a_pattern_that_no_column_has_is_refused(table: Path, given: dict[str, Any]) -> None:
    with pytest.raises(TableError, match=r"no column 'y\*'.*x1, x2, note, title; mend"):
        read(table, **given)


def write_lists(folder: Path, lists: list[list[float] | None]) -> Path:
    path = folder / "tasks.parquet"
    names = [f"t{at}" for at in range(len(lists))]
    pq.write_table(
        pa.table({"task": names, "x": list(range(len(lists))), "embedding": lists}), path
    )
    return path


def test_a_column_of_lists_is_a_feature_for_each_place(tmp_path: Path) -> None:
    path = write_lists(tmp_path, [[0.5, 1.5], [2.5, 1e-9]])
    found = read(path)
    assert found.feature_names == ("x", "embedding[0]", "embedding[1]")
    assert found.features.tolist() == [[0.0, 0.5, 1.5], [1.0, 2.5, 1e-9]]
    assert read(path, features=("embed*",)).features.tolist() == [[0.5, 1.5], [2.5, 1e-9]]


def test_lists_written_as_text_are_read_as_well(tmp_path: Path) -> None:
    path = tmp_path / "tasks.csv"
    path.write_text('task,e\nt1,"[0.25, 2]"\nt0,"[1, -3e2]"\n')
    assert read(path).features.tolist() == [[1.0, -300.0], [0.25, 2.0]]


@pytest.mark.parametrize("bad", [[1.0], None, [1.0, float("nan")], [1.0, 2.0, 3.0]])
def test_a_list_of_another_length_or_without_a_number_is_refused(
    tmp_path: Path, bad: list[float] | None
) -> None:
    path = write_lists(tmp_path, [[0.5, 1.5], bad])
    with pytest.raises(TableError, match=r"row 2, column embedding: .* list of 2 finite numbers"):
        read(path)


def test_a_matrix_beside_the_table_goes_by_its_rows(table: Path) -> None:
    """The table's first row is t2."""
    np.save(table.parent / "e.npy", np.array([[20, 21], [10, 11]], dtype=np.float32))
    found = read(table, features=("x1",), embeddings=table.parent / "e.npy")
    assert found.feature_names == ("x1", "e[0]", "e[1]")
    assert found.features.tolist() == [[1, 10, 11], [3, 20, 21]]


@pytest.mark.parametrize(
    ("matrix", "sentence"),
    [
        (np.zeros((3, 2)), "a row for each of the 2 rows of the task tables"),
        (np.zeros(2), "one matrix of numbers"),
        (np.array([["a"], ["b"]]), "one matrix of numbers"),
        (np.array([[1.0], [np.inf]]), "row 2: an embedding must be finite"),
        (np.array([[{}], [{}]]), "cannot be read as a matrix"),  # a pickle is never loaded
    ],
)
def test_a_matrix_that_cannot_be_used_is_refused(
    table: Path, matrix: np.ndarray, sentence: str
) -> None:
    np.save(table.parent / "e.npy", matrix)
    with pytest.raises(TableError, match=sentence):
        read(table, features=("x1",), embeddings=table.parent / "e.npy")


def test_texts_are_joined_and_cut_off(table: Path) -> None:
    columns = TaskColumns(ignore=("note",), shown=("title", "x1"))
    shown = columns.shown_in(NAMES, apart=("task", "group"))
    (found,) = task_texts([open_table(table, ("task",))], shown)
    assert found["task"].to_pylist() == ["t2", "t1"]
    assert found["text"].to_pylist() == ["3 · <b>Dogs</b>", "1 · Cats and\u202e dogs"]
    table.write_text(f"task,text\nt1,{'long ' * 200}\nt2,\nt3,\u3000a\tb \x1f\n", encoding="utf-8")
    (cut,) = task_texts([open_table(table, ("task",))], ("text",))
    long, *others = cut["text"].to_pylist()
    assert len(long) <= 300
    assert others == ["", "a b"]


def test_settings_name_a_matrix_with_tasks_alone() -> None:
    with pytest.raises(SettingsError, match="needs tasks"):
        input_settings(labels="labels.csv", embeddings="e.npy")
    with pytest.raises(SettingsError, match=r"must be a file \.npy"):
        input_settings(labels="labels.csv", tasks=["tasks.csv"], embeddings="e.csv")


def opened(folder: Path, **columns: object) -> tuple[TextTable, Coded]:
    """A table of these features, whose rows are of one group."""
    n_rows = len(next(iter(columns.values())))  # type: ignore[arg-type]
    task = [f"t{row}" for row in range(n_rows)]
    pq.write_table(pa.table({"task": task, **columns}), folder / "tasks.parquet")
    group = Coded(np.zeros(n_rows, dtype=np.int32), np.array(["all"]))
    return open_table(folder / "tasks.parquet", ("task",)), group


def test_lengths_are_those_of_the_rows_however_they_are_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(task_columns, "BATCH", 7)
    monkeypatch.setattr(task_columns, "AT_ONCE", 2)
    rng = np.random.default_rng(0)
    columns = {f"x{at}": rng.normal(size=50).astype(np.float32) for at in range(5)}
    table, group = opened(tmp_path, **columns)
    whole = features_of(table, group, tuple(columns))
    assert feature_lengths(table, group, tuple(columns)) == pytest.approx(
        np.linalg.norm(whole, axis=1), rel=1e-15
    )
    found = np.full_like(whole, np.nan)
    for row, places, numbers in stream_features(table, group, tuple(columns)):
        found[row, places] = numbers
    assert found.tobytes() == whole.tobytes()


def test_the_places_of_a_list_have_a_length_with_the_other_columns(tmp_path: Path) -> None:
    table, group = opened(tmp_path, x=[2.0, 0.0], e=[[1.0, 2.0], [3.0, 4.0]])
    assert feature_lengths(table, group, ("x", "e[0]", "e[1]")).tolist() == [3.0, 5.0]


def test_no_features_have_no_length(tmp_path: Path) -> None:
    table, group = opened(tmp_path, x=["a", "b"])
    assert feature_lengths(table, group, ()).tolist() == [0.0, 0.0]


def test_a_cell_that_is_no_number_has_no_length(tmp_path: Path) -> None:
    table, group = opened(tmp_path, x=["1", "two"], y=["1", "2"])
    with pytest.raises(TableError, match="row 2, column x: a feature must be a finite number"):
        feature_lengths(table, group, ("x", "y"))


@pytest.mark.parametrize("width", [1, 2, 20])
@pytest.mark.parametrize("batch", [7, 500])
def test_a_scale_found_in_batches_has_the_bytes_of_that_of_all_rows(
    width: int, batch: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And is asked for no more rows at once, but for a single column; a constant one is centred alone."""
    monkeypatch.setattr(task_columns, "BATCH", batch)
    rng, asked = np.random.default_rng(width), list[int]()
    rows = 5 + rng.normal(size=(1003, width)) * rng.lognormal(0, 3, size=width)
    rows[:, -1:] = 2.0 if width > 1 else rows[:, -1:]

    def part_of(part: slice) -> np.ndarray:
        asked.append(len(rows[part]))
        return rows[part]

    scale = ColumnScale.of(part_of, len(rows))
    assert scale.mean.tobytes() == rows.mean(axis=0).tobytes()
    assert scale.deviation.tobytes() == rows.std(axis=0).tobytes()
    assert max(asked) == (batch if width > 1 else len(rows))
    assert standardized(rows).tobytes() == scale.scaled(rows).tobytes()
    if width > 1:
        assert set(scale.scaled(rows)[:, -1]) == {0.0}
