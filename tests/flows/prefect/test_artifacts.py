"""What Prefect's artifacts hold of a run: what its public page holds, and nothing about private data."""

from __future__ import annotations

from pathlib import Path

import pytest

from flows.pipeline import RunResult
from flows.report import public_page
from tests.flows.report.report_folder import overwrite_what_is_internal, write_folder

pytestmark = pytest.mark.prefect


def summary(folder: Path, *, unchanged: bool) -> str:
    from flows.prefect.artifacts import _summary

    result = RunResult(folder, folder / "report.html", (), unchanged)
    return _summary("spring", public_page(folder), result)


def test_the_summary_does_not_say_whether_anything_was_new(tmp_path: Path) -> None:
    """That inputs are those of the run before is a fact about private data."""
    folder = write_folder(tmp_path)
    assert summary(folder, unchanged=True) == summary(folder, unchanged=False)


def test_the_summary_depends_on_released_values_alone_and_names_the_unit_of_each_price(
    tmp_path: Path,
) -> None:
    folder = write_folder(tmp_path)
    before = summary(folder, unchanged=False)
    overwrite_what_is_internal(folder)
    assert summary(folder, unchanged=False) == before
    for words in (
        "at epsilon 1, delta 0 per consensus label (exact noise)",
        "(train, select, score) at epsilon 1 + 0.5 + 0.1, delta 0 per row (noise in double precision)",
        "at epsilon 0.5 per row (exact noise)",
    ):
        assert words in before
