"""The one list of stages: every entry is true, and nothing beside it names a stage or an output."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from flows.pipeline import run_pipeline
from flows.run import Run
from flows.settings import Settings
from flows.settings.settings import load_settings
from flows.stages import KEPT, STAGES, Output, Stage, Verdict, output_list, outputs
from privacy import Unit
from tests.flows.campaign import write_small_campaign


def test_names_of_stages_and_outputs_are_unique() -> None:
    names = [stage.name for stage in STAGES]
    assert len(set(names)) == len(names)
    files = [output.name for output in outputs()]
    assert len(set(files)) == len(files)


@pytest.mark.parametrize("stage", STAGES, ids=lambda stage: stage.name)
def test_a_stage_is_what_its_entry_says(stage: Stage) -> None:
    """Its section is one of the settings; its verdicts are of its own JSON outputs."""
    assert stage.settings is None or stage.settings in Settings.model_fields
    own = {output.name for output in stage.outputs}
    assert {verdict.output for verdict in stage.verdicts} <= own
    assert all(verdict.output.endswith(".json") for verdict in stage.verdicts)
    assert stage.about.endswith(".")


def test_no_section_of_the_settings_is_two_stages() -> None:
    sections = [stage.settings for stage in STAGES if stage.settings is not None]
    assert len(set(sections)) == len(sections)


def test_the_list_is_read_without_what_the_stages_work_with() -> None:
    heavy = ("duckdb", "learners", "numba", "numpy", "opendp", "pyarrow", "quality")
    code = f"import sys, flows.stages; print([name for name in {heavy} if name in sys.modules])"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout == "[]\n"


def test_a_public_output_holds_no_private_names() -> None:
    with pytest.raises(ValueError, match="a public output must hold no private names, got x"):
        Output("x", "", public=True, private_names=True)


def test_a_verdict_on_a_skipped_stage_is_its_reason(tmp_path: Path) -> None:
    run = Run(tmp_path, load_settings(write_small_campaign(tmp_path)))
    line = run.skip("model.json", "there is no model")
    assert line == "skipped: there is no model"
    verdict = Verdict("model", "model.json", lambda found: str(found["train_score"]))
    assert verdict.of(run) == line
    (tmp_path / "model.json").write_text(json.dumps({"train_score": 0.5}), encoding="utf-8")
    assert verdict.of(run) == "0.5"


def test_security_holds_the_list_that_the_stages_declare() -> None:
    """Print `flows.stages.output_list()` and put it there if this fails."""
    text = (Path(__file__).parents[3] / "SECURITY.md").read_text(encoding="utf-8")
    assert output_list() in text


def test_security_says_of_every_unit_what_it_protects_and_what_not() -> None:
    text = (Path(__file__).parents[3] / "SECURITY.md").read_text(encoding="utf-8")
    for unit in Unit:
        assert f"| `{unit}` | {unit.protects} | {unit.beyond} |" in text


def test_only_what_the_public_page_and_its_files_hold_may_be_shown() -> None:
    """Every other file of a run has exact values, entries or times beside what was released."""
    assert [output.name for output in outputs() if output.public] == ["public.html", "public"]
    assert not any(output.public for output in KEPT)


def test_the_order_of_rows_changes_no_output_and_no_release(tmp_path: Path) -> None:
    path = write_small_campaign(tmp_path)
    first = run_pipeline(load_settings(path)).folder
    rng = np.random.default_rng(0)
    for name in ("labels.csv", "tasks.csv", "gold.csv"):
        header, *rows = (tmp_path / name).read_text(encoding="utf-8").splitlines()
        text = "\n".join([header, *rng.permutation(rows).tolist()]) + "\n"
        (tmp_path / name).write_text(text, encoding="utf-8")
    second = run_pipeline(load_settings(path)).folder
    of_files = {"manifest.json", "inputs.json", "trend.json"}  # times, and digests of the files
    outputs = {one.name for one in first.iterdir() if one.suffix in (".json", ".parquet")}
    assert {"proportions.parquet", "model.json", "gate.json", "spend.json"} < outputs
    for name in sorted(outputs - of_files):
        assert (second / name).read_bytes() == (first / name).read_bytes(), name
