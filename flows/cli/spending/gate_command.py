"""The command that judges candidates, prompts or models, on a holdout that is asked many times: gate."""

from __future__ import annotations

import json
import math
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from flows.cli.publishing import refuse_elsewhere
from flows.cli.root import (
    AsJson,
    Encoding,
    Quiet,
    Sep,
    Sheet,
    app,
    counted,
    mistakes,
    named_path,
    one_table,
    print_line,
    reading_of_options,
    waiting_for,
)

if TYPE_CHECKING:
    from flows.spending import CandidateVerdict

__all__ = ["gate"]

OVERFIT, EXHAUSTED = 3, 4  # exit codes
CODES = {"agrees": 0, "overfit": OVERFIT, "exhausted": EXHAUSTED}


@app.command(
    epilog="Example: `crowdassay gate scores.jsonl --campaign prompts --state state`; exit code 0 if every "
    "candidate agrees, 3 if one is overfit, 4 if the gate is exhausted, 2 for a mistake"
)
def gate(
    scores: Annotated[
        Path,
        typer.Argument(
            help="table with the columns candidate, example, split (development or holdout), score: a file, "
            "a folder, a pattern, or -",
            parser=named_path,
        ),
    ],
    campaign: Annotated[
        str, typer.Option(help="name of the campaign, which has one holdout for all its candidates")
    ] = "candidates",
    state: Annotated[
        Path,
        typer.Option(help="state folder, kept from one call to the next", parser=named_path),
    ] = Path("state"),
    candidate: Annotated[
        str | None,
        typer.Option(
            help="ask this one alone, or its name where the table has no column candidate"
        ),
    ] = None,
    score: Annotated[str, typer.Option(help="the column of scores, each in [0, 1]")] = "score",
    candidates: Annotated[
        int | None, typer.Option(min=1, help="most candidates of the campaign [default: 1000]")
    ] = None,
    refutations: Annotated[
        int | None, typer.Option(min=1, help="overfit answers before the gate shuts [default: 10]")
    ] = None,
    level: Annotated[
        float | None, typer.Option(help="confidence in all answers together [default: 0.95]")
    ] = None,
    tolerance: Annotated[
        float | None,
        typer.Option(help="by how much a reported score may exceed the truth [default: 0.01]"),
    ] = None,
    epsilon: Annotated[
        float | None,
        typer.Option(help="price of all answers in privacy [default: noise that hardly matters]"),
    ] = None,
    begun: Annotated[
        bool, typer.Option("--begun", help="refuse to begin a campaign: its state must be there")
    ] = False,
    sep: Sep = None,
    encoding: Encoding = None,
    sheet: Sheet = None,
    json_: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Say whether a prompt's, judge's or model's development score holds, and what score to report.

    Asked again, a candidate with the same name and development scores has its stored answer. The first
    call declares the holdout, --candidates, --refutations, --level, --tolerance and --epsilon for good.
    """
    from flows.spending import GateTerms, ask_candidates  # the ledger, for this command only
    from flows.tables import read_scores, reading_of_scores  # DuckDB, likewise

    with mistakes():
        refuse_elsewhere(state)
        reading = reading_of_scores(reading_of_options(sep, encoding, sheet, False), score)
        needed = "example", "split", score
        with one_table(scores, needed, reading, tell=not json_) as file, waiting_for("scores"):
            read = read_scores(file, score=score, candidate=candidate)
        terms = GateTerms(score, candidates, refutations, epsilon, level, tolerance, begun)
        with waiting_for("the holdout's answers"):
            found = ask_candidates(state, campaign, read, terms)
        if json_:
            answers = [asdict(one) for one in found]
            print(json.dumps({"campaign": campaign, "answers": answers}, indent=1))
        else:
            for one in found:
                for line in _lines(one):
                    print_line(line)
            print_line(_footer(max(found, key=lambda one: one.calls), state))
    code = max(CODES[one.status] for one in found)
    if code:
        raise typer.Exit(code)


def _lines(one: CandidateVerdict) -> list[str]:
    """Return the answer about one candidate, in sentences."""
    from privacy.accounting import level_text  # the ledger's, for this command only

    again = ", as answered before" if one.known else ""
    head = f"{one.candidate}: {one.status}{again}; development score {one.development:.3f}"
    if one.score is None:
        return [
            head,
            "  no score can be reported: the holdout is used up, and a new campaign needs a new one",
        ]
    return [
        head,
        f"  report {_down(one.score)}; the true score is at least {_down(one.bound)}, with "
        f"{level_text(one.level)} confidence for all candidates together",
    ]


def _down(value: float) -> str:
    """Return a score with three digits, never above it."""
    return f"{math.floor(1000 * value) / 1000:.3f}"


def _footer(last: CandidateVerdict, state: Path) -> str:
    """Return what the gate has left, and where its state lies."""
    from privacy.accounting import price_text  # the ledger's, for this command only

    return (
        f"{counted(last.candidates_left, 'candidate')} and {counted(last.refutations_left, 'refutation')} "
        f"left after call {last.calls:,}; {counted(last.n_holdout, 'holdout example')}, price epsilon "
        f"{price_text(last.epsilon)}, paid once ({state})"
    )
