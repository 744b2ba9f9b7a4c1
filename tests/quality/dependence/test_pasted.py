"""Pasted answers: those who paste are found, those who are merely right are not."""

import numpy as np
import pytest

from quality import CrowdLabels, encode, pasted_answers, regular_assignment, simulate_crowd
from quality.dependence import pasted


def crowd_of(
    seed: int, share: float, n_pasters: int = 12
) -> tuple[CrowdLabels, np.ndarray, np.ndarray]:
    """Forty workers, some of whom paste a share of their labels from a model right on .7."""
    rng = np.random.default_rng(seed)
    rows = regular_assignment(n_tasks=400, n_workers=40, labels_per_task=5, rng=rng)
    truth = rng.integers(3, size=400)
    crowd = simulate_crowd(rows, truth, n_classes=3, adversaries={}, rng=rng)
    model = np.where(rng.random(400) < 0.7, truth, (truth + rng.integers(1, 3, 400)) % 3)
    pastes = (crowd.worker < n_pasters) & (rng.random(len(crowd.task)) < share)
    label = np.where(pastes, model[crowd.task], crowd.label)
    return encode(crowd.worker, crowd.task, label, classes=range(3)), model, truth


def test_those_who_paste_nine_tenths_are_flagged_and_nobody_else() -> None:
    labels, model, _ = crowd_of(0, 0.9)
    found = pasted_answers(labels, model)
    assert found.flagged[:12].mean() > 0.8
    assert not found.flagged[12:].any()
    assert found.share[:12].mean() == pytest.approx(0.9, abs=0.1)
    assert found.evidence[:12].min() > found.evidence[12:].max()


def test_agreement_with_a_model_that_is_right_is_no_evidence() -> None:
    labels, _, truth = crowd_of(1, 0.0)
    found = pasted_answers(labels, truth)
    assert not found.flagged.any()


def test_the_truth_is_found_although_a_third_paste() -> None:
    labels, model, truth = crowd_of(2, 1.0)
    found = pasted_answers(labels, model)
    vote = labels.counts().argmax(axis=1)
    assert np.mean(found.posterior.argmax(axis=1) == truth) > np.mean(vote == truth)


def test_pasters_are_found_without_any_reference() -> None:
    labels, _, _ = crowd_of(3, 0.9)
    found = pasted_answers(labels)
    assert found.flagged[:12].mean() > 0.8
    assert not found.flagged[12:].any()
    assert np.isnan(found.like_reference)


def test_another_models_labels_do_no_harm_and_the_same_ones_are_recognised() -> None:
    labels, model, truth = crowd_of(5, 0.9)
    rng = np.random.default_rng(6)
    other = np.where(rng.random(400) < 0.7, truth, rng.integers(3, size=400))
    alone = pasted_answers(labels)
    by_other, by_same = (pasted_answers(labels, one, alone=alone) for one in (other, model))
    for found in (by_other, by_same):
        assert found.evidence[:12].min() > found.evidence[12:].max()
    assert by_same.like_reference > 0.85
    assert by_other.like_reference < 0.6


def test_workers_of_one_style_who_meet_on_no_task_are_not_flagged() -> None:
    """Six workers, one for every part of the tasks, confuse classes alike; nobody pastes."""
    labels, _, truth = crowd_of(7, 0.0)
    part = np.arange(400) % 6  # which of the six labels a task
    odd = np.where(truth == 2, 1, truth)  # she sees no third class
    worker = np.concatenate([labels.worker + 6, part])
    task = np.concatenate([labels.task, np.arange(400)])
    given = np.concatenate([labels.label, odd])
    found = pasted_answers(encode(worker, task, given, classes=range(3)))
    assert not found.flagged.any()


def test_what_was_found_without_a_reference_serves_with_one() -> None:
    labels, model, _ = crowd_of(8, 0.8)
    at_once = pasted_answers(labels, model)
    later = pasted_answers(labels, model, alone=pasted_answers(labels))
    assert (later.evidence == at_once.evidence).all()


def test_a_reference_that_was_asked_nothing_says_nothing() -> None:
    labels, _, _ = crowd_of(3, 0.9)
    alone, empty = pasted_answers(labels), pasted_answers(labels, np.full(400, -1))
    assert (empty.flagged == alone.flagged).all()
    assert empty.evidence == pytest.approx(alone.evidence, abs=0.1)


@pytest.mark.parametrize("n_workers", [2, 3, 4])
def test_of_four_workers_or_fewer_nobody_is_flagged_without_a_reference(n_workers: int) -> None:
    rng = np.random.default_rng(n_workers)
    truth = rng.integers(3, size=300)
    model = np.where(rng.random(300) < 0.6, truth, rng.integers(3, size=300))
    minds = [model, *[truth] * (n_workers - 1)]
    given = [np.where(rng.random(300) < 0.9, mind, rng.integers(3, size=300)) for mind in minds]
    who, task = np.repeat(np.arange(n_workers), 300), np.tile(np.arange(300), n_workers)
    labels = encode(who, task, np.concatenate(given), classes=range(3))
    found = pasted_answers(labels)
    assert not found.flagged.any()
    assert not found.evidence.any()
    assert not found.share.any()
    if n_workers > 2:  # the same labels tell with the model's
        assert np.flatnonzero(pasted_answers(labels, model).flagged).tolist() == [0]


def test_a_workers_own_label_is_not_used_to_judge_it() -> None:
    """The chances of a label, by both answers of its task without what the label itself says of them."""
    rng = np.random.default_rng(0)
    labels = encode(["ann", "bob", "cy"], [1, 1, 1], [0, 1, 2], classes=range(3))
    crowd = pasted._Crowd(labels)
    prior = rng.dirichlet(np.ones(9)).reshape(1, 3, 3)  # of truth and source
    found = []
    for own in rng.dirichlet(np.ones(3), size=(2, 2)):  # of ann alone: two rows of other chances
        alone = np.log(np.vstack([own[0], np.full((2, 3), 0.25)]))
        together = np.log(np.vstack([own[1], np.full((2, 3), 0.5)]))
        joint = prior * np.exp(alone.sum(axis=0))[:, np.newaxis] * np.exp(together.sum(axis=0))
        chances = pasted._predicted(crowd, joint / joint.sum(), alone, together, np.ones((3, 3)))
        found.append([chances[0][0], chances[1][0]])
    np.testing.assert_allclose(found[0], found[1])


def test_the_same_bytes_on_every_run() -> None:
    labels, model, _ = crowd_of(7, 0.9)
    one, other = pasted_answers(labels, model), pasted_answers(labels, model)
    assert one.evidence.tobytes() == other.evidence.tobytes()
    assert one.posterior.tobytes() == other.posterior.tobytes()


def test_names_play_no_part() -> None:
    labels, model, _ = crowd_of(4, 0.8)
    names, codes = np.random.default_rng(0).permutation(40), np.array([1, 2, 0])
    renamed = encode(names[labels.worker], labels.task, codes[labels.label], classes=range(3))
    one, other = pasted_answers(labels, model), pasted_answers(renamed, codes[model])
    assert other.share[names] == pytest.approx(one.share, abs=1e-6)


@pytest.mark.refusal
@pytest.mark.parametrize(
    ("reference", "message"),
    [
        (np.zeros(3, dtype=int), "reference must be 400 class codes"),
        (np.full(400, 0.5), "reference must be 400 class codes"),
        (np.full(400, 3), "reference must be class codes from -1 to 2"),
    ],
)
def test_a_reference_that_is_no_classes_is_refused(reference: np.ndarray, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        pasted_answers(crowd_of(0, 0.5)[0], reference)


def test_a_table_without_labels_is_refused() -> None:
    nobody = encode(["ann"], [1], ["a"], classes=["a", "b"]).keep_workers(np.zeros(1, dtype=bool))
    with pytest.raises(ValueError, match="labels must be of one task or more"):
        pasted_answers(nobody)


def test_more_pairs_of_classes_than_memory_holds_are_refused() -> None:
    """A hundred thousand labels of a thousand classes took 700 GB and a raw MemoryError."""
    task, worker = np.divmod(np.arange(100_000), 5)
    labels = encode(worker, task, task % 1000)
    with pytest.raises(
        ValueError, match="at most 268,435,456, got 100,000 labels of 20,000 tasks and"
    ):
        pasted_answers(labels)


@pytest.mark.long
@pytest.mark.parametrize(("n_workers", "n_classes"), [(5, 5), (6, 5), (8, 5), (12, 6)])
def test_few_honest_workers_of_many_classes_are_hardly_ever_flagged(
    n_workers: int, n_classes: int
) -> None:
    """The unknown source follows the errors of two of them; with an evidence of 6 a tenth or more were."""
    flagged = []
    for seed in range(200, 206):
        rng = np.random.default_rng(seed)
        rows = regular_assignment(n_tasks=300, n_workers=n_workers, labels_per_task=3, rng=rng)
        truth = rng.integers(n_classes, size=300)
        crowd = simulate_crowd(rows, truth, n_classes=n_classes, adversaries={}, rng=rng)
        labels = encode(crowd.worker, crowd.task, crowd.label, classes=range(n_classes))
        model = np.where(rng.random(300) < 0.7, truth, rng.integers(n_classes, size=300))
        alone = pasted_answers(labels)
        flagged += [alone.flagged.mean(), pasted_answers(labels, model, alone=alone).flagged.mean()]
    assert np.mean(flagged) <= 0.05
