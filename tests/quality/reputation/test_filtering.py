"""The iterative filter: its order, its stop rules, and what it refuses to do.

A shrinking crowd against the same numbers of a table made anew.
"""

from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quality import (
    CrowdLabels,
    encode,
    encode_gold,
    filter_workers,
    hard_level,
    hard_penalty,
    majority_vote,
    simulate_campaign,
    soft_penalty,
)
from quality.reports.agreement import worker_agreement
from quality.reputation.filtering import ShrinkingCrowd
from tests.quality.labels.strategies import crowds

QUICK = settings(max_examples=60, deadline=None, derandomize=True)


def slow_filter(labels: CrowdLabels, n_workers: int, least: int) -> list[int]:
    """The paper's loop, literally: penalty, agreement, code; refuse; remove; again."""
    keep, refused, removed = np.ones(labels.n_workers, dtype=bool), set(), []
    while len(removed) < n_workers:
        kept = labels.keep_workers(keep)
        penalty, majority = soft_penalty(kept), majority_vote(kept).label

        def rank(worker: int, kept=kept, penalty=penalty, majority=majority):  # type: ignore[no-untyped-def]
            mine = kept.worker == worker
            agreement = np.mean(kept.label[mine] == majority[kept.task[mine]])
            return (-round(penalty[worker], 9), agreement, worker)

        choice = [w for w in range(labels.n_workers) if keep[w] and w not in refused]
        choice = sorted((w for w in choice if penalty[w] > 0), key=rank)
        if not choice:
            break
        keep[choice[0]] = False
        left = np.diff(labels.keep_workers(keep).task_start)
        touched = np.unique(kept.task[kept.worker == choice[0]])
        if (left[touched] < least).any():
            keep[choice[0]] = True
            refused.add(choice[0])
        else:
            removed.append(choice[0])
    return removed


@QUICK
@given(crowds(), st.integers(0, 4), st.integers(0, 3))
def test_it_is_the_slow_filter(labels: CrowdLabels, n_workers: int, least: int) -> None:
    filtered = filter_workers(labels, n_workers=n_workers, min_labels_per_task=least)
    assert slow_filter(labels, n_workers, least) == filtered.removed.tolist()
    assert sorted(filtered.removed.tolist()) == np.flatnonzero(~filtered.keep).tolist()


def test_of_thousands_of_workers_the_highest_is_that_of_a_look_at_everybody() -> None:
    """They are ranked by blocks: whoever meets a worker that goes, in whatever block, is ranked anew."""
    rng, n_workers = np.random.default_rng(0), 5_000
    worker, task = rng.permutation(np.arange(20_000) % n_workers), np.repeat(np.arange(5_000), 4)
    once = np.unique(task * n_workers + worker, return_index=True)[1]
    label = np.where(rng.random(20_000) < 0.8, task % 3, rng.integers(3, size=20_000))
    crowd = ShrinkingCrowd(encode(worker[once], task[once], label[once]))
    judged = np.ones(n_workers, dtype=bool)
    for gone in rng.permutation(n_workers)[:300].tolist():
        penalty = np.where(judged, crowd.soft_penalty(), 0.0)
        worst = np.flatnonzero(penalty >= penalty.max() - 1e-12)
        expected = worst[np.argmin(crowd.agreement()[worst])]
        assert crowd.highest(judged) == (expected, penalty[expected])
        judged[[expected, gone]] = False
        crowd.remove(gone)


@QUICK
@given(crowds(), st.integers(1, 3))
def test_no_task_falls_below_the_least_number_of_labels(labels: CrowdLabels, least: int) -> None:
    filtered = filter_workers(labels, n_workers=6, min_labels_per_task=least)
    before = np.diff(labels.task_start)
    after = np.diff(labels.keep_workers(filtered.keep).task_start)
    assert ((after >= least) | (after == before)).all()


def test_penalties_are_recomputed_after_every_removal() -> None:
    """Cy is alone on tasks 1 to 3; once she is gone, only task 4 is in conflict."""
    labels = encode(
        ["ann", "bob", "cy"] * 3 + ["ann", "bob", "dan"],
        [1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4],
        list("xxyxxyxxy") + list("xxy"),
    )
    filtered = filter_workers(labels, n_workers=2)
    assert labels.workers[filtered.removed].tolist() == ["cy", "dan"]
    assert filtered.removed_penalty.tolist() == [1.0, 1.0]


def test_equal_penalties_lower_agreement_goes_first_then_code_order() -> None:
    """Two tasks of one label each way; a tied majority counts as x, so bob and dan disagree."""
    rows = [("ann", 1, "x"), ("bob", 1, "y"), ("cy", 2, "x"), ("dan", 2, "y")]
    labels = encode(*zip(*rows, strict=True))
    assert soft_penalty(labels).tolist() == [1.0] * 4
    filtered = filter_workers(labels, n_workers=2)
    assert labels.workers[filtered.removed].tolist() == ["bob", "dan"]
    filtered = filter_workers(labels, n_workers=1, penalty=lambda table: np.ones(table.n_workers))
    assert labels.workers[filtered.removed].tolist() == ["bob"]
    assert filtered.criterion == "<lambda>"


def test_a_refusal_is_recorded_and_the_next_worker_is_tried() -> None:
    """Cy has the highest penalty and is the only one on task 9; ann is next."""
    labels = encode(
        ["ann", "bob", "dan", "cy", "ann", "bob", "dan", "cy"],
        [1, 1, 1, 1, 2, 2, 2, 9],
        list("xxxyyxxx"),
    )
    filtered = filter_workers(labels, n_workers=1)
    assert labels.workers[filtered.refused].tolist() == ["cy"]
    assert filtered.refused_penalty.tolist() == [1.0]
    assert filtered.refused_reason == (
        "1 task would be left with fewer than 1 label, the first is 9",
    )
    assert labels.workers[filtered.removed].tolist() == ["ann"]
    free = filter_workers(labels, n_workers=1, min_labels_per_task=0)
    assert labels.workers[free.removed].tolist() == ["cy"]


def test_it_stops_when_nobody_left_has_a_penalty() -> None:
    labels = encode(["ann", "bob", "cy"] * 2, [1, 1, 1, 2, 2, 2], list("xxyyyx"))
    filtered = filter_workers(labels, n_workers=3)
    assert labels.workers[filtered.removed].tolist() == ["cy"]
    assert filtered.stopped == "1 of 3 removals made: nobody else to remove"


@pytest.mark.parametrize(("fraction", "removals"), [(0.0, 0), (0.29, 29), (0.15, 15), (0.999, 99)])
def test_a_fraction_is_of_the_workers_with_labels_rounded_down(
    fraction: float, removals: int
) -> None:
    worker = np.repeat(np.arange(101), 2)
    labels = encode(worker, np.tile([0, 1], 101), np.arange(202) % 3)
    labels = labels.keep_workers(np.arange(101) < 100)
    filtered = filter_workers(labels, fraction=fraction, min_labels_per_task=0)
    assert filtered.stopped.split(":")[0].endswith(f"of {removals} removals made")


def test_the_hard_penalty_can_lead_the_filter(rng: np.random.Generator) -> None:
    campaign = simulate_campaign(n_tasks=300, n_workers=60, n_gold=10, rng=rng)
    labels = encode(campaign.label_worker, campaign.label_task, campaign.label)
    filtered = filter_workers(labels, penalty=hard_penalty, n_workers=5)
    assert filtered.criterion == "hard penalty"
    first = filtered.removed[0] if not len(filtered.refused) else filtered.refused[0]
    assert hard_penalty(labels)[first] == hard_penalty(labels).max()


def test_led_by_the_soft_penalty_it_is_the_one_that_computes_anew(
    rng: np.random.Generator,
) -> None:
    """A function that is not `soft_penalty` itself is called anew on every table."""
    for _ in range(8):
        n_tasks, n_workers = int(rng.integers(20, 300)), int(rng.integers(30, 60))
        campaign = simulate_campaign(n_tasks=n_tasks, n_workers=n_workers, n_gold=10, rng=rng)
        labels = encode(campaign.label_worker, campaign.label_task, campaign.label)
        rule = {"n_workers": n_workers // 2, "min_labels_per_task": int(rng.integers(3))}
        one = filter_workers(labels, **rule)
        other = filter_workers(labels, penalty=lambda table: soft_penalty(table), **rule)
        for name in ("keep", "removed", "removed_penalty", "refused", "refused_penalty"):
            assert getattr(one, name).tobytes() == getattr(other, name).tobytes()
        assert (one.refused_reason, one.stopped) == (other.refused_reason, other.stopped)


def test_it_finds_the_adversaries_of_the_campaign_and_helps_the_majority(
    rng: np.random.Generator,
) -> None:
    """24 of 120 are adversaries, so 24 removals at random would find about 5 of them."""
    campaign = simulate_campaign(rng=rng)
    labels = encode(campaign.label_worker, campaign.label_task, campaign.label)
    filtered = filter_workers(labels, n_workers=24)
    assert np.count_nonzero(campaign.worker_kind[filtered.removed] != "honest") >= 18
    truth = encode_gold(labels, campaign.tasks, campaign.truth)
    kept = labels.keep_workers(filtered.keep)
    right = [np.mean(majority_vote(table).label == truth) for table in (labels, kept)]
    assert right[1] > right[0] + 0.01


def test_the_result_is_the_same_on_every_run_and_read_only(rng: np.random.Generator) -> None:
    campaign = simulate_campaign(n_tasks=300, n_workers=60, n_gold=10, rng=rng)
    labels = encode(campaign.label_worker, campaign.label_task, campaign.label)
    one, other = (filter_workers(labels, fraction=0.2) for _ in range(2))
    for name in ("keep", "removed", "removed_penalty", "refused", "refused_penalty"):
        assert getattr(one, name).tobytes() == getattr(other, name).tobytes()
        assert not getattr(one, name).flags.writeable


@pytest.mark.parametrize(
    ("stop", "message"),
    [
        ({}, "exactly one of n_workers and fraction"),
        ({"n_workers": 1, "fraction": 0.1}, "exactly one of n_workers and fraction"),
        ({"n_workers": -1}, "n_workers must be >= 0, got n_workers=-1"),
        ({"fraction": 1.5}, r"fraction must be in \[0, 1\], got fraction=1.5"),
        ({"fraction": float("nan")}, r"fraction must be in \[0, 1\], got fraction=nan"),
        ({"n_workers": 1, "min_labels_per_task": -1}, "min_labels_per_task must be >= 0"),
    ],
)
def test_stop_rules_out_of_range_are_refused(stop: dict[str, float], message: str) -> None:
    labels = encode(["a", "b"], [1, 1], ["x", "y"])
    with pytest.raises(ValueError, match=message):
        filter_workers(labels, **stop)  # type: ignore[arg-type]


def test_progress_is_told_of_every_removal_and_changes_nothing() -> None:
    rng = np.random.default_rng(4)
    worker, task = np.divmod(np.arange(400), 40)
    labels = encode(worker, task, rng.integers(2, size=400))
    for penalty in (soft_penalty, hard_level):
        told: list[tuple[str, int, int]] = []
        watched = filter_workers(
            labels,
            penalty=penalty,
            n_workers=3,
            progress=lambda *step, told=told: told.append(step),
        )
        assert told == [("removals", done, 3) for done in (1, 2, 3)]
        silent = filter_workers(labels, penalty=penalty, n_workers=3)
        assert watched.removed.tobytes() == silent.removed.tobytes()


@pytest.mark.refusal
@pytest.mark.parametrize(
    ("penalty", "message"),
    [
        (lambda _: np.ones(2), r"penalty must return 3 numbers, one per worker, got shape \(2,\)"),
        (
            lambda _: np.array([1.0, np.nan, 1.0]),
            "a number for each worker with labels, got NaN for bob",
        ),
    ],
)
def test_a_penalty_that_is_no_number_per_worker_is_refused(penalty: Any, message: str) -> None:
    labels = encode(["ann", "bob", "cy"] * 2, [1, 1, 1, 2, 2, 2], list("xyxxxy"))
    with pytest.raises(ValueError, match=message):
        filter_workers(labels, penalty=penalty, n_workers=1)


def test_a_penalty_need_not_be_known_of_workers_who_are_gone() -> None:
    labels = encode(["ann", "bob", "cy"] * 2, [1, 1, 1, 2, 2, 2], list("xyxxxy"))

    def labelled(table: CrowdLabels) -> np.ndarray:
        return np.where(np.diff(table.worker_start) > 0, 1.0, np.nan)

    given = {"n_workers": 2, "min_labels_per_task": 0}
    assert len(filter_workers(labels, penalty=labelled, **given).removed) == 2


FEW = settings(max_examples=40, deadline=None, derandomize=True)


@FEW
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


@FEW
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
