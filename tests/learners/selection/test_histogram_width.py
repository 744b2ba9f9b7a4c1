import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from learners.private.histogram import density_of, histogram_score, histogram_sensitivity
from learners.selection.histogram_width import HistogramValidation, histogram_query
from learners.selection.per_candidate import PerWidthValidation
from privacy.accounting import covering_scale, exact
from privacy.audit import audit_losses
from privacy.ledger.ledger import Ledger
from privacy.query import Unit
from tests.learners.scripted_noise import SeededNoise, SilentNoise

MECHANISM = HistogramValidation((2, 4, 20), 0.5, 0.25, low=0.0, high=1.0)


def toy(rng, n=80):
    return histogram_query(rng.random(n), np.arange(n) % 4 == 0, dataset="toy")


@settings(max_examples=400, deadline=None, derandomize=True)
@given(
    seed=st.integers(0, 10**6),
    n_bins=st.integers(2, 20),
    n=st.integers(1, 12),
    size=st.floats(0.0, 8.0),
)
def test_no_replacement_of_a_value_moves_a_score_by_more_than_its_sensitivity(
    seed, n_bins, n, size
):
    """Noise adds up to zero; the moved value takes any bin to any other."""
    rng = np.random.default_rng(seed)
    m = int(rng.integers(1, 5))
    counts = np.bincount(rng.integers(n_bins, size=n), minlength=n_bins)
    noise = np.rint(size * rng.normal(size=n_bins)).astype(int)
    noise[-1] -= noise.sum()
    judge = np.bincount(rng.integers(n_bins, size=m), minlength=n_bins)
    here = histogram_score(density_of(counts + noise, 1 / n_bins), judge)
    left, joined = rng.choice(np.flatnonzero(counts)), rng.integers(n_bins)
    moved = counts.copy()
    moved[left] -= 1
    moved[joined] += 1
    there = histogram_score(density_of(moved + noise, 1 / n_bins), judge)
    assert abs(here - there) <= n_bins * 4 / n + 1e-9
    other = judge.copy()
    other[np.flatnonzero(judge)[0]] -= 1
    other[joined] += 1
    judged = histogram_score(density_of(counts + noise, 1 / n_bins), other)
    assert abs(here - judged) <= n_bins * 2 / m + 1e-9
    assert max(abs(here - there), abs(here - judged)) <= histogram_sensitivity(n_bins, n, m) + 1e-9


def test_the_sensitivity_is_nearly_reached():
    """Two bins, all values but one in the first: the last one moves, and 3.98 of 4 / (h n) with it."""
    for_one = histogram_score(density_of(np.array([99, 1]), 0.5), np.array([0, 1]))
    for_none = histogram_score(density_of(np.array([100, 0]), 0.5), np.array([0, 1]))
    assert abs(for_one - for_none) == pytest.approx(2 * 3.98 / 100)
    assert histogram_sensitivity(2, 100, 10**6) == pytest.approx(2 * 4 / 100)


def test_kept_counts_never_add_up_to_less_than_the_values(rng):
    """What saves the delta of the published procedure: the noise adds up to zero."""
    for seed in range(50):
        released = MECHANISM.release(toy(rng, 8), 2, SeededNoise(seed))
        assert sum(released["counts"]) == 6
        assert sum(max(0, one) for one in released["counts"]) >= 6


def test_without_noise_the_best_score_wins_and_a_tie_may_go_to_either():
    x = np.tile([0.05, 0.15, 0.85, 0.95], 20)
    query = histogram_query(x, np.arange(80) % 8 < 4, dataset="toy")
    assert MECHANISM.draw(query, SilentNoise())["n_bins"] == 20
    even = histogram_query(np.tile([0.1, 0.4, 0.6, 0.9], 20), np.arange(80) % 8 < 4, dataset="toy")
    two = dataclasses.replace(MECHANISM, candidates=(2, 4))
    assert two.draw(even, SilentNoise())["chosen"] == 0

    class Last(SilentNoise):
        def uniform_integer(self, below):
            return below - 1 if below < 2**64 else 0  # the counts' proposals are kept

    assert two.draw(even, Last())["chosen"] == 1


@pytest.mark.parametrize("odd", [math.nan, math.inf, -math.inf, 1e300])
def test_no_value_is_refused(odd):
    """NaN counts as the lower bound, other values as the nearer one: a refusal would reveal one."""
    x = np.append(np.tile([0.05, 0.15, 0.85, 0.95], 20), odd)
    near = np.append(x[:-1], 0.0 if math.isnan(odd) or odd < 0 else 1.0)
    for judges in (True, False):
        validation = np.append(np.arange(80) % 8 < 4, judges)
        queries = [histogram_query(one, validation, dataset="toy") for one in (x, near)]
        found, expected = (MECHANISM.draw(query, SilentNoise()) for query in queries)
        assert found == expected
        found, expected = (MECHANISM.scores(query, SilentNoise())[0].tolist() for query in queries)
        assert found == expected


@pytest.mark.refusal
@pytest.mark.parametrize("kind", [np.float16, np.float32, np.longdouble])
def test_values_of_other_floats_are_counted_as_their_doubles(kind):
    """A warning by the draw, which may be an error, would come after payment."""
    x = np.tile([-1.0, 0.5, np.inf, np.nan], 20).astype(kind)
    if kind is np.longdouble:
        x[0] = np.longdouble("-1e3000")
    with np.errstate(over="ignore"):
        doubles = x.astype(np.float64)
    wide = dataclasses.replace(MECHANISM, low=-8e307, high=8e307)
    found, expected = (
        wide.draw(histogram_query(one, np.arange(80) % 8 < 4, dataset="toy"), SilentNoise())
        for one in (x, doubles)
    )
    assert found == expected


def test_the_cost_is_that_of_counts_and_choice_for_any_number_of_candidates(rng, tmp_path):
    ledger = Ledger(tmp_path / "ledger.sqlite", key=bytes(32))
    ledger.open_budget("toy", unit=Unit.ROW, epsilon=2.0, delta=0.0, n=80)
    query = toy(rng)
    first = ledger.release(MECHANISM, query)
    assert ledger.release(MECHANISM, query).value == first.value
    assert ledger.statement("toy").spent.epsilon == exact(0.75)
    ledger.release(PerWidthValidation(MECHANISM), query)
    assert ledger.statement("toy").spent.epsilon == exact(1.5)


@pytest.mark.parametrize("mechanism", [MECHANISM, PerWidthValidation(MECHANISM)])
def test_the_noise_of_the_choice_has_the_size_of_the_proof(rng, mechanism):
    """60 values train and 20 judge: the sensitivity of 20 bins is 20 * 2 / 20; it is 4,096 steps."""
    asked = []

    class Listening(SilentNoise):
        def discrete_laplace(self, scale, size):
            asked.append((scale, size))
            return [0] * size

    assert MECHANISM.scores(toy(rng), SilentNoise())[1].tolist() == pytest.approx([0.2, 0.4, 2.0])
    mechanism.draw(toy(rng), Listening())
    assert asked.count((covering_scale(2 * 4097, 0.25), 3)) == 1


def test_wide_bins_are_judged_with_less_noise_by_their_own_sensitivity(rng):
    """The finest bins are no better here, and their sensitivity drowns the difference."""
    query, seeds = toy(rng, 400), range(40)
    knobs = HistogramValidation((2, 40), 1.0, 0.2, low=0.0, high=1.0)
    shared = [knobs.draw(query, SeededNoise(seed))["chosen"] for seed in seeds]
    own = [PerWidthValidation(knobs).draw(query, SeededNoise(seed))["chosen"] for seed in seeds]
    assert sum(own) < sum(shared)


@pytest.mark.parametrize(
    "knobs",
    [
        {"candidates": ()},
        {"candidates": (4, 4)},
        {"candidates": (1, 4)},
        {"epsilon_counts": 0.0},
        {"epsilon_select": math.nan},
        {"low": 1.0},
    ],
)
def test_knobs_out_of_range_are_refused(knobs):
    with pytest.raises(ValueError, match="must be"):
        dataclasses.replace(MECHANISM, **knobs)


@pytest.mark.parametrize(
    ("x", "validation"),
    [
        (np.array([0.1, 0.2]), np.array([True, True])),
        pytest.param(np.array([0.1, 0.2]), np.array([0, 1]), marks=pytest.mark.refusal),
    ],
)
def test_values_that_cannot_be_used_are_refused_before_they_are_paid(x, validation):
    with pytest.raises(ValueError, match="must") as refusal:
        MECHANISM.event(histogram_query(x, validation, dataset="toy"))
    assert "nan" not in str(refusal.value)


@pytest.mark.refusal
@pytest.mark.parametrize("value", [np.array([0.1, 0.2]), {"x": np.array([0.1, 0.2])}])
def test_a_query_without_values_and_their_split_is_refused_before_it_is_paid(value):
    query = dataclasses.replace(toy(np.random.default_rng(0), n=2), value=value)
    with pytest.raises(ValueError, match="must hold values x and the split"):
        MECHANISM.event(query)


# the audit: which of two histograms is chosen ----------------------------------------------------


def audited(mechanism, draws=600):
    """The choice between neighbours for whom another histogram is the best, both ways."""
    validation = np.array([False] * 4 + [True] * 2)
    here = np.array([0.1, 0.1, 0.9, 0.9, 0.9, 0.9])
    there = np.array([0.1, 0.1, 0.1, 0.9, 0.9, 0.9])
    chosen = [
        np.array(
            [
                mechanism.draw(histogram_query(x, validation, dataset="toy"), noise)["chosen"]
                for noise in [SeededNoise(seed)] * draws
            ]
        )
        for x, seed in ((here, 1), (there, 2))
    ]
    share = [(one.sum() + 0.5) / (draws + 1) for one in chosen]
    losses = [
        np.where(one == 1, np.log(share[0] / share[1]), np.log((1 - share[0]) / (1 - share[1])))
        for one in chosen
    ]
    bounds = [audit_losses(*pair, epsilon=1.0) for pair in (losses, (-losses[1], -losses[0]))]
    return max(bound.least_epsilon() for bound in bounds)


CHOICE = HistogramValidation((2, 3), 1e6, 1.0, low=0.0, high=1.0)


def test_the_audit_does_not_refute_the_choice():
    """Counts all but exact, so that only the choice has noise; once in a thousand seeds by chance."""
    assert audited(CHOICE) <= 1.0


def test_the_audit_catches_a_choice_whose_noise_forgets_the_bins(monkeypatch):
    """The mutant takes a small part of a count's sensitivity for the score's."""
    monkeypatch.setattr(
        "learners.selection.histogram_width.histogram_sensitivity", lambda n_bins, n, m: 0.2 / n
    )
    assert audited(CHOICE) > 1.0


def test_every_counting_is_drawn_at_the_price_of_the_counts_and_the_choice_at_its_own(rng):
    """The candidates' countings are never released; each still has the noise that is paid for."""
    asked = []

    class Listening(SilentNoise):
        def discrete_laplace(self, scale, size):
            asked.append(scale)
            return [0] * size

    MECHANISM.draw(toy(rng), Listening())
    released_and_tried = len(MECHANISM.candidates) + 1
    choice = asked.pop(len(MECHANISM.candidates))  # between the candidates' countings and the last
    assert len(asked) == released_and_tried
    assert set(asked) == {2 / MECHANISM.epsilon_counts}
    assert choice not in asked


@pytest.mark.parametrize("epsilon", [1e-13, 1e-300])
def test_a_price_of_counts_that_no_noise_has_is_refused_before_it_is_paid(epsilon):
    with pytest.raises(ValueError, match=r"epsilon must be >= l1 / 2\*\*40"):
        HistogramValidation((2, 4), epsilon, 0.25, low=0.0, high=1.0)


def test_one_number_of_bins_is_counted_once_at_epsilon_counts(rng):
    one = dataclasses.replace(MECHANISM, candidates=(4,), epsilon_select=0.0)
    query = toy(rng)
    assert one.event(query).cost().epsilon == exact(MECHANISM.epsilon_counts)
    drawn = one.draw(query, SeededNoise(3))
    assert drawn == one.release(query, 0, SeededNoise(3))
    assert PerWidthValidation(one).draw(query, SeededNoise(3)) == drawn
    with pytest.raises(ValueError, match="epsilon_select must be 0 with one candidate"):
        dataclasses.replace(MECHANISM, candidates=(4,))
