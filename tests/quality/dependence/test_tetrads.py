"""Likeness to a reference: a lone paster leaves the tetrad, skill and common knowledge do not."""

import numpy as np
import pytest

from quality.dependence.tetrads import likeness

SURE = 6.0  # evidence at which `pasted_answers` flags


def draw(
    rng: np.random.Generator, mind: np.ndarray, share: float, n_classes: int = 3
) -> np.ndarray:
    """Return answers that are a mind's on a share of the tasks, and guessed on the others."""
    return np.where(rng.random(len(mind)) < share, mind, rng.integers(n_classes, size=len(mind)))


def crowd(seed: int, n_workers: int, pasted: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return labels, of which the first worker's are pasted, of two models that err alike."""
    rng = np.random.default_rng([seed, n_workers])
    truth = rng.integers(3, size=400)
    common = draw(rng, truth, 0.6)
    model, other = draw(rng, common, 0.85), draw(rng, common, 0.85)
    table = np.stack([draw(rng, truth, skill) for skill in rng.uniform(0.5, 0.9, n_workers)])
    table[0] = np.where(rng.random(400) < pasted, model, table[0])
    return table, model, other


@pytest.mark.parametrize("n_workers", [3, 4])
def test_a_lone_paster_is_told_by_another_models_labels(n_workers: int) -> None:
    found = [
        likeness(table, other, n_classes=3).evidence
        for table, _, other in (crowd(seed, n_workers, 0.9) for seed in range(20))
    ]
    assert np.mean([evidence.argmax() == 0 for evidence in found]) >= 0.95
    assert np.mean([evidence[0] >= SURE for evidence in found]) > 0.5
    assert not any((evidence[1:] >= SURE).any() for evidence in found)


@pytest.mark.parametrize("n_workers", [3, 4])
def test_honest_people_of_unlike_skill_are_as_rarely_suspected_as_p_values_say(
    n_workers: int,
) -> None:
    evidence = np.concatenate(
        [
            likeness(table, other, n_classes=3).evidence
            for table, _, other in (crowd(seed, n_workers, 0.0) for seed in range(100))
        ]
    )
    for p_value, normal in ((0.1, 1.282), (0.05, 1.645), (0.01, 2.326)):
        assert np.mean(evidence >= normal**2) <= p_value
    assert np.mean(evidence > 0) > 0.2  # she who happens to be liker than others


def test_the_share_is_what_was_pasted_where_the_reference_is_the_model() -> None:
    for seed in range(5):
        table, model, _ = crowd(seed, 3, 0.9)
        share = likeness(table, model, n_classes=3).share
        assert share[0] == pytest.approx(0.9, abs=0.08)
        assert share[1:].max() < 0.15


def test_a_reference_that_shares_no_mistake_with_the_model_cannot_tell() -> None:
    """Such a paster is an honest worker who errs as the model does, to the likelihood."""
    evidence = []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        truth = rng.integers(3, size=400)
        table = np.stack([draw(rng, truth, share) for share in (0.6, 0.8, 0.8)])
        evidence.append(likeness(table, draw(rng, truth, 0.6), n_classes=3).evidence)
    first = np.mean([one.argmax() == 0 for one in evidence])
    assert 0.1 < first < 0.6
    assert np.mean(np.array(evidence) >= SURE) < 0.02


def test_what_cannot_be_compared_is_no_evidence() -> None:
    table, _, other = crowd(0, 4, 0.9)
    apart = np.where(np.arange(400) % 4 == np.arange(4)[:, np.newaxis], table, -1)
    for one, reference in (
        (table[:2], other), (table[:1], other), (apart, other), (table, np.full(400, -1)),
    ):  # fmt: skip
        found = likeness(one, reference, n_classes=3)
        assert found.evidence.tolist() == found.share.tolist() == [0.0] * len(one)


def test_tasks_without_a_reference_play_no_part() -> None:
    table, _, other = crowd(1, 3, 0.9)
    half = np.where(np.arange(400) < 200, other, -1)
    one, cut = (
        likeness(labels, reference, n_classes=3)
        for labels, reference in ((table, half), (table[:, :200], other[:200]))
    )
    assert one.evidence.tolist() == cut.evidence.tolist()
