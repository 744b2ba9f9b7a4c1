"""Decisions: drift-diffusion has closed forms, and the leaky accumulator figures of a prototype."""

import numpy as np
import pytest

from learners.genesis import decide_many, diffusion_law
from learners.genesis.crowd.decisions import MAX_STEPS, STEP, decide_once


@pytest.mark.parametrize(("drift", "bound"), [(0.5, 1.0), (1.0, 1.0), (2.0, 0.8), (0.0, 1.0)])
def test_drift_diffusion_has_its_closed_form(drift, bound, rng):
    """100,000 draws: .008 is five standard errors of an accuracy, 1.5 % are five of a time: 1e-6."""
    law = diffusion_law(drift=drift, bound=bound)
    made = decide_many(100_000, options=2, drift=drift, bound=bound, relative=True, rng=rng)
    assert abs((made.label == 0).mean() - law.accuracy) <= 0.008
    assert abs(made.seconds.mean() / law.seconds - 1) <= 0.015


def test_the_law_scales_with_its_noise():
    assert diffusion_law(drift=1.0, bound=2.0, noise=2.0).accuracy == pytest.approx(
        0.7311, abs=1e-4
    )
    assert diffusion_law(drift=0.0, bound=2.0, noise=2.0).seconds == 1.0


def test_without_the_correction_decisions_are_late(rng):
    """E[T] is 16 % too long at v = .5, a = 1 and steps of .02."""
    law = diffusion_law(drift=0.5, bound=1.0)
    made = decide_many(
        40_000, options=2, drift=0.5, bound=1.0, relative=True, corrected=False, rng=rng
    )
    assert 1.12 < made.seconds.mean() / law.seconds < 1.2


@pytest.mark.parametrize("favourite", [-1, 2])
def test_a_bias_for_none_of_the_two_options_changes_no_relative_decision(favourite):
    def made(key, favourite, bias):
        return decide_once(
            key, 2, 0, 0.5, favourite, bias, 0.0, 1.0, 1.0, 0.0, 0.0, relative=True, deadline=60.0
        )

    for key in range(50):
        assert made(key, favourite, 2.0) == made(key, favourite, 0.0)
    shares = [np.mean([made(key, one, 2.0)[0] == one for key in range(300)]) for one in (0, 1)]
    assert min(shares) > 0.8


@pytest.mark.parametrize(
    ("drift", "accuracy", "seconds"),
    [(0.0, 0.251, 1.155), (0.5, 0.561, 0.921), (1.0, 0.791, 0.701), (2.0, 0.962, 0.435)],
)
def test_the_leaky_accumulator_of_four_options(drift, accuracy, seconds, rng):
    """A prototype without the correction, at steps of .01."""
    made = decide_many(
        100_000, options=4, drift=drift, bound=1.0, noise=0.5, leak=0.2, inhibition=0.2, base=0.5,
        step=0.01, corrected=False, rng=rng,
    )  # fmt: skip
    assert abs((made.label == 0).mean() - accuracy) <= 0.01
    assert abs(made.seconds.mean() / seconds - 1) <= 0.02


@pytest.mark.parametrize(
    ("bound", "accuracy", "seconds"),
    [(0.4, 0.760, 0.22), (0.7, 0.848, 0.45), (1.0, 0.906, 0.69), (1.5, 0.962, 1.13)],
)
def test_a_nearer_bound_trades_accuracy_for_speed(bound, accuracy, seconds, rng):
    made = decide_many(
        100_000, options=2, drift=1.0, bound=bound, noise=0.5, leak=0.2, inhibition=0.2, base=0.5,
        step=0.01, corrected=False, rng=rng,
    )  # fmt: skip
    assert abs((made.label == 0).mean() - accuracy) <= 0.01
    assert abs(made.seconds.mean() - seconds) <= 0.015


def test_the_correction_brings_the_accumulator_near_its_limit(rng):
    """Steps of a thousandth stand for the limit; times stay up to 3 % longer, accuracies agree."""
    given = {"options": 4, "bound": 1.0, "noise": 0.5, "leak": 0.2, "inhibition": 0.2, "base": 0.5}
    limit = decide_many(30_000, drift=1.0, step=0.001, rng=rng, **given)
    made = decide_many(100_000, drift=1.0, rng=rng, **given)
    assert abs((made.label == 0).mean() - (limit.label == 0).mean()) <= 0.02
    assert abs(made.seconds.mean() / limit.seconds.mean() - 1) <= 0.04


def test_an_infinite_deadline_waits_for_the_bound(rng):
    asked = {"options": 2, "drift": 1.0, "bound": 1.0, "relative": True}
    never, late = (
        decide_many(50, **asked, deadline=deadline, rng=np.random.default_rng(0)).seconds
        for deadline in (np.inf, 1e6)
    )
    np.testing.assert_array_equal(never, late)
    assert never.max() > 0.1


@pytest.mark.long
def test_a_bound_out_of_reach_ends_after_the_most_steps(rng):
    made = decide_many(
        1, options=2, drift=0.0, bound=1e9, leak=5.0, deadline=np.inf, corrected=False, rng=rng
    )
    assert made.seconds == pytest.approx(MAX_STEPS * STEP)


def test_a_deadline_takes_the_option_ahead(rng):
    made = decide_many(100, options=3, drift=0.0, bound=1e9, deadline=0.5, rng=rng)
    assert np.allclose(made.seconds, 0.5, atol=0.02)


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"options": 3, "relative": True}, "options must be 2"),
        ({"options": 2, "relative": True, "leak": 0.1}, "leak and inhibition must be 0 where"),
        (
            {"options": 2, "relative": True, "inhibition": 1.0},
            "leak and inhibition must be 0 where",
        ),
        ({"options": 2, "bound": 0.0}, "bound, noise, step and deadline must be > 0"),
        ({"options": 2, "deadline": np.nan}, "bound, noise, step and deadline must be > 0"),
        ({"options": 2, "drift": np.nan}, "drift, base, leak, inhibition and noise must be finite"),
        ({"options": 2, "noise": np.inf}, "drift, base, leak, inhibition and noise must be finite"),
        ({"options": 2, "step": np.inf}, "must be finite, and step, got .* step=inf"),
    ],
)
def test_a_wrong_number_is_refused(wrong, sentence, rng):
    with pytest.raises(ValueError, match=sentence):
        decide_many(1, **{"drift": 1.0, "bound": 1.0, **wrong}, rng=rng)
    with pytest.raises(ValueError, match="bound and noise must be > 0, and they and drift finite"):
        diffusion_law(drift=1.0, bound=-1.0)


@pytest.mark.parametrize("options", [2, 4])
@pytest.mark.parametrize("knobs", [{"bound": 0.01}, {"bound": 5.0, "deadline": 0.02}])
def test_without_drift_no_option_is_before_another(options, knobs, rng):
    """Where none is ahead of 0 the right one has no more than its share; six standard errors."""
    made = decide_many(20_000, options=options, drift=0.0, noise=0.5, rng=rng, **knobs)
    share = 1 / options
    assert abs((made.label == 0).mean() - share) < 6 * np.sqrt(share * (1 - share) / 20_000)


@pytest.mark.parametrize("drift", [-5e5, -1e-320, 1e-320, 5e5])
def test_the_law_has_its_limits(drift):
    law = diffusion_law(drift=drift, bound=1.0)
    assert law.accuracy == (0.5 if abs(drift) < 1 else float(drift > 0))
    assert law.seconds == (1.0 if abs(drift) < 1 else pytest.approx(1 / 5e5))


@pytest.mark.refusal
@pytest.mark.parametrize("wrong", [{"n": 2.5}, {"n": "3"}, {"n": -1}, {"options": 2.5}])
def test_numbers_of_decisions_and_options_are_whole(wrong, rng):
    """The last was an error of the compiler's, over a page."""
    with pytest.raises(ValueError, match="n and options must be whole and >= 0, got n="):
        decide_many(**{"n": 1, "options": 2, "drift": 1.0, "bound": 1.0, **wrong}, rng=rng)


@pytest.mark.parametrize(
    ("drift", "bound", "noise", "seconds"),
    [
        (1.0, 1e200, 1.0, 1e200),
        (1.0, 1.0, 1e-200, 1.0),
        (1e200, 1e200, 1.0, 1.0),
        (0.0, 1e-10, 1e-10, 1.0),
        (-3e-160, 1e-160, 1e-165, 1 / 3),
    ],
)
def test_the_law_holds_at_any_scale(drift, bound, noise, seconds):
    """Powers beyond the numbers were raised as errors of arithmetic."""
    law = diffusion_law(drift=drift, bound=bound, noise=noise)
    assert law.seconds == pytest.approx(seconds, rel=1e-12)
    assert law.accuracy == (0.5 if drift == 0 else float(drift > 0))


@pytest.mark.parametrize("wrong", [{"drift": np.nan}, {"bound": np.inf}, {"noise": np.inf}])
def test_the_law_asks_for_finite_numbers(wrong):
    with pytest.raises(ValueError, match="must be > 0, and they and drift finite, got bound="):
        diffusion_law(**{"drift": 1.0, "bound": 1.0, "noise": 1.0, **wrong})
