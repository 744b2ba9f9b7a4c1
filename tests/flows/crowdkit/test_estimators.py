"""crowd-kit's names over our pieces: the same numbers, and the right ones where crowd-kit's are not.

Golden numbers: crowd-kit 1.4.2 with pandas 2.3.3 and numpy 2.3.5 on `ANSWERS`, to twelve digits.
"""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils import get_tags

from flows import crowdkit as estimators
from flows.crowdkit import (
    GLAD,
    KOS,
    DawidSkene,
    GoldMajorityVote,
    MajorityVote,
    OneCoinDawidSkene,
    Wawa,
    ZeroBasedSkill,
)
from flows.crowdkit.glad import _sums
from quality import LabelError

QUICK = settings(max_examples=25, deadline=None, derandomize=True)
ANSWERS = pd.DataFrame(
    [
        row.split()
        for row in (
            "t2 bob no", "t1 ann yes", "t1 bob yes", "t3 cy no", "t2 ann no", "t1 cy no",
            "t3 ann yes", "t4 dan yes", "t2 dan maybe", "t3 bob yes", "t4 ann maybe", "t5 cy no",
            "t4 bob maybe", "t5 dan no", "t5 bob no", "t6 dan yes", "t6 cy no", "t6 ann yes",
        )
    ],
    columns=["task", "worker", "label"],
)  # fmt: skip
BINARY = ANSWERS[ANSWERS["label"] != "maybe"]
GOLD = pd.Series({"t1": "yes", "t3": "no", "t6": "yes", "t2": "no"})
VOTED = {"t1": "yes", "t2": "no", "t3": "yes", "t4": "maybe", "t5": "no", "t6": "yes"}
WITHOUT_GOLD = [MajorityVote, Wawa, ZeroBasedSkill, DawidSkene, OneCoinDawidSkene, GLAD, KOS]
MULTICLASS = WITHOUT_GOLD[:-1]


def answers(*rows: str) -> pd.DataFrame:
    """Rows of task, worker and label."""
    return pd.DataFrame([row.split() for row in rows], columns=["task", "worker", "label"])


def near(expected: dict[Any, float], found: pd.Series) -> None:
    """The same keys, and numbers to twelve digits."""
    assert set(expected) == set(found.index)
    assert_allclose([expected[key] for key in found.index], found, rtol=3e-12)


@pytest.mark.parametrize(
    ("kind", "defaults"),
    [
        (MajorityVote, {"default_skill": None, "on_missing_skill": "error"}),
        (Wawa, {}),
        (
            ZeroBasedSkill,
            {
                "n_iter": 100, "lr_init": 1.0, "lr_steps_to_reduce": 20, "lr_reduce_factor": 0.5,
                "eps": 1e-5,
            },
        ),
        (GoldMajorityVote, {}),
        (DawidSkene, {"n_iter": 100, "tol": 1e-5, "initial_error_strategy": None}),
        (OneCoinDawidSkene, {"n_iter": 100, "tol": 1e-5}),
        (
            GLAD,
            {
                "n_iter": 100, "tol": 1e-5, "silent": True, "labels_priors": None,
                "alphas_priors_mean": None, "betas_priors_mean": None, "m_step_max_iter": 25,
                "m_step_tol": 1e-2,
            },
        ),
        (KOS, {"n_iter": 100, "random_state": 0}),
    ],
)  # fmt: skip
def test_arguments_and_defaults_are_crowd_kits(kind: Any, defaults: dict[str, Any]) -> None:
    """crowd-kit 1.4.2's constructors, less the argument its OneCoinDawidSkene does not use."""
    assert defaults == kind().get_params()
    assert defaults == clone(kind(**defaults)).get_params()
    assert get_tags(kind()).estimator_type is None
    assert kind.__name__ in repr(kind())


def test_clone_keeps_arguments_and_forgets_results() -> None:
    fitted = GLAD(n_iter=3, labels_priors=pd.Series({"no": 0.5, "yes": 0.5})).fit(BINARY)
    again = clone(fitted)
    assert (again.n_iter, list(again.labels_priors)) == (3, [0.5, 0.5])
    assert not hasattr(again, "labels_")


def test_majority_vote_is_crowd_kits() -> None:
    """Golden: MajorityVote().fit."""
    vote = MajorityVote().fit(ANSWERS)
    assert vote.labels_.to_dict() == VOTED
    assert (vote.labels_.name, vote.labels_.index.name) == ("agg_label", "task")
    assert list(vote.probas_.columns) == ["maybe", "no", "yes"]
    assert (vote.probas_.columns.name, vote.skills_.name) == ("label", "skill")
    near({"ann": 1.0, "bob": 1.0, "cy": 0.25, "dan": 0.5}, vote.skills_)


def test_votes_by_learned_skills_are_crowd_kits() -> None:
    """Golden: Wawa, ZeroBasedSkill(n_iter=3, lr_init=0.5), GoldMajorityVote."""
    wawa = Wawa()
    assert wawa.fit_predict(ANSWERS).to_dict() == VOTED
    assert_allclose(wawa.probas_.loc["t4"], [0.8, 0.0, 0.2], rtol=1e-12)
    skilled = ZeroBasedSkill(n_iter=3, lr_init=0.5).fit(ANSWERS)
    sure = 0.916667916667
    near({"ann": sure, "bob": sure, "cy": 0.260417916667, "dan": 0.479167916667}, skilled.skills_)
    gold = GoldMajorityVote().fit(ANSWERS, GOLD)
    near({"ann": 0.75, "bob": 2 / 3, "cy": 1 / 3, "dan": 0.5}, gold.skills_)


def test_dawid_skene_is_crowd_kits() -> None:
    """Golden: DawidSkene(n_iter=3).fit; shares to the 1e-10 that crowd-kit raises them to."""
    fit = DawidSkene(n_iter=3).fit(ANSWERS)
    assert list(fit.probas_.index) == ["t2", "t1", "t3", "t4", "t5", "t6"]  # of appearance
    expected = {
        "t2": [1.0588537293e-07, 0.999999894115, 0.0],
        "t1": [0.0, 0.00845129709593, 0.991548702904],
        "t4": [0.999474777624, 0.0, 0.000525222376286],
        "t6": [0.0, 0.0013024670096, 0.998697532955],
    }
    for task, shares in expected.items():
        assert_allclose(fit.probas_.loc[task], shares, atol=1.1e-10)
    near({"maybe": 0.166579147257, "no": 0.336367492553, "yes": 0.49705336019}, fit.priors_)
    losses = [-1.2367759270351897, -1.1361093341770419, -1.0949642192640778]
    assert_allclose(fit.loss_history_, losses, rtol=1e-13)
    assert list(fit.errors_.index.names) == ["worker", "label"]
    assert list(fit.errors_.index[:3]) == [("bob", "no"), ("ann", "yes"), ("bob", "yes")]
    row = [1.00052539228e-10, 0.0178795645264, 0.999823887964]
    assert_allclose(fit.errors_.loc[("ann", "yes")], row, rtol=1e-11)


def test_one_coin_is_crowd_kits() -> None:
    """Golden: OneCoinDawidSkene(n_iter=3).fit."""
    fit = OneCoinDawidSkene(n_iter=3).fit(ANSWERS)
    assert list(fit.skills_.index) == ["bob", "ann", "cy", "dan"]  # of appearance
    expected = [0.994782760083, 0.998373407398, 0.244963083937, 0.493078448541]
    assert_allclose(fit.skills_, expected, rtol=1e-11)
    losses = [-1.601207977939969, -1.511125292037187, -1.4868308736084743]
    assert_allclose(fit.loss_history_, losses, rtol=1e-13)
    assert_allclose(fit.errors_.loc[("cy", "no"), "yes"], (1 - expected[2]) / 2, rtol=1e-11)


def test_glad_is_crowd_kits() -> None:
    """Golden: GLAD(n_iter=1).fit."""
    fit = GLAD(n_iter=1).fit(ANSWERS)
    assert (fit.probas_.columns.name, fit.alphas_.index.name) == ("variable", "worker")
    shares = [0.00105272556981, 0.0319065587065, 0.967040715724]
    assert_allclose(fit.probas_.loc["t1"], shares, rtol=1e-11)
    alphas = {
        "bob": 1.17141282575,
        "ann": 1.08303511416,
        "cy": -0.22700093597,
        "dan": 0.209904374867,
    }
    assert list(alphas) == list(fit.alphas_.index)
    assert_allclose(fit.alphas_, list(alphas.values()), rtol=1e-9)
    assert_allclose(fit.betas_[["t1", "t6"]], [1.16484704641, 1.3733947363], rtol=1e-9)
    assert_allclose(fit.loss_history_, [-0.37732366668116385], rtol=1e-12)


def test_glad_is_crowd_kits_after_many_iterations() -> None:
    """Golden: GLAD(n_iter=30, tol=0).fit, and with priors GLAD(n_iter=9, tol=0).fit."""
    fit = GLAD(n_iter=30, tol=0.0).fit(ANSWERS)
    alphas = [1.2973150348764841, 1.2598121971176262, -0.3001451961481179, 0.17210259310738413]
    assert_allclose(fit.alphas_, alphas, rtol=1e-9)
    assert_allclose(fit.betas_[["t2", "t5"]], [0.9494522882494426, 0.8164540813475297], rtol=1e-9)
    assert_allclose(fit.loss_history_[29:], [-0.35494134980792247], rtol=1e-12)
    prior = pd.Series({"yes": 0.5, "never": 0.1, "maybe": 0.3, "no": 0.3})
    fit = GLAD(n_iter=9, tol=0.0, labels_priors=prior).fit(ANSWERS)
    assert fit.priors_.equals(prior)
    alphas = [1.3105239620532332, 1.262819639428762, -0.29510600871413467, 0.1798626693229248]
    assert_allclose(fit.alphas_, alphas, rtol=1e-9)
    shares = [3.35083982e-06, 1.11694661e-06, 3.23074355e-06, 9.99992301e-01]
    assert_allclose(fit.probas_.loc["t1"], shares, rtol=1e-8)


@QUICK
@given(st.integers(0, 2**32 - 1))
def test_glads_numbers_are_crowd_kits_to_the_last_bit(seed: int) -> None:
    """Oracle: crowd-kit sums a group in pandas; a plain sum of these differs in the last bits."""
    rng = np.random.default_rng(seed)
    unit, value = rng.integers(5, size=40), rng.normal(size=(3, 40)) * 10.0 ** rng.integers(9)
    told = pd.Series(value.ravel()).groupby(np.tile(unit, 3)).sum()
    assert np.array_equal(_sums(unit, value, 5)[told.index], told)


def test_kos_is_crowd_kits() -> None:
    """Golden: KOS(n_iter=20, random_state=3); a seed of crowd-kit's draws crowd-kit's messages."""
    expected = {"t1": "yes", "t2": "no", "t3": "yes", "t4": "yes", "t5": "yes", "t6": "yes"}
    assert expected == KOS(n_iter=20, random_state=3).fit_predict(BINARY).to_dict()


def test_equal_shares_go_to_the_label_that_sorts_first() -> None:
    """0.1 + 0.2 is not 0.3 in the last bit, and crowd-kit lets that bit choose."""
    tied = answers("t a yes", "t b yes", "t c no")
    skills = pd.Series({"a": 0.1, "b": 0.2, "c": 0.3})
    assert MajorityVote().fit_predict(tied, skills)["t"] == "no"
    assert MajorityVote().fit_predict(tied[1:])["t"] == "no"
    assert DawidSkene().fit_predict(tied[1:])["t"] == "no"


def test_a_task_without_weight_has_even_shares() -> None:
    """crowd-kit divides 0 by 0 here."""
    shares = MajorityVote().fit_predict_proba(
        ANSWERS, pd.Series(0.0, index=["ann", "bob", "cy", "dan"])
    )
    assert (shares == 1 / 3).all(axis=None)


@pytest.mark.parametrize("skill", [-0.1, np.inf])
def test_skills_that_would_turn_the_vote_around_are_refused(skill: float) -> None:
    skills = pd.Series({"ann": skill, "bob": 1.0, "cy": 1.0, "dan": 1.0})
    with pytest.raises(ValueError, match="skills must be finite and >= 0"):
        MajorityVote().fit(ANSWERS, skills)


def test_a_missing_skill_is_refused_ignored_or_given_a_value() -> None:
    skills = pd.Series({"ann": 1.0, "bob": 0.5, "dan": 1.0})
    with pytest.raises(ValueError, match=r"know the worker at row 3 \(counted from 0\)"):
        MajorityVote().fit(ANSWERS, skills)
    ignoring = MajorityVote(on_missing_skill="ignore").fit(ANSWERS, skills)
    assert "cy" not in ignoring.skills_.index
    with pytest.raises(ValueError, match="a worker of the task at row 11"):
        MajorityVote(on_missing_skill="ignore").fit(ANSWERS, skills[["ann"]])
    valued = MajorityVote(default_skill=3.0, on_missing_skill="value").fit(ANSWERS, skills)
    assert valued.probas_.loc["t1", "no"] == 3.0 / 4.5
    with pytest.raises(ValueError, match="default_skill must be given with"):
        MajorityVote(default_skill=1.0).fit(ANSWERS, skills)


@pytest.mark.parametrize("kind", WITHOUT_GOLD)
@pytest.mark.parametrize("column", ["task", "worker", "label"])
@pytest.mark.parametrize("nothing", [None, np.nan, " "])
def test_a_missing_value_is_refused_with_its_row(kind: Any, column: str, nothing: object) -> None:
    """crowd-kit drops the task, returns NaN as its label, or fails inside, by estimator."""
    holed = BINARY.astype(object)
    holed.iloc[3, holed.columns.get_loc(column)] = nothing
    with pytest.raises(
        ValueError, match=rf"column '{column}' is missing at row 3 \(counted from 0"
    ):
        kind().fit(holed)


@pytest.mark.parametrize("kind", WITHOUT_GOLD)
def test_a_repeated_pair_is_refused(kind: Any) -> None:
    """crowd-kit counts it twice."""
    twice = pd.concat([BINARY, BINARY[2:3]])
    with pytest.raises(ValueError, match="labels of one worker for one task"):
        kind().fit(twice)


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        ([1, 2], "data must be a pandas DataFrame, got list"),
        (pa.table({"worker": ["w"]}), "data must be a pandas DataFrame, got pyarrow.lib.Table"),
        (ANSWERS.rename(columns={"worker": "performer"}), "must have one column 'worker'"),
        (ANSWERS.assign(label=["a", 1] * 9), "column 'label' must be all text or all numbers"),
        (ANSWERS.assign(task=[[1]] * 18), "column 'task' must be all text or all numbers"),
    ],
)
def test_what_is_no_table_of_answers_is_refused(data: Any, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        DawidSkene().fit(data)


def test_kos_gives_an_exact_tie_to_the_label_that_sorts_first() -> None:
    """crowd-kit raises KeyError: 0.0; two workers who share nothing confirm nobody."""
    assert KOS().fit_predict(answers("t1 a yes", "t1 b no", "t2 a no"))["t1"] == "no"
    with pytest.raises(ValueError, match="two values for KOS, got 3"):
        KOS().fit(ANSWERS)


def test_kos_makes_all_its_iterations() -> None:
    """Oracle: unscaled integers, of 436 digits; crowd-kit stops at 300, in iteration 345."""
    rng = np.random.default_rng(0)
    task, worker = (index.ravel() for index in np.indices((12, 6)))
    label = np.where(rng.random(72) < 0.7, task % 2, 1 - task % 2)
    drawn = np.random.RandomState(5).normal(1.0, 1.0, size=72)
    message = [int(number * 2**80) for number in drawn.tolist()]
    for _ in range(500):
        for unit in (task, worker):
            said = [m if one else -m for m, one in zip(message, label, strict=True)]
            total = {
                u: sum(s for s, v in zip(said, unit, strict=True) if v == u) for u in set(unit)
            }
            message = [total[u] - s for s, u in zip(said, unit, strict=True)]
    said = [m if one else -m for m, one in zip(message, label, strict=True)]
    voice = [sum(said[row] for row in np.flatnonzero(task == t)) for t in range(12)]
    assert max(map(abs, voice)) >> 80 > 10**400
    data = pd.DataFrame({"task": task, "worker": worker, "label": label})
    found = KOS(n_iter=500, random_state=5).fit_predict(data)
    assert found.tolist() == [int(v > 0) for v in voice]


@pytest.mark.parametrize("kind", WITHOUT_GOLD)
def test_categories_are_read_as_what_they_stand_for(kind: Any) -> None:
    """crowd-kit's KOS raises a TypeError."""
    plain = kind().fit_predict(BINARY)
    pd.testing.assert_series_equal(plain, kind().fit_predict(BINARY.astype("category")))


@pytest.mark.parametrize("kind", MULTICLASS)
def test_a_single_label_wins_everywhere(kind: Any) -> None:
    """crowd-kit's MMSR, which is not among ours, divides by zero here."""
    one = answers("t1 a yes", "t2 a yes", "t1 b yes")
    estimator = kind()
    assert estimator.fit_predict(one).to_dict() == {"t1": "yes", "t2": "yes"}
    assert_allclose(estimator.probas_, 1.0)


@pytest.mark.parametrize("kind", MULTICLASS)
def test_a_thousand_labels_on_a_task_leave_it_its_label(kind: Any) -> None:
    """Products of a thousand probabilities vanish: crowd-kit's MACE has NaN here."""
    rng = np.random.default_rng(1)
    label = np.where(
        rng.random((3, 1000)) < 0.6, np.arange(3)[:, None], rng.integers(5, size=(3, 1000))
    )
    task, worker = np.indices(label.shape)
    data = pd.DataFrame({"task": task.ravel(), "worker": worker.ravel(), "label": label.ravel()})
    estimator = kind(n_iter=5) if kind is ZeroBasedSkill else kind()
    assert estimator.fit_predict(data).to_dict() == {0: 0, 1: 1, 2: 2}
    assert_allclose(estimator.probas_.sum(axis=1), 1.0)


def test_gold_holds_its_tasks_to_their_truth() -> None:
    """Golden: DawidSkene(n_iter=3).fit(ANSWERS, Series({"t6": "no"})).priors_."""
    gold = pd.Series({"t6": "no", "elsewhere": "yes", "t1": None})
    fit = DawidSkene(n_iter=3).fit(ANSWERS, gold)
    assert list(fit.probas_.loc["t6"]) == [0.0, 1.0, 0.0]
    near({"maybe": 0.16641253851, "no": 0.629589825372, "yes": 0.203997636118}, fit.priors_)


def test_a_true_label_that_nobody_gave_is_refused_or_makes_all_wrong() -> None:
    """On purpose not crowd-kit's: its DawidSkene makes the label a class of its own."""
    gold = pd.Series({"t6": "perhaps"})
    with pytest.raises(ValueError, match="true_labels must be labels that occur in data"):
        DawidSkene().fit(ANSWERS, gold)
    assert (GoldMajorityVote().fit(ANSWERS, gold).skills_ == 0.0).all()
    with pytest.raises(ValueError, match="true_labels must have a task of data"):
        GoldMajorityVote().fit(ANSWERS, pd.Series({"t9": "yes"}))
    with pytest.raises(ValueError, match="one row per task"):
        DawidSkene().fit(ANSWERS, pd.Series(["yes", "no"], index=["t6", "t6"]))


def earlier(share: float, counts: float, workers: tuple[str, ...]) -> pd.DataFrame:
    """Initial errors of some workers who are right that often."""
    wrong = (1.0 - share) / 2
    table = counts * (np.eye(3) * (share - wrong) + wrong)
    index = pd.MultiIndex.from_product([workers, ["maybe", "no", "yes"]], names=["worker", "label"])
    return pd.DataFrame(np.tile(table, (len(workers), 1)), index, ["maybe", "no", "yes"])


def test_added_counts_speak_in_every_iteration() -> None:
    """crowd-kit forgets them after the first: a thousand earlier answers then weigh nothing."""
    told = earlier(0.9, 1000.0, ("cy", "stranger"))
    fit = DawidSkene(n_iter=50, initial_error_strategy="addition").fit(ANSWERS, initial_error=told)
    assert_allclose(fit.errors_.loc[("cy", "no"), "no"], 0.9, atol=0.005)
    assert "stranger" not in fit.errors_.index.get_level_values("worker")
    columns = fit.errors_.groupby(level="worker").sum()
    assert_allclose(columns, 1.0)


def test_assigned_errors_are_where_the_first_iteration_starts() -> None:
    """By hand: one E-step from shares that need not be scaled, with the majority's prior."""
    told = earlier(0.8, 40.0, ("ann", "bob", "cy", "dan"))
    fit = DawidSkene(n_iter=1, initial_error_strategy="assign").fit(ANSWERS, initial_error=told)
    prior = MajorityVote().fit(ANSWERS).probas_.mean()
    belief = prior * [0.1**3, 0.1 * 0.1 * 0.8, 0.8 * 0.8 * 0.1]  # t1: yes, yes, no
    assert_allclose(fit.probas_.loc["t1"], belief / belief.sum())
    unused = DawidSkene().fit(ANSWERS, initial_error=told)
    pd.testing.assert_frame_equal(unused.errors_, DawidSkene().fit(ANSWERS).errors_)


@pytest.mark.parametrize(
    ("table", "sentence"),
    [
        (earlier(0.8, 1.0, ("ann", "bob", "cy")), "every .worker, label. pair of data .* row 7"),
        (earlier(0.8, -1.0, ("ann",)), "finite and >= 0"),
        (earlier(0.8, 1.0, ("ann",)).drop(columns="no"), "one column for each label"),
        (earlier(0.8, 1.0, ("ann", "ann")), "one row per worker and label"),
        (earlier(0.8, 1.0, ("ann",)).rename({"no": "nay"}), "labels that occur in data"),
        (earlier(0.8, 1.0, ("ann",)).reset_index(), "indexed by worker and label"),
        ({"ann": 0.8}, "be a pandas DataFrame"),
        (
            earlier(0.8, 0.0, ("ann", "bob", "cy", "dan")),
            "The sum of each worker's error matrix in initial_error should be 1.0, got 0",
        ),
    ],
)
def test_initial_errors_that_cannot_be_used_are_refused(table: Any, sentence: str) -> None:
    with pytest.raises(ValueError, match=f"initial_error must.* {sentence}"):
        DawidSkene(initial_error_strategy="assign").fit(ANSWERS, initial_error=table)


def test_parameters_out_of_range_are_refused() -> None:
    for estimator, name in [
        (DawidSkene(n_iter=-1), "n_iter"),
        (GLAD(n_iter=-1), "n_iter"),
        (OneCoinDawidSkene(tol=np.nan), "tol"),
        (DawidSkene(initial_error_strategy="add"), "initial_error_strategy"),
        (ZeroBasedSkill(n_iter=-1), "n_iter"),
        (ZeroBasedSkill(n_iter=2.5), "n_iter"),
        (ZeroBasedSkill(lr_init=1.5), "lr_init"),
        (ZeroBasedSkill(eps=-1.0), "eps"),
        (ZeroBasedSkill(eps=np.nan), "eps"),
        (GLAD(m_step_tol=np.nan), "m_step_tol"),
        (GLAD(m_step_max_iter=-1), "m_step_max_iter"),
        (DawidSkene(n_iter="3"), "n_iter"),
        (KOS(n_iter=2.5), "n_iter"),
        (GLAD(labels_priors=pd.Series({"no": "p", "yes": "q"})), "labels_priors"),
        (KOS(n_iter=0), "n_iter"),
        (GLAD(labels_priors=pd.Series({"no": 1.0})), "labels_priors"),
        (GLAD(labels_priors=pd.Series({"no": 1.0, "yes": 0.0})), "labels_priors"),
        (GLAD(alphas_priors_mean=pd.Series({"ann": 1.0})), "alphas_priors_mean"),
    ]:
        with pytest.raises(ValueError, match=f"{name} must"):
            estimator.fit(BINARY)
    with pytest.raises(ValueError, match="on_missing_skill must be one of"):
        MajorityVote(on_missing_skill="drop").fit(BINARY, pd.Series({"ann": 1.0}))


@pytest.mark.parametrize("kind", WITHOUT_GOLD)
@pytest.mark.parametrize("column", ["task", "worker", "label"])
def test_a_missing_column_is_the_key_error_that_crowd_kits_users_catch(
    kind: Any, column: str
) -> None:
    """And the LabelError, with its sentence, that ours catch."""
    with pytest.raises(KeyError, match=f"data must have one column '{column}'") as caught:
        kind().fit(BINARY.drop(columns=column))
    assert isinstance(caught.value, LabelError)
    assert caught.value.column == column
    assert str(caught.value).startswith("data must")


def test_no_iteration_leaves_the_majority_vote_and_what_follows_of_it() -> None:
    """Priors and errors are those that crowd-kit's first M-step makes of the shares of the votes."""
    voted = MajorityVote().fit(ANSWERS)
    for kind in (DawidSkene, OneCoinDawidSkene):
        fit = kind(n_iter=0).fit(ANSWERS)
        pd.testing.assert_frame_equal(fit.probas_.sort_index(), voted.probas_)
        assert fit.labels_.to_dict() == voted.labels_.to_dict()
        assert fit.loss_history_ == []
        assert_allclose(fit.priors_, voted.probas_.mean())
    gold = DawidSkene(n_iter=0).fit(ANSWERS, GOLD)
    assert gold.labels_[GOLD.index].to_dict() == GOLD.to_dict()


def test_no_iteration_leaves_first_skills_and_first_abilities() -> None:
    """Golden: crowd-kit 1.4.2, ZeroBasedSkill(n_iter=0) and GLAD(n_iter=0) on five labels."""
    frame = answers("t1 w1 a", "t1 w2 b", "t1 w3 a", "t2 w1 b", "t2 w2 b")
    skilled = ZeroBasedSkill(n_iter=0)
    assert skilled.fit_predict(frame).to_dict() == {"t1": "a", "t2": "b"}
    near({"w1": 0.50001, "w2": 0.50001, "w3": 0.50001}, skilled.skills_)
    glad = GLAD(n_iter=0).fit(frame)
    near({"t1": 0.9380968325850064, "t2": 0.004335542099700081}, glad.probas_["a"])
    assert (glad.loss_history_, set(glad.alphas_), set(glad.betas_)) == ([], {1.0}, {1.0})


@pytest.mark.parametrize("kind", [MajorityVote, Wawa, DawidSkene, OneCoinDawidSkene, KOS])
def test_an_empty_table_has_empty_results(kind: Any) -> None:
    """As crowd-kit has them; where it divides by zero the table is refused."""
    fit = kind()
    assert fit.fit_predict(ANSWERS[:0]).to_dict() == {}
    assert fit.labels_.name == "agg_label"
    assert all(len(found) == 0 for name, found in vars(fit).items() if name.endswith("_"))
    assert GoldMajorityVote().fit_predict_proba(ANSWERS[:0], pd.Series(dtype=float)).empty
    for other in (ZeroBasedSkill, GLAD):
        with pytest.raises(LabelError, match="data must have at least one row"):
            other().fit(ANSWERS[:0])


def test_a_gold_task_may_have_several_true_labels() -> None:
    """By hand: of two gold tasks one has two truths, and a label counts once."""
    frame = answers("a ann x", "b ann x", "c ann x", "a bob y", "c bob y", "a cy z", "c cy z")
    truth = pd.Series(["x", "y", "y"], index=["a", "a", "c"])
    fit = GoldMajorityVote().fit(frame, truth)
    assert fit.skills_.to_dict() == {"ann": 0.5, "bob": 1.0, "cy": 0.0}


def test_glads_priors_are_heard() -> None:
    prior = pd.Series({"yes": 0.98, "no": 0.01, "never": 0.01})
    fit = GLAD(labels_priors=prior).fit(BINARY)
    assert list(fit.probas_.columns) == ["never", "no", "yes"]
    assert (fit.probas_["yes"] > GLAD().fit(BINARY).probas_["yes"]).all()
    workers = pd.Series(-3.0, index=["ann", "bob", "cy", "dan"])
    doubted = GLAD(n_iter=1, alphas_priors_mean=workers).fit(BINARY)
    assert (doubted.alphas_ < GLAD(n_iter=1).fit(BINARY).alphas_).all()
    far = GLAD(n_iter=1, alphas_priors_mean=workers * 20).fit(BINARY)  # density 0 in floating point
    assert (far.alphas_ < doubted.alphas_).all()
    assert np.isfinite(far.loss_history_).all()
    tasks = pd.Series(-3.0, index=list(VOTED))
    hard = GLAD(n_iter=1, betas_priors_mean=tasks).fit(BINARY)
    assert (hard.betas_ < GLAD(n_iter=1).fit(BINARY).betas_).all()


def test_what_was_learned_votes_on_new_answers() -> None:
    wawa = Wawa().fit(ANSWERS)
    assert not hasattr(wawa, "labels_")
    assert wawa.predict(answers("new cy yes", "new ann no"))["new"] == "no"
    assert_allclose(wawa.predict_proba(answers("new cy yes", "new ann no")), [[0.8, 0.2]])
    with pytest.raises(ValueError, match="skills must know the worker at row 1"):
        wawa.predict(answers("new cy yes", "new eve no"))
    with pytest.raises(NotFittedError):
        ZeroBasedSkill().predict(ANSWERS)


@pytest.mark.parametrize("kind", WITHOUT_GOLD)
def test_the_answers_given_are_not_changed(kind: Any) -> None:
    before = BINARY.copy()
    kind().fit(BINARY)
    pd.testing.assert_frame_equal(before, BINARY)


@pytest.mark.parametrize("kind", WITHOUT_GOLD)
@pytest.mark.parametrize("values", [[True, False], [7, 3], [1.5, 0.5], ["x", "y"]])
def test_labels_keep_their_type(kind: Any, values: list[Any]) -> None:
    data = BINARY.assign(label=np.where(BINARY["label"] == "yes", *values))
    found = kind().fit_predict(data)
    assert found.dtype == data["label"].dtype
    assert set(found) <= set(values)


@QUICK
@given(st.randoms(use_true_random=False))
def test_the_order_of_the_rows_orders_the_result_and_no_more(random: Any) -> None:
    order = random.sample(range(len(ANSWERS)), len(ANSWERS))
    shuffled = ANSWERS.iloc[order]
    for kind in (DawidSkene, OneCoinDawidSkene):
        there, here = kind(n_iter=5).fit(ANSWERS), kind(n_iter=5).fit(shuffled)
        assert list(here.probas_.index) == list(shuffled["task"].unique())
        pd.testing.assert_frame_equal(there.probas_, here.probas_.loc[there.probas_.index])


def test_every_estimator_is_exported() -> None:
    pairwise = {estimators.BradleyTerry, estimators.NoisyBradleyTerry}  # test_pairwise.py
    sets = {estimators.BinaryRelevance}  # test_binary_relevance.py
    found = {getattr(estimators, name) for name in estimators.__all__}
    assert {*WITHOUT_GOLD, GoldMajorityVote} | pairwise | sets == found


def test_importing_the_estimators_leaves_prefect_alone() -> None:
    code = "import sys, flows.crowdkit; print('prefect' in sys.modules)"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "False"
