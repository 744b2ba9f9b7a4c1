"""The consensus on sets of classes: its guarantees, and that sharing skill pays."""

import numpy as np
import pytest

from quality import (
    MultiLabelConsensus,
    dawid_skene,
    dependent_groups,
    encode,
    encode_gold_sets,
    encode_multilabels,
    multilabel_consensus,
    simulate_multilabels,
    yes_no_labels,
)

OTHERS = {"careless": 6, "conservative": 4, "liberal": 4, "blind": 4, "spammer": 6}


def _crowd(seed: int, **changed: int):
    sizes = {"n_tasks": 300, "n_workers": 40, "answers_per_task": 5, "n_classes": 20, **changed}
    return simulate_multilabels(**sizes, others=OTHERS, rng=np.random.default_rng(seed))


def _macro_f1(truth: np.ndarray, found: np.ndarray) -> float:
    both = (truth & found).sum(axis=0)
    return float(np.mean(2 * both / np.maximum(truth.sum(axis=0) + found.sum(axis=0), 1)))


def _chosen(found: MultiLabelConsensus, shape: tuple[int, int]) -> np.ndarray:
    whole = np.zeros(shape, dtype=bool)
    task = np.repeat(np.arange(shape[0]), np.diff(found.start))
    whole[task, found.label] = found.chosen
    return whole


def test_shared_skill_beats_binary_relevance_with_dawid_skene() -> None:
    mine, apart = [], []
    for seed in range(3):
        crowd = _crowd(seed)
        table = crowd.table
        mine.append(_macro_f1(crowd.truth, _chosen(multilabel_consensus(table), crowd.truth.shape)))
        said = np.zeros((table.n_answers, 20), dtype=int)
        said[np.repeat(np.arange(table.n_answers), np.diff(table.label_start)), table.label] = 1
        by_class = [
            dawid_skene(encode(table.worker, table.task, column, classes=[0, 1])).label == 1
            for column in said.T
        ]
        apart.append(_macro_f1(crowd.truth, np.stack(by_class, axis=1)))
    assert np.mean(mine) > np.mean(apart) + 0.01


def test_kinds_of_workers_are_told_apart() -> None:
    crowd = _crowd(1, n_tasks=600)
    found = multilabel_consensus(crowd.table)
    worth = found.worker_sensitivity - found.worker_false_rate
    by_kind = {kind: worth[crowd.kind == kind].mean() for kind in {*OTHERS, "honest"}}
    assert min(by_kind, key=by_kind.__getitem__) == "spammer"
    few, many = (
        found.worker_false_rate[crowd.kind == kind].mean() for kind in ("conservative", "liberal")
    )
    assert few < many / 5


def test_probabilities_are_calibrated_on_a_crowd_of_the_model() -> None:
    crowd = _crowd(2, n_tasks=1500)
    found = multilabel_consensus(crowd.table)
    holds = crowd.truth[np.repeat(np.arange(1500), np.diff(found.start)), found.label]
    place = np.minimum((found.probability * 10).astype(int), 9)
    error = sum(
        abs(found.probability[place == one].sum() - holds[place == one].sum()) for one in range(10)
    )
    assert error / len(holds) < 0.04


def test_at_one_half_the_chosen_classes_are_those_that_the_model_believes() -> None:
    found = multilabel_consensus(_crowd(3).table)
    np.testing.assert_array_equal(found.chosen, found.model > 0.5)
    # of few workers the confidence by public crowds is often below one half
    for seed in range(20):
        crowd = _small_crowd(seed)
        found = multilabel_consensus(crowd.table)
        np.testing.assert_array_equal(found.chosen, found.model > 0.5)


def _small_crowd(seed: int):
    rng = np.random.default_rng(seed)
    return simulate_multilabels(
        n_tasks=20, n_workers=2, answers_per_task=1 + seed % 2, n_classes=2, max_labels=1,
        others={"careless": 1}, rng=rng,
    )  # fmt: skip


def test_a_class_that_nobody_gave_a_task_is_not_chosen() -> None:
    table = encode_multilabels(
        ["a", "b", "a", "b"], [1, 1, 2, 2], [["x"], ["x"], ["x", "y"], ["y"]]
    )
    found = multilabel_consensus(table)
    assert found.classes_of(0).tolist() == [0]
    assert found.table().shape == (2, 2)
    assert found.table()[0, 1] == found.unseen[1] < 0.5


def test_a_class_that_a_task_did_not_show_says_nothing_of_its_workers() -> None:
    rows = [(w, t, [x]) for t, x in enumerate("xyxyxyxy") for w in "abc"]
    workers, tasks, sets = (list(column) for column in zip(*rows, strict=True))
    whole = multilabel_consensus(encode_multilabels(workers, tasks, sets))
    table = encode_multilabels(workers, tasks, sets, shown={t: ["xy"[t % 2]] for t in range(8)})
    shown = multilabel_consensus(table)
    assert whole.prevalence[0] < 0.6 < 0.9 < shown.prevalence[0]
    assert shown.chosen.all()


@pytest.mark.parametrize("answers", [1, 2, 5])
@pytest.mark.parametrize("seed", [4, 22, 31])
def test_the_order_of_workers_tasks_and_classes_changes_nothing_but_rounding(
    answers: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    table = simulate_multilabels(
        n_tasks=60, n_workers=13, answers_per_task=answers, n_classes=20, rng=rng
    ).table
    w, t, c = (rng.permutation(n) for n in (table.n_workers, table.n_tasks, table.n_classes))
    sets = [c[table.label[a:b]].tolist() for a, b in zip(table.label_start, table.label_start[1:])]  # noqa: B905
    turned = encode_multilabels(w[table.worker], t[table.task], sets, classes=list(range(20)))
    one, other = multilabel_consensus(table).table(), multilabel_consensus(turned).table()
    np.testing.assert_allclose(one, other[np.ix_(t, c)], atol=1e-9)


def test_the_same_bytes_on_every_run() -> None:
    table = _crowd(5, n_tasks=100).table
    one, other = multilabel_consensus(table), multilabel_consensus(table)
    assert one.probability.tobytes() == other.probability.tobytes()


def test_a_threshold_chooses_more_or_less() -> None:
    table = _crowd(6).table
    sums = [multilabel_consensus(table, threshold=at).chosen.sum() for at in (0.2, 0.5, 0.8)]
    assert sums == sorted(sums, reverse=True)
    assert sums[0] > sums[2]


def test_answers_without_classes_give_tasks_without_classes() -> None:
    found = multilabel_consensus(encode_multilabels(["a", "b"], [1, 1], [[], []], classes=["x"]))
    assert found.classes_of(0).tolist() == []
    assert np.isfinite(found.table()).all()


@pytest.mark.parametrize("named", [{"threshold": 1.0}, {"max_iter": 0}, {"tol": -1.0}])
def test_mistakes_are_named(named: dict) -> None:
    table = encode_multilabels(["a"], [1], [["x"]])
    with pytest.raises(ValueError, match=f"{next(iter(named))} must be"):
        multilabel_consensus(table, **named)


def test_progress_counts_iterations() -> None:
    seen: list[int] = []
    found = multilabel_consensus(
        _crowd(7, n_tasks=60).table, progress=lambda what, done, total: seen.append(done)
    )
    assert seen == list(range(1, found.n_iter + 1))


def _with_gold(crowd, n_gold: int) -> np.ndarray:  # type: ignore[no-untyped-def]
    gold = np.full(crowd.truth.shape, -1, dtype=np.int8)
    gold[:n_gold] = crowd.truth[:n_gold]
    return gold


def test_what_gold_says_is_in_the_consensus() -> None:
    crowd = _crowd(0)
    found = multilabel_consensus(crowd.table, gold=_with_gold(crowd, 30))
    np.testing.assert_array_equal(_chosen(found, crowd.truth.shape)[:30], crowd.truth[:30])
    assert set(found.probability[: found.start[30]]) == {0.0, 1.0}
    assert found.evidence == "gold"
    assert ((found.probability >= 0) & (found.probability <= 1)).all()


def test_classes_that_hold_by_gold_alone_calibrate_nothing() -> None:
    """Fifty gold cells or more calibrate others, if workers gave them: by gold alone they are no sample."""
    rng = np.random.default_rng(0)
    sets = [["cat"] if rng.random() < 0.8 else [] for _ in range(180)]
    table = encode_multilabels(
        list("abc") * 60, np.repeat(range(60), 3), sets, classes=["cat", "dog"]
    )
    gold = np.tile(np.array([-1, 1], dtype=np.int8), (60, 1))
    assert multilabel_consensus(table, gold=gold).evidence == "labels"
    gold[:, 0] = 1
    assert multilabel_consensus(table, gold=gold).evidence == "gold"


def test_a_task_without_answers_has_no_consensus_even_with_gold() -> None:
    tasks, sets = ["x", "x", "y", "y", "z"], [["cat"], ["cat"], ["dog"], ["dog"], ["cat"]]
    table = encode_multilabels(["ann", "bob", "ann", "bob", "cy"], tasks, sets)
    gold = encode_gold_sets(table, ["z"], [["dog"]])
    left = multilabel_consensus(table.keep_workers(np.array([True, True, False])), gold=gold)
    assert [left.classes_of(task).tolist() for task in range(3)] == [[0], [1], []]
    whole = multilabel_consensus(table, gold=gold)
    assert [whole.classes_of(task).tolist() for task in range(3)] == [[0], [1], [1]]


def test_gold_teaches_what_workers_are_worth() -> None:
    """Five crowds in which most guess: others' macro-F1 gains .02 or more of 100 gold tasks."""
    gains = []
    for seed in range(5):
        crowd = simulate_multilabels(
            n_tasks=250, n_workers=20, answers_per_task=4, n_classes=8, others={"spammer": 14},
            rng=np.random.default_rng(seed),
        )  # fmt: skip
        scores = [
            _macro_f1(crowd.truth[100:], _chosen(found, crowd.truth.shape)[100:])
            for found in (
                multilabel_consensus(crowd.table),
                multilabel_consensus(crowd.table, gold=_with_gold(crowd, 100)),
            )
        ]
        gains.append(scores[1] - scores[0])
    assert np.mean(gains) > 0.02


def test_gold_calibrates_the_cells_of_other_tasks() -> None:
    """Answers that others copied, so that nobody's word is worth what the model takes it for.

    On three such crowds the log loss of the other tasks fell from .48-.52 to .35-.39.
    """
    crowd = _crowd(1, n_tasks=400)
    rows = [crowd.table.set_of(answer).tolist() for answer in range(crowd.table.n_answers)]
    tasks, workers = crowd.table.task.tolist(), crowd.table.worker.tolist()
    first = np.flatnonzero(np.diff(crowd.table.task, prepend=-1)).tolist()
    for copy in range(1, 4):  # one answer to each task is there four times, by others
        rows += [rows[answer] for answer in first]
        tasks += [tasks[answer] for answer in first]
        workers += [1000 * copy + workers[answer] for answer in first]
    table = encode_multilabels(workers, tasks, rows, classes=list(range(20)))

    def loss(found: MultiLabelConsensus) -> float:
        cell = np.repeat(np.arange(400), np.diff(found.start))
        holds = crowd.truth[cell, found.label]
        chance = np.where(holds, found.probability, 1 - found.probability)[cell >= 100]
        return float(-np.log(np.maximum(chance, 1e-9)).mean())

    with_gold = multilabel_consensus(table, gold=_with_gold(crowd, 100))
    assert loss(with_gold) < 0.85 * loss(multilabel_consensus(table))


def test_copies_count_once_where_they_are_a_group() -> None:
    crowd = _crowd(2, n_tasks=300)
    table = crowd.table
    source = int(np.flatnonzero(crowd.kind == "spammer")[0])
    rows = [table.set_of(answer).tolist() for answer in range(table.n_answers)]
    tasks, workers = table.task.tolist(), table.worker.tolist()
    for answer in np.flatnonzero(table.worker == source).tolist():
        rows += [rows[answer]] * 5
        tasks += [tasks[answer]] * 5
        workers += [1000, 1001, 1002, 1003, 1004]
    copied = encode_multilabels(workers, tasks, rows, classes=list(range(20)))
    groups = dependent_groups(yes_no_labels(copied)).group
    assert sorted(copied.workers[groups >= 0]) == [source, 1000, 1001, 1002, 1003, 1004]
    found, alone = (
        multilabel_consensus(one, groups=given) for one, given in ((copied, groups), (table, None))
    )
    np.testing.assert_allclose(found.table(), alone.table(), atol=1e-9)
    rate = found.sensitivity[groups >= 0]
    np.testing.assert_array_equal(rate, np.repeat(rate[:1], 6, axis=0))


def test_without_dependence_no_group_is_found() -> None:
    """None of six crowds here; of eight others none was (ten classes, six answers a task)."""
    for seed in range(6):
        labels = yes_no_labels(_crowd(100 + seed, n_classes=10).table)
        assert (dependent_groups(labels).group < 0).all()


@pytest.mark.refusal
def test_gold_and_groups_fit_the_table() -> None:
    table = encode_multilabels(["a"], [1], [["x"]])
    with pytest.raises(
        ValueError, match="gold must be 1, 0 or -1 for each of 1 tasks and 1 classes"
    ):
        multilabel_consensus(table, gold=np.zeros((2, 1), dtype=np.int8))
    with pytest.raises(ValueError, match="groups must be 1 codes"):
        multilabel_consensus(table, groups=np.zeros(2, dtype=np.int64))


def test_gold_of_a_class_that_a_task_did_not_show_is_refused() -> None:
    """It would count as denied by workers who could not give it."""
    table = encode_multilabels(
        ["a", "b"] * 2, ["t", "t", "u", "u"], [["x"], ["x"], ["y"], ["x"]], shown={"t": ["x"]}
    )
    gold = np.array([[1, 1], [-1, -1]], dtype=np.int8)
    with pytest.raises(ValueError, match="no class that its task did not show, got y for task t"):
        multilabel_consensus(table, gold=gold)
    gold[0, 1] = -1
    assert multilabel_consensus(table, gold=gold).classes_of(0).tolist() == [0]
