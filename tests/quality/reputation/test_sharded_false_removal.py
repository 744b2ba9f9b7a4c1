"""The default filter on shards: the whole table's, wherever it is cut and however much is held at once."""

import numpy as np
import pytest
from hypothesis import given, settings

from quality import CrowdLabels, FilteredDishonest, encode, filter_dishonest
from quality.reputation import honest_null, honest_population, sharded_false_removal
from quality.reputation.sharded_false_removal import filter_dishonest_by_shards
from tests.quality.labels.strategies import crowds
from tests.quality.labels.test_shards import CUTS, cut_at
from tests.quality.reputation.test_honest_null import simulated

CUT_IN = {2: [0.3], 5: [0.1, 0.35, 0.6, 0.61]}
CLOSE = 1e-6  # what the sums of a whole distribution, of 24 powers, make of rounding in all rounds


def both(
    labels: CrowdLabels, places: list[float], **asked: float
) -> tuple[FilteredDishonest, FilteredDishonest]:
    """Of the shards and of the whole table, with the same random numbers."""
    found = filter_dishonest_by_shards(
        cut_at(labels, places), labels.tasks, rng=np.random.default_rng(3), **asked
    )
    return found, filter_dishonest(labels, rng=np.random.default_rng(3), **asked)


def check_same(found: FilteredDishonest, expected: FilteredDishonest) -> None:
    for name in ("keep", "removed", "refused", "removed_penalty", "refused_penalty"):
        assert getattr(found, name).tobytes() == getattr(expected, name).tobytes(), name
    for name in ("p_value", "removed_p_value", "refused_p_value", "level"):
        assert getattr(found, name) == pytest.approx(getattr(expected, name), abs=CLOSE), name
    assert (found.refused_reason, found.stopped) == (expected.refused_reason, expected.stopped)
    assert (found.worst_kept, found.worst_kept_reason) == (
        expected.worst_kept,
        expected.worst_kept_reason,
    )
    one, other = found.population, expected.population
    assert one.probability == pytest.approx(other.probability, abs=1e-12)
    assert one.adversaries == pytest.approx(other.adversaries, abs=1e-12)


def mixed(seed: int = 0, n_classes: int = 3) -> CrowdLabels:
    """60 workers of 24 labels each and three more of 100, of whom two guess; some of the others, too."""
    rng = np.random.default_rng(seed)
    labels, _ = simulated(
        seed, n_workers=60, n_tasks=240, n_classes=n_classes, adversaries={"random": 6, "malicious": 12}
    )  # fmt: skip
    of_task = np.argmax(
        [np.bincount(labels.task[labels.label == k], minlength=240) for k in range(n_classes)],
        axis=0,
    )
    worker, task, label = [labels.worker], [labels.task], [labels.label]
    for number in range(3):
        tasks = rng.choice(240, size=100, replace=False)
        guessed = rng.integers(n_classes, size=100)
        worker.append(np.full(100, 60 + number))
        task.append(tasks)
        label.append(of_task[tasks] if number == 0 else guessed)
    return encode(*(np.concatenate(column) for column in (worker, task, label)))


@pytest.mark.long
@pytest.mark.parametrize("n_shards", [2, 5])
@pytest.mark.parametrize("n_classes", [2, 4])
def test_the_same_workers_go_as_from_one_table(n_shards: int, n_classes: int) -> None:
    found, expected = both(mixed(n_classes=n_classes), CUT_IN[n_shards], false_removal_rate=0.2)
    assert len(expected.removed) > 5
    assert len(expected.level) > 2
    check_same(found, expected)


def test_a_crowd_looked_at_in_parts_is_judged_as_a_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """30 workers in a fit, in eights, 100 labels and two workers' moments at once, 14 of 9 labels drawn."""
    labels = mixed()
    monkeypatch.setattr(honest_population, "MAX_FITTED", 30)
    for module in (honest_null, sharded_false_removal):
        monkeypatch.setattr(module, "MAX_DRAWN", 14)
        monkeypatch.setattr(module, "MAX_LABELS", 9)
    monkeypatch.setattr(sharded_false_removal, "BLOCK_BITS", 3)
    monkeypatch.setattr(sharded_false_removal, "AT_ONCE", 100)
    monkeypatch.setattr(sharded_false_removal, "MANY_AT_ONCE", 2)
    found, expected = both(labels, CUT_IN[5])
    assert len(expected.removed) > 5
    check_same(found, expected)


def test_refusals_have_their_reasons_on_shards_too() -> None:
    found, expected = both(mixed(), CUT_IN[2], min_labels_per_task=6, false_removal_rate=0.2)
    assert len(expected.refused) > 0
    check_same(found, expected)


def test_an_honest_crowd_is_left_alone_on_shards_too() -> None:
    labels, _ = simulated(5)
    found, expected = both(labels, CUT_IN[2])
    assert not len(expected.removed)
    check_same(found, expected)


@settings(max_examples=12, deadline=None, derandomize=True)
@given(crowds(), CUTS)
def test_any_table_cut_anywhere_is_judged_as_a_whole(
    labels: CrowdLabels, places: list[float]
) -> None:
    """Tables of at most 36 labels, of one class and more; empty shards."""
    check_same(*both(labels, places, false_removal_rate=0.5))


@pytest.mark.refusal
def test_values_out_of_range_are_refused() -> None:
    labels, _ = simulated(5)
    with pytest.raises(ValueError, match="false_removal_rate must be in"):
        both(labels, CUT_IN[2], false_removal_rate=0.0)
