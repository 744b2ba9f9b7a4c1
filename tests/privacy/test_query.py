import hashlib
import json
import math
from dataclasses import replace

import numpy as np
import pytest

from privacy import CountsError, Part, Publication, Query, Unit, partition_of
from privacy.mechanism import Question
from privacy.query import MAX_RECORDS, assignment_digest, check_counts, check_size, is_text
from tests.privacy.toy import counts_query


def test_a_unit_covers_what_is_a_part_of_it_and_nothing_else():
    covered = {(one, other) for one in Unit for other in Unit if one.covers(other)}
    parts = {(Unit.ROW, Unit.CONSENSUS_LABEL), (Unit.TASK, Unit.ANSWER)}
    parts |= {(Unit.SUBJECT, Unit.ROW), (Unit.SUBJECT, Unit.CONSENSUS_LABEL)}
    expected = {(one, one) for one in Unit} | parts
    assert expected == covered


@pytest.mark.parametrize(
    ("field", "value", "error"),
    [
        ("dataset", "", ValueError),
        ("name", "", ValueError),
        ("n", 0, ValueError),
        pytest.param("n", math.nan, ValueError, marks=pytest.mark.refusal),
        pytest.param("n", 2.5, ValueError, marks=pytest.mark.refusal),
        ("l1", 0.0, ValueError),
        ("l1", -1.0, ValueError),
        ("l1", math.nan, ValueError),
        pytest.param("l1", 10**400, ValueError, marks=pytest.mark.refusal),
        pytest.param("unit", "row", TypeError, marks=pytest.mark.refusal),
        pytest.param("value", [1, 2], TypeError, marks=pytest.mark.refusal),
        ("name", "a\0b", ValueError),
        ("name", "\ud800", ValueError),
        ("n", 2**53 + 1, ValueError),
        pytest.param("n", True, ValueError, marks=pytest.mark.refusal),
        pytest.param("l1", True, TypeError, marks=pytest.mark.refusal),
        ("places", 0, ValueError),
        ("places", 3, ValueError),  # four records cannot have three places each
        pytest.param("places", 2.0, ValueError, marks=pytest.mark.refusal),
        pytest.param("places", True, ValueError, marks=pytest.mark.refusal),
        pytest.param("dataset", 7, TypeError, marks=pytest.mark.refusal),
        pytest.param("name", None, TypeError, marks=pytest.mark.refusal),
        ("value", {}, TypeError),
        pytest.param("value", {"x": [1.0]}, TypeError, marks=pytest.mark.refusal),
        ("value", np.array(["a"]), TypeError),
        ("value", np.array([None]), TypeError),
    ],
)
def test_an_invalid_query_cannot_be_built(field, value, error):
    fields = {
        "dataset": "toy",
        "name": "counts",
        "value": np.array([3, 1]),
        "unit": Unit.ROW,
        "n": 4,
        "l1": 2.0,
    }
    with pytest.raises(error, match="must"):
        Query(**(fields | {field: value}))


def test_neither_query_nor_question_shows_its_value():
    assert "31337" not in repr(counts_query((31337, 1)))
    assert "31337" not in repr(Question("score", {"train": 31337.0}))


@pytest.mark.parametrize("value", [None, {"x": "text"}, {}, [1.0]])
def test_a_question_holds_arrays_and_numbers(value):
    with pytest.raises(TypeError):
        Question("score", value)
    with pytest.raises(ValueError, match="value of 'holdout' must be numbers, as many in each row"):
        Question("score", {"train": 0.5, "holdout": [[0.5, 0.1], [0.3]]})


def test_a_question_and_a_part_have_names():
    with pytest.raises(ValueError, match="name"):
        Question("", {"x": 1.0})
    with pytest.raises(ValueError, match="cell must be"):
        Part("site:1", "")
    with pytest.raises(ValueError, match="partition must be"):
        Part("\0", "north")


@pytest.mark.refusal
def test_a_name_is_a_text():
    with pytest.raises(TypeError, match="name must be a text"):
        Question(7, {"x": 1.0})
    with pytest.raises(TypeError, match="cell must be a text"):
        Part("site:1", 7)


def test_a_partition_is_named_by_its_assignment_of_tasks():
    cell, tasks = np.array([0, 1, 1]), ["a", "b", "c"]
    same = partition_of("site", cell.astype(np.int8), tasks=np.array(tasks))
    assert partition_of("site", cell, tasks=tasks) == same
    others = [
        partition_of("site", np.array([0, 1, 0]), tasks=tasks),
        partition_of("site", np.array([0, 1, 1, 1]), tasks=[*tasks, "d"]),
        partition_of("split", cell, tasks=tasks),
        partition_of("site", cell, tasks=["a", "b", "d"]),
    ]
    assert len({same, *others}) == 5


@pytest.mark.parametrize("at_once", [1, 2, 2**20])
@pytest.mark.parametrize("names", [(), (["b", 'a"', "ü"],), (["b", "a", "c"], ["x"], [])])
def test_an_assignments_digest_is_that_of_its_whole_list_of_names(monkeypatch, names, at_once):
    """By which ledgers know partitions."""
    monkeypatch.setattr("privacy.query.AT_ONCE", at_once)
    cell = np.array([0, 2, 1])
    expected = hashlib.blake2b(json.dumps(names).encode() + cell.tobytes(), digest_size=16)
    assert assignment_digest(cell, *names) == expected.hexdigest()
    assert assignment_digest(cell, *map(np.array, names)) == expected.hexdigest()


def test_tasks_of_a_partition_have_different_names():
    for names in (["b", "a", "b"], ["a", "a", "b"], ["b", "b", "a"]):
        with pytest.raises(ValueError, match="different names"):
            partition_of("site", np.array([0, 1, 1]), tasks=np.array(names))
    with pytest.raises(ValueError, match="different names"):
        partition_of("site", np.array([0, 1]), tasks=["a", "a"])
    with pytest.raises(ValueError, match="different names"):
        partition_of("site", np.array([0, 1]), tasks=["a"])


@pytest.mark.parametrize("name", ["", "a:b"])
def test_a_partitions_name_is_a_word(name):
    with pytest.raises(ValueError, match="name"):
        partition_of(name, np.array([0]), tasks=["a"])


@pytest.mark.refusal
@pytest.mark.parametrize("name", [None, 5])
def test_a_partitions_name_is_a_text(name):
    with pytest.raises(TypeError, match=f"name must be a text, got {type(name).__name__}"):
        partition_of(name, np.array([0]), tasks=["a"])


@pytest.mark.parametrize(
    ("value", "kept"),
    [
        ("north", True),
        ("Zürich", True),
        ("東京", True),
        ("a\0b", False),
        ("\ud800", False),
        (7, False),
    ],
)
def test_a_text_is_kept_in_any_script_unless_a_database_would_change_it(value, kept):
    assert is_text(value) is kept


def test_units_that_look_at_answers_or_features_are_two_each():
    assert {unit for unit in Unit if unit.needs_local_consensus} == {Unit.TASK, Unit.ANSWER}
    assert {unit for unit in Unit if unit.protects_features} == {Unit.ROW, Unit.SUBJECT}


def test_a_publications_key_is_part_of_the_name_that_the_ledger_keeps():
    plain = counts_query([3, 1])
    keyed = replace(plain, publication=Publication("2026-11"))
    assert plain.full_name == plain.name
    assert keyed.full_name == f"{plain.name}, publication 2026-11"


@pytest.mark.parametrize(
    ("given", "error"),
    [
        pytest.param({"key": ""}, ValueError, id="no key"),
        pytest.param({"terms": "\0"}, TypeError, id="terms"),
        pytest.param({"facts": "\0"}, TypeError, id="facts"),
    ],
)
def test_a_publication_that_no_database_would_keep_is_refused(given, error):
    with pytest.raises(error):
        Publication(**({"key": "2026-11"} | given))
    assert Publication("2026-11", "terms", "facts").facts == "facts"


def test_a_size_is_one_at_least_and_may_be_the_largest():
    for n in (1, MAX_RECORDS):
        check_size(n)
    for n in (0, MAX_RECORDS + 1):
        with pytest.raises(ValueError, match="n must be"):
            check_size(n)


@pytest.mark.parametrize(
    ("value", "n", "words"),
    [
        (np.array([2.0, 1.0]), 3, "one-dimensional integer"),
        (np.array([[2, 1]]), 3, "one-dimensional integer"),
        (np.array([3]), 3, "2 classes or more"),
        (np.array([4, -1]), 3, "add up"),
        (np.array([2, 2]), 3, "add up"),
    ],
)
def test_counts_that_are_none_are_refused(value, n, words):
    with pytest.raises(CountsError, match=words):
        check_counts(Query("toy", "counts", value, Unit.ROW, n=n, l1=2.0))


def test_counts_may_be_zero_and_need_a_finite_sensitivity():
    query = Query("toy", "counts", np.array([3, 0], dtype=np.int8), Unit.ROW, n=3, l1=2.0)
    assert check_counts(query).tolist() == [3, 0]
    assert check_counts(query).dtype == np.int64
    with pytest.raises(CountsError, match="finite l1"):
        check_counts(replace(query, l1=math.inf))


@pytest.mark.refusal
@pytest.mark.parametrize(
    "cell",
    [np.array([0.2, 0.9]), np.array([0, 2**64 - 1], dtype=np.uint64), np.array([["0", "1"]])],
)
def test_a_partition_has_one_integer_for_each_task(cell):
    """Codes that were cut to integers gave two assignments one name, by which cells count as disjoint."""
    with pytest.raises(ValueError, match="cell must be one integer of 64 bits for each task, got"):
        partition_of("split", cell, tasks=["a", "b"])


@pytest.mark.refusal
@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("part", "north", "part must be a Part, got str"),
        ("publication", "2026-11", "publication must be a Publication, got str"),
        ("l1", "2", "l1 must be a number, got str"),
        ("l1", np.bool_(True), "l1 must be a number, got bool"),
    ],
)
def test_a_query_with_a_field_of_another_type_cannot_be_built(
    field: str, value: object, message: str
) -> None:
    given = {"l1": 2.0, field: value}
    with pytest.raises(TypeError, match=message):
        Query("toy", "class counts", np.array([3, 1]), Unit.CONSENSUS_LABEL, n=4, **given)


@pytest.mark.refusal
def test_a_querys_numbers_are_pythons_whoever_gave_them() -> None:
    """An event of NumPy's numbers could not be written."""
    query = Query(
        "toy", "counts", np.array([3, 1]), Unit.ANSWER, np.int64(4), np.int64(2), places=np.int32(2)
    )
    found = (query.n, query.l1, query.places, query.n_records)
    assert found == (4, 2, 2, 2)
    assert all(type(number) is int for number in found)


def test_names_that_repeat_are_told_from_names_that_lack() -> None:
    """Of twenty tasks under one name the sentence was "must be 20 different names, got 20"."""
    for tasks in (["a", "a", "b"], np.array(["a", "a", "b"])):
        with pytest.raises(ValueError, match="3 different names, got 3, of them 2 different"):
            partition_of("split", np.array([0, 1, 1]), tasks=tasks)
