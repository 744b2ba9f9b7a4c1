"""Columns of a label table by other names: which are taken for a role, and when nobody guesses."""

import pytest

from flows.tables import guess_roles


@pytest.mark.parametrize(
    "names",
    [
        ("worker", "task", "label"),
        ("label", "worker", "task", "seconds"),
        ("annotator", "item", "score"),
        ("Worker ID", "Task-ID", "Answer"),
        ("user_name", "question_id", "rating", "comment"),
    ],
)
def test_each_role_has_one_column(names: tuple[str, ...]) -> None:
    found = guess_roles(names)
    assert list(found) == ["worker", "task", "label"]
    assert set(found.values()) <= set(names)


def test_of_two_columns_for_a_role_none_is_taken() -> None:
    assert guess_roles(("user", "annotator", "task", "label")) == {"task": "task", "label": "label"}


def test_a_column_of_the_roles_own_name_is_taken_before_others() -> None:
    assert guess_roles(("worker", "user", "task", "item", "label", "rating")) == {
        "worker": "worker", "task": "task", "label": "label",
    }  # fmt: skip


def test_an_unknown_name_is_no_role() -> None:
    assert guess_roles(("who", "what", "said")) == {}
