"""The pool of aggregators for very many classes."""

import numpy as np

from quality import encode, majority_vote
from quality.choice.automatic import CANDIDATES
from quality.choice.held_out_labels import right_of
from quality.choice.named_pool import NAMED_CANDIDATES, _log_chance, auto_of_named
from quality.labels import CrowdLabels
from quality.many_classes import majority_of_named


def crowd(n_classes: int = 400) -> tuple[CrowdLabels, np.ndarray]:
    """Five good workers and five who guess."""
    rng = np.random.default_rng(0)
    worker, task = np.divmod(np.arange(3_000), 300)
    truth = rng.integers(n_classes, size=300)
    right = rng.random(3_000) < np.where(worker < 5, 0.8, 0.1)
    label = np.where(right, truth[task], rng.integers(n_classes, size=3_000))
    return encode(worker, task, label, classes=range(n_classes)), truth


def test_the_pool_is_a_mean_by_weight_and_names_what_it_left_out() -> None:
    labels, truth = crowd()
    found = auto_of_named(labels)
    assert np.isclose(sum(score.weight for score in found.scores), 1.0)
    table = found.posterior[np.arange(300)]
    parts = [
        score.weight * NAMED_CANDIDATES[score.name](labels).posterior[np.arange(300)]
        for score in found.scores
        if score.weight
    ]
    np.testing.assert_allclose(table.max(axis=1), np.sum(parts, axis=0).max(axis=1), atol=1e-6)
    assert found.posterior.is_sound()
    assert {*found.left_out, *NAMED_CANDIDATES} == set(CANDIDATES)
    assert np.mean(found.label == truth) >= np.mean(majority_vote(labels).label == truth)
    assert (found.reliability[:5] > 0.6).all()
    assert (found.reliability[5:] < 0.3).all()


def test_a_held_out_label_is_predicted_by_the_crowd_s_share_of_right_ones() -> None:
    labels, _ = crowd(7)
    out = np.arange(labels.n_labels) % 10 == 0
    posterior = majority_of_named(labels.keep_labels(~out)).posterior
    table = posterior[np.arange(300)]
    p = table[labels.task, labels.label]
    right = (p[~out].sum() + 1) / (np.count_nonzero(~out) + 7)
    even = np.full((7, 7), (1 - right) / 6)
    np.fill_diagonal(even, right)
    expected = np.log((table[labels.task[out]] @ even)[np.arange(out.sum()), labels.label[out]])
    found = _log_chance(out, right_of(labels, posterior), 7)
    np.testing.assert_allclose(found, expected)


def test_a_candidate_that_is_clearly_behind_weighs_nothing_and_runs_are_the_same() -> None:
    labels, _ = crowd()
    found, again = auto_of_named(labels), auto_of_named(labels)
    behind = [score for score in found.scores if score.behind > 6 * score.behind_error > 0]
    assert behind  # exp(-6 ** 2 / 2) is below a millionth
    assert all(score.weight == 0 for score in behind)
    everything = np.arange(300)
    assert found.posterior[everything].tobytes() == again.posterior[everything].tobytes()
    assert found.scores == again.scores


def test_groups_vote_once() -> None:
    labels, _ = crowd(7)
    groups = np.where(np.arange(10) >= 5, 0, -1)
    found = auto_of_named(labels, groups=groups)
    assert np.unique(found.reliability[5:]).size == 1
