"""Advice works: each command that a message recommends is run in the situation in which it is given."""

from __future__ import annotations

import ast
import contextlib
import json
import re
import shlex
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import pytest
from typer.main import get_command
from typer.testing import CliRunner

from flows.cli import app
from flows.tables import first_fault
from tests.flows.campaign import write_small_campaign

FLOWS = Path(__file__).resolve().parents[3] / "flows"
# Every command that a message of a file recommends, and the test that runs it there.
TRIED = {
    ("campaign.py", "run"): "test_a_run_that_other_code_wrote_is_made_again",
    ("console.py", "budget"): "test_a_budget_is_raised_and_then_said_in_the_settings",
    ("privacy_commands.py", "audit"): "test_the_audit_that_a_runs_folder_is_told_of_is_made",
    ("root.py", "run"): "test_the_end_of_the_terminal_cancels_a_run_which_is_resumed",
    ("root.py", "import"): "test_a_query_is_fetched_by_the_command_that_is_named",
    ("tables.py", "import"): "test_one_of_several_questions_is_taken_by_the_command_that_is_named",
    ("label_lines.py", "import"): "test_what_cannot_grow_is_written_as_a_table_that_can",
    (
        "checking.py",
        "multilabel",
    ): "test_cells_of_several_labels_are_read_by_the_command_that_is_named",
    ("text_table.py", "check"): "test_the_line_of_a_quote_that_does_not_close_is_named_by_check",
    ("importing.py", "multilabel"): "test_what_was_imported_is_what_multilabel_reads",
    ("multilabel_command.py", "aggregate"): "test_answers_of_one_label_are_aggregated",
    ("campaign_terms.py", "budget"): "test_another_budget_is_refused_and_may_be_raised",
    ("writing.py", "budget"): "test_a_year_is_shown_by_the_command_that_the_proposal_names",
    ("init.py", "run"): "test_an_export_becomes_a_report_with_no_hand_editing",  # test_real_exports
    (
        "init.py",
        "import",
    ): "test_an_export_again_replaces_the_labels_by_the_command_that_init_names",
    (
        "init.py",
        "check",
    ): "test_rows_of_a_class_that_means_nothing_are_found_by_the_command_that_is_named",
    ("settings.py", "init"): "test_init_and_run_name_each_other_where_one_has_the_others_file",
    ("upkeep.py", "run"): "test_a_run_that_stopped_is_listed_as_such_and_resumed",  # machine/
    ("judge_workers.html.j2", "report"): "test_the_command_writes_the_page_under_the_pseudonym",
    ("worker.html.j2", "report"): "test_the_command_writes_the_page_under_the_pseudonym",
}
SAYS_WHO_DID = {  # no advice: what made a file, or is at work on it
    ("writing.py", "init"), ("release_files.py", "release"), ("label_watcher.py", "watch"),
    ("watch_state.py", "watch"), ("publication_files.py", "shares"),
}  # fmt: skip
ROWS = [f"w{w},t{t},{'ab'[(w * t) % 2]}" for w in range(4) for t in range(4)]


def invoke(*words: str):  # type: ignore[no-untyped-def]
    return CliRunner().invoke(app, list(words))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(name: str, header: str, rows: list[str], encoding: str = "utf-8") -> Path:
    path = Path(name)
    path.parent.mkdir(exist_ok=True)
    path.write_bytes("\n".join([header, *rows, ""]).encode(encoding))
    return path


@pytest.mark.parametrize("name", ["labels.csv", "my labels.csv", "labels.tsv", "there/labels.csv"])
@pytest.mark.parametrize("command", ["workers", "aggregate", "check"])
def test_other_names_are_mapped_by_the_option_that_is_named(
    folder: Path, name: str, command: str
) -> None:
    write(name, "who,item,label", ROWS)
    refused = invoke(command, name)
    assert refused.exit_code == 2
    advice = re.search(r"--map \S+(?=, or columns)", refused.stderr)
    assert advice is not None
    words = advice[0].replace("worker=...", "worker=who")
    told = invoke(command, name, *shlex.split(words))
    assert told.exit_code == 0, told.stderr


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_one_of_several_questions_is_taken_by_the_command_that_is_named(
    folder: Path, kind: str
) -> None:
    """Repeats that no column of few values tells apart are repeats; so are those of a column of many."""
    asked = [f"{row},{question}" for row in ROWS for question in ("is it so?", "tone")]
    path = write("labels.csv", "worker_id,item_id,answer,asked", asked)
    refused = invoke("init", "labels.csv")
    advice = re.search(r"which asked names.*crowdassay (import .+)$", refused.stderr.strip())
    assert advice is not None
    told = invoke(*shlex.split(advice[1]))
    assert told.exit_code == 0, told.stderr
    assert Path("one.csv").read_text().splitlines() == ["worker,task,label", *ROWS]
    if kind == "jsonl":
        rows = pd.read_csv(path).to_json(orient="records", lines=True)
        Path("labels.jsonl").write_text(rows, encoding="utf-8")
        names = "worker=worker_id,task=item_id,label=answer,question=asked"
        words = ("--format", "jsonl", "--map", names, "--output", "two.csv")
        several = invoke("import", "labels.jsonl", *words)
        assert "several questions: is it so?, tone; name one" in several.stderr
        assert invoke("import", "labels.jsonl", *words, "--question", "tone").exit_code == 0
        assert Path("two.csv").read_bytes() == Path("one.csv").read_bytes()
    for other in ("", ",when"):
        rows = [f"{row}{',' * bool(other)}{n if other else ''}" for n, row in enumerate(ROWS * 5)]
        write("labels.csv", f"worker,task,label{other}", rows)
        assert "several questions" not in invoke("init", "labels.csv").stderr


def test_rows_of_a_class_that_means_nothing_are_found_by_the_command_that_is_named(
    folder: Path,
) -> None:
    write("labels.csv", "worker,task,label", [*ROWS, "w4,t0,n/a"])
    told = invoke("init", "labels.csv")
    assert told.exit_code == 0, told.stderr
    words = " ".join(told.stdout.split())
    assert "may mean that there is no label: 'n/a'; crowdassay check finds their rows" in words
    found = invoke("check", "labels.csv")
    assert re.search(r"\b17\b[^\n]*n/a", found.stdout)  # its row


def test_a_truth_among_the_labels_is_read_by_the_options_that_are_named(folder: Path) -> None:
    """The column's name was not quoted, and the first word of it taken for the name."""
    rows = [f"{row},{row[-1]}" for row in ROWS if row.startswith("w0")]
    write("labels.csv", "worker,task,label,Gold Label", rows + [f"{row}," for row in ROWS[4:]])
    told = invoke("init", "labels.csv")
    advice = re.search(r"(--gold LABELS --gold-column .+) reads it", told.stdout)
    assert advice is not None
    words = shlex.split(advice[1].replace("LABELS", "labels.csv"))
    again = invoke("init", "labels.csv", *words, "--force")
    assert (again.exit_code, "4 gold tasks" in again.stdout) == (0, True), again.stderr


@pytest.mark.parametrize("command", ["workers", "aggregate", "init"])
def test_repeats_are_kept_by_the_option_that_is_named(folder: Path, command: str) -> None:
    write("labels.csv", "worker,task,label", [*ROWS, ROWS[0]])
    refused = invoke(command, "labels.csv")
    assert (refused.exit_code, "(--duplicates first)" in refused.stderr) == (2, True)
    assert invoke(command, "labels.csv", "--duplicates", "first").exit_code == 0


def test_an_encoding_is_said_by_the_option_that_is_named(folder: Path) -> None:
    late = [*(f"w{n},t{n},a" for n in range(60_000)), *ROWS, "josé,t1,b"]
    write("labels.csv", "worker,task,label", late, "cp1252")
    words = ("aggregate", "labels.csv", "--aggregator", "majority_vote")
    refused = invoke(*words, "--duplicates", "first")
    advice = re.search(r"--encoding \w+", refused.stderr)
    assert (refused.exit_code, advice is not None) == (2, True)
    assert advice is not None
    assert invoke(*words, "--duplicates", "first", *advice[0].split()).exit_code == 0


def test_a_wide_table_is_read_by_the_option_that_is_named(folder: Path) -> None:
    write("labels.csv", "task,ann,ben", ["1,a,b", "2,b,b", "3,a,a"])
    refused = invoke("aggregate", "labels.csv")
    assert (refused.exit_code, "--wide (wide = true) reads it so" in refused.stderr) == (2, True)
    assert invoke("aggregate", "labels.csv", "--wide").exit_code == 0


def options_of(command: str) -> set[str]:
    """The options that a command takes."""
    found: Any = get_command(app)
    for word in command.split():
        found = found.commands[word]
    return {name for one in found.params for name in one.opts}


@pytest.mark.parametrize(
    ("command", "header"),
    [
        ("multilabel", "worker,task,label"), ("rank", "worker,left,right,winner"),
        ("gate", "example,split,score"), ("workers", "worker,task,label"),
    ],
)  # fmt: skip
def test_an_option_that_is_named_for_a_table_is_one_of_the_command(
    folder: Path, command: str, header: str
) -> None:
    """What reads a wide table is no option of `multilabel`, nor --map of `rank` and `gate`."""
    write("wide.csv", "task,ann,ben", ["1,a,b", "2,b,b", "3,a,a"])
    refused = invoke(command, "wide.csv")
    assert refused.exit_code == 2
    rows = ["ann,x,y,x", "ben,y,x,x"] if command == "rank" else ["ann,x,a", "ben,y,b", "ann,y,a"]
    if command == "gate":
        rows = [f"e{n},{split},0.5" for n in range(40) for split in ("development", "holdout")]
    write("odd.csv", header.replace(",", ";"), [row.replace(",", ";") for row in rows])
    told = invoke(command, "odd.csv")
    assert "odd.csv was read separated by ';'; to override this: --sep" in told.stdout, told.stderr
    named = set(re.findall(r"--[a-z-]+", refused.stderr + told.stdout.splitlines()[0]))
    assert named <= options_of(command)


def test_how_the_tables_of_settings_are_read_is_overridden_there(folder: Path) -> None:
    settings = write_small_campaign(folder)
    labels = (folder / "labels.csv").read_text(encoding="utf-8")
    (folder / "labels.csv").write_text(labels.replace(",", ";"), encoding="utf-8")
    told = invoke("plan", "gold", str(settings))
    assert "labels.csv was read separated by ';'; to override this: [input]\n" in told.stdout


@pytest.mark.parametrize("sign", [",", ";", "\t"])
def test_a_wide_export_is_imported_again_by_the_command_that_init_names(
    folder: Path, sign: str
) -> None:
    """The command lacked --wide and --sep."""
    rows = [row.replace(",", sign) for row in ("1,a,b", "2,b,b", "3,a,a")]
    write("wide.csv", f"task{sign}ann{sign}ben", rows)
    how = ("--format", "table", "--wide", *(("--sep", sign) if sign != "," else ()))
    told = invoke("init", "wide.csv", *how)
    assert told.exit_code == 0, told.stderr
    advice = re.search(r"for a newer export: crowdassay (import .+)$", told.stdout, re.MULTILINE)
    assert advice is not None
    first = Path("wide.labels.csv").read_bytes()
    Path("wide.labels.csv").write_bytes(b"")
    assert invoke(*shlex.split(advice[1])).exit_code == 0
    assert Path("wide.labels.csv").read_bytes() == first


def test_a_budget_is_raised_and_then_said_in_the_settings(folder: Path) -> None:
    settings = write_small_campaign(folder)
    text = settings.read_text()
    settings.write_text(text.replace("epsilon = 20.0", "epsilon = 3.0"))
    refused = invoke("run", str(settings), "--no-prefect")
    assert refused.exit_code == 2
    assert "a larger epsilon, or smaller prices, in the settings" in refused.stderr
    settings.write_text(text)
    assert invoke("run", str(settings), "--no-prefect").exit_code == 0
    settings.write_text(text.replace("epsilon = 20.0", "epsilon = 40.0"))
    refused = invoke("run", str(settings), "--no-prefect", "--again")
    assert refused.exit_code == 2
    advice = re.search(r"crowdassay (budget .+ --raise-to EPSILON)", refused.stderr)
    assert advice is not None
    given = {"STATE": "state", "NAME": "small", "EPSILON": "40"}
    words = [given.get(word, word) for word in advice[1].split()]
    assert invoke(*words).exit_code == 0
    assert invoke("run", str(settings), "--no-prefect", "--again").exit_code == 0


def test_torn_lines_are_set_aside_by_the_command_that_is_named(folder: Path) -> None:
    write("labels.csv", "worker,task,label", [*ROWS, "torn"])
    told = invoke("check", "labels.csv")
    assert "--clean FILE" in told.output
    assert invoke("check", "labels.csv", "--clean", "clean.csv").exit_code == 0
    assert invoke("aggregate", "clean.csv").exit_code == 0


@pytest.mark.parametrize("query", ["labels.sql", "labels.SQL"])
def test_a_query_is_fetched_by_the_command_that_is_named(
    folder: Path, monkeypatch: pytest.MonkeyPatch, query: str
) -> None:
    with contextlib.closing(sqlite3.connect("crowd.db")) as connection, connection:
        connection.execute("CREATE TABLE labels (worker, task, label)")
        rows = [row.split(",") for row in ROWS]
        connection.executemany("INSERT INTO labels VALUES (?, ?, ?)", rows)
    Path(query).write_text("SELECT * FROM labels")
    refused = invoke("aggregate", query)
    advice = re.search(r"crowdassay (import .+)$", refused.stderr.strip())
    assert (refused.exit_code, advice is not None) == (2, True)
    assert advice is not None
    monkeypatch.setenv("NAME", f"sqlite:///{folder / 'crowd.db'}")
    assert invoke(*shlex.split(advice[1])).exit_code == 0
    assert invoke("aggregate", "labels.csv").exit_code == 0


def test_cells_of_several_labels_are_read_by_the_command_that_is_named(folder: Path) -> None:
    cells = [f"w{w},t{t},{'a|b' if (w + t) % 2 else 'b'}" for w in range(3) for t in range(9)]
    write("there/my answers.csv", "worker,task,label", cells)
    found = json.loads(invoke("check", "there/my answers.csv", "--json").stdout)["doubts"]
    advised = [re.search(r"crowdassay (multilabel .+)$", one["remedy"]) for one in found]
    (advice,) = filter(None, advised)
    assert invoke(*shlex.split(advice[1])).exit_code == 0


def test_answers_of_one_label_are_aggregated(folder: Path) -> None:
    write("labels.csv", "worker,task,label", ROWS)
    assert "`crowdassay aggregate` knows that" in invoke("multilabel", "labels.csv").stdout
    assert invoke("aggregate", "labels.csv").exit_code == 0


def test_what_cannot_grow_is_written_as_a_table_that_can(folder: Path) -> None:
    write("labels.csv", "worker,task,label", ROWS)
    told = invoke("import", "labels.csv", "--format", "table", "--output", "labels.parquet")
    assert told.exit_code == 0
    refused = invoke("watch", "labels.parquet", "--once")
    assert (refused.exit_code, "`crowdassay import` writes one" in refused.stderr) == (2, True)
    words = ("import", "labels.parquet", "--format", "table", "--output", "grown.csv")
    assert invoke(*words).exit_code == 0
    assert invoke("watch", "grown.csv", "--once").exit_code == 0


def test_a_year_is_shown_by_the_command_that_the_proposal_names(folder: Path) -> None:
    write_small_campaign(folder)
    assert invoke("init", "labels.csv", "--output", "year.toml").exit_code == 0
    text = Path("year.toml").read_text(encoding="utf-8")
    advice = re.search(r"crowdassay (budget .+) shows the others", text)
    assert advice is not None
    text = text.replace("# planned_runs", "planned_runs")
    text = re.sub(r"(?m)^epsilon = \S+", "epsilon = 8.0", text)
    Path("year.toml").write_text(text.replace("proportions_epsilon", "# proportions_epsilon", 1))
    words = advice[1].replace("STATE", "state").replace("SETTINGS", "year.toml").split()
    told = invoke(*words, "--tasks", "360")
    assert told.exit_code == 0, told.stderr
    assert "--json" not in told.stdout  # all are shown
    text = Path("year.toml").read_text(encoding="utf-8")
    Path("year.toml").write_text(re.sub(r"(?m)^planned_runs = \d+", "planned_runs = 1000", text))
    many = invoke(*words, "--tasks", "360").stdout
    assert "1,000 planned runs cost" in many
    assert "940 runs before the last are not shown; --json lists them all" in many
    assert (
        len(json.loads(invoke(*words, "--tasks", "360", "--json").stdout)["year"]["months"]) == 1000
    )


def test_a_run_that_other_code_wrote_is_made_again(folder: Path) -> None:
    settings = write_small_campaign(folder)
    assert invoke("run", str(settings), "--no-prefect").exit_code == 0
    (run,) = (folder / "runs").iterdir()
    (run / "quality.json").unlink()
    refused = invoke("report", str(run))
    advice = re.search(r"`crowdassay (run SETTINGS --again)`", refused.stderr)
    assert (refused.exit_code, advice is not None) == (2, True)
    assert advice is not None
    words = [str(settings) if word == "SETTINGS" else word for word in advice[1].split()]
    assert invoke(*words, "--no-prefect").exit_code == 0
    newest = max((folder / "runs").iterdir())
    assert newest != run
    assert invoke("report", str(newest)).exit_code == 0


def recommended() -> Iterator[tuple[str, str]]:
    """Yield every command that a text of the program or of a page names, with its file."""
    for path in FLOWS.rglob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        apart = {id(one.value) for one in ast.walk(tree) if isinstance(one, ast.Expr)}
        examples = (one for one in ast.walk(tree) if isinstance(one, ast.keyword))
        apart |= {id(part) for one in examples if one.arg == "epilog" for part in ast.walk(one)}
        for one in ast.walk(tree):
            if (
                isinstance(one, ast.Constant)
                and isinstance(one.value, str)
                and id(one) not in apart
            ):
                yield from ((path.name, name) for name in named(one.value))
    for path in FLOWS.rglob("*.j2"):
        yield from ((path.name, name) for name in named(path.read_text(encoding="utf-8")))


def named(text: str) -> list[str]:
    return re.findall(r"\bcrowdassay ([a-z]+)\b", text)


def test_every_command_that_a_message_recommends_is_run_by_a_test() -> None:
    assert set(recommended()) == TRIED.keys() | SAYS_WHO_DID
    here = Path(__file__).resolve().parents[1]
    tests = "".join(path.read_text(encoding="utf-8") for path in here.rglob("test_*.py"))
    assert [name for name in TRIED.values() if f"def {name}(" not in tests] == []


def test_the_line_of_a_quote_that_does_not_close_is_named_by_check(folder: Path) -> None:
    """DuckDB says of a file that it reads in parts, 16 MB or more, that it has no such feature."""
    said = "Not implemented Error: The Parallel CSV Reader currently does not support a full read"
    advice = re.search(r"crowdassay (\w+) names the line", first_fault(duckdb.Error(said)))
    assert advice is not None
    rows = [f"w{at},t{at // 4},cat\n" for at in range(5000)]
    rows[7] = 'ann,"t1,dog\n'
    (folder / "open.csv").write_text("worker,task,label\n" + "".join(rows))
    told = invoke(advice[1], "open.csv")
    assert told.exit_code == 2
    assert "open.csv, line 9" in told.stderr


def test_an_audit_of_a_runs_folder_is_told_what_to_audit(folder: Path) -> None:
    """All mechanisms were listed, and not the one that stands for a run."""
    for path in ("runs/20261121T094500Z-web", "runs/", "settings.toml"):
        refused = invoke("audit", path)
        assert refused.exit_code == 2
        if "/" in path:
            assert "crowdassay audit public_folder --unit UNIT" in refused.stderr


def test_the_audit_that_a_runs_folder_is_told_of_is_made(folder: Path) -> None:
    advice = re.search(
        r"crowdassay (audit public_folder --unit) UNIT", invoke("audit", "runs/").stderr
    )
    assert advice is not None
    made = invoke(*advice[1].split(), "consensus label", "--draws", "20")
    assert made.exit_code == 0, made.stderr
