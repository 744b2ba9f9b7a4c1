"""Exact draws of lattice Laplace noise.

Noise cannot be seeded: each statistical test fails by chance
with a probability of at most 1e-6.
"""

import itertools
import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from scipy import special

from privacy import DiscreteGaussian, DiscreteLaplace, LatticeLaplace, LatticeLaplaceEvent
from privacy.accounting import covering_scale
from privacy.mechanisms import lattice_laplace
from privacy.mechanisms.lattice_laplace import (
    draw_composition,
    draw_lattice,
    keeping_bounds,
    most_likely,
)
from privacy.noise import SystemNoise
from tests.privacy.mechanisms.test_laplace import enumerated, fits
from tests.privacy.test_noise import CHANCE
from tests.privacy.toy import counts_query

CASES = [(2, 0.3), (2, 20.0), (3, 2.0), (5, 2.0), (5, 400.5), (40, 0.1), (40, 2.0), (300, 7.0)]


class Scripted(SystemNoise):
    """Uniform integers as given."""

    def __init__(self, given):
        self.given = iter(given)

    def uniform_integer(self, below):
        return next(self.given)


@pytest.mark.parametrize("digits", [1, 2, 3, 40])
@pytest.mark.parametrize(("total", "parts"), [(0, 3), (3, 2), (4, 3), (2, 5), (1, 6)])
def test_a_composition_is_uniform_among_all(total, parts, digits, monkeypatch):
    """Exact: over all values of the uniform integers each composition comes equally often."""
    monkeypatch.setattr(lattice_laplace, "MAX_DIGITS", digits)
    bases = range(total + 1, total + parts)
    ranges = [range(math.prod(bases[at : at + digits])) for at in range(0, len(bases), digits)]
    found = Counter(
        tuple(draw_composition(Scripted(given), total, parts))
        for given in itertools.product(*ranges)
    )
    assert all(sum(one) == total and min(one) >= 0 for one in found)
    assert len(found) == math.comb(total + parts - 1, parts - 1)
    assert len(set(found.values())) == 1


def test_a_composition_asks_for_integers_below_the_products_of_its_bases():
    """By the recorded bounds: each digit is uniform only if the whole is below their product."""

    class Bounded(SystemNoise):
        below = ()

        def uniform_integer(self, below):
            self.below += (below,)
            return super().uniform_integer(below)

    noise = Bounded()
    assert sum(draw_composition(noise, 7, 100)) == 7
    bases = range(8, 107)
    assert noise.below == tuple(math.prod(bases[at : at + 40]) for at in (0, 40, 80))


def exp_series(x, terms=400):
    """Oracle: the power series in fractions, of a small enough argument."""
    total, term = Fraction(1), Fraction(1)
    for k in range(1, terms):
        term *= x / k
        total += term
        if abs(term) < Fraction(1, 10**60):
            break
    return total


def weight(total, n_classes, scale):
    """Oracle: C(t + c - 1, c - 1) exp(-t / scale), to about sixty digits."""
    power = exp_series(Fraction(-1) / Fraction(scale) / 64) ** (64 * total)
    return math.comb(total + n_classes - 1, n_classes - 1) * power


@pytest.mark.long
@pytest.mark.parametrize(("n_classes", "scale"), [(2, 0.5), (3, 2.0), (5, 3.25), (9, 1.0)])
def test_the_bounds_hold_the_probability_and_close_in_on_it(n_classes, scale):
    mode = most_likely(n_classes, scale)
    for total in range(3 * mode + 6):
        true = weight(total, n_classes, scale) / weight(mode, n_classes, scale)
        for bits in (1, 8, 64, 128):
            low, high = keeping_bounds(total, mode, n_classes, scale, bits=bits)
            assert low - Fraction(1, 10**9) <= true * 2**bits <= high + Fraction(1, 10**9)
            assert high - low <= 3


@pytest.mark.parametrize(("n_classes", "scale"), CASES)
def test_no_total_weighs_more_than_the_most_likely(n_classes, scale):
    """Oracle: the largest logarithm in double precision, unless it is a draw there."""
    total = np.arange(int(8 * n_classes * scale + 50))
    log_w = special.gammaln(total + n_classes) - special.gammaln(total + 1) - total / scale
    mode = most_likely(n_classes, scale)
    assert log_w[mode] >= log_w.max() - 1e-9 * abs(log_w.max())


@pytest.mark.parametrize(("n_classes", "scale"), CASES)
def test_two_thirds_of_the_proposals_are_kept(n_classes, scale):
    """Oracle: the sum of squares of the negative binomial law over its largest probability."""
    total = np.arange(int(30 * n_classes * max(scale, 1.0) + 100 * scale))
    log_p = special.gammaln(total + n_classes) - special.gammaln(total + 1) - total / scale
    p = np.exp(log_p - special.logsumexp(log_p))
    assert (p * p).sum() / p.max() > 0.67


@pytest.mark.parametrize("word", [1, 64])
def test_vectors_have_the_joint_law_however_few_bits_are_drawn_at_once(word, monkeypatch):
    """Chi-square over the lattice points of three classes at scale 1; with one bit most are refined."""
    monkeypatch.setattr(lattice_laplace, "WORD", word)
    points, probability = enumerated(3, 1.0, 14)
    code = points @ [1000, 1, 0]
    drawn = draw_lattice(SystemNoise(), 1.0, 3, wanted=20_000)
    assert (drawn.sum(axis=1) == 0).all()
    assert fits(drawn @ [1000, 1, 0], code, probability) > CHANCE
    _, wrong = enumerated(3, 1.1, 14)
    assert fits(drawn @ [1000, 1, 0], code, wrong) < CHANCE


def test_the_noise_of_forty_classes_has_its_golden_size():
    """Oracle: the exact law's expected l1 norm, 74.7 at epsilon 1, within 5.5 standard errors."""
    l1 = np.abs(draw_lattice(SystemNoise(), 2.0, 40, wanted=4_000)).sum(axis=1)
    expected = LatticeLaplace(1.0).law(40).expected_l1
    assert abs(l1.mean() - expected) < 5.5 * l1.std() / math.sqrt(l1.size)


@pytest.mark.parametrize(("n_classes", "scale"), [(2, 1e-6), (5, 2.0**40), (3, 0.01)])
def test_the_smallest_and_largest_scales_are_drawn(n_classes, scale):
    drawn = draw_lattice(SystemNoise(), scale, n_classes, wanted=5)
    assert drawn.shape == (5, n_classes)
    assert (drawn.sum(axis=1) == 0).all()
    assert (drawn == 0).all() is np.bool_(scale < 1)


@pytest.mark.parametrize("n_classes", [2, 5, 40])
def test_a_vector_costs_less_than_two_geometric_draws_an_entry(n_classes):
    """1.5 on average, and what the last batch leaves over."""

    class Counting(SystemNoise):
        drawn = asked = 0

        def discrete_laplace(self, scale, size):
            self.drawn += size
            return super().discrete_laplace(scale, size)

        def uniform_integer(self, below):
            self.asked += 1
            return super().uniform_integer(below)

    noise = Counting()
    draw_lattice(noise, 2.0, n_classes, wanted=1_000)
    assert noise.drawn < 2 * 1_000 * n_classes
    assert noise.asked < 1_000 * (n_classes + 2)


def test_one_vector_of_many_classes_costs_no_more_an_entry():
    """A proposal next to the likeliest total is kept, and no others were drawn beside it."""
    drawn = []

    class Counting(SystemNoise):
        def discrete_laplace(self, scale, size):
            drawn.append(size)
            return [0, -3] * (size // 2)  # geometric draws of mean 1, that of this scale

    for _ in range(20):
        draw_lattice(Counting(), 1 / math.log(2), 5_000, wanted=1)
    assert set(drawn) == {5_000}
    assert len(drawn) < 30


@pytest.mark.parametrize("factors", [1, 3, 64])
def test_weights_are_compared_by_bounds_on_their_quotient(factors, monkeypatch):
    """Oracle: the binomial coefficients themselves."""
    monkeypatch.setattr(lattice_laplace, "FACTORS", factors)
    for total, mode, n_classes in itertools.product((0, 1, 8, 200), (0, 2, 8, 131), (2, 3, 6, 150)):
        low, high = lattice_laplace._ways_bounds(total, mode, n_classes, 40)
        others = n_classes - 1
        true = Fraction(math.comb(total + others, others), math.comb(mode + others, others))
        assert Fraction(low) <= true <= Fraction(high) <= Fraction(low) * (1 + Fraction(1, 10**36))


@pytest.mark.parametrize(
    ("total", "mode", "n_classes"),
    [(10**12 + 10**9, 10**12, 50_000), (10**9 + 50_000, 10**9, 10**6)],
)
def test_weights_of_many_classes_are_compared_without_their_millions_of_digits(
    total, mode, n_classes, monkeypatch
):
    """By the recorded products: each has a few factors, and there are as few as classes or steps apart."""
    taken, perm = [], math.perm

    def recorded(n, k):
        taken.append(k)
        return perm(n, k)

    monkeypatch.setattr(math, "perm", recorded)
    low, high = keeping_bounds(total, mode, n_classes, mode / n_classes, bits=64)
    assert 0 <= high - low <= 3
    assert max(taken) == 64
    assert sum(taken) == 2 * min(total - mode, n_classes - 1)


def test_nothing_is_drawn_where_nothing_is_wanted():
    assert draw_lattice(Scripted([]), 2.0, 4, wanted=0).shape == (0, 4)


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"scale": 0.0}, r"scale must be > 0 and at most 2\*\*40, got scale=0.0"),
        ({"scale": 2.0**41}, r"scale must be > 0 and at most 2\*\*40"),
        ({"scale": math.nan}, r"scale must be > 0 and at most 2\*\*40"),
        ({"l1": 0.0}, "l1 must be > 0 and finite, got l1=0.0"),
        ({"l1": math.inf}, "l1 must be > 0 and finite, got l1=inf"),
        ({"l1": math.nan}, "l1 must be > 0 and finite, got l1=nan"),
        ({"epsilon": 0.999}, "epsilon must be at least l1 / scale, got epsilon=0.999"),
        ({"n_classes": 1}, "n_classes must be an integer >= 2, got n_classes=1"),
        pytest.param(
            {"n_classes": 3.0},
            "n_classes must be an integer >= 2, got n_classes=3.0",
            marks=pytest.mark.refusal,
        ),
    ],
)
def test_an_event_that_claims_less_than_it_realises_is_refused(changed, sentence):
    told = {"scale": 2.0, "l1": 2.0, "n_classes": 2, "epsilon": 1.0}
    assert LatticeLaplaceEvent(**told).cost().epsilon == 1
    with pytest.raises(ValueError, match=sentence):
        LatticeLaplaceEvent(**(told | changed))


@pytest.mark.refusal  # whole numbers for prices
def test_events_of_equal_queries_are_equal_whatever_the_price_was_written_as():
    """Whole prices and decimal ones are equal, and each event has the doubles that its fields declare."""
    for epsilon in (2, 2.0, 2):
        query = counts_query((3, 1))
        event = LatticeLaplace(epsilon).event(query)
        assert event == LatticeLaplaceEvent(covering_scale(2.0, epsilon), 2.0, 2, epsilon)
        assert type(event.epsilon) is type(event.l1) is float


def test_a_mechanism_needs_an_epsilon_and_its_law_two_classes():
    assert LatticeLaplace(1.0).law(2).n_classes == 2
    for epsilon in (0.0, -1.0):
        with pytest.raises(ValueError, match=f"epsilon must be > 0, got epsilon={epsilon}"):
            LatticeLaplace(epsilon)


@pytest.mark.refusal
@pytest.mark.parametrize("n_classes", [1, 0, 2.5, math.nan, math.inf, 10**6 + 1])
@pytest.mark.parametrize(
    "law", [LatticeLaplace(1.0).law, DiscreteLaplace(1.0).law, DiscreteGaussian(1.0, 1e-3).law]
)
def test_the_law_of_noise_is_for_two_classes_to_a_million(law, n_classes):
    sentence = f"n_classes must be an integer from 2 to 1000000, got n_classes={n_classes}"
    with pytest.raises(ValueError, match=sentence):
        law(n_classes)


def test_noise_of_a_scale_near_zero_is_none():
    law = LatticeLaplace(1.0).law(3, l1=1e-320)
    assert (law.support.tolist(), law.probability.tolist()) == ([0], [1.0])


def test_a_proposal_is_kept_below_its_bounds_refused_from_the_upper_on_and_refined_between():
    """The most likely total is kept, whatever is drawn."""
    mode = most_likely(3, 2.0)
    low, high = keeping_bounds(mode + 2, mode, 3, 2.0, bits=64)

    def is_kept(total, *drawn):
        return lattice_laplace._kept([total], mode, 3, 2.0, Scripted(drawn)) == [0]

    assert is_kept(mode + 2, low - 1)
    assert not is_kept(mode + 2, high)
    assert is_kept(mode + 2, low, 0)
    assert not is_kept(mode + 2, high - 1, 2**64 - 1)
    assert is_kept(mode, 2**64 - 1)
