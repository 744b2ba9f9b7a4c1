"""The choices of the command line are those of what they choose from."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import get_args

import pytest

from flows import choices
from flows.choices import LABEL_COLUMNS, BlockedBy, Duplicates, Metric, Penalty, PostedTo
from flows.exporters import block_lists, reposts
from flows.importers import FORMATS
from flows.settings import FilterSettings, InputSettings, SettingsError
from flows.spending import audit
from privacy.mechanisms import COUNT_MECHANISMS
from quality.agreement import METRICS


def test_an_unknown_mechanism_is_refused_with_the_names_of_all_that_can_be_audited() -> None:
    knobs = {"epsilon": 1.0, "delta": 0.0, "floor": 1, "counts": "3,3", "draws": 9, "level": 0.9}
    with pytest.raises(SettingsError, match="got 'laplace'") as caught:
        audit.trial("laplace", **knobs)
    assert len(audit.COUNTS) == len(COUNT_MECHANISMS) > 0
    assert all(name in str(caught.value) for name in [*audit.COUNTS, *audit.AUDITED])


def test_settings_and_commands_have_the_same_choices() -> None:
    assert InputSettings.model_fields["duplicates"].annotation is Duplicates
    assert FilterSettings.model_fields["penalty"].annotation is Penalty
    assert get_args(Metric) == METRICS
    assert set(get_args(BlockedBy)) == block_lists.WRITERS.keys()
    assert set(get_args(PostedTo)) == reposts.WRITERS.keys() == reposts.FOUND.keys()
    assert {*get_args(BlockedBy), *get_args(PostedTo)} <= FORMATS.keys()  # one spelling each way


def test_the_columns_of_a_label_table_are_listed_in_one_place() -> None:
    room = Path(choices.__file__).parent
    listing = [
        path.relative_to(room).as_posix()
        for path in sorted(room.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Tuple | ast.List | ast.Set)
        if tuple(getattr(one, "value", None) for one in node.elts) == LABEL_COLUMNS
    ]
    assert listing == ["choices.py"]
