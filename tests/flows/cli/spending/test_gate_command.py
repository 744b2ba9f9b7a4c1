"""`crowdassay gate`: what it prints, its exit codes, what it refuses, and the page of the CI job."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from flows.cli import app
from flows.cli.spending.gate_command import CODES
from tests.test_tutorial import mismatch, shown

ROOT = Path(__file__).resolve().parents[4]
SAMPLE = ROOT / "sample_data" / "prompts"
PAGE = (ROOT / "docs" / "how-to" / "prompt-gate.md").read_text(encoding="utf-8")


def invoke(*arguments: str, stdin: str | None = None) -> Any:
    return CliRunner().invoke(app, ["gate", *arguments], input=stdin)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder in which the command is called, with a table of two candidates."""
    monkeypatch.chdir(tmp_path)
    rows = ["candidate,example,split,score"]
    for name, right in (("sound", 80), ("lucky", 99)):
        rows += [f"{name},q{k},dev,{int(k % 100 < right)}" for k in range(1000)]
        rows += [f"{name},q{k},holdout,{int(k % 100 < 80)}" for k in range(1000, 2000)]
    (tmp_path / "scores.csv").write_text("\n".join(rows) + "\n")
    return tmp_path


def test_one_is_counted_as_one(tmp_path: Path) -> None:
    rows = ["example,split,score", "q1,development,1", "q2,holdout,1"]
    Path("one.csv").write_text("\n".join(rows) + "\n")
    told = invoke("one.csv", "--candidates", "2", "--refutations", "1")
    assert "1 candidate and 1 refutation left after call 1; 1 holdout example, " in told.stdout


def test_the_exit_code_says_what_the_gate_says() -> None:
    agreed = invoke("scores.csv", "--candidate", "sound", "--refutations", "1")
    assert (agreed.exit_code, "sound: agrees; development score 0.800" in agreed.stdout) == (
        0,
        True,
    )
    overfit = invoke("scores.csv", "--candidate", "lucky")
    assert (overfit.exit_code, "lucky: overfit; development score 0.990" in overfit.stdout) == (
        3,
        True,
    )
    table = Path("scores.csv").read_text()
    Path("next.csv").write_text(table.replace("sound,", "next,"))
    shut = invoke("next.csv", "--candidate", "next")
    assert (shut.exit_code, "next: exhausted" in shut.stdout) == (4, True)
    assert "no score can be reported" in shut.stdout
    again = invoke("scores.csv", "--candidate", "sound")
    assert (again.exit_code, "sound: agrees, as answered before" in again.stdout) == (0, True)
    assert CODES == {"agrees": 0, "overfit": 3, "exhausted": 4}


def test_the_code_is_the_worst_of_all_candidates() -> None:
    told = invoke("scores.csv")
    assert told.exit_code == 3
    assert (
        "998 candidates and 9 refutations left after call 2; 1,000 holdout examples" in told.stdout
    )


def test_what_is_printed_never_exceeds_what_was_found() -> None:
    found = json.loads(invoke("scores.csv", "--candidate", "sound", "--json").stdout)["answers"][0]
    (line,) = (
        line for line in invoke("scores.csv", "--candidate", "sound").stdout.splitlines()
        if "report" in line
    )  # fmt: skip
    score, bound = map(float, re.findall(r"0\.\d{3}", line)[:2])
    assert found["score"] - 0.001 < score <= found["score"]
    assert found["bound"] - 0.001 < bound <= found["bound"]


def test_one_json_object_has_every_answer() -> None:
    told = invoke("scores.csv", "--json", "--campaign", "judges")
    found = json.loads(told.stdout)
    assert found["campaign"] == "judges"
    assert [one["status"] for one in found["answers"]] == ["agrees", "overfit"]
    assert {"score", "bound", "level", "tolerance", "epsilon", "calls"} <= found["answers"][
        0
    ].keys()


def test_quiet_leaves_the_exit_code() -> None:
    told = invoke("scores.csv", "--quiet")
    assert (told.exit_code, told.output) == (3, "")


def test_standard_input_is_read() -> None:
    assert invoke("-", "--candidate", "sound", stdin=Path("scores.csv").read_text()).exit_code == 0


def test_the_budget_shows_what_the_gate_spent() -> None:
    invoke("scores.csv", "--epsilon", "5", "--campaign", "prompts")
    told = CliRunner().invoke(app, ["budget", "state"]).stdout
    assert "gate prompts: epsilon 5 of 5 spent, 0 left (unit: row)" in told
    assert "exact" in told
    verified = CliRunner().invoke(app, ["ledger", "verify", "state"])
    assert verified.exit_code == 0


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("sound,q7,dev,1", "sound,q7,train,1"), "'train' is not among the splits"),
        (("sound,q7,dev,1", "sound,q7,dev,nan"), "a development score must be a number in [0, 1], got 'nan'"),
        (("sound,q7,dev,1", "sound,q7,dev,87"), "a development score must be a number in [0, 1], got '87'"),
        (("sound,q7,dev,1", "sound,q8,dev,1"), "candidate 'sound', example 'q8' stands 2 times"),
        (("sound,q1007,holdout,1\n", ""), "candidate 'sound' lacks 1 holdout example"),
        (("lucky,q1007,holdout,1", "lucky,q5555,holdout,1"), "lacks 1 holdout example"),
        (("candidate,example,split,score", "candidate,example,part,score"), "missing: split"),
    ],
)  # fmt: skip
def test_a_mistake_is_one_sentence_and_code_2(change: tuple[str, str], said: str) -> None:
    table = Path("scores.csv").read_text()
    assert change[0] in table
    Path("scores.csv").write_text(table.replace(*change))
    told = invoke("scores.csv")
    assert told.exit_code == 2
    assert said in told.stderr
    assert len(told.stderr.strip().splitlines()) == 1
    assert not Path("state").exists()


@pytest.mark.parametrize("score", ["nan", "87", "-3", "none"])
def test_no_score_of_the_holdout_is_refused_or_warned_of(score: str) -> None:
    """It would reveal an example: to the byte the same is printed."""
    before = invoke("scores.csv", "--state", "one", "--candidate", "sound")
    table = Path("scores.csv").read_text()
    changed = table.replace("sound,q1081,holdout,0", f"sound,q1081,holdout,{score}")
    assert changed != table
    Path("scores.csv").write_text(changed)
    after = invoke("scores.csv", "--state", "two", "--candidate", "sound")
    assert after.stdout.replace("(two)", "(one)") == before.stdout
    assert after.stderr == before.stderr == ""


def test_a_state_that_cannot_be_written_is_refused() -> None:
    Path("state").write_text("a file")
    told = invoke("scores.csv")
    assert (told.exit_code, len(told.stderr.strip().splitlines())) == (2, 1)
    assert "state" in told.stderr


def test_a_lost_state_is_refused_where_the_campaign_has_begun() -> None:
    assert invoke("scores.csv", "--candidate", "sound").exit_code == 0
    assert invoke("scores.csv", "--candidate", "sound", "--begun").exit_code == 0
    shutil.rmtree("state")
    told = invoke("scores.csv", "--candidate", "sound", "--begun")
    assert (told.exit_code, "must have begun" in told.stderr) == (2, True)


# the page and the sample -----------------------------------------------------------------------


def environment() -> dict[str, str]:
    found = dict(os.environ, NO_COLOR="1", COLUMNS="200")
    found["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{found['PATH']}"
    found.pop("CROWDASSAY_LEDGER", None)
    return found


@pytest.fixture
def prompts(folder: Path) -> Path:
    shutil.copytree(SAMPLE, folder / "prompts")
    return folder


def test_the_commands_of_the_page_print_what_it_shows(prompts: Path) -> None:
    commands = shown(PAGE)
    assert len(commands) >= 4
    for command, output in commands:
        done = subprocess.run(
            command, shell=True, cwd=prompts, env=environment(), capture_output=True, text=True
        )
        wrong = mismatch(output, done.stdout + done.stderr)
        assert wrong is None, (
            f"{wrong!r} is not what came of\n$ {command}\n{done.stdout}{done.stderr}"
        )


def test_the_job_of_the_page_fails_where_a_prompt_is_overfit(prompts: Path) -> None:
    """Each step that calls the gate, as a runner's shell would: `bash -e`."""
    (job,) = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    steps = [line.partition("run: ")[2] for line in job.splitlines() if "run: crowdassay" in line]
    assert len(steps) == 1
    first = next(command for command, _ in shown(PAGE))  # the campaign is begun by hand
    subprocess.run(first, shell=True, cwd=prompts, env=environment(), check=True)
    codes = []
    for name in ("worked", "memorised"):
        shutil.copy(prompts / "prompts" / f"{name}.csv", prompts / "scores.csv")
        more = {"GITHUB_SHA": name, "GATE_STATE": "state"}
        done = subprocess.run(["bash", "-e", "-c", steps[0]], cwd=prompts, env=environment() | more)
        codes.append(done.returncode)
    assert codes == [0, 3]


def test_the_sample_has_two_sound_prompts_and_one_that_learned_the_development_set() -> None:
    means = {}
    for path in sorted(SAMPLE.glob("*.csv")):
        rows = [line.split(",") for line in path.read_text().splitlines()[1:]]
        means[path.stem] = [
            round(sum(int(s) for _, split, s in rows if split == which) / count, 2)
            for which, count in (("dev", 1000), ("holdout", 2000))
        ]
    assert means == {"memorised": [0.97, 0.79], "terse": [0.78, 0.79], "worked": [0.79, 0.8]}
