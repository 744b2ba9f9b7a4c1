import dataclasses
import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest

from learners.selection.rivals import RandomSelection, control_selection
from learners.selection.stability import split_rows
from privacy.mechanism import Mechanism
from tests.learners.scripted_noise import SeededNoise, SilentNoise
from tests.learners.selection.test_split_selection import some_query

RANDOM = RandomSelection((10.0, 0.1, 1.0), epsilon=0.9, norm_bound=3.0, n_classes=2)


def test_the_choice_is_uniform_and_does_not_look_at_validation_rows(rng):
    """600 draws of thirds: a deviation of 5.2 standard errors has a chance below 1e-6."""
    query, noise = some_query(rng, n=12), SeededNoise(1)
    drawn = Counter(RANDOM.draw(query, noise)["chosen"] for _ in range(600))
    assert all(abs(drawn[k] / 600 - 1 / 3) < 5.2 * math.sqrt(2 / 9 / 600) for k in range(3))
    rows = split_rows(query, 3.0, 2)
    moved = dataclasses.replace(rows, judge=-rows.judge)
    assert RANDOM.choose(rows, SeededNoise(2)) == RANDOM.choose(moved, SeededNoise(2))


def test_the_cost_is_epsilon(rng):
    assert RANDOM.event(some_query(rng)).cost().epsilon == Fraction(9, 10)


def test_control_takes_the_best_score_and_says_that_it_is_not_private(rng):
    rows = split_rows(some_query(rng), 3.0, 2)
    released = control_selection(RANDOM, rows, SilentNoise())
    score = [
        rows.score(rows.train(candidate, epsilon=0.9, noise=SilentNoise()))
        for candidate in RANDOM.candidates
    ]
    assert released["chosen"] == int(np.argmax(score))
    assert released["private"] is False
    assert not isinstance(control_selection, Mechanism)


@pytest.mark.parametrize("knobs", [{"candidates": (0.1, 0.1)}, {"epsilon": math.inf}])
def test_knobs_out_of_range_are_refused(knobs):
    with pytest.raises(ValueError, match="must be"):
        dataclasses.replace(RANDOM, **knobs)
