"""How pages are rendered: templates are compiled once."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from jinja2 import Environment

from flows.report import html, render_public, render_report, write_reports
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


def words(jinja: Environment, source: str, **named: object) -> str:
    """What a template shows that has the pages' parts and filters."""
    return jinja.from_string(f'{{% import "parts.html.j2" as parts %}}{source}').render(**named)


def test_answers_are_told_in_words() -> None:
    jinja, shown = html._environment(), "{{ parts.given(answers) }}"
    assert words(jinja, shown, answers=[(1200, "x"), (1, None)]) == "1,200\u00a0×\u00a0x, 1 other"
    assert words(jinja, shown, answers=[(3, "a<b"), (2, None)]).endswith("a&lt;b, 2 others")
    assert words(jinja, shown, answers=[]) == "—"


@pytest.mark.parametrize("name", ["עברית", "صنف 3", "a\u202egnp.exe"])
def test_a_name_written_from_right_to_left_turns_no_number_beside_it(name: str) -> None:
    """2 × עברית, 3 × cat would be drawn as 3 × עברית, 2 × cat."""
    jinja = html._environment()
    given = words(jinja, "{{ parts.given(answers) }}", answers=[(2, name), (3, "cat")])
    assert given == f"2\u00a0×\u00a0<bdi>{name}</bdi>, 3\u00a0×\u00a0cat"
    listed = words(jinja, '{{ names|map("apart")|join(", ") }}', names=["<i>", name, "漢字"])
    assert listed == f"&lt;i&gt;, <bdi>{name}</bdi>, 漢字"
    assert words(jinja, "{{ name|apart }}", name=f"<b>{name}") == f"<bdi>&lt;b&gt;{name}</bdi>"


def test_names_with_commas_have_semicolons_between_them() -> None:
    """Three classes, "ok", "spam, ad" and "toxic", read as four."""
    jinja = html._environment()
    assert (
        words(jinja, "{{ names|listed }}", names=["ok", "<i>", "toxic"]) == "ok, &lt;i&gt;, toxic"
    )
    assert words(jinja, "{{ names|listed }}", names=["ok", "spam, ad"]) == "ok; spam, ad"
    name = "\u05d0"
    assert words(jinja, "{{ names|listed }}", names=["ok", name]) == f"ok, <bdi>{name}</bdi>"


def test_names_from_right_to_left_stand_apart_on_both_pages(tmp_path: Path) -> None:
    classes = ("שלילי", "ניטרלי", "חיובי")
    write_folder(tmp_path, classes=classes, group_name="مجموعة {:02d}", worker_name="عامل {:04d}")
    public, report = render_public(tmp_path), render_report(tmp_path, show_worker_ids=True)
    every = ", ".join(f"<bdi>{name}</bdi>" for name in classes)
    assert f"one of 3 classes: {every}. Their" in public
    assert f"“<bdi>مجموعة 01</bdi>, <bdi>{classes[0]}</bdi>: <span" in public
    assert f"classes {every}. This page" in report
    assert re.search(r"Lowest reputation first: <bdi>عامل \d{4}</bdi> \(", report)
