import dataclasses

import numpy as np
import pytest

from learners.selection.per_candidate import PerCandidateValidation, generalized_scores
from learners.selection.public_split import STEPS, split_rows
from learners.selection.stability import StabilityValidation, score_sensitivity
from privacy.mechanism import Mechanism
from privacy.mechanisms import covering_scale
from tests.learners.scripted_noise import ScriptedNoise, SilentNoise
from tests.learners.selection.test_rivals import some_query

SELECTION = StabilityValidation((10.0, 0.1, 1.0), 0.6, 0.3, norm_bound=3.0, n_classes=2)


def test_no_neighbour_moves_a_generalized_score_by_more_than_one(rng):
    for _ in range(200):
        score, sensitivity = rng.uniform(-1, 0, 5), rng.uniform(0.01, 0.3, 5)
        moved = score + sensitivity * rng.uniform(-1, 1, 5)
        change = generalized_scores(score, sensitivity, epsilon=0.5) - generalized_scores(
            moved, sensitivity, epsilon=0.5
        )
        assert np.abs(change).max() <= 1 + 1e-9


def test_with_equal_sensitivities_the_best_score_wins(rng):
    score = rng.uniform(-1, 0, 6)
    normed = generalized_scores(score, np.full(6, 0.2), epsilon=1.0)
    assert normed.argmax() == score.argmax()
    assert normed.max() == 0


def test_a_stable_candidate_is_favoured():
    normed = generalized_scores(np.array([-0.1, -0.2]), np.array([0.5, 0.01]), epsilon=1.0)
    assert normed.argmax() == 1


def test_the_choice_is_that_of_the_largest_generalized_score_plus_twice_the_noise(rng):
    mechanism, query = PerCandidateValidation(SELECTION), some_query(rng)
    rows = split_rows(query, 3.0, 2)
    score = np.array(
        [rows.score(rows.train(c, epsilon=0.6, noise=SilentNoise())) for c in SELECTION.candidates]
    )
    beta = np.array(
        [
            score_sensitivity((c,), epsilon_train=0.6, n_train=60, n_validation=20, columns=3,
                              n_problems=1)
            for c in SELECTION.candidates
        ]
    )  # fmt: skip
    normed = generalized_scores(score, beta, epsilon=0.3)
    best, second = np.argsort(normed)[::-1][:2]
    assert mechanism.draw(query, SilentNoise())["chosen"] == best
    steps = np.rint(normed * STEPS).astype(int)
    needed = int(steps[best] - steps[second])
    for more, chosen in [(-1, best), (0, second)]:
        script = [needed + more if k == second else 0 for k in range(3)]
        noise = ScriptedNoise(script, last=bool(second > best))
        assert mechanism.draw(query, noise)["chosen"] == chosen
        assert noise.scales == [covering_scale(2 * (STEPS + 1), 0.3)]


def test_the_cost_is_that_of_the_selection(rng):
    query, mechanism = some_query(rng), PerCandidateValidation(SELECTION)
    assert isinstance(mechanism, Mechanism)
    assert mechanism.event(query).cost() == SELECTION.event(query).cost()
    assert mechanism.event(query) != SELECTION.event(query)
    with pytest.raises(ValueError, match="must be"):
        dataclasses.replace(SELECTION, epsilon_select=0.0)
