"""The alt-test beside the authors' procedure, person by person."""

import math

import numpy as np
import pytest
from scipy.stats import false_discovery_control, ttest_1samp

from quality import CrowdLabels, alt_test, encode


def crowd(
    rng: np.random.Generator, size: int, n_people: int = 5, skill: float = 0.6
) -> CrowdLabels:
    """People and two models, the better of which is right on nine tasks of ten; a fifth of labels missing."""
    n_tasks, n = 120, n_people + 2
    truth = np.repeat(rng.integers(size, size=n_tasks), n)
    right = np.tile([*[skill] * n_people, 0.9, 0.3], n_tasks)
    label = np.where(rng.random(n_tasks * n) < right, truth, rng.integers(size, size=n_tasks * n))
    there = rng.random(n_tasks * n) < 0.8
    names = np.tile([*[f"p{p}" for p in range(n_people)], "good", "poor"], n_tasks)
    return encode(
        names[there], np.repeat(np.arange(n_tasks), n)[there], label[there], classes=range(size)
    )


def slow(
    labels: CrowdLabels, model: int, is_model: np.ndarray, epsilon: float, values: np.ndarray | None
) -> tuple[list[float], list[float], float]:
    """The steps of Calderon et al. (2025), section 3, one person and one task at a time."""
    given = {
        (int(w), int(t)): int(c)
        for w, t, c in zip(labels.worker, labels.task, labels.label, strict=True)
    }
    people = np.flatnonzero(~is_model)

    def score(answer: int, others: list[int]) -> float:
        if values is None:
            return float(np.mean([answer == other for other in others]))
        return -float(np.sqrt(np.mean([(values[answer] - values[other]) ** 2 for other in others])))

    p_values, advantages = [], []
    for person in people:
        hers, its = [], []
        for task in range(labels.n_tasks):
            others = [given[p, task] for p in people if p != person and (p, task) in given]
            if (person, task) in given and (model, task) in given and others:
                she, it = score(given[person, task], others), score(given[model, task], others)
                hers.append(she >= it)
                its.append(it >= she)
        if len(hers) >= 30:
            difference = np.array(hers, dtype=float) - its
            p_values.append(ttest_1samp(difference, epsilon, alternative="less").pvalue)
            advantages.append(float(np.mean(its)))
    won = false_discovery_control(p_values, method="by") <= 0.05
    return p_values, advantages, float(won.mean())


@pytest.mark.parametrize("scores", [False, True])
def test_it_is_the_procedure_of_the_paper(scores: bool) -> None:
    """Oracle: the paper's steps with SciPy's t test and Benjamini-Yekutieli's rule; two models."""
    rng = np.random.default_rng(4)
    for size in (2, 3, 5):
        labels = crowd(rng, size)
        is_model = np.isin(labels.workers, ["good", "poor"])
        values = np.arange(size) * 1.0 if scores else None
        for found in alt_test(labels, is_model, epsilon=0.15, values=values):
            p_values, advantages, rate = slow(labels, found.model, is_model, 0.15, values)
            assert found.p_value == pytest.approx(p_values, abs=1e-9)
            assert found.advantage == pytest.approx(advantages)
            assert found.winning_rate == rate
            assert found.advantage_probability == pytest.approx(np.mean(advantages))


@pytest.mark.parametrize("shift", [2_000.0, 1e6, -1e9])
def test_numbers_may_be_shifted_and_scaled(shift: float) -> None:
    labels = crowd(np.random.default_rng(3), 4)
    is_model = np.isin(labels.workers, ["good", "poor"])
    numbers = np.array([1.0, 2.0, 4.0, 5.0])
    for one, other in zip(
        alt_test(labels, is_model, values=numbers),
        alt_test(labels, is_model, values=shift + 0.25 * numbers),
        strict=True,
    ):
        assert one.advantage.tolist() == other.advantage.tolist()
        assert one.p_value.tolist() == other.p_value.tolist()
        assert 0 < one.advantage_probability < 1


def test_classes_may_be_too_many_for_a_table_of_all_tasks() -> None:
    """The same labels, and thirty thousand classes that nobody gave: twelve gigabytes of counts."""
    labels = crowd(np.random.default_rng(5), 3)
    wide = CrowdLabels.from_codes(
        labels.worker, labels.task, labels.label, workers=labels.workers,
        tasks=np.arange(100_000), classes=np.arange(30_000),
    )  # fmt: skip
    is_model = np.isin(labels.workers, ["good", "poor"])
    for one, other in zip(alt_test(labels, is_model), alt_test(wide, is_model), strict=True):
        assert one.p_value.tolist() == other.p_value.tolist()
        assert one.advantage.tolist() == other.advantage.tolist()


def test_a_model_better_than_people_passes_and_a_worse_one_does_not() -> None:
    labels = crowd(np.random.default_rng(1), 3)
    good, poor = alt_test(labels, np.isin(labels.workers, ["good", "poor"]))
    assert (labels.workers[good.model], labels.workers[poor.model]) == ("good", "poor")
    assert good.passed
    assert not poor.passed
    assert good.advantage_probability > poor.advantage_probability


def test_other_models_do_not_change_a_models_result() -> None:
    labels = crowd(np.random.default_rng(2), 3)
    both = alt_test(labels, np.isin(labels.workers, ["good", "poor"]))[0]
    without = labels.keep_workers(labels.workers != "poor")
    alone = alt_test(without, labels.workers == "good")[0]
    assert both.p_value.tolist() == alone.p_value.tolist()
    assert both.winning_rate == alone.winning_rate


def test_people_with_few_tasks_are_left_out_and_none_at_all_is_undefined() -> None:
    labels = encode(["a", "b", "m"] * 5, np.repeat(np.arange(5), 3), list("xxx" * 5))
    found = alt_test(labels, labels.workers == "m")[0]
    assert len(found.person) == 0
    assert math.isnan(found.winning_rate)
    assert not found.passed


def test_full_agreement_wins_only_with_a_margin() -> None:
    """Without variation the t test is replaced by its limit: 0 is below any epsilon above 0."""
    labels = encode(["a", "b", "m"] * 40, np.repeat(np.arange(40), 3), list("xxx" * 40))
    assert alt_test(labels, labels.workers == "m", epsilon=0.1)[0].p_value.tolist() == [0, 0]
    assert alt_test(labels, labels.workers == "m", epsilon=0.0)[0].p_value.tolist() == [1, 1]


@pytest.mark.refusal
@pytest.mark.parametrize(
    ("is_model", "given", "sentence"),
    [
        ([False, False, True], {"epsilon": 1.0}, "epsilon must be in"),
        ([False, False, True], {"min_tasks": 1}, "min_tasks >= 2"),
        ([False, False, False], {}, "at least one model"),
        ([True, True, True], {}, "at least one person"),
        ([True], {}, "is_model must be 3 truth values"),
    ],
)
def test_what_is_refused(is_model: list, given: dict, sentence: str) -> None:
    labels = encode(["a", "b", "m"], [1, 1, 1], list("xyx"))
    with pytest.raises(ValueError, match=sentence):
        alt_test(labels, np.array(is_model), **given)
