"""A shrinking crowd against the same numbers of a table made anew."""

from random import Random

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from quality import CrowdLabels, majority_vote, soft_penalty
from quality.reports.agreement import worker_agreement
from quality.reputation.filtering import ShrinkingCrowd
from tests.quality.strategies import crowds

QUICK = settings(max_examples=40, deadline=None, derandomize=True)


@QUICK
@given(crowds(), st.randoms(use_true_random=False), st.integers(0, 3))
def test_penalties_and_agreement_are_to_the_bit_those_of_a_new_table(
    labels: CrowdLabels, random: Random, first_asked: int
) -> None:
    crowd, order = ShrinkingCrowd(labels), list(range(labels.n_workers))
    random.shuffle(order)
    for n_gone, worker in enumerate(order):
        if n_gone >= first_asked:  # sums begun late are as good as those begun at once
            kept = labels.keep_workers(crowd.keep)
            agreement = worker_agreement(kept, majority_vote(kept).label)
            assert crowd.soft_penalty().tobytes() == soft_penalty(kept).tobytes()
            assert np.array_equal(
                crowd.agreement()[crowd.keep], agreement[crowd.keep], equal_nan=True
            )
        crowd.remove(worker)


@QUICK
@given(crowds(), st.integers(0, 5))
def test_the_table_and_the_labels_left_are_those_of_the_workers_left(
    labels: CrowdLabels, place: int
) -> None:
    crowd, worker = ShrinkingCrowd(labels), place % labels.n_workers
    crowd.remove(worker)
    kept = labels.keep_workers(np.arange(labels.n_workers) != worker)
    assert crowd.table().worker.tobytes() == kept.worker.tobytes()
    tasks = crowd.tasks_of(worker)
    assert tasks.tolist() == labels.task[labels.worker == worker].tolist()
    assert np.array_equal(crowd.labels_left(tasks), np.diff(kept.task_start)[tasks])
