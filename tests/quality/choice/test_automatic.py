"""The pool of aggregators: what it predicts, how it weighs its candidates, and its accuracy."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings

from benchmarks.quality.crowd_sets import NEWER, SETS, read_set, right
from quality import (
    CrowdLabels,
    dawid_skene,
    encode,
    hierarchical_dawid_skene,
    hold_labels_out,
    majority_vote,
    regular_assignment,
    simulate_crowd,
)
from quality.aggregation.consensus import CHEAP, NEARLY_EMPTY
from quality.choice.automatic import (
    CANDIDATES,
    OF_CLASSES,
    InPasses,
    auto,
    candidates_for,
)
from tests.quality.choice.hard_crowds import hardly_knowing, taking_each_for_the_next

QUICK = settings(max_examples=40, deadline=None, derandomize=True)


@dataclass
class Certain:
    """A consensus made up by a test."""

    posterior: np.ndarray
    label: np.ndarray
    tied: np.ndarray


def certain(label: np.ndarray, n_classes: int) -> Certain:
    """Certain of these labels."""
    return Certain(
        np.eye(n_classes)[label], label.astype(np.int16), np.zeros(len(label), dtype=bool)
    )


def guess(labels: CrowdLabels) -> Certain:
    """Some class for every task."""
    return certain(np.arange(labels.n_tasks) // 3 % labels.n_classes, labels.n_classes)


def crowd_of(
    rng: np.random.Generator, n_tasks: int = 400, n_classes: int = 2, **adversaries: int
) -> tuple[CrowdLabels, np.ndarray]:
    """30 workers, 5 labels a task."""
    assignment = regular_assignment(n_tasks=n_tasks, n_workers=30, labels_per_task=5, rng=rng)
    truth = rng.integers(n_classes, size=n_tasks)
    crowd = simulate_crowd(assignment, truth, n_classes=n_classes, adversaries=adversaries, rng=rng)
    return encode(crowd.worker, crowd.task, crowd.label), truth


def test_malicious_workers_call_for_a_fit_of_workers(rng: np.random.Generator) -> None:
    """It reads their labels the other way round; a majority cannot."""
    labels, truth = crowd_of(rng, malicious=10)
    result = auto(labels)
    assert result.chosen not in ("majority_vote", "weighted_majority")
    weight = {score.name: score.weight for score in result.scores}
    assert weight["majority_vote"] < 0.01
    wrong = [np.mean(r.label != truth) for r in (result, majority_vote(labels))]
    assert wrong[0] < wrong[1] / 2


def test_one_that_is_clearly_behind_weighs_nothing(rng: np.random.Generator) -> None:
    labels, _ = crowd_of(rng, random=6)
    result = auto(labels, candidates={"guess": guess} | dict(CANDIDATES))
    assert result.scores[0].behind > 5 * result.scores[0].behind_error
    assert result.scores[0].weight < 1e-5


def test_the_result_is_the_mean_of_the_posteriors_by_weight(rng: np.random.Generator) -> None:
    labels, _ = crowd_of(rng, random=6, malicious=4)
    result = auto(labels)
    weight = np.array([score.weight for score in result.scores])
    assert set(weight > 0) == {True, False}
    fits = [fit(labels) for fit in CANDIDATES.values()]
    mean = sum(w * fit.posterior for w, fit in zip(weight, fits, strict=True))
    assert result.posterior == pytest.approx(mean, abs=1e-12)
    assert weight.sum() == pytest.approx(1)
    best = max(score.log_likelihood for score in result.scores)
    for score in result.scores:
        assert score.behind == pytest.approx(best - score.log_likelihood, abs=1e-12)
    z = np.array(
        [score.behind / score.behind_error if score.behind else 0 for score in result.scores]
    )
    share = np.exp(-(z**2) / 2) / np.exp(-(z**2) / 2).sum()
    kept = np.where(share < 1e-6, 0.0, share)  # a weight below a millionth is none
    assert weight == pytest.approx(kept / kept.sum(), rel=1e-9)
    assert result.chosen == result.scores[int(weight.argmax())].name
    assert np.array_equal(result.result.label, fits[int(weight.argmax())].label)


def test_candidates_that_predict_alike_weigh_alike(rng: np.random.Generator) -> None:
    labels, _ = crowd_of(rng)
    result = auto(labels, candidates=dict.fromkeys(("one", "two"), majority_vote))
    assert [score.weight for score in result.scores] == [0.5, 0.5]
    assert result.chosen == "one"


def test_without_tasks_of_two_labels_the_first_is_taken() -> None:
    result = auto(encode(["a", "b"], [1, 2], ["x", "y"]))
    assert result.chosen == next(iter(CANDIDATES))
    assert result.n_held_out == 0
    assert [score.weight for score in result.scores] == [1.0] + 6 * [0.0]
    assert np.isnan(result.scores[0].log_likelihood)


@pytest.mark.parametrize("seed", range(4))
def test_workers_who_always_give_one_class_do_not_capture_the_choice(seed: int) -> None:
    """Half of the crowd, four classes: their labels had made majority vote, which is theirs, predict best."""
    rng = np.random.default_rng(seed)
    rows = regular_assignment(n_tasks=300, n_workers=30, labels_per_task=5, rng=rng)
    truth = rng.integers(4, size=300)
    wrong = (truth[rows.task] + rng.integers(1, 4, len(rows.task))) % 4
    honest = np.where(rng.random(len(rows.task)) < 0.8, truth[rows.task], wrong)
    labels = encode(
        rows.worker, rows.task, np.where(rows.worker % 2 == 1, 0, honest), classes=[0, 1, 2, 3]
    )
    known = truth[labels.tasks]
    best = max(np.mean(rule(labels).label == known) for rule in (majority_vote, dawid_skene))
    assert np.mean(auto(labels).label == known) >= best - 0.01


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("seed", range(3))
def test_who_hardly_knows_the_answers_is_taken_by_the_vote(n_classes: int, seed: int) -> None:
    """Fits of workers differ by luck there, and are sure of it: seven points were lost."""
    labels, truth = hardly_knowing(0.12, n_classes, seed)
    found = auto(labels)
    assert found.chosen == "majority_vote"
    vote = majority_vote(labels).posterior
    assert right(found.posterior, truth) > right(vote, truth) - 2.0
    assert right(dawid_skene(labels).posterior, truth) < right(vote, truth) - 3.0


@pytest.mark.parametrize("seed", range(3))
def test_a_few_who_know_are_not_left_to_the_vote(seed: int) -> None:
    """Nor are they where as many are contrary as to leave votes of two classes hardly alike."""
    labels, truth = hardly_knowing(np.repeat([0.9, 0.0], [20, 80]), 3, seed)
    assert (
        right(auto(labels).posterior, truth) > right(majority_vote(labels).posterior, truth) + 5.0
    )
    contrary, truth = crowd_of(np.random.default_rng(seed), malicious=10)
    assert right(auto(contrary).posterior, truth) > 97.0
    assert right(majority_vote(contrary).posterior, truth) < 75.0


@pytest.mark.parametrize("seed", range(3))
def test_a_crowd_that_knows_loses_no_candidate_to_the_vote(seed: int) -> None:
    """Workers predict their own labels far better than classes do: weights are those of the scores alone."""
    labels, _ = hardly_knowing(0.6, 3, seed)
    scores = auto(labels, enough=100).scores
    z = np.array([score.behind / score.behind_error if score.behind else 0.0 for score in scores])
    weight = np.exp(-(z**2) / 2)
    weight[weight < 1e-6 * weight.sum()] = 0.0
    assert np.array([score.weight for score in scores]) == pytest.approx(weight / weight.sum())
    assert weight[0] > 0 or weight[1:].any()


@pytest.mark.parametrize("n_good", [2, 3, 5])
@pytest.mark.parametrize("seed", range(2))
def test_workers_who_nearly_always_say_yes_do_not_capture_the_choice(
    n_good: int, seed: int
) -> None:
    """Twice as many as those who know; one-coin Dawid–Skene, which follows them, had nearly all weight."""
    rng = np.random.default_rng(seed)
    n_workers = 3 * n_good
    rows = regular_assignment(n_tasks=300, n_workers=n_workers, labels_per_task=5, rng=rng)
    truth = rng.integers(2, size=300)
    says = np.where(rng.random(len(rows.task)) < 0.85, truth[rows.task], 1 - truth[rows.task])
    lazy = rng.random(len(rows.task)) < 0.95
    labels = encode(rows.worker, rows.task, np.where(rows.worker < n_good, says, lazy))
    known = truth[labels.tasks]
    better = np.mean(dawid_skene(labels).label == known)
    assert better > np.mean(majority_vote(labels).label == known) + 0.15
    assert np.mean(auto(labels).label == known) > better - 0.05


def many_classed(rng: np.random.Generator) -> tuple[CrowdLabels, np.ndarray]:
    """1,800 labels by 100 workers of 600 tasks of 110 classes, where 85 % are right, and the truth."""
    truth = rng.integers(110, size=600)
    worker = np.argsort(rng.random((600, 100)), axis=1)[:, :3]
    label = np.where(rng.random((600, 3)) < 0.85, truth[:, None], rng.integers(110, size=(600, 3)))
    given = np.repeat(np.arange(600), 3), label.ravel()
    return encode(worker.ravel(), *given, classes=range(110)), truth


@pytest.mark.long
def test_matrices_that_would_be_nearly_empty_are_not_tried(rng: np.random.Generator) -> None:
    labels, truth = many_classed(rng)
    cells = labels.n_workers * labels.n_classes**2
    assert cells > max(CHEAP, NEARLY_EMPTY * labels.n_labels)
    found = auto(labels)
    assert set(found.left_out) == set(OF_CLASSES)
    assert [score.name for score in found.scores] == list(candidates_for(labels))
    tried = auto(labels, candidates=CANDIDATES)
    assert not tried.left_out
    assert np.mean(found.label == truth) > np.mean(tried.label == truth) - 0.01


def test_matrices_are_tried_where_they_are_cheap_or_filled(rng: np.random.Generator) -> None:
    labels, _ = many_classed(rng)
    by = labels.worker < 10
    few = encode(labels.worker[by], labels.task[by], labels.label[by], classes=range(110))
    assert candidates_for(few) == CANDIDATES
    row = np.tile(np.arange(labels.n_labels), 11)  # the same labels of 11 times the tasks
    again = np.repeat(np.arange(11), labels.n_labels)
    names = [f"{one}-{task}" for one, task in zip(again, labels.task[row], strict=True)]
    filled = encode(labels.worker[row], names, labels.label[row], classes=range(110))
    assert candidates_for(filled) == CANDIDATES
    assert not auto(encode([1, 2, 1, 2], [1, 1, 2, 2], ["a", "b", "a", "a"])).left_out


def test_the_same_on_every_run() -> None:
    labels, _ = crowd_of(np.random.default_rng(3), random=6)
    one, other = auto(labels), auto(labels)
    assert one.scores == other.scores
    assert one.posterior.tobytes() == other.posterior.tobytes()


@pytest.mark.parametrize("seed", range(3))
def test_a_crowd_that_takes_a_class_for_another_is_read_by_its_errors(seed: int) -> None:
    """Dawid–Skene undoes common errors; to habits alone a vote that believes them predicts as well."""
    labels, truth = taking_each_for_the_next(n_tasks=900, seed=seed)
    best = right(hierarchical_dawid_skene(labels).posterior, truth)
    assert best > right(majority_vote(labels).posterior, truth) + 5.0
    assert right(auto(labels).posterior, truth) > best - 1.0


def test_a_small_table_is_dealt_often_and_a_large_one_is_held_out_in_fewer_folds(
    rng: np.random.Generator,
) -> None:
    """Ten folds of 200 labels each, dealt once, twice or three times."""
    labels, _ = crowd_of(rng, random=6)
    fitted: list[int] = []

    def counted(table: CrowdLabels) -> Certain:
        fitted.append(table.n_labels)
        return guess(table)

    for enough, n_folds in (
        (1, 1),
        (200, 1),
        (201, 2),
        (1999, 10),
        (3999, 10),
        (4000, 20),
        (10**9, 30),
    ):
        fitted.clear()
        result = auto(labels, candidates={"counted": counted}, enough=enough)
        assert result.n_held_out == 200 * n_folds
        assert fitted == n_folds * [1800] + [2000]


def test_fewer_folds_choose_alike(rng: np.random.Generator) -> None:
    labels, truth = crowd_of(rng, malicious=10)
    one, all_folds = auto(labels, enough=1), auto(labels)
    assert np.mean(one.label != truth) < np.mean(majority_vote(labels).label != truth) / 2
    assert np.mean(one.label != all_folds.label) < 0.02


def test_a_workers_confusion_is_counted_under_the_pool(rng: np.random.Generator) -> None:
    """Oracle: expected counts, label for label; the groups' members have their group's."""
    labels, _ = crowd_of(rng, random=6)
    result = auto(labels)
    counts = np.zeros((30, 2, 2))
    for worker, task, label in zip(labels.worker, labels.task, labels.label, strict=True):
        counts[worker, :, label] += result.posterior[task]
    row = counts.sum(axis=0)
    right = (np.trace(row) + 1) / (row.sum() + 2)
    row += 1000 * np.array([[right, 1 - right], [1 - right, right]])
    expected = counts + 2 * row / row.sum(axis=1, keepdims=True)
    expected /= expected.sum(axis=2, keepdims=True)
    assert result.confusion == pytest.approx(expected, abs=1e-9)
    grouped = auto(labels, groups=np.where(np.arange(30) < 2, 0, -1)).confusion
    assert np.array_equal(grouped[0], grouped[1])


@pytest.mark.parametrize(
    ("posterior", "message"),
    [
        (np.full((20, 3), 1 / 3), r"must return a posterior of shape \(60, 3\), got \(20, 3\)"),
        (np.full((60, 2), 1 / 2), r"must return a posterior of shape \(60, 3\), got \(60, 2\)"),
        (None, r"must return a posterior of shape \(60, 3\), got a Certain without one"),
        (np.full((60, 3), np.nan), "must return rows of probabilities adding up to 1"),
        (np.full((60, 3), -1.0), "must return rows of probabilities adding up to 1"),
    ],
)
@pytest.mark.refusal
def test_what_a_caller_fits_is_a_distribution_for_every_task(
    rng: np.random.Generator, posterior: np.ndarray, message: str
) -> None:
    """Labels of classes that a posterior lacks were counted beyond the end of a table."""
    labels, _ = crowd_of(rng, n_tasks=60, n_classes=3)

    def odd(labels: CrowdLabels) -> Certain:
        return Certain(posterior, np.zeros(60, dtype=np.int16), np.zeros(60, dtype=bool))

    with pytest.raises(ValueError, match="every candidate " + message):
        auto(labels, candidates={"majority_vote": majority_vote, "odd": odd})
    with pytest.raises(ValueError, match="fit " + message):
        hold_labels_out(labels, odd)


@pytest.mark.parametrize(
    ("parameter", "value"), [("candidates", {}), ("n_folds", 1), ("enough", 0)]
)
def test_parameters_out_of_range_are_refused(parameter: str, value: object) -> None:
    labels = encode(["a", "b"], [1, 1], ["x", "y"])
    with pytest.raises(ValueError, match=f"{parameter} must be "):
        auto(labels, **{parameter: value})  # type: ignore[arg-type]


LARGE = ("trec2011_task2", "fact_eval", "mill", "adult2")


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.slow if name in LARGE else ())
        for name in (*SETS, *NEWER)
    ],
)
def test_never_a_point_below_the_better_of_majority_vote_and_dawid_skene(
    shared_data: Path, name: str
) -> None:
    labels, gold = read_set(shared_data / name)
    found = right(auto(labels).posterior, gold)
    better = max(right(vote(labels).posterior, gold) for vote in (majority_vote, dawid_skene))
    assert found >= better - 1


class Watched:
    """A candidate that notes how it is asked."""

    def __init__(self, rule, asked: list[str]) -> None:
        self.rule, self.asked = rule, asked

    def __call__(self, labels, **stop):
        self.asked.append("first" if stop else "whole")
        return self.rule(labels)


@pytest.mark.refusal  # a candidate that is a class
def test_in_a_large_table_who_is_far_behind_at_first_is_not_fitted_to_the_end(
    rng: np.random.Generator,
) -> None:
    """A guess beside a vote. Where several folds are held out, every candidate is."""
    labels, _ = crowd_of(rng, n_tasks=3_000, random=6)
    asked: dict[str, list[str]] = {"guess": [], "vote": []}
    rules = {"guess": guess, "vote": majority_vote}
    watched = {name: InPasses(Watched(rules[name], asked[name])) for name in rules}
    result = auto(labels, candidates=watched, enough=1)
    assert asked == {"guess": ["first"], "vote": ["first", "whole", "whole"]}
    assert result.chosen == "vote"
    for one in asked.values():
        one.clear()
    auto(labels, candidates=watched, n_folds=2, enough=labels.n_labels)
    assert asked == {"guess": ["whole"] * 2, "vote": ["whole"] * 3}


def test_first_looks_change_no_weight(rng: np.random.Generator) -> None:
    """Half of the crowd shifts ordered classes, so that one coin and MACE are far behind."""
    labels, _ = crowd_of(rng, n_tasks=12_000, n_classes=5, shifted=15)
    whole = {n: one.fit if isinstance(one, InPasses) else one for n, one in CANDIDATES.items()}
    first, expected = auto(labels, enough=1), auto(labels, candidates=whole, enough=1)
    weight = [score.weight for score in first.scores]
    assert weight == pytest.approx([score.weight for score in expected.scores], abs=1e-6)
    assert first.posterior == pytest.approx(expected.posterior, abs=1e-6)
    likelihoods = [[one.log_likelihood for one in pool.scores] for pool in (first, expected)]
    assert likelihoods[0] != likelihoods[1]  # some was left where it stood at first
