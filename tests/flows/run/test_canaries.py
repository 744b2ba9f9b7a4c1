"""Planted private values, looked for wherever a run leaves a trace that others may come to see.

Worker ids, task ids and feature values are made unmistakable and must be in no such place. Labels
and exact counts have no such form; for them two campaigns that differ in every label, and to which
the same noisy values are released, must leave the same public files and the same ledger.
"""

from __future__ import annotations

import ast
import json
import logging
import re
import shutil
import sqlite3
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from flows.cli import app
from flows.pipeline import RunResult, run_pipeline
from flows.settings import Settings
from flows.settings.settings import load_settings
from flows.stages import outputs
from learners import ScoredTraining, Thresholdout
from privacy import LatticeLaplace
from tests.flows.campaign import write_small_campaign

ROOT = Path(__file__).resolve().parents[3]
WORKER, TASK, DIGITS = (
    "-zebra8675",
    "-kudu8675",
    "867530924601",
)  # runs in Prefect have animals' names
PLANTED = (WORKER, TASK, DIGITS)
INTERNAL = {
    output.name
    for output in outputs()
    if output.private_names and output.only in (None, "task features")
}
"""Files of a run that may hold private values: in a folder of mode 0700, and not for others."""

RANDOM = {"opendp", "random", "secrets"}
SIDE_DOORS = {"__import__", "import_module", "urandom", "getrandom"}
MAY_BE_RANDOM = {
    "privacy/noise.py": "the noise source: OpenDP's samplers and the system's generator",
    "privacy/ledger/records.py": "the start of a new ledger's chain, drawn once; no release depends on it",
    "privacy/ledger/sqlite.py": "a name for the file in which a ledger is made aside",
    "privacy/audit.py": "the key of a ledger that is thrown away",
}
"""Files of the private rooms that import a source of randomness, each with its reason."""


def plant(folder: Path) -> Path:
    """The small campaign, with every worker, task and feature value unmistakable."""
    path = write_small_campaign(folder)
    rename(folder / "labels.csv", r"(?m)^(w\d+),(t\d+),", rf"\1{WORKER},\2{TASK},")
    rename(folder / "gold.csv", r"(?m)^(t\d+),", rf"\1{TASK},")
    rename(folder / "tasks.csv", r"(?m)^(t\d+),", rf"\1{TASK},")
    rename(folder / "tasks.csv", r"(\.\d{3})\b", rf"\g<1>{DIGITS}")
    return path


def rename(path: Path, pattern: str, by: str) -> None:
    path.write_text(re.sub(pattern, by, path.read_text(encoding="utf-8")), encoding="utf-8")


def trace(path: Path) -> str:
    """What can be read in a file: its bytes as text, and the values of a table or database."""
    text = path.read_bytes().decode("utf-8", errors="replace")
    if path.suffix == ".parquet":
        return text + json.dumps(pq.read_table(path).to_pylist())
    if path.suffix == ".sqlite":
        return text + "\n".join(map(str, database_rows(path)))
    return text


def database_rows(path: Path) -> list[tuple[Any, ...]]:
    """Every row of every table."""
    connection = sqlite3.connect(path)
    names = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
    rows = [row for (name,) in names for row in connection.execute(f'SELECT * FROM "{name}"')]
    connection.close()
    return rows


def found_in(text: str) -> list[str]:
    return [planted for planted in PLANTED if planted in text]


Planted = tuple[Settings, RunResult, str]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Planted:
    """A run on the planted campaign, with all that any logger received at any level."""
    settings = load_settings(plant(tmp_path_factory.mktemp("planted")))
    told: list[str] = []

    class Ear(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            told.append(record.getMessage())

    ear, root = Ear(level=0), logging.getLogger()
    level = root.level
    root.addHandler(ear)
    root.setLevel(0)
    try:
        result = run_pipeline(settings)
    finally:
        root.removeHandler(ear)
        root.setLevel(level)
    return settings, result, "\n".join(told)


def test_the_planted_values_were_read(run: Planted) -> None:
    """What the other tests look for is in the internal files, so that they can fail."""
    _, result, _ = run
    with np.load(result.folder / "crowd.npz") as crowd:
        values = {str(value) for key in crowd.files for value in crowd[key].ravel()}
    for planted in PLANTED:
        assert any(planted in value for value in values)
    assert found_in(trace(result.folder / "workers.parquet")) == [WORKER]
    assert found_in(trace(result.folder / "consensus.parquet")) == [TASK]
    assert found_in(trace(result.folder / "report.html")) == [TASK]


def test_no_file_but_the_internal_ones_holds_a_planted_value(run: Planted) -> None:
    _, result, _ = run
    files = [path for path in result.folder.rglob("*") if path.is_file()]
    holding = {str(path.relative_to(result.folder)) for path in files if found_in(trace(path))}
    assert holding <= INTERNAL
    assert {"manifest.json", "public.html", "public/release.json"} <= {
        str(path.relative_to(result.folder)) for path in files
    }


def test_internal_files_are_their_owners_alone(run: Planted) -> None:
    settings, result, _ = run
    assert result.folder.stat().st_mode & 0o777 == 0o700
    assert settings.state.stat().st_mode & 0o777 == 0o700
    written = INTERNAL - {"near_duplicates.parquet"}  # of eight features or more
    assert all((result.folder / name).is_file() for name in written)


def test_the_state_holds_no_planted_value(run: Planted) -> None:
    """No row of the ledger, and nothing beside it."""
    settings, _, _ = run
    files = [path for path in settings.state.rglob("*") if path.is_file()]
    assert any(path.suffix == ".sqlite" for path in files)
    assert [path.name for path in files if found_in(trace(path))] == []


def test_no_log_and_no_line_of_a_stage_tells_a_planted_value(run: Planted) -> None:
    _, result, told = run
    assert found_in(told + "\n".join(stage.line for stage in result.stages)) == []


@pytest.mark.prefect
def test_prefect_keeps_no_planted_value(
    run: Planted, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its whole home, database and logs, after a run as a flow whose releases are artifacts."""
    from flows.prefect.flow import run_as_flow

    monkeypatch.delenv("PREFECT_API_URL", raising=False)
    told: list[str] = []
    path = run[0].input.labels.parent / "settings.toml"
    run_as_flow(path, home=tmp_path / "prefect", print_line=told.append, again=True)
    files = [path for path in (tmp_path / "prefect").rglob("*") if path.is_file()]
    assert any(path.suffix == ".db" for path in files)
    texts = [path.read_bytes().decode("utf-8", errors="replace") for path in files]
    assert any("crowdassay-small-proportions" in text for text in texts)
    assert found_in("\n".join([*told, *texts])) == []


MISTAKES = {
    "budget too small": ("epsilon = 20.0", "epsilon = 3.0"),
    "delta of 1/n": ("epsilon = 20.0", "epsilon = 20.0\ndelta = 0.01"),
    "unit of a joint aggregator": ("epsilon = 20.0", 'epsilon = 20.0\nunit = "task"'),
    "unknown key": ("sigma", "sigam"),
    "number out of range": ("sigma = 0.02", "sigma = -0.02"),
    "missing class": ('["a", "b", "c"]', '["a", "b"]'),
    "missing file": ('gold = "gold.csv"', 'gold = "silver.csv"'),
    "too few classes": ('["a", "b", "c"]', '["a"]'),
}


@pytest.mark.parametrize("mistake", MISTAKES.values(), ids=list(MISTAKES))
def test_no_error_text_of_the_settings_tells_a_planted_value(
    mistake: tuple[str, str], tmp_path: Path
) -> None:
    """What is wrong in an input's row is named by row and column, on its owner's terminal alone."""
    path = plant(tmp_path)
    path.write_text(path.read_text(encoding="utf-8").replace(*mistake), encoding="utf-8")
    told = CliRunner().invoke(app, ["run", str(path), "--no-prefect"])
    assert told.exit_code == 2
    assert found_in(told.output + told.stderr + str(told.exception)) == []


@pytest.mark.parametrize("damage", ["read-only", "no ledger", "another key"])
def test_no_error_text_of_the_ledger_tells_a_planted_value(
    run: Planted, damage: str, tmp_path: Path
) -> None:
    shutil.copytree(run[0].state.parent, tmp_path / "copy")
    path, state = tmp_path / "copy" / "settings.toml", tmp_path / "copy" / "state"
    if damage == "read-only":
        (state / "ledger.sqlite").chmod(0o400)
    elif damage == "no ledger":
        (state / "ledger.sqlite").write_bytes(b"nothing of the kind")
    else:
        (state / "fingerprint.key").write_bytes(bytes(32))
    told = CliRunner().invoke(app, ["run", str(path), "--no-prefect", "--again"])
    assert told.exit_code == 2
    assert found_in(told.output + told.stderr + str(told.exception)) == []


def relabel(path: Path) -> None:
    """Another class for two labels of three, and every seventh label gone where its task has others."""
    header, *rows = path.read_text(encoding="utf-8").splitlines()
    kept, seen = [header], set()
    for number, row in enumerate(rows):
        worker, task, label = row.split(",")
        if number % 7 == 0 and task in seen:
            continue
        seen.add(task)
        kept.append(f"{worker},{task},{label if number % 3 == 0 else 'abc'[(number // 3) % 3]}")
    path.write_text("\n".join(kept) + "\n", encoding="utf-8")


def release_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every mechanism draws what it drew for another campaign: noise may always have made that up."""
    monkeypatch.setattr(
        LatticeLaplace,
        "draw_all",
        lambda _, queries, noise: [
            np.roll([query.n - 15, 10, 5], code).tolist() for code, query in enumerate(queries)
        ],
    )
    coef = [[0.1, 0.2, -0.3, 0.0], [0.0, 0.1, 0.1, 0.2], [-0.1, 0.3, 0.2, 0.1]]
    model = {"coef": coef, "chosen": 0, "regularization": 0.01, "score": 0.8}
    monkeypatch.setattr(ScoredTraining, "draw", lambda *_: model)
    state = {"offset": 0, "budget_left": 2, "refuted": 0}
    answer = {
        "value": 0.8, "status": "agrees", "budget_left": 2, "asked": 1, "refuted": 0, "number": 1,
        "epsilon": "7.5",
    }  # fmt: skip
    monkeypatch.setattr(Thresholdout, "answer", lambda *_: (state, answer))


def shown(result: RunResult) -> dict[str, str]:
    """Public files as text; times differ between runs and do not count."""
    public = [result.folder / "public.html", *(result.folder / "public").iterdir()]
    return {path.name: without_times(trace(path)) for path in public if path.suffix != ".parquet"}


def without_times(text: str) -> str:
    return re.sub(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d[\d:.+Z]*", "TIME", text)


def booked(settings: Settings) -> list[str]:
    """The ledger's rows; keyed digests are bytes, and do not count."""
    rows = database_rows(settings.state / "ledger.sqlite")
    return [
        without_times(str([value for value in row if not isinstance(value, bytes)])) for row in rows
    ]


def test_labels_and_exact_counts_leave_no_trace_beside_what_was_released(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two campaigns that differ in most labels, in their number, and hence in every exact count."""
    release_the_same(monkeypatch)
    results = {}
    for name in ("one", "other"):
        path = plant(tmp_path / name)
        if name == "other":
            relabel(path.parent / "labels.csv")
        settings = load_settings(path)
        results[name] = settings, run_pipeline(settings)
    consensus = [
        pq.read_table(result.folder / "consensus.parquet").column("label").to_pylist()
        for _, result in results.values()
    ]
    assert consensus[0] != consensus[1]
    (one, first), (other, second) = results.values()
    assert booked(one) == booked(other)
    assert shown(first) == shown(second)


def imported(path: Path) -> set[str]:
    """Packages that a file imports anywhere; "random" where it names another way to randomness."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add((node.module or "").split(".")[0])
        elif getattr(node, "attr", getattr(node, "id", "")) in SIDE_DOORS:
            found.add("random")
    return found


def test_nothing_else_in_the_private_rooms_imports_randomness() -> None:
    """Beside the import contract that keeps the noise source for the ledger: no second source."""
    files = [path for room in ("privacy", "learners") for path in (ROOT / room).rglob("*.py")]
    random = {str(path.relative_to(ROOT)) for path in files if imported(path) & RANDOM}
    assert random == set(MAY_BE_RANDOM)


MAKERS = {
    "default_rng", "Generator", "MT19937", "PCG64", "PCG64DXSM", "Philox", "Random", "RandomState",
    "SeedSequence", "SFC64", "SystemRandom", "check_random_state", "get_state", "seed", "set_state",
}  # fmt: skip
"""What makes a generator or sets one back, in Python, NumPy and scikit-learn."""


def generators(text: str) -> set[str]:
    """Calls in a file that make a generator, by the names they are called by."""
    called = (node.func for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call))
    return {
        ast.unparse(one) for one in called if getattr(one, "attr", getattr(one, "id", "")) in MAKERS
    }


def test_only_the_noise_source_makes_a_generator_in_privacy_and_it_is_the_systems() -> None:
    """A seeded one in its place draws by the same laws, and no test of a law would see it."""
    found = {
        str(path.relative_to(ROOT)): made
        for path in (ROOT / "privacy").rglob("*.py")
        if (made := generators(path.read_text(encoding="utf-8")))
    }
    assert found == {"privacy/noise.py": {"random.SystemRandom"}}


def test_no_mechanism_of_learners_makes_a_generator() -> None:
    """Where one is made it deals public rows, or sets the order of a sum."""
    made = {
        str(path.relative_to(ROOT))
        for path in (ROOT / "learners").rglob("*.py")
        if generators(path.read_text(encoding="utf-8"))
    }
    private = ("learners/holdout", "learners/private", "learners/selection")
    assert [name for name in made if name.startswith(private)] == []


def test_a_generator_is_seen_however_it_is_made() -> None:
    for text in (
        "import numpy as np\nrng = np.random.default_rng()",
        "from random import Random\ndraw = Random(7).random",
        "import random\nrandom.seed(1)",
        "from numpy.random import PCG64, Generator\nrng = Generator(PCG64(1))",
    ):
        assert generators(text)
    assert not generators("def draw(rng: np.random.Generator): return rng.random()")


def test_the_scan_finds_what_it_looks_for(tmp_path: Path) -> None:
    for number, line in enumerate(
        (
            "import secrets",
            "from random import SystemRandom",
            "def late():\n    import opendp.prelude as dp",
            "import os\nkey = os.urandom(3)",
            "noise = __import__('privacy')",
        )
    ):
        path = tmp_path / f"{number}.py"
        path.write_text(line, encoding="utf-8")
        assert imported(path) & RANDOM
