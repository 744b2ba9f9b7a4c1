"""How pages are rendered: templates are compiled once."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from jinja2 import Environment

from flows.report import html, render_public, write_reports
from quality.parallel import KernelFolders
from tests.flows.report.report_folder import edit, write_folder


@pytest.fixture
def new_environment() -> Iterator[None]:
    """Templates are loaded anew, in the test and after it."""
    html._environment.cache_clear()
    yield
    html._environment.cache_clear()


@pytest.mark.usefixtures("new_environment")
def test_templates_are_compiled_once_for_all_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = tmp_path / "compiled"
    kept.mkdir()
    folders = KernelFolders(read=(kept,), write=kept, temporary=False)
    monkeypatch.setattr(html, "kernel_folders", lambda _: folders)
    folder = write_folder(tmp_path)
    first = render_public(folder)
    assert list(kept.iterdir())

    def compile_again(*_: object, **__: object) -> None:
        raise AssertionError("a template is compiled a second time")

    html._environment.cache_clear()
    monkeypatch.setattr(Environment, "compile", compile_again)
    assert render_public(folder) == first


@pytest.mark.usefixtures("new_environment")
def test_pages_are_the_same_where_nothing_compiled_can_be_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write_folder(tmp_path)
    first = render_public(folder)
    html._environment.cache_clear()
    nowhere = KernelFolders(read=(), write=None, temporary=False)
    monkeypatch.setattr(html, "kernel_folders", lambda _: nowhere)
    assert render_public(folder) == first


def test_an_interval_too_narrow_for_whole_tasks_is_not_put_in_words() -> None:
    """Else a page would say "about 6 of 100 tasks, between 6 and 6"."""
    parts = html._environment().get_template("parts.html.j2").module
    assert str(parts.between(0.061, 0.064)) == ""  # type: ignore[attr-defined]
    assert str(parts.between(0.031, 0.094)) == ", between 3 and 9"  # type: ignore[attr-defined]


def test_a_plan_that_takes_workers_alike_says_that_it_is_the_plan(tmp_path: Path) -> None:
    """The page said so of the ordinal model, which has parameters for every worker."""
    folder = write_folder(tmp_path / "run")
    facts = json.loads((folder / "consensus.json").read_text())
    alike = facts["plan"] | {"workers_told_apart": False}
    edit(folder / "consensus.json", aggregator="ordinal_crowd", plan=alike)
    write_reports(folder)
    page = " ".join((folder / "report.html").read_text(encoding="utf-8").split())
    assert "whom to ask is open: the plan takes all workers to be equally reliable, because" in page


@pytest.mark.parametrize(
    ("epsilon", "factor"), [(1.0, "2.8"), (20.0, "4.9e+8"), (2e6, "9.3e+868588"), (1e308, "∞")]
)
def test_a_price_has_a_factor_however_large(epsilon: float, factor: str) -> None:
    """The reports of a run that had paid were refused by decimals' Overflow."""
    shown = html._factor(epsilon)
    assert shown == factor
