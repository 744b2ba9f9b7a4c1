"""A gate for candidates, prompts or models: their campaign in the ledger, and what it answers.

A campaign has one holdout, which its first question declares with the gate's terms. Both stay: the
limits count all questions about these examples. Its name in the ledger is "gate " and the campaign's.

>>> ask_candidates(Path("state"), "prompts", scores, GateTerms())  # doctest: +SKIP
(CandidateVerdict(candidate='short', status='agrees', ...),)
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from flows.settings import SettingsError
from flows.spending.account import open_state
from learners import CandidateAnswer, CandidateGate, candidate_price
from privacy import Ledger, PureEvent, Query, Question, Unit

if TYPE_CHECKING:
    from flows.tables import CandidateScores

__all__ = ["CandidateVerdict", "GateTerms", "ask_candidates"]

PREFIX = "gate "
MARKS = 16  # least digests of examples: two holdouts that share a fifth share one of them, 97 times in 100
DEFAULTS = {"n_candidates": 1000, "refutations": 10, "level": 0.95, "tolerance": 0.01}


@dataclass(frozen=True, slots=True)
class GateTerms:
    """What is asked of the gate; None is what the campaign has declared, or a default.

    `score` names the column of scores; `begun` says that the campaign has begun before. The others are
    knobs of `CandidateGate`; epsilon's default is `candidate_price`.
    """

    score: str = "score"
    n_candidates: int | None = None
    refutations: int | None = None
    epsilon: float | None = None
    level: float | None = None
    tolerance: float | None = None
    begun: bool = False


@dataclass(frozen=True, slots=True)
class CandidateVerdict:
    """What the gate answered about one candidate.

    Parameters
    ----------
    candidate
        Its name.
    status
        "agrees", "overfit" or "exhausted".
    score
        The score to report: above the true one by at most `tolerance`; None once exhausted.
    bound
        Lower limit of the true score.
    development
        Mean score on the development set.
    n_development, n_holdout
        Examples of each.
    level, tolerance
        Confidence in all bounds together, and by how much reported scores may exceed the truth.
    refutations_left, candidates_left
        How many more overfit answers, and candidates, the gate has.
    calls
        Calls of the gate so far, repeated ones included; it only grows.
    known
        Whether this candidate was answered before.
    epsilon
        Price of all answers of the campaign together, paid once.
    """

    candidate: str
    status: str
    score: float | None
    bound: float
    development: float
    n_development: int
    n_holdout: int
    level: float
    tolerance: float
    refutations_left: int
    candidates_left: int
    calls: int
    known: bool
    epsilon: float


def ask_candidates(
    state: Path, campaign: str, scores: Sequence[CandidateScores], terms: GateTerms
) -> tuple[CandidateVerdict, ...]:
    """Ask a campaign's gate about candidates, in their order, and return its answers.

    The first call declares the campaign's holdout and terms and pays for all answers. A candidate is known
    by its name and its development scores, never by what it scores on the holdout: asked again, it has its
    stored answer. Either all of the candidates are answered, or none.

    Raises
    ------
    SettingsError
        If the campaign has another holdout or other terms, or should have begun and has not; if the holdout
        shares examples with another campaign's, the campaign's name is blank, a term is out of range, or a
        candidate's scores are not as `CandidateScores` says.
    LedgerError, BudgetError
        As `Ledger.interact_all`; nothing is answered then.
    """
    if not campaign.strip():
        raise SettingsError("--campaign must not be blank")
    if not scores:
        return ()
    first, dataset = scores[0], PREFIX + campaign
    for one in scores:  # the examples of the first are what the campaign is known by
        if one.holdout_examples != first.holdout_examples:
            raise SettingsError(
                f"candidates must have one holdout, got other examples for {one.name!r} than for "
                f"{first.name!r}"
            )
        _check_scores(one)
    n = len(first.holdout_examples)
    ledger = open_state(state)
    marks = _marks(first.holdout_examples, terms.score)
    campaigns = _declared(ledger)
    declared = campaigns.get(dataset)
    if declared is None:
        if terms.begun:
            raise SettingsError(
                f"the campaign {campaign!r} must have begun (--begun), and {state} does not know it: its "
                "state is lost or elsewhere, and without it answers would promise too much; put it back"
            )
        _refuse_shared(campaigns, campaign, marks)
        gate = _new_gate(terms, n, marks)
    else:
        gate = _declared_gate(declared)
        _refuse_other(campaign, gate, terms, n, declared.parameters["n"], marks)
    query = Query(
        dataset, f"{terms.score} of candidates on {n:,} holdout examples", np.zeros(1), Unit.ROW,
        n=n, l1=math.inf,
    )  # fmt: skip
    questions = [_question(one) for one in scores]
    if dataset not in ledger.datasets():
        _open_budget(ledger, gate, query)
    released = ledger.interact_all(gate, query, questions)
    return tuple(
        _verdict(one, gate, CandidateAnswer.from_json(release.value), known=not release.fresh)
        for one, release in zip(scores, released, strict=True)
    )


def _check_scores(one: CandidateScores) -> None:
    """Raise SettingsError for what the gate would refuse once it was paid; no holdout score is looked at."""
    means = one.development
    if not (means.ndim == 1 and means.size >= 1 and ((means >= 0) & (means <= 1)).all()):
        raise SettingsError(
            f"development scores must be one number in [0, 1] or more, and those of {one.name!r} are not"
        )
    n = len(one.holdout_examples)
    if not (one.holdout.shape == (n,) and one.holdout.dtype.kind in "biuf"):
        raise SettingsError(
            f"holdout scores must be one number for each of {n:,} examples, and those of {one.name!r} are "
            f"{one.holdout.dtype} of shape {one.holdout.shape}"
        )


def _question(one: CandidateScores) -> Question:
    """Return the question, whose name is public: the candidate's, with a digest of its development scores."""
    return Question(
        f"{one.name}, development {one.development_digest}",
        {
            "train": float(one.development.mean()),
            "n_train": one.development.size,
            "holdout": one.holdout,
        },
    )


def _marks(examples: Sequence[str], score: str) -> tuple[str, ...]:
    """Return a digest of the holdout and its score's name, and the least digests of single examples."""
    whole = hashlib.blake2b(repr((score, sorted(examples))).encode(), digest_size=16).hexdigest()
    each = sorted(hashlib.blake2b(one.encode(), digest_size=6).hexdigest() for one in examples)
    return whole, *each[:MARKS]


def _declared(ledger: Ledger) -> dict[str, PureEvent]:
    """Return what each campaign of candidates has declared, by its name in the ledger."""
    found = {}
    for one in ledger.statements():
        for entry in one.entries[:1] if one.dataset.startswith(PREFIX) else ():
            if isinstance(entry.event, PureEvent) and entry.event.name == "candidate gate":
                found[one.dataset] = entry.event
    return found


def _new_gate(terms: GateTerms, n: int, marks: tuple[str, ...]) -> CandidateGate:
    """Return the gate that a campaign begins with."""
    knobs = {name: getattr(terms, name) for name in DEFAULTS}
    chosen: dict[str, Any] = {
        name: DEFAULTS[name] if given is None else given for name, given in knobs.items()
    }
    try:
        price = terms.epsilon
        if price is None:
            public = {name: chosen[name] for name in ("n_candidates", "refutations", "level")}
            price = candidate_price(n, **public)
        return CandidateGate(**chosen, epsilon=price, holdout=marks)
    except ValueError as error:  # a knob, whose sentence says which
        raise SettingsError(str(error)) from None


def _open_budget(ledger: Ledger, gate: CandidateGate, query: Query) -> None:
    """Set a campaign's budget, the gate's whole price, once it is known that its noise can be drawn."""
    try:
        gate.event(query)
    except ValueError as error:  # a price too small, which would stay declared
        raise SettingsError(f"{error}; nothing was declared") from None
    ledger.open_budget(query.dataset, unit=Unit.ROW, epsilon=gate.epsilon, delta=0.0, n=query.n)


def _declared_gate(event: PureEvent) -> CandidateGate:
    """Return the gate of a campaign that has begun."""
    known = {one.name for one in fields(CandidateGate)} & event.parameters.keys()
    knobs = {name: event.parameters[name] for name in known}
    return CandidateGate(
        **(knobs | {"holdout": tuple(knobs["holdout"])}), epsilon=float(event.cost().epsilon)
    )


def _refuse_other(
    campaign: str,
    gate: CandidateGate,
    terms: GateTerms,
    n: int,
    n_declared: int,
    marks: tuple[str, ...],
) -> None:
    """Raise SettingsError unless holdout and terms are those that the campaign has declared."""
    if gate.holdout != marks:
        raise SettingsError(
            f"the holdout of the campaign {campaign!r} is {n_declared:,} examples with the digest "
            f"{gate.holdout[0][:8]}, got {n:,} with {marks[0][:8]}: its examples, and the score's name, stay "
            "as they were declared; score every candidate on the same ones, or begin a new campaign "
            "(--campaign) with examples that no gate has seen"
        )
    for name in (*DEFAULTS, "epsilon"):
        given, declared = getattr(terms, name), getattr(gate, name)
        if given is not None and given != declared:
            raise SettingsError(
                f"{name} of the campaign {campaign!r} is {declared:g} since its first question, got "
                f"{given:g}; leave it out, or begin a new campaign (--campaign) with examples that no "
                "gate has seen"
            )


def _refuse_shared(
    campaigns: Mapping[str, PureEvent], campaign: str, marks: tuple[str, ...]
) -> None:
    """Raise SettingsError if another campaign's holdout has some of these examples."""
    for dataset, event in campaigns.items():
        if set(marks[1:]) & set(event.parameters["holdout"][1:]):
            raise SettingsError(
                f"the campaign {campaign!r} must have a holdout of its own: examples of it are in that of "
                f"the campaign {dataset.removeprefix(PREFIX)!r}, whose answers have used them; ask that one, "
                "or draw new examples"
            )


def _verdict(
    one: CandidateScores, gate: CandidateGate, answer: CandidateAnswer, *, known: bool
) -> CandidateVerdict:
    return CandidateVerdict(
        candidate=one.name,
        status=answer.status,
        score=answer.value,
        bound=answer.bound,
        development=float(one.development.mean()),
        n_development=one.development.size,
        n_holdout=len(one.holdout_examples),
        level=gate.level,
        tolerance=gate.tolerance,
        refutations_left=answer.refutations_left,
        candidates_left=answer.candidates_left,
        calls=answer.calls,
        known=known,
        epsilon=gate.epsilon,
    )
