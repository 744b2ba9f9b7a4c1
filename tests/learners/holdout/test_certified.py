import dataclasses
import itertools
import math

import numpy as np
import pytest

from learners.bounds.clopper_pearson import clopper_pearson_bound, largest_rate
from learners.holdout.certified import CertifiedHoldout, CertifiedState

HOLDOUT = CertifiedHoldout(n=120, threshold=0.05, grid=0.1, n_folds=1, per_fold=3, level=0.9)
START = CertifiedState()


def wrong(count, n=120):
    return np.arange(n) < count


def test_it_agrees_up_to_the_threshold_and_rounds_beyond():
    _, answer = HOLDOUT.answer(START, train=0.2, loss=wrong(30))
    assert (answer.status, answer.value) == ("agrees", 0.2)
    _, answer = HOLDOUT.answer(START, train=0.2, loss=wrong(31))
    assert (answer.status, answer.value) == ("overfit", pytest.approx(0.3))


def test_the_first_bound_is_clopper_pearson_at_its_share():
    """The share of the first question: 1 / (n_folds per_fold 1 2); its limit is answer + threshold."""
    _, answer = HOLDOUT.answer(START, train=0.2, loss=wrong(20))
    expected = clopper_pearson_bound(30, 120, level=1 - 0.1 / 6)
    assert answer.bound.value == pytest.approx(expected.value)
    assert answer.bound.level == 0.9


def test_losses_that_are_not_boolean_are_bounded_in_kl():
    _, answer = HOLDOUT.answer(START, train=0.2, loss=wrong(20).astype(float))
    assert answer.bound.value == pytest.approx(largest_rate(0.25, math.log(60) / 120))


def test_the_bound_depends_on_the_answer_alone():
    bounds = {HOLDOUT.answer(START, train=0.2, loss=wrong(count))[1].bound for count in range(31)}
    assert len(bounds) == 1


@pytest.mark.parametrize(("grid", "values"), [(0.1, 11), (0.3, 4), (1.0, 2)])
def test_an_overfit_answer_is_one_of_as_many_as_the_grid_has(grid, values):
    """The second question's share: level, questions 2 * 3, one fold, one overfit answer among `values`."""
    holdout = dataclasses.replace(HOLDOUT, grid=grid)
    state = CertifiedState(fold=0, asked=1, overfitted=1)
    bound = holdout.answer(state, train=0.0, loss=np.zeros(120))[1].bound
    log_tail = math.log(0.1 / (3 * 2 * 3)) - math.log(values)
    assert bound.value == pytest.approx(largest_rate(0.05, -log_tail / 120))


def test_the_shares_of_all_questions_that_could_be_asked_sum_to_less_than_one():
    """Every history of 6 questions to one fold: agreed to, or one of v values."""
    holdout = dataclasses.replace(HOLDOUT, grid=0.5, per_fold=2)
    values, total = 3, 0.0
    for i in range(1, 7):
        for history in itertools.product(range(values + 1), repeat=i - 1):
            overfitted = sum(one > 0 for one in history)
            if overfitted < holdout.per_fold:
                state = CertifiedState(fold=0, asked=i - 1, overfitted=overfitted)
                bound = holdout.answer(state, train=0.0, loss=np.zeros(120, float))[1].bound
                # kl without errors: 1 - exp(-kl), so the share can be read from the bound's value
                limit = 0.05
                kl = limit * math.log(limit / bound.value) + (1 - limit) * math.log(
                    (1 - limit) / (1 - bound.value)
                )
                total += math.exp(-120 * kl) / 0.1
    assert 0.4 < total <= 1


def test_a_fold_is_left_after_its_overfit_answers_and_then_it_shuts():
    holdout = dataclasses.replace(HOLDOUT, n_folds=2, per_fold=2)
    state, seen = START, []
    for train in (0.9, 0.0, 0.9, 0.0, 0.0, 0.0, 0.0):
        state, answer = holdout.answer(state, train=train, loss=np.arange(120) % 4 < 2)
        seen.append((answer.status, state.fold))
    assert [one for one, _ in seen] == [
        "agrees", "overfit", "agrees", "overfit", "overfit", "overfit", "exhausted",
    ]  # fmt: skip
    assert [fold for _, fold in seen] == [0, 0, 0, 1, 1, 2, 2]
    assert answer.value is None
    assert not answer.bound.applies


def test_folds_deal_every_record_once():
    holdout = dataclasses.replace(HOLDOUT, n_folds=7, per_fold=1, threshold=0.0)
    found = 0.0
    state = START
    for fold in range(7):
        loss = np.arange(120) % 7 == fold
        state, answer = holdout.answer(state, train=0.0, loss=loss)
        found += answer.value
    assert found == 7.0


@pytest.mark.parametrize(("n_folds", "per_fold"), [(1, 26), (26, 1)])
def test_an_analyst_who_seeks_out_lucky_records_does_not_break_it(n_folds, per_fold):
    """The last of 26 questions is a vote of the others by their answers, true loss 1/2 always.

    300 seeded holdouts at level .8: more than .2 + .12 of them fail with a chance below 1e-6. The
    plain Clopper-Pearson bound of the last answer fails in more, where the records are the same.
    """
    n, failed, plain = 520, 0, 0
    holdout = CertifiedHoldout(
        n=n, threshold=0.0, grid=0.01, n_folds=n_folds, per_fold=per_fold, level=0.8
    )
    for seed in range(300):
        loss = np.random.default_rng(seed).integers(2, size=(25, n)).astype(bool)
        state, weight, broken = START, np.zeros(25), False
        for asked in range(25):
            state, answer = holdout.answer(state, train=0.0, loss=loss[asked])
            broken |= answer.bound.value < 0.5
            weight[asked] = 0.5 - answer.value
        vote = (weight @ (loss - 0.5)) > 0
        state, answer = holdout.answer(state, train=0.0, loss=vote)
        failed += broken or answer.bound.value < 0.5
        size = n // n_folds
        plain += clopper_pearson_bound(round(answer.value * size), size, level=0.8).value < 0.5
    assert failed / 300 <= 0.32
    if n_folds == 1:
        assert plain / 300 > 0.32


@pytest.mark.parametrize(
    "knobs",
    [
        {"threshold": -0.1},
        {"threshold": math.nan},
        {"grid": 0.0},
        {"n_folds": 0},
        {"n_folds": 121},
        {"per_fold": 0},
        pytest.param({"per_fold": 1.5}, marks=pytest.mark.refusal),
        pytest.param({"n_folds": 2.0}, marks=pytest.mark.refusal),
        pytest.param({"n": 120.5}, marks=pytest.mark.refusal),
        {"level": 1.0},
    ],
)
def test_knobs_out_of_range_are_refused(knobs):
    with pytest.raises(ValueError, match="must be"):
        dataclasses.replace(HOLDOUT, **knobs)


@pytest.mark.refusal
def test_numbers_of_numpys_are_read_as_numbers():
    knobs = {"n": np.int64(120), "n_folds": np.int32(1), "per_fold": np.int64(3)}
    found = dataclasses.replace(HOLDOUT, **knobs).answer(START, train=0.1, loss=wrong(20))
    assert found == HOLDOUT.answer(START, train=0.1, loss=wrong(20))


@pytest.mark.parametrize(
    "state",
    [
        (-1, 0, 0),
        (0, 0, 1),
        (0, -2, -2),
        pytest.param((0, math.nan, 0), marks=pytest.mark.refusal),
    ],
)
def test_a_state_that_contradicts_itself_cannot_be_built(state):
    with pytest.raises(ValueError, match="overfitted of 0 .. asked, got CertifiedState"):
        CertifiedState(*state)


def test_a_state_of_more_overfit_answers_than_a_fold_has_is_refused():
    """The fold would never be left, and its bounds not hold."""
    state = CertifiedState(asked=9, overfitted=3)
    with pytest.raises(ValueError, match="fewer overfit answers than per_fold=3, got"):
        HOLDOUT.answer(state, train=0.1, loss=wrong(20))


def test_losses_that_do_not_fit_are_refused():
    for train, loss in [(1.1, wrong(3)), (math.nan, wrong(3)), (0.1, wrong(3, n=119))]:
        with pytest.raises(ValueError, match="must be"):
            HOLDOUT.answer(START, train=train, loss=loss)


@pytest.mark.parametrize(
    ("odd", "read"), [(1.5, 1.0), (math.inf, 1.0), (-0.5, 0.0), (-math.inf, 0.0), (math.nan, 0.0)]
)
def test_no_loss_is_refused_for_its_value(odd, read):
    loss = wrong(20).astype(float)
    found, expected = (
        HOLDOUT.answer(START, train=0.1, loss=np.append(loss[:-1], last)) for last in (odd, read)
    )
    assert found == expected


@pytest.mark.refusal
def test_an_array_of_objects_is_refused_and_no_value_is_told():
    loss = np.array([0.0] * 119 + ["secret"], dtype=object)
    with pytest.raises(ValueError, match="loss must be an array of numbers") as refusal:
        HOLDOUT.answer(START, train=0.1, loss=loss)
    assert "secret" not in str(refusal.value)


@pytest.mark.refusal
def test_a_list_of_losses_is_refused_in_a_sentence():
    with pytest.raises(TypeError, match="loss must be a NumPy array, got list"):
        HOLDOUT.answer(START, train=0.1, loss=[0.0] * 120)
