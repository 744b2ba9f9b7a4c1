"""Pages from a run folder, each one file: Jinja2 templates, charts and a style sheet.

A page loads nothing from anywhere: its content policy forbids that, and it is complete without its few
lines of script. The section of a stage is the template of the stage's name; the manifest lists the stages.

>>> write_reports(Path("runs/20261121T094500Z-web"))  # doctest: +SKIP
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
import unicodedata
from collections.abc import Callable, Iterable
from decimal import ROUND_CEILING, Context, Decimal
from functools import cache, lru_cache, partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

from jinja2 import (
    BytecodeCache,
    Environment,
    FileSystemBytecodeCache,
    PackageLoader,
    StrictUndefined,
)
from markupsafe import Markup

from flows.aggregators import title_of
from flows.files import write_whole
from flows.report import charts
from flows.report.pages import internal_page, public_page
from flows.report.release_files import write_release_files
from privacy import Unit
from privacy.accounting import level_text, price_text
from quality.parallel import kernel_folders

__all__ = ["render_public", "render_report", "render_template", "write_reports"]

NOTHING = "—"
TURNING = {"R", "AL", "AN", "LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}
"""Bidirectional classes of marks that turn the numbers and names beside them around."""


def render_report(folder: Path, *, show_worker_ids: bool = False) -> str:
    """Render the team's report of a finished run: exact values, people, releases and their price.

    Parameters
    ----------
    folder
        A run folder with all its stages written.
    show_worker_ids
        Print worker ids as they came. Otherwise a worker is called by `pages.pseudonyms`.

    Returns
    -------
    str
        One HTML page.

    Raises
    ------
    ValueError
        If `folder` lacks a file that every run has.

    Notes
    -----
    **Guarantees.** The same folder gives the same bytes; the page refers to nothing outside itself;
    names from the data are text, never markup; a skipped stage shows its one sentence.

    Examples
    --------
    >>> render_report(Path("runs/none"))
    Traceback (most recent call last):
    ValueError: folder must be a finished run folder, got no inputs.json in runs/none
    """
    _check(folder)
    return render_template("report.html.j2", internal_page(folder, show_worker_ids=show_worker_ids))


def render_public(folder: Path) -> str:
    """Render the page that may be shown: releases and their prices, no exact numbers and no names.

    Parameters, result and errors are those of :func:`render_report`.

    Notes
    -----
    **Guarantees.** The page depends on released values alone: it is the same, byte for byte,
    whatever the internal files and fields hold. Class ratios appear only where
    `class_ratios.json` says `"public": true`.
    """
    _check(folder)
    return render_template("public.html.j2", public_page(folder))


def write_reports(folder: Path, *, show_worker_ids: bool = False) -> None:
    """Write `report.html`, `public.html` and the folder `public` with the releases as files.

    Parameters and errors are those of :func:`render_report`.

    Notes
    -----
    **Guarantees.** Both pages are rendered before either is written; what is there is whole.
    """
    pages = {
        "report.html": render_report(folder, show_worker_ids=show_worker_ids),
        "public.html": render_public(folder),
    }
    write_release_files(folder)
    for name, text in pages.items():
        write_whole(folder / name, partial(Path.write_text, data=text, encoding="utf-8"))


def _check(folder: Path) -> None:
    """Raise ValueError if the folder is not that of a finished run."""
    if not (folder / "inputs.json").is_file():
        raise ValueError(f"folder must be a finished run folder, got no inputs.json in {folder}")


def render_template(template: str, page: dict[str, Any]) -> str:
    """Return one page from one template; the script's digest lets the content policy name it."""
    jinja = _environment()
    if jinja.loader is None:
        raise ValueError("environment must have a loader")
    script = jinja.loader.get_source(jinja, "sort.js")[0]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return jinja.get_template(template).render(
        page, links=[], script=Markup(script), script_digest=f"sha256-{digest}"
    )


@cache
def _environment() -> Environment:
    """Return the environment of this package's templates: everything is escaped, undefined names raise.

    What they are compiled to is kept beside compiled kernels: a third of a second for every run otherwise.
    """
    jinja = Environment(
        bytecode_cache=_compiled_templates(),
        loader=PackageLoader("flows.report", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    jinja.filters |= FILTERS
    jinja.globals.update(chart=_chart)
    return jinja


def _compiled_templates() -> BytecodeCache | None:
    """Return the store of compiled templates, if there is one; Jinja forgets them with their text.

    They also depend on Jinja, and on this file, whose filters are applied to constants at once.
    """
    folder = kernel_folders(Path(__file__)).write
    if folder is None:
        return None
    made_by = hashlib.sha256(f"{version('jinja2')} {Path(__file__).read_text('utf-8')}".encode())
    return FileSystemBytecodeCache(str(folder), f"pages-{made_by.hexdigest()[:16]}-%s.cache")


def _chart(kind: str, /, *arguments: Any, **options: Any) -> Markup:
    """Return a chart by name; its SVG is made here from escaped text, so it is markup."""
    return _drawn(kind, json.dumps([arguments, options]))


@lru_cache(maxsize=8)
def _drawn(kind: str, given: str) -> Markup:
    """Return one chart, drawn once for both pages: drawing is most of their cost."""
    arguments, options = json.loads(given)
    return Markup(getattr(charts, kind)(*arguments, **options))


def _apart(name: str) -> str:
    """Return a name that turns nothing around it: 2 × B, 3 × A would read 3 × B, 2 × A, were B Hebrew."""
    turns = not name.isascii() and any(unicodedata.bidirectional(mark) in TURNING for mark in name)
    return Markup("<bdi>{}</bdi>").format(name) if turns else name


def _listed(names: Iterable[str]) -> str:
    """Return names with commas between them; where one has a comma itself, with semicolons."""
    apart = [_apart(name) for name in names]
    return Markup("; " if any("," in name for name in apart) else ", ").join(apart)


def _absent(value: float | None) -> bool:
    """Return whether a number is missing, and so is shown as a dash."""
    return value is None or not math.isfinite(value)


def _count(value: int | None) -> str:
    """Return a count with thousands apart: 20431 -> 20,431."""
    return NOTHING if value is None else f"{value:,}"


def _counted(value: int, noun: str) -> str:
    """Return a count with its noun: 1 group, 12 groups."""
    return f"{value:,} {noun}" if value == 1 else f"{value:,} {noun}s"


def _number(value: float | None, digits: int = 2) -> str:
    """Return a number to so many digits behind the point."""
    return NOTHING if value is None or _absent(value) else f"{value:,.{digits}f}".replace("-", "−")


def _percent(value: float | None, digits: int = 1) -> str:
    """Return a share as a percentage."""
    return NOTHING if value is None or _absent(value) else f"{value:.{digits}%}"


def _rest(value: float) -> str:
    """Return a budget, or the rest of one, rounded down."""
    return price_text(value, left=True)


def _price(epsilon: float, delta: float = 0.0, *, left: bool = False) -> str:
    """Return a price on one line: ε = 1, or with a delta that is not 0: ε = 1, δ = 1e-06."""
    number, space = _rest if left else price_text, "\N{NO-BREAK SPACE}"
    words = f"ε{space}={space}{number(epsilon)}"
    return f"{words}, δ{space}={space}{number(delta)}" if delta else words


def _sentence(text: str) -> str:
    """Return a stage's reason as a sentence: a capital first, a full stop last."""
    return text[:1].upper() + text[1:] + ("" if text.endswith((".", "!", "?")) else ".")


def _span(bounds: tuple[float | None, float | None]) -> str:
    """Return an interval of shares: 13.7–69.4%."""
    low, high = bounds
    if low is None or high is None or _absent(low) or _absent(high):
        return NOTHING
    return f"{low:.1%}".removesuffix("%") + f"–{high:.1%}"


def _factor(epsilon: float) -> str:
    """Return the factor by which a price can change odds: e to the epsilon, two digits, rounded up.

    Beyond what decimals hold, at an epsilon of some two million, it is ∞: a price is whatever was set.
    """
    context = Context(prec=2, rounding=ROUND_CEILING, traps=[])
    factor = context.create_decimal(Decimal(repr(epsilon)).exp(Context(traps=[])))
    if factor.is_infinite():
        return "∞"
    return f"{factor:.1e}" if factor >= 10_000 else f"{float(factor):,g}"


def _plain(value: float | None) -> str:
    """Return a number as it was set: 1.0 -> 1, 1e-06 -> 1e-06."""
    return NOTHING if value is None or _absent(value) else f"{value:g}"


def _protects(unit: str) -> str:
    """Return a phrase for what a price of this unit protects."""
    return Unit(unit).protects.replace("'", "’")


def _beyond(unit: str) -> str:
    """Return the sentence on what a price of this unit does not promise."""
    return Unit(unit).beyond


def _aggregated_by(consensus: dict[str, Any]) -> str:
    """Return a phrase for what made the consensus: an aggregator, or a pool and its heaviest member."""
    choice = consensus["choice"]
    if choice is None:
        return title_of(consensus["aggregator"])
    leader, scores = title_of(choice["chosen"]), choice["scores"]
    n_pooled = sum(score["weight"] > 0 for score in scores)
    if n_pooled == 1:
        return f"{leader}, chosen of {len(scores)} aggregators"
    return f"a pool of {n_pooled} aggregators led by {leader}"


def _joined_by(consensus: dict[str, Any]) -> str:
    """Return what joined the labels' consensus, as the end of a phrase; empty if nothing did."""
    if consensus.get("panel"):
        return ", and by how gold teaches to read the models’ answers"
    voice = consensus.get("features")
    if not (voice and voice.get("heard")):
        return ""
    return f", joined by {'features' if voice['features'] else 'the models’ answers'}"


def _moment(value: str) -> str:
    """Return an ISO moment to the minute."""
    return value[:16].replace("T", " ")


FILTERS: dict[str, Callable[..., str]] = {
    "aggregated_by": _aggregated_by, "apart": _apart, "beyond": _beyond, "cost": price_text, "count": _count,
    "counted": _counted, "factor": _factor, "joined_by": _joined_by, "level": level_text,
    "listed": _listed,
    "moment": _moment, "named": title_of, "number": _number, "percent": _percent, "plain": _plain,
    "price": _price, "protects": _protects, "rest": _rest, "sentence": _sentence, "span": _span,
}  # fmt: skip
