"""What cannot be answered or given an interval is refused before a budget is declared or anything is paid."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from flows.cli import app
from flows.settings import SettingsError
from flows.spending import (
    GateTerms,
    PublicationTerms,
    ask_candidates,
    open_state,
    publish_set_shares,
    publish_win_shares,
    read_statements,
    trial,
)
from privacy import LatticeLaplace, Unit
from quality import encode_comparisons
from tests.flows.cli.spending.test_gate_campaigns import ask, candidate
from tests.privacy.toy import counts_query


def sets(state: Path, **terms: Any) -> Any:
    tasks, groups = np.array([f"t{j}" for j in range(20)]), np.full(20, "all")
    probability = np.random.default_rng(0).random((20, 3))
    about = PublicationTerms("toy", budget=8.0, **terms)
    return publish_set_shares(state, probability, tasks, "abc", groups, about, max_labels=2)


def wins(state: Path, **terms: Any) -> Any:
    compared = encode_comparisons(["w"] * 4, list("abca"), list("bcac"), list("abaa"))
    return publish_win_shares(state, compared, PublicationTerms("toy", budget=8.0, **terms))


@pytest.mark.parametrize("publish", [sets, wins])
@pytest.mark.parametrize("epsilon", [1e-6, 1e-15])
def test_a_price_too_small_for_intervals_is_refused_while_nothing_is_declared(
    tmp_path: Path, publish: Callable[..., Any], epsilon: float
) -> None:
    """Paid first, the shares would never be seen: every later call ends where the first one did."""
    with pytest.raises(SettingsError, match=r"--epsilon .* give no interval .* nothing was spent"):
        publish(tmp_path / "state", epsilon=epsilon)
    assert not (tmp_path / "state").exists()
    assert publish(tmp_path / "state", epsilon=1.0).spent == 1.0


def test_a_level_that_no_interval_reaches_is_refused_while_nothing_is_declared(
    tmp_path: Path,
) -> None:
    with pytest.raises(SettingsError, match="level must be in"):
        sets(tmp_path / "state", epsilon=1.0, level=1 - 1e-12)
    assert not (tmp_path / "state").exists()


def test_a_gate_whose_noise_cannot_be_drawn_is_not_declared(tmp_path: Path) -> None:
    state = tmp_path / "state"
    with pytest.raises(SettingsError, match="epsilon is too small for exact noise"):
        ask(state, terms=GateTerms(epsilon=1e-13))
    assert read_statements(state) == []
    (answer,) = ask(state, terms=GateTerms(epsilon=4.0))
    assert answer.epsilon == 4.0


def test_confidence_is_never_written_as_more_than_it_is(tmp_path: Path) -> None:
    """A level of .999 was told as 100%."""
    table = tmp_path / "scores.csv"
    rows = [
        f"short,{split[0]}{j},{split},{j % 4 > 0:d}"
        for split in ("development", "holdout")
        for j in range(200)
    ]
    table.write_text("\n".join(["candidate,example,split,score", *rows]) + "\n")
    for level, told in (("0.999", "99.9%"), ("0.9999999999999999", "99.999%"), ("0.9", "90%")):
        state = str(tmp_path / f"state-{level}")
        said = CliRunner().invoke(app, ["gate", str(table), "--level", level, "--state", state])
        assert f"with {told} confidence" in " ".join(said.output.split())
    found = trial(
        "lattice_laplace", epsilon=1.0, delta=0.0, floor=1, counts="5,5", draws=100, level=0.99999
    )
    assert "with 99.999% confidence" in found["sentences"][2]


def test_more_entries_than_a_ledger_can_have_are_a_mistake_of_the_command(tmp_path: Path) -> None:
    open_state(tmp_path / "state")
    said = CliRunner().invoke(app, ["budget", str(tmp_path / "state"), "--entries", "9" * 30])
    assert said.exit_code == 2
    assert isinstance(said.exception, SystemExit)


def test_the_chain_is_followed_once_for_the_statements_of_all_campaigns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once for each, a gate among 60 campaigns took a quarter of a minute."""
    import privacy.ledger.ledger as module

    ledger = open_state(tmp_path / "state")
    for number in range(5):
        ledger.open_budget(f"toy {number}", unit=Unit.CONSENSUS_LABEL, epsilon=1.0, delta=0.0, n=4)
    ledger.release(LatticeLaplace(0.5), counts_query(dataset="toy 3"))
    assert ledger.statements() == tuple(map(ledger.statement, ledger.datasets()))
    assert [one.n_entries for one in ledger.statements(entries=0)] == [0, 0, 0, 1, 0]
    with pytest.raises(ValueError, match="entries must be an integer"):
        ledger.statements(entries=-1)
    followed: list[object] = []
    check = module.check_chain
    monkeypatch.setattr(
        module, "check_chain", lambda *args, **kw: followed.append(1) or check(*args, **kw)
    )
    read_statements(tmp_path / "state")
    ask(tmp_path / "state")
    assert len(followed) == 4  # two openings, and one reading in each


def test_candidates_that_are_asked_together_have_one_holdout(tmp_path: Path) -> None:
    """The second one was answered about examples that no campaign had declared."""
    state = tmp_path / "state"
    with pytest.raises(SettingsError, match="other examples for 'long' than for 'short'"):
        ask(state, candidate("short"), candidate("long", first=1000))
    assert not state.exists()
    assert ask_candidates(state, "prompts", (), GateTerms()) == ()
    assert not state.exists()


@pytest.mark.parametrize("publish", [sets, wins])
@pytest.mark.parametrize("key", ["", "a\0", "%Y-%m", "november 2026"])
def test_a_publication_key_is_checked_while_nothing_is_declared(
    tmp_path: Path, publish: Callable[..., Any], key: str
) -> None:
    """A pattern was a key of its own, the same in every month; others left a budget behind."""
    with pytest.raises(SettingsError, match="--publication must be 1 to 60 letters"):
        publish(tmp_path / "state", epsilon=1.0, publication=key)
    assert not (tmp_path / "state").exists()


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        (
            {"development": np.array([0.5, 1.5])},
            r"must be one number in \[0, 1\] or more, and those of 'short'",
        ),
        ({"development": np.array([np.nan])}, r"must be one number in \[0, 1\] or more"),
        ({"development": np.zeros(0)}, r"must be one number in \[0, 1\] or more"),
        ({"holdout": np.zeros(3)}, r"those of 'short' are float64 of shape \(3,\)"),
    ],
)
def test_scores_that_the_gate_refuses_declare_no_campaign(
    tmp_path: Path, changed: dict[str, Any], said: str
) -> None:
    """They were refused once the campaign was declared and all of its answers were paid."""
    state = tmp_path / "state"
    with pytest.raises(SettingsError, match=said):
        ask(state, replace(candidate("short"), **changed))
    assert not state.exists()


@pytest.mark.parametrize("classes", ["ab", "abcd", "aba"])
def test_classes_that_are_not_the_columns_are_refused_while_nothing_is_declared(
    tmp_path: Path, classes: str
) -> None:
    """More names than columns were an IndexError after payment; fewer hid a column, at another noise."""
    tasks, groups = np.array(["t1", "t2"]), np.array(["all", "all"])
    terms = PublicationTerms("toy", epsilon=1.0, budget=8.0)
    table = np.full((2, 3), 0.6)
    with pytest.raises(SettingsError, match="one for each column, got . names .*nothing was spent"):
        publish_set_shares(tmp_path / "state", table, tasks, classes, groups, terms, max_labels=2)
    with pytest.raises(SettingsError, match="there must be a task with its classes"):
        publish_set_shares(
            tmp_path / "state", table[:0], tasks[:0], "abc", groups[:0], terms, max_labels=2
        )
    assert not (tmp_path / "state").exists()
    found = publish_set_shares(
        tmp_path / "state", table, tasks, "abc", groups.astype(object), terms, max_labels=2
    )
    assert found.groups == ("all",)
