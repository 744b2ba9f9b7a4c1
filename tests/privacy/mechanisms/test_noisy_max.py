"""Draws cannot be seeded: each statistical test fails by chance
with a probability of at most 1e-6."""

import itertools
import math
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from privacy import Query, Unit
from privacy.audit import audit_losses
from privacy.mechanisms.lattice_laplace import draw_geometric
from privacy.mechanisms.noisy_max import NoisyMax
from privacy.noise import SystemNoise
from tests.privacy.toy import counts_query, open_toy

CHANCE = 1e-6
ROUNDING = 1e-9
vectors = st.lists(st.integers(-30, 30), min_size=2, max_size=8)


def scores_query(scores, *, l1=2.0):
    return Query("toy", "scores", np.array(scores), Unit.CONSENSUS_LABEL, n=10, l1=l1)


def law(mechanism, scores):
    return mechanism.probability(scores_query(scores))


def permute_and_flip(scores, scale):
    """Oracle: in each order of the scores, the first whose coin exp((score - best) / scale) is heads."""
    heads = np.exp((np.array(scores) - max(scores)) / scale)
    found = np.zeros(len(scores))
    orders = list(itertools.permutations(range(len(scores))))
    for order in orders:
        reached = 1.0
        for i in order:
            found[i] += reached * heads[i] / len(orders)
            reached *= 1 - heads[i]
    return found


@pytest.mark.parametrize("scores", [(3, 3), (0, 5), (3, 3, 1, 0), (7, 7, 7), (0, -4, 2, 1, 2, -9)])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 5.0])
def test_the_law_is_that_of_permute_and_flip(scores, epsilon):
    expected = permute_and_flip(scores, 2 / epsilon)
    np.testing.assert_allclose(law(NoisyMax(epsilon), scores), expected, atol=1e-12)


def test_the_law_is_that_of_the_largest_score_with_exponential_noise():
    """Oracle: for each score, the others' distribution functions integrated over its own density."""
    scores, scale = np.array([4, 3, 0]), 2.0
    noise = stats.expon(scale=scale)
    at = max(scores) + np.linspace(0, 80, 400_001)
    for i, found in enumerate(law(NoisyMax(1.0), scores)):
        others = np.prod([noise.cdf(at - s) for s in np.delete(scores, i)], axis=0)
        assert found == pytest.approx(
            np.trapezoid(noise.pdf(at - scores[i]) * others, at), abs=1e-7
        )


def test_draws_have_their_law():
    """Chi-square over 20,000 draws; the law at an epsilon wrong by a third is found out."""
    scores = (3, 4, 1, 4, -2)
    drawn = NoisyMax(1.0).draw_all([scores_query(scores)] * 20_000, SystemNoise())
    found = np.bincount(drawn, minlength=len(scores))
    assert stats.chisquare(found, 20_000 * law(NoisyMax(1.0), scores)).pvalue > CHANCE
    assert stats.chisquare(found, 20_000 * law(NoisyMax(1.33), scores)).pvalue < CHANCE


@pytest.mark.parametrize("scale", [0.7, 4.0])
def test_folded_draws_are_geometric(scale):
    """Chi-square over 100,000 draws; a scale wrong by 5 % is found out by the same test."""
    drawn = np.array(draw_geometric(SystemNoise(), scale, 100_000))
    reach = int(5 * scale)
    assert drawn.min() == 0

    def p_value(wanted):
        inside = stats.geom(-math.expm1(-1 / wanted), loc=-1).pmf(np.arange(reach))
        expected = np.append(inside, 1 - inside.sum()) * drawn.size
        return stats.chisquare(np.bincount(np.minimum(drawn, reach)), expected).pvalue

    assert p_value(scale) > CHANCE
    assert p_value(1.05 * scale) < CHANCE


@pytest.mark.parametrize("n_classes", [2, 3])
def test_one_moved_task_changes_no_probability_by_more_than_the_claim(n_classes):
    """Every vector of 8 tasks and each neighbour; two classes far apart reach epsilon."""
    epsilon, one = 0.7, np.eye(n_classes, dtype=int)
    losses = [
        np.abs(np.log(law(NoisyMax(epsilon), counts) / law(NoisyMax(epsilon), neighbour))).max()
        for counts in itertools.product(range(9), repeat=n_classes)
        if sum(counts) == 8
        for i, j in itertools.permutations(range(n_classes), 2)
        if min(neighbour := np.array(counts) - one[i] + one[j]) >= 0
    ]
    assert max(losses) <= epsilon + ROUNDING
    assert n_classes > 2 or max(losses) == pytest.approx(epsilon)


@given(scores=vectors, data=st.data(), spread=st.integers(1, 4))
@settings(max_examples=60, deadline=None, derandomize=True)
def test_moves_within_the_spread_change_no_probability_by_more_than_the_claim(scores, data, spread):
    """Each score moves by anything between a common shift and that shift plus the spread."""
    shift = data.draw(st.integers(-20, 20))
    moves = data.draw(st.lists(st.integers(0, spread), min_size=len(scores), max_size=len(scores)))
    mechanism = NoisyMax(1.3, spread=spread)
    here, there = law(mechanism, scores), law(mechanism, np.add(scores, moves) + shift)
    assert np.abs(np.log(here / there)).max() <= 1.3 + ROUNDING


@given(scores=vectors, epsilon=st.floats(0.05, 4.0), b=st.floats(0.001, 0.999))
@settings(max_examples=60, deadline=None, derandomize=True)
def test_the_released_score_is_seldom_far_below_the_best(scores, epsilon, b):
    shortfall = max(scores) - np.array(scores)
    far = shortfall >= 2 / epsilon * math.log((len(scores) - 1) / b)
    assert law(NoisyMax(epsilon), scores)[far & (shortfall > 0)].sum() <= b + ROUNDING


@given(scores=vectors, epsilon=st.floats(0.05, 4.0))
@settings(max_examples=60, deadline=None, derandomize=True)
def test_the_expected_score_is_at_least_the_exponential_mechanisms(scores, epsilon):
    exponential = np.exp((np.array(scores) - max(scores)) * epsilon / 2)
    expected = np.array(scores) @ exponential / exponential.sum()
    assert law(NoisyMax(epsilon), scores) @ np.array(scores) >= expected - 1e-9


@given(scores=vectors, order=st.randoms(use_true_random=False))
@settings(max_examples=30, deadline=None, derandomize=True)
def test_the_law_follows_the_scores_and_ties_are_equally_likely(scores, order):
    where = list(range(len(scores)))
    order.shuffle(where)
    found = law(NoisyMax(1.0), scores)
    assert found.sum() == pytest.approx(1.0)
    np.testing.assert_allclose(law(NoisyMax(1.0), np.array(scores)[where]), found[where])
    best = found[np.array(scores) == max(scores)]
    np.testing.assert_allclose(best, best[0])


@pytest.mark.parametrize(("spread", "refuted"), [(2, False), (1, True)])
def test_real_draws_refute_the_claim_of_a_spread_too_small_and_no_other(spread, refuted):
    """Neighbours (3, 2) and (4, 1) of spread 2, 10,000 draws each; false refutation below 1e-7. At
    spread 1 the delta at epsilon 1 is 0.12."""
    here, there = counts_query((3, 2)), counts_query((4, 1))
    mechanism = NoisyMax(1.0, spread=spread)
    loss = np.log(mechanism.probability(here) / mechanism.probability(there))
    drawn = [mechanism.draw_all([query] * 10_000, SystemNoise()) for query in (here, there)]
    bound = audit_losses(loss[drawn[0]], loss[drawn[1]], epsilon=1.0, level=1 - 1e-7)
    assert bound.refutes(0.0) is refuted


def test_the_event_depends_on_public_things_only():
    mechanism = NoisyMax(0.1)
    assert mechanism.event(counts_query((3, 1))) == mechanism.event(counts_query((0, 4)))
    event = mechanism.event(counts_query((3, 1)))
    assert event.parameters == {"scale": 20.0, "n_scores": 2}
    assert NoisyMax(0.1, spread=1).event(counts_query((3, 1))).parameters["scale"] == 10.0


@pytest.mark.parametrize("dtype", [np.int64, np.uint64, np.int8])
def test_scores_of_any_size_have_a_release(dtype):
    """The gaps of the largest scores do not fit their own type."""
    limits = np.array([np.iinfo(dtype).min, np.iinfo(dtype).max], dtype=dtype)
    query = Query("toy", "scores", limits, Unit.CONSENSUS_LABEL, n=1, l1=2.0)
    assert NoisyMax(50.0).draw(query, SystemNoise()) == 1


def test_the_ledger_books_it_once(tmp_path):
    ledger = open_toy(tmp_path)
    first = ledger.release(NoisyMax(0.4), counts_query())
    again = ledger.release(NoisyMax(0.4), counts_query())
    assert first.value in (0, 1)
    assert (again.value, again.fresh) == (first.value, False)
    assert float(ledger.statement("toy").spent.epsilon) == 0.4


@pytest.mark.refusal
def test_refusals_come_from_public_things():
    for epsilon in (0.0, -1.0, math.nan, math.inf):
        with pytest.raises(ValueError, match=r"epsilon|privacy parameter"):
            NoisyMax(epsilon)
    for spread in (0, -1.0, math.nan, math.inf):
        with pytest.raises(ValueError, match="spread"):
            NoisyMax(1.0, spread=spread)
    with pytest.raises(ValueError, match="spread"):
        NoisyMax(1.0).event(scores_query((1, 2), l1=math.inf))
    for value in (np.array([1]), np.array([1.0, 2.0]), np.array([[1, 2]]), {"x": np.array([1, 2])}):
        query = Query("toy", "scores", value, Unit.ROW, n=2, l1=2.0)
        with pytest.raises(ValueError, match="scores must be"):
            NoisyMax(1.0).event(query)


@pytest.mark.parametrize("score", [math.nan, math.inf, -math.inf, 1e300])
def test_real_scores_are_refused_before_payment_whatever_they_are(score):
    query = Query("toy", "scores", np.array([0.5, score]), Unit.ROW, n=2, l1=2.0)
    with pytest.raises(
        ValueError, match=r"got float64 of shape \(2,\); round real scores to a public grid"
    ) as refused:
        NoisyMax(1.0).event(query)
    assert str(score) not in str(refused.value)


def test_whole_scores_need_no_bound():
    far = np.iinfo(np.int64)
    for scores in ((far.max, far.min), (far.max, far.max - 1, far.min)):
        assert NoisyMax(1e-9).draw(scores_query(scores), SystemNoise()) < len(scores)
        assert law(NoisyMax(1.0), scores).sum() == pytest.approx(1.0)


def test_the_probabilities_of_ten_thousand_scores_are_found_at_once():
    """One rule of as many nodes took minutes and a gigabyte."""
    scores = np.repeat([5, 0], [10_000, 1])
    query = Query("toy", "votes", scores, Unit.ROW, n=scores.size, l1=2.0)
    began = time.perf_counter()
    found = NoisyMax(1000.0).probability(query)
    assert time.perf_counter() - began < 10
    assert found[:-1] == pytest.approx(1e-4, rel=1e-9)
    assert found[-1] < 1e-9
