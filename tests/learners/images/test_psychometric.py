import pickle

import numpy as np
import pytest
from scipy.stats import beta
from sklearn.base import clone

from learners.images import psychometric
from learners.images.psychometric import PsychometricFunction, psychometric_posterior

LEVELS = np.array([0.1, 0.25, 0.5, 0.8, 1.2, 1.8, 2.5, 4.0])


def weibull(x, a, b, lapse, chance=0.5):
    return chance + (1 - chance - lapse) * (1 - np.exp(-((x / a) ** b)))


def test_the_threshold_of_an_exact_function_is_found():
    share = weibull(LEVELS, 1.0, 2.0, 0.03)
    found = PsychometricFunction().fit(LEVELS, share * 1e6, np.full(8, 1e6))
    assert found.lapse_ == pytest.approx(0.03, abs=1e-3)
    assert found.scale_ == pytest.approx(1.0, rel=1e-2)
    assert found.slope_ == pytest.approx(2.0, rel=2e-2)
    assert found.predict(np.array([found.threshold(0.8)])) == pytest.approx([0.8])


def test_the_ratio_of_two_thresholds_is_recovered():
    """Spec: true ratio 1.70, 8 levels of 200 trials: 1.65 +- .24 over pairs; three standard errors."""
    rng, ratios = np.random.default_rng(0), []
    for _ in range(12):
        found = [
            PsychometricFunction()
            .fit(LEVELS, rng.binomial(200, weibull(LEVELS, a, 1.5, 0.02)), np.full(8, 200))
            .threshold()
            for a in (1.7, 1.0)
        ]
        ratios.append(found[0] / found[1])
    assert np.mean(ratios) == pytest.approx(1.70, abs=3 * 0.24 / 12**0.5)
    assert np.std(ratios) < 0.3


@pytest.mark.long
@pytest.mark.parametrize(
    ("link", "lapse", "lapse_max"),
    [("weibull", 0.0, 0.06), ("logistic", 0.02, 0.3)],
)
def test_intervals_cover_near_a_lapse_rate_of_0(link, lapse, lapse_max):
    """Of 20 workers' intervals at .95, fewer than 16 hold the truth by chance in one of 400 draws."""
    rng, hits = np.random.default_rng(1), np.zeros(2)
    x, slope = (LEVELS, 1.5) if link == "weibull" else (np.linspace(-3, 3, 9), 0.7)
    share = psychometric._share(x, 0.8, slope, lapse, 0.5, link)
    for _ in range(20):
        found = PsychometricFunction(lapse_max=lapse_max, link=link)
        found.fit(x, rng.binomial(60, share), np.full(len(x), 60))
        level = found._middle(lapse)
        truth = psychometric._level_at(level, 0.8, slope, lapse, 0.5, link)
        for i, (name, true) in enumerate((("threshold", truth), ("lapse", lapse))):
            low, high = found.ci_[name]
            hits[i] += low <= true <= high
    assert (hits >= 16).all()


def test_an_interval_ends_where_the_likelihood_has_fallen_by_half_the_quantile_of_chi_square():
    right, n = np.array([30, 33, 40, 52, 54, 58, 59, 59]), np.full(8, 60)
    found = PsychometricFunction(lapse_max=0.2, level=0.9).fit(LEVELS, right, n)

    def lost(name, value):
        """Oracle: likelihood lost on a fine grid of the parameters, of which one is held."""
        slope = np.geomspace(0.3, 8, 200)[:, None, None]
        lapse = np.array([value]) if name == "lapse" else np.linspace(0, 0.2, 201)
        lapse = lapse[:, None]
        place = (-np.log1p(-0.25 / (0.5 - lapse))) ** (1 / slope)
        thresholds = np.geomspace(0.4, 1.2, 150) if name == "lapse" else [value]
        rest = [
            (right * np.log(p) + (n - right) * np.log1p(-p)).sum(axis=-1).max()
            for p in (
                np.clip(weibull(LEVELS, one / place, slope, lapse), 0.5, 1 - 1e-12)
                for one in thresholds
            )
        ]
        return found.log_likelihood_ - max(rest)

    for name in ("threshold", "lapse"):
        for end in found.ci_[name]:
            inside = name == "lapse" and end == 0
            assert lost(name, end) == pytest.approx(2.7055 / 2, abs=0.03) or inside


def test_an_interval_without_evidence_spans_all_that_is_allowed():
    found = PsychometricFunction().fit(LEVELS, np.full(8, 1), np.full(8, 2))
    assert found.ci_["lapse"] == (0.0, 0.06)
    assert found.ci_["threshold"][1] == pytest.approx(4.0 * np.exp(3))


def test_a_careless_worker_and_a_poor_one_are_told_apart():
    n = np.full(8, 500)
    poor, careless = weibull(LEVELS, 2.0, 2.0, 0.0), weibull(LEVELS, 0.5, 2.0, 0.25)
    one, other = (
        PsychometricFunction(lapse_max=0.4).fit(LEVELS, share * n, n) for share in (poor, careless)
    )
    assert one.lapse_ < 0.05 < 0.2 < other.lapse_
    assert one.scale_ > 1.5 > 0.8 > other.scale_


def test_the_logistic_link_takes_negative_levels():
    x = np.linspace(-3, 3, 9)
    share = 0.25 + 0.75 / (1 + np.exp(-(x - 0.5) / 0.7))
    found = PsychometricFunction(0.25, link="logistic").fit(x, share * 1e6, np.full(9, 1e6))
    assert found.scale_ == pytest.approx(0.5, abs=0.02)
    assert found.threshold(0.625) == pytest.approx(0.5, abs=0.02)


def test_a_clone_finds_the_same_and_a_pickle_keeps_it():
    model = PsychometricFunction(0.5)
    right, n = np.array([52, 62, 80, 96]), np.full(4, 100)
    one, other = (clone(model).fit(LEVELS[:4], right, n) for _ in range(2))
    assert one.ci_ == other.ci_ == pickle.loads(pickle.dumps(one)).ci_


def test_without_three_quarters_the_threshold_is_halfway():
    n = np.full(8, 1000)
    share = weibull(LEVELS, 1.0, 2.0, 0.0, chance=0.8)
    found = PsychometricFunction(0.8).fit(LEVELS, share * n, n)
    assert found.predict(np.array([found.threshold()]))[0] == pytest.approx(
        (0.8 + 1 - found.lapse_) / 2
    )


@pytest.mark.refusal
@pytest.mark.parametrize(
    ("knobs", "change", "message"),
    [
        ({"chance": 1.0}, {}, "chance must be"),
        ({"lapse_max": 0.6}, {}, "lapse_max must be"),
        ({"link": "probit"}, {}, "link must be"),
        ({"level": 95.0}, {}, "level must be in"),
        ({"level": float("nan")}, {}, "level must be in"),
        ({}, {"right": np.ones(3)}, "of one length"),
        ({}, {"x": np.ones(4)}, "two finite levels"),
        ({}, {"x": np.array([-1.0, 1, 2, 3])}, "x must be >= 0"),
        ({}, {"right": np.full(4, 11.0)}, "right must be from 0 to n"),
        ({}, {"n": np.array([10.0, 10, 10, np.inf])}, "n finite"),
    ],
)
def test_what_does_not_fit_is_refused(knobs, change, message):
    given = {"x": LEVELS[:4], "right": np.full(4, 5.0), "n": np.full(4, 10.0)} | change
    with pytest.raises(ValueError, match=message):
        PsychometricFunction(**knobs).fit(**given)


def test_a_level_that_is_never_reached_is_refused():
    found = PsychometricFunction().fit(LEVELS, weibull(LEVELS, 1, 2, 0) * 100, np.full(8, 100))
    with pytest.raises(ValueError, match="level must be between chance"):
        found.threshold(0.4)
    with pytest.raises(ValueError, match="x must be >= 0 for the link 'weibull', got -1"):
        found.predict(np.array([0.5, -1.0]))
    with pytest.raises(ValueError, match=r"level must be in \(0, 1\), got level=95"):
        psychometric_posterior(LEVELS, np.full((1, 8), 5.0), np.full((1, 8), 6.0), level=95.0)


def test_a_guess_at_the_truth_that_errs_is_no_lapse():
    """Answers compared with a guess that is right in .8: seen as certain they look careless."""
    n = np.full(8, 1e6)
    share = weibull(LEVELS, 0.8, 2.0, 0.02)
    agreeing = share * 0.8 + (1 - share) * 0.2
    naive, told = (
        PsychometricFunction(lapse_max=0.4).fit(LEVELS, agreeing * n, n, certainty)
        for certainty in (None, np.full(8, 0.8))
    )
    assert naive.lapse_ > 0.15
    assert told.lapse_ == pytest.approx(0.02, abs=0.005)
    assert told.scale_ == pytest.approx(0.8, rel=0.02)


def test_posteriors_of_many_workers_are_near_the_fit_and_cover():
    """Of 40 workers' 90 % intervals, fewer than 30 hold the truth by chance in one of 1,000 draws."""
    rng = np.random.default_rng(2)
    share = np.stack([weibull(LEVELS, 1.0, 2.0, 0.1)] * 40)
    n = np.full((40, 8), 100.0)
    found = psychometric_posterior(LEVELS, rng.binomial(100, share), n, lapse_max=0.4, level=0.9)
    half = np.log(2) ** 0.5
    assert ((found.threshold_low <= half) & (half <= found.threshold_high)).sum() >= 30
    assert ((found.lapse_low <= 0.1) & (found.lapse_high >= 0.1)).sum() >= 30
    assert np.median(found.lapse) == pytest.approx(0.1, abs=0.03)
    assert found.curve.mean(axis=0) == pytest.approx(share[0], abs=0.02)


def test_workers_some_at_a_time_have_the_same_posteriors(monkeypatch):
    """Memory is not in proportion to workers times the grid."""
    rng = np.random.default_rng(3)
    n = np.full((11, 8), 50.0)
    right = rng.binomial(50, weibull(LEVELS, 1.0, 2.0, 0.05), size=(11, 8))
    whole = psychometric_posterior(LEVELS, right, n)
    rows = []
    monkeypatch.setattr(psychometric, "MAX_AT_ONCE", 4)
    quantile = psychometric._quantile
    monkeypatch.setattr(
        psychometric, "_quantile", lambda *given: rows.append(len(given[1])) or quantile(*given)
    )
    parts = psychometric_posterior(LEVELS, right, n)
    assert [one for one in rows if one > 1] == [4] * 12 + [3] * 6  # one: a worker's own smaller box
    for name in psychometric.PsychometricPosterior.__slots__:
        assert getattr(parts, name) == pytest.approx(getattr(whole, name))


@pytest.mark.parametrize("link", ["weibull", "logistic"])
@pytest.mark.parametrize("each", [20, 4_000])
def test_intervals_of_workers_drawn_from_the_prior_cover_however_many_labels(link, each):
    """Of 80 workers of 5 levels, fewer than 64 of the 95 % intervals hold by chance in one of 10^6 draws."""
    rng, x = np.random.default_rng(4), np.array([0.2, 0.5, 1.0, 2.0, 4.0])
    lapse = rng.beta(1, 4, 800)
    lapse = lapse[lapse < 0.4][:80]
    if link == "weibull":
        scale = np.exp(rng.uniform(*np.log([0.2 / 3, 12.0]), 80))
        slope = np.exp(rng.uniform(*np.log([0.5, 8.0]), 80))
        share, half = -np.expm1(-((x / scale[:, None]) ** slope[:, None])), np.log(2) ** (1 / slope)
        half = half * scale
    else:
        half = rng.uniform(0.2 - 3.8 / 3, 4.0 + 3.8 / 3, 80)
        slope = np.exp(rng.uniform(*np.log([3.8 / 40, 3.8]), 80))
        share = 1 / (1 + np.exp(-(x - half[:, None]) / slope[:, None]))
    n = np.full((80, 5), each)
    right = rng.binomial(n, 0.5 + (0.5 - lapse[:, None]) * share)
    found = psychometric_posterior(x, right, n, lapse_max=0.4, link=link)
    assert ((found.threshold_low <= half) & (half <= found.threshold_high)).sum() >= 64
    assert ((found.lapse_low <= lapse) & (lapse <= found.lapse_high)).sum() >= 64
    assert (found.threshold_low < found.threshold).all()
    assert (found.threshold < found.threshold_high).all()


@pytest.mark.parametrize(("factor", "shift"), [(1e3, 0.0), (1e-9, 0.0), (1e3, 1.7e12)])
def test_a_logistic_fit_moves_with_its_levels(factor, shift):
    """Milliseconds, or seconds since 1970, are as good as seconds."""
    x, n = np.linspace(-2, 2, 9), np.full(9, 200)
    right = np.random.default_rng(0).binomial(n, 0.5 + 0.48 / (1 + np.exp(-(x - 0.4) / 0.5)))
    one, other = (
        PsychometricFunction(link="logistic").fit(levels, right, n)
        for levels in (x, x * factor + shift)
    )
    assert (other.scale_ - shift) / factor == pytest.approx(one.scale_, abs=1e-4)
    assert other.slope_ / factor == pytest.approx(one.slope_, rel=1e-3)
    assert other.log_likelihood_ == pytest.approx(one.log_likelihood_)


@pytest.mark.parametrize(("chance", "lapse_max", "level", "right", "n"), [
    (0.1, 0.4, [0.47, 0.86, 1.84, 2.03, 2.85, 3.8, 3.88], [2, 0, 2, 4, 2, 4, 5], [4, 3, 4, 4, 3, 5, 5]),
    (0.5, 0.06, [0.08, 1.81, 1.91, 2.05, 2.56, 3.66, 3.82], [2, 1, 2, 4, 2, 4, 5], [5, 5, 3, 4, 3, 5, 5]),
])  # fmt: skip
def test_of_several_maxima_the_fit_is_the_highest(chance, lapse_max, level, right, n):
    """Few answers have several; from two starts it stopped .3 to .5 below the best of a fine grid."""
    level, right, n = (np.array(one, dtype=float) for one in (level, right, n))
    found = PsychometricFunction(chance, lapse_max=lapse_max).fit(level, right, n)
    scale, slope, lapse = (
        one[..., None]
        for one in np.meshgrid(
            np.geomspace(0.1, 10, 200), np.geomspace(0.2, 20, 30), np.linspace(0, lapse_max, 9)
        )
    )
    share = chance + (1 - chance - lapse) * -np.expm1(-((level / scale) ** slope))
    share = np.clip(share, 1e-12, 1 - 1e-12)
    log = (right * np.log(share) + (n - right) * np.log(1 - share)).sum(axis=-1)
    assert found.log_likelihood_ >= log.max()


@pytest.mark.parametrize(
    ("factor", "shift"), [(1e3, 0.0), (1e-160, 0.0), (1e160, 0.0), (1e3, 1.7e12)]
)
def test_a_logistic_posterior_moves_with_its_levels(factor, shift):
    """Squares of far levels were infinite, and of near ones nothing."""
    x, n = np.linspace(-2, 2, 9), np.full((3, 9), 200)
    share = 0.5 + 0.48 / (1 + np.exp(-(x - 0.4) / 0.5))
    right = np.random.default_rng(0).binomial(n, share)
    one, other = (
        psychometric_posterior(levels, right, n, link="logistic")
        for levels in (x, x * factor + shift)
    )
    for name in ("threshold", "threshold_low", "threshold_high"):
        found = (getattr(other, name) - shift) / factor
        assert found == pytest.approx(getattr(one, name), abs=1e-5)
    assert other.lapse_high == pytest.approx(one.lapse_high, abs=1e-5)


def test_levels_may_be_any_number_of_times_apart():
    """A power that no double holds is a share of 1, without a warning."""
    x, right, n = np.array([1e-20, 1.0, 1e20]), np.array([5, 7, 10]), np.full(3, 10)
    found = PsychometricFunction(0.5, lapse_max=0.0).fit(x, right, n)
    assert found.predict(np.array([1e300, 0.0])) == pytest.approx([1.0, 0.5])


def test_a_workers_posterior_does_not_depend_on_the_others():
    n = np.full((2, 8), 50.0)
    right = np.stack([weibull(LEVELS, 1.0, 2.0, 0.1), weibull(LEVELS, 0.3, 2.0, 0.0)]) * 50
    both = psychometric_posterior(LEVELS, right, n)
    one = psychometric_posterior(LEVELS, right[:1], n[:1])
    assert one.threshold[0] == pytest.approx(both.threshold[0], rel=1e-12)
    assert one.lapse_high[0] == pytest.approx(both.lapse_high[0], rel=1e-12)
    assert not both.curve.flags.writeable


def test_of_no_workers_there_are_no_posteriors():
    found = psychometric_posterior(np.array([1.0, 2.0]), np.zeros((0, 2)), np.zeros((0, 2)))
    assert found.threshold.shape == found.lapse_high.shape == (0,)
    assert found.curve.shape == (0, 2)


@pytest.mark.parametrize("link", ["weibull", "logistic"])
def test_a_worker_without_answers_has_the_prior(link):
    """Lapse rates are of Beta(1, 4) below 0.4; the median threshold of the other link has no closed form."""
    found = psychometric_posterior(
        LEVELS, np.zeros((1, 8)), np.zeros((1, 8)), lapse_max=0.4, link=link
    )
    for share, of in ((0.025, found.lapse_low), (0.5, found.lapse), (0.975, found.lapse_high)):
        assert of[0] == pytest.approx(beta(1, 4).ppf(share * beta(1, 4).cdf(0.4)), abs=0.003)
    if link == "logistic":
        low, high = LEVELS.min() - 3.9 / 3, LEVELS.max() + 3.9 / 3
        assert found.threshold_low[0] == pytest.approx(low + 0.025 * (high - low), abs=0.02)
        assert found.threshold_high[0] == pytest.approx(high - 0.025 * (high - low), abs=0.02)


@pytest.mark.parametrize("answers", [8, 80, 1500])
@pytest.mark.parametrize("link", ["weibull", "logistic"])
def test_posteriors_hold_what_is_drawn_from_their_prior_as_often_as_they_say(link, answers):
    """Of 400 workers at .9, with three standard errors on either side."""
    rng, n_workers, lapse_max = np.random.default_rng(answers), 400, 0.4
    x = np.array([0.2, 0.5, 1.0, 2.0, 4.0])
    place, slope = (
        rng.uniform(*one, n_workers) for one in psychometric._whole_box(x, 0.4, link)[:2]
    )
    lapse = (drawn := rng.beta(1, 4, 100 * n_workers))[drawn < lapse_max][:n_workers]
    scale, slope = (np.exp(place) if link == "weibull" else place), np.exp(slope)
    share = psychometric._share(x, *(one[:, None] for one in (scale, slope, lapse)), 0.5, link)
    n = rng.multinomial(answers, np.full(5, 0.2), size=n_workers)
    found = psychometric_posterior(
        x, rng.binomial(n, share), n, lapse_max=lapse_max, link=link, level=0.9
    )
    half = scale * np.log(2) ** (1 / slope) if link == "weibull" else scale
    for true, low, high in (
        (half, found.threshold_low, found.threshold_high),
        (lapse, found.lapse_low, found.lapse_high),
    ):
        assert np.mean((low <= true) & (true <= high)) == pytest.approx(0.9, abs=0.045)


def exact_ends(right, n):
    """Oracle: ends of a threshold's 95 % interval, and its median, by sums on a very fine grid about it."""
    box = psychometric._whole_box(LEVELS, 0.06, "weibull")
    for cells in ((60, 24, 12), (60, 40, 16), (100, 60, 24)):
        grid = psychometric._Grid.of(box, cells, right, n, LEVELS, np.ones(8), 0.5, "weibull")
        marginals = (grid.weight[0].max(axis=one) for one in ((1, 2), (0, 2), (0, 1)))
        kept = [np.flatnonzero(side > 1e-7 * side.max())[[0, -1]] for side in marginals]
        box = np.clip(
            box[:, :1] + (np.array(kept) + np.array([-1, 2])) * grid.cell()[:, None],
            box[:, :1],
            box[:, 1:],
        )
    return [float(one[0]) for one in grid.summary(0.95, "weibull")[:3]]


@pytest.mark.parametrize("each", [40, 150, 600])
def test_intervals_of_thresholds_are_as_wide_as_on_a_very_fine_grid(each):
    rng = np.random.default_rng(each)
    n = np.full((6, 8), float(each))
    scale, slope = np.geomspace(0.8, 1.4, 6)[:, None], np.array([1.3, 3.5] * 3)[:, None]
    right = rng.binomial(each, 0.5 + 0.48 * (1 - np.exp(-((LEVELS / scale) ** slope)))).astype(
        float
    )
    found = psychometric_posterior(LEVELS, right, n)
    exact = np.array([exact_ends(right[[row]], n[[row]]) for row in range(6)])
    width = exact[:, 2] - exact[:, 1]
    assert (found.threshold_high - found.threshold_low) / width == pytest.approx(1, abs=0.06)
    assert np.median((found.threshold_high - found.threshold_low) / width) == pytest.approx(
        1, abs=0.02
    )
    assert (np.abs(found.threshold - exact[:, 0]) <= 0.06 * width).all()
