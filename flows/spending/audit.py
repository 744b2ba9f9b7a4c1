"""Audits for the terminal: every mechanism by its name, on made-up neighbours, with the outcome in sentences.

A mechanism on class counts that computes how likely its releases are is audited by that. Of the others
`AUDITED` holds two neighbouring data sets each, far apart where the mechanism is at its weakest, and the
audit looks for whatever tells their releases apart.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from flows.settings import SettingsError
from learners import (
    Auc,
    CandidateGate,
    DeflatedDirections,
    GaussianObjectivePerturbation,
    HistogramValidation,
    MetricGate,
    NoisyGradientDescent,
    NoisyMoments,
    ObjectivePerturbation,
    OutputPerturbation,
    PerCandidateValidation,
    PerWidthValidation,
    PrincipalSubspace,
    RandomRepetition,
    RandomSelection,
    ReducedTraining,
    ScoredTraining,
    SplitBudgetSelection,
    SplitDataSelection,
    StabilityValidation,
    Thresholdout,
    moments_query,
)
from learners.private import training_rows
from privacy import (
    AuditBound,
    GroupInteraction,
    GroupPrivacy,
    JointLatticeLaplace,
    LatticeCorrection,
    LatticeLaplace,
    Query,
    Question,
    Unit,
    audit_mechanism,
    audit_releases,
    draw_releases,
    label_set_counts,
    win_points,
)
from privacy.accounting import level_text, price_text
from privacy.mechanisms import COUNT_MECHANISMS, NoisyMax

__all__ = ["AUDITED", "COUNTS", "Audited", "as_numbers", "claimed", "outcome", "trial"]

Neighbour = tuple[Query, tuple[Question, ...]]
"""A made-up data set, and for an interaction what it is asked."""

N_ROWS = 20
KNOBS: dict[str, Any] = {"norm_bound": 1.0, "n_classes": 2}
CANDIDATES = (0.1, 1.0)


@dataclass(frozen=True, slots=True)
class Audited:
    """A mechanism to audit: how it is made of epsilon and delta, and two neighbours."""

    make: Callable[[float, float], Any]
    neighbours: Callable[[], tuple[Neighbour, Neighbour]]


def _moved(
    value: list[int] | list[list[int]], other: list[int] | list[list[int]]
) -> tuple[Neighbour, Neighbour]:
    """Return class counts of 10 records in a group, of which two are of another class in the second."""
    first, second = (
        Query("trial", "counts", np.array(counts), Unit.SUBJECT, n=int(np.sum(counts)), l1=4.0)
        for counts in (value, other)
    )
    return (first, ()), (second, ())


def _label_sets() -> tuple[Neighbour, Neighbour]:
    """Return ten tasks with places for two of four classes; the last has the first two, then the others."""
    tasks = [str(number) for number in range(10)]
    queries: list[Query] = []
    for last in ([True, True, False, False], [False, False, True, True]):
        chosen = np.tile([True, False, True, False], (10, 1))
        chosen[-1] = last
        queries += label_set_counts(
            chosen, np.zeros(10, dtype=np.int64), dataset="trial", group_names=("all",), max_labels=2,
            unit=Unit.CONSENSUS_LABEL, local=False, tasks=tasks,
        )  # fmt: skip
    first, second = queries
    return (first, ()), (second, ())


def _win_points() -> tuple[Neighbour, Neighbour]:
    """Return twelve comparisons of three items; in the second the last one is won by the other item."""
    left, right = np.tile([0, 0, 1], 4), np.tile([1, 2, 2], 4)
    queries: list[Query] = []
    for last in (0, 1):
        outcome = np.tile([0, 1, 2], 4)
        outcome[-1] = last
        queries.append(win_points(left, right, outcome, n_items=3, dataset="trial"))
    first, second = queries
    return (first, ()), (second, ())


def _scores() -> tuple[Neighbour, Neighbour]:
    """Return votes of which one moves from the first to the second."""
    first, second = (
        Query("trial", "scores", np.array(votes), Unit.CONSENSUS_LABEL, n=9, l1=2.0)
        for votes in ((4, 3, 2), (3, 4, 2))
    )
    return (first, ()), (second, ())


def _corrections() -> tuple[Neighbour, Neighbour]:
    """Return ten gold tasks; one whose consensus is wrong is wrong the other way in the second."""
    first, second = (
        Query("trial", "corrections", value, Unit.CONSENSUS_LABEL, n=10, l1=4.0)
        for value in (
            {"difference": np.array(moved), "right": np.array([7, 3])}
            for moved in ((1, -1), (-1, 1))
        )
    )
    return (first, ()), (second, ())


def _rows() -> tuple[Neighbour, Neighbour]:
    """Return rows of two classes and a public split; in the other the last is turned around in both.

    Only the last row for training differs, as neighbours may differ in one.
    """
    x = np.linspace(-1.0, 1.0, N_ROWS)[:, None]
    y = (x[:, 0] > 0).astype(np.int64)
    validation = np.arange(N_ROWS) % 4 == 0
    other_x, other_y = x.copy(), y.copy()
    other_x[-1], other_y[-1] = -1.0, 1
    return tuple(  # type: ignore[return-value]
        (
            Query(
                "trial", "rows", {"x": rows, "y": codes, "validation": validation}, Unit.ROW,
                n=N_ROWS, l1=math.inf,
            ),
            (),
        )
        for rows, codes in ((x, y), (other_x, other_y))
    )  # fmt: skip


def _flat_rows() -> tuple[Neighbour, Neighbour]:
    """Return rows along a diagonal, which the last one of the second leaves: components turn with it."""
    found = []
    for (query, asked), turned in zip(_rows(), (1.0, -1.0), strict=True):
        rows = training_rows(query, KNOBS["n_classes"])
        x = np.repeat(rows["x"], 2, axis=1) / math.sqrt(2.0)
        x[-1, 1] *= turned
        found.append((replace(query, value={**rows, "x": x}), asked))
    return found[0], found[1]


def _directions() -> tuple[Neighbour, Neighbour]:
    """Return three rows of length one, of which the last is turned from the first axis to the second."""
    first, second = (
        moments_query(np.eye(3)[list(axes)], norm_bound=1.0, dataset="trial")
        for axes in ((0, 2, 0), (0, 2, 1))
    )
    return (first, ()), (second, ())


def _values() -> tuple[Neighbour, Neighbour]:
    """Return values of which one for training moves from the first bin to the last."""
    validation = np.arange(N_ROWS) % 4 == 0
    x = np.where(np.arange(N_ROWS) < N_ROWS // 2, 0.1, 0.9)
    other = x.copy()
    other[1] = 0.9
    return tuple(  # type: ignore[return-value]
        (
            Query(
                "trial", "values", {"x": one, "validation": validation}, Unit.ROW, N_ROWS, math.inf
            ),
            (),
        )
        for one in (x, other)
    )


def _holdout(ask: Callable[[np.ndarray], list[Mapping[str, Any]]]) -> tuple[Neighbour, Neighbour]:
    """Return a holdout on which a model is right half of the time, and one more time on the neighbour's."""
    right = np.arange(N_ROWS) % 2 == 0
    other = right.copy()
    other[1] = True
    return tuple(  # type: ignore[return-value]
        (
            Query("trial", "holdout", one.astype(np.float64), Unit.ROW, n=N_ROWS, l1=math.inf),
            tuple(Question(f"question {k}", value) for k, value in enumerate(ask(one))),
        )
        for one in (right, other)
    )


def _means(right: np.ndarray) -> list[Mapping[str, Any]]:
    """Return a question at the threshold, one far from it, and the first again by another name."""
    holdout = right.astype(np.float64)
    return [{"train": train, "holdout": holdout} for train in (0.25, 0.9, 0.25)]


def _candidates(right: np.ndarray) -> list[Mapping[str, Any]]:
    """Return candidates at the gate's edge, one of whom is far from it."""
    holdout = right.astype(np.float64)
    return [
        {"train": train, "n_train": N_ROWS, "holdout": holdout} for train in (0.5, 0.5, 0.9, 0.5)
    ]


def _areas(right: np.ndarray) -> list[Mapping[str, Any]]:
    """Return those about the area under the curve of scores that one record's score moves."""
    positive = np.arange(N_ROWS) < N_ROWS // 2
    score = np.where(right, positive, ~positive).astype(np.float64)
    return [{"train": train, "score": score, "positive": positive} for train in (0.25, 0.9)]


def _stable(epsilon: float) -> StabilityValidation:
    return StabilityValidation(CANDIDATES, epsilon / 2, epsilon / 2, **KNOBS)


def _binned(epsilon: float) -> HistogramValidation:
    return HistogramValidation((2, 4), epsilon / 2, epsilon / 2, low=0.0, high=1.0)


def _two_right(
    ask: Callable[[np.ndarray], list[Mapping[str, Any]]],
) -> tuple[Neighbour, Neighbour]:
    """Return a holdout whose model is right one more time, and one on which it is so two more times."""
    (_, first), _ = _holdout(ask)
    (query, _), _ = _holdout(ask)
    right = np.arange(N_ROWS) % 2 == 0
    right[[1, 3]] = True
    asked = tuple(Question(f"question {k}", value) for k, value in enumerate(ask(right)))
    return (query, first), (query, asked)


AUC = Auc(N_ROWS // 4, N_ROWS // 4)

AUDITED: Mapping[str, Audited] = {
    "noisy_max": Audited(lambda epsilon, _: NoisyMax(epsilon), _scores),
    "objective_perturbation": Audited(
        lambda epsilon, _: ObjectivePerturbation(epsilon, 0.1, **KNOBS), _rows
    ),
    "gaussian_objective_perturbation": Audited(
        lambda epsilon, delta: GaussianObjectivePerturbation(epsilon, delta, 0.1, **KNOBS), _rows
    ),
    "output_perturbation": Audited(
        lambda epsilon, _: OutputPerturbation(epsilon, 0.1, **KNOBS), _rows
    ),
    "stability_validation": Audited(lambda epsilon, _: _stable(epsilon), _rows),
    "per_candidate_validation": Audited(
        lambda epsilon, _: PerCandidateValidation(_stable(epsilon)), _rows
    ),
    "random_repetition": Audited(
        lambda epsilon, _: RandomRepetition(CANDIDATES, epsilon, 4, **KNOBS), _rows
    ),
    "random_selection": Audited(
        lambda epsilon, _: RandomSelection(CANDIDATES, epsilon, **KNOBS), _rows
    ),
    "split_budget_selection": Audited(
        lambda epsilon, _: SplitBudgetSelection(CANDIDATES, epsilon, **KNOBS), _rows
    ),
    "split_data_selection": Audited(
        lambda epsilon, _: SplitDataSelection(CANDIDATES, epsilon, **KNOBS), _rows
    ),
    "scored_training": Audited(
        lambda epsilon, _: ScoredTraining(_stable(epsilon / 2), epsilon / 2), _rows
    ),
    "scored_noisy_descent": Audited(
        lambda epsilon, delta: ScoredTraining(
            NoisyGradientDescent(epsilon / 2, delta, **KNOBS), epsilon / 2
        ),
        _rows,
    ),
    "reduced_training": Audited(
        lambda epsilon, _: ReducedTraining(_stable(epsilon / 2), PrincipalSubspace(epsilon / 2, 1)),
        _flat_rows,
    ),
    "histogram_validation": Audited(lambda epsilon, _: _binned(epsilon), _values),
    "per_width_validation": Audited(
        lambda epsilon, _: PerWidthValidation(_binned(epsilon)), _values
    ),
    "thresholdout": Audited(
        lambda epsilon, _: Thresholdout(0.25, 4 / (epsilon * N_ROWS), 2), lambda: _holdout(_means)
    ),
    "metric_gate": Audited(
        lambda epsilon, _: MetricGate(Thresholdout(0.25, 4 * AUC.sensitivity / epsilon, 2), AUC),
        lambda: _holdout(_areas),
    ),
    "candidate_gate": Audited(
        lambda epsilon, _: CandidateGate(4, 2, epsilon, deviations=0.01),
        lambda: _holdout(_candidates),
    ),
    "noisy_gradient_descent": Audited(
        lambda epsilon, delta: NoisyGradientDescent(epsilon, delta, **KNOBS), _rows
    ),
    "noisy_moments": Audited(lambda epsilon, delta: NoisyMoments(epsilon, delta, 1), _directions),
    "principal_subspace": Audited(lambda epsilon, _: PrincipalSubspace(epsilon, 2), _directions),
    "deflated_directions": Audited(lambda epsilon, _: DeflatedDirections(epsilon, 2), _directions),
    "label_sets": Audited(lambda epsilon, _: LatticeLaplace(epsilon), _label_sets),
    "win_points": Audited(lambda epsilon, _: LatticeLaplace(epsilon), _win_points),
    "lattice_correction": Audited(lambda epsilon, _: LatticeCorrection(epsilon), _corrections),
    "joint_lattice_laplace": Audited(
        lambda epsilon, _: JointLatticeLaplace(epsilon),
        lambda: _moved([[6, 4], [5, 5]], [[5, 5], [4, 6]]),
    ),
    "group_privacy": Audited(
        lambda epsilon, _: GroupPrivacy(LatticeLaplace(epsilon / 2), 2, epsilon),
        lambda: _moved([6, 4], [4, 6]),
    ),
    "group_interaction": Audited(
        lambda epsilon, _: GroupInteraction(Thresholdout(0.25, 8 / (epsilon * N_ROWS), 2), 2),
        lambda: _two_right(_means),
    ),
}
"""Every mechanism that is not one of class counts; a test finds one that is missing."""

COUNTS = {re.sub("(?<=[a-z])(?=[A-Z])", "_", one.__name__).lower(): one for one in COUNT_MECHANISMS}
"""Every mechanism of class counts."""


def claimed(name: str) -> tuple[str, ...]:
    """Return those of delta, floor and counts that play a part in the audit of a mechanism; all if unknown.

    >>> claimed("discrete_laplace"), claimed("noisy_moments"), claimed("noisy_max")
    (('counts',), ('delta',), ())
    """
    if name in COUNTS:
        return (*("delta", "floor")[: len(fields(COUNTS[name])) - 1], "counts")
    if name not in AUDITED:
        return ("delta", "floor", "counts")
    make = AUDITED[name].make
    return ("delta",) if repr(make(1.0, 1e-3)) != repr(make(1.0, 2e-3)) else ()


def trial(
    name: str, *, epsilon: float, delta: float, floor: int, counts: str, draws: int, level: float
) -> dict[str, Any]:
    """Audit the mechanism of that name.

    Raises SettingsError for an unknown name, which lists the known ones, and for a claim or counts out of
    range.
    """
    try:
        values = tuple(int(count) for count in counts.split(","))
    except ValueError:
        raise SettingsError(
            f"counts must be integers with commas between, got {counts!r}"
        ) from None
    if name not in COUNTS and name not in AUDITED:
        known = ", ".join([*COUNTS, *AUDITED, "public_folder"])
        raise SettingsError(f"mechanism must be one of {known}, got {name!r}")
    if not 0 < epsilon < math.inf:  # a gate's noise is the price's inverse
        raise SettingsError(f"epsilon must be > 0 and finite, got epsilon={epsilon}")
    try:
        if name in COUNTS:
            kind = COUNTS[name]
            mechanism = kind(*(epsilon, delta, floor)[: len(fields(kind))])
            bound = audit_mechanism(mechanism, values, draws=draws, level=level)
            claim = float(getattr(mechanism, "delta", 0.0))
        else:
            mechanism = AUDITED[name].make(epsilon, delta)
            bound, claim = _audited(mechanism, AUDITED[name].neighbours(), draws, level)
    except ValueError as error:  # every number here is the caller's own, and public
        raise SettingsError(str(error)) from None
    return outcome(repr(mechanism), bound, claim)


def _audited(
    mechanism: Any, neighbours: tuple[Neighbour, Neighbour], draws: int, level: float
) -> tuple[AuditBound, float]:
    """Audit a mechanism by the releases of two neighbours; return also the delta that it claims."""
    cost = mechanism.event(neighbours[0][0]).cost()
    drawn = [draw_releases(mechanism, query, draws, questions) for query, questions in neighbours]
    epsilon, delta = float(cost.epsilon), float(cost.delta)
    bound = audit_releases(*as_numbers(*drawn), epsilon=epsilon, delta=delta, level=level)
    return bound, delta


def as_numbers(first: Sequence[Any], second: Sequence[Any]) -> tuple[np.ndarray, np.ndarray]:
    """Write two samples of JSON values as arrays of numbers, one row per value.

    A column is a place in the values that holds a number, a truth or a text somewhere. A text becomes
    a number by its digest, so that its code tells nothing of the sample that it is in; what a value
    lacks, and None, are NaN.
    """
    leaves = [[dict(_leaves(value)) for value in sample] for sample in (first, second)]
    places = sorted({place for sample in leaves for one in sample for place in one})
    arrays = [
        np.array([[_number(one.get(place)) for place in places] for one in sample])
        for sample in leaves
    ]
    return arrays[0].reshape(len(first), -1), arrays[1].reshape(len(second), -1)


def _leaves(value: Any, place: str = "") -> Iterator[tuple[str, Any]]:
    """Yield what stands in a JSON value, each with its place."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _leaves(inner, f"{place}.{key}")
    elif isinstance(value, list | tuple):
        for number, inner in enumerate(value):
            yield from _leaves(inner, f"{place}.{number}")
    else:
        yield place, value


def _number(leaf: Any) -> float:
    if leaf is None:
        return math.nan
    if isinstance(leaf, str):  # 48 bits, which a double holds
        return float(int.from_bytes(hashlib.blake2b(leaf.encode(), digest_size=6).digest()))
    return float(leaf)


def outcome(what: str, bound: AuditBound, claim: float) -> dict[str, Any]:
    """Say the claim, what the draws prove, and whether that refutes it; `claim` is the claimed delta."""
    refuted, least = bound.refutes(claim), bound.least_epsilon(claim)
    verdict = "Refuted: the claim does not hold" if refuted else "Not refuted, which is no proof"
    return {
        "mechanism": what,
        "epsilon": bound.epsilon,
        "delta": claim,
        "least_epsilon": least,
        "least_delta": bound.delta,
        "draws": bound.draws,
        "hits": list(bound.hits),
        "level": bound.level,
        "refuted": refuted,
        "sentences": [
            f"{what} claims epsilon {price_text(bound.epsilon)}, delta {price_text(claim)}.",
            f"{bound.draws:,} releases of each of two neighbours: what tells them apart best happened in "
            f"{bound.hits[0]:,} of the one and {bound.hits[1]:,} of the other.",
            f"So, with {level_text(bound.level)} confidence, epsilon at that delta "
            f"is at least {least:.4g}, and delta at that epsilon at least {bound.delta:.4g}.",
            f"{verdict}.",
        ],
    }
