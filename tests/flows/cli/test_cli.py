"""The command line: what each command does, and what a mistake looks like."""

from __future__ import annotations

import contextlib
import csv
import json
import os
import platform
import re
import shlex
import shutil
import sqlite3
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from flows.aggregators import AGGREGATORS, ORDERED
from flows.cli import app
from flows.pipeline import run_pipeline, run_stage
from flows.run import Run, open_run, why_begun_anew
from flows.settings import load_settings
from flows.stages import Stage
from tests.flows.campaign import write_small_campaign

COMMANDS = (
    "aggregate",
    "agreement",
    "audit",
    "block",
    "budget",
    "check",
    "compare",
    "demo",
    "doctor",
    "import",
    "init",
    "ledger",
    "ledger backup",
    "ledger verify",
    "power",
    "prune",
    "report",
    "repost",
    "run",
    "simulate",
    "workers",
)


def invoke(*arguments: str):  # type: ignore[no-untyped-def]
    return CliRunner().invoke(app, list(arguments))


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("campaign")
    settings = write_small_campaign(folder)
    assert invoke("run", str(settings), "--no-prefect").exit_code == 0
    return folder


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_with_an_example(command: str) -> None:
    told = invoke(*command.split(), "--help")
    assert told.exit_code == 0
    assert f"Example: crowdassay {command}" in told.output


def test_a_run_prints_a_line_a_stage_a_table_and_where_the_report_lies(tmp_path: Path) -> None:
    told = invoke("run", str(write_small_campaign(tmp_path)), "--no-prefect")
    assert told.exit_code == 0
    lines = told.output.splitlines()
    names = [line[:19].strip() for line in lines[:8]]
    assert names == [
        "read and check",
        "judge workers",
        "aggregate",
        "publish proportions",
        "estimate ratios",
        "train privately",
        "ask holdout",
        "write report",
    ]
    assert "What the run found" in told.output
    assert lines[-1].endswith("report.html")


def test_without_an_api_a_run_says_that_it_is_in_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PREFECT_API_URL", raising=False)
    monkeypatch.setenv("PREFECT_HOME", str(tmp_path / "no-prefect"))
    told = invoke("run", str(write_small_campaign(tmp_path)))
    assert told.output.splitlines()[0] == (
        "no Prefect API is configured and reachable: running in process"
    )


def test_json_is_one_object_for_machines(tmp_path: Path) -> None:
    told = invoke("run", str(write_small_campaign(tmp_path)), "--no-prefect", "--json")
    found = json.loads(told.stdout)
    assert Path(found["report"]).is_file()
    assert found["stages"][0]["stage"] == "read_and_check"


def test_an_unfinished_run_is_pointed_out_where_resume_goes_on_in_it(tmp_path: Path) -> None:
    """And nowhere else: not where an input has changed since, nor while it is at work."""
    path = write_small_campaign(tmp_path)
    path.write_text('name = "bare"\n[input]\nlabels = "labels.csv"\n', encoding="utf-8")
    run = open_run(load_settings(path))
    run.stop("cancelled")
    words = ("run", str(path), "--no-prefect", "--again")
    assert "an earlier run did not end" in invoke(*words).output
    manifest = run.read_json("manifest.json")
    at_work = {"state": "running", "process": {"host": platform.node(), "pid": os.getppid()}}
    for changed in ({"identity": "another"}, at_work):
        run.write_json("manifest.json", manifest | changed)
        assert "an earlier run did not end" not in invoke(*words).output


def test_resume_says_where_it_begins_anew_because_other_versions_began_the_run(
    tmp_path: Path,
) -> None:
    """And nowhere else: not where it goes on in an older run, nor while the newest is at work."""
    path = write_small_campaign(tmp_path)
    path.write_text('name = "bare"\n[input]\nlabels = "labels.csv"\n', encoding="utf-8")
    older, newest = (open_run(load_settings(path)) for _ in range(2))
    older.stop("cancelled")
    newest.stop("cancelled")
    manifest = newest.read_json("manifest.json")
    versions = manifest["versions"] | {"numpy": "1.0"}
    newest.write_json("manifest.json", manifest | {"versions": versions})
    words = ("run", str(path), "--no-prefect", "--resume", "--again")
    assert "begins a new run" not in invoke(*words).output
    assert not older.folder.exists()
    said = invoke(*words).output.splitlines()
    assert [line for line in said if "begins a new run" in line] == [
        f"--resume begins a new run: the newest run that did not end ({newest.folder}) began under "
        f"numpy 1.0, now {manifest['versions']['numpy']}"
    ]
    at_work = {"state": "running", "process": {"host": platform.node(), "pid": os.getppid()}}
    newest.write_json("manifest.json", newest.read_json("manifest.json") | at_work)
    assert "begins a new run" not in invoke(*words).output


def test_resume_says_which_settings_or_inputs_are_others_where_it_begins_anew(
    tmp_path: Path,
) -> None:
    """Files by their names, as of a campaign that was moved; inputs once the run has read them."""
    (tmp_path / "before").mkdir()
    path = write_small_campaign(tmp_path / "before")
    text = path.read_text(encoding="utf-8").replace("epsilon = 20.0", "epsilon = 9.6")

    def stopped(stage: Stage, run: Run) -> str:
        if stage.name == "judge_workers":
            raise KeyboardInterrupt
        return run_stage(stage, run)

    with pytest.raises(KeyboardInterrupt):
        run_pipeline(load_settings(path), step=stopped)
    moved = (tmp_path / "before").rename(tmp_path / "now")
    path, begun = moved / "settings.toml", load_settings(moved / "settings.toml")
    assert why_begun_anew(begun) is None
    path.write_text(text.replace("fraction = 0.1", "fraction = 0.2"), encoding="utf-8")
    other = load_settings(path)
    (folder,) = other.runs.iterdir()
    anew = f"the newest run that did not end ({folder}) began with other"
    assert why_begun_anew(other) == f"{anew} settings: [filter] fraction, [privacy] epsilon"
    with (moved / "gold.csv").open("a", encoding="utf-8") as file:
        file.write("\n")
    said = invoke("run", str(path), "--no-prefect", "--resume").output.splitlines()
    assert [one for one in said if "anew" in one or "begins a new run" in one] == [
        f"--resume begins a new run: {why_begun_anew(other)}"
    ]
    assert why_begun_anew(begun) == f"{anew} inputs: gold.csv"
    (folder / "inputs.json").unlink()
    assert why_begun_anew(begun) == f"{anew} inputs"
    (begun.state / "fingerprint.key").unlink()
    assert "which it lacks now" in str(why_begun_anew(begun))


def test_workers_are_ranked_with_a_verdict(finished: Path, tmp_path: Path) -> None:
    output = tmp_path / "workers.csv"
    told = invoke(
        "workers", str(finished / "labels.csv"), "--fraction", "0.15", "--output", str(output)
    )
    assert told.exit_code == 0
    rows = rows_of(output)
    assert len(rows) == 15
    assert {row["worker"] for row in rows[:2]} == {"w00", "w01"}  # who answer at random
    assert rows[0]["verdict"].startswith("removed ")


def test_a_worker_who_met_no_disagreement_has_empty_cells(tmp_path: Path) -> None:
    """Of two tasks all agree on the first, and ann labelled nothing else: she has no reputation."""
    (tmp_path / "labels.csv").write_text(
        "worker,task,label\nann,t1,a\nbob,t1,a\nbob,t2,a\ncy,t2,b\ndee,t2,a\n"
    )
    output = tmp_path / "workers.csv"
    told = invoke("workers", str(tmp_path / "labels.csv"), "--output", str(output))
    assert told.exit_code == 0
    assert "nan" not in told.output.split()
    (ann,) = (row for row in rows_of(output) if row["worker"] == "ann")
    assert (ann["soft"], ann["reputation"], ann["agreement"]) == ("0", "", "1")


def test_aggregate_writes_one_row_per_task(finished: Path, tmp_path: Path) -> None:
    output = tmp_path / "consensus.csv"
    labels = str(finished / "labels.csv")
    for aggregator in AGGREGATORS:
        asked = ("aggregate", labels, "--aggregator", aggregator, "--output", str(output))
        order = ("--order", "a,b,c") if aggregator == ORDERED else ()
        told = invoke(*asked, *order, "--force")
        assert told.exit_code == 0
        rows = rows_of(output)
        assert len(rows) == 360
        assert {row["label"] for row in rows} == {"a", "b", "c"}


def test_repeated_labels_are_refused_or_resolved(finished: Path, tmp_path: Path) -> None:
    rows = (finished / "labels.csv").read_text()
    twice = tmp_path / "labels.csv"
    twice.write_text(rows + rows.splitlines()[1] + "\n")
    assert "stands 2 times" in invoke("workers", str(twice)).stderr
    assert invoke("workers", str(twice), "--duplicates", "first").exit_code == 0


def test_an_output_that_cannot_be_written_is_a_mistake(finished: Path, tmp_path: Path) -> None:
    told = invoke(
        "aggregate", str(finished / "labels.csv"), "--output", str(tmp_path / "no" / "c.csv")
    )
    assert told.exit_code == 2
    assert told.stderr.strip().endswith("must be a folder, and is not there; make it first")


def test_budget_tells_what_was_spent_on_what(finished: Path) -> None:
    told = invoke("budget", str(finished / "state"))
    assert told.exit_code == 0
    assert told.output.startswith("small: epsilon 9.5 of 20 spent, 10.5 left")
    assert "rows to train on" in told.output
    (found,) = json.loads(invoke("budget", str(finished / "state"), "--json").stdout)
    assert len(found["entries"]) == 8


def test_budget_lists_the_newest_entries_and_how_many_more_fit(finished: Path) -> None:
    state = str(finished / "state")
    told = invoke("budget", state, "--entries", "2").output
    assert "the newest 2 of 8 entries; --entries N lists more" in told
    assert "rows to train on at epsilon 7.5: 1 more fit, each for all its cells" in told
    assert "class counts" not in told
    none = invoke("budget", state, "--entries", "0").output.splitlines()
    assert none[0].startswith("small: epsilon 9.5 of 20 spent")
    assert none[1] == "8 entries; --entries N lists more"
    (found,) = json.loads(invoke("budget", state, "--json", "--entries", "2").stdout)
    assert (len(found["entries"]), found["n_entries"]) == (2, 8)


def test_a_run_is_previewed_without_its_labels(tmp_path: Path) -> None:
    settings = write_small_campaign(tmp_path)
    (tmp_path / "labels.csv").unlink()
    state = str(tmp_path / "state")
    asked = ("budget", state, "--preview", str(settings))
    told = invoke(*asked)
    assert told.exit_code == 0
    assert "small: a run on new data would ask for epsilon 9.5" in told.output
    assert "whether all fits is not known" in told.output
    told = invoke(*asked, "--tasks", "360")
    assert "epsilon 20 is left of epsilon 20: it fits" in told.output
    found = json.loads(invoke(*asked, "--tasks", "10", "--json").stdout)
    assert found["fits"] is False  # a gate on two tasks
    assert found["parts"][2]["epsilon"] == 2 * 2 / (0.02 * 2)
    assert not (tmp_path / "state").exists()


def test_a_preview_starts_from_what_is_left(finished: Path, tmp_path: Path) -> None:
    asked = ("budget", str(finished / "state"), "--preview")
    told = invoke(*asked, str(finished / "settings.toml"))
    assert "epsilon 10.5 is left of epsilon 20: it fits" in told.output
    dearer = tmp_path / "settings.toml"
    text = (finished / "settings.toml").read_text()
    dearer.write_text(text.replace("epsilon_train = 6.0", "epsilon_train = 9.0"))
    lines = invoke(*asked, str(dearer)).output.splitlines()
    assert "epsilon 10.5 is left of epsilon 20: it does not fit" in lines
    dearer.write_text(text.replace("epsilon = 20.0", "epsilon = 30.0"))
    assert "another budget, which a run refuses" in invoke(*asked, str(dearer)).output


def test_a_budget_that_its_own_run_exceeds_is_refused_before_any_table_is_read(
    tmp_path: Path,
) -> None:
    settings = write_small_campaign(tmp_path)
    settings.write_text(settings.read_text().replace("epsilon = 20.0", "epsilon = 8.0"))
    (tmp_path / "labels.csv").write_text("no table")
    told = invoke("run", str(settings), "--no-prefect")
    assert (told.exit_code, told.stdout) == (2, "")
    assert "does not cover this: asked epsilon=9.5" in told.stderr
    assert not (tmp_path / "runs").exists()


def test_a_budget_that_the_settings_change_is_refused_before_any_work(
    finished: Path, tmp_path: Path
) -> None:
    campaign = shutil.copytree(finished, tmp_path / "copy")
    settings = campaign / "settings.toml"
    settings.write_text(settings.read_text().replace("epsilon = 20.0", "epsilon = 30.0"))
    told = invoke("run", str(settings), "--no-prefect")
    assert (told.exit_code, told.stdout) == (2, "")
    assert "the budget of 'small' is epsilon=20" in told.stderr


def test_a_run_that_is_left_too_little_is_told_so_first_and_not_refused_for_what_is_free(
    finished: Path, tmp_path: Path
) -> None:
    """9.5 of 20 is spent; other counts cost 3, and their 7.5 are less than the 9.5 of a new run."""
    campaign = shutil.copytree(finished, tmp_path / "copy")
    settings = campaign / "settings.toml"
    text = settings.read_text()
    settings.write_text(text.replace("proportions_epsilon = 2.0", "proportions_epsilon = 3.0"))
    first = invoke("run", str(settings), "--no-prefect")
    assert (first.exit_code, "unless most of it was paid before" in first.output) == (0, False)
    settings.write_text(text)
    again = invoke("run", str(settings), "--no-prefect", "--again")
    assert again.exit_code == 0
    assert again.stdout.startswith(
        "epsilon=7.5, delta=0 per consensus label is left of epsilon=20, delta=0. A run on new data"
    )


@pytest.mark.parametrize("runs", ["labels.csv", "labels.csv/runs"])
def test_a_folder_of_runs_that_cannot_be_made_is_a_sentence(tmp_path: Path, runs: str) -> None:
    settings = write_small_campaign(tmp_path)
    settings.write_text(f'runs = "{runs}"\n{settings.read_text()}')
    told = invoke("run", str(settings), "--no-prefect")
    assert told.exit_code == 2
    where = (tmp_path / runs).resolve()
    assert f"runs must be a folder that can be made and written, got {where}: " in told.stderr


@pytest.mark.parametrize("section", ["[privacy]", "classes"])
def test_a_preview_of_a_run_that_releases_nothing_is_a_mistake(
    tmp_path: Path, section: str
) -> None:
    settings = write_small_campaign(tmp_path)
    text = settings.read_text()
    short = text.split("[privacy]")[0]
    if section == "classes":
        short = text.replace('classes = ["a", "b", "c"]\n', "")
    settings.write_text(short)
    told = invoke("budget", str(tmp_path / "state"), "--preview", str(settings))
    assert told.exit_code == 2
    assert "a run of them would release nothing" in told.stderr


def test_the_ledgers_chain_is_verified_and_damage_is_named(finished: Path, tmp_path: Path) -> None:
    told = invoke("ledger", "verify", str(finished / "state"))
    assert told.exit_code == 0
    assert told.output.startswith("17 rows, each as it was written.")
    state = tmp_path / "state"
    shutil.copytree(finished / "state", state)
    with contextlib.closing(sqlite3.connect(state / "ledger.sqlite")) as connection:
        (trigger,) = connection.execute(
            "SELECT name FROM sqlite_master WHERE type = 'trigger' AND tbl_name = 'entries' LIMIT 1"
        ).fetchone()
        connection.execute(f"DROP TRIGGER {trigger}")
        connection.commit()
    told = invoke("ledger", "verify", str(state))
    assert told.exit_code == 2
    assert told.stderr.startswith("crowdassay: ")
    assert len(told.stderr.splitlines()) == 1


def test_a_backup_is_a_ledger_and_never_overwrites(finished: Path, tmp_path: Path) -> None:
    state = tmp_path / "state"
    state.mkdir(mode=0o700)
    shutil.copy2(finished / "state" / "fingerprint.key", state)
    asked = ("ledger", "backup", str(finished / "state"), str(state / "ledger.sqlite"))
    assert invoke(*asked).exit_code == 0
    assert invoke("ledger", "verify", str(state)).output.startswith("17 rows")
    told = invoke(*asked)
    assert told.exit_code == 2
    assert "a backup is written to a new file" in told.stderr


@pytest.mark.parametrize("command", ["verify", "backup"])
def test_a_folder_without_a_ledger_has_nothing_to_check(tmp_path: Path, command: str) -> None:
    file = [str(tmp_path / "copy")] if command == "backup" else []
    told = invoke("ledger", command, str(tmp_path), *file)
    assert told.exit_code == 2
    assert "holds no ledger.sqlite" in told.stderr


def test_a_budget_can_be_raised_and_the_old_one_stays_on_record(tmp_path: Path) -> None:
    settings = write_small_campaign(tmp_path)
    assert invoke("run", str(settings), "--no-prefect").exit_code == 0
    state = str(tmp_path / "state")
    told = invoke("budget", state, "--dataset", "small", "--raise-to", "25")
    assert told.output.startswith("small: epsilon 9.5 of 25 spent")
    both = invoke("budget", state, "--raise-to", "30", "--preview", str(settings))
    assert (both.exit_code, "--raise-to and --preview are two commands" in both.stderr) == (2, True)
    alone = invoke("budget", state, "--tasks", "5")
    assert (alone.exit_code, "--tasks needs --preview" in alone.stderr) == (2, True)
    again = invoke("run", str(settings), "--no-prefect", "--again")
    assert again.exit_code == 2  # the settings still say 20
    assert "crowdassay budget STATE --dataset NAME --raise-to EPSILON" in again.stderr


def test_budget_of_a_folder_without_a_ledger_is_a_mistake(tmp_path: Path) -> None:
    told = invoke("budget", str(tmp_path))
    assert told.exit_code == 2
    assert "holds no ledger.sqlite" in told.stderr


def test_a_sound_mechanism_is_not_refuted_and_a_trial_can_be_read_by_machines() -> None:
    told = invoke(
        "audit", "lattice_laplace", "--counts", "3,3", "--draws", "300", "--level", "0.9999999"
    )
    assert told.exit_code == 0
    assert "LatticeLaplace(epsilon=1.0) claims epsilon 1, delta 0." in told.output
    assert "Not refuted, which is no proof." in told.output
    told = invoke("audit", "discrete_laplace", "--draws", "20", "--json", "--level", "0.9999999")
    assert json.loads(told.output)["refuted"] is False


@pytest.mark.parametrize(
    ("option", "value", "sentence"),
    [
        ("--counts", "3;3", "counts must be integers with commas between, got '3;3'"),
        ("--counts", "0,3", "counts must be of 2 classes or more, the first of them >= 1"),
        ("--epsilon", "-1", "epsilon must be > 0 and finite, got epsilon=-1.0"),
        ("--level", "2", "level must be in (0, 1), got level=2.0"),
    ],
)
def test_a_trial_that_cannot_be_is_a_mistake(option: str, value: str, sentence: str) -> None:
    told = invoke("audit", "lattice_laplace", "--draws", "5", option, value)
    assert told.exit_code == 2
    assert sentence in told.stderr


@pytest.mark.parametrize(
    ("mechanism", "option", "value"),
    [
        ("lattice_laplace", "--delta", "1e-6"),
        ("noisy_moments", "--counts", "3,3"),
        ("discrete_gaussian", "--floor", "3"),
    ],
)
def test_a_claim_that_a_mechanism_lacks_is_refused(mechanism: str, option: str, value: str) -> None:
    told = invoke("audit", mechanism, "--draws", "5", option, value)
    assert told.exit_code == 2
    assert f"{option} plays no part in {mechanism}; leave it out" in told.stderr


def test_report_is_built_again_with_the_same_bytes(finished: Path) -> None:
    run = next(iter((finished / "runs").iterdir()))
    before = (run / "report.html").read_bytes()
    (run / "report.html").unlink()
    assert invoke("report", str(run)).exit_code == 0
    assert (run / "report.html").read_bytes() == before
    assert invoke("report", str(run), "--show-worker-ids").exit_code == 0
    assert b"w00" in (run / "report.html").read_bytes()


def test_a_report_built_again_calls_workers_as_its_run_did(finished: Path, tmp_path: Path) -> None:
    run = next(iter((finished / "runs").iterdir()))
    named = tmp_path / run.name
    shutil.copytree(run, named)
    manifest = json.loads((named / "manifest.json").read_text(encoding="utf-8"))
    manifest["settings"]["report"]["worker_names"] = True
    (named / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    assert invoke("report", str(named)).exit_code == 0
    assert b"w00" in (named / "report.html").read_bytes()
    assert invoke("report", str(named), "--worker", "w00").exit_code == 0
    (page,) = named.glob("worker-*.html")
    assert b"w00" in page.read_bytes()
    assert invoke("report", str(named), "--no-show-worker-ids").exit_code == 0
    assert b"w00" not in (named / "report.html").read_bytes()


@pytest.mark.parametrize("lacking", ["robustness.json", "alpha_kept", "hard_penalty"])
def test_report_of_a_run_of_another_version_is_a_sentence(
    finished: Path, tmp_path: Path, lacking: str
) -> None:
    """A file, a fact or a column that is not there; the report that is there stays."""
    (run,) = (finished / "runs").iterdir()
    old = tmp_path / run.name
    shutil.copytree(run, old)
    if lacking.endswith(".json"):
        (old / lacking).unlink()
    elif lacking == "hard_penalty":
        workers = pq.read_table(old / "workers.parquet").drop_columns([lacking])
        pq.write_table(workers, old / "workers.parquet")
    else:
        facts = json.loads((old / "quality.json").read_text(encoding="utf-8"))
        del facts[lacking]
        (old / "quality.json").write_text(json.dumps(facts), encoding="utf-8")
    before = (old / "report.html").read_bytes()
    told = invoke("report", str(old))
    assert told.exit_code == 2
    (line,) = told.stderr.splitlines()
    assert lacking in line
    assert "was written by other code" in line
    assert "`crowdassay run SETTINGS --again` makes a run with this code" in line
    assert (old / "report.html").read_bytes() == before


def test_report_of_no_run_is_a_mistake(tmp_path: Path) -> None:
    told = invoke("report", str(tmp_path))
    assert told.exit_code == 2
    assert "must be the folder of a finished run" in told.stderr


def test_the_sample_campaign_is_what_simulate_writes(tmp_path: Path) -> None:
    sample = Path(__file__).resolve().parents[3] / "sample_data"
    assert invoke("simulate", "--seed", "20", "--output", str(tmp_path)).exit_code == 0
    for name in ("labels.csv", "tasks.csv", "gold.csv", "settings.toml", "truth/workers.csv"):
        assert (tmp_path / name).read_bytes() == (sample / name).read_bytes(), name


def test_the_demo_runs_on_a_copy_and_keeps_edited_settings(tmp_path: Path) -> None:
    folder = tmp_path / "demo"
    assert invoke("demo", "--folder", str(folder), "--no-prefect").exit_code == 0
    settings = folder / "settings.toml"
    settings.write_text(settings.read_text().replace("false_removal_rate", "fraction"))
    told = invoke("demo", "--folder", str(folder), "--no-prefect")
    assert "12 of 120 workers removed" in told.output


def test_the_demo_spends_no_other_campaigns_budget(tmp_path: Path) -> None:
    """It ran whatever settings lay in its folder, again and again, and paid from their budget."""
    settings = write_small_campaign(tmp_path / "my campaign")
    before = sorted(path.name for path in settings.parent.iterdir())
    told = invoke("demo", "--folder", str(settings.parent), "--no-prefect")
    assert (told.exit_code, "where 'small' lies: name a new folder or" in told.stderr) == (2, True)
    assert sorted(path.name for path in settings.parent.iterdir()) == before
    words = shlex.split(told.stderr.partition("by crowdassay ")[2])
    assert invoke(*words, "--no-prefect").exit_code == 0


def test_a_crowd_of_any_size_and_strategies_can_be_simulated(tmp_path: Path) -> None:
    sizes = ("--tasks", "60", "--workers", "8", "--labels-per-task", "3", "--classes", "4")
    kinds = ("--strategy", "sybils=2", "--strategy", "random=1")
    told = invoke("simulate", "--output", str(tmp_path), *sizes, *kinds)
    assert (told.exit_code, "240 labels written" in told.stdout) == (0, True)
    workers = (tmp_path / "truth" / "workers.csv").read_text(encoding="utf-8").splitlines()[1:]
    assert sorted(line.split(",")[1] for line in workers) == [
        *["honest"] * 7, "random", "sybils", "sybils",
    ]  # fmt: skip
    assert len((tmp_path / "gold.csv").read_text(encoding="utf-8").splitlines()) == 13
    assert 'labels = "labels.csv"' in (tmp_path / "settings.toml").read_text(encoding="utf-8")
    smallest = ("--tasks", "1", "--workers", "1", "--labels-per-task", "1")
    told = invoke("simulate", "--output", str(tmp_path / "one"), *smallest)
    assert told.stdout == f"1 label written to {tmp_path / 'one'}\n"


def test_the_examples_of_simulate_work_as_they_are_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One named a script that nobody has."""
    monkeypatch.chdir(tmp_path)
    shown = " ".join(
        CliRunner(env={"COLUMNS": "400"}).invoke(app, ["simulate", "--help"]).stdout.split()
    )
    examples = re.findall(
        r"crowdassay (simulate [^,│]*?--output \w+)", shown.partition("Example: ")[2]
    )
    assert len(examples) == 2
    for place, words in enumerate(examples):
        told = invoke(*words.replace("--output crowd", f"--output crowd{place}").split())
        assert (told.exit_code, "labels written to" in told.stdout) == (0, True)


def test_a_crowd_that_grades_can_be_simulated_and_its_settings_say_so(tmp_path: Path) -> None:
    sizes = ("--tasks", "300", "--workers", "20", "--classes", "5", "--ordered")
    kinds = ("--strategy", "shifted=3", "--strategy", "nominal=2")
    told = invoke("simulate", "--output", str(tmp_path), *sizes, *kinds)
    assert told.exit_code == 0, told.output
    settings = load_settings(tmp_path / "settings.toml")
    assert (settings.classes, settings.input.order) == (("1", "2", "3", "4", "5"), True)
    proposed = tmp_path / "proposed.toml"
    assert invoke("init", str(tmp_path / "labels.csv"), "--output", str(proposed)).exit_code == 0
    assert load_settings(proposed).input.order
    kinds_written = [
        line.split(",")[1]
        for line in (tmp_path / "truth" / "workers.csv")
        .read_text(encoding="utf-8")
        .splitlines()[1:]
    ]
    assert sorted(set(kinds_written)) == ["honest", "nominal", "shifted"]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (("--tasks", "60", "--ordered"), "ordered classes must be 3 or more"),
        (("--tasks", "60", "--classes", "4", "--several", "2", "--ordered"), "one class a task"),
        (("--tasks", "60", "--strategy", "clones=2"), "adversaries must be of"),
        (("--tasks", "60", "--strategy", "sybils"), "strategy must be a name and a number"),
        (("--tasks", "60", "--workers", "3"), "--labels-per-task must be in"),
        (("--strategy", "sybils=2"), "--strategy is for a crowd: give its size as --tasks"),
    ],
)
def test_sizes_and_strategies_out_of_range_are_refused(
    tmp_path: Path, given: tuple[str, ...], message: str
) -> None:
    told = invoke("simulate", "--output", str(tmp_path), *given)
    assert told.exit_code == 2
    (line,) = told.stderr.splitlines()
    assert line.startswith("crowdassay: ")
    assert message in line


@pytest.mark.prefect
def test_a_state_that_is_a_file_is_refused_before_a_flow(tmp_path: Path) -> None:
    """It was a traceback, where the same run in process had a sentence."""
    path = write_small_campaign(tmp_path)
    (tmp_path / "state").touch()
    refused = CliRunner().invoke(app, ["run", str(path), "--prefect", "--again"])
    assert refused.exit_code == 2, refused.exception
    assert f"state must be a folder that can be made and written, got {tmp_path}" in refused.stderr
