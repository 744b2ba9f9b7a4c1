"""crowd-kit's pairwise names: its numbers where its model is sound, and the likelihood it means."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import check_grad
from sklearn.base import clone

from flows.crowdkit import BradleyTerry, NoisyBradleyTerry
from flows.crowdkit.pairwise import _loss, _table
from quality import LabelError

COMPARED = pd.DataFrame(
    {
        "worker": list("ppqqrrpqrp"),
        "left": list("xyzxyzxyzx"),
        "right": list("yzxzxyyzxz"),
        "label": list("xyxxxyyzzx"),
    }
)


def test_scores_are_those_that_crowd_kits_iterations_approach() -> None:
    """Golden: crowd-kit 1.4.2, BradleyTerry(n_iter=100000) on `COMPARED`, with tol=0 and with tol=1e-15.

    With the second it ends after two iterations, as with any tolerance above 0.
    """
    found = BradleyTerry(n_iter=100).fit_predict(COMPARED)
    approached = {"x": 0.538776531941, "y": 0.29723896459, "z": 0.163984503468}
    assert found.to_dict() == pytest.approx(approached, abs=1e-9)
    stopped = pd.Series({"x": 0.513241557679, "y": 0.316848104485, "z": 0.169910337836})
    assert likelihood(found) > likelihood(stopped) + 0.005


def likelihood(score: pd.Series) -> float:
    """Log-likelihood of `COMPARED` by Bradley and Terry's formula."""
    met = score[COMPARED["left"]].to_numpy() + score[COMPARED["right"]].to_numpy()
    return float(np.log(score[COMPARED["label"]].to_numpy() / met).sum())


def test_an_item_is_not_compared_with_itself() -> None:
    again = COMPARED.assign(
        left=list("xyzxyzxyzz"), right=list("yzxzxyyzxz"), label=list("xyxxxyyzzz")
    )
    with pytest.raises(LabelError, match="left and right must differ, got z twice at row 9"):
        BradleyTerry(n_iter=100).fit(again)


def test_no_comparisons_are_no_scores() -> None:
    assert BradleyTerry(n_iter=1).fit_predict(COMPARED[:0]).empty


def test_results_have_crowd_kits_names() -> None:
    plain, noisy = BradleyTerry(n_iter=0).fit(COMPARED), NoisyBradleyTerry(n_iter=2).fit(COMPARED)
    assert plain.scores_.to_dict() == dict.fromkeys("xyz", 1 / 3)  # where crowd-kit starts
    assert (plain.scores_.name, noisy.scores_.name) == ("agg_score", "agg_score")
    assert (noisy.skills_.name, noisy.biases_.name) == ("skill", "bias")
    with pytest.raises(ValueError, match="n_iter must be >= 0"):
        BradleyTerry(n_iter=-1).fit(COMPARED)


def test_the_noisy_gradient_is_that_of_the_likelihood() -> None:
    table = _table(COMPARED, worker="worker")
    at = np.random.default_rng(0).normal(size=1 + 3 + 6)
    off = check_grad(lambda x: _loss(x, table, 0.1)[0], lambda x: _loss(x, table, 0.1)[1], at)
    assert off < 1e-5


def test_a_worker_who_always_says_left_has_little_skill_and_a_bias() -> None:
    rng = np.random.default_rng(0)
    score, n = np.linspace(-2, 2, 6), 1200
    left = rng.integers(6, size=n)
    right = (left + rng.integers(1, 6, n)) % 6
    worker = rng.integers(4, size=n)
    says_left = rng.random(n) < 1 / (1 + np.exp(score[right] - score[left]))
    label = np.where(says_left | (worker == 3), left, right)
    frame = pd.DataFrame({"worker": worker, "left": left, "right": right, "label": label})
    model = NoisyBradleyTerry().fit(frame)
    assert model.scores_.sort_values().index.tolist() == list(range(6))
    assert model.skills_[3] < 0.2 < 0.8 < model.skills_[:3].min()
    assert model.biases_[3] > 0.9


def test_parameters_are_scikit_learns() -> None:
    assert clone(NoisyBradleyTerry(tol=1e-3)).get_params()["tol"] == 1e-3
    assert clone(BradleyTerry(n_iter=7)).n_iter == 7


@pytest.mark.parametrize("estimator", [BradleyTerry(n_iter=10), NoisyBradleyTerry()])
def test_a_column_that_is_not_there_once_is_crowd_kits_key_error(estimator: Any) -> None:
    with pytest.raises(KeyError, match="data must have one column 'right'") as caught:
        estimator.fit(COMPARED.drop(columns="right"))
    assert isinstance(caught.value, LabelError)
    with pytest.raises(LabelError, match="data must have one column 'left'"):
        estimator.fit(pd.concat([COMPARED, COMPARED[["left"]]], axis=1))
    with pytest.raises(ValueError, match="data must be a pandas DataFrame, got NoneType"):
        estimator.fit(None)


@pytest.mark.parametrize(
    ("estimator", "name"),
    [
        (BradleyTerry(n_iter=3, tol=np.nan), "tol"),
        (BradleyTerry(n_iter=2.5), "n_iter"),
        (NoisyBradleyTerry(n_iter=-1), "n_iter"),
        (NoisyBradleyTerry(tol=np.nan), "tol"),
        (NoisyBradleyTerry(regularization_ratio=np.nan), "regularization_ratio"),
        (NoisyBradleyTerry(regularization_ratio=-1.0), "regularization_ratio"),
        (NoisyBradleyTerry(regularization_ratio=np.inf), "regularization_ratio"),
    ],
)
def test_parameters_out_of_range_are_refused(estimator: Any, name: str) -> None:
    """A ratio of NaN left the scores where the seed had put them."""
    with pytest.raises(ValueError, match=f"{name} must be >= 0"):
        estimator.fit(COMPARED)


def test_noisy_scores_of_no_comparisons_are_none() -> None:
    """Golden: crowd-kit 1.4.2."""
    none = NoisyBradleyTerry().fit(COMPARED[:0])
    assert (none.scores_.to_dict(), none.skills_.to_dict(), none.biases_.to_dict()) == ({}, {}, {})


def test_workers_have_crowd_kits_index() -> None:
    """Golden: crowd-kit 1.4.2 names the index of scores, and that of workers it does not."""
    noisy = NoisyBradleyTerry().fit(COMPARED)
    names = (noisy.scores_.index.name, noisy.skills_.index.name, noisy.biases_.index.name)
    assert names == ("label", None, None)


@pytest.mark.parametrize("kind", [lambda: BradleyTerry(n_iter=100), NoisyBradleyTerry])
def test_items_may_be_called_as_sides_are(kind: Any) -> None:
    """A label names an item, also where all items are called left, right and tie."""
    names = {"x": "left", "y": "right", "z": "tie"}  # which sort alike
    before, after = kind().fit_predict(COMPARED), kind().fit_predict(COMPARED.replace(names))
    assert after.to_dict() == before.rename(names).to_dict()


def test_a_tie_is_no_item() -> None:
    """crowd-kit compares items only; a tie entered the likelihood as a threefold defeat."""
    for label in ("tie", "left", "q"):
        with pytest.raises(LabelError, match=f"left or in right, got {label} at row 3 "):
            NoisyBradleyTerry().fit(COMPARED.assign(label=[*"xyx", label, *"xyyzzx"]))


def test_a_refusal_names_no_argument_that_the_class_lacks() -> None:
    one = pd.DataFrame({"left": ["a"], "right": ["b"], "label": ["a"]})
    with pytest.raises(ValueError, match="prior_sd, for example 1.0, to quality.bradley_terry"):
        BradleyTerry(n_iter=5).fit(one)
