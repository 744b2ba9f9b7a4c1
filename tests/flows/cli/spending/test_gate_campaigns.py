"""A campaign of candidates in the ledger: what is declared stays, and the state outlives the process."""

from __future__ import annotations

import hashlib
import math
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from flows.settings import SettingsError
from flows.spending import GateTerms, ask_candidates, open_state, read_statements
from flows.tables import CandidateScores
from learners import CandidateGate
from privacy import LatticeLaplace, Ledger, LedgerError, Unit
from tests.privacy.toy import counts_query

TERMS = GateTerms()


def candidate(
    name: str = "short",
    *,
    train: float = 0.8,
    right: float = 0.8,
    n: int = 1000,
    first: int = 0,
    holdout: np.ndarray | None = None,
) -> CandidateScores:
    """A candidate with 1,000 development scores and a holdout of n examples."""
    development = (np.arange(1000) < round(1000 * train)).astype(float)
    digest = hashlib.blake2b(development.tobytes(), digest_size=8).hexdigest()
    examples = tuple(f"q{first + k:05}" for k in range(n))
    scores = (np.arange(n) < round(n * right)).astype(float) if holdout is None else holdout
    return CandidateScores(name, development, digest, examples, scores)


def ask(
    state: Path, *scores: CandidateScores, campaign: str = "prompts", terms: GateTerms = TERMS
) -> Any:
    return ask_candidates(state, campaign, scores or (candidate(),), terms)


def entries(state: Path) -> list[Any]:
    (found,) = read_statements(state)
    return list(found["entries"])


def test_a_candidate_asked_again_has_its_answer_at_no_new_price(tmp_path: Path) -> None:
    (first,) = ask(tmp_path / "state")
    (again,) = ask(tmp_path / "state")
    assert (first.known, again.known) == (False, True)
    assert (first.status, first.score, first.bound) == (again.status, again.score, again.bound)
    (paid,) = entries(tmp_path / "state")
    assert paid["epsilon"] == first.epsilon
    assert paid["what"] == "score of candidates on 1,000 holdout examples"


def test_a_candidate_of_the_same_name_with_other_development_scores_is_a_new_question(
    tmp_path: Path,
) -> None:
    ask(tmp_path / "state")
    (changed,) = ask(tmp_path / "state", candidate(train=0.81))
    assert not changed.known
    assert changed.candidates_left == 998
    assert len(entries(tmp_path / "state")) == 1


def test_what_a_candidate_scores_on_the_holdout_is_no_part_of_its_identity(tmp_path: Path) -> None:
    """Else whether an answer is stored would tell whether two private arrays are equal."""
    (first,) = ask(tmp_path / "state")
    for seed in range(5):
        scores = np.random.default_rng(seed).random(1000)
        (again,) = ask(tmp_path / "state", candidate(holdout=scores))
        assert again.known
        assert (again.status, again.score, again.calls) == (first.status, first.score, first.calls)


def test_candidates_are_answered_in_their_order(tmp_path: Path) -> None:
    good, bad = candidate("good"), candidate("bad", train=0.99, right=0.6)
    found = ask(tmp_path / "state", good, bad)
    assert [(one.candidate, one.status) for one in found] == [
        ("good", "agrees"),
        ("bad", "overfit"),
    ]
    assert [one.refutations_left for one in found] == [10, 9]
    assert found[1].score < 0.61


def test_a_used_up_gate_answers_nothing_more(tmp_path: Path) -> None:
    terms = GateTerms(refutations=1, n_candidates=5)
    bad = candidate("bad", train=0.99, right=0.5)
    (refuted,) = ask(tmp_path / "state", bad, terms=terms)
    (shut,) = ask(tmp_path / "state", candidate("next"))
    assert (refuted.status, shut.status, shut.score, shut.bound) == (
        "overfit",
        "exhausted",
        None,
        0.0,
    )
    assert ask(tmp_path / "state", bad)[0].status == "overfit"  # its answer is stored


@pytest.mark.parametrize(
    ("other", "terms"),
    [
        (candidate(n=999), TERMS),
        (candidate(first=1), TERMS),
        (candidate(), GateTerms(score="exact_match")),
    ],
)
def test_a_changed_holdout_or_score_is_refused_and_changes_nothing(
    tmp_path: Path, other: CandidateScores, terms: GateTerms
) -> None:
    ask(tmp_path / "state")
    with pytest.raises(
        SettingsError, match=r"the holdout of the campaign 'prompts' is 1,000 examples"
    ):
        ask(tmp_path / "state", other, terms=terms)
    (again,) = ask(tmp_path / "state", candidate("next"))
    assert again.candidates_left == 998


@pytest.mark.parametrize("first", [0, 1, 300, -1])
def test_another_campaign_must_have_examples_of_its_own(tmp_path: Path, first: int) -> None:
    ask(tmp_path / "state")
    with pytest.raises(SettingsError, match="examples of it are in that of the campaign 'prompts'"):
        ask(tmp_path / "state", candidate(first=first), campaign="judges")
    (fresh,) = ask(tmp_path / "state", candidate(first=5000), campaign="judges")
    assert fresh.candidates_left == 999
    assert {one["dataset"] for one in read_statements(tmp_path / "state")} == {
        "gate judges",
        "gate prompts",
    }


@pytest.mark.parametrize(
    "terms",
    [
        GateTerms(n_candidates=10), GateTerms(refutations=3), GateTerms(level=0.9),
        GateTerms(tolerance=0.1), GateTerms(epsilon=1.0),
    ],
)  # fmt: skip
def test_terms_stay_as_they_were_declared(tmp_path: Path, terms: GateTerms) -> None:
    ask(tmp_path / "state", terms=GateTerms(tolerance=0.02))
    with pytest.raises(
        SettingsError, match=r"of the campaign 'prompts' is .* since its first question"
    ):
        ask(tmp_path / "state", terms=terms)
    (again,) = ask(tmp_path / "state", terms=GateTerms(tolerance=0.02))
    assert (again.known, again.tolerance) == (True, 0.02)
    assert ask(tmp_path / "state")[0].tolerance == 0.02


@pytest.mark.parametrize(
    ("terms", "said"),
    [
        (GateTerms(level=1.0), "level"), (GateTerms(level=math.nan), "level"),
        (GateTerms(tolerance=1.0), "tolerance"), (GateTerms(epsilon=0.0), "epsilon"),
        (GateTerms(n_candidates=0), "n_candidates"), (GateTerms(refutations=20_000), "refutations"),
    ],
)  # fmt: skip
def test_a_term_out_of_range_is_refused_before_anything_is_declared(
    tmp_path: Path, terms: GateTerms, said: str
) -> None:
    with pytest.raises(SettingsError, match=said):
        ask(tmp_path / "state", terms=terms)
    assert read_statements(tmp_path / "state") == []


def test_a_campaign_that_should_have_begun_is_not_begun(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="'prompts' must have begun"):
        ask(tmp_path / "state", terms=GateTerms(begun=True))
    ask(tmp_path / "state")
    assert ask(tmp_path / "state", terms=GateTerms(begun=True))[0].known


def test_what_else_has_such_a_name_is_no_campaign_of_candidates(tmp_path: Path) -> None:
    """A data set of a library's user, whose release has no holdout that could be shared."""
    with open_state(tmp_path / "state") as ledger:
        ledger.open_budget("gate other", unit=Unit.ROW, epsilon=1.0, delta=0.0, n=4)
        ledger.release(LatticeLaplace(0.5), counts_query(unit=Unit.ROW, dataset="gate other"))
    (found,) = ask(tmp_path / "state")
    assert found.status == "agrees"


def test_a_campaign_without_a_name_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="--campaign must not be blank"):
        ask(tmp_path / "state", campaign=" ")


def test_a_raised_budget_does_not_open_the_gate_anew(tmp_path: Path) -> None:
    (first,) = ask(tmp_path / "state", terms=GateTerms(n_candidates=1))
    read_statements(tmp_path / "state", dataset="gate prompts", raise_to=10 * first.epsilon)
    (shut,) = ask(tmp_path / "state", candidate("next"))
    assert shut.status == "exhausted"


def test_a_read_only_state_is_refused_and_nothing_is_answered(tmp_path: Path) -> None:
    ask(tmp_path / "state")
    ledger = tmp_path / "state" / "ledger.sqlite"
    ledger.chmod(0o400)
    with pytest.raises(LedgerError, match="read-only"):
        ask(tmp_path / "state", candidate("next"))
    ledger.chmod(0o600)
    assert ask(tmp_path / "state", candidate("next"))[0].candidates_left == 998


KILLED = """
import os, signal, sys
from pathlib import Path
from learners import CandidateGate
setattr(CandidateGate, sys.argv[1], lambda *_: os.kill(os.getpid(), signal.SIGKILL))
from tests.flows.cli.spending.test_gate_campaigns import ask, candidate
ask(Path(sys.argv[2]), candidate("next"))
"""


@pytest.mark.parametrize(
    ("where", "begun"), [("start", False), ("answer", False), ("answer", True)]
)
def test_killed_between_payment_and_answer_it_is_paid_once_and_answered_when_asked_again(
    tmp_path: Path, where: str, begun: bool
) -> None:
    state = tmp_path / "state"
    if begun:
        ask(state)
    done = subprocess.run(
        [sys.executable, "-c", KILLED, where, str(state)], env=os.environ,
        cwd=Path(__file__).resolve().parents[4],
    )  # fmt: skip
    assert done.returncode == -signal.SIGKILL
    (paid,) = entries(state)
    assert paid["released"] == begun
    (found,) = ask(state, candidate("next"))
    assert (found.status, found.known) == ("agrees", False)
    assert found.candidates_left == (998 if begun else 999)
    assert len(entries(state)) == 1


def test_where_one_of_several_candidates_cannot_be_answered_none_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask(tmp_path / "state")
    real, n_calls = CandidateGate.answer, iter(range(9))

    def fails(*arguments: Any) -> Any:
        if next(n_calls) == 1:
            raise OSError("the disk is full")
        return real(*arguments)

    monkeypatch.setattr(CandidateGate, "answer", fails)
    with pytest.raises(OSError, match="full"):
        ask(tmp_path / "state", candidate("a"), candidate("b"))
    monkeypatch.undo()
    assert ask(tmp_path / "state", candidate("b"))[0].candidates_left == 998


def test_the_ledger_holds_no_score_of_the_holdout(tmp_path: Path) -> None:
    """What is stored of a question is its name, the secret state and the answer."""
    ask(tmp_path / "state", candidate(right=0.7654, train=0.8))
    raw = (tmp_path / "state" / "ledger.sqlite").read_bytes()
    assert b"0.765" not in raw
    Ledger(
        tmp_path / "state" / "ledger.sqlite",
        key=(tmp_path / "state" / "fingerprint.key").read_bytes(),
    )
