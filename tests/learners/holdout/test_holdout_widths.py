import math

import pytest

from learners.holdout.advice import holdout_widths


@pytest.mark.parametrize(
    ("n", "n_questions", "budget", "fixed", "described", "published"),
    [
        (10**4, 1000, 1, 0.023, 0.035, 0.210),
        (10**4, 1000, 10, 0.023, 0.079, 0.685),
        (10**4, 1000, 100, 0.023, 0.200, 1.001),
        (10**5, 1000, 10, 0.007, 0.026, 0.217),
        (10**5, 1000, 100, 0.007, 0.068, 0.711),
    ],
)
def test_widths_at_practical_sizes(n, n_questions, budget, fixed, described, published):
    """Fixed questions and description length to the third digit; below the published private bound.

    The description's published count also has the questions after the last overfit answer, which are
    not answered here: it is ours with one more.
    """
    knobs = {"n_questions": n_questions, "level": 0.95}
    more = {one.kind: one.width for one in holdout_widths(n, budget=budget + 1, **knobs)}
    assert more["description length"] == pytest.approx(described, abs=1.1e-3)
    widths = {one.kind: one.width for one in holdout_widths(n, budget=budget, **knobs)}
    assert widths["fixed questions"] == pytest.approx(fixed, abs=6e-4)
    assert widths["description length"] < more["description length"]
    assert widths["Thresholdout"] < published
    folds = math.sqrt(math.log(2 * n_questions * budget / 0.05) / (2 * (n // budget)))
    assert widths["fresh folds"] == pytest.approx(folds)


def test_the_narrowest_adaptive_holdout_comes_first():
    for n, budget in [(10**4, 1), (10**4, 30), (10**6, 500)]:
        *adaptive, fixed = holdout_widths(n, n_questions=2000, budget=budget, level=0.9)
        assert [one.width for one in adaptive] == sorted(one.width for one in adaptive)
        assert (fixed.kind, fixed.adaptive) == ("fixed questions", False)
        assert fixed.width <= adaptive[0].width
        assert [one.kind for one in adaptive if one.private] == ["Thresholdout"]


@pytest.mark.parametrize(
    "arguments",
    [{"n_questions": 0}, {"budget": 0}, {"budget": 100}, {"level": 0.0}, {"level": math.nan}],
)
def test_arguments_out_of_range_are_refused(arguments):
    with pytest.raises(ValueError, match="must be"):
        holdout_widths(**({"n": 100, "n_questions": 10, "budget": 2, "level": 0.9} | arguments))
