"""Why the newest run failed is kept for its owner until another succeeds, whoever started it."""

from __future__ import annotations

import errno
import fcntl
import importlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest
from typer.testing import CliRunner

from flows.cli import app
from flows.files import OutputError
from flows.pipeline import Step, run_pipeline, run_stage
from flows.run import (
    LAST_FAILURE,
    PARTIAL,
    Run,
    find_unfinished,
    forget_failure,
    identity_of,
    last_failure,
    list_runs,
    note_failure,
    open_run,
    prune_runs,
    runs_to_prune,
    unfinished_runs,
)
from flows.run.history import NEEDED
from flows.run.store import LOCK, alone_with
from flows.settings import Settings, SettingsError, load_settings
from flows.spending import open_state
from flows.stages import KEPT, Stage
from flows.tables import TableError
from privacy import BudgetError, LedgerError
from tests.flows.campaign import toy_settings, write_small_campaign


def test_why_a_run_failed_is_kept_until_one_succeeds(tmp_path: Path) -> None:
    path = write_small_campaign(tmp_path)
    settings, labels = load_settings(path), tmp_path / "labels.csv"
    settings.state.mkdir(mode=0o700)
    sound = labels.read_text()
    labels.write_text(sound + ",t,a\n")
    with pytest.raises(TableError) as refused:
        run_pipeline(settings)
    kept = last_failure(settings.state)
    assert kept is not None
    assert (kept["error"], kept["why"]) == ("TableError", str(refused.value))
    assert (settings.state / LAST_FAILURE).stat().st_mode & 0o777 == 0o600
    told = CliRunner().invoke(app, ["doctor", str(settings.state), "--json"])
    (found,) = [one for one in json.loads(told.stdout) if one["what"] == "newest run"]
    assert (found["sound"], str(refused.value) in found["found"]) == (False, True)
    labels.write_text(sound)
    run_pipeline(settings)
    assert last_failure(settings.state) is None


def test_the_note_of_a_failure_is_listed_as_one_that_may_hold_names() -> None:
    (listed,) = [output for output in KEPT if output.name == LAST_FAILURE]
    assert (listed.public, listed.private_names) == (False, True)


def test_without_a_state_folder_a_refused_run_leaves_nothing(tmp_path: Path) -> None:
    whole = load_settings(write_small_campaign(tmp_path))
    settings = whole.model_copy(update={"privacy": None, "model": None})
    (tmp_path / "labels.csv").unlink()
    with pytest.raises(TableError):
        run_pipeline(settings)
    assert not settings.state.exists()


def test_a_flow_that_fails_says_why_in_the_log_of_its_own_process(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    flow = importlib.import_module("flows.prefect.flow")

    def refuse(*_: object, **__: object) -> None:
        raise TableError("labels.csv, row 3: 'canary' is not among the classes")

    monkeypatch.setattr(flow, "_pipeline", refuse)
    state = flow._called(tmp_path / "settings.toml", resume=False)
    assert state.type == "FAILED"
    assert "row 3: 'canary'" in capsys.readouterr().err
    assert "canary" not in str(state.message)


def test_a_note_that_cannot_be_written_does_not_hide_the_failure(tmp_path: Path) -> None:
    (tmp_path / LAST_FAILURE).mkdir()  # nothing can be renamed to it
    note_failure(tmp_path, ValueError("x"), "x", campaign="posts")
    assert last_failure(tmp_path) is None


def test_a_note_that_is_damaged_does_not_end_a_run_that_has_succeeded(tmp_path: Path) -> None:
    (tmp_path / LAST_FAILURE).write_text('{"campaign": "po')
    assert last_failure(tmp_path, "posts") is None
    forget_failure(tmp_path, "posts")


def test_a_run_on_which_another_process_is_at_work_is_not_resumed(tmp_path: Path) -> None:
    """Two would write one folder, and the first to end would take it from under the other."""
    settings = load_settings(write_small_campaign(tmp_path))
    run = open_run(settings)
    assert open_run(settings, resume=True).folder == run.folder  # of this process
    manifest = run.read_json("manifest.json")
    manifest["process"]["pid"] = os.getppid()
    run.write_json("manifest.json", manifest)
    assert open_run(settings, resume=True).folder != run.folder
    manifest["process"]["pid"] = 2**22 + 1  # above any that Linux gives
    run.write_json("manifest.json", manifest)
    assert find_unfinished(settings, manifest["identity"]) is not None


@contextmanager
def held_by_another(run: Run) -> Iterator[None]:
    """Lock a run as another process does: by an open file of its own."""
    descriptor = os.open(run.folder / LOCK, os.O_RDWR)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(descriptor)


def write_process(run: Run, **process: object) -> None:
    manifest = run.read_json("manifest.json")
    run.write_json("manifest.json", manifest | {"process": manifest["process"] | process})


def test_a_run_that_is_at_work_on_another_machine_is_neither_resumed_nor_pruned(
    tmp_path: Path,
) -> None:
    """Its lock says so, while its process id means nothing here."""
    settings = toy_settings(tmp_path)
    run = open_run(settings)
    run.release()
    write_process(run, host="elsewhere")
    with held_by_another(run):
        assert find_unfinished(settings, identity_of(settings)) is None
        assert left_by(settings) == [(run.final_name, "running")]
        assert open_run(settings, resume=True).folder != run.folder
        run.write_json("manifest.json", run.read_json("manifest.json") | {"state": "failed"})
        assert prune_runs(toy_settings(tmp_path, seed=1), 1) == []  # begun again just now
    assert [one.folder for one in prune_runs(toy_settings(tmp_path, seed=1), 1)] == [run.folder]


def test_a_run_whose_process_id_is_anothers_by_now_has_died(tmp_path: Path) -> None:
    settings = toy_settings(tmp_path)
    run = open_run(settings)
    run.release()  # as the system does when a process ends
    write_process(run, pid=os.getppid())
    assert left_by(settings) == [(run.final_name, "died")]
    assert open_run(settings, resume=True).folder == run.folder


def test_without_a_lock_the_process_id_tells(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a file system that has none."""

    def none(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", none)
    settings = toy_settings(tmp_path)
    run = open_run(settings)
    assert open_run(settings, resume=True).folder == run.folder  # of this process
    write_process(run, pid=os.getppid())
    assert left_by(settings) == [(run.final_name, "running")]
    assert find_unfinished(settings, identity_of(settings)) is None
    write_process(run, pid=2**22 + 1)
    assert left_by(settings) == [(run.final_name, "died")]
    assert open_run(settings, resume=True).folder == run.folder


def test_of_two_that_resume_at_once_one_begins_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = importlib.import_module("flows.run.store")
    settings = toy_settings(tmp_path)
    run = open_run(settings)
    run.stop("failed")
    find, faster = store.find_unfinished, held_by_another(run)
    looks = []

    def overtaken(*asked: object) -> Run | None:
        found = find(*asked)
        if not looks:
            faster.__enter__()
        looks.append(found)
        return found

    monkeypatch.setattr(store, "find_unfinished", overtaken)
    assert open_run(settings, resume=True).folder != run.folder
    assert looks == [run, None]
    faster.__exit__(None, None, None)


def test_a_complete_run_holds_no_lock(tmp_path: Path) -> None:
    run = open_run(toy_settings(tmp_path))
    assert (run.folder / LOCK).is_file()
    assert [path.name for path in run.close().folder.iterdir()] == ["manifest.json"]


def another_may_remove(run: Run) -> bool:
    """Ask a process that has nothing open yet."""
    code = (
        "import sys; from pathlib import Path; from flows.run.store import alone_with\n"
        "with alone_with(Path(sys.argv[1])) as alone: print(alone)"
    )
    asked = [sys.executable, "-c", code, str(run.folder)]
    return subprocess.run(asked, check=True, capture_output=True, text=True).stdout == "True\n"


def test_what_a_process_has_ended_stays_until_it_has_another(tmp_path: Path) -> None:
    """Whoever has a run's result reads it from the folder."""
    settings = toy_settings(tmp_path)
    first = open_run(settings).close()
    assert not another_may_remove(first)
    with alone_with(first.folder) as alone:
        assert alone  # it knows what it reads itself
    second = open_run(settings).close()
    assert another_may_remove(first)
    assert not another_may_remove(second)


def test_what_another_process_has_ended_is_not_pruned(tmp_path: Path) -> None:
    settings = toy_settings(tmp_path)
    ended = []
    for _ in range(2):
        run = open_run(settings).close()
        for name in NEEDED:
            (run.folder / name).touch()
        ended.append(run)
    first, second = ended
    descriptor = os.open(first.folder, os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_SH)  # as another process does that reads on in it
    assert prune_runs(settings, 1, ended=second) == []
    os.close(descriptor)
    assert prune_runs(settings, 1, ended=second) == [first]
    assert not first.folder.exists()


def test_a_run_that_is_found_unchanged_stays_too(tmp_path: Path) -> None:
    settings = load_settings(write_small_campaign(tmp_path))
    run = run_pipeline(settings).run
    open_run(settings).close()  # of nothing: it is no complete run, and what is read on in
    assert another_may_remove(run)
    assert run_pipeline(settings).unchanged
    assert not another_may_remove(run)


def test_a_run_begun_by_another_version_is_not_gone_on_in(tmp_path: Path) -> None:
    """Its manifest names one version, and its stages would be of two."""
    settings = toy_settings(tmp_path)
    run = open_run(settings)
    run.stop("failed")
    manifest = run.read_json("manifest.json")
    assert find_unfinished(settings, manifest["identity"]) is not None
    for other in ({"versions": manifest["versions"] | {"crowdassay": "0.0.1"}}, {"python": "3.0"}):
        run.write_json("manifest.json", manifest | other)
        assert find_unfinished(settings, manifest["identity"]) is None
    assert open_run(settings, resume=True).folder != run.folder


def test_two_runs_that_start_in_one_second_have_folders_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where neither sees the other's when it looks."""
    settings, start = toy_settings(tmp_path), datetime(2026, 11, 21, tzinfo=UTC)
    monkeypatch.setattr("flows.run.store._now", lambda: start)
    monkeypatch.setattr(Path, "exists", lambda _: False)
    names = [open_run(settings).final_name for _ in range(2)]
    assert names == ["20261121T000000Z-toy", "20261121T000000Z-toy-2"]


def test_a_failure_is_of_its_own_campaign(tmp_path: Path) -> None:
    """Campaigns that share a state folder neither show each other's failures nor forget them."""
    note_failure(tmp_path, ValueError("x"), "x", campaign="posts")
    assert last_failure(tmp_path, "photos") is None
    forget_failure(tmp_path, "photos")
    assert last_failure(tmp_path, "posts") == last_failure(tmp_path)
    forget_failure(tmp_path, "posts")
    assert last_failure(tmp_path) is None


def stops_at(name: str, stopped: BaseException) -> Step:
    """Run stages until one is reached, and stop there."""

    def step(stage: Stage, run: Run) -> str:
        if stage.name == name:
            raise stopped
        return run_stage(stage, run)

    return step


def left_by(settings: Settings) -> list[tuple[str, str]]:
    """Name and state of each run that has a folder."""
    return [(one.name, one.state) for one in list_runs(settings)]


def bare(folder: Path) -> Settings:
    """The small campaign without a release, whose runs take a moment."""
    settings = load_settings(write_small_campaign(folder))
    return settings.model_copy(update={"privacy": None, "model": None})


@pytest.mark.parametrize(
    "stopped",
    [
        OSError(errno.EIO, "Input/output error"),
        OutputError("report.html: No space left on device"),
        LedgerError("the ledger is locked"),
        ValueError("operands could not be broadcast"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_what_is_whole_stays_where_neither_tables_nor_settings_are_to_blame(
    tmp_path: Path, stopped: Exception
) -> None:
    settings = bare(tmp_path)
    with pytest.raises(type(stopped)):
        run_pipeline(settings, step=stops_at("write_report", stopped))
    ((name, state),) = left_by(settings)
    assert state == "failed"
    assert run_pipeline(settings, resume=True).folder.name == name


@pytest.mark.parametrize(
    ("stage", "stopped"),
    [
        ("read_and_check", OSError(errno.EIO, "Input/output error")),
        ("aggregate", SettingsError("report.archetypes must be left out with 10,000 classes")),
    ],
    ids=["nothing whole", "refused"],
)
def test_a_run_with_nothing_whole_or_refused_for_its_settings_leaves_no_folder(
    tmp_path: Path, stage: str, stopped: Exception
) -> None:
    settings = bare(tmp_path)
    with pytest.raises(type(stopped)):
        run_pipeline(settings, step=stops_at(stage, stopped))
    assert list(settings.runs.iterdir()) == []


def test_a_run_that_dies_before_it_has_its_name_is_not_called_complete(tmp_path: Path) -> None:
    """Its manifest says so already; the folder's name is what tells, here and to other runs."""
    settings = bare(tmp_path)
    folder = run_pipeline(settings).folder
    folder.rename(folder.with_name(f"{PARTIAL}{folder.name}"))
    assert left_by(settings) == [(folder.name, "died")]
    assert run_pipeline(settings, step=only_after("write_report"), resume=True).folder == folder
    assert left_by(settings) == [(folder.name, "complete")]


def test_no_error_takes_from_a_resumed_run_what_was_whole(tmp_path: Path) -> None:
    settings = bare(tmp_path)
    with pytest.raises(KeyboardInterrupt):
        run_pipeline(settings, step=stops_at("aggregate", KeyboardInterrupt()))
    ((name, state),) = left_by(settings)
    assert state == "cancelled"
    with pytest.raises(SettingsError):
        run_pipeline(settings, step=stops_at("aggregate", SettingsError("no")), resume=True)
    assert left_by(settings) == [(name, "failed")]


def test_a_disk_that_is_full_does_not_hide_why_a_run_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OutputError("manifest.json: No space left on device")

    monkeypatch.setattr(Run, "stop", full)
    with pytest.raises(ZeroDivisionError):
        run_pipeline(bare(tmp_path), step=stops_at("aggregate", ZeroDivisionError()))


@pytest.mark.parametrize("stopped", [OutputError("no space is left"), KeyboardInterrupt()])
def test_a_run_that_cannot_begin_leaves_no_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stopped: BaseException
) -> None:
    """Without a manifest no prune would find it, and a schedule on a full disk would leave one a run."""

    def full(*_: object) -> None:
        raise stopped

    settings = bare(tmp_path)
    monkeypatch.setattr("flows.run.store.write_whole", full)
    with pytest.raises(type(stopped)):
        run_pipeline(settings)
    assert list(settings.runs.iterdir()) == []


def test_a_run_that_the_budget_does_not_cover_goes_on_once_it_is_larger(tmp_path: Path) -> None:
    """From its last whole stage, and its manifest then says the larger budget."""
    path = write_small_campaign(tmp_path)
    path.write_text(path.read_text().replace("epsilon = 20.0", "epsilon = 10.0"))
    run_pipeline(load_settings(path))
    labels = tmp_path / "labels.csv"
    labels.write_text(labels.read_text().replace(",a\n", ",c\n"))
    with pytest.raises(BudgetError):
        run_pipeline(load_settings(path))
    name, state = left_by(load_settings(path))[-1]
    assert state == "failed"
    with open_state(tmp_path / "state") as ledger:
        ledger.change_budget("small", epsilon=20.0, delta=0.0)
    path.write_text(path.read_text().replace("epsilon = 10.0", "epsilon = 20.0"))
    larger = load_settings(path)
    result = run_pipeline(larger, step=only_after("aggregate"), resume=True)
    assert result.folder.name == name
    manifest = result.run.read_json("manifest.json")
    assert manifest["identity"] == identity_of(larger)
    assert manifest["settings"]["privacy"]["epsilon"] == 20.0


def only_after(name: str) -> Step:
    """Run stages, none of which is to be begun up to this one."""
    waits = True

    def step(stage: Stage, run: Run) -> str:
        nonlocal waits
        assert not waits or run.finished(stage.name) is not None
        waits = waits and stage.name != name
        return run_stage(stage, run)

    return step


def test_a_run_that_has_published_goes_on_under_its_own_budget_alone(tmp_path: Path) -> None:
    settings = toy_settings(tmp_path)
    larger = toy_settings(tmp_path, privacy={"epsilon": 8.0})
    other = toy_settings(tmp_path, privacy={"epsilon": 8.0, "proportions_epsilon": 2.0})
    run = open_run(settings)
    assert find_unfinished(larger, identity_of(larger)) is not None
    assert find_unfinished(other, identity_of(other)) is None
    run.write_json("proportions.json", {})
    assert find_unfinished(larger, identity_of(larger)) is None
    assert find_unfinished(settings, identity_of(settings)) is not None


def test_a_run_that_did_not_end_is_its_own_campaigns(tmp_path: Path) -> None:
    """Whose name may be a part of another's."""
    short, long = (
        toy_settings(tmp_path).model_copy(update={"name": name}) for name in ("m", "m-shop")
    )
    run = open_run(long)
    (short.runs / f"{PARTIAL}20260101T000000Z-m").mkdir()  # died before it wrote a manifest
    assert unfinished_runs(short) == []
    assert left_by(short) == []
    assert [one.folder for one in unfinished_runs(long)] == [run.folder]


def test_runs_that_nothing_goes_on_in_are_pruned(tmp_path: Path) -> None:
    """Of other settings, and older ones of these; never one at work, or another campaign's."""
    settings, other = toy_settings(tmp_path), toy_settings(tmp_path, seed=1)
    stopped = [open_run(one) for one in (other, settings, settings)]
    for run in stopped:
        run.stop("failed")
    at_work = open_run(other)
    named_alike = open_run(settings.model_copy(update={"name": "toy-2"}))
    named_alike.stop("failed")
    assert {run.folder for run in prune_runs(settings, 1)} == {one.folder for one in stopped[:2]}
    left = {stopped[2].folder, at_work.folder, named_alike.folder}
    assert set(settings.runs.iterdir()) == left


def test_the_folder_of_a_run_that_was_killed_before_it_began_goes_after_a_day(
    tmp_path: Path,
) -> None:
    """Of any age, one that holds more than a lock and files half written stays, and so does a run."""
    settings = toy_settings(tmp_path)
    run = open_run(settings)
    names = ("empty", "locked", "young", "kept")
    empty, locked, young, kept = (
        settings.runs / f"{PARTIAL}{one}-{settings.name}" for one in names
    )
    for folder in (empty, locked, young, kept):
        folder.mkdir()
    (locked / ".lock").touch()
    (locked / ".manifest.json-x").touch()
    (kept / "labels.parquet").touch()
    for folder in (empty, locked, kept, run.folder):
        os.utime(folder, (0, 0))
    assert prune_runs(settings, 1) == []
    assert set(settings.runs.iterdir()) == {young, kept, run.folder}


def test_a_run_that_another_process_has_pruned_is_left_to_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = toy_settings(tmp_path)
    stopped = [open_run(toy_settings(tmp_path, seed=seed)) for seed in (1, 2)]
    for run in stopped:
        run.stop("failed")
    listed = runs_to_prune(settings, 1)
    assert [run.folder for run in listed] == [run.folder for run in stopped]
    monkeypatch.setattr("flows.run.retention.runs_to_prune", lambda *_, **__: listed)
    stopped[0].discard()
    assert prune_runs(settings, 1) == listed[1:]
    monkeypatch.setattr(Run, "hold", lambda _: True)  # without locks
    assert prune_runs(settings, 1) == []


def test_the_ledgers_witness_is_kept_though_nothing_goes_on_in_it(tmp_path: Path) -> None:
    settings = toy_settings(tmp_path)
    run = open_run(toy_settings(tmp_path, seed=1))
    run.keep_head(3, "seal")
    run.stop("failed")
    assert prune_runs(settings, 1) == []


def test_the_newest_of_runs_that_saw_as_much_of_the_ledger_is_its_witness(tmp_path: Path) -> None:
    """As of runs that pay nothing, because all of their releases had been paid for."""
    settings = toy_settings(tmp_path)
    ended = []
    for _ in range(3):
        run = open_run(settings)
        run.keep_head(3, "seal")
        run = run.close()
        for name in NEEDED:
            (run.folder / name).touch()
        ended.append(run.folder)
    assert [run.folder for run in runs_to_prune(settings, 1)] == ended[:2]
