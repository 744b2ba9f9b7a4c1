"""Micro-batches as a Prefect flow: its state goes on from run to run, and Prefect receives no row."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from flows.prefect.server import embedded_server
from flows.tables import TableError
from flows.watching import held_state

pytestmark = pytest.mark.prefect

CANARY = "worker-of-the-fourth-kind"
ROWS = "".join(f"{CANARY}{w},t{t},{'ab'[t % 2]}\n" for t in range(20) for w in range(4))


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The home of a server that is configured as the API."""
    from prefect.settings import PREFECT_API_URL, PREFECT_LOGGING_TO_API_ENABLED, temporary_settings

    home = tmp_path / "prefect"
    monkeypatch.setenv("PREFECT_HOME", str(home))
    with (
        embedded_server(home) as url,
        temporary_settings({PREFECT_API_URL: url, PREFECT_LOGGING_TO_API_ENABLED: False}),
    ):
        yield home


def test_each_run_takes_in_what_is_new_and_prefect_is_told_no_row(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from flows.prefect import watch_labels_flow

    labels, state = tmp_path / "labels.csv", tmp_path / "state.npz"
    labels.write_text("who,task,label\n" + ROWS[:400])
    columns = {"worker": "who"}
    watch_labels_flow(str(labels), str(state), columns=columns)
    with labels.open("a") as file:
        file.write(ROWS[400:])
    watch_labels_flow(str(labels), str(state), columns=columns)
    with held_state(state) as watcher:
        assert watcher.counts == "80 labels, 4 workers, 20 tasks"
    with labels.open("a") as file:
        file.write(f"{CANARY},,a\n")
    with pytest.raises(TableError, match="column task: the cell is blank"):
        watch_labels_flow(str(labels), str(state), columns=columns)
    assert "the cell is blank" in capsys.readouterr().err
    (database,) = home.glob("*.db")
    with sqlite3.connect(database) as connection:
        told = "\n".join(connection.iterdump())
    connection.close()
    assert "crowdassay-watch" in told
    assert "TableError" in told
    assert CANARY not in told
