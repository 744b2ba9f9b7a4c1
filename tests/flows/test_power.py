"""How many labels a campaign needs: against exact majorities, its interval, and the command."""

from __future__ import annotations

import json

import numpy as np
import pytest
from scipy.stats import binom
from typer.testing import CliRunner

from flows.cli import app
from flows.power import Crowd, labels_needed

SMALL = ["power", "--tasks", "60", "--workers", "20", "--most", "5", "--campaigns", "4"]


def test_without_spammers_and_difficulty_the_accuracy_is_that_of_a_binomial_majority() -> None:
    """Twenty campaigns of 200 tasks: .025 are more than four standard errors, workers' spread included."""
    crowd = Crowd(
        goal=0.9, tasks=200, workers=30, spammers=0.0, difficulty=0.0, accuracy=0.75, most=7,
        aggregator="majority_vote",
    )  # fmt: skip
    found = labels_needed(crowd, campaigns=20, seed=1)
    for row in found.rows:
        n = row.labels
        tie = 0.5 * binom.pmf(n / 2, n, 0.75) if n % 2 == 0 else 0.0
        exact = binom.sf(n // 2, n, 0.75) + tie
        assert abs(row.accuracy - exact) < 0.025
        assert row.low <= row.accuracy <= row.high


def test_spammers_and_difficulty_cost_labels() -> None:
    """By the same campaigns' seeds; differences are many standard errors."""
    given = {"goal": 0.9, "tasks": 150, "workers": 30, "most": 9}
    easy = labels_needed(Crowd(**given, spammers=0.0), campaigns=8, seed=1)
    spam = labels_needed(Crowd(**given, spammers=0.4), campaigns=8, seed=1)
    assert easy.labels is not None
    assert spam.labels is None or spam.labels > easy.labels
    assert spam.rows[4].accuracy < easy.rows[4].accuracy - 0.03


def test_the_least_number_that_reaches_the_goal_lies_in_its_interval() -> None:
    crowd = Crowd(goal=0.85, tasks=100, workers=20, most=9)
    found = labels_needed(crowd, campaigns=10, seed=2)
    assert found.labels is not None
    mean = np.array([row.accuracy for row in found.rows])
    assert (mean[: found.labels - 1] < 0.85).all()
    assert mean[found.labels - 1] >= 0.85
    assert (found.low or 99) <= found.labels <= (found.high or 99)
    reached = [row.reached for row in found.rows]
    assert reached[0] < reached[-1]
    assert labels_needed(crowd, campaigns=10, seed=2) == found


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"goal": 1.0}, r"goal must be in \(0, 1\)"),
        ({"accuracy": 0.5}, "accuracy must be above 1 / classes"),
        ({"classes": 0}, "classes must be in"),
        ({"tasks": 10**12}, r"^tasks must be in \[1, 10000000\], got tasks=1000000000000$"),
        ({"workers": 10**12}, r"^workers must be in \[2, 10000000\]"),
        ({"most": 99}, r"most must be in \[1, workers=50\]"),
        ({"spammers": 0.999}, "spammers must leave an honest worker"),
        ({"difficulty": 2.0}, r"difficulty must be in \[0, 1\]"),
    ],
)
def test_a_number_out_of_range_is_refused(wrong: dict[str, float], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        Crowd(**{"goal": 0.9, **wrong})


def test_what_is_no_whole_number_and_no_aggregator_is_refused() -> None:
    """The script, and pydantic's model, said so in their own words, in the middle of the work."""
    with pytest.raises(ValueError, match=r"^tasks must be a whole number, got tasks=2\.5$"):
        Crowd(goal=0.9, tasks=2.5)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"^aggregator must be one of auto, .*, got 'vote'$"):
        Crowd(goal=0.9, aggregator="vote")


def test_an_accuracy_that_cannot_be_is_refused() -> None:
    with pytest.raises(ValueError, match="accuracy must be below"):
        labels_needed(Crowd(goal=0.9, accuracy=0.998, difficulty=1.0), campaigns=2)
    with pytest.raises(ValueError, match="campaigns must be >= 2"):
        labels_needed(Crowd(goal=0.9), campaigns=1)


def test_the_command_answers_in_a_sentence_and_in_json() -> None:
    shown = CliRunner().invoke(app, [*SMALL, "--goal", "0.7"])
    assert shown.exit_code == 0, shown.output
    assert "labels per task are needed on average; 90 % of the campaigns need" in shown.output
    beyond = CliRunner().invoke(app, [*SMALL, "--goal", "0.999"])
    assert "more than 5 labels per task are needed on average; 95 % need" in beyond.output
    assert "more than 5 or more" not in beyond.output
    least = CliRunner().invoke(app, [*SMALL, "--goal", "0.3"])
    assert "\n1 label per task is needed on average; 90 %" in least.output
    answer = json.loads(CliRunner().invoke(app, [*SMALL, "--goal", "0.7", "--json"]).output)
    assert answer["goal"] == 0.7
    assert [row["labels"] for row in answer["rows"]] == [1, 2, 3, 4, 5]
    wrong = CliRunner().invoke(app, [*SMALL, "--goal", "7"])
    assert wrong.exit_code == 2
    assert "goal must be in" in wrong.output
