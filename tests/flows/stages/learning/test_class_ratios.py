"""Class ratios read features in the clear: they stay internal where the unit protects features."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from flows.pipeline import run_pipeline
from flows.settings.settings import load_settings
from tests.flows.campaign import write_small_campaign


def campaign(folder: Path, unit: str) -> Path:
    """The small campaign without a model, under this unit."""
    path = write_small_campaign(folder)
    text = re.sub(r"(?s)\[model\].*", "", path.read_text())
    path.write_text(text.replace("[privacy]\n", f'[privacy]\nunit = "{unit}"\n'))
    return path


def public_bytes(path: Path) -> dict[str, bytes]:
    """Every byte that a run makes public."""
    folder = run_pipeline(load_settings(path)).folder
    public = [folder / "public.html", *sorted((folder / "public").iterdir())]
    return {one.name: one.read_bytes() for one in public}


def move_features(folder: Path) -> None:
    """Give one labelled task other features; its label, and so what was paid for, stays."""
    path = folder / "tasks.csv"
    header, first, *rest = path.read_text().splitlines()
    assert first.startswith("t000,g0,")
    path.write_text("\n".join([header, "t000,g0,9.5,-9.5,9.5", *rest]) + "\n")


@pytest.mark.parametrize(("unit", "public"), [("row", False), ("consensus label", True)])
def test_no_public_byte_depends_on_features_that_the_unit_protects(
    tmp_path: Path, unit: str, public: bool
) -> None:
    """The counts are stored, so everything else would show; under the default unit features are public."""
    path = campaign(tmp_path, unit)
    before = public_bytes(path)
    move_features(tmp_path)
    after = public_bytes(path)
    assert len(list((tmp_path / "runs").iterdir())) == 2
    assert ("class_ratios.csv" in before) is public
    assert (before != after) is public


def test_the_report_and_the_line_say_why_class_ratios_stay_internal(tmp_path: Path) -> None:
    result = run_pipeline(load_settings(campaign(tmp_path, "row")))
    facts = json.loads((result.folder / "class_ratios.json").read_text())
    assert facts["public"] is False
    reason = "the unit 'row' protects the features, which were read in the clear and not paid for"
    assert facts["why_internal"] == reason
    (line,) = (one.line for one in result.stages if one.stage == "estimate_ratios")
    assert line.endswith(f"; internal: {reason}")
    page = (result.folder / "report.html").read_text()
    assert "They stay internal: the unit &#39;row&#39; protects the features" in page
