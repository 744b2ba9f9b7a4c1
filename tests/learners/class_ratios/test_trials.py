from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from learners import learn_ratios
from learners.class_ratios.bags import LabelledBags
from learners.class_ratios.kernel_matching import KernelMatching
from learners.class_ratios.trials import Trial, preferred, refitted_trial

METHOD = KernelMatching(bandwidth=1.0)


@given(
    error=st.lists(st.floats(0, 1), min_size=2, max_size=8),
    more=st.floats(0.01, 1),
    expected=st.floats(0.001, 1),
)
@settings(deadline=None, derandomize=True, max_examples=50)
def test_a_method_that_errs_more_on_every_bag_by_the_same_is_not_taken(error, more, expected):
    better = Trial(METHOD, np.array(error), 1.0)
    worse = Trial(METHOD, np.array(error) + more, expected)
    assert preferred([worse, better]) is better


def test_between_methods_that_few_bags_cannot_tell_apart_the_more_precise_is_taken():
    lucky = Trial(METHOD, np.array([0.01, 0.08, 0.02, 0.04]), 0.06)
    precise = Trial(METHOD, np.array([0.05, 0.02, 0.06, 0.03]), 0.04)
    assert preferred([lucky, precise]) is precise


def test_of_equal_methods_the_first_is_taken():
    first, second = (Trial(METHOD, np.array([0.1, 0.2]), 0.1) for _ in range(2))
    assert preferred([first, second]) is first


def test_a_bag_without_evidence_has_no_say():
    """The last bag's errors are noise: with it the other method would be taken."""
    weight = np.array([9.0, 9.0, 9.0, 0.0])
    good = Trial(METHOD, np.array([0.02, 0.03, 0.02, 0.9]), 0.06, weight)
    poor = Trial(METHOD, np.array([0.22, 0.23, 0.22, 0.0]), 0.04, weight)
    assert preferred([poor, good]) is good
    assert good.mean_error == pytest.approx(0.07 / 3)
    unweighted = [Trial(METHOD, one.error, one.expected_error) for one in (poor, good)]
    assert preferred(unweighted) is unweighted[0]


@dataclass(frozen=True)
class Watching:
    """Kernel matching that writes down what it is shown."""

    shown: list
    name: ClassVar[str] = "watching"

    def trial(self, labelled):
        return refitted_trial(self, labelled)

    def fit(self, labelled):
        self.shown.append({float(point[0, 0]) for point in labelled.points})
        return METHOD.fit(labelled)


def test_no_point_of_a_bag_left_out_takes_part_in_the_training_that_predicts_it():
    rng = np.random.default_rng(0)
    points = [rng.normal(size=(30, 1)) for _ in range(4)]
    share = np.array([0.1, 0.4, 0.6, 0.9])
    labelled = LabelledBags.of(points, np.column_stack([1 - share, share]))
    method = Watching([])
    trial = method.trial(labelled)
    every = {float(point[0, 0]) for point in points}
    assert len(trial.error) == 4
    assert sorted(next(iter(every - shown)) for shown in method.shown) == sorted(every)


@pytest.mark.refusal
def test_methods_that_cannot_be_tried_are_refused_in_a_sentence():
    bags, proportions = [np.arange(8.0).reshape(4, 2)] * 2, np.eye(2)
    for methods, said in (
        ([KernelMatching], "got the class KernelMatching: write KernelMatching()"),
        (KernelMatching(), "got KernelMatching: wrap it in a list"),
        (KernelMatching, "wrap it in a list"),
        ([], "got none"),
        (["kernel mean matching"], "must be methods such as KernelMatching(), got str"),
    ):
        with pytest.raises(ValueError, match=r"^methods must be ") as refused:
            learn_ratios(bags, proportions, methods=methods)
        assert said in str(refused.value)
