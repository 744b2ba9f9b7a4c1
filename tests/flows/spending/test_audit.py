"""Every mechanism has an audit, every event says truly how its noise was drawn, and faults are found."""

from __future__ import annotations

import importlib
import math
import pkgutil
from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest
from scipy import stats

import learners
import privacy
from flows.settings import SettingsError
from flows.spending.audit import AUDITED, COUNTS, Neighbour, as_numbers, outcome, trial
from learners import moments_query
from privacy import LatticeLaplace, Ledger, audit_releases, draw_releases
from privacy.ledger import ledger as ledger_module
from privacy.noise import SystemNoise

SURE = 1 - 1e-7
KNOBS: dict[str, Any] = {"epsilon": 1.0, "delta": 0.01, "floor": 40, "counts": "10,10,10"}
NO_DRAW = {"PlanPayment": "pays for a plan, and draws nothing"}
FAMILIES = {"_Rival", "PureTraining", "Auditable", "Mechanism", "Interaction"}
"""Classes that mechanisms are made by, or checked against."""


def mechanism_classes() -> set[str]:
    """Every class of the private rooms that describes a release and draws it, found by looking."""
    found = set()
    for room in (privacy, learners):
        for module in pkgutil.walk_packages(room.__path__, f"{room.__name__}."):
            for name, one in vars(importlib.import_module(module.name)).items():
                own = isinstance(one, type) and one.__module__ == module.name
                if (
                    own
                    and hasattr(one, "event")
                    and (hasattr(one, "draw") or hasattr(one, "start"))
                ):
                    found.add(name)
    return found - FAMILIES


def made() -> dict[str, Any]:
    """One of each mechanism that the command knows."""
    knobs = (KNOBS["epsilon"], KNOBS["delta"], KNOBS["floor"])
    counts = {name: kind(*knobs[: len(fields(kind))]) for name, kind in COUNTS.items()}
    return counts | {name: one.make(*knobs[:2]) for name, one in AUDITED.items()}


def test_every_mechanism_can_be_audited() -> None:
    """A new one belongs in `AUDITED`, with two neighbours where it is at its weakest."""
    known = {type(one).__name__ for one in made().values()} | set(NO_DRAW)
    assert mechanism_classes() - known == set()
    assert known - mechanism_classes() == set()


@pytest.mark.parametrize("name", AUDITED)
def test_no_sound_mechanism_is_refuted(name: str) -> None:
    """By chance in one of ten million; the draws are the system's."""
    found = trial(name, draws=40, level=SURE, **KNOBS)
    assert not found["refuted"]
    assert (found["draws"], found["level"]) == (20, SURE)
    assert 0 < found["epsilon"] <= 1.0 + 2**-29  # a metric's sensitivity is rounded up to 2**-30


@pytest.mark.parametrize(
    "name", ["noisy_gradient_descent", "scored_noisy_descent", "noisy_moments"]
)
def test_a_delta_is_audited_as_it_was_given_or_refused(name: str) -> None:
    given = KNOBS | {"delta": 0.04}
    assert trial(name, draws=2, level=SURE, **given)["delta"] == 0.04
    with pytest.raises(SettingsError, match=r"delta must be below 1/n, got delta=0\.4 with n="):
        trial(name, draws=2, level=SURE, **(given | {"delta": 0.4}))


@pytest.mark.parametrize("name", [*COUNTS, *AUDITED])
@pytest.mark.parametrize("epsilon", [0.0, -1.0, math.inf, math.nan])
def test_a_claim_that_no_mechanism_can_make_is_a_mistake_of_the_command(
    name: str, epsilon: float
) -> None:
    """A gate's noise is the inverse of its price: at 0 the command ended in a ZeroDivisionError."""
    with pytest.raises(SettingsError):
        trial(name, draws=2, level=SURE, **(KNOBS | {"epsilon": epsilon}))


@pytest.mark.slow
@pytest.mark.parametrize("name", AUDITED)
def test_no_sound_mechanism_is_refuted_by_many_draws(name: str) -> None:
    assert not trial(name, draws=2000, level=SURE, **KNOBS)["refuted"]


INTEGERS = {
    "noisy_max", "label_sets", "lattice_correction", "joint_lattice_laplace", "group_privacy"
}  # fmt: skip
"""Mechanisms of counts, which no number that is not finite can be among."""

PRICE = ("epsilon", "delta")


def with_odd_row(neighbour: Neighbour, odd: float) -> Neighbour:
    """The same data and questions but for the last record, which holds `odd` wherever it holds a double."""

    def moved(array: Any) -> Any:
        if not (isinstance(array, np.ndarray) and array.dtype == np.float64):
            return array
        other = array.copy()
        other[-1] = odd
        return other

    query, questions = neighbour
    if query.name.startswith("second moments"):  # cells are read as they are summed
        rows = moved(np.eye(3)[[0, 2, 0]])
        return moments_query(rows, norm_bound=1.0, dataset="trial"), questions
    value = query.value
    rows = (
        {name: moved(one) for name, one in value.items()}
        if isinstance(value, Mapping)
        else moved(value)
    )
    asked = (
        replace(one, value={name: moved(part) for name, part in one.value.items()})
        for one in questions
    )
    return replace(query, value=rows), tuple(asked)


@pytest.mark.parametrize("name", sorted(set(AUDITED) - INTEGERS))
def test_no_record_is_refused_for_not_being_finite(name: str) -> None:
    """A2: of training rows, holdouts and scores; nor does the event, which is public, tell of it."""
    mechanism = AUDITED[name].make(KNOBS["epsilon"], KNOBS["delta"])
    clean, _ = AUDITED[name].neighbours()
    for odd in (math.inf, -math.inf, math.nan):
        query, questions = with_odd_row(clean, odd)
        assert mechanism.event(query) == mechanism.event(clean[0])
        assert len(draw_releases(mechanism, query, 1, questions)) == 1


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(set(AUDITED) - INTEGERS))
def test_what_is_released_does_not_tell_that_a_record_is_not_finite(name: str) -> None:
    """Not more than the price; 150 draws refute what tells for certain, and err in one of ten million."""
    mechanism = AUDITED[name].make(KNOBS["epsilon"], KNOBS["delta"])
    clean, _ = AUDITED[name].neighbours()
    drawn = [
        draw_releases(mechanism, query, 150, questions)
        for query, questions in (clean, with_odd_row(clean, math.nan))
    ]
    epsilon, delta = (float(getattr(mechanism.event(clean[0]).cost(), of)) for of in PRICE)
    found = audit_releases(*as_numbers(*drawn), epsilon=epsilon, delta=delta, level=SURE)
    assert not found.refutes(delta)
    told = np.arange(2.0).repeat(150)[:, None]
    assert audit_releases(told[:150], told[150:], epsilon=1.0, level=SURE).refutes(0.01)


class Listening(SystemNoise):
    """The system's noise; notes whether a draw was in double precision."""

    double = False

    def gamma(self, shape: float, scale: float) -> float:
        Listening.double = True
        return super().gamma(shape, scale)

    def direction(self, dimension: int) -> np.ndarray:
        Listening.double = True
        return super().direction(dimension)


@pytest.mark.parametrize("name", [*COUNTS, *AUDITED])
def test_an_event_says_exact_where_and_only_where_no_draw_is_in_double_precision(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is asked of the noise source decides, whatever a mechanism says of itself."""
    claims, release_all, interact_all = set(), Ledger.release_all, Ledger.interact_all
    monkeypatch.setattr(ledger_module, "_system_noise", Listening)
    monkeypatch.setattr(Listening, "double", False)

    def noting(draw: Any) -> Any:
        def drawn(*arguments: Any, **named: Any) -> Any:
            found = draw(*arguments, **named)
            claims.update(release.event.arithmetic for release in found)
            return found

        return drawn

    monkeypatch.setattr(Ledger, "release_all", noting(release_all))
    monkeypatch.setattr(Ledger, "interact_all", noting(interact_all))
    trial(name, draws=2, level=SURE, **KNOBS)
    assert claims == {"double" if Listening.double else "exact"}


def test_a_mechanism_with_a_tenth_of_its_noise_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of releases that are integers, of weights, and of answers."""
    monkeypatch.setattr(SystemNoise, "discrete_laplace", lambda _, scale, size: [0] * size)
    for name in ("noisy_max",):
        assert trial(name, draws=60, level=0.999, **KNOBS)["refuted"]
    monkeypatch.setattr(SystemNoise, "gamma", lambda *_: 0.0)
    for name in (
        "objective_perturbation",
        "output_perturbation",
        "gaussian_objective_perturbation",
    ):
        assert trial(name, draws=60, level=0.999, **KNOBS)["refuted"]


def test_a_number_without_noise_beside_others_that_have_some_is_found() -> None:
    """It is the sum of noise that is published and of what it was to hide."""
    rng = np.random.default_rng(0)
    drawn = rng.laplace(size=(2, 2000, 3)) * 5
    hidden = np.stack([np.zeros(2000), np.ones(2000)])
    leak = drawn @ np.array([1.0, -2.0, 0.5]) + hidden
    here, there = (np.column_stack([drawn[side], leak[side]]) for side in (0, 1))
    assert audit_releases(here, there, epsilon=2.0).refutes(0.5)
    assert not audit_releases(drawn[0], drawn[1], epsilon=0.1, level=SURE).refutes(0.0)


def test_half_the_noise_is_found_among_thousands_of_rare_flukes() -> None:
    """One count with noise for epsilon 2 at a price of 1, beside 60 numbers and 20 digests that tell nothing.

    P(at or above the first's count) is .88 and .12, and the bound 1.47 to 1.70 over six seeds; a choice by
    the ratio of hits alone gave 0 to 1.24. Noise for the price itself is refuted in one of ten million.
    """
    rng = np.random.default_rng(0)
    for halved in (True, False):
        numbers = rng.laplace(size=(2, 2_000, 60))
        digests = rng.random((2, 2_000, 20))
        rate = 1 - np.exp(-2.0 if halved else -1.0)  # of two laws whose difference is the noise
        noise = rng.geometric(rate, (2, 2_000, 1)) - rng.geometric(rate, (2, 2_000, 1))
        count = noise + np.array([6, 5])[:, None, None]
        here, there = np.concatenate([numbers, count, digests], axis=2)
        bound = audit_releases(here, there, epsilon=1.0, level=0.999 if halved else SURE)
        assert bound.tried > 10_000
        assert bound.refutes(0.0) is halved


def test_what_happens_more_seldom_than_delta_is_not_chosen() -> None:
    """A number shown to one neighbour alone in a tenth of releases, beside noise for epsilon 1."""
    rng = np.random.default_rng(0)
    shown = np.stack([rng.random(2_000) < 0.1, np.zeros(2_000)])[:, :, None]
    noisy = rng.laplace(size=(2, 2_000, 1)) + np.array([1.0, 0.0])[:, None, None]
    here, there = np.concatenate([shown, noisy], axis=2)
    assert audit_releases(here, there, epsilon=1.0).refutes(0.05)
    bound = audit_releases(here, there, epsilon=1.0, delta=0.15)
    assert bound.hits[0] > 300
    assert bound.least_epsilon(0.15) > 0.3


def test_what_is_missing_equal_or_larger_tells_neighbours_apart() -> None:
    many = np.zeros((200, 1))
    for other in (np.full((200, 1), np.nan), np.ones((200, 1)), np.full((200, 1), -1.0)):
        for one, two in ((many, other), (other, many)):
            bound = audit_releases(one, two, epsilon=1.0)
            assert bound.hits in ((100, 0),)
            assert bound.refutes(0.5)
    value = np.random.default_rng(0).integers(-3, 4, size=(2, 400, 1)).astype(float)
    value[1][value[1] == 1] = 2
    assert audit_releases(value[0], value[1], epsilon=0.5).refutes(0.0)


def test_the_same_releases_refute_nothing() -> None:
    rng = np.random.default_rng(0)
    for _ in range(20):
        here, there = rng.normal(size=(2, 300, 5))
        assert not audit_releases(here, there, epsilon=0.0, level=1 - 1e-5).refutes(0.0)


def test_a_bound_on_releases_exceeds_the_truth_no_more_often_than_said() -> None:
    """Level .8 on the same law twice: of 200 at most 75 are refuted, by chance in one of ten million.

    Half of the draws choose among hundreds of distinguishers, the other half count: counted on the draws that
    chose, almost all would be.
    """
    rng = np.random.default_rng(0)
    refuted = 0
    for _ in range(200):
        here, there = rng.normal(size=(2, 200, 3))
        bound = audit_releases(here, there, epsilon=0.0, level=0.8)
        assert bound.draws == 100
        assert bound.tried > 500
        refuted += bound.refutes(0.0)
    assert stats.binom(200, 0.2).sf(75) < 1e-7
    assert refuted <= 75


@pytest.mark.parametrize("shape", [(1, 3), (5, 2)])
def test_releases_that_cannot_be_compared_are_refused(shape: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match="equally many, 2 or more"):
        audit_releases(np.zeros((1, 3)), np.zeros(shape), epsilon=1.0)


def test_values_become_numbers_in_the_same_columns() -> None:
    first = [{"a": 1, "b": {"c": [2.5, None]}, "d": "x"}, {"a": True, "d": "y"}]
    here, there = as_numbers(first, [{"d": "x", "e": 3}, {"d": "z"}])
    np.testing.assert_array_equal(
        here[:, [0, 1, 2, 4]], [[1, 2.5, np.nan, np.nan], [1, np.nan, np.nan, np.nan]]
    )
    assert here[0, 3] == there[0, 3]
    assert len({here[0, 3], here[1, 3], there[1, 3]}) == 3
    assert there[0, 4] == 3


def test_texts_that_never_come_twice_tell_no_samples_apart() -> None:
    """As digests of files do; numbered as they come, those of the first would all be lower."""
    samples = [[{"bytes": f"{side} {n}"} for n in range(2_000)] for side in ("here", "there")]
    bound = audit_releases(*as_numbers(*samples), epsilon=0.0, level=SURE)
    assert not bound.refutes(0.0)


def test_the_outcome_says_what_was_claimed_and_found() -> None:
    bound = audit_releases(np.zeros((200, 1)), np.ones((200, 1)), epsilon=1.0)
    found = outcome("a thing", bound, 0.0)
    assert found["refuted"]
    assert found["sentences"][0] == "a thing claims epsilon 1, delta 0."
    assert found["sentences"][-1] == "Refuted: the claim does not hold."
    assert found["hits"] == [100, 0]
    assert LatticeLaplace(1.0) in made().values()
