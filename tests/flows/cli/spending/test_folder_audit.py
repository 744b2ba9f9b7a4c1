"""The public folder of a run as one mechanism: sound under every unit, and a leak in it is found."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from flows.cli import app
from flows.cli.spending import folder_audit
from flows.cli.spending.folder_audit import (
    NEIGHBOURS,
    audit_folder,
    folder_trial,
    published_folders,
    unlike_files,
)
from flows.run import Run
from flows.settings import EngineError, SettingsError
from privacy import LatticeLaplace, Unit, audit_releases

SURE = 1 - 1e-6
PAIRS = 2_000
ROOT = Path(__file__).resolve().parents[4]


def test_every_unit_has_neighbours() -> None:
    assert set(map(str, Unit)) <= set(NEIGHBOURS)
    with pytest.raises(SettingsError, match="unit must be one of consensus label"):
        folder_trial(unit="person", draws=2, level=0.9)


def test_it_is_as_long_as_its_evidence_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def trial(**given: object) -> dict[str, object]:
        asked.append(given["draws"])
        return {"sentences": ["done"], "refuted": False}

    monkeypatch.setattr(folder_audit, "folder_trial", trial)
    for more in ((), ("--draws", "30")):
        told = CliRunner().invoke(app, ["audit", "public_folder", *more])
        assert told.stdout.splitlines() == ["done"]
    assert json.loads(CliRunner().invoke(app, ["audit", "public_folder", "--json"]).stdout)
    assert asked == [2_000, 30, 2_000]


@pytest.mark.parametrize("unit", list(Unit))
def test_neighbours_differ_in_one_unit_alone(unit: Unit) -> None:
    """In one task's labels, truth and features; of a unit `subject` in those of two of one subject."""
    here = folder_audit._labels_tasks_and_gold()
    there = folder_audit._labels_tasks_and_gold()
    NEIGHBOURS[str(unit)][0](*there)
    tasks = {row[1] for row, other in zip(here[0], there[0], strict=True) if row != other}
    for table in (1, 2):
        pairs = zip(here[table], there[table], strict=True)
        tasks |= {row[0] for row, other in pairs if row != other}
    assert tasks == ({"t00", "t01"} if unit == "subject" else {"t00"})
    rows = [row[2] for row in there[1]] == [row[2] for row in here[1]]
    assert rows is (unit not in ("row", "subject"))
    assert (here[2] == there[2]) is unit.needs_local_consensus


def test_a_few_pairs_refute_no_unit() -> None:
    """Each draw pays from a new ledger, and what is shown is the whole folder."""
    for unit in Unit:
        found = audit_folder(unit, draws=2, level=SURE)
        assert not found.refuted
        # a gate of few tasks costs as much more as a subject has tasks
        assert found.epsilon == pytest.approx(3.5 if unit is Unit.SUBJECT else 1.8)
        assert (found.bound.draws, found.draws) == (1, 2)
    shown, others, _, _ = published_folders(Unit.CONSENSUS_LABEL, 2)
    assert len(others) == 2
    assert shown[0]["bytes"] != shown[1]["bytes"]
    assert set(shown[0]["bytes"]) == set(shown[0]["files"].split(", "))
    assert shown[0]["release"]["proportions"]["rows"]


def test_a_folder_whose_counts_have_no_noise_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """The price stays on the label."""
    monkeypatch.setattr(
        LatticeLaplace, "draw_all", lambda _, queries, noise: [q.value.tolist() for q in queries]
    )
    assert audit_folder(Unit.CONSENSUS_LABEL, draws=56, level=0.95).bound.refutes(0.0)


@pytest.mark.slow
@pytest.mark.parametrize("halved", [True, False])
def test_a_folder_whose_counts_have_half_the_noise_is_caught_and_a_sound_one_is_not(
    halved: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Counts alone, at a price of 2 and with noise for 4.

    The first group's count is at or above its own in .98 and .02 of publications, where .88 and .12 are
    allowed. Of 200 counted the bound is 2.9 +- .3 then; sound noise is refuted in one of a million.
    """
    counts_alone = folder_audit.SETTINGS.partition("[model]")[0]
    for old, new in (
        ("proportions_epsilon = 0.5", "proportions_epsilon = 2.0"),
        ("correction_epsilon = 0.5", ""),
        ('gold = "gold.csv"\ngold_sampling = "random"\n', ""),
    ):
        counts_alone = counts_alone.replace(old, new)
    monkeypatch.setattr(folder_audit, "SETTINGS", counts_alone)
    draw_all = LatticeLaplace.draw_all
    if halved:
        monkeypatch.setattr(
            LatticeLaplace,
            "draw_all",
            lambda it, queries, noise: draw_all(
                replace(it, epsilon=2 * it.epsilon), queries, noise
            ),
        )
    found = audit_folder(Unit.CONSENSUS_LABEL, draws=400, level=0.999 if halved else SURE)
    assert found.epsilon == pytest.approx(2.0)
    assert found.refuted is halved


@pytest.mark.parametrize("unit", [Unit.CONSENSUS_LABEL])
def test_a_file_that_is_there_for_one_neighbour_alone_is_caught(unit: Unit) -> None:
    """On values as the audit reads them."""
    here = [{"files": "a, b", "bytes": {"a": str(n), "b": "0"}} for n in range(200)]
    there = [{"files": "a", "bytes": {"a": str(n)}} for n in range(200, 400)]
    numbers = folder_audit.as_numbers(here, there)
    assert audit_releases(*numbers, epsilon=2.0).refutes(0.1)


def test_a_stage_without_noise_that_reads_what_is_protected_is_caught(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The shares of groups without labels are estimated, and one exact label is slipped in."""
    _, (estimate,) = folder_audit._published_stages()
    ratios = Path("class_ratios.json")

    def leaking(run: Run) -> str:
        line = estimate(run)
        first = run.read_table("consensus.parquet").column("label")[0].as_py()
        found = run.read_json(ratios.name)
        run.write_json(ratios.name, found | {"level": found["level"] - 0.01 * (first == "a")})
        return line

    spent = folder_audit._published_stages()[0]
    stages = spent, [replace(estimate, function=leaking)]
    monkeypatch.setattr(folder_audit, "_published_stages", lambda: stages)
    found = unlike_files(Unit.CONSENSUS_LABEL, 1)
    assert found == ("class_ratios.parquet", "release.json")


@pytest.mark.slow
@pytest.mark.parametrize("unit", list(Unit))
def test_no_distinguisher_of_two_thousand_pairs_beats_the_price(unit: Unit) -> None:
    """By chance in one of a million; half of the pairs choose the distinguisher."""
    found = audit_folder(unit, draws=PAIRS, level=SURE, workers=2)
    assert found.bound.draws == PAIRS // 2
    assert found.bound.tried > 1_000
    assert not found.refuted


def begun_audit(folder: Path, memory: Path) -> subprocess.Popen[str]:
    """Begin an audit in a session of its own, which publishes in `memory`; return once it does."""
    memory.mkdir()
    script = (
        "import sys\nfrom pathlib import Path\nfrom flows.cli.root import main\n"
        "from flows.cli.spending import folder_audit\n"
        "if __name__ == '__main__':\n"
        "    folder_audit.SHARED_MEMORY = Path(sys.argv.pop())\n"
        "    import flows.cli\n    folder_audit.os.cpu_count = lambda: 2\n    main()\n"
    )
    (folder / "audit.py").write_text(script)
    asked = ["audit", "public_folder", "--draws", "500", str(memory)]
    audit = subprocess.Popen(
        [sys.executable, folder / "audit.py", *asked],
        env=os.environ | {"PYTHONPATH": str(ROOT)}, stderr=subprocess.PIPE, start_new_session=True,
        text=True,
    )  # fmt: skip
    while not [*memory.glob("*/*/runs/*/manifest.json")]:
        assert audit.poll() is None
        time.sleep(0.05)
    return audit


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_to_every_process_of_an_audit_ends_it_and_leaves_nothing(
    tmp_path: Path, ctrl_c: None, number: signal.Signals
) -> None:
    """Ctrl-C waited for what was begun; SIGTERM left a traceback, and campaigns in memory."""
    memory = tmp_path / "memory"
    audit = begun_audit(tmp_path, memory)
    os.killpg(audit.pid, number)
    _, told = audit.communicate(timeout=60)
    assert audit.returncode == 128 + number
    assert "Traceback" not in told
    assert "stopped" in told
    assert list(memory.iterdir()) == []


def test_an_audit_that_is_killed_leaves_no_process_at_work(tmp_path: Path) -> None:
    """They went on to the end of their share, and then waited for ever; each holds the pipe open."""
    audit = begun_audit(tmp_path, tmp_path / "memory")
    try:
        audit.kill()
        audit.communicate(timeout=20)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(audit.pid, signal.SIGKILL)


def ended_from_outside(*_: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_process_that_is_ended_from_outside_is_a_sentence(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(folder_audit, "published_folders", ended_from_outside)
    with pytest.raises(EngineError, match="was ended from outside: is memory short"):
        list(folder_audit._each([(Unit.ROW, 1)], 2))
