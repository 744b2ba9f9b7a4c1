"""crowd-kit's BinaryRelevance: its labels, and its aggregators where they belong to one object."""

import pandas as pd
import pytest
from sklearn.base import clone

from flows.crowdkit import BinaryRelevance, DawidSkene, MajorityVote, Wawa
from quality import LabelError

# the example of crowd-kit's documentation
SEEN = pd.DataFrame(
    [
        ["t1", "w1", ["house", "tree"]],
        ["t1", "w2", ["house"]],
        ["t1", "w3", ["house", "tree", "grass"]],
        ["t2", "w1", ["car"]],
        ["t2", "w2", ["car", "human"]],
        ["t2", "w3", ["train"]],
    ],
    columns=["task", "worker", "label"],
)


@pytest.mark.parametrize("base", [None, MajorityVote(), DawidSkene(n_iter=10)])
def test_labels_are_crowd_kits(base) -> None:
    """Golden: crowd-kit 1.4.2 on the example of its documentation, with all three."""
    found = BinaryRelevance(base).fit_predict(SEEN)
    assert found.to_dict() == {"t1": ["house", "tree"], "t2": ["car"]}
    assert (found.index.name, found.name) == ("task", "agg_label")


def test_aggregators_belong_to_one_object() -> None:
    one = BinaryRelevance().fit(SEEN)
    other = BinaryRelevance(DawidSkene(n_iter=3)).fit(SEEN[SEEN["task"] == "t2"])
    assert set(one.aggregators_) == {"car", "grass", "house", "human", "train", "tree"}
    assert set(other.aggregators_) == {"car", "human", "train"}
    assert other.aggregators_["car"].n_iter == 3
    assert one.aggregators_["car"].labels_.to_dict() == {"t1": 0, "t2": 1}


def test_a_task_of_which_nothing_holds_has_an_empty_list() -> None:
    frame = pd.DataFrame({"task": [1, 1, 2], "worker": [1, 2, 1], "label": [[], [], ["x"]]})
    assert BinaryRelevance().fit_predict(frame).to_dict() == {1: [], 2: ["x"]}


def test_every_aggregator_answers_of_each_class() -> None:
    """Wawa's labels come from its prediction, not from its fit."""
    assert BinaryRelevance(Wawa()).fit_predict(SEEN).equals(BinaryRelevance().fit_predict(SEEN))


def test_no_answers_are_no_labels() -> None:
    fit = BinaryRelevance().fit(SEEN[:0])
    assert (fit.labels_.to_dict(), fit.aggregators_) == ({}, {})


def test_mistakes_are_named() -> None:
    with pytest.raises(LabelError, match="column 'label'"):
        BinaryRelevance().fit(SEEN.drop(columns="label"))
    with pytest.raises(LabelError, match="data must have one column 'label'"):
        BinaryRelevance().fit(pd.concat([SEEN, SEEN[["label"]]], axis=1))
    with pytest.raises(LabelError, match="got one str at row 0"):
        BinaryRelevance().fit(SEEN.assign(label="house"))


def test_parameters_are_scikit_learns() -> None:
    copy = clone(BinaryRelevance(DawidSkene(n_iter=7)))
    assert copy.base_aggregator.n_iter == 7
