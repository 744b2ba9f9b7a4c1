import dataclasses
import json
import math
from fractions import Fraction

import numpy as np
import pytest

from privacy import (
    Cost,
    CountsError,
    DiscreteLaplaceEvent,
    EventError,
    LatticeLaplaceEvent,
    PureEvent,
)
from privacy.accounting import (
    PlanEvent,
    PlannedEvent,
    close_kinds,
    compose,
    event_json,
    exact,
    parse_event,
)
from privacy.mechanisms import (
    ApproximateEvent,
    ClampedDirichletEvent,
    DiscreteGaussianEvent,
    PseudoCountDirichletEvent,
)
from privacy.mechanisms.kinds import KINDS
from tests.privacy.toy import count_mechanisms, counts_query, open_toy

TOY = event_json(PureEvent("toy", epsilon=0.1))
EVENTS = [
    DiscreteLaplaceEvent(scale=20.0, l1=2.0, epsilon=0.1),
    LatticeLaplaceEvent(scale=2.0, l1=2.0, n_classes=5, epsilon=1.0),
    PureEvent("objective perturbation", epsilon=0.3, parameters={"n": 100, "bound": 1.5}),
    PureEvent("gate", epsilon="1/3"),
    DiscreteGaussianEvent(scale=8.0, epsilon=0.05, delta=0.05),
    ClampedDirichletEvent("97/125", floor=49, draws=100, epsilon=0.05, delta=0.05),
    PseudoCountDirichletEvent("97/125", 49, draws=100, epsilon=0.05, delta=0.05),
    ApproximateEvent("gaussian objective perturbation", 0.3, 1e-6, parameters={"n": 100}),
    ApproximateEvent("toy", epsilon="1/3", delta="1/7"),
    PlanEvent(((TOY, 10),), epsilon=1.0, delta=0.0),
    PlannedEvent(plan=3, event=TOY),
    *(mechanism.event(counts_query((50, 30, 20))) for mechanism in count_mechanisms()),
]


@pytest.mark.parametrize("mechanism", count_mechanisms())
def test_more_counts_than_classes_can_be_are_refused_before_they_are_paid(mechanism, tmp_path):
    """Their noise would take more memory than there is, once it was paid for."""
    ledger = open_toy(tmp_path, delta=1e-3, n=100)
    query = counts_query((100, *[0] * 10**6))
    with pytest.raises(CountsError, match="must be an integer from 2 to 1000000, got n_.*=1000001"):
        ledger.release(mechanism, query)
    assert not ledger.statement("toy").entries


RELEASES = [
    (np.zeros((4, 3)), "got float64 of shape"),
    (np.zeros(3, np.int64), r"got int64 of shape \(3,\)"),
    (np.zeros((4, 2), np.int64), r"got int64 of shape \(4, 2\)"),
    (np.zeros((4, 1, 3), np.int64), "got int64 of shape"),
]


@pytest.mark.refusal
@pytest.mark.parametrize("mechanism", count_mechanisms())
def test_the_likelihood_is_of_releases_of_as_many_classes(mechanism):
    query = counts_query((50, 30, 20))
    with pytest.raises(TypeError, match="releases must be a NumPy array, got list"):
        mechanism.log_likelihood(query, [[50, 30, 20]])
    for releases, words in RELEASES:
        with pytest.raises(ValueError, match=f"a row of 3 classes for each draw, {words}"):
            mechanism.log_likelihood(query, releases)
    small = np.array([[50, 30, 20], [49, 31, 20]], dtype=np.uint8)
    found = mechanism.log_likelihood(query, small)
    assert found.tolist() == mechanism.log_likelihood(query, small.astype(np.int64)).tolist()


@pytest.mark.parametrize("event", EVENTS)
def test_an_event_survives_the_ledger(event):
    assert event == parse_event(event_json(event))
    assert event.cost() == parse_event(event_json(event)).cost()


def test_every_kind_is_tested_here():
    assert set(KINDS.values()) == {type(event) for event in EVENTS}


@pytest.mark.parametrize(
    "text",
    [
        '{"kind": "gaussian", "scale": 1.0}',
        '{"scale": 1.0}',
        '{"kind": "pure", "name": "x"}',
        '{"kind": "pure", "name": "x", "epsilon": 1.0, "parameters": {}, "more": 1}',
        '{"kind": "pure", "name": "x", "epsilon": NaN, "parameters": {}}',
        '{"kind": "pure", "name": "x", "epsilon": -1.0, "parameters": {}}',
        '{"kind": "lattice laplace", "scale": "a", "l1": 2.0, "n_classes": 2, "epsilon": 1.0}',
        '{"kind": "approximate", "name": "x", "epsilon": 1.0, "delta": 0.0, "parameters": {}}',
        '{"kind": "approximate", "name": "x", "epsilon": NaN, "delta": 0.1, "parameters": {}}',
        '{"kind": "approximate", "name": "", "epsilon": 1.0, "delta": 0.1, "parameters": {}}',
        '{"kind": "discrete gaussian", "scale": 7.9, "epsilon": 0.05, "delta": 0.05}',
        '{"kind": "discrete gaussian", "scale": 8.0, "epsilon": 0.05, "delta": 1.0}',
        '{"kind": "discrete gaussian", "scale": null, "epsilon": 0.05, "delta": 0.05}',
        '{"kind": "clamped dirichlet", "scale": "1e400", "floor": 49, "draws": 9, "epsilon": 0.05, '
        '"delta": 0.05}',
        '{"kind": "clamped dirichlet", "scale": "1/0", "floor": 49, "draws": 9, "epsilon": 0.05, '
        '"delta": 0.05}',
        '{"kind": "plan", "events": [], "epsilon": 1.0, "delta": 0.0}',
        '{"kind": "plan", "events": [["{}", 1]], "epsilon": 1.0, "delta": 0.0}',
        '{"kind": "plan", "events": [[1, 1]], "epsilon": 1.0, "delta": 0.0}',
        '{"kind": "plan", "events": 3, "epsilon": 1.0, "delta": 0.0}',
        '{"kind": "plan", "events": [["a", 1, 2]], "epsilon": 1.0, "delta": 0.0}',
        '{"kind": "planned", "plan": 0, "event": "{}"}',
        '{"kind": "planned", "plan": 1, "event": null}',
        '{"kind": ["pure"]}',
        "[]",
        "not json",
    ],
)
def test_what_is_not_understood_is_refused(text):
    with pytest.raises(EventError):
        parse_event(text)


@pytest.mark.refusal
def test_the_table_of_kinds_is_closed():
    @dataclasses.dataclass(frozen=True)
    class Forged(PureEvent):
        """Costs what it likes; not even a subclass of a known kind is one."""

    forged = Forged("toy", 1.0)
    with pytest.raises(RuntimeError, match="closed"):
        close_kinds({**KINDS, "forged": Forged})
    with pytest.raises(EventError, match="KINDS"):
        event_json(forged)
    with pytest.raises(TypeError, match="KINDS"):
        compose({forged: 1})
    assert close_kinds(KINDS) == KINDS


@pytest.mark.refusal
def test_an_event_of_no_kind_cannot_be_written():
    with pytest.raises(EventError, match="KINDS"):
        event_json(Cost(Fraction(1), Fraction(0)))


@pytest.mark.parametrize("epsilon", [0.0, -1.0, math.nan, math.inf, "nan", "-1/2", ""])
def test_a_pure_claim_is_positive_and_finite(epsilon):
    with pytest.raises(ValueError, match=r"epsilon|privacy parameter"):
        PureEvent("toy", epsilon)


def test_a_pure_event_has_a_name_and_parameters_that_can_be_stored():
    with pytest.raises(ValueError, match="name"):
        PureEvent("", 1.0)
    with pytest.raises(ValueError, match="JSON"):
        PureEvent("toy", 1.0, {"x": math.nan})


@pytest.mark.parametrize(
    ("scale", "l1", "epsilon"),
    [
        (0.0, 2.0, 1.0),
        (math.nan, 2.0, 1.0),
        (2.0**41, 2.0, 1.0),
        (2.0, 0.0, 1.0),
        (2.0, math.inf, 1.0),
        (2.0, 2.0, 0.999999),
        (2.0, 2.0, math.nan),
    ],
)
def test_a_claim_below_what_the_scale_realises_is_refused(scale, l1, epsilon):
    with pytest.raises(ValueError, match="must"):
        DiscreteLaplaceEvent(scale, l1, epsilon)
    with pytest.raises(ValueError, match="must"):
        LatticeLaplaceEvent(scale, l1, 3, epsilon)


@pytest.mark.parametrize("n_classes", [1, pytest.param(5.5, marks=pytest.mark.refusal)])
def test_a_lattice_has_two_classes_or_more(n_classes):
    with pytest.raises(ValueError, match="n_classes"):
        LatticeLaplaceEvent(2.0, 2.0, n_classes, 1.0)


@pytest.mark.parametrize(
    "build",
    [
        lambda delta: DiscreteGaussianEvent(1000.0, 50.0, delta),
        lambda delta: ClampedDirichletEvent("100000", 49_000, 10, 90.0, delta),
    ],
)
def test_no_gaussian_or_dirichlet_release_is_without_a_delta(build):
    """At these prices the deltas realised are below the smallest double, and reported as 0."""
    assert build(1e-300).cost().delta > 0
    with pytest.raises(ValueError, match="delta must be in"):
        build(0.0)


def test_decimals_are_exact():
    assert exact(0.1) * 10 == exact(1.0)
    assert sum((exact(0.1) for _ in range(3)), Fraction(0)) == exact(0.3)
    assert json.loads(event_json(PureEvent("toy", 0.1)))["epsilon"] == 0.1


def test_every_event_says_whether_its_noise_was_exact():
    """And keeps saying so in the ledger; what says nothing, as in old ledgers, claims less."""
    for event in EVENTS:
        assert event.arithmetic in ("exact", "double")
        assert parse_event(event_json(event)).arithmetic == event.arithmetic
    exact_kinds = {type(event) for event in EVENTS} - {
        PureEvent, ApproximateEvent, PlanEvent, PlannedEvent,
    }  # fmt: skip
    assert {event.arithmetic for event in EVENTS if type(event) in exact_kinds} == {"exact"}
    old = '{"epsilon": 1.0, "kind": "pure", "name": "toy", "parameters": {}}'
    assert parse_event(old).arithmetic == "double"
    with pytest.raises(EventError):
        parse_event(old.replace('{"epsilon', '{"arithmetic": "roughly", "epsilon'))


def test_a_plan_is_exact_where_all_that_it_pays_for_is():
    kinds = {
        name: event_json(PureEvent("toy", epsilon=0.1, arithmetic=name))
        for name in ("exact", "double")
    }
    slots = tuple(sorted((text, 1) for text in kinds.values()))
    assert PlanEvent(slots, epsilon=1.0, delta=0.0).arithmetic == "double"
    for name, text in kinds.items():
        assert PlanEvent(((text, 2),), epsilon=1.0, delta=0.0).arithmetic == name
        assert PlannedEvent(plan=1, event=text).arithmetic == name


SENTENCES = [
    ({"name": ""}, "name must not be empty"),
    ({"epsilon": 0.0}, "epsilon must be > 0, got epsilon=0.0"),
    ({"epsilon": "-1/3"}, "epsilon must be > 0, got epsilon=-1/3"),
    ({"epsilon": math.nan}, "a privacy parameter must be a finite number, got nan"),
    pytest.param(
        {"arithmetic": "float"},
        'arithmetic must be "exact" or "double"',
        marks=pytest.mark.refusal,
    ),
    ({"parameters": {"scale": math.inf}}, "JSON compliant"),
]


@pytest.mark.parametrize(("changed", "sentence"), SENTENCES)
def test_a_pure_claim_has_a_name_a_price_and_what_can_be_stored(changed, sentence):
    assert PureEvent("toy", "1/3", {"scale": 2.0}, "exact").cost().epsilon == Fraction(1, 3)
    with pytest.raises(ValueError, match=sentence):
        PureEvent(**({"name": "toy", "epsilon": 1.0} | changed))


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        *SENTENCES,
        ({"delta": 0.0}, r"delta must be in \(0, 1\), got delta=0.0"),
        ({"delta": 1.0}, r"delta must be in \(0, 1\), got delta=1.0"),
        ({"delta": "-1/9"}, r"delta must be in \(0, 1\), got delta=-1/9"),
    ],
)
def test_a_claim_with_a_delta_has_one_between_none_and_all(changed, sentence):
    assert ApproximateEvent("toy", 1.0, "1/9").cost().delta == Fraction(1, 9)
    with pytest.raises(ValueError, match=sentence):
        ApproximateEvent(**({"name": "toy", "epsilon": 1.0, "delta": 0.5} | changed))


@pytest.mark.parametrize("kind", [PureEvent, ApproximateEvent])
def test_knobs_that_json_does_not_know_are_refused_before_anything_is_paid(kind):
    numbers = {"epsilon": 1.0} | ({"delta": 0.1} if kind is ApproximateEvent else {})
    with pytest.raises(TypeError, match="not JSON serializable"):
        kind("toy", **numbers, parameters={"weights": object()})
