# ruff: noqa: E402 - Prefect reads its environment when it is imported, so that is set first
"""What Prefect shows of a run beside the end of each stage: progress, what was released, and two alerts.

The releases and their prices are those of the public page, which picks them by name. Of the run folder,
only the spent part of the budget is read besides. If the server does not answer, nothing is shown: the
run and its report do not depend on it.
"""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any

from flows.pipeline import RunResult, Stage, Step
from flows.prefect.server import quieten
from flows.report import public_page
from flows.run import Run
from flows.stages import STAGES, counted
from flows.terminal import Waited, noise_words, repeating

quieten()

import httpx
from prefect.artifacts import (
    create_link_artifact,
    create_markdown_artifact,
    create_progress_artifact,
    create_table_artifact,
    update_progress_artifact,
)
from prefect.events import emit_event

from flows.prefect.task import asking_once_if_gone
from privacy.accounting import exact, level_text, price_text

__all__ = ["BUDGET_LOW", "GATE_REFUSED", "publish_releases", "step_with_progress"]

GATE_REFUSED = "crowdassay.gate.refused"
BUDGET_LOW = "crowdassay.budget.low"
LOW = 0.8  # share of the budget
APART = 1.0  # seconds between two updates of the artifact at the end of a stage
APART_UNSEEN = 10.0  # on a server that nobody sees before the run has ended
TABLES = ("proportions", "corrected_shares", "class_ratios")

Facts = dict[str, Any]


def step_with_progress(inner: Step, campaign: str, *, seen: bool = True) -> Step:
    """Show how many of a run's stages are done, as a progress artifact of the flow run.

    One update covers all stages that end within a second, or within ten on a server that nobody has `seen`
    before the run ends. For a stage that takes long it also has what the stage waits for, in the code's own
    words, for how long, and for how long at most; the number of steps done is not sent.

    Examples
    --------
    >>> from flows.pipeline import run_stage
    >>> step = step_with_progress(run_stage, "web-2026")  # for `run_pipeline` inside a flow
    """
    shown: list[Any] = []  # the artifact, as soon as it exists
    apart = APART if seen else APART_UNSEEN
    n_done, told = 0, time.monotonic()

    def step(stage: Stage, run: Run) -> str:
        nonlocal n_done, told
        if not shown:
            with _if_answered():
                shown.append(create_progress_artifact(0.0, key=_key(campaign, "progress")))
        waited = Waited()

        def tell() -> None:
            if not shown:
                return
            name, words = stage.name.replace("_", " "), waited.words(counts=False)
            said = f"{name}: {words}; {waited.seconds:,.0f} s so far" if words else name
            with _if_answered():
                update_progress_artifact(shown[0], 100.0 * n_done / len(STAGES), said)

        with repeating(tell):
            line = inner(stage, replace(run, progress=waited.note))
        n_done += 1
        if shown and (time.monotonic() - told >= apart or n_done == len(STAGES)):
            told = time.monotonic()
            with _if_answered():
                done = f"{n_done} of {len(STAGES)} stages done"
                update_progress_artifact(shown[0], 100.0 * n_done / len(STAGES), done)
        return line

    return step


def publish_releases(campaign: str, result: RunResult) -> None:
    """Make artifacts of what a run released, and emit events about the gate and the budget.

    Parameters
    ----------
    campaign
        The campaign's name, which is public.
    result
        The finished run.

    Notes
    -----
    **Guarantees.** What tables and summary hold is on the public page, or public by itself: the
    campaign's name, the number of stages, the report's path, the budget. A server that does not answer
    is not an error.

    **Privacy.** Which tasks ran, how long they took, and which folder is linked show whether anything
    was new; `crowdassay.budget.low` shows how much is spent, which grows where private data
    have changed. So the server, and who is notified, are the team's: see SECURITY.md.

    `crowdassay.gate.refused` is sent if the gate's released status is not that it agrees.
    `crowdassay.budget.low` is sent at the end of every run while 80 % of the budget or more is spent,
    whether or not this run paid: it reports a state, not a payment. Its payload holds the budget, not
    what is spent.

    Examples
    --------
    >>> publish_releases("web-2026", result)  # doctest: +SKIP
    """
    page = public_page(result.folder)
    with _if_answered():
        for name in TABLES:
            if page[name] is not None:
                create_table_artifact(
                    _rows(page[name]), _key(campaign, name), _table_title(name, page[name])
                )
        create_markdown_artifact(_summary(campaign, page, result), _key(campaign, "summary"))
        create_link_artifact(result.report.as_uri(), "the run's report", _key(campaign, "report"))
    for event, payload in _alerts(campaign, page, Run(result.folder, None)):  # type: ignore[arg-type]
        resource = f"crowdassay.campaign.{campaign}"
        emit_event(
            event,
            {"prefect.resource.id": resource, "prefect.resource.name": campaign},
            payload=payload,
        )


@contextmanager
def _if_answered() -> Iterator[None]:
    """Run the block; ignore that the server does not answer."""
    with suppress(httpx.HTTPError, RuntimeError), asking_once_if_gone():
        yield


def _key(campaign: str, what: str) -> str:
    """Return an artifact's key: lower case, digits and dashes, and another for every campaign's name.

    >>> _key("web-1", "summary"), _key("web_1", "summary")
    ('crowdassay-web-1-summary', 'crowdassay-web-1-f983f468-summary')
    """
    clean = _cleaned(campaign)
    if clean != campaign:  # names that differ may be cleaned to one
        clean += f"-{hashlib.blake2b(campaign.encode(), digest_size=4).hexdigest()}"
    return f"crowdassay-{clean}-{_cleaned(what)}"


def _cleaned(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower())


def _rows(facts: Facts) -> list[Facts]:
    """Return a released table's rows, as many as the public page shows."""
    return [cell for group in facts["groups"] for cell in group["cells"]]


def _table_title(name: str, facts: Facts) -> str:
    shown, n_groups = len(facts["groups"]), facts["n_groups"]
    more = f"; the first {shown} of {n_groups} groups" if shown < n_groups else ""
    return f"{name.replace('_', ' ')} as released, intervals at {level_text(facts['level'])}{more}"


def _summary(campaign: str, page: Facts, result: RunResult) -> str:
    """Return the run in a few lines of Markdown."""
    lines = [f"# {campaign}", "", f"{len(result.stages)} stages done.", ""]
    for name, say in (
        ("proportions", _say_proportions),
        ("corrected_shares", _say_corrected),
        ("class_ratios", _say_ratios),
        ("model", _say_model),
        ("gate", _say_gate),
    ):
        line = "nothing released" if page[name] is None else say(page[name])
        lines.append(f"- **{name.replace('_', ' ')}**: {line}")
    return "\n".join([*lines, "", f"Public report: `{result.report.with_name('public.html')}`"])


def _say_proportions(facts: Facts) -> str:
    return (
        f"{counted(facts['n_groups'], 'group')} by {facts['mechanism']} at epsilon "
        f"{price_text(facts['epsilon'])}, delta {price_text(facts['delta'])} per {facts['unit']} "
        f"({noise_words(facts)}), each count within ±{counted(facts['half_width_labels'], 'label')} at "
        f"{level_text(facts['level'])}"
    )


def _say_corrected(facts: Facts) -> str:
    gold = counted(facts["n_gold"], "gold task")
    return (
        f"by {gold} at epsilon {price_text(facts['epsilon'])} per {facts['unit']}, "
        f"{'each group' if facts['apart'] else 'all groups together'}"
    )


def _say_ratios(facts: Facts) -> str:
    return f"{counted(facts['n_groups'], 'unlabelled group')}, at no further price"


def _say_model(facts: Facts) -> str:
    parts = [
        part
        for part in ("train", "select", "score", "components")
        if facts.get(f"epsilon_{part}", 0.0) > 0
    ]
    prices = " + ".join(price_text(facts[f"epsilon_{part}"]) for part in parts)
    delta = exact(facts["delta_train"]) + exact(facts.get("delta_components", 0.0))
    return (
        f"{len(facts['classes'])} classes, by {facts['method']} ({', '.join(parts)}) at epsilon {prices}, "
        f"delta {price_text(delta)} per {facts['unit']} ({noise_words(facts)})"
    )


def _say_gate(facts: Facts) -> str:
    value = "no answer" if facts["value"] is None else f"answer {facts['value']:.1%}"
    return (
        f"{facts['status']}, {value}, at epsilon {price_text(facts['epsilon'])} per {facts['unit']} "
        f"({noise_words(facts)})"
    )


def _alerts(campaign: str, page: Facts, run: Run) -> Iterator[tuple[str, Facts]]:
    """Yield the events of the run, each with its payload."""
    gate = page["gate"]
    if gate is not None and gate["status"] != "agrees":
        yield GATE_REFUSED, {"campaign": campaign, "status": gate["status"]}
    spend = run.read_json("spend.json")
    if "skipped" not in spend and _spent_share(spend) >= LOW:
        yield BUDGET_LOW, {"campaign": campaign, "at_least": LOW, "budget": spend["budget"]}


def _spent_share(spend: Facts) -> float:
    """Return the share of epsilon or of delta that is spent, whichever is larger."""
    budget, spent = spend["budget"], spend["spent"]
    shares: list[float] = [spent[part] / budget[part] for part in budget if budget[part] > 0]
    return max(shares)
