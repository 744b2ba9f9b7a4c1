import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score

from learners.holdout.metric_gate import Auc


def test_where_the_declaration_holds_it_is_the_area(rng):
    """Oracle: scikit-learn, with ties."""
    for _ in range(20):
        score, positive = rng.integers(6, size=50).astype(float), np.arange(50) % 3 == 0
        found = Auc(least_positive=17, least_negative=33).value(score, positive)
        assert found == pytest.approx(roc_auc_score(positive, score))


def test_where_it_does_not_the_value_is_below_the_area(rng):
    score, positive = rng.normal(size=50), np.arange(50) % 3 == 0
    area = roc_auc_score(positive, score)
    found = Auc(least_positive=34, least_negative=66).value(score, positive)
    assert found == pytest.approx(area / 4)


@settings(max_examples=300, deadline=None, derandomize=True)
@given(
    seed=st.integers(0, 10**6),
    n=st.integers(1, 9),
    least=st.tuples(st.integers(1, 6), st.integers(1, 6)),
)
def test_no_replacement_of_a_record_moves_it_by_more(seed, n, least):
    """Every class and rank that the first record could have instead."""
    rng = np.random.default_rng(seed)
    metric = Auc(*least)
    score, positive = rng.integers(5, size=n).astype(float), rng.integers(2, size=n) == 1
    before = metric.value(score, positive)
    assert 0 <= before <= 1
    for other in np.arange(-0.5, 5):
        for klass in (False, True):
            moved, changed = score.copy(), positive.copy()
            moved[0], changed[0] = other, klass
            assert abs(metric.value(moved, changed) - before) <= metric.sensitivity + 1e-12


def test_a_replaced_record_of_its_class_can_move_it_by_one_over_the_least():
    metric = Auc(least_positive=3, least_negative=2)
    positive = np.array([True, True, True, False, False])
    before = metric.value(np.array([2.0, 2, 2, 1, 1]), positive)
    assert before - metric.value(np.array([0.0, 2, 2, 1, 1]), positive) == pytest.approx(1 / 3)


def test_without_one_of_the_classes_it_is_zero():
    assert Auc(1, 1).value(np.arange(3.0), np.ones(3, bool)) == 0
    assert Auc(1, 1).value(np.arange(3.0), np.zeros(3, bool)) == 0


@pytest.mark.parametrize(
    "least", [(0, 1), (1, -2), pytest.param((1.5, 1), marks=pytest.mark.refusal)]
)
def test_declarations_that_are_no_numbers_of_records_are_refused(least):
    with pytest.raises(ValueError, match="must be a whole number"):
        Auc(*least)


def test_scores_without_an_order_are_refused():
    with pytest.raises(ValueError, match="score must be a number"):
        Auc(1, 1).value(np.array([0.5, math.nan]), np.array([True, False]))


@pytest.mark.refusal
def test_scores_and_classes_that_do_not_fit_are_refused():
    for score, positive in [(np.zeros(2), np.ones(3, bool)), (np.zeros(2), np.ones(2))]:
        with pytest.raises(ValueError, match="one boolean per record"):
            Auc(1, 1).value(score, positive)
