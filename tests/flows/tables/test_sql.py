"""Rows of a database: SQLite always, PostgreSQL where CROWDASSAY_TEST_POSTGRES names a server."""

from __future__ import annotations

import contextlib
import json
import math
import os
import sqlite3
from collections.abc import Iterator
from datetime import date
from decimal import Decimal
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from sqlalchemy import NullPool, create_engine, text
from typer.testing import CliRunner

from flows.cli import app
from flows.pipeline import RunResult, nothing_new, run_pipeline
from flows.settings import InputSettings, Settings, SettingsError, load_settings
from flows.tables.fetching import fetch
from flows.tables.fetching.sql import _cell
from flows.tables.refusals import TableError
from flows.tables.sources import open_sources
from flows.tables.tables import read_gold, read_labels
from tests.flows.campaign import write_small_campaign

VARIABLE = "CROWD_TEST_DATABASE"
CANARY = "hunter2canary"
SERVER = os.environ.get("CROWDASSAY_TEST_POSTGRES")
ROWS = [("w1", 1, "a"), ("w2", 1, "b"), ("w1", 2, "a"), ("w2", 2, "a"), ("w3", 2, None)]


@pytest.fixture(
    params=[
        "sqlite",
        pytest.param(
            "postgres",
            marks=pytest.mark.skipif(
                SERVER is None, reason="CROWDASSAY_TEST_POSTGRES names no PostgreSQL server"
            ),
        ),
    ]
)
def database(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> str:
    """A database with a table of crowd labels, whose address stands in the environment."""
    url = f"sqlite:///{tmp_path / 'crowd.db'}" if request.param == "sqlite" else str(SERVER)
    monkeypatch.setenv(VARIABLE, url)
    execute(url, "DROP TABLE IF EXISTS crowd")
    execute(url, "CREATE TABLE crowd (who text, item integer, said text)")
    for who, item, said in ROWS:
        execute(url, "INSERT INTO crowd VALUES (:who, :item, :said)", who=who, item=item, said=said)
    return url


def execute(url: str, statement: str, **values: object) -> None:
    engine = create_engine(url, poolclass=NullPool)
    with engine.begin() as connection:
        connection.execute(text(statement), values)


def count(url: str) -> int:
    engine = create_engine(url, poolclass=NullPool)
    with engine.begin() as connection:
        return int(connection.execute(text("SELECT count(*) FROM crowd")).scalar_one())


def query(folder: Path, sql: str) -> Path:
    path = folder / "labels.sql"
    path.write_text(sql, encoding="utf-8")
    return path


LABELS = "-- all that anybody said\nSELECT who AS worker, item AS task, said AS label FROM crowd"


def given(labels: Path, **more: object) -> InputSettings:
    return InputSettings.model_validate({"labels": labels, "url_env": VARIABLE, **more})


def test_a_query_is_a_table(database: str, tmp_path: Path) -> None:
    path = query(tmp_path, f"{LABELS} WHERE said LIKE '%' AND '10:30' <> who ORDER BY who, item;")
    sources = open_sources(given(path), tmp_path)
    labels = read_labels(sources.labels.table, classes=None, duplicates="error", known_tasks=None)
    assert (labels.n_labels, labels.tasks.tolist()) == (4, ["1", "2"])
    assert labels.workers[labels.worker].tolist() == ["w1", "w2", "w1", "w2"]
    assert sources.described[0]["name"] == "labels.sql"


def test_a_fault_is_told_with_the_query_and_the_row(database: str, tmp_path: Path) -> None:
    sources = open_sources(given(query(tmp_path, LABELS + " ORDER BY item, who")), tmp_path)
    told = r"^labels\.sql, row 5, column label: the cell is blank"
    with pytest.raises(TableError, match=told), sources.naming_files():
        read_labels(sources.labels.table, classes=None, duplicates="error", known_tasks=None)


@pytest.mark.parametrize(
    ("sql", "told"),
    [
        ("", "must hold one statement that begins with SELECT or WITH"),
        ("DELETE FROM crowd", "must hold one statement that begins with SELECT or WITH"),
        ("SELECT who, who FROM crowd", "column names must differ"),
        ("SELECT nothing FROM crowd", "labels.sql: the database refuses: "),
        ("SELECT who FROM crowd; DELETE FROM crowd", "labels.sql: "),
    ],
)
def test_what_is_no_query_is_refused_and_changes_nothing(
    database: str, tmp_path: Path, sql: str, told: str
) -> None:
    with pytest.raises(TableError, match=told):
        fetch(query(tmp_path, sql), VARIABLE, tmp_path / "out.parquet")
    assert count(database) == len(ROWS)


@pytest.mark.parametrize(
    "sql",
    [
        "WITH gone AS (DELETE FROM crowd RETURNING who) SELECT who FROM gone",
        "WITH x AS (SELECT 1) DELETE FROM crowd",
        "WITH x AS (SELECT 1) DELETE FROM crowd RETURNING who, item, said",
        "WITH x AS (SELECT 1) INSERT INTO crowd SELECT who, item, said FROM crowd",
    ],
)
def test_a_query_that_would_write_changes_nothing(database: str, tmp_path: Path, sql: str) -> None:
    with pytest.raises(TableError, match="the database refuses"):
        fetch(query(tmp_path, sql), VARIABLE, tmp_path / "out.parquet")
    assert count(database) == len(ROWS)


def test_bytes_are_refused_with_row_and_column(database: str, tmp_path: Path) -> None:
    sql = "SELECT who AS worker, CAST(said AS {}) AS label FROM crowd ORDER BY item, who"
    kind = "bytea" if "postgres" in database else "blob"
    with pytest.raises(TableError, match=r"labels\.sql, row 1, column label: a .* must be cast"):
        fetch(query(tmp_path, sql.format(kind)), VARIABLE, tmp_path / "out.parquet")


def test_the_first_and_the_last_need_an_order(database: str, tmp_path: Path) -> None:
    path = query(tmp_path, LABELS)
    with pytest.raises(
        TableError, match=r'labels\.sql must say ORDER BY where duplicates = "last"'
    ):
        open_sources(given(path, duplicates="last"), tmp_path)


@pytest.mark.parametrize(
    "address",
    [
        None,
        "",
        f"no address {CANARY}",
        f"nosuch://user:{CANARY}@host/crowd",
        f"postgresql+psycopg://user:{CANARY}@127.0.0.1:1/crowd",
    ],
)
def test_an_address_that_does_not_work_is_refused_and_never_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, address: str | None
) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    if address is not None:
        monkeypatch.setenv(VARIABLE, address)
    with pytest.raises((SettingsError, TableError)) as refused:
        fetch(query(tmp_path, LABELS), VARIABLE, tmp_path / "out.parquet")
    assert CANARY not in str(refused.value)
    assert refused.value.__suppress_context__


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        ('labels = "labels.sql"', "labels.sql is a query, so url_env must name the environment"),
        ('labels = "labels.csv"\nurl_env = "CROWD"', "url_env is for queries"),
        (
            f'labels = "labels.sql"\nurl_env = "sqlite:///{CANARY}"',
            "url_env must be the name of an environment variable",
        ),
    ],
)
def test_settings_that_cannot_be_are_refused_in_one_sentence(
    tmp_path: Path, lines: str, told: str
) -> None:
    path = tmp_path / "settings.toml"
    path.write_text(f'name = "c"\n[input]\n{lines}\n', encoding="utf-8")
    refused = CliRunner().invoke(app, ["run", str(path), "--no-prefect"])
    assert (refused.exit_code, refused.stderr.count("\n")) == (2, 1)
    assert told in refused.stderr
    assert CANARY not in refused.stderr + refused.output


@pytest.fixture(scope="module")
def campaign(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[Settings, RunResult]]:
    """A run of the small campaign, its tables in SQLite, under an address that is a secret."""
    folder = tmp_path_factory.mktemp("campaign")
    path = write_small_campaign(folder)
    file = folder.with_name(f"{CANARY}.db")
    with contextlib.closing(sqlite3.connect(file)) as connection, connection:
        for table in ("labels", "tasks"):
            header, *rows = (folder / f"{table}.csv").read_text().splitlines()
            connection.execute(f"CREATE TABLE {table} ({header.replace('group', '[group]')})")
            marks = ", ".join("?" * len(header.split(",")))
            connection.executemany(
                f"INSERT INTO {table} VALUES ({marks})", [row.split(",") for row in rows]
            )
            (folder / f"{table}.sql").write_text(f"SELECT * FROM {table} ORDER BY 1, 2")
            (folder / f"{table}.csv").unlink()
    text = path.read_text().replace("labels.csv", "labels.sql").replace("tasks.csv", "tasks.sql")
    text = text.partition("[model]")[0].replace("[input]\n", f'[input]\nurl_env = "{VARIABLE}"\n')
    path.write_text(text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(VARIABLE, f"sqlite:///{file}")
        settings = load_settings(path)
        yield settings, run_pipeline(settings)


def test_a_campaign_is_read_from_a_database(campaign: tuple[Settings, RunResult]) -> None:
    _, result = campaign
    counts = json.loads((result.folder / "inputs.json").read_text())
    assert (counts["n_labels"], counts["n_tasks"], counts["n_features"]) == (1800, 440, 3)
    assert [one["name"] for one in counts["files"]] == ["labels.sql", "tasks.sql", "gold.csv"]


def test_the_address_is_in_no_file_of_the_run(campaign: tuple[Settings, RunResult]) -> None:
    settings, result = campaign
    folders = (settings.runs, settings.state)
    written = [path for folder in folders for path in folder.rglob("*") if path.is_file()]
    assert [path.name for path in written if CANARY.encode() in path.read_bytes()] == []
    assert VARIABLE in (result.folder / "manifest.json").read_text()


def test_a_row_more_is_something_new_and_the_same_rows_are_not(
    campaign: tuple[Settings, RunResult],
) -> None:
    settings, result = campaign
    again = nothing_new(settings)
    assert again is not None
    assert again.folder == result.folder
    assert [path.name for path in settings.runs.iterdir()] == [result.folder.name]
    execute(os.environ[VARIABLE], "INSERT INTO labels VALUES ('w99', 't000', 'a')")
    assert nothing_new(settings) is None


def test_a_query_is_imported_under_mapped_names(database: str, tmp_path: Path) -> None:
    """Skipped answers are dropped; the variable's name alone stands for the address."""
    path, output = query(tmp_path, "SELECT * FROM crowd ORDER BY item, who"), tmp_path / "l.csv"
    asked = ["import", str(path), "--format", "sql", "--output", str(output)]
    mapped = ["--map", "worker=who,task=item,label=said"]
    told = CliRunner().invoke(app, [*asked, *mapped, "--url-env", VARIABLE])
    assert told.exit_code == 0, told.stderr
    assert output.read_text() == "worker,task,label\nw1,1,a\nw2,1,b\nw1,2,a\nw2,2,a\n"
    assert "dropped 1 skipped" in told.output
    for wrong, sentence in (
        ([*asked, "--force"], "--url-env must name the environment variable"),
        (
            [*asked[:3], "table", *asked[4:], "--force", "--url-env", "X"],
            "--url-env is for --format sql",
        ),
    ):
        refused = CliRunner().invoke(app, wrong)
        assert refused.exit_code == 2
        assert sentence in refused.stderr


@pytest.mark.parametrize(
    ("sql", "texts"),
    [
        ("SELECT 7.0 AS x UNION ALL SELECT 0.5 UNION ALL SELECT 1e300 UNION ALL SELECT NULL",
         ["7", "0.5", "1e+300", None]),
        ("SELECT 7 AS x UNION ALL SELECT 9007199254740993", ["7", "9007199254740993"]),
    ],
)  # fmt: skip
def test_numbers_are_the_texts_that_files_have(
    database: str, tmp_path: Path, sql: str, texts: list[str | None]
) -> None:
    """Once a value is missing, a column of whole numbers often has a point: 7 and 7.0 are one worker."""
    path, output = (
        query(tmp_path, sql.replace("7.0", "CAST(7 AS double precision)")),
        tmp_path / "o",
    )
    fetch(path, VARIABLE, output)
    assert sorted(map(str, pq.read_table(output)["x"].to_pylist())) == sorted(map(str, texts))


def test_truth_values_and_not_a_number_are_the_cells_that_files_have() -> None:
    values = [True, False, math.nan, Decimal("nan"), -0.0, Decimal("1.50"), date(2026, 1, 2)]
    cells = [_cell(Path("labels.sql"), "x", 1, value) for value in values]
    assert cells == ["true", "false", None, None, "-0.0", "1.50", "2026-01-02"]


def test_the_column_of_truths_is_that_of_a_query_too(database: str, tmp_path: Path) -> None:
    """The crowd's own labels, which the query returns as well, are no truths."""
    labels, gold = query(tmp_path, LABELS + " WHERE said IS NOT NULL"), tmp_path / "gold.sql"
    truths = "CASE item WHEN 1 THEN 'b' END AS truth FROM crowd"
    for columns in ("item AS task, said AS label", "item AS task"):
        gold.write_text(f"SELECT {columns}, {truths}", encoding="utf-8")
        sources = open_sources(given(labels, gold=gold, gold_column="truth"), tmp_path)
        assert sources.gold is not None
        found = read_gold(sources.gold.table, classes=("a", "b"))
        assert (found.task.tolist(), found.label.tolist()) == (["1"], ["b"])
    told = r"^gold\.sql must have the column 'nothing'.*mend the name in gold_column"
    with pytest.raises(TableError, match=told):
        open_sources(given(labels, gold=gold, gold_column="nothing"), tmp_path)


def test_a_query_may_return_a_wide_table(database: str, tmp_path: Path) -> None:
    sql = (
        "SELECT item AS task, max(CASE who WHEN 'w1' THEN said END) AS w1, max(CASE who WHEN 'w2' "
    )
    path = query(tmp_path, sql + "THEN said END) AS w2 FROM crowd GROUP BY item ORDER BY item")
    sources = open_sources(given(path, wide=True), tmp_path)
    labels = read_labels(sources.labels.table, classes=None, duplicates="error", known_tasks=None)
    assert (labels.n_labels, labels.workers.tolist()) == (4, ["w1", "w2"])
    with pytest.raises(TableError, match=r"^labels\.sql has a row per label"):
        open_sources(given(query(tmp_path, LABELS), wide=True), tmp_path)
