"""The charts of the report: SVG text to stand inside a page, the same bytes for the same numbers.

Text is drawn as text without a colour of its own, so it takes the page's; lines are a mid-grey,
and marks have Okabe and Ito's colours [1]_, of which the darkest is left to the style sheet.
Every distinction by colour is one by shape too.

References
----------
.. [1] Okabe, Ito, "Color Universal Design", 2002 (revised 2008).
"""

from __future__ import annotations

import io
import math
import re
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from html import escape
from typing import Any

import matplotlib
import matplotlib.style
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.colors import LinearSegmentedColormap, to_hex
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

__all__ = [
    "budget_bar", "concept_graph", "confidence_histogram", "image_panels", "interval_rows",
    "pattern_points", "psychometric_curves", "reliability_curve", "robustness_curve", "trend_lines",
    "worker_scatter",
]  # fmt: skip

BLUE, VERMILLION, GREEN = "#0072B2", "#D55E00", "#009E73"
PURPLE, ORANGE, SKY = "#CC79A7", "#E69F00", "#56B4E9"
NEUTRAL = "#808080"
COLOURS = (BLUE, VERMILLION, GREEN, PURPLE, ORANGE, SKY, NEUTRAL, BLUE)
MARKS = tuple(zip(COLOURS, "o^sDvPX*", strict=True))
GRADES = (ORANGE, VERMILLION, "#8A5A9E", BLUE)  # from the lowest to the highest, on either ground
WIDTH = 5.2  # inches at 72 points: wide enough for a column, and still read at 390 pixels
POINTS = 72  # of SVG in an inch
LEGEND_ROW = 0.22  # inches
LONGEST_NAME = 22
ENDS = (0.25, 0.5, 1.0)  # of an axis of shares: the first that holds all of them

STYLE: Mapping[str, Any] = {
    "svg.fonttype": "none",
    "text.parse_math": False,  # a group may be called "$x$"
    "font.sans-serif": ["DejaVu Sans"],  # measures the text; the style sheet names the font
    "font.size": 10.5,
    "axes.edgecolor": NEUTRAL,
    "axes.linewidth": 0.7,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "xtick.color": NEUTRAL,
    "ytick.color": NEUTRAL,
    "xtick.labelcolor": "black",
    "ytick.labelcolor": "black",
    "grid.color": NEUTRAL,
    "grid.alpha": 0.3,
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "legend.handletextpad": 0.4,
    "legend.columnspacing": 1.4,
}


def worker_scatter(
    kept: Sequence[tuple[float, float]], flagged: Sequence[tuple[float, float]], *, label: str
) -> str:
    """Draw each worker's agreement (across) and soft penalty (up); removed ones are triangles."""
    with _styled("workers"):
        figure, axes = _axes(3.5)
        axes.plot(
            *_columns(kept), "o", mfc="none", mec=BLUE, ms=5, mew=1.0, alpha=0.85, label="kept"
        )
        if flagged:
            axes.plot(*_columns(flagged), "^", color=VERMILLION, ms=6.5, mew=0, label="removed")
        axes.set_xlabel("agreement with the consensus")
        axes.set_ylabel("soft penalty")
        axes.xaxis.set_major_formatter(_percent)
        axes.xaxis.set_major_locator(MaxNLocator(6))
        axes.grid()
        _legend(figure, axes)
        return _svg(figure, "workers", label)


def confidence_histogram(edges: Sequence[float], counts: Sequence[int], *, label: str) -> str:
    """Draw the number of tasks in each bin of confidence, the count above its bar; no empty start."""
    first = next((code for code, count in enumerate(counts) if count), 0)
    edges, counts = list(edges[first:]), list(counts[first:])
    with _styled("confidence"):
        figure, axes = _axes(2.7)
        _, _, bars = axes.hist(edges[:-1], bins=edges, weights=counts, rwidth=0.9, color=BLUE)
        if len(counts) <= 16:
            names = [f"{count:,}" if count else "" for count in counts]
            axes.bar_label(bars, names, padding=2, fontsize=8)  # type: ignore[arg-type]
            axes.set_yticks([])
            axes.spines["left"].set_visible(False)
        axes.set_xlabel("confidence of the consensus label")
        axes.set_ylabel("tasks")
        return _svg(figure, "confidence", label)


def reliability_curve(
    model: Sequence[Mapping[str, Any]], adjusted: Sequence[Mapping[str, Any]], *, label: str
) -> str:
    """Draw how often labels of a confidence (across) are right (up), with intervals; dotted if calibrated.

    Points are `{"confidence", "right", "low", "high", "n"}`: of the model (triangles) and as adjusted,
    the larger, the more tasks they stand for.
    """
    with _styled("reliability"):
        figure, axes = _axes(3.3)
        axes.plot([0, 1], [0, 1], ":", color=NEUTRAL, lw=1.2)
        for points, colour, mark, name in (
            (model, VERMILLION, "^", "the model"),
            (adjusted, BLUE, "o", "adjusted"),
        ):
            at, right, low, high, n = (
                [point[key] for point in points]
                for key in ("confidence", "right", "low", "high", "n")
            )
            area = [14 + 90 * one / max(n) for one in n]
            axes.vlines(at, low, high, color=colour, linewidth=1.2, alpha=0.5)
            axes.scatter(at, right, s=area, marker=mark, color=colour, linewidths=0, label=name)
        first = min(point["confidence"] for point in [*model, *adjusted])
        axes.set_xlim(max(0.0, first - 0.05), 1.01)
        axes.set_ylim(-0.02, 1.02)
        axes.set_xlabel("confidence of the consensus label")
        axes.set_ylabel("right on gold")
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_formatter(_percent)
        axes.grid()
        _legend(figure, axes)
        return _svg(figure, "reliability", label)


def interval_rows(
    groups: Sequence[Mapping[str, Any]],
    classes: Sequence[str],
    *,
    share: str,
    name: str,
    label: str,
    ordered: bool = False,
) -> str:
    """Draw one row per group and, in it, each class's share with its interval.

    Parameters
    ----------
    groups
        `{"group", "cells": [{share, "low", "high"}, ...]}`, one cell per class; drawn downwards.
        Ends of None are not drawn.
    classes
        Class names in the cells' order; as many as there are marks to tell them apart.
    share
        The cells' key of the estimate.
    name, label
        Prefix of the chart's ids within the page; what a screen reader says.
    ordered
        The classes are grades: colours go from orange to blue with them.
    """
    if not len(classes) <= len(MARKS):
        raise ValueError(f"classes must be at most {len(MARKS)}, got {len(classes)}")
    with _styled(name):
        pitch = 0.75 / len(classes)
        end = _end(groups)
        figure, axes = _axes(0.8 + len(groups) * max(0.24, 0.1 + 0.085 * len(classes)))
        colours = _sequence(len(classes)) if ordered else COLOURS
        marks = [(colour, mark) for colour, (_, mark) in zip(colours, MARKS, strict=False)]
        handles = []
        for code, (text, (colour, marker)) in enumerate(
            zip(_shortened(classes), marks, strict=False)
        ):
            cells = [row["cells"][code] for row in groups]
            at = [row + pitch * (code - (len(classes) - 1) / 2) for row in range(len(groups))]
            drawn = [
                (y, cell) for y, cell in zip(at, cells, strict=True) if cell["low"] is not None
            ]
            low, high = ([cell[key] for _, cell in drawn] for key in ("low", "high"))
            axes.hlines([y for y, _ in drawn], low, high, color=colour, linewidth=1.4)
            estimates = [cell[share] for cell in cells]
            handles += axes.plot(estimates, at, marker, color=colour, ms=5.5, mew=0, label=text)
        axes.set_yticks(range(len(groups)), _shortened([row["group"] for row in groups]))
        axes.tick_params(axis="y", length=0)
        axes.hlines(
            [row + 0.5 for row in range(len(groups) - 1)], 0, end, NEUTRAL, "-", lw=0.4, alpha=0.3
        )
        axes.set_ylim(len(groups) - 0.45, -0.55)
        axes.set_xlim(-0.01 * end, 1.01 * end)
        axes.xaxis.set_major_formatter(_percent)
        axes.spines["left"].set_visible(False)
        axes.grid(axis="x")
        _legend(figure, axes, handles)
        return _svg(figure, name, label)


def budget_bar(spent: float, left: float, *, names: Sequence[str], label: str) -> str:
    """Draw what of a budget is spent (solid) and left (outlined), in epsilon."""
    with _styled("budget"):
        figure, axes = _axes(1.15)
        outlined: dict[str, Any] = {"fill": False, "edgecolor": BLUE, "linewidth": 1}
        axes.barh(0, spent, height=0.6, color=BLUE, label=names[0])
        axes.barh(0, left, height=0.6, left=spent, label=names[1], **outlined)
        axes.set_yticks([])
        axes.set_xlabel("epsilon")
        axes.spines["left"].set_visible(False)
        _legend(figure, axes)
        return _svg(figure, "budget", label)


def robustness_curve(
    bounds: Mapping[str, Sequence[float]], *, label: str, most: bool = True
) -> str:
    """Draw how many tasks k adversaries could turn: at least, at most if `most`, and under any rule."""
    with _styled("robustness"):
        figure, axes = _axes(2.9)
        k = bounds["n_adversaries"]
        nameless = bounds["name_blind"]
        if most:
            between: dict[str, Any] = {"color": SKY, "alpha": 0.25, "linewidth": 0}
            axes.fill_between(k, bounds["lower"], bounds["upper"], **between)
            axes.plot(k, bounds["upper"], "-v", color=VERMILLION, ms=4.5, label="at most")
            one_right = bounds["upper_one_right"]
            axes.plot(k, one_right, ":", color=VERMILLION, label="at most, one ever right")
        axes.plot(k, bounds["lower"], "-^", color=BLUE, ms=4.5, label="at least")
        axes.plot(k, nameless, "--", color=GREEN, label="at least, under any nameless rule")
        axes.set_xlabel("adversaries among the workers")
        axes.set_ylabel("tasks turned")
        axes.set_ylim(bottom=0)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.grid()
        _legend(figure, axes, ncols=2)
        return _svg(figure, "robustness", label)


def trend_lines(runs: Sequence[Mapping[str, Any]], *, label: str) -> str:
    """Draw the workers' agreement over the runs, of all and of those kept; gaps where it is unknown."""
    with _styled("trend"):
        figure, axes = _axes(2.4)
        place = range(1, len(runs) + 1)
        for key, colour, mark, name in (
            ("alpha", BLUE, "-o", "all workers"),
            ("alpha_kept", VERMILLION, "--^", "workers kept"),
        ):
            known = [math.nan if run[key] is None else run[key] for run in runs]
            axes.plot(place, known, mark, color=colour, ms=5, label=name)
        axes.set_xlabel("run")
        axes.set_ylabel("alpha")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.grid()
        _legend(figure, axes)
        return _svg(figure, "trend", label)


def concept_graph(
    concepts: Sequence[Mapping[str, Any]], edges: Sequence[tuple[int, int, int]], *, label: str
) -> str:
    """Draw concepts level by level from the left, and edges as wide as the tasks that use them.

    `concepts` are `{"name", "depth", "tasks", "is_new"}`, the area of a mark as its tasks; those that no
    class names are triangles. `edges` are parent, child and tasks, by place.
    """
    levels = [[i for i, one in enumerate(concepts) if one["depth"] == d]
              for d in range(1 + max(one["depth"] for one in concepts))]  # fmt: skip
    tallest = max(len(level) for level in levels)
    at = {
        i: (depth, (row + 0.5) * tallest / len(level))
        for depth, level in enumerate(levels)
        for row, i in enumerate(level)
    }
    most = max(one["tasks"] for one in concepts) or 1
    with _styled("concepts"):
        figure, axes = _axes(max(1.6, 0.6 + 0.5 * tallest))
        for parent, child, n in edges:
            (x, y), (to_x, to_y) = at[parent], at[child]
            width = 0.5 + 5 * n / most
            axes.plot([x, to_x], [y, to_y], color=NEUTRAL, lw=width, alpha=0.4, zorder=1)
        for is_new, colour, mark, name in (
            (False, BLUE, "o", "class"),
            (True, VERMILLION, "^", "no class"),
        ):
            some = [i for i, one in enumerate(concepts) if one["is_new"] == is_new]
            area = [30 + 220 * concepts[i]["tasks"] / most for i in some]
            place = _columns([at[i] for i in some])
            axes.scatter(*place, s=area, marker=mark, color=colour, linewidths=0, label=name)
        for i, one in enumerate(concepts):
            text = f"{_short(one['name'])} ({one['tasks']:,})"
            axes.annotate(text, at[i], (0, 9), textcoords="offset points", ha="center", fontsize=8)
        axes.set_xlim(-0.5, len(levels) - 0.5)
        axes.set_ylim(tallest, -0.35)
        axes.set_axis_off()
        _legend(figure, axes)
        return _svg(figure, "concepts", label)


def _sequence(n_grades: int) -> list[str]:
    """Return colours of grades, evenly from the first of `GRADES` to the last."""
    between = LinearSegmentedColormap.from_list("grades", GRADES)
    return [to_hex(between(at / max(n_grades - 1, 1))) for at in range(n_grades)]


def image_panels(
    rows: Sequence[Mapping[str, Any]], shape: tuple[int, int], *, name: str, label: str
) -> str:
    """Draw pictures, a row for each class: `{"class", "panels": [(title, pixels, signed), ...]}`.

    Signed ones are red above 0 and blue below, on one scale within the row; the others are grey.
    """
    across = max(len(row["panels"]) for row in rows)
    with _styled(name):
        figure = Figure(figsize=(WIDTH, 0.2 + len(rows) * (WIDTH / across)), layout="constrained")
        grid = figure.subplots(len(rows), across, squeeze=False)
        for row, line in zip(rows, grid, strict=True):
            for axes in line:
                axes.set_axis_off()
            for axes, (title, pixels, is_signed) in zip(line, row["panels"], strict=False):
                most = max(abs(one) for one in pixels) or 1.0
                lines = [pixels[at : at + shape[1]] for at in range(0, len(pixels), shape[1])]
                if is_signed:
                    axes.imshow(lines, cmap="RdBu_r", vmin=-most, vmax=most)
                else:
                    axes.imshow(lines, cmap="gray")
                axes.set_title(_short(title), fontsize=9)
        return _svg(figure, name, label)


def pattern_points(
    features: Sequence[str],
    crowd: Sequence[float],
    gold: Sequence[float] | None,
    *,
    name: str,
    label: str,
) -> str:
    """Draw a row per feature: its correlation with deciding for a class, by crowd and gold."""
    with _styled(name):
        figure, axes = _axes(0.8 + 0.24 * len(features))
        at = range(len(features))
        axes.axvline(0, color=NEUTRAL, lw=0.7)
        if gold is not None:
            axes.hlines(at, crowd, gold, color=NEUTRAL, linewidth=1.2, alpha=0.6)
            axes.plot(gold, at, "^", color=VERMILLION, ms=6, mew=0, label="gold")
        axes.plot(crowd, at, "o", color=BLUE, ms=5.5, mew=0, label="crowd")
        axes.set_yticks(at, _shortened(features))
        axes.tick_params(axis="y", length=0)
        axes.set_ylim(len(features) - 0.45, -0.55)
        axes.set_xlabel("correlation with the decision")
        axes.spines["left"].set_visible(False)
        axes.grid(axis="x")
        _legend(figure, axes)
        return _svg(figure, name, label)


def psychometric_curves(
    ease: Sequence[float],
    crowd: Sequence[float],
    curves: Sequence[tuple[Sequence[float], bool]],
    *,
    axis: str,
    label: str,
) -> str:
    """Draw how often workers are right (up) on tasks of each ease (across); the careless are dashed."""
    with _styled("psychometric"):
        figure, axes = _axes(3.3)
        for careless, colour, line, name in (
            (False, BLUE, "-", "a worker"),
            (True, VERMILLION, "--", "careless"),
        ):
            for number, curve in enumerate(one for one, is_so in curves if is_so is careless):
                axes.plot(
                    ease, curve, line, color=colour, lw=1.1, alpha=0.6,
                    label=None if number else name,
                )  # fmt: skip
        axes.plot(ease, crowd, "-o", color=NEUTRAL, ms=4, lw=2.2, label="all together")
        axes.set_xlabel(_short(axis))
        axes.set_ylabel("right")
        axes.yaxis.set_major_formatter(_percent)
        axes.grid()
        _legend(figure, axes)
        return _svg(figure, "psychometric", label)


def _axes(height: float) -> tuple[Figure, Axes]:
    """Return a figure of the common width with one pair of axes."""
    figure = Figure(figsize=(WIDTH, height), layout="constrained")
    return figure, figure.add_subplot()


def _legend(figure: Figure, axes: Axes, handles: Sequence[Any] = (), *, ncols: int = 4) -> None:
    """Put a legend above the axes, where it covers no mark, in as many columns as the figure is wide.

    Marks with names from the data are handed over: left to itself, Matplotlib skips a name that begins with
    an underscore.
    """
    handles = handles or axes.get_legend_handles_labels()[0]
    rows = math.ceil(len(handles) / ncols)  # that a figure's height allows for
    for n in range(min(ncols, len(handles)), 0, -1):
        legend = figure.legend(handles=handles, loc="outside upper left", ncols=n)
        if n == 1 or legend.get_window_extent().width <= figure.bbox.width:
            more = math.ceil(len(handles) / n) - rows
            figure.set_figheight(figure.get_figheight() + LEGEND_ROW * more)
            return
        legend.remove()


def _columns(points: Sequence[tuple[float, float]]) -> tuple[list[float], list[float]]:
    """Return pairs as two columns, also when there are none."""
    return [x for x, _ in points], [y for _, y in points]


def _end(groups: Sequence[Mapping[str, Any]]) -> float:
    """Return the end of an axis of shares, chosen so that small ones can be distinguished."""
    ends = [cell["high"] for row in groups for cell in row["cells"]]
    highest = max(1.0 if end is None else end for end in ends)
    return next((end for end in ENDS if highest <= end), ENDS[-1])


def _percent(share: float, _: float | None = None) -> str:
    """Return a share at a mark of an axis, with the digits that it has: 82.5% is not 82%."""
    return f"{round(100 * share, 4) + 0.0:g}%"


def _line(name: str) -> str:
    """Return a name on one line, without marks that are not printed."""
    return " ".join("".join(mark if mark.isprintable() else " " for mark in name).split())


def _short(name: str) -> str:
    """Return a name shortened to fit beside a chart, on one line."""
    line = _line(name)
    return line if len(line) <= LONGEST_NAME else line[: LONGEST_NAME - 1] + "…"


def _shortened(names: Sequence[str]) -> list[str]:
    """Return names shortened so that different ones stay different: with their ends, or else a number."""
    found, head = [_short(name) for name in names], LONGEST_NAME // 3
    for numbered in (False, True):
        times = Counter(found)
        for place, line in enumerate(map(_line, names)):
            if times[found[place]] > 1 and numbered:
                found[place] = f"{line[: LONGEST_NAME - 6]}… ({place + 1})"
            elif times[found[place]] > 1 and len(line) > LONGEST_NAME:
                found[place] = f"{line[:head]}…{line[head + 1 - LONGEST_NAME :]}"
    return found


@contextmanager
def _styled(name: str) -> Iterator[None]:
    """Set Matplotlib's own defaults in place of a user's file; ids are hashed from the chart's name."""
    style = matplotlib.style.context(["default", {**STYLE, "svg.hashsalt": name}])
    with style, warnings.catch_warnings():
        # The browser has the glyphs; matplotlib's own font only measures the text.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        yield


def _svg(figure: Figure, name: str, label: str) -> str:
    """Return a figure as one `<svg>` element: no prolog, no foreign ids, named for screen readers."""
    text = io.StringIO()
    nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
    _lay_out(figure)
    figure.savefig(text, format="svg", transparent=True, metadata=nothing)
    svg = text.getvalue()
    box = re.search(r'viewBox="[^"]*"', svg)
    if box is None:
        raise ValueError("matplotlib must write a viewBox")
    body = svg[svg.index(">", box.end()) + 1 :]
    # matplotlib's `*` rule would style the whole page; the style sheet says it for charts alone
    body = re.sub(r"<defs>\s*<style.*?</style>\s*</defs>", "", body, count=1, flags=re.DOTALL)
    body = re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{name}-", body)
    body = body.replace(BLUE.lower(), "var(--blue)")  # the one colour too dark for dark ground
    body = re.sub(r"\n\s+", "\n", body)
    spaces = 'xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink"'
    return f'<svg {spaces} {box[0]} role="img" aria-label="{escape(label)}">{body.strip()}'


def _lay_out(figure: Figure) -> None:
    """Place the parts of a figure as `savefig` would, which draws everything once more to do so."""
    engine = figure.get_layout_engine()
    if engine is not None:
        FigureCanvasSVG(figure)
        figure.dpi = POINTS
        engine.execute(figure)
        figure.set_layout_engine("none")
