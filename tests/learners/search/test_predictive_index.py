import tracemalloc
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from learners.search.covers import FeatureCover, HyperplaneCover
from learners.search.predictive_index import PredictiveIndex, _Dense, _first_of_each


@pytest.mark.refusal  # some of the checks pass sparse rows or parameters of any type
@parametrize_with_checks([PredictiveIndex()])
def test_the_estimator_keeps_scikit_learns_conventions(estimator, check):
    check(estimator)


@pytest.fixture
def rows(rng):
    return rng.normal(size=(300, 6)), rng.normal(size=(200, 6))


EACH = pytest.mark.parametrize(
    "knobs",
    [{}, {"merge": "round_robin"}, {"merge": "sum"}, {"weighting": "hit"}, {"weighting": "mean"},
     {"scorer": "sqeuclidean"}, {"cover": HyperplaneCover(3, 40, random_state=0)}],
    ids=str,
)  # fmt: skip


def test_another_scorer_set_after_a_fit_waits_for_the_next_one(rows):
    objects, queries = rows
    index = PredictiveIndex(random_state=0).fit(objects, queries=queries)
    before = index.query(queries[0], k=5, budget=50)
    index.set_params(scorer="sqeuclidean")
    found = index.query(queries[0], k=5, budget=50)
    assert (found.ids.tolist(), found.scores.tolist()) == (
        before.ids.tolist(),
        before.scores.tolist(),
    )
    assert index.fit(objects, queries=queries).query(queries[0], k=5, budget=50).scores.max() < 0


@EACH
def test_a_budget_of_all_objects_gives_the_exact_answer(rows, knobs):
    objects, queries = rows
    index = PredictiveIndex(random_state=0, **knobs).fit(objects, queries=queries[:150])
    for query in queries[150:]:
        scores = -((objects - query) ** 2).sum(axis=1) if "scorer" in knobs else objects @ query
        found = index.query(query, k=5, budget=300)
        assert found.ids.tolist() == np.argsort(-scores)[:5].tolist()
        assert found.scores == pytest.approx(np.sort(scores)[::-1][:5])
        assert found.n_evaluations == 300


@EACH
def test_a_larger_budget_never_gives_worse_scores_and_no_object_is_scored_twice(rows, knobs):
    objects, queries = rows
    index = PredictiveIndex(random_state=0, **knobs).fit(objects, queries=queries[:150])
    for query in queries[150:170]:
        some = [index.query(query, k=3, budget=budget) for budget in (5, 20, 80)]
        assert [one.n_evaluations for one in some] == [5, 20, 80]
        for less, more in pairwise(some):
            assert (more.scores >= less.scores).all()
        read = index.candidates(query, 80)
        assert len(set(read.tolist())) == 80
        assert read[:20].tolist() == index.candidates(query, 20).tolist()


def test_the_papers_example_of_two_words_that_come_together():
    """Section 2.2: projections put p3 second in both lists, the predictive index puts it first."""
    pages = np.array([[1.0, -1.0], [-1.0, 1.0], [0.5, 0.5]])
    together = np.ones((20, 2))
    index = PredictiveIndex(FeatureCover(), weighting="mean").fit(pages, queries=together)
    assert index.query(np.array([1.0, 1.0]), k=1, budget=1).ids.tolist() == [2]
    assert index.candidates(np.array([1.0, 0.0]), 3)[0] == 2
    projected = np.argsort(-pages, axis=0)
    assert projected.T.tolist() == [[0, 2, 1], [1, 2, 0]]


def test_one_list_of_hits_is_the_best_order_for_the_training_queries(rng, monkeypatch):
    """Lemma 2.1, against every choice of two objects."""
    monkeypatch.setattr("learners.search.predictive_index.N_HIT", 1)
    objects, queries = rng.normal(size=(8, 2)), rng.normal(size=(60, 2))
    best = (queries @ objects.T).argmax(axis=1)
    index = PredictiveIndex(weighting="hit", random_state=0).fit(objects, queries=queries)
    first = index.global_list_[:2]
    share = np.isin(best, first).sum()
    assert share == max(np.isin(best, [i, j]).sum() for i in range(8) for j in range(i))


def test_what_an_object_earns_is_its_discounted_rank(rng):
    objects, queries = rng.normal(size=(30, 3)), rng.normal(size=(40, 3))
    index = PredictiveIndex(top=4, random_state=0).fit(objects, queries=queries)
    earned = np.zeros(30)
    for query in queries:
        for rank, i in enumerate(np.argsort(-(objects @ query))[:4], start=1):
            earned[i] += 1 / np.log2(rank + 1)
    wanted = np.lexsort((np.arange(30), -earned))
    n_earning = (earned > 0).sum()
    assert index.global_list_[:n_earning].tolist() == wanted[:n_earning].tolist()


def test_a_black_box_scorer_of_a_few_best_objects_is_found_with_few_evaluations():
    """Half of the queries' best of 2000 objects within 40 evaluations, ten times chance and more."""
    rng = np.random.default_rng(0)
    objects, queries = rng.normal(size=(2000, 4)), rng.normal(size=(1100, 4))

    def scorer(query, rows):
        return -np.abs(np.sin(rows) - query).max(axis=1)

    index = PredictiveIndex(scorer=scorer, random_state=0).fit(objects, queries=queries[:1000])
    hits = [
        index.query(one, k=1, budget=100).ids[0] == np.argmax(scorer(one, objects))
        for one in queries[1000:]
    ]
    assert np.mean(hits) > 0.5
    assert index.n_scored_ == 2000 * 1000


def test_a_query_in_no_cell_falls_back_to_the_global_list(rng):
    objects = rng.random(size=(50, 3))
    queries = np.column_stack([rng.random(size=(20, 2)), np.zeros(20)])
    index = PredictiveIndex(FeatureCover()).fit(objects, queries=queries)
    found = index.query(np.array([0.0, 0.0, 1.0]), k=2, budget=10)
    assert found.fell_back
    assert (
        index.candidates(np.array([0.0, 0.0, 1.0]), 10).tolist() == index.global_list_[:10].tolist()
    )
    assert not index.query(np.array([1.0, 0.0, 0.0]), k=2, budget=10).fell_back
    assert index.coverage_ == 1


def test_without_a_fallback_only_the_lists_of_the_querys_cells_are_read(rng):
    objects, queries = rng.random(size=(50, 2)), np.eye(2)[rng.integers(2, size=20)]
    knobs = {"weighting": "hit", "fallback": "none"}
    index = PredictiveIndex(FeatureCover(), **knobs).fit(objects, queries=queries)
    found = index.query(np.array([1.0, 0.0]), k=10, budget=50)
    assert sorted(found.ids.tolist()) == sorted(np.argsort(-objects[:, 0])[:10].tolist())
    assert found.n_evaluations == 10
    assert not len(index.query(np.zeros(2), k=2, budget=50).ids)
    scores, ids = index.kneighbors(np.array([[1.0, 0.0], [0.0, 0.0]]), k=12, budget=50)
    assert (ids[0, :10] >= 0).all()
    assert (ids[0, 10:] == -1).all()
    assert (ids[1] == -1).all()
    np.testing.assert_array_equal(np.isnan(scores), ids == -1)


def test_the_sum_of_values_puts_first_what_several_lists_hold(rng):
    """Each word's favourite is first by its largest value, the page that both words like by the sum."""
    pages = np.array([[1.0, -1.0], [-1.0, 1.0], [0.8, 0.8], [-2.0, -2.0]])
    alone = np.repeat(np.eye(2), 5, axis=0)
    first = {
        merge: PredictiveIndex(FeatureCover(), weighting="mean", merge=merge)
        .fit(pages, queries=alone)
        .candidates(np.ones(2), 1)
        .tolist()
        for merge in ("max", "sum")
    }
    assert first == {"max": [0], "sum": [2]}


def test_objects_as_queries_earn_themselves_nothing_unless_asked_to(rng):
    objects = rng.normal(size=(100, 3))
    cover = HyperplaneCover(4, 5, random_state=0)
    own, others = (
        PredictiveIndex(cover, scorer="sqeuclidean", exclude_self=one).fit(objects)
        for one in (False, True)
    )
    hits = [
        np.mean([index.query(row, 1, 8).ids[0] == i for i, row in enumerate(objects)])
        for index in (own, others)
    ]
    assert hits[0] > hits[1]


def test_lists_of_means_are_made_without_further_tables_of_cells_by_objects(rng):
    earned = _Dense(200, 3_000)
    for cell in range(200):
        earned.add(np.array([cell]), np.arange(3_000), rng.normal(size=3_000))
    tracemalloc.start()
    earned.lists(np.ones(200, int), 10)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < earned.n_scores.nbytes / 2


def test_a_mean_leaves_out_the_object_that_asked():
    objects = np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 2.0]])
    knobs = {"scorer": "sqeuclidean", "weighting": "mean", "fallback": "none"}
    index = PredictiveIndex(FeatureCover(), **knobs).fit(objects)
    assert index.candidates(np.array([1.0, 0.0]), 3).tolist() == [1, 0, 2]
    assert index.candidates(np.array([0.0, 1.0]), 3).tolist() == [1, 2, 0]


def test_queries_are_drawn_where_there_are_too_many(rows):
    objects, queries = rows
    index = PredictiveIndex(max_queries=50, random_state=0).fit(objects, queries=queries)
    assert index.n_scored_ == 50 * 300
    scores, ids = index.kneighbors(queries[:4], k=3, budget=50)
    assert scores.shape == ids.shape == (4, 3)


def test_distances_are_exact_far_from_the_origin_too(rows):
    """Squares of 1e9 have no digits left for differences of 1."""
    objects, queries = rows
    near, far = (
        PredictiveIndex(HyperplaneCover(3, 4, random_state=0), scorer="sqeuclidean", top=4).fit(
            objects + offset, queries=queries + offset
        )
        for offset in (0.0, 2.0**30)
    )
    for query in queries[:20]:
        found = far.query(query + 2.0**30, k=5, budget=300)
        assert found.ids.tolist() == near.query(query, k=5, budget=300).ids.tolist()
    earning = (near._lists.value > 0).sum()
    assert (far._lists.value > 0).sum() == earning
    own = near._lists.of(len(near._lists.start) - 2), far._lists.of(len(far._lists.start) - 2)
    share = np.isin(near._lists.ids[own[0]][:50], far._lists.ids[own[1]][:50]).mean()
    assert share > 0.9


@pytest.mark.parametrize("scorer", ["inner_product", "sqeuclidean"])
@pytest.mark.parametrize("factor", [2.0**-90, 2.0**80])
def test_the_unit_of_objects_and_queries_changes_no_list(rows, scorer, factor):
    """Products of numbers of these sizes are 0 or infinite in single precision."""
    objects, queries = rows
    one, other = (
        PredictiveIndex(HyperplaneCover(3, 4, random_state=0), scorer=scorer).fit(
            times * objects, queries=times * queries
        )
        for times in (1.0, factor)
    )
    assert (other._lists.ids == one._lists.ids).all()
    assert (other.global_list_ == one.global_list_).all()


@pytest.mark.refusal
def test_what_does_not_fit_is_refused(rows):
    objects, queries = rows
    for knobs, message in (
        ({"weighting": "sum"}, "weighting must be"),
        ({"merge": "mean"}, "merge must be"),
        ({"fallback": "nearest"}, "fallback must be"),
        ({"top": 0}, "top must be a whole number >= 1, got top=0"),
        ({"top": 2.5}, "top must be a whole number >= 1, got top=2.5"),
        ({"max_queries": 9.5}, "max_queries must be a whole number >= 1"),
        ({"scorer": "cosine"}, "scorer must be"),
        ({"scorer": lambda q, o: o[:, 0] * np.nan}, "one finite score"),
        ({"scorer": lambda q, o: o[1:, 0]}, "one finite score"),
        ({"scorer": lambda q, o: o[int(q[0] > 0) :, 0]}, "one finite score"),
        ({"scorer": lambda q, o: ["high"] * len(o)}, "one finite score"),
        ({"scorer": lambda q, o: None}, "one finite score"),
        ({"scorer": lambda q, o: [[1.0], [1.0, 2.0]]}, "what scorer returns must be numbers"),
        ({"top": True}, "top must be a whole number >= 1, got top=True"),
        ({"cover": HyperplaneCover(n_planes=True)}, "n_planes must be 'auto' or from 1 to 63"),
        ({"cover": HyperplaneCover(n_partitions=True)}, "n_partitions must be a whole number"),
    ):
        with pytest.raises(ValueError, match=message):
            PredictiveIndex(**knobs).fit(objects, queries=queries)
    for cover in (5, HyperplaneCover, "hyperplanes"):
        with pytest.raises(TypeError, match="cover must be one such as FeatureCover"):
            PredictiveIndex(cover).fit(objects, queries=queries)
    index = PredictiveIndex(random_state=0).fit(objects, queries=queries)
    for some in (["a"] * 6, [[1.0], [1.0, 2.0]], [10**400] * 6):
        with pytest.raises(ValueError, match="query must be numbers, as many in each row"):
            index.query(some, k=1, budget=10)
        with pytest.raises(ValueError, match="queries must be numbers, as many in each row"):
            PredictiveIndex().fit(objects, queries=[some])
    with pytest.raises(ValueError, match="k must be from 1 to the budget"):
        index.query(queries[0], k=11, budget=10)
    with pytest.raises(ValueError, match=r"got k=2 and budget=9.5"):
        index.query(queries[0], k=2, budget=9.5)
    for number in (0, -1, 2.5, "ten"):
        with pytest.raises(ValueError, match="k must be a whole number >= 1"):
            index.kneighbors(queries, number, 10)
        with pytest.raises(ValueError, match="budget must be a whole number >= 1"):
            index.candidates(queries[0], number)
    for query in (queries[0, :5], queries[:1], np.full(6, np.nan)):
        with pytest.raises(ValueError, match="query must be 6 finite numbers"):
            index.query(query, k=1, budget=10)
    for some, message in (
        (queries[:, :5], r"queries must be rows of 6 features, got shape=\(200, 5\)"),
        (queries[0], "queries must be rows of 6 features"),
        (np.full((3, 6), np.inf), "queries must be finite, got inf at row 0, column 0"),
    ):
        with pytest.raises(ValueError, match=message):
            PredictiveIndex(random_state=0).fit(objects, queries=some)


def test_neighbours_of_queries_of_a_width_of_their_own_are_those_of_each_query(rows):
    objects, queries = rows
    narrow = queries[:, :2]
    index = PredictiveIndex(scorer=lambda q, o: o[:, :2] @ q, random_state=0).fit(
        objects, queries=narrow
    )
    scores, ids = index.kneighbors(narrow[:3], 2, 20)
    for at in range(3):
        found = index.query(narrow[at], 2, 20)
        np.testing.assert_array_equal(ids[at], found.ids)
        np.testing.assert_array_equal(scores[at], found.scores)
    with pytest.raises(ValueError, match="query must be 2 finite numbers"):
        index.kneighbors(objects[:3], 2, 20)


def test_columns_with_other_names_than_the_objects_are_refused(rows):
    """Reordered columns would give the neighbours of another query. A function's queries have their own."""
    objects, queries = (pd.DataFrame(one, columns=list("abcdef")) for one in rows)
    index = PredictiveIndex(random_state=0).fit(objects, queries=queries)
    found = index.kneighbors(queries[:3], 2, 20)[1]
    plain = PredictiveIndex(random_state=0).fit(rows[0], queries=rows[1])
    np.testing.assert_array_equal(found, plain.kneighbors(rows[1][:3], 2, 20)[1])
    turned = queries[list("bacdef")]
    with pytest.raises(ValueError, match="feature names"):
        index.kneighbors(turned[:3], 2, 20)
    with pytest.raises(ValueError, match="feature names"):
        PredictiveIndex(random_state=0).fit(objects, queries=turned)
    by_function = PredictiveIndex(scorer=lambda q, o: o @ q, random_state=0)
    by_function.fit(objects, queries=turned).kneighbors(turned[:3], 2, 20)


def test_a_query_reads_no_more_of_the_global_list_than_its_budget(rows, monkeypatch):
    """A million objects were sorted for every query whose lists were used up."""
    objects, queries = rows
    index = PredictiveIndex(FeatureCover(), list_length=3, random_state=0)
    index.fit(objects, queries=queries)
    whole, seen = index.candidates(queries[0], len(objects)), []

    def watched(ids):
        seen.append(len(ids))
        return _first_of_each(ids)

    monkeypatch.setattr("learners.search.predictive_index._first_of_each", watched)
    for budget in range(1, 60):
        assert index.candidates(queries[0], budget).tolist() == whole[:budget].tolist()
        assert max(seen) <= 6 * 3 + 2 * budget  # six features' lists, and the global one
    assert len(objects) > 6 * 3 + 2 * 59
