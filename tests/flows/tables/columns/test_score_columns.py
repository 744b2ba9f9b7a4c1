"""Scores of candidates: how a table of them is read, and what of it is refused."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from flows.tables import (
    AS_FOUND,
    Reading,
    TableError,
    opened_alone,
    read_scores,
    reading_of_scores,
)

ROWS = [
    ("short", "q3", "holdout", "1"), ("short", "q1", "dev", "0.5"), ("short", "q2", "holdout", "0"),
    ("long", "q1", "development", "1"), ("long", "q2", "holdout", "0.25"), ("long", "q3", "holdout", "1"),
]  # fmt: skip
HEADER = ("candidate", "example", "split", "score")


def write(path: Path, rows: list[tuple[str, ...]] = ROWS, header: tuple[str, ...] = HEADER) -> Path:
    path.write_text("\n".join(",".join(row) for row in [header, *rows]) + "\n")
    return path


def test_candidates_come_in_the_order_of_the_file_and_examples_by_name(tmp_path: Path) -> None:
    first, second = read_scores(write(tmp_path / "scores.csv"))
    assert (first.name, second.name) == ("short", "long")
    assert first.holdout_examples == second.holdout_examples == ("q2", "q3")
    assert (first.holdout.tolist(), second.holdout.tolist()) == ([0.0, 1.0], [0.25, 1.0])
    assert (first.development.tolist(), second.development.tolist()) == ([0.5], [1.0])
    assert "holdout=" not in repr(first)
    assert not first.holdout.flags.writeable


def test_json_lines_csv_and_parquet_say_the_same(tmp_path: Path) -> None:
    frame = pd.DataFrame(ROWS, columns=list(HEADER)).astype({"score": float})
    frame.to_parquet(tmp_path / "scores.parquet")
    lines = [json.dumps(row) for row in frame.to_dict("records")]
    (tmp_path / "scores.jsonl").write_text("\n".join(lines) + "\n")
    write(tmp_path / "scores.csv")
    found = [read_scores(tmp_path / f"scores.{end}") for end in ("csv", "jsonl", "parquet")]
    assert len({tuple(one.development_digest for one in read) for read in found}) == 1
    assert len({tuple(one.holdout.tobytes() for one in read) for read in found}) == 1


def test_true_is_1_and_false_is_0(tmp_path: Path) -> None:
    rows = [{"example": f"q{k}", "split": s, "right": k % 2 == 0}
            for k, s in enumerate(["dev", "dev", "holdout", "holdout"])]  # fmt: skip
    (tmp_path / "one.jsonl").write_text("\n".join(map(json.dumps, rows)) + "\n")
    (found,) = read_scores(tmp_path / "one.jsonl", score="right")
    assert (found.development.tolist(), found.holdout.tolist()) == ([1, 0], [1, 0])


def test_without_a_column_the_candidate_is_named_or_has_the_files_name(tmp_path: Path) -> None:
    path = write(tmp_path / "terse.v2.csv", [row[1:] for row in ROWS[:3]], HEADER[1:])
    assert [one.name for one in read_scores(path)] == ["terse"]
    assert [one.name for one in read_scores(path, candidate="it's")] == ["it's"]


def test_one_candidate_can_be_picked(tmp_path: Path) -> None:
    path = write(tmp_path / "scores.csv")
    assert [one.name for one in read_scores(path, candidate="long")] == ["long"]
    with pytest.raises(TableError, match="must have the candidate 'none'; it has short, long"):
        read_scores(path, candidate="none")


def test_the_digest_tells_development_scores_and_nothing_of_the_holdout(tmp_path: Path) -> None:
    def digest(rows: list[tuple[str, ...]]) -> str:
        return read_scores(write(tmp_path / "scores.csv", rows))[0].development_digest

    assert digest(ROWS[:3]) == digest([ROWS[1], ROWS[2], ("short", "q3", "holdout", "0.7")])
    assert digest(ROWS[:3]) != digest([ROWS[0], ("short", "q1", "dev", "0.6"), ROWS[2]])


@pytest.mark.parametrize("value", ["nan", "7", "-1", "inf", "none", ""])
def test_nothing_in_a_holdouts_score_is_refused(tmp_path: Path, value: str) -> None:
    """To refuse it would reveal an example: what is no number is NaN, which the gate counts as 0."""
    rows = [*ROWS[1:3], ("short", "q3", "holdout", value)]
    (found,) = read_scores(write(tmp_path / "scores.csv", rows))
    assert found.holdout.shape == (2,)
    assert math.isnan(found.holdout[1]) == (value in ("nan", "none", ""))


@pytest.mark.parametrize("value", ["1", "x", "0.5", "1,2,3", "", "1.000,5"])
@pytest.mark.parametrize("rest", ["0,5", "1"])
def test_one_cell_decides_nothing_about_the_commas_of_the_others(
    tmp_path: Path, value: str, rest: str
) -> None:
    """Else one example would move the scores of all, which the gate's price is not for."""
    holdout = [("short", f"q{k}", "holdout", rest) for k in range(2, 9)]
    rows = [HEADER, ("short", "q0", "dev", "0,5"), ("short", "q1", "holdout", value), *holdout]
    path = tmp_path / "scores.csv"
    path.write_text("\n".join(";".join(row) for row in rows) + "\n")
    reading = reading_of_scores(AS_FOUND, "score")
    with opened_alone(path, ("example", "split", "score"), tmp_path, reading) as as_the_command:
        for table in (path, as_the_command.table):
            (found,) = read_scores(table)
            assert found.development.tolist() == [0.5]
            assert found.holdout[1:].tolist() == [float(rest.replace(",", "."))] * 7


@pytest.mark.parametrize("value", ["nan", "1.5", "-0.1", "inf", "none", ""])
def test_a_development_score_must_be_in_0_1(tmp_path: Path, value: str) -> None:
    rows = [ROWS[0], ROWS[2], ("short", "q1", "dev", value)]
    with pytest.raises(
        TableError, match=r"row 3, column score: a development score must be a number"
    ):
        read_scores(write(tmp_path / "scores.csv", rows))


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({0: ("short", "q3", "test", "1")}, r"row 1, column split: 'test' is not among the splits"),
        ({0: ("short", "", "holdout", "1")}, "column example: the cell is blank"),
        ({0: ("", "q3", "holdout", "1")}, "column candidate: the cell is blank"),
        ({0: ("short", "q3", "", "1")}, "column split: the cell is blank"),
        ({0: ("short", "q2", "holdout", "1")}, "candidate 'short', example 'q2' stands 2 times"),
        ({0: ("short", "q1", "holdout", "1")}, "candidate 'short', example 'q1' stands 2 times"),
        ({5: ("long", "q4", "holdout", "1")}, "candidate 'long' lacks 1 holdout example that candidate "
                                              "'short' has, such as 'q3'"),
        ({5: ("long", "q3", "dev", "1")}, "lacks 1 holdout example"),
        ({5: ("long", "q5", "dev", "1")}, "lacks 1 holdout example"),
        ({3: ("long", "q9", "dev", "1")}, "candidate 'long' lacks 1 development example"),
    ],
)  # fmt: skip
def test_a_fault_is_named_with_its_place(
    tmp_path: Path, changed: dict[int, tuple[str, ...]], said: str
) -> None:
    rows = [changed.get(k, row) for k, row in enumerate(ROWS)]
    with pytest.raises(TableError, match=said) as refused:
        read_scores(write(tmp_path / "scores.csv", rows))
    assert str(refused.value).startswith("scores.csv")


def test_a_split_without_rows_and_a_missing_column_are_refused(tmp_path: Path) -> None:
    with pytest.raises(TableError, match="must have rows of the split holdout"):
        read_scores(write(tmp_path / "scores.csv", [ROWS[1]]))
    with pytest.raises(TableError, match="must have rows of the split development"):
        read_scores(write(tmp_path / "scores.csv", [ROWS[0]]))
    with pytest.raises(TableError, match="missing: exact_match"):
        read_scores(write(tmp_path / "scores.csv"), score="exact_match")


def test_a_candidate_that_has_more_than_the_first_shows_what_the_first_lacks(
    tmp_path: Path,
) -> None:
    rows = [*ROWS, ("long", "q7", "holdout", "1")]
    with pytest.raises(
        TableError, match="candidate 'short' lacks 1 holdout example that candidate 'long'"
    ):
        read_scores(write(tmp_path / "scores.csv", rows))


def test_separators_are_read_as_the_command_says(tmp_path: Path) -> None:
    path = tmp_path / "scores.csv"
    path.write_text("\n".join(";".join(row) for row in [HEADER, *ROWS]) + "\n")
    found = read_scores(path, Reading(";", None, None, False))
    assert np.concatenate([one.holdout for one in found]).tolist() == [0.0, 1.0, 0.25, 1.0]
