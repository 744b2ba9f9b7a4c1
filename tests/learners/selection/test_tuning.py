import dataclasses
import math

import numpy as np
import pytest

from learners.selection.public_split import MOVED, STEPS, choice, share_of
from learners.selection.stability import score_sensitivity
from learners.selection.tuning import tuning_advice
from privacy.accounting import covering_scale
from privacy.query import Query, Unit

MAGIC = {
    "candidates": tuple(float(one) for one in np.linspace(0.001, 1.0, 10)),
    "n_train": 15216,
    "n_validation": 1902,
    "columns": 11,
    "n_problems": 1,
    "gain": 0.1,
}


def test_on_magic_stability_cannot_tell_the_candidates_apart_and_repetition_can():
    """beta = .131 there: selection is random until epsilon is about 2."""
    for epsilon in (0.3, 0.5, 1.0):
        advice = tuning_advice(**MAGIC, epsilon=epsilon)
        assert advice.stability_shortfall == 1.0
        assert advice.repetition_shortfall < 0.1
        assert (advice.best, advice.mean_runs) == ("repetition", 171)


def test_tuning_is_advised_against_where_no_choice_can_win_the_gain_back():
    advice = tuning_advice(**{**MAGIC, "n_validation": 60}, epsilon=0.3)
    assert advice.best == "fixed"
    assert "whole epsilon 0.3" in advice.reason


def test_stability_is_advised_where_all_candidates_are_strong():
    advice = tuning_advice(**{**MAGIC, "candidates": (5.0, 1.0)}, epsilon=1.0)
    assert advice.best == "stability"


def test_a_smaller_gain_never_turns_a_fixed_one_into_a_choice():
    named = [tuning_advice(**{**MAGIC, "gain": gain}, epsilon=0.3).best == "fixed"
             for gain in (0.001, 0.01, 0.1, 1.0)]  # fmt: skip
    assert named == sorted(named, reverse=True)


def test_the_choice_by_stability_falls_short_by_no_more():
    """20,000 seeded choices among scores that are all just out of reach; 5 % and 5 standard errors."""
    candidates, epsilon = (5.0, 1.0, 2.0), 1.0
    advice = tuning_advice(**{**MAGIC, "candidates": candidates}, epsilon=epsilon)
    beta = score_sensitivity(candidates, epsilon_train=0.5, n_train=15216, n_validation=1902,
                             columns=11, n_problems=1)  # fmt: skip
    noise = 2 * beta * np.random.default_rng(0).exponential(1 / 0.5, size=(20_000, 3))
    worse = np.array([0.0, -1.0, -1.0]) * advice.stability_shortfall * (1 + 1e-9)
    fell_short = (noise + worse).argmax(axis=1) > 0
    assert 0 < fell_short.mean() <= 0.05 + 5 * math.sqrt(0.05 * 0.95 / 20_000)


def test_what_is_drawn_falls_short_with_a_chance_of_five_per_cent_and_no_more():
    """By the laws of the noise that is drawn, in whole steps; an exponential of the real mean gave 5.01 %."""
    epsilon = 1.0
    advice = tuning_advice(**{**MAGIC, "candidates": (5.0, 1.0, 2.0)}, epsilon=epsilon)
    beta = score_sensitivity(
        (5.0, 1.0, 2.0),
        epsilon_train=0.5,
        n_train=15216,
        n_validation=1902,
        columns=11,
        n_problems=1,
    )
    scores = Query("toy", "scores", np.zeros(3, dtype=np.int64), Unit.ROW, n=3, l1=math.inf)
    scale = choice(epsilon / 2).event(scores).parameters["scale"]
    beyond = advice.stability_shortfall * STEPS / beta - 1
    assert 3 * math.exp(-beyond / scale) == pytest.approx(0.05, rel=1e-9)

    scale = covering_scale(MOVED, share_of(epsilon, 3))
    beyond = math.floor((advice.repetition_shortfall * STEPS * 1902 - 1) / 2)
    both_ways = 2 * math.exp(-(beyond + 1) / scale) / (1 + math.exp(-1 / scale))
    assert 0.0499 < advice.mean_runs * both_ways <= 0.05


def test_the_advice_names_public_numbers_only():
    fields = {one.name for one in dataclasses.fields(tuning_advice(**MAGIC, epsilon=1.0))}
    assert fields == {"best", "stability_shortfall", "repetition_shortfall", "mean_runs", "reason"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"epsilon": 0.0}, "epsilon must"),
        ({"gain": 0.0}, "gain must"),
        ({"gain": math.nan}, "gain must"),
        ({"n_train": 0}, "n_train must"),
        ({"n_validation": 0}, "n_validation must"),
        ({"columns": 1}, "columns must"),
        ({"n_problems": 0}, "n_problems must"),
        ({"candidates": ()}, "candidates must"),
    ],
)
def test_arguments_out_of_range_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        tuning_advice(**({**MAGIC, "epsilon": 1.0} | arguments))
