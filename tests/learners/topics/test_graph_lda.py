import networkx as nx
import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.estimator_checks import parametrize_with_checks

from learners.topics import graph_lda, topic_fit
from learners.topics.graph_lda import GraphLDA
from learners.topics.topic_counts import log_joint
from tests.learners.topics.simulated_documents import layered, matched, simulate

QUICK = {"n_iter": 12, "burn_in": 6, "n_samples": 3, "n_restarts": 1}
LAYERED = layered((1, 3, 3, 3))


NAMES = "predict returns names of concepts, and the check compares what it returns as numbers"
PROBABILITIES = (
    "the check asks of what has predict_proba the tags of a classifier, which this is not"
)
FAILING = dict.fromkeys(
    ("check_estimators_pickle", "check_fit_idempotent", "check_methods_sample_order_invariance",
     "check_methods_subset_invariance"),
    NAMES,
) | dict.fromkeys(
    ("check_estimator_sparse_array", "check_estimator_sparse_matrix"), PROBABILITIES
)  # fmt: skip


@pytest.mark.refusal  # some of the checks pass rows or parameters of any type
@parametrize_with_checks(
    [GraphLDA((1, 4), random_state=0, **QUICK)], expected_failed_checks=lambda _: FAILING
)
def test_the_estimator_keeps_scikit_learns_conventions(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def animals():
    """Two kinds of documents about six words; the first of each kind is labelled."""
    rng = np.random.default_rng(0)
    topics = np.array([[4, 4, 4, 0, 0, 1], [0, 0, 1, 4, 4, 4]]) / np.array([[13], [13]])
    kind = np.arange(60) % 2
    X = np.array([rng.multinomial(30, topics[k]) for k in kind])
    y = np.full(60, None, dtype=object)
    y[:6] = np.array(["cat", "dog"])[kind[:6]]
    return X, y, np.array(["cat", "dog"])[kind]


def fitted(animals, **knobs):
    X, y, _ = animals
    return GraphLDA(**({"level_sizes": (1, 3), "random_state": 0} | QUICK | knobs)).fit(X, y)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(3))
def test_labels_of_six_in_a_hundred_documents_recover_graph_and_paths(seed):
    """The paper's simulation at 1000 x 100: edge F1 at least .95 and path accuracy at least .97."""
    rng = np.random.default_rng(seed)
    X, paths, topics = simulate((1, 3, 3, 3), 1000, 100, 1000, rng)
    y = np.full(1000, -1)
    some = rng.permutation(1000)[:60]
    y[some] = [paths[d][-1] for d in some]
    model = GraphLDA((1, 3, 3, 3), random_state=seed).fit(csr_array(X), y, graph=LAYERED)
    f1, _, accuracy = matched(model, paths, topics)
    assert f1 >= 0.95
    assert accuracy >= 0.97


def test_all_labels_recover_every_edge_and_nearly_every_count(rng):
    X, paths, topics = simulate((1, 3, 3, 3), 1000, 100, 1000, rng)
    y = np.array([path[-1] for path in paths])
    model = GraphLDA((1, 3, 3, 3), n_restarts=1, random_state=0).fit(X, y, graph=LAYERED)
    f1, tv, _ = matched(model, paths, topics)
    assert f1 == 1
    assert tv <= 0.02


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 3, 4])
def test_without_labels_the_best_of_three_starts_finds_the_graph(seed):
    rng = np.random.default_rng(seed)
    X, paths, topics = simulate((1, 3, 3, 3), 1000, 100, 1000, rng)
    model = GraphLDA((1, 3, 3, 3), n_restarts=3, random_state=0).fit(X)
    assert matched(model, paths, topics)[0] >= 0.95


def test_a_few_labels_name_the_concepts_of_the_rest(animals):
    model = fitted(animals)
    X, y, truth = animals
    assert (model.predict(X) == truth).all()
    assert (model.labels_ == truth).all()
    labelled = y != None  # noqa: E711  # elementwise
    assert (model.labels_[labelled] == y[labelled]).all()
    shown = model.predict_proba(X)
    assert shown.shape == (60, len(model.classes_))
    assert shown.sum(axis=1) == pytest.approx(1, abs=1e-12)
    assert model.transform(X).sum(axis=1) == pytest.approx(1, abs=1e-12)
    assert {path[-1] for path in model.paths(X)} == {"cat", "dog"}


def test_the_same_seed_gives_the_same_result(animals):
    one, other = fitted(animals), fitted(animals)
    assert np.array_equal(one.log_joint_, other.log_joint_)
    assert np.array_equal(one.components_, other.components_)
    assert one.paths_ == other.paths_
    assert not np.array_equal(one.log_joint_, fitted(animals, random_state=1).log_joint_)


def test_order_of_words_within_rows_and_sparseness_change_nothing(animals):
    X, y, _ = animals
    dense, sparse = fitted(animals), clone(fitted(animals)).fit(csr_array(X), y)
    assert np.array_equal(dense.log_joint_, sparse.log_joint_)
    assert dense.score(X) == sparse.score(csr_array(X))


@pytest.mark.parametrize("knobs", [
    {"sticks": "closed"}, {"order": "sort"}, {"sampler": "conditional"}, {"init": "root"},
    {"init": "flat"}, {"init": "labels"}, {"optimize": ("alpha", "beta", "eta")},
    {"feasible": "lower", "level_sizes": (1, 3, 2)},
], ids=str)  # fmt: skip
def test_every_choice_learns_two_kinds_apart(animals, knobs):
    model = fitted(animals, n_restarts=2, **knobs)
    X, _, truth = animals
    assert model.score(X) > np.log(1 / 6)
    if "init" not in knobs or knobs["init"] == "labels":
        assert np.mean([name in path for name, path in zip(truth, model.paths_, strict=True)]) > 0.9
    assert np.isfinite(model.log_joint_).all()


def test_the_graph_says_what_documents_use(animals):
    model = fitted(animals)
    graph = model.graph_
    assert graph.names[0] == "root"
    assert graph.documents[0] == 60
    assert graph.words.sum() == animals[0].sum()
    assert graph.ends.sum() == 60
    assert dict.fromkeys(graph.names) | {"cat": None, "dog": None} == dict.fromkeys(graph.names)
    assert not graph.is_new[[graph.names.index("cat"), graph.names.index("dog")]].any()
    assert model.n_nodes_used_ == (graph.documents > 0).sum()
    drawn = graph.to_networkx()
    assert isinstance(drawn, nx.DiGraph)
    assert drawn.edges["root", "cat"]["count"] == 30
    assert nx.is_directed_acyclic_graph(drawn)
    assert not graph.documents.flags.writeable


def test_a_topic_that_no_label_names_is_a_new_node(animals):
    X, y, truth = animals
    y = np.where(y == "dog", None, y)
    model = GraphLDA((1, 3), random_state=0, n_iter=40, burn_in=20, n_restarts=3).fit(X, y)
    new = model.labels_[truth == "dog"]
    graph = model.graph_
    assert len(set(new.tolist())) == 1
    row = graph.names.index(new[0])
    assert graph.is_new[row] or graph.depth[row] == 0


def test_top_words_are_those_of_the_concept(animals):
    model = fitted(animals)
    assert set(model.top_words("cat", 3)) == {0, 1, 2}
    with pytest.raises(ValueError, match="node must be one of classes_, got 'cow'"):
        model.top_words("cow")


def test_growth_leaves_old_paths_and_opens_new_concepts(animals):
    X, y, _ = animals
    wide = np.column_stack([X, np.zeros((60, 3), int)])
    model = GraphLDA((1, 4), random_state=0, **QUICK).fit(wide, y)
    before, path = model.graph_, model.paths_
    birds = np.zeros((20, 9), int)
    birds[:, 6:] = np.random.default_rng(0).multinomial(30, [1 / 3] * 3, 20)
    model.partial_fit(birds, ["bird"] * 5 + [None] * 15)
    assert model.paths_[:60] == path
    assert (model.labels_[60:] == "bird").all()
    assert "bird" in model.graph_.names
    assert "bird" not in before.names
    grown = GraphLDA((1, 4), random_state=0, **QUICK).fit(wide, y).partial_fit(birds, freeze=False)
    assert len(grown.paths_) == 80
    new = set(grown.labels_[60:].tolist())
    assert new <= {
        name for name, n in zip(grown.graph_.names, grown.graph_.is_new, strict=True) if n
    }


def test_growth_goes_on_with_the_priors_that_were_sampled(animals):
    model = fitted(animals, optimize=("eta",))
    sampled = model._chain.law.eta
    assert sampled != 0.1
    model.set_params(optimize=None).partial_fit(animals[0][:2])
    assert model._chain.law.eta == sampled


@pytest.mark.parametrize(
    ("name", "changed"),
    [
        ("level_sizes", (1, 9)), ("feasible", "lower"), ("alpha", 3.0), ("beta", 2.0), ("eta", 0.5),
        ("tau_prior", (5.0, 1.0)),
    ],
)  # fmt: skip
def test_growth_refuses_slots_and_priors_other_than_the_fits(animals, name, changed):
    model = fitted(animals, optimize=("eta",))
    before, kept, score = model.paths_, getattr(model, name), model.score(animals[0])
    with pytest.raises(ValueError, match=f"{name} must stay .*, or fit all documents anew, got"):
        model.set_params(**{name: changed}).partial_fit(animals[0][:2])
    assert model.paths_ == before
    assert model.score(animals[0]) == score
    model.set_params(**{name: kept}, n_iter=20, sticks="closed").partial_fit(animals[0][:2])
    assert model._chain.law.closed
    assert len(model.set_params(**{name: changed}).fit(*animals[:2]).paths_) == 60


def test_a_given_graph_names_slots_of_every_level(animals):
    X, y, _ = animals
    graph = nx.DiGraph([("pet", "furry"), ("pet", "loud"), ("furry", "cat"), ("loud", "dog")])
    model = GraphLDA((1, 2, 3), random_state=0, **QUICK).fit(X, y, graph=graph)
    at = dict(zip(model.graph_.names, model.graph_.depth.tolist(), strict=True))
    assert {name: at[name] for name in graph} == {
        "pet": 0,
        "furry": 1,
        "loud": 1,
        "cat": 2,
        "dog": 2,
    }
    assert {path[0] for path in model.paths_} == {"pet"}
    assert {len(path) for path, one in zip(model.paths_, y, strict=True) if one == "cat"} == {3}


REFUSED = [
    ({"level_sizes": (2, 3)}, "level_sizes must begin with 1"),
    ({"level_sizes": ()}, "level_sizes must be whole numbers"),
    ({"level_sizes": (1, 0)}, "level_sizes must be whole numbers"),
    ({"level_sizes": (1, 1)}, "a slot for each named concept, got 2 at depth 1 for 1 slots"),
    ({"alpha": 0.0}, "alpha must be > 0"),
    ({"beta": float("nan")}, "beta must be > 0"),
    ({"eta": -1.0}, "eta must be > 0"),
    ({"tau_prior": (1.0, 0.0)}, "tau_prior must be > 0"),
    ({"tau_prior": (1.0,)}, "tau_prior must be two numbers"),
    ({"burn_in": 12}, "burn_in must be from 0 to n_iter - 1"),
    ({"n_iter": 0}, "n_iter must be >= 1"),
    ({"n_iter": 8.5}, "n_iter must be >= 1 and whole, got n_iter=8.5"),
    ({"n_restarts": "2"}, "n_restarts must be >= 1 and whole, got n_restarts='2'"),
    ({"burn_in": 0.5}, "burn_in must be from 0"),
    ({"level_sizes": 3}, "level_sizes must begin with 1"),
    ({"tau_prior": 1.0}, "tau_prior must be two numbers"),
    ({"tau_prior": (1.0, 2000.0)}, "tau_prior must be less one-sided or smaller"),
    ({"tau_prior": (2000.0, 1.0)}, "tau_prior must be less one-sided or smaller"),
    ({"thin": 0}, "thin must be >= 1"),
    ({"sticks": "loose"}, "sticks must be one of"),
    ({"optimize": ("gamma",)}, "optimize must name some of"),
    ({"optimize": "eta"}, "optimize must name some of .*, got 'eta'"),
    ({"optimize": 5}, "optimize must name some of .*, got 5"),
    ({"eta": 5e-324}, "eta must be > 0 and finite"),
    ({"level_sizes": (1, 100, 100, 100)}, "at most 100,000 paths"),
]  # fmt: skip


@pytest.mark.refusal  # some are of no kind that the signature allows
@pytest.mark.parametrize(("knobs", "message"), REFUSED, ids=[message for _, message in REFUSED])
def test_a_knob_out_of_range_is_refused(animals, knobs, message):
    with pytest.raises(ValueError, match=message):
        fitted(animals, **knobs)


@pytest.mark.parametrize(("graph", "message"), [
    ({"a": ["b"], "b": ["c"], "c": ["b"]}, "must have no cycle, got one that 'b'"),
    ({"a": ["b"], "c": ["d"]}, "must have one root from which all is reached, got 2"),
    ({"a": ["b"], "alone": []}, "must have one root from which all is reached, got 2"),
    ({}, "must have a root"),
    ({"a": ["b"], "b": ["c"], "c": ["d"]}, "at most 3 levels, as level_sizes, got 'd' at depth 3"),
    ({"a": ["b", "c"], "b": ["c"]}, "an edge must lead to the next level, got 'a' -> 'c'"),
    ({"a": ["b", "x", "y", "z"]}, "a slot for each named concept, got 4 at depth 1 for 3 slots"),
    ({"a": ["b"]}, "y must name concepts of the graph, got 'cat' in row 0"),
    ({"a": ["b", None]}, "a concept must have a name, got None, which stands for no label"),
    ({"a": ["b", -1]}, "a concept must have a name, got -1, which stands for no label"),
    ({-1: ["a", "b"]}, "a concept must have a name, got -1, which stands for no label"),
])  # fmt: skip
def test_a_graph_that_cannot_be_is_refused(animals, graph, message):
    X, y, _ = animals
    with pytest.raises(ValueError, match=message):
        GraphLDA((1, 3, 3), **QUICK).fit(X, y, graph=graph)


@pytest.mark.refusal
def test_a_graph_of_another_kind_is_refused(animals):
    with pytest.raises(TypeError, match="graph must be a mapping"):
        GraphLDA((1, 3)).fit(animals[0], graph=[("a", "b")])


@pytest.mark.refusal
@pytest.mark.parametrize(("graph", "message"), [
    ({"animal": "cat"}, "children of 'animal' must be a list of names, got 'cat'"),
    ({"animal": 5}, "children of 'animal' must be a list of names, got 5"),
    ({"animal": [["cat"]]}, r"a child of 'animal' must be a name or a number, got \['cat'\]"),
])  # fmt: skip
def test_children_that_are_no_list_of_names_are_refused(animals, graph, message):
    """A text was read as one child for each of its letters."""
    with pytest.raises(TypeError, match=message):
        GraphLDA((1, 3), **QUICK).fit(animals[0], graph=graph)


def test_children_are_read_from_an_iterator_too(animals):
    """It was at its end when they were read, and the graph was a root alone."""
    X, y, _ = animals
    model = GraphLDA((1, 3), **QUICK).fit(X, y, graph={"pet": iter(["cat", "dog"])})
    assert model.classes_[:3].tolist() == ["pet", "cat", "dog"]


@pytest.mark.refusal
def test_a_label_that_cannot_be_looked_up_is_refused(animals):
    y = np.array([None] * len(animals[0]), dtype=object)
    y[3] = ["cat"]
    with pytest.raises(TypeError, match=r"a label, row 3, must be a name or a number"):
        GraphLDA((1, 3), **QUICK).fit(animals[0], y)


@pytest.mark.refusal
@pytest.mark.parametrize("k", [0, -1, 2.5])
def test_top_words_are_so_many_as_can_be(animals, k):
    with pytest.raises(ValueError, match="k must be >= 1 and whole"):
        fitted(animals).top_words("cat", k)


@pytest.mark.parametrize("burn_in", [0, 6])
def test_the_start_of_highest_density_goes_on(animals, burn_in, monkeypatch):
    """Without burn-in the trace is empty, and the first start went on whatever the others were."""
    started, seen = topic_fit._started, []

    def spied(*given):
        state, counts = started(*given)
        seen.append((state, counts))
        return state, counts

    goes_on, kept = topic_fit._kept, []

    def watched(chain, *rest):
        kept.append((chain.state, [log_joint(chain.documents, *one, chain.law) for one in seen]))
        return goes_on(chain, *rest)

    monkeypatch.setattr(topic_fit, "_started", spied)
    monkeypatch.setattr(topic_fit, "_kept", watched)
    GraphLDA((1, 3), n_iter=8, burn_in=burn_in, n_samples=1, n_restarts=6, random_state=4).fit(
        animals[0]
    )
    [(state, densities)] = kept
    assert len(set(densities)) > 1
    assert state is seen[int(np.argmax(densities))][0]


@pytest.mark.parametrize(
    ("cell", "message"),
    [
        (-1.0, "Negative values"),
        (0.5, "whole numbers from 0"),
        (1e15, "at most 2,147,483,647 words in all, got 1e"),
        (1e300, "at most 2,147,483,647 words in all, got 1e"),
    ],
)
def test_what_is_no_count_is_refused(animals, cell, message):
    X = animals[0].astype(float)
    X[3, 2] = cell
    with pytest.raises(ValueError, match=message):
        GraphLDA((1, 3)).fit(X)


def test_labels_must_be_as_many_as_documents(animals):
    with pytest.raises(ValueError, match=r"for each of 60 documents, got 2"):
        GraphLDA((1, 3)).fit(animals[0], ["cat", "dog"])


def test_before_a_fit_nothing_is_predicted(animals):
    for call in ("predict", "transform", "score", "paths"):
        with pytest.raises(NotFittedError):
            getattr(GraphLDA((1, 3)), call)(animals[0])


def test_growth_without_a_free_slot_is_refused(animals):
    model = fitted(animals, level_sizes=(1, 2))
    with pytest.raises(
        ValueError, match="a new label needs an empty slot below the root, got 'cow'"
    ):
        model.partial_fit(animals[0][:1], ["cow"])


def test_a_refused_label_leaves_the_model_as_it_was(animals):
    model = fitted(animals, level_sizes=(1, 3))
    before = model.classes_.tolist()
    with pytest.raises(ValueError, match="a new label needs an empty slot"):
        model.partial_fit(animals[0][:4], ["ant", "bee", "cow", "doe"])
    assert model.partial_fit(animals[0][:1]).classes_.tolist() == before


def test_documents_weighed_some_at_a_time_are_weighed_the_same(animals, monkeypatch):
    """Memory is not in proportion to documents times paths."""
    X = animals[0]
    model = fitted(animals)
    calls = ("transform", "predict_proba", "paths", "score")
    whole = [getattr(model, call)(X) for call in calls]
    monkeypatch.setattr(graph_lda, "MAX_WEIGHTS", 7 * len(model._table.length) * 3)
    assert [len(weights[0]) for _, weights in model._weighed(X)] == [7] * 8 + [4]
    for call, wanted in zip(calls, whole, strict=True):
        assert np.array_equal(getattr(model, call)(X), wanted)


def test_documents_without_a_word_begin_anywhere():
    model = GraphLDA((1, 3), random_state=0, **QUICK).fit(np.zeros((5, 4)))
    assert len(model.paths_) == 5
    assert model.components_ == pytest.approx(0.25)


def test_an_empty_document_has_a_path_and_no_say_in_the_score(animals):
    X, y, _ = animals
    empty = np.vstack([X, np.zeros((1, 6), int)])
    model = fitted((empty, np.append(y, None), None))
    assert len(model.paths_) == 61
    assert model.score(empty) == model.score(X)
    assert model.transform(empty)[-1].sum() == pytest.approx(1)
    with pytest.raises(ValueError, match="got only empty documents"):
        model.score(empty[-1:])


def test_a_single_level_is_a_unigram_model(animals):
    X = animals[0]
    model = fitted((X, None, None), level_sizes=(1,))
    word = (X.sum(axis=0) + 0.1) / (X.sum() + 0.6)
    assert model.components_ == pytest.approx(word[None], abs=1e-12)
    assert model.score(X) == pytest.approx((X @ np.log(word)).sum() / X.sum(), abs=1e-10)


def test_a_document_labelled_with_the_root_stays_there(animals):
    X, y, _ = animals
    y = y.copy()
    y[10] = "pet"
    model = GraphLDA((1, 3), random_state=0, **QUICK).fit(X, y, graph={"pet": ["cat", "dog"]})
    assert model.paths_[10] == ("pet",)


def test_a_vocabulary_of_one_word(animals):
    X = np.full((5, 1), 4)
    model = GraphLDA((1, 2, 2), random_state=0, **QUICK).fit(X)
    assert model.score(X) == pytest.approx(0, abs=1e-9)


@pytest.mark.refusal
@pytest.mark.parametrize("kind", ["string", "Int64", "Float64"])
def test_what_pandas_holds_for_a_missing_label_is_none(kind):
    pd = pytest.importorskip("pandas")
    X = np.array([[6, 6, 0, 0], [0, 0, 6, 6]] * 5)
    names = ["cat", "dog"] if kind == "string" else [5, 6]
    model = GraphLDA((1, 2), random_state=0, n_iter=20, burn_in=10, n_samples=5)
    model.fit(X, pd.Series([*names, *[None] * 8], dtype=kind))
    assert set(names) <= set(model.classes_)


def test_a_document_of_words_never_seen_has_probabilities():
    """An empty slot explains such words so much better that the others have no mass that doubles hold."""
    X = np.zeros((40, 30), dtype=int)
    X[::2, :10] = X[1::2, 10:20] = 3
    model = GraphLDA((1, 4), random_state=0, n_iter=10, burn_in=5, n_samples=2).fit(X)
    new = np.zeros((2, 30), dtype=int)
    new[0, 20:], new[1, :10] = 200, 3
    found = model.predict_proba(new)
    assert found.sum(axis=1) == pytest.approx(1)
    assert model.predict(new)[0] in model.classes_
    assert set(model.paths(new)[0]) <= set(model.classes_)
