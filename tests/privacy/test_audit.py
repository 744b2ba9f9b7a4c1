"""Audits of laws and of mechanisms: sound ones are not refuted, each mutant is caught.

Audits of laws are seeded, and whether a law is refuted does not hang on a lucky seed unless a test
says so. Mechanisms' noise cannot be seeded. Sound ones: a
level of 1 - 1e-7 bounds the chance of a false refutation. Mutants: the numbers of draws leave a
chance below 1e-6 to escape, by the hits that the mutant's law makes likely.
"""

import math
from dataclasses import dataclass

import numpy as np
import pytest
from scipy import stats

from benchmarks.privacy.paper_rule import paper_scale
from learners import Thresholdout
from privacy import audit
from privacy.audit import (
    ROUNDING,
    Auditable,
    AuditBound,
    DirichletLaw,
    audit_losses,
    audit_mechanism,
    audit_pair,
    draw_releases,
    hit_shares,
)
from privacy.mechanism import Noise, Question
from privacy.mechanisms import ApproximateEvent, DiscreteLaplace, LatticeLaplace
from privacy.mechanisms.dirichlet import (
    DirichletClamp,
    DirichletPseudoCount,
    dominating_delta,
    largest_scale,
)
from privacy.mechanisms.gaussian import (
    DiscreteGaussian,
    discrete_gaussian_delta,
    discrete_gaussian_scale,
)
from privacy.query import Query, Unit
from privacy.release_audit import (
    _best,
    _discriminant,
    _distinguishers,
    _holds,
    audit_releases,
)
from tests.privacy.toy import count_mechanisms, counts_query

EPSILON = DELTA = 0.05
DRAWS = 200_000


def dirichlet(counts, scale):
    return DirichletLaw(tuple(scale * count for count in counts))


def floored(factor, draws, seed):
    """Audit of the floor 49 at the worst pair, its scale wrong by a factor."""
    scale = factor * float(largest_scale(49, EPSILON, DELTA))
    here, there = (50, 49, 300, 601), (49, 50, 300, 601)
    return audit_pair(
        dirichlet(here, scale),
        dirichlet(there, scale),
        epsilon=EPSILON,
        draws=draws,
        rng=np.random.default_rng(seed),
    )


def test_a_scale_taken_from_the_counts_is_refuted():
    """Acceptance A6: the paper's rule at its default; its true delta is 0.0773, claimed 0.05."""
    here, there = (49, 50, 50, 50, 801), (50, 50, 50, 50, 800)
    one, other = (dirichlet(c, paper_scale(c, EPSILON, DELTA)) for c in (here, there))
    rng = np.random.default_rng(0)
    bound = audit_pair(one, other, epsilon=EPSILON, draws=DRAWS, rng=rng)
    assert bound.delta > 0.06
    assert bound.refutes(DELTA)


def test_the_rule_of_the_paper_has_its_golden_scales():
    """Table T2 of the privacy specification; one neighbour of the last has no scale."""
    assert paper_scale((50, 950), 0.05, 0.05) == pytest.approx(0.02227, rel=2e-4)
    assert paper_scale((50, 50, 50, 50, 800), 0.05, 0.05) == pytest.approx(0.008184, rel=1e-4)
    assert paper_scale((50, 50, 50, 50, 800), 1.0, 1e-6) == pytest.approx(1.018, rel=2e-4)
    assert paper_scale((25, 25, 25, 25, 900), 0.05, 0.05) is None
    assert paper_scale((47, 47, 47, 47, 812), 0.05, 0.05) == pytest.approx(0.0029, rel=2e-3)
    assert paper_scale((46, 47, 47, 47, 813), 0.05, 0.05) is None


def test_a_public_floor_is_not_refuted():
    """Acceptance A7: refuted by chance in one of a thousand seeds at most."""
    bound = floored(1.0, DRAWS, seed=0)
    assert 0.035 < bound.delta <= DELTA


class GaussianCounts:
    """Two counts with discrete Gaussian noise."""

    def __init__(self, counts, scale):
        reach = math.ceil(12 * scale)
        self.noise, self.counts = np.arange(-reach, reach + 1), np.array(counts)
        weight = np.exp(-((self.noise / scale) ** 2) / 2)
        self.probability, self.scale = weight / weight.sum(), scale

    def sample(self, draws, *, rng):
        shape = (draws, self.counts.size)
        return self.counts + rng.choice(self.noise, p=self.probability, size=shape) + 0.0

    def log_density(self, release):
        return -(((release - self.counts) / self.scale) ** 2).sum(axis=1) / 2


@pytest.mark.parametrize(("factor", "refuted"), [(1.0, False), (math.sqrt(0.5), True)])
def test_gaussian_noise_calibrated_for_a_single_count_is_refuted(factor, refuted):
    """The trap of section 8 of the privacy specification: two counts change, not one."""
    scale = factor * discrete_gaussian_scale(EPSILON, DELTA)
    bound = audit_pair(
        GaussianCounts((5, 5), scale),
        GaussianCounts((4, 6), scale),
        epsilon=EPSILON,
        draws=DRAWS,
        rng=np.random.default_rng(0),
    )
    assert bound.refutes(DELTA) == refuted
    assert bound.delta <= discrete_gaussian_delta(scale, EPSILON)


def test_a_scale_half_as_large_again_is_refuted():
    """Acceptance A8."""
    assert dominating_delta(49, 1.5 * float(largest_scale(49, EPSILON, DELTA)), EPSILON) > 0.065
    assert floored(1.5, DRAWS, seed=0).refutes(DELTA)


def test_a_scale_a_quarter_too_large_is_refuted_by_many_draws():
    """Acceptance A8: its true delta is 0.0582; 200,000 draws find it out in most seeds only."""
    assert floored(1.25, 5 * DRAWS, seed=0).refutes(DELTA)


def test_a_public_floor_is_not_refuted_by_many_draws():
    """Acceptance A7, ten seeds: one refutation by chance in a hundred runs at most."""
    assert not any(floored(1.0, DRAWS, seed).refutes(DELTA) for seed in range(10))


def test_the_bound_exceeds_the_true_delta_no_more_often_than_said():
    """Level 0.8 on a pair of known delta: of 400 bounds at most 120 exceed it; with the chance of a
    fifth for each that happens by chance below 1e-6 over all seeds."""
    scale, rng = 0.5, np.random.default_rng(0)
    one, other = dirichlet((21, 20), scale), dirichlet((20, 21), scale)
    true = dominating_delta(20, scale, 0.1)
    over = sum(
        audit_pair(one, other, epsilon=0.1, draws=400, rng=rng, level=0.8).delta > true
        for _ in range(400)
    )
    assert stats.binom(400, 0.2).sf(120) < 1e-6
    assert over <= 120


def test_the_bound_is_that_of_clopper_and_pearson():
    """Oracle: quantiles of the beta law."""
    rng = np.random.default_rng(1)
    one, other = dirichlet((5, 2), 1.0), dirichlet((4, 3), 1.0)
    bound = audit_pair(one, other, epsilon=0.2, draws=500, rng=rng, level=0.9)
    often, seldom = bound.hits
    low = stats.beta(often, 501 - often).ppf(0.05)
    high = stats.beta(seldom + 1, 500 - seldom).ppf(0.95)
    assert bound.delta == pytest.approx(max(0.0, low - math.exp(0.2) * high))
    assert (bound.draws, bound.level, bound.epsilon) == (500, 0.9, 0.2)


def test_laws_without_a_difference_refute_nothing():
    law = dirichlet((5, 5), 1.0)
    bound = audit_pair(law, law, epsilon=0.0, draws=100, rng=np.random.default_rng(0))
    assert (bound.delta, bound.least_epsilon(), bound.hits) == (0.0, 0.0, (100, 100))
    assert not bound.refutes(0.0)


def test_a_release_of_density_infinite_in_both_laws_is_no_hit():
    """Shapes so small that draws underflow to zero."""
    one, other = DirichletLaw((1e-4, 1.0)), DirichletLaw((2e-4, 1.0))
    bound = audit_pair(one, other, epsilon=0.1, draws=100, rng=np.random.default_rng(0))
    assert 0 <= bound.delta <= 1


def test_the_dirichlet_law_has_its_density_and_mean():
    """5.5 standard errors."""
    law, rng = DirichletLaw((2.0, 3.0, 5.0)), np.random.default_rng(0)
    draws = law.sample(10_000, rng=rng)
    expected = stats.dirichlet([2.0, 3.0, 5.0]).logpdf(draws[:50].T)
    np.testing.assert_allclose(law.log_density(draws[:50]), expected)
    margin = 5.5 * draws.std(axis=0) / 100
    assert (np.abs(draws.mean(axis=0) - [0.2, 0.3, 0.5]) < margin).all()


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("epsilon", -0.1),
        ("epsilon", math.nan),
        ("epsilon", 1e3),
        ("draws", 0),
        ("level", 0.0),
        ("level", 1.0),
    ],
)
def test_what_cannot_be_audited_is_refused(argument, value):
    law = dirichlet((5, 5), 1.0)
    arguments = {"epsilon": 0.1, "draws": 10, "level": 0.9, argument: value}
    with pytest.raises(ValueError, match=argument):
        audit_pair(law, law, rng=np.random.default_rng(0), **arguments)
    with pytest.raises(ValueError, match="shape"):
        DirichletLaw((1.0,))


SURE = 1 - 1e-7
COUNTS = (3, 3, 3)


WEAKEST = {  # counts where a mechanism is at its weakest; urns are slow to draw from
    DirichletClamp: ((11, 10), 300),
    DirichletPseudoCount: ((1, 0), 300),
}


@pytest.mark.long
@pytest.mark.parametrize(
    "mechanism", [*count_mechanisms(1.0, 0.04, 10), DiscreteGaussian(0.5, 0.01)], ids=repr
)
def test_a_sound_mechanism_is_not_refuted(mechanism):
    counts, draws = WEAKEST.get(type(mechanism), (COUNTS, 4000))
    bound = audit_mechanism(mechanism, counts, draws=draws, level=SURE)
    assert not bound.refutes(getattr(mechanism, "delta", 0.0))
    assert bound.least_epsilon(getattr(mechanism, "delta", 0.0)) <= mechanism.epsilon


@dataclass(frozen=True)
class Mutant:
    """Draws otherwise than it claims."""

    claimed: Auditable

    @property
    def epsilon(self):
        return self.claimed.epsilon

    def event(self, query):
        return self.claimed.event(query)

    def log_likelihood(self, query, releases):
        return self.claimed.log_likelihood(query, releases)

    def draw(self, query, noise):
        raise NotImplementedError


class HalfTheNoise(Mutant):
    def draw(self, query, noise):
        return LatticeLaplace(2 * self.epsilon).draw(query, noise)


class OneNoiseForAllClasses(Mutant):
    def draw(self, query, noise):
        (shared,) = noise.discrete_laplace(2 / self.epsilon, 1)
        return [int(count) + shared for count in query.value]


class OneClassWithoutNoise(Mutant):
    def draw(self, query, noise):
        drawn = noise.discrete_laplace(2 / self.epsilon, query.value.size)
        return [
            int(query.value[0]),
            *(int(c) + z for c, z in zip(query.value[1:], drawn[1:], strict=True)),
        ]


class NegativesRedrawn(Mutant):
    """Drawn again until no count is negative, which makes zero likelier where a count is near it.

    P(no task moves): 0.414 from (5, 0), 0.206 from (4, 1); epsilon is 0.5, their ratio e^0.70.
    """

    def draw(self, query, noise):
        while True:
            drawn = self.claimed.draw(query, noise)
            if min(drawn) >= 0:
                return drawn


@pytest.mark.parametrize(
    ("mutant", "counts", "draws"),
    [
        (HalfTheNoise(LatticeLaplace(1.0)), COUNTS, 1500),
        (OneNoiseForAllClasses(DiscreteLaplace(1.0)), COUNTS, 1500),
        (OneClassWithoutNoise(DiscreteLaplace(1.0)), COUNTS, 1500),
        pytest.param(NegativesRedrawn(LatticeLaplace(0.5)), (5, 0), 16_000, marks=pytest.mark.slow),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_mutant_is_caught(mutant, counts, draws):
    bound = audit_mechanism(mutant, counts, draws=draws)
    assert bound.refutes(getattr(mutant.claimed, "delta", 0.0))


def test_the_least_epsilon_of_known_shares():
    """Clopper-Pearson by SciPy: 90 of 100 against 10 of 100."""
    loss = np.array([1.0] * 90 + [-1.0] * 10)
    bound = audit_losses(loss, -loss, epsilon=0.5, level=0.9)
    low = stats.binomtest(90, 100).proportion_ci(0.9, method="exact").low
    high = stats.binomtest(10, 100).proportion_ci(0.9, method="exact").high
    assert bound.least_epsilon() == pytest.approx(np.log(low / high), rel=1e-9)
    assert bound.least_epsilon(delta=1.0) == 0.0


def test_the_least_that_can_be_tried_is_tried(rng):
    one, other = dirichlet((1, 3), 1.0), dirichlet((2, 2), 1.0)
    assert audit_pair(one, other, epsilon=1.0, draws=1, rng=rng).draws == 1
    assert not audit_mechanism(LatticeLaplace(1.0), (1, 0), draws=20).refutes(0.0)


@pytest.mark.refusal
def test_what_cannot_be_tried_is_refused():
    with pytest.raises(TypeError, match="mechanism must be auditable"):
        audit_mechanism("lattice", COUNTS)
    with pytest.raises(ValueError, match="counts must be of 2 classes or more"):
        audit_mechanism(LatticeLaplace(1.0), (0, 3))
    with pytest.raises(ValueError, match="delta must be < 1/n"):
        audit_mechanism(DiscreteGaussian(0.5, 0.05), (10, 10, 10))


def test_bounds_on_shares_end_at_none_and_all():
    low, high = hit_shares(np.array([0, 5, 10]), np.array([0, 5, 10]), 10, level=0.9)
    assert low[0] == 0.0 < low[1] < low[2] < 1.0
    assert 0.0 < high[0] < high[1] < high[2] == 1.0


def test_what_happens_as_seldom_as_the_delta_says_nothing_about_epsilon():
    bound = AuditBound(0.3, 1.0, 0.9, 100, (50, 20), (0.5, 0.2))
    assert bound.least_epsilon(0.5) == bound.least_epsilon(0.6) == 0.0
    assert bound.least_epsilon(0.1) == pytest.approx(math.log(2))
    assert (bound.refutes(0.29), bound.refutes(0.3)) == (True, False)


def test_a_loss_short_of_epsilon_by_more_than_rounding_is_no_hit():
    loss = np.array([1.0 - ROUNDING, 1.0, np.nextafter(1.0, 0.0)])
    assert audit_losses(loss, -loss, epsilon=1.0).hits == (2, 0)


@pytest.mark.refusal
def test_an_audit_needs_draws_and_equally_many():
    law = DirichletLaw((1.0, 2.0))
    with pytest.raises(ValueError, match="draws must be an integer >= 1, got draws=0"):
        audit_pair(law, law, epsilon=1.0, draws=0, rng=np.random.default_rng(0))
    for sizes in ((0, 0), (3, 2)):
        with pytest.raises(ValueError, match="draws must be equally many, 1 or more"):
            audit_losses(np.zeros(sizes[0]), np.zeros(sizes[1]), epsilon=1.0)
    with pytest.raises(ValueError, match=r"1 or more, got \(2, 2\) and \(2, 2\)"):
        audit_losses(np.zeros((2, 2)), np.zeros((2, 2)), epsilon=1.0)
    for shape in ((0.0, 1.0), (1.0, math.inf), (1.0,)):
        with pytest.raises(ValueError, match="shape must be two finite numbers > 0"):
            DirichletLaw(shape)


@pytest.mark.parametrize(
    ("mechanism", "counts", "sentence"),
    [
        (LatticeLaplace(1.0), (3, -1), "counts must be of 2 classes or more, the first of them"),
        (LatticeLaplace(1.0), (0, 3), "counts must be of 2 classes or more, the first of them"),
        (LatticeLaplace(1.0), (2**63, 1), r"n must be an integer from 1 to 2\*\*53"),
        (DiscreteGaussian(1.0, 0.25), (3, 1), "delta must be < 1/n, got delta=0.25, n=4"),
        pytest.param(
            LatticeLaplace(1.0), (3.5, 0.5), "counts must be one integer", marks=pytest.mark.refusal
        ),
        pytest.param(
            LatticeLaplace(1.0), ((3, 1), (2, 2)), "one integer for each", marks=pytest.mark.refusal
        ),
        pytest.param(LatticeLaplace(1.0), (True, 3), "one integer", marks=pytest.mark.refusal),
    ],
)
def test_counts_that_no_campaign_has_are_not_audited(mechanism, counts, sentence):
    with pytest.raises(ValueError, match=sentence):
        audit_mechanism(mechanism, counts, draws=10)


class Undrawn(DirichletLaw):
    """A law that nothing may be drawn from."""

    def sample(self, draws, *, rng):
        raise AssertionError("drawn")


@pytest.mark.parametrize(
    ("epsilon", "level", "sentence"),
    [
        (200.0, 0.99, r"epsilon must be in \[0, 100\], got epsilon=200.0"),
        (1e308, 0.99, r"epsilon must be in \[0, 100\], got epsilon=1e\+308"),
        (1.0, 1.0, r"level must be in \(0, 1\), got level=1.0"),
    ],
)
def test_what_cannot_be_audited_is_refused_before_it_is_drawn(
    epsilon, level, sentence, monkeypatch
):
    """Draws take minutes, and a bound that they were for did not come."""
    monkeypatch.setattr(audit, "draw_releases", None)
    with pytest.raises(ValueError, match=sentence):
        audit_mechanism(LatticeLaplace(epsilon), (3, 3), level=level)
    with pytest.raises(ValueError, match=sentence):
        audit_pair(
            Undrawn((1.0, 2.0)), Undrawn((2.0, 1.0)), epsilon=epsilon, draws=1,
            rng=np.random.default_rng(0), level=level,
        )  # fmt: skip


@pytest.mark.refusal
def test_losses_and_releases_are_arrays_of_numbers():
    text, number = np.array([["a"], ["b"]]), np.zeros((2, 1))
    for first, second in (([[1.0], [2.0]], number), (number, [[1.0], [2.0]])):
        with pytest.raises(TypeError, match="releases must be a NumPy array, got list"):
            audit_releases(first, second, epsilon=1.0)
        with pytest.raises(TypeError, match="losses must be a NumPy array, got list"):
            audit_losses(first, second, epsilon=1.0)
    for one in (text, text.astype(object), number.astype(complex)):
        with pytest.raises(TypeError, match="releases must be real numbers, got an array of"):
            audit_releases(one, number, epsilon=1.0)
        with pytest.raises(TypeError, match="losses must be real numbers, got an array of"):
            audit_losses(number[:, 0], one[:, 0], epsilon=1.0)
    with pytest.raises(ValueError, match=r"releases must be equally many, 2 or more, got \(\)"):
        audit_releases(np.array(1.0), np.array(1.0), epsilon=1.0)


@pytest.mark.refusal
@pytest.mark.parametrize("draws", [0, -1, 2.5, True, math.nan, math.inf])
def test_a_number_of_draws_is_an_integer_from_one(draws):
    law, query, rng = DirichletLaw((1.0, 2.0)), counts_query((3, 1)), np.random.default_rng(0)
    for ask in (
        lambda: audit_mechanism(LatticeLaplace(1.0), (3, 1), draws=draws),
        lambda: draw_releases(LatticeLaplace(1.0), query, draws),
        lambda: audit_pair(law, law, epsilon=1.0, draws=draws, rng=rng),
        lambda: law.sample(draws, rng=rng),
    ):
        with pytest.raises(ValueError, match=f"draws must be an integer >= 1, got draws={draws}"):
            ask()


@pytest.mark.parametrize("delta", [-0.1, 1.1, math.nan, math.inf])
def test_a_claim_is_a_probability(delta):
    """A NaN would never be refuted, and a delta below 0 would make the bound on epsilon too large."""
    bound, zeros = AuditBound(0.3, 1.0, 0.9, 100, (50, 20), (0.5, 0.2)), np.zeros((2, 1))
    for ask in (
        lambda: bound.least_epsilon(delta),
        lambda: bound.refutes(delta),
        lambda: audit_releases(zeros, zeros, epsilon=1.0, delta=delta),
    ):
        with pytest.raises(ValueError, match=r"delta must be in \[0, 1\], got delta="):
            ask()


def test_numbers_too_large_for_their_squares_tell_neighbours_apart_as_others_do():
    """Infinities too: an audit meets what was published, whatever it is."""
    for far in (math.inf, 1e300):
        here, there = np.full((400, 1), far), np.full((400, 1), -far)
        assert audit_releases(here, there, epsilon=1.0).refutes(0.5)
        assert not audit_releases(here, here, epsilon=1.0).refutes(0.0)


@pytest.mark.refusal
@pytest.mark.parametrize("kind", [np.float16, np.float32])
def test_releases_of_short_floats_are_audited_as_their_doubles(kind, rng):
    here, there = rng.normal(size=(2, 400, 2)).astype(kind)
    here[0], there[:200, 0] = math.inf, 3.0
    short = audit_releases(here, there, epsilon=1.0)
    assert short == audit_releases(here.astype(float), there.astype(float), epsilon=1.0)


@pytest.mark.refusal
@pytest.mark.parametrize(
    ("first", "second"),
    [((4,), (4,)), ((4, 2), (4, 3)), ((4, 2), (6, 2)), ((1, 2), (1, 2)), ((0, 2), (0, 2))],
)
def test_releases_are_two_or_more_and_of_the_same_numbers(first, second):
    assert audit_releases(np.zeros((2, 1)), np.zeros((2, 1)), epsilon=1.0).draws == 1
    with pytest.raises(ValueError, match="releases must be equally many, 2 or more, got"):
        audit_releases(np.zeros(first), np.zeros(second), epsilon=1.0)


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("missing", [False, False, False, True]),
        ("at least", [False, True, True, False]),
        ("below", [True, False, False, False]),
        ("equal", [False, True, False, False]),
    ],
)
def test_a_missing_number_is_neither_at_least_nor_below(kind, expected):
    assert _holds((kind, 1.0), np.array([0.0, 1.0, 2.0, np.nan])).tolist() == expected


def test_the_most_frequent_values_and_every_cut_are_tried():
    tried = _distinguishers(np.array([3.0, 3.0, 7.0, np.nan]))
    assert tried[0] == ("missing", 0.0)
    assert [one for one in tried if one[0] == "equal"] == [("equal", 3.0), ("equal", 7.0)]
    for kind in ("at least", "below"):
        cuts = [at for name, at in tried if name == kind]
        assert (min(cuts), max(cuts)) == (3.0, 7.0)
    assert _distinguishers(np.array([np.nan])) == [("missing", 0.0)]


def test_what_is_missing_in_the_second_alone_tells_them_apart_the_other_way_round():
    choices = [(0, ("missing", 0.0)), (0, ("at least", 5.0))]
    known, missing = np.zeros((50, 1)), np.full((50, 1), np.nan)
    assert _best(missing, known, choices, 0.0) == (False, choices[0])
    assert _best(known, missing, choices, 0.0) == (True, choices[0])
    for first, second in ((known, missing), (missing, known)):
        assert audit_releases(np.tile(first, (8, 1)), np.tile(second, (8, 1)), epsilon=1.0).refutes(
            0.8
        )


def test_a_value_of_one_of_them_alone_tells_them_apart_both_ways_round(rng):
    """No threshold does: the value lies in the middle of the other's numbers."""
    spread, middle = rng.normal(size=(400, 1)), np.zeros((400, 1))
    for first, second in ((spread, middle), (middle, spread)):
        assert audit_releases(first, second, epsilon=1.0).refutes(0.8)


def test_a_number_that_never_changes_plays_no_part_in_the_direction(rng):
    apart = rng.normal(1.0, size=(400, 1))
    first = np.hstack([apart, np.full((400, 1), 7.0)])
    second = np.hstack([rng.normal(size=(400, 1)), np.full((400, 1), 7.0)])
    direction = _discriminant(first, second)
    assert direction[0] > 0
    assert direction[1] == pytest.approx(0.0, abs=1e-6)


def test_the_trial_budget_covers_a_price_that_no_double_is() -> None:
    """A third of a thousandth, rounded to the nearest, was a budget that did not cover it."""
    query = Query("trial", "counts", np.array([3, 1]), Unit.CONSENSUS_LABEL, n=4, l1=2.0)
    assert draw_releases(OfAThird(), query, 2) == [0, 0]


@dataclass(frozen=True)
class OfAThird:
    """Draws nothing, for a third and a third of a thousandth."""

    def event(self, query: Query) -> ApproximateEvent:
        return ApproximateEvent("toy", "1/3", "1/3000")

    def draw(self, query: Query, noise: Noise) -> int:
        return 0


@pytest.mark.parametrize("epsilon", [1e308, 0.1 + 0.2, 1e-3])
def test_the_trial_budget_covers_every_price(epsilon: float) -> None:
    """Twice the largest price and one more is no number."""
    query = counts_query((3, 1))
    drawn = draw_releases(LatticeLaplace(epsilon), query, 3)
    assert [sum(one) for one in drawn] == [4, 4, 4]


@pytest.mark.refusal
def test_questions_of_an_iterator_are_asked_in_every_draw():
    query = Query("trial", "rows", np.zeros(4), Unit.ROW, n=4, l1=math.inf)
    asked = iter([Question(name, {"train": 0.5, "holdout": np.ones(4)}) for name in "ab"])
    drawn = draw_releases(Thresholdout(0.1, 1.0, 2), query, 3, asked)
    assert [len(answers) for answers in drawn] == [2, 2, 2]
