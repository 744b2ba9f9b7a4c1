"""Tables at an address: fetched where DuckDB can, one sentence where it cannot, and no key ever shown.

No test reaches a network: `file://` is read as every address is, and servers' answers are DuckDB's errors.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import duckdb
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from flows.cli import app
from flows.pipeline import nothing_new, run_pipeline
from flows.settings import (
    SCHEMES,
    Settings,
    SettingsError,
    address_of,
    input_settings,
    load_settings,
)
from flows.tables import TableError, find_files, open_table
from flows.tables.fetching import fetch_address
from tests.flows.campaign import write_small_campaign

KEY = "AKIACANARY"


def without_extensions(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """No extension that somebody installed on this machine is found."""
    connect = duckdb.connect

    def bare(*given: Any, **named: Any) -> duckdb.DuckDBPyConnection:
        connection = connect(*given, **named)
        connection.execute(f"SET extension_directory = '{folder}'")
        return connection

    monkeypatch.setattr(duckdb, "connect", bare)


def at_address(folder: Path, *, privacy: str = "") -> Settings:
    """The small campaign's labels and nothing else, named by an address."""
    write_small_campaign(folder)
    (folder / "settings.toml").write_text(
        f'name = "small"\n[input]\nlabels = "file://{folder}/labels.csv"\n'
        f"[filter]\nfraction = 0.1\n{privacy}"
    )
    return load_settings(str(folder / "settings.toml"))


def test_labels_at_an_address_give_what_the_file_gives(tmp_path: Path) -> None:
    settings = at_address(tmp_path / "far")
    assert address_of(settings.input.labels) == f"file://{tmp_path}/far/labels.csv"
    far = run_pipeline(settings)
    write_small_campaign(tmp_path / "near")
    text = 'name = "small"\n[input]\nlabels = "labels.csv"\n[filter]\nfraction = 0.1\n'
    (tmp_path / "near" / "settings.toml").write_text(text)
    near = run_pipeline(load_settings(tmp_path / "near" / "settings.toml"))
    assert far.consensus.arrow.equals(near.consensus.arrow)
    assert nothing_new(settings) is not None
    table = tmp_path / "far" / "labels.csv"
    table.write_text("\n".join(table.read_text().splitlines()[:-1]) + "\n")
    assert nothing_new(settings) is None  # fetched aside, and compared


@pytest.mark.parametrize("scheme", sorted(set(SCHEMES) - {"file"}))
def test_a_missing_extension_is_named_with_the_command_that_installs_it(
    scheme: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_extensions(monkeypatch, tmp_path)
    with pytest.raises(TableError, match=r"needs DuckDB's extension \w+, .*INSTALL \w+'") as told:
        fetch_address(Path(f"{scheme}://crowd/labels.parquet"), tmp_path / "labels.parquet")
    assert f"{scheme}://crowd/labels.parquet" in str(told.value)
    assert list(tmp_path.iterdir()) == []  # and nothing was installed or written


@pytest.mark.parametrize("lake", ["delta", "iceberg"])
def test_a_whole_table_needs_the_extension_of_its_format(
    lake: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_extensions(monkeypatch, tmp_path)
    with pytest.raises(
        TableError, match=rf"needs DuckDB's extension {lake}, which is not installed"
    ):
        fetch_address(Path(f"{lake}+file://{tmp_path}/labels"), tmp_path / "labels.parquet")


def test_an_address_of_an_unknown_format_says_which_are_known(tmp_path: Path) -> None:
    with pytest.raises(TableError, match=r"must end in .parquet, .*delta\+s3://crowd/labels"):
        fetch_address(Path("s3://crowd/labels"), tmp_path / "labels.parquet")


def test_a_table_that_is_not_there_says_so(tmp_path: Path) -> None:
    with pytest.raises(TableError, match="there is no such table; mend the address"):
        fetch_address(Path(f"file://{tmp_path}/nobody.parquet"), tmp_path / "labels.parquet")


@pytest.mark.parametrize(
    ("status", "sentence"),
    [
        ("403 (Forbidden)", "access is denied"),
        ("404 (Not Found)", "no such table"),
        (
            "InvalidTableLocationError (28): Path does not exist",
            "no such table",
        ),  # of a Delta table
        ("500", "HTTPException"),
    ],
)
def test_no_message_holds_a_key_or_what_a_server_answered(
    status: str, sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", f"secret {KEY}")
    said: list[str] = []

    class Server:
        """A connection whose reads a server refuses; it keeps what it was asked."""

        def __enter__(self) -> Server:
            return self

        def __exit__(self, *_: object) -> None:
            return None

        def execute(self, sql: str) -> None:
            said.append(sql)
            if sql.startswith("COPY"):
                raise duckdb.HTTPException(f"HTTP GET error: {status} <Key>{KEY}</Key>")

    monkeypatch.setattr(duckdb, "connect", Server)
    with pytest.raises(TableError, match=sentence) as told:
        fetch_address(Path("s3://crowd/labels.parquet"), tmp_path / "labels.parquet")
    assert KEY not in str(told.value)
    assert any(KEY in sql for sql in said if sql.startswith("CREATE SECRET"))
    assert "SET autoinstall_known_extensions = false" in said


@pytest.mark.parametrize(
    "address",
    [f"https://ann:{KEY}@host/labels.csv", f"s3://crowd/labels.csv?s3_secret_access_key={KEY}"],
)
def test_an_address_with_a_key_is_refused_without_showing_it(address: str) -> None:
    with pytest.raises(
        SettingsError, match="must hold no user, password, key or signature"
    ) as told:
        input_settings(labels=address)
    assert KEY not in str(told.value)


def test_rows_without_an_order_cannot_decide_a_repeat(tmp_path: Path) -> None:
    settings = at_address(tmp_path)
    chosen = settings.input.model_copy(update={"duplicates": "first"})
    with pytest.raises(TableError, match='duplicates must be "error" for a table at an address'):
        run_pipeline(settings.model_copy(update={"input": chosen}))


def test_init_keeps_the_address(tmp_path: Path) -> None:
    write_small_campaign(tmp_path)
    address = f"file://{tmp_path}/labels.csv"
    output = str(tmp_path / "proposed.toml")
    told = CliRunner().invoke(app, ["init", address, "--output", output, "--name", "far"])
    assert told.exit_code == 0, told.stderr
    assert f"labels = {json.dumps(address)}" in Path(output).read_text()
    assert find_files(Path(address)) == (Path(address),)


def test_values_of_records_at_an_address_are_those_of_the_file(tmp_path: Path) -> None:
    """Long numbers stay apart, moments and UUIDs as they were written."""
    tasks = ('"2020-01-01T00:00:00Z"', '"6F1C2D3E-0000-4000-8000-00000000000A"', "7.0", "true",
             "12345678901234567890123", "12345678901234567890124", '"007"', '"00:10:00"')  # fmt: skip
    rows = [f'{{"worker": "ann", "task": {task}, "label": "x"}}' for task in tasks]
    rows += [f'{{"label": "y", "worker": "bo", "task": {task}}}' for task in tasks]
    near = tmp_path / "labels.jsonl"
    near.write_text("\n".join(rows) + "\n")
    fetch_address(Path(f"file://{near}"), tmp_path / "far.parquet")
    columns = ("worker", "task", "label")
    far = open_table(tmp_path / "far.parquet", columns).query("SELECT worker, task, label FROM t")
    assert far == open_table(near, columns).query("SELECT worker, task, label FROM t")
    assert len({task for _, task, _ in far}) == len(tasks)
    (tmp_path / "nan.jsonl").write_text('{"x": NaN}\n{"x": 0.5}\n')
    fetch_address(Path(f"file://{tmp_path}/nan.jsonl"), tmp_path / "nan.parquet")
    assert pq.read_table(tmp_path / "nan.parquet")["x"].to_pylist() == [None, "0.5"]


def test_cells_in_quotes_after_many_without_are_read(tmp_path: Path) -> None:
    """The first rows, by which DuckDB finds out how a file is written, have none."""
    rows = [f"ann,t{number},x" for number in range(40_000)]
    (tmp_path / "labels.csv").write_text(
        "\n".join(["worker,task,label", *rows, '"bo, the second","t\n1","a ""b"""']) + "\n"
    )
    fetch_address(Path(f"file://{tmp_path}/labels.csv"), tmp_path / "far.parquet")
    last = pq.read_table(tmp_path / "far.parquet").slice(len(rows)).to_pylist()
    assert last == [{"worker": "bo, the second", "task": "t\n1", "label": 'a "b"'}]
