"""What runs, and shares of wins, publish under a key, and the campaign's total on its page."""

from __future__ import annotations

import json
import sqlite3
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import flows.run.store
from flows.files import LEDGER
from flows.pipeline import RunResult, nothing_new, run_pipeline
from flows.report import render_public
from flows.report.release_files import release
from flows.settings import SettingsError, load_settings
from flows.spending import PublicationTerms, publish_win_shares, read_statements
from privacy import LedgerError, win_points
from quality import Comparisons, encode_comparisons
from tests.flows.report.report_folder import edit, write_folder
from tests.flows.spending.keyed_campaign import (
    Died,
    campaign,
    counts_alone,
    die_before,
    leave_out,
    published_counts,
    relabel,
    set_key,
)

TERMS = PublicationTerms("arena", epsilon=1.0, budget=8.0)
PRICE = 9.5  # of a run of the small campaign: 2 for the counts, 7.5 for the model, beside the gate


class Clock:
    """The time at which runs begin."""

    def __init__(self) -> None:
        self.time = datetime(2026, 11, 30, 23, 59, 50, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.time


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(flows.run.store, "_now", clock)
    return clock


def public(result: RunResult) -> dict[str, bytes]:
    """What is published, without class ratios, which are computed anew from the features."""
    found: dict[str, bytes] = {
        "proportions.csv": (result.folder / "public" / "proportions.csv").read_bytes()
    }
    release = json.loads((result.folder / "public" / "release.json").read_bytes())
    del release["class_ratios"]
    return found | {"release.json": json.dumps(release).encode()}


def said(result: RunResult, name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((result.folder / f"{name}.json").read_text("utf-8"))
    return found


def spent(path: Path) -> float:
    (found,) = read_statements(path.parent / "state")
    epsilon: float = found["spent"]["epsilon"]
    return epsilon


def test_a_run_under_a_key_publishes_once_whatever_becomes_of_the_data(tmp_path: Path) -> None:
    """Counts, model, score, selection and the holdout's answer; the team sees what is older."""
    path = campaign(tmp_path, "2026-11")
    first = run_pipeline(load_settings(path))
    relabel(path)
    leave_out(path, "t100", "t101", "t350")
    second = run_pipeline(load_settings(path))
    assert not second.unchanged
    assert public(second) == public(first)
    assert said(second, "model")["coef"] == said(first, "model")["coef"]
    assert spent(path) == PRICE
    for name, key in (("proportions", "n_stale"), ("model", "stale"), ("gate", "stale")):
        assert not said(first, name)[key]
        assert said(second, name)[key]
    assert said(second, "gate")["n"] == said(first, "gate")["n"]
    assert (
        "Publication 2026-11, older than these data" in (second.folder / "report.html").read_text()
    )
    assert "older than" not in (second.folder / "public.html").read_text()
    bounds = {one["name"] for one in said(first, "bounds")["bounds"]}
    still = {one["name"] for one in said(second, "bounds")["bounds"]}
    assert len(bounds - still) == 1  # the one about the rows that were trained on


def test_another_key_is_paid_anew_on_unchanged_data(tmp_path: Path) -> None:
    path = campaign(tmp_path, "2026-11")
    first = run_pipeline(load_settings(path))
    assert run_pipeline(load_settings(path)).unchanged
    set_key(path, "2026-12")
    second = run_pipeline(load_settings(path))
    assert not second.unchanged
    assert public(second)["proportions.csv"] != public(first)["proportions.csv"]
    assert said(second, "model")["coef"] != said(first, "model")["coef"]
    assert spent(path) == 2 * PRICE
    assert len(said(second, "trend")["runs"]) == 2


def test_a_key_that_is_a_date_changes_with_the_date_and_not_with_the_data(
    tmp_path: Path, clock: Clock
) -> None:
    path = campaign(tmp_path, "web-%Y-%m")
    first = run_pipeline(load_settings(path))
    assert said(first, "manifest")["publication"] == "web-2026-11"
    assert nothing_new(load_settings(path)) is not None
    clock.time = datetime(2026, 12, 1, tzinfo=UTC)
    assert nothing_new(load_settings(path)) is None
    second = run_pipeline(load_settings(path))
    assert said(second, "manifest")["publication"] == "web-2026-12"
    assert spent(path) == 2 * PRICE
    relabel(path)
    assert public(run_pipeline(load_settings(path))) == public(second)
    assert spent(path) == 2 * PRICE


def test_a_run_that_is_resumed_keeps_the_key_with_which_it_began(
    tmp_path: Path, clock: Clock
) -> None:
    path = campaign(tmp_path, "%Y-%m")
    with pytest.raises(Died):
        run_pipeline(load_settings(path), step=die_before("train_privately"))
    assert spent(path) == 2.0
    clock.time = datetime(2026, 12, 1, tzinfo=UTC)
    done = run_pipeline(load_settings(path), resume=True)
    assert said(done, "model")["publication"] == "2026-11"
    assert spent(path) == PRICE


OTHER_TERMS = (
    ('classes = ["a", "b", "c"]', 'classes = ["b", "a", "c"]'),
    ("proportions_epsilon = 2.0", "proportions_epsilon = 1.0"),
    ('name = "small"', 'name = "small"\nseed = 5'),
    ("epsilon_train = 6.0", "epsilon_train = 5.0"),
    ("sigma = 0.02", "sigma = 0.03"),
)


def test_a_key_is_refused_for_other_terms_before_anything_is_spent(tmp_path: Path) -> None:
    path = campaign(tmp_path, "2026-11")
    run_pipeline(load_settings(path))
    text = path.read_text()
    for old, new in OTHER_TERMS:
        assert old in text
        path.write_text(text.replace(old, new))
        with pytest.raises(LedgerError, match="published already .* Give another publication key"):
            run_pipeline(load_settings(path))
        assert spent(path) == PRICE


def test_other_keys_are_paid_by_the_plan_as_long_as_releases_are_left(tmp_path: Path) -> None:
    path = campaign(
        tmp_path,
        "10",
        "delta = 1e-5",
        "planned_releases = 2",
        "proportions_delta = 1e-6",
        model=False,
    )
    assert "publication 10: release 1 of 2" in published_counts(load_settings(path))
    relabel(path)
    line = published_counts(load_settings(path))
    assert "publication 10: release 1 of 2" in line
    assert "changed since" in line
    set_key(path, "11")
    assert "publication 11: release 2 of 2" in published_counts(load_settings(path))
    set_key(path, "12")
    with pytest.raises(ValueError, match="the 2 planned releases of class counts are used up"):
        published_counts(load_settings(path))
    set_key(path, "10")
    assert "publication 10: release 2 of 2" in published_counts(load_settings(path))
    assert spent(path) == 2.0


def test_what_is_spent_under_keys_does_not_depend_on_the_data(tmp_path: Path) -> None:
    """Two campaigns, the same keys; the data of one change in between: entry by entry the same."""
    listed = []
    for name, changes in (("still", False), ("moving", True)):
        path = campaign(tmp_path / name, "10")
        run_pipeline(load_settings(path))
        if changes:
            relabel(path)
        run_pipeline(load_settings(path), again=True)
        set_key(path, "11")
        run_pipeline(load_settings(path))
        (found,) = read_statements(tmp_path / name / "state")
        shown = ("what", "cell", "epsilon", "released")
        listed.append([[entry[key] for key in shown] for entry in found["entries"]])
    assert listed[0] == listed[1]


def test_the_public_page_says_the_campaigns_total_and_its_key(tmp_path: Path) -> None:
    folder = write_folder(tmp_path)
    total = (
        "Everything this campaign ever publishes, this page included, changes the odds of what "
        "somebody believes about one task’s consensus label by at most e<sup>4</sup>, a factor of 55"
    )
    page = render_public(folder)
    assert f"{total}: that is the campaign’s whole budget" in page
    assert "This is publication 2026-03. Everything" in page
    edit(folder / "proportions.json", budget={"epsilon": 4.0, "delta": 1e-6}, publication=None)
    page = render_public(folder)
    total = (
        "Had one task’s consensus label been different, whatever this campaign ever publishes, this page "
        "included, would be at most e<sup>4</sup>, or 55, times as probable, but for an addition of "
        "δ = 1e-06: that is the campaign’s whole budget"
    )
    assert total in page
    assert "This is publication" not in page
    released = release(folder)
    assert released["budget"] == {"epsilon": 4.0, "delta": 1e-6}
    assert released["publication"] is None


def test_the_total_is_the_settings_and_stays_from_one_publication_to_the_next(
    tmp_path: Path,
) -> None:
    settings = counts_alone(tmp_path, key="1")
    for key in ("1", "2", "3"):
        set_key(tmp_path / "settings.toml", key)
        settings = load_settings(tmp_path / "settings.toml")
        found = release(run_pipeline(settings).folder)
        assert (found["publication"], found["budget"]) == (key, {"epsilon": 4.0, "delta": 0.0})


def ring(n_items: int, *, rounds: int = 4) -> Comparisons:
    """Each item compared with the next, `rounds` times."""
    left = [f"item-{k:05d}" for k in range(n_items)] * rounds
    right = left[1:] + left[:1]
    winner = ["left", "right", "tie"] * (len(left) // 3 + 1)
    return encode_comparisons(["w"] * len(left), left, right, winner[: len(left)])


def test_an_item_that_was_never_compared_is_refused_before_anything_is_paid(tmp_path: Path) -> None:
    """Some rows of a table keep its items; a share of no comparisons was 0 / 0, after payment."""
    every = ring(4)
    some = every.take(np.flatnonzero((every.left != 2) & (every.right != 2)))
    with pytest.raises(SettingsError, match="'item-00002' is in none; nothing was spent"):
        publish_win_shares(tmp_path / "state", some, TERMS)
    assert not (tmp_path / "state").exists()


@pytest.mark.parametrize("item", ["left", "right", "tie"])
def test_an_item_called_as_winners_are_is_refused_before_anything_is_paid(
    tmp_path: Path, item: str
) -> None:
    """One answer moves half points by 4 at most, and here it says how all others are read."""
    shown = ["w"] * 8, ["x", item] * 4, [item, "x"] * 4
    table, other = (encode_comparisons(*shown, [item] * 7 + [last]) for last in (item, "x"))
    points, moved = (
        win_points(one.left, one.right, one.outcome, n_items=2, dataset="arena").value
        for one in (table, other)
    )
    assert np.abs(points - moved).sum() > 4
    for one in (table, other):
        with pytest.raises(SettingsError, match=f"got '{item}': .* nothing was spent"):
            publish_win_shares(tmp_path / "state", one, TERMS)
    assert not (tmp_path / "state").exists()


def test_more_items_than_ranks_are_made_for_are_refused_before_anything_is_paid(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("flows.spending.without_run.win_shares.MAX_ITEMS", 5)
    assert len(publish_win_shares(tmp_path / "five", ring(5), TERMS).items) == 5
    with pytest.raises(SettingsError, match="at most 5 of them, got 6; nothing was spent"):
        publish_win_shares(tmp_path / "six", ring(6), TERMS)
    assert not (tmp_path / "six").exists()


def test_what_a_key_keeps_grows_with_the_pairs_that_met(tmp_path: Path) -> None:
    """Of 150 items in a ring 150 pairs met, and the ledger has no row of every two items."""
    ring_of_150 = ring(150)
    keyed = replace(TERMS, publication="2026-11")
    first = publish_win_shares(tmp_path, ring_of_150, keyed)
    with sqlite3.connect(tmp_path / LEDGER) as ledger:
        ((facts,),) = ledger.execute("SELECT facts FROM entries").fetchall()
    assert len(facts) < 150 * 50
    again = publish_win_shares(tmp_path, ring(150, rounds=8), keyed)
    assert again.stale
    assert first.met.tolist() == again.met.tolist() == [8] * 150
    for name in ("noisy", "share", "score", "rank", "best", "worst"):
        assert np.array_equal(getattr(first, name), getattr(again, name))


def test_pairs_that_met_either_way_round_are_one(tmp_path: Path) -> None:
    """Oracle: the score of a table in which left and right are exchanged, of the same draw."""
    keyed = replace(TERMS, publication="2026-11")
    one = encode_comparisons(
        ["w"] * 4, list("abca"), list("bcab"), ["left", "tie", "right", "right"]
    )
    found = publish_win_shares(tmp_path, one, keyed)
    assert found.met.tolist() == [3, 3, 2]
    exchanged = encode_comparisons(
        ["w"] * 4, list("bcab"), list("abca"), ["right", "tie", "left", "left"]
    )
    again = publish_win_shares(tmp_path, exchanged, keyed)
    assert not again.stale
    assert again.score.tolist() == found.score.tolist()
