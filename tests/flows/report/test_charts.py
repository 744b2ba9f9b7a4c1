"""How charts are laid out: once, and as matplotlib itself would while it saves them."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from flows.report import charts


def _groups(rng: np.random.Generator) -> list[dict[str, Any]]:
    return [
        {
            "group": f"$group {number}$" * (1 + number % 3),
            "cells": [{"share": share, "low": share / 2, "high": 0.9} for share in rng.random(3)],
        }
        for number in range(int(rng.integers(1, 20)))
    ]


def _image(
    rng: np.random.Generator, name: str, *, is_signed: bool
) -> tuple[str, list[float], bool]:
    return name, rng.normal(size=64).tolist(), is_signed


CHARTS: dict[str, Callable[[np.random.Generator], str]] = {
    "worker_scatter": lambda rng: charts.worker_scatter(
        rng.random((40, 2)).tolist(), rng.random((3, 2)).tolist(), label="workers"
    ),
    "confidence_histogram": lambda rng: charts.confidence_histogram(
        np.linspace(0, 1, 11).tolist(), rng.integers(0, 10_000, 10).tolist(), label="confidence"
    ),
    "interval_rows": lambda rng: charts.interval_rows(
        _groups(rng), ["yes", "no", "a long name of a class"], share="share", name="rows", label="rows"
    ),
    "budget_bar": lambda rng: charts.budget_bar(
        *rng.random(2).tolist(), names=["spent", "left"], label="budget"
    ),
    "image_panels": lambda rng: charts.image_panels(
        [{"class": "a", "panels": [_image(rng, "seen", is_signed=True)]},
         {"class": "b", "panels": [_image(rng, one, is_signed=False) for one in "xy"]}],
        (8, 8), name="images", label="images",
    ),
}  # fmt: skip


@pytest.mark.parametrize("chart", CHARTS)
@pytest.mark.parametrize("seed", range(3))
def test_a_chart_laid_out_before_has_the_bytes_of_one_laid_out_while_it_is_saved(
    chart: str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn = CHARTS[chart](np.random.default_rng(seed))
    monkeypatch.setattr(charts, "_lay_out", lambda figure: None)
    assert CHARTS[chart](np.random.default_rng(seed)) == drawn


def test_the_marks_of_an_axis_say_where_they_stand() -> None:
    """Ticks stood at 82.5%, 85% and 87.5%, and were called 82%, 85% and 88%."""
    drawn = charts.worker_scatter(
        [[0.82, 0.5], [0.835, 0.4], [0.96, 0.34]], [], label="agreement from 82% to 96%"
    )
    marks = [float(mark) for mark in re.findall(r">\s*([\d.]+)%\s*<", drawn)]
    steps = np.diff(marks)
    assert len(marks) > 3
    assert steps == pytest.approx(np.full(len(steps), steps[0]))
    shown = [charts._percent(share) for share in (0.0, -0.0, 0.825, 0.1 + 0.2, 1.0)]
    assert shown == ["0%", "0%", "82.5%", "30%", "100%"]


def shares(names: list[str], n_classes: int) -> list[dict[str, Any]]:
    cell = {"share": 0.2, "low": 0.1, "high": 0.3}
    return [{"group": name, "cells": [cell] * n_classes} for name in names]


def texts_of(svg: str) -> list[str]:
    return re.findall(r"<text[^>]*>([^<]*)</text>", svg)


@pytest.mark.parametrize("classes", [["_none", "cat", "_"], ["_a", "_b"]])
def test_a_class_whose_name_begins_with_an_underscore_is_in_the_legend(classes: list[str]) -> None:
    """Matplotlib leaves such a label out, as if the mark had none."""
    groups = shares(["_private", "open"], len(classes))
    svg = charts.interval_rows(groups, classes, share="share", name="n", label="l")
    assert {*classes, "_private", "open"} <= set(texts_of(svg))


def test_long_names_that_begin_alike_stay_different() -> None:
    about = "complaint about delivery of "
    ends = [f"{about}goods", f"{about}mail", "short"]
    alike = [f"{about}{'x' * 30}{end}{'y' * 30}" for end in "ab"]  # differ in the middle alone
    groups = shares([*ends, *alike], 2)
    svg = charts.interval_rows(groups, ends[:2], share="share", name="n", label="l")
    found = [text for text in texts_of(svg) if not text.endswith("%")]
    assert len(found) == 7
    assert len(set(found)) == 7 - 2  # two are both groups and classes
    assert max(map(len, found)) <= charts.LONGEST_NAME
    assert "complai…ivery of goods" in found
    points = charts.pattern_points(ends, [0.1] * 3, None, name="n", label="l")
    assert {"complai…ivery of goods", "complai…livery of mail"} <= set(texts_of(points))


@pytest.mark.parametrize(("length", "columns"), [(5, 4), (12, 2), (22, 1)])
def test_a_legend_has_as_many_columns_as_the_chart_is_wide(length: int, columns: int) -> None:
    """What stands beyond the chart is cut off on a narrow screen."""
    classes = [f"{code}{'m' * (length - 1)}" for code in range(4)]
    svg = charts.interval_rows(shares(["g"], 4), classes, share="share", name="n", label="l")
    across = [
        float(x)
        for x, text in re.findall(r'<text[^>]* x="([\d.]+)"[^>]*>([^<]*)</text>', svg)
        if text in classes
    ]
    assert len(across) == 4
    assert len(set(across)) == columns
