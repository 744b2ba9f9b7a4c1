"""Dependent groups: planted cliques are found whole, honest crowds are left alone."""

from itertools import combinations

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from benchmarks.quality.crowd_sets import DATA, read_set
from benchmarks.quality.dependence import odd_crowd
from benchmarks.quality.scattered_cliques import crowd as scattered_crowd
from quality import (
    CrowdLabels,
    DependentGroups,
    LocalEngine,
    auto,
    cut_labels,
    dawid_skene,
    dependent_groups,
    dependent_groups_by_shards,
    effective_number,
    encode,
    power_law_assignment,
    regular_assignment,
    simulate_crowd,
)
from quality.dependence import candidates, groups, pairs
from quality.labels import NamedPosterior, name_classes
from quality.simulation.cliques import CLIQUES

SIZES = {"rings": 9, "load_aware": 9, "part_time": 8}


def crowd_of(
    kind: str, seed: int = 0, n_workers: int = 30, n_classes: int = 2, count: int | None = None
) -> tuple[CrowdLabels, np.ndarray, np.ndarray]:
    """Labels of 500 tasks by honest workers and a clique; the truth; true for the clique."""
    rng = np.random.default_rng(seed)
    rows = regular_assignment(n_tasks=500, n_workers=n_workers, labels_per_task=4, rng=rng)
    truth = rng.integers(n_classes, size=500)
    size = SIZES.get(kind, 5) if count is None else count
    crowd = simulate_crowd(rows, truth, n_classes=n_classes, adversaries={kind: size}, rng=rng)
    labels = encode(crowd.worker, crowd.task, crowd.label, classes=range(n_classes))
    return labels, truth, crowd.kind != "honest"


@pytest.mark.parametrize("n_classes", [2, 4])
@pytest.mark.parametrize("kind", CLIQUES)
def test_planted_cliques_are_found_and_nobody_else(kind: str, n_classes: int) -> None:
    labels, _, planted = crowd_of(kind, n_classes=n_classes)
    found = dependent_groups(labels)
    assert np.array_equal(found.group >= 0, planted)
    if kind in ("rings", "load_aware"):
        assert np.array_equal(found.group[planted], np.repeat(np.arange(3), 3))
    assert (found.p_value < 1e-3).all()
    assert (found.n_wrong > 1.2 * found.expected_wrong).all()


@pytest.mark.parametrize(
    ("n_members", "n_classes", "accuracy", "seed"),
    [(15, 2, 0.65, 0), (15, 4, 0.75, 1), (15, 4, 0.25, 2), (8, 4, 0.25, 3)],
)
def test_a_clique_whose_members_share_few_tasks_is_found(
    n_members: int, n_classes: int, accuracy: float, seed: int
) -> None:
    """Two workers share five tasks, and no pair can be judged by itself."""
    crowd = scattered_crowd(n_members, 50, 500, n_classes, accuracy, seed)
    found = dependent_groups(crowd.labels)
    assert np.array_equal(found.group >= 0, ~crowd.honest)
    assert (found.p_value < 1e-3).all()
    assert (found.copied > 0.8).all()
    assert found.n_common.sum() > 4 * n_members * (n_members - 1) / 2
    assert (found.n_agreed == found.n_common).all()
    cuts = LocalEngine(cut_labels(crowd.labels, [0, 130, 131, 500]))
    assert np.array_equal(dependent_groups_by_shards(cuts).group, found.group)


def test_a_scattered_clique_takes_no_campaign_over() -> None:
    crowd = scattered_crowd(15, 50, 500, 2, 0.65, 0)
    right = {}
    for weighed in (None, dependent_groups(crowd.labels).group):
        label = auto(crowd.labels, groups=weighed).label
        right[weighed is None] = np.mean(label == crowd.truth)
    assert right[False] > 0.88 > 0.8 > right[True]


@pytest.mark.parametrize("kind", ["wide", "confused", "graded", "of hard tasks", "tempted"])
def test_honest_workers_who_share_few_tasks_are_no_group(kind: str) -> None:
    for seed in range(3):
        crowd = odd_crowd(kind, 50, 500, 5, 4, 0, seed)
        assert (dependent_groups(crowd.labels).group < 0).all()


def test_models_are_in_no_scattered_clique() -> None:
    """A model beside people is not looked for among them, and two are their own group."""
    crowd = scattered_crowd(15, 50, 500, 2, 0.65, 0)
    models = np.flatnonzero(~crowd.honest)[:2]
    found = dependent_groups(crowd.labels, models=models)
    assert len(set(found.group[models].tolist())) == 1
    others = np.setdiff1d(np.flatnonzero(~crowd.honest), models)
    assert set(found.group[others].tolist()) == {0}
    assert (found.group[crowd.honest] < 0).all()
    assert found.group[models[0]] == 1


def test_pairs_who_share_many_tasks_are_judged_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("looked for scattered groups")

    monkeypatch.setattr(candidates, "with_scattered", refuse)
    dependent_groups(odd_crowd("wide", 12, 2000, 0, 2, 0, 0).labels)
    with pytest.raises(AssertionError, match="scattered"):
        dependent_groups(odd_crowd("wide", 50, 500, 5, 2, 0, 0).labels)


def test_totals_give_the_skills_of_a_crowd_on_its_own() -> None:
    """Expected agreement by totals is that of the products of skills, where these are the truth."""
    rng = np.random.default_rng(3)
    one, other = np.triu_indices(40, 1)
    skill = rng.uniform(0.3, 0.9, 40)
    agreed = 0.5 + 0.5 * skill[one] * skill[other]
    n_common = np.full(len(one), 4_000)
    fit = pairs.PairFit(
        np.column_stack([one, other]).astype(np.int32), n_common, np.rint(n_common * agreed).astype(int),
        agreed, np.full(len(one), 0.5), np.zeros(len(one)), np.ones(len(one), dtype=np.bool_), skill,
        csr_matrix((40, 2)),
    )  # fmt: skip
    found = pairs.expected_by_totals(fit, np.ones(len(one), dtype=np.bool_))
    assert found == pytest.approx(agreed, abs=1e-3)


def test_a_fraction_of_one_wrong_looking_agreement_confirms_nobody() -> None:
    """Of the busiest third of music two good workers had been a group by .2 such answers."""
    labels, _ = read_set(DATA / "music")
    busiest = np.argsort(-np.bincount(labels.worker), kind="stable")[: labels.n_workers // 3]
    for seed in (2, 3, 4, 6, 8, 10):
        keep = np.isin(np.arange(labels.n_workers), busiest)
        keep &= np.random.default_rng(seed).random(labels.n_workers) < 0.8
        assert len(dependent_groups(labels.keep_workers(keep)).sizes) == 0


@pytest.mark.parametrize(
    ("kind", "n_workers", "n_tasks", "overlap", "n_classes"),
    [("wide", 8, 1000, 0, 5), ("confused", 8, 5000, 0, 2), ("rare", 15, 4000, 0, 2),
     ("one-sided", 12, 2000, 0, 2), ("one-sided", 30, 3000, 8, 2)],
)  # fmt: skip
def test_the_best_of_a_few_workers_are_no_clique(
    kind: str, n_workers: int, n_tasks: int, overlap: int, n_classes: int
) -> None:
    """They differ widely and share thousands of tasks; those who copy are found there all the same."""
    crowd = kind, n_workers, n_tasks, overlap, n_classes
    held, copied = [], []
    for seed in range(100, 105):
        held.append((dependent_groups(odd_crowd(*crowd, 0, seed).labels).group >= 0).any())
        joined = odd_crowd(*crowd, n_workers // 4, seed)
        copied.append((dependent_groups(joined.labels).group >= 0)[~joined.honest].mean())
    assert not any(held)
    assert np.mean(copied) >= 0.6


@pytest.mark.parametrize(
    ("n_workers", "n_tasks", "overlap", "n_classes"),
    [(6, 300, 0, 5), (8, 500, 0, 3), (20, 1000, 5, 5), (30, 2000, 6, 4)],
)
def test_lenient_and_strict_graders_are_hardly_ever_a_group(
    n_workers: int, n_tasks: int, overlap: int, n_classes: int
) -> None:
    """Those of one kind agree on wrong grades; without the last step half of these crowds have a group."""
    crowd = "lenient or strict", n_workers, n_tasks, overlap, n_classes
    held = [
        (dependent_groups(odd_crowd(*crowd, 0, seed).labels).group >= 0).any()
        for seed in range(100, 108)
    ]
    assert sum(held) <= 1


def test_experts_among_workers_who_hardly_know_are_no_group() -> None:
    """Of the busiest workers of web up to nine experts were a group, which cost ten points."""
    labels, _ = read_set(DATA / "web")
    busiest = np.argsort(-np.bincount(labels.worker), kind="stable")[: labels.n_workers // 3]
    for seed in (0, 3, 7, 9, 16):
        keep = np.isin(np.arange(labels.n_workers), busiest)
        keep &= np.random.default_rng(seed).random(labels.n_workers) < 0.8
        assert len(dependent_groups(labels.keep_workers(keep)).sizes) == 0


@pytest.mark.parametrize("kind", ["sybils", "part_time", "better_models"])
def test_weighed_consensus_is_as_good_as_without_the_clique(kind: str) -> None:
    labels, truth, planted = crowd_of(kind, seed=1)
    found = dependent_groups(labels)
    weighed = np.mean(dawid_skene(labels, groups=found.group).label == truth)
    without = np.mean(dawid_skene(labels.keep_workers(~planted)).label == truth)
    assert weighed > without - 0.02
    assert weighed > np.mean(dawid_skene(labels).label == truth)


@pytest.mark.parametrize("design", [regular_assignment, power_law_assignment])
def test_honest_crowds_have_no_groups(design: type) -> None:
    """Of 30 crowds two at most; the bound on one is .01, so that three have probability 4e-3 at most."""
    n_found = 0
    for seed in range(30):
        rng = np.random.default_rng(seed)
        rows = design(n_tasks=300, n_workers=25, labels_per_task=5, rng=rng)
        truth = rng.integers(3, size=300)
        crowd = simulate_crowd(rows, truth, n_classes=3, adversaries={}, rng=rng)
        n_found += len(dependent_groups(encode(crowd.worker, crowd.task, crowd.label)).sizes) > 0
    assert n_found <= 2


def test_malicious_and_random_workers_are_no_clique() -> None:
    rng = np.random.default_rng(0)
    rows = regular_assignment(n_tasks=500, n_workers=30, labels_per_task=5, rng=rng)
    truth = rng.integers(3, size=500)
    kinds = {"random": 4, "malicious": 4}
    crowd = simulate_crowd(rows, truth, n_classes=3, adversaries=kinds, rng=rng)
    assert not len(dependent_groups(encode(crowd.worker, crowd.task, crowd.label)).sizes)


def test_names_of_workers_tasks_and_classes_play_no_part() -> None:
    labels, _, _ = crowd_of("models", n_classes=3)
    rng = np.random.default_rng(1)
    workers, tasks = rng.permutation(labels.n_workers), rng.permutation(labels.n_tasks)
    classes = np.array([2, 0, 1])
    one = dependent_groups(labels)
    other = dependent_groups(
        encode(workers[labels.worker], tasks[labels.task], classes[labels.label])
    )
    assert np.array_equal(one.group >= 0, other.group[workers] >= 0)
    assert other.copied == pytest.approx(one.copied, abs=1e-3)
    assert other.n_wrong == pytest.approx(one.n_wrong, rel=1e-2)


def test_shards_give_the_groups_of_the_whole_table() -> None:
    labels, _, _ = crowd_of("rings")
    whole = dependent_groups(labels)
    parts = dependent_groups_by_shards(LocalEngine(cut_labels(labels, [0, 130, 131, 500])))
    assert np.array_equal(parts.group, whole.group)
    for name in ("copied", "effective_interval", "n_wrong", "expected_wrong", "p_value"):
        assert getattr(parts, name) == pytest.approx(getattr(whole, name), rel=1e-6)


def test_the_same_bytes_on_every_run() -> None:
    labels, _, _ = crowd_of("part_time")
    one, other = dependent_groups(labels), dependent_groups(labels)
    for name in DependentGroups.__slots__:
        assert getattr(one, name).tobytes() == getattr(other, name).tobytes()


def test_the_share_copied_and_what_a_group_is_worth_are_covered() -> None:
    """Two models have the mind's answer on .64 of the tasks: 90 % intervals, 20 crowds.

    Fewer than 12 of 20 at 90 % have probability 7e-5.
    """
    covered = 0
    for seed in range(20):
        found = dependent_groups(crowd_of("models", seed=seed)[0])
        (low, high), (copied,) = found.copied_interval[0], found.copied
        assert low <= copied <= high
        covered += low <= 0.64 <= high
        assert found.effective == pytest.approx(effective_number(found.sizes, found.copied))
    assert covered >= 12


@pytest.mark.parametrize("n_tasks", [20, 80])
def test_members_who_always_agree_copy_a_share_with_a_width_by_their_tasks(n_tasks: int) -> None:
    rng = np.random.default_rng(0)
    truth = rng.integers(2, size=n_tasks)
    given = [np.where(rng.random(n_tasks) < 0.8, truth, 1 - truth) for _ in range(11)]
    label = np.stack([*given, given[-1]])
    worker, task = np.divmod(np.arange(label.size), n_tasks)
    found = dependent_groups(encode(worker, task, label.ravel()), models=np.array([10, 11]))
    (low, high), (fewest, most) = found.copied_interval[0], found.effective_interval[0]
    assert found.copied[0] == pytest.approx(1.0)
    # Jeffreys: 1.9 disagreements at most, where about a third of the pairs may disagree
    assert 1 - low == pytest.approx(1.9 / n_tasks / 0.36, rel=0.3)
    assert high == fewest == pytest.approx(1.0)
    assert most == pytest.approx(2 / (1 + low))


def test_models_are_a_group_before_any_evidence_and_however_many() -> None:
    labels, _, planted = crowd_of("models", n_workers=12, count=9)
    assert not (dependent_groups(labels).sizes > 7).any()  # more than a third: the crowd
    found = dependent_groups(labels, models=np.flatnonzero(planted))
    assert np.array_equal(found.group >= 0, planted)


def test_one_model_confirms_no_other_group(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no agreement looks wrong enough, a single model is in no group, and nobody else is."""
    labels, _, planted = crowd_of("sybils")
    alone = np.flatnonzero(~planted)[-1:]
    assert len(dependent_groups(labels, models=alone).sizes) == 1  # the sybils, by evidence
    monkeypatch.setattr(groups, "LOOKS_WRONG", 1e9)
    assert not len(dependent_groups(labels, models=alone).sizes)


def test_gold_clears_workers_whose_common_answers_are_right() -> None:
    """With the truth of all tasks known, a clique still agrees on wrong answers."""
    labels, truth, planted = crowd_of("sybils")
    found = dependent_groups(labels, gold=truth)
    assert np.array_equal(found.group >= 0, planted)
    assert found.copied == pytest.approx(1.0)  # their errors are the same
    # every agreement on a wrong answer is seen: all pairs, on the tasks that the guesser misses
    wrong = labels.label[labels.worker == 33] != truth[labels.task[labels.worker == 33]]
    assert found.n_wrong[0] == pytest.approx(wrong.sum() * 10)


def test_a_crowd_without_common_tasks_has_no_groups() -> None:
    found = dependent_groups(encode(["ann", "bob"], [1, 2], ["x", "y"]))
    assert repr(found) == "DependentGroups(2 workers, worth 2.0: 0 groups)"
    assert found.worth == 2.0


@pytest.mark.parametrize("models", [None, np.array([4])])
def test_where_nobody_has_eight_labels_no_pair_is_counted(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch, models: np.ndarray | None
) -> None:
    """The result is that of the long way, in which no pair is judged."""
    labels = encode(np.repeat(np.arange(70), 7), np.arange(490) % 98, rng.integers(3, size=490))
    quick = dependent_groups(labels, models=models)
    more = pairs.fit_pairs(LocalEngine(cut_labels(labels, [0, labels.n_tasks])))
    assert not more.judged.any()
    with monkeypatch.context() as changed:
        changed.setattr(groups, "MIN_COMMON", 0)
        slow = dependent_groups(labels, models=models)
    for name in quick.__dataclass_fields__:
        one, other = getattr(quick, name), getattr(slow, name)
        assert one.dtype == other.dtype, name
        assert np.array_equal(one, other), name


def test_nobody_is_dependent_for_always_naming_one_class() -> None:
    """Two of them agree wholly, and chance explains it."""
    labels, _, _ = crowd_of("sybils", count=0)
    extra = np.repeat([100, 101], 500), np.tile(np.arange(500), 2), np.zeros(1000, int)
    columns = (labels.worker, labels.task, labels.label)
    both = (np.concatenate([one, other]) for one, other in zip(columns, extra, strict=True))
    assert not len(dependent_groups(encode(*both)).sizes)


def test_very_many_pairs_are_thinned_and_the_clique_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    labels, _, planted = crowd_of("sybils")
    monkeypatch.setattr(pairs, "MAX_PAIRS", 200)
    monkeypatch.setattr(pairs, "MAX_MEETINGS", 6000)
    monkeypatch.setattr(pairs, "BLOCK", 700)
    assert np.array_equal(dependent_groups(labels).group >= 0, planted)


@pytest.mark.refusal
def test_an_empty_list_of_models_is_none() -> None:
    """NumPy makes floats of it, which index nothing."""
    labels, _, _ = crowd_of("sybils")
    found, alone = dependent_groups(labels, models=np.array([])), dependent_groups(labels)
    assert found.group.tolist() == alone.group.tolist()


@pytest.mark.refusal
@pytest.mark.parametrize("models", [np.array([-1, 3]), np.array([0, 35]), np.array([0.5, 3.0])])
def test_models_that_are_no_workers_are_refused(models: np.ndarray) -> None:
    labels, _, _ = crowd_of("sybils")
    with pytest.raises(ValueError, match="models must be worker codes from 0 to 34"):
        dependent_groups(labels, models=models)


def test_with_gold_the_share_is_the_mean_correlation_of_errors() -> None:
    labels, truth, planted = crowd_of("models")
    gold = np.where(np.arange(500) % 5 == 0, truth, -1)
    found = dependent_groups(labels, gold=gold)
    table = np.full((labels.n_workers, 500), -1)
    table[labels.worker, labels.task] = labels.label
    known = gold >= 0
    errors = np.corrcoef((table[planted] != truth)[:, known].astype(float))
    mean = errors[np.triu_indices(5, 1)].mean()
    assert found.copied[0] == pytest.approx(mean, abs=0.01)
    assert found.copied_interval[0, 0] < mean < found.copied_interval[0, 1]


def test_gold_of_which_a_group_labelled_nothing_says_nothing_of_its_errors() -> None:
    labels, truth, planted = crowd_of("sybils")
    gold = np.where(np.arange(500) < 100, truth, -1)
    apart = labels.keep_labels(~(planted[labels.worker] & (labels.task < 100)))
    without, found = dependent_groups(apart), dependent_groups(apart, gold=gold)
    assert np.array_equal(found.group >= 0, planted)
    for name in ("copied", "copied_interval", "effective", "effective_interval"):
        assert getattr(found, name) == pytest.approx(getattr(without, name))


@pytest.mark.parametrize("known", [False, True])
def test_models_without_a_common_task_may_be_worth_one_or_all(
    known: bool, rng: np.random.Generator
) -> None:
    worker, task = np.repeat(np.arange(6), 50), np.tile(np.arange(100), 3)
    truth = rng.integers(2, size=100)
    labels = encode(worker, task, truth[task] ^ (rng.random(300) < 0.2))
    gold = truth if known else None
    found = dependent_groups(labels, gold=gold, models=np.array([4, 5]))
    assert found.copied_interval.tolist() == [[0.0, 1.0]]
    assert found.effective_interval.tolist() == [[1.0, 2.0]]


def test_models_without_labels_are_no_evidence_of_anything() -> None:
    """They are more than all who have labels: the number of such sets had the logarithm of 0."""
    names = np.arange(6)
    labels = CrowdLabels.from_codes(
        np.array([0, 1]),
        np.array([0, 0]),
        np.array([0, 0]),
        workers=names,
        tasks=names,
        classes=names,
    )
    assert dependent_groups(labels, models=np.arange(4)).p_value.tolist() == [1.0]


def slow_sums(labels: CrowdLabels, groups: np.ndarray, truth: np.ndarray) -> dict[str, np.ndarray]:
    """Agreements, errors that two share and their chances, pair by pair; all are right half of the time."""
    found = {name: np.zeros(3) for name in ("agreed", "pairs", "wrong", "chance")}
    for one, other in combinations(range(labels.n_labels), 2):
        code = groups[labels.worker[one]]
        if labels.task[one] != labels.task[other] or groups[labels.worker[other]] != code:
            continue
        same = labels.label[one] == labels.label[other]
        found["agreed"][code] += same
        found["pairs"][code] += 1
        found["wrong"][code] += same * (1 - truth[labels.task[one], labels.label[one]])
        found["chance"][code] += 0.25 / (labels.n_classes - 1)
    return found


def test_the_sums_of_groups_are_those_of_their_pairs_one_by_one(rng: np.random.Generator) -> None:
    rows = rng.random((9, 40)) < 0.7
    worker, task = np.nonzero(rows)
    labels = encode(worker, task, rng.integers(3, size=len(worker)))
    code, truth = np.array([0, -1, 1, 0, 1, -1, 0, -1, 1]), rng.dirichlet(np.ones(3), 40)
    belief = NamedPosterior(
        named := name_classes(labels),
        truth[named.task, named.code],
        1 - named.sums(truth[named.task, named.code]),
    )
    shares = csr_matrix(np.full((9, 3), 1 / 3))
    given = code, belief, np.full(9, 0.5), shares, np.full(9, 0.1), None
    (shard,) = cut_labels(labels, [0, 40])
    agreed, _, looks_wrong, others = groups._sums(shard, given)
    slow = slow_sums(labels, code, truth)
    expected = slow["pairs"] * (1 / 3 + 0.01)
    assert agreed[:, 0] == pytest.approx((slow["agreed"] - expected)[:2])
    assert agreed[:, 1] == pytest.approx((slow["pairs"] - expected)[:2])
    assert [*looks_wrong[:, 0], others[0]] == pytest.approx(slow["wrong"].tolist())
    assert [*looks_wrong[:, 1], others[1]] == pytest.approx(slow["chance"].tolist())


def test_what_members_share_is_that_of_a_slice(rng: np.random.Generator) -> None:
    """Oracle: SciPy's slices, stored zeros included."""
    for _ in range(50):
        full = rng.integers(-2, 3, size=(12, 12)) * (rng.random((12, 12)) < 0.5)
        table = csr_matrix(full.astype(np.float64))
        table.data[rng.random(table.nnz) < 0.2] = 0.0
        core = np.flatnonzero(rng.random(12) < 0.5).tolist() or [11]
        inside = table[core][:, core]
        total, met = candidates._inside(core, table)
        assert total == pytest.approx(np.asarray(inside.sum(axis=1)).ravel())
        assert met.tolist() == np.diff(inside.indptr).tolist()


def test_groups_of_a_large_crowd_slice_no_table(monkeypatch: pytest.MonkeyPatch) -> None:
    """A slice takes time for every worker there is, and each pair would ask for one."""
    first = np.arange(0, 3_000, 30)[:, np.newaxis]
    pair = np.concatenate([first + duo for duo in combinations(range(4), 2)])
    size = len(pair)
    monkeypatch.setattr(csr_matrix, "__getitem__", lambda *_: pytest.fail("a slice"))
    found = candidates.candidate_groups(
        pair, np.full(size, 8.0), np.full(size, 0.6), np.full(size, 50), 3_000, 3_000
    )
    assert np.flatnonzero(found == 0).tolist() == [0, 1, 2, 3]
    assert found.max() == 99
