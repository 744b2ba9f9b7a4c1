"""Alpha of sets beside published numbers and a slow reader of all pairs."""

import numpy as np
import pytest

from quality import alpha_interval, encode, encode_multilabels, set_alpha, simulate_multilabels

PICTURES = (
    list("ABABAB"),
    list("XXYYZZ"),
    [["dog"], ["dog"], ["cat"], ["cat"], ["cat"], ["cat", "mouse"]],
)
# drawn once; NLTK 3.10.4 (AnnotationTask.alpha) gives 0.04177620362324341 and 0.04154993489326464
LETTERS = (
    "w1 t0 de,w4 t0 ace,w5 t0 d,w2 t1 d,w4 t1 bde,w1 t1 bce,w1 t2 ade,w4 t2 ace,w3 t2 de,w5 t3 ade,"
    "w3 t3 ae,w4 t3 d,w1 t4 cde,w2 t4 ce,w3 t4 cde,w1 t5 be,w2 t5 ace,w0 t5 bce,w0 t6 abd,w5 t6 d,"
    "w3 t6 a,w2 t7 a,w3 t7 abe,w4 t7 cde,w2 t8 c,w4 t8 a,w1 t8 e,w4 t9 ce,w0 t9 a,w1 t9 ce,"
    "w1 t10 de,w3 t10 ace,w4 t10 cde,w5 t11 ce,w1 t11 abc,w2 t11 abc"
)


def test_the_example_of_crowdkit() -> None:
    # crowd-kit's test_alpha_krippendorff_with_distance, which has 0.66733 since NLTK then rounded
    # Passonneau's 2/3 to 0.67; NLTK 3.10.4 gives what is asserted here
    table = encode_multilabels(*PICTURES)
    assert set_alpha(table, "masi").value == pytest.approx(2 / 3, abs=1e-12)
    assert set_alpha(table, "jaccard").value == pytest.approx(0.736842105263158, abs=1e-12)


def test_the_numbers_of_nltk() -> None:
    rows = [row.split() for row in LETTERS.split(",")]
    table = encode_multilabels([r[0] for r in rows], [r[1] for r in rows], [[*r[2]] for r in rows])
    assert set_alpha(table, "masi").value == pytest.approx(0.04177620362324341, abs=1e-12)
    assert set_alpha(table, "jaccard").value == pytest.approx(0.04154993489326464, abs=1e-12)


def test_sets_of_one_class_are_nominal_labels() -> None:
    rng = np.random.default_rng(0)
    worker, task = np.divmod(np.arange(200), 40)
    label = (task % 4 + (rng.random(200) < 0.3)) % 4
    nominal = alpha_interval(encode(worker, task, label))
    for metric in ("masi", "jaccard"):
        found = set_alpha(encode_multilabels(worker, task, [[one] for one in label]), metric)
        for name in ("value", "unbiased", "lower", "upper"):
            assert getattr(found, name) == pytest.approx(getattr(nominal, name), abs=1e-12)


def test_the_distances_are_those_of_all_pairs() -> None:
    rng = np.random.default_rng(1)
    table = simulate_multilabels(
        n_tasks=25, n_workers=6, answers_per_task=3, n_classes=4, others={"careless": 3}, rng=rng
    ).table
    sets = [frozenset(table.set_of(answer).tolist()) for answer in range(table.n_answers)]
    assert frozenset() in sets

    def masi(one: frozenset, other: frozenset) -> float:
        if one == other:
            return 0.0
        weight = 2 / 3 if one < other or other < one else 1 / 3
        return 1 - weight * len(one & other) / len(one | other)

    def jaccard(one: frozenset, other: frozenset) -> float:
        return 1 - len(one & other) / len(one | other) if one | other else 0.0

    n = table.n_answers
    for metric, apart in (("masi", masi), ("jaccard", jaccard)):
        far = np.array([[apart(one, other) for other in sets] for one in sets])
        same = table.task[:, np.newaxis] == table.task
        observed, expected = far[same].sum() / 2 / n, far.sum() / n / (n - 1)
        assert set_alpha(table, metric).value == pytest.approx(1 - observed / expected, abs=1e-12)


def test_an_answer_that_no_other_is_beside_plays_no_part_in_alpha() -> None:
    workers, tasks, sets = PICTURES
    more = encode_multilabels([*workers, "A", "B"], [*tasks, "V", "W"], [*sets, [], ["bird"]])
    assert set_alpha(more, "masi").value == pytest.approx(2 / 3, abs=1e-12)
    assert set_alpha(more, "jaccard").value == pytest.approx(0.736842105263158, abs=1e-12)


def test_the_interval_covers_the_alpha_of_the_population() -> None:
    # 60 campaigns of 80 tasks, from one of 6,000; 95 % intervals: fewer than 50 in 60 hold with 3e-4
    rng = np.random.default_rng(2)
    whole = simulate_multilabels(
        n_tasks=6000, n_workers=3, answers_per_task=3, n_classes=8, rng=rng
    ).table
    alpha, held = set_alpha(whole).value, 0
    sets = [whole.set_of(answer).tolist() for answer in range(whole.n_answers)]
    for _ in range(60):
        tasks = rng.choice(6000, 80, replace=False)
        rows = [row for task in tasks for row in range(3 * task, 3 * task + 3)]
        some = encode_multilabels(whole.worker[rows], whole.task[rows], [sets[row] for row in rows])
        found = set_alpha(some)
        held += found.lower <= alpha <= found.upper
    assert held >= 50


def test_order_does_not_matter() -> None:
    workers, tasks, sets = PICTURES
    turned = encode_multilabels(
        workers[::-1], tasks[::-1], sets[::-1], classes=["mouse", "cat", "dog"]
    )
    assert set_alpha(turned).value == pytest.approx(2 / 3, abs=1e-12)


@pytest.mark.refusal
@pytest.mark.parametrize("named", [{"metric": "nominal"}, {"level": 1.0}])
def test_mistakes_are_named(named: dict) -> None:
    with pytest.raises(ValueError, match=f"{next(iter(named))} must be"):
        set_alpha(encode_multilabels(*PICTURES), **named)
