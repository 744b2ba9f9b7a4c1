"""`crowdassay rank --publish`: what it pays, releases, returns again and refuses."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from flows.cli import app
from flows.report import WIN_SHARES
from flows.settings import SettingsError
from flows.spending import PublicationTerms, existing_ledger, open_state, publish_win_shares
from privacy import LatticeLaplace, Unit
from quality import encode_comparisons
from quality.comparisons import scores_of_points

FILES = ["public.html", "release.json", "wins.csv", "wins.parquet"]
PUBLIC = {
    "format", "version", "columns", "protects", "name", "publication", "epsilon", "delta", "budget",
    "budget_delta", "unit",
    "level", "mechanism", "scale", "arithmetic", "half_width_half_points", "n_comparisons", "rows",
}  # fmt: skip


def rows(seed: int = 0, n: int = 240) -> list[str]:
    """Comparisons of four items, of which the later ones win more."""
    rng = np.random.default_rng(seed)
    found = []
    for number in range(n):
        one, other = rng.choice(4, size=2, replace=False)
        won = "left" if rng.random() < 1 / (1 + np.exp(other - one)) else "right"
        said = "tie" if rng.random() < 0.1 else won
        found.append(f"w{number % 8},item-{one},item-{other},{said}")
    return found


def write(lines: list[str], name: str = "pairs.csv") -> None:
    Path(name).write_text("\n".join(["worker,left,right,winner", *lines]) + "\n", encoding="utf-8")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write(rows())
    return tmp_path


def publish(*more: str, to: str = "public") -> Any:
    """Call the command at a price of 0.5."""
    return CliRunner().invoke(
        app, ["rank", "pairs.csv", "--publish", to, "--epsilon", "0.5", *more]
    )


def released(to: str = "public") -> dict[str, Any]:
    found: dict[str, Any] = json.loads((Path(to) / "release.json").read_text(encoding="utf-8"))
    return found


def spent() -> float:
    found = existing_ledger(Path("state")).statement("comparisons", entries=0).spent
    return float(found.epsilon)


def test_shares_ranks_and_scores_follow_from_released_points() -> None:
    """Whoever reads the files, and knows who met whom, can work them out."""
    told = publish("--budget", "2")
    assert told.exit_code == 0, told.stderr
    assert "published: 4 items at epsilon 0.5" in told.stdout
    assert "0.5 of 2 spent" in told.stdout
    found = released()
    assert sorted(one.name for one in Path("public").iterdir()) == FILES
    assert found.keys() == PUBLIC
    assert (found["scale"], found["unit"], found["n_comparisons"]) == (
        8.0,
        "answer",
        240,
    )  # 4 / 0.5
    by_item = {row["item"]: row for row in found["rows"]}
    items = sorted(by_item)
    noisy = np.array([by_item[item]["noisy_half_points"] for item in items])
    assert noisy.sum() == 480
    met = np.zeros((4, 4))
    for line in rows():
        one, other = (int(name[-1]) for name in line.split(",")[1:3])
        met[[one, other], [other, one]] += 1
    law = LatticeLaplace(0.5).law(4, l1=4.0)
    scores = scores_of_points(met, noisy / 2, law.covariance / 4)
    assert [by_item[item]["score"] for item in items] == pytest.approx(scores.score)
    errors = np.sqrt(scores.covariance.diagonal())
    assert [by_item[item]["error"] for item in items] == pytest.approx(errors)
    for at, item in enumerate(items):
        row, n, width = by_item[item], met[at].sum(), law.half_width(0.95)
        ends = [min(max((noisy[at] + z) / (2 * n), 0), 1) for z in (-width, 0, width)]
        assert [row["low"], row["share"], row["high"]] == pytest.approx(ends)
        assert row["best"] <= row["rank"] <= row["worst"]
    with Path("public/wins.csv").open(newline="") as file:
        assert [row["item"] for row in csv.DictReader(file)] == [r["item"] for r in found["rows"]]
    assert (spent(), found["budget"]) == (0.5, 2.0)
    page = Path("public/public.html").read_text(encoding="utf-8")
    assert "one worker’s answer to one task" in page
    assert all(item in page for item in items)


def test_the_same_answers_are_paid_once_and_others_anew() -> None:
    assert publish("--budget", "2").exit_code == 0
    first = released()
    told = publish("--force")
    assert "(paid for before)" in told.stdout
    assert (released()["rows"], spent()) == (first["rows"], 0.5)
    write(rows(1))
    assert publish("--force").exit_code == 0
    assert spent() == 1.0


def test_under_a_key_nothing_is_drawn_again_whatever_the_answers_are() -> None:
    keyed = ("--publication", "2026-11")
    assert publish("--budget", "2", *keyed).exit_code == 0
    first = Path("public/release.json").read_bytes(), Path("public/public.html").read_bytes()
    write([*rows(5), "w9,item-0,item-9,left"])  # an item that the publication does not know
    told = publish("--force", *keyed)
    assert told.exit_code == 0, told.stderr
    assert "answers have changed since" in told.stdout
    again = Path("public/release.json").read_bytes(), Path("public/public.html").read_bytes()
    assert (first == again, spent()) == (True, 0.5)


def test_the_json_has_the_sentences_of_the_text() -> None:
    """Also those that are for the team alone, beside what is public."""
    assert publish("--budget", "2", "--publication", "k").exit_code == 0
    write(rows(5))
    again = ("--publication", "k", "--force", "--next", "2", "--models", "w1")
    found = json.loads(publish(*again, "--json").stdout)
    assert found["sentences"] == publish(*again).stdout.splitlines()[-len(found["sentences"]) :]
    assert found["sentences"][-1].startswith("internal: it stays as it was published")
    assert "compare next: " in found["sentences"][1]


def test_what_the_budget_does_not_cover_is_refused_before_anything_is_written() -> None:
    assert publish("--budget", "0.5").exit_code == 0
    write(rows(2))
    told = publish(to="other")
    assert told.exit_code == 2
    assert "0.5" in told.stderr
    assert not Path("other").exists()  # nor the folder that was made for it
    assert spent() == 0.5


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ((), "--budget must say how much"),
        (("--budget", "2", "--begun"), "its state is lost or elsewhere"),
        (("--budget", "0.1"), "must be finite and at least --epsilon"),
        (("--budget", "2", "--campaign", "a b"), "--campaign must be a name"),
        (("--budget", "2", "--publication", "%H"), "--publication"),
    ],
)
def test_mistakes_are_said_and_cost_nothing(more: tuple[str, ...], said: str) -> None:
    told = publish(*more)
    assert told.exit_code == 2
    assert said in " ".join(told.stderr.replace("│", " ").split())
    assert not Path("public").exists()
    assert not Path("state/ledger.sqlite").exists() or not existing_ledger(Path("state")).datasets()


def test_public_values_depend_on_answers_through_the_released_points_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Every answer turned round, and the same points drawn: the same page, byte for byte."""
    drawn = [130, 90, 150, 110]
    monkeypatch.setattr(LatticeLaplace, "draw_all", lambda *_: [drawn])
    pages = []
    for number, turned in enumerate((False, True)):
        lines = [row.split(",") for row in rows()]
        won = {"left": "right", "right": "left", "tie": "left"}
        outcome = [won[row[3]] if turned else row[3] for row in lines]
        columns = ([row[at] for row in lines] for at in range(3))
        table = encode_comparisons(*columns, outcome)
        terms = PublicationTerms("arena", epsilon=1.0, budget=2.0)
        pages.append(
            WIN_SHARES.render(publish_win_shares(Path(f"s{number}"), table, terms).public())
        )
    assert pages[0] == pages[1]


def test_intervals_of_shares_cover() -> None:
    """400 items of 100 publications at 90%: with probability .9995 at least 83% of them cover."""
    lines = [row.split(",") for row in rows()]
    table = encode_comparisons(*([row[at] for row in lines] for at in range(4)))
    gained = np.choose(table.outcome, (2, 0, 1))
    exact = np.bincount(table.left, gained, 4) + np.bincount(table.right, 2 - gained, 4)
    covered = 0
    for number in range(100):
        terms = PublicationTerms(f"c{number}", epsilon=1.0, budget=1.0, level=0.9)
        found = publish_win_shares(Path("state"), table, terms)
        share = exact / (2 * found.met)
        covered += int(((found.low <= share) & (share <= found.high)).sum())
    assert covered >= 332


def wins(terms: PublicationTerms, *items: str) -> Any:
    """What is published of three comparisons, each of the first item with the last."""
    first, last = np.array([items[0]] * 3), np.array([items[-1]] * 3)
    pairs = encode_comparisons(
        np.array(list("vwx")), first, last, np.array(["left", "left", "tie"])
    )
    return publish_win_shares(Path("direct"), pairs, terms)


def test_two_items_are_ranked_and_the_second_call_says_that_it_paid_before() -> None:
    first = wins(PublicationTerms("toy", 0.5, budget=0.5), "ant", "bee")
    assert (first.items, first.met.tolist(), first.paid_before) == (("ant", "bee"), [3, 3], False)
    again = wins(PublicationTerms("toy", 0.5), "ant", "bee")
    assert (again.noisy.tolist(), again.paid_before) == (first.noisy.tolist(), True)
    assert again.spent == 0.5


def test_terms_out_of_range_open_no_ledger() -> None:
    with pytest.raises(SettingsError, match="--level must be in"):
        wins(PublicationTerms("toy", 0.5, budget=0.5, level=1.0), "ant", "bee")
    assert not Path("direct").exists()


@pytest.mark.parametrize("state", ["public", "public/state"])
def test_a_publication_never_holds_the_state_folder(state: str) -> None:
    told = publish("--budget", "1", "--state", state)
    assert told.exit_code == 2
    assert "--publish public must not hold the state folder" in told.stderr
    assert not Path(state, "ledger.sqlite").exists()


def test_models_that_nobody_is_are_refused_before_anything_is_paid() -> None:
    told = publish("--budget", "1", "--models", "zz*")
    assert told.exit_code == 2
    assert "--models zz* must name some of the workers and leave people" in told.stderr
    assert not Path("state").exists()


def test_the_delta_of_a_budget_that_a_run_declared_is_published_with_it() -> None:
    """The campaign of a run's settings may have one, and Gaussian noise may have spent it."""
    with open_state(Path("state")) as ledger:
        ledger.open_budget("comparisons", unit=Unit.ANSWER, epsilon=2.0, delta=1e-6, n=10)
    assert publish().exit_code == 0
    assert (released()["budget"], released()["budget_delta"]) == (2.0, 1e-6)
    page = Path("public/public.html").read_text(encoding="utf-8")
    assert "but for an addition of δ = 1e-06: that is the campaign’s whole budget" in page
