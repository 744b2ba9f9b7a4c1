"""The two pages of a run: what they hold, what they must not hold, and that they stand alone."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import shutil
from collections.abc import Callable
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

import matplotlib
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flows.report import charts, render_public, render_report, write_reports
from flows.report.pages import lineage
from flows.report.release_files import COLUMNS
from flows.report.rows import planned_rows, pseudonyms, task_rows, worker_rows
from flows.stages import STAGES
from privacy import Unit
from tests.flows.report.report_folder import (
    SKIPPED,
    edit,
    overwrite_what_is_internal,
    write_folder,
    write_json,
)

VOID = {"meta", "link", "br", "img", "hr", "input"}
HOSTILE = "<script>alert(1)</script>&\"'$\\frac{{$雪"


class Page(HTMLParser):
    """What a test asks of a page: balance, ids, references, scripts, text."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.ids: list[str] = []
        self.references: list[str] = []
        self.labelled: list[str] = []
        self.scripts: list[str] = []
        self.words: list[str] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in VOID:
            self.open.append(tag)
        given = {name: value or "" for name, value in attrs}
        self.ids += [given["id"]] if "id" in given else []
        self.references += [given[name] for name in ("href", "src", "xlink:href") if name in given]
        self.labelled += [given["aria-labelledby"]] if "aria-labelledby" in given else []
        for value in given.values():
            self.references += re.findall(r"url\(([^)]*)\)", value)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open[-1:] == ["script"]:
            self.scripts.append(data)
        elif self.open[-1:] != ["style"]:
            self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_folder(tmp_path_factory.mktemp("runs") / "whole")


@pytest.fixture(scope="module")
def report(folder: Path) -> str:
    return render_report(folder)


@pytest.fixture(scope="module")
def public(folder: Path) -> str:
    return render_public(folder)


@pytest.fixture(
    scope="module", params=["report", "public", "skipped report", "skipped public", "hostile"]
)
def page(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Every kind of page that must stand alone."""
    folder = tmp_path_factory.mktemp("pages")
    skip = tuple(SKIPPED)
    makers: dict[str, Callable[[], str]] = {
        "report": lambda: request.getfixturevalue("report"),
        "public": lambda: request.getfixturevalue("public"),
        "skipped report": lambda: render_report(write_folder(folder, skip=skip)),
        "skipped public": lambda: render_public(write_folder(folder, skip=skip)),
        "hostile": lambda: render_report(_hostile(folder), show_worker_ids=True),
    }
    return makers[request.param]()


def _hostile(folder: Path) -> Path:
    return write_folder(
        folder,
        worker_name=HOSTILE + "{:03d}",
        group_name=HOSTILE + "\n{:02d}",
        classes=("</svg>", HOSTILE, "$x^2$"),
    )


def _sentence(words: str) -> str:
    return f"{words[0].upper()}{words[1:]}."


def _svgs(html: str) -> list[str]:
    return re.findall(r"<svg.*?</svg>", html, flags=re.DOTALL)


# --- what the team's report says


def test_a_filter_that_did_not_help_is_told(tmp_path: Path, report: str) -> None:
    assert "did not help" not in Page(report).text
    folder = write_folder(tmp_path / "gold")
    consensus = json.loads((folder / "consensus.json").read_text())
    gold = consensus["gold"] | {"unfiltered": 0.96}
    edit(folder / "consensus.json", gold=gold)
    assert (
        "On gold this did not help: 94.4% right, with all workers 96.0%."
        in Page(render_report(folder)).text
    )
    edit(folder / "consensus.json", gold=None)
    edit(folder / "quality.json", alpha_kept=0.7)
    assert "This did not help agreement: alpha is no higher" in Page(render_report(folder)).text


def test_a_filter_is_judged_by_labels_alone_where_a_voice_has_joined_them(tmp_path: Path) -> None:
    """Read by gold the consensus is right far more often: that is not the filter's doing."""
    folder = write_folder(tmp_path)
    gold = json.loads((folder / "consensus.json").read_text("utf-8"))["gold"]
    edit(folder / "consensus.json", gold=gold | {"of_labels": 0.9, "joined": True})
    text = Page(render_report(folder)).text
    assert "On gold this did not help: 90.0% right by labels alone, with all workers 93.5%." in text
    assert "91.9% of the gold tasks would be right instead of 90.0%, by labels alone" in text
    assert "labels alone, of all workers, 93.5%, majority vote of all 91.2%" in text


def test_agreement_is_said_to_be_with_labels_alone_where_gold_has_read_them(tmp_path: Path) -> None:
    folder = write_folder(tmp_path)
    assert "Agreement is with the consensus, of all" in Page(render_report(folder)).text
    reading = {"n_gold": 160, "n_models": 6, "consensus_weight": 0.1, "n_turned": 9}
    edit(folder / "consensus.json", panel=reading | {"with": 0.94, "without": 0.9})
    text = Page(render_report(folder)).text
    assert "Agreement is with the consensus of labels alone, of all" in text
    assert "by how gold teaches to read the models’ answers." in text


def test_the_public_page_does_not_take_models_for_people(folder: Path) -> None:
    text = Page(render_public(folder)).text
    assert "Several workers, people or models, looked at each task" in text
    assert "of people" not in text


def test_where_nobody_is_left_to_ask_the_report_says_so(tmp_path: Path) -> None:
    folder = write_folder(tmp_path)
    plan = json.loads((folder / "consensus.json").read_text("utf-8"))["plan"]
    edit(folder / "consensus.json", plan=plan | {"n": 0, "complete": True})
    text = Page(render_report(folder)).text
    assert "No label is planned: every worker who could be asked has labelled every task" in text


def test_the_first_screen_tells_who_does_not_answer_on_their_own(tmp_path: Path) -> None:
    """Sybils are seldom removed: "nobody was removed" alone would read as if none had been found."""
    folder = write_folder(tmp_path)
    words = "3 workers in 1 group do not answer on their own: each group counts as one voter."
    assert words in Page(render_report(folder)).text
    edit(folder / "quality.json", groups=None)
    assert "on their own: " not in Page(render_report(folder)).text


def test_a_bound_that_says_nothing_takes_no_paragraph(tmp_path: Path) -> None:
    folder = write_folder(tmp_path)
    bounds = [
        {"name": name, "value": value, "applies": True, "assumption": "independent draws"}
        for name, value in (("private transfer", 0.99), ("agreeing holdout", 0.991))
    ]
    edit(folder / "bounds.json", bounds=bounds, least="private transfer")
    text = Page(render_report(folder)).text
    assert "No bound on its error says anything: the least is 99.0%." in text
    assert "Training was differentially private: without" not in text
    bounds[0]["value"] = 0.3
    edit(folder / "bounds.json", bounds=bounds)
    text = Page(render_report(folder)).text
    assert "Training was differentially private: without" in text
    assert "close together. So the holdout’s score" not in text


def test_of_more_than_two_classes_robustness_shows_what_holds_for_them(
    tmp_path: Path, report: str
) -> None:
    text = Page(report).text
    assert "How many tasks they could turn at most is proved for two classes alone" in text
    assert "10 such adversaries could turn" in text
    assert "Tasks that so many adversaries could turn, at least." in text
    assert "at most, one ever right" not in report
    folder = write_folder(tmp_path, classes=("benign", "toxic"))
    edit(folder / "robustness.json", n_tasks=81)
    assert "10 such adversaries could turn every task." in Page(render_report(folder)).text
    edit(folder / "robustness.json", n_tasks=1500)
    edit(folder / "inputs.json", n_classes=2)
    html = render_report(folder)
    assert "Assumed: two classes" in Page(html).text
    assert "at most, one ever right" in html


def test_agreement_beyond_chance_has_a_table_and_older_runs_have_none(
    tmp_path: Path, report: str
) -> None:
    text = Page(report).text
    assert "Agreement beyond chance, with 95% intervals over the tasks" in text
    assert "Gwet’s AC1 all labels 0.739 0.719 to 0.759 1,800" in text
    folder = write_folder(tmp_path)
    edit(folder / "quality.json", agreement=None)
    assert "Agreement beyond chance" not in Page(render_report(folder)).text


def test_first_screen_answers_six_questions_with_evidence(report: str) -> None:
    text = Page(report).text
    for words in (
        "Mostly. Workers agree well enough for tentative conclusions.",
        "Krippendorff’s alpha 0.712 (95% interval 0.692 to 0.732), 0.802 without the removed workers.",
        "24 of 120 workers, and 3,912 labels with them.",
        "By soft penalty (stop: 20% of workers). Lowest reputation first: worker",
        "Removal was refused for 1:",
        "Right on 94.4% of the gold tasks.",
        "2,593 of 2,880 tasks have confidence 0.9 or more; tied: 5.",
        "class proportions of 12 groups (ε = 1 per consensus label)",
        "Yes. The holdout agrees with the training score.",
        "Of new tasks it judges at most 19.6% unlike the consensus, with 95% confidence (Clopper–Pearson).",
        "ε = 3.1 of 4; 0.9 is left.",
    ):
        assert words in text


@pytest.mark.parametrize(
    ("alpha", "words"),
    [
        (0.91, "Yes. Workers agree well enough for firm conclusions."),
        (0.70, "Mostly. Workers agree well enough for tentative conclusions."),
        (0.31, "Single labels are doubtful."),
        (None, "Agreement cannot be measured"),
    ],
)
def test_crowd_verdict_follows_alpha(tmp_path: Path, alpha: float | None, words: str) -> None:
    """Floors 0.667 and 0.8: Krippendorff, Content Analysis (2004), section 11.4."""
    folder = write_folder(tmp_path)
    edit(folder / "quality.json", alpha=alpha)
    assert words in Page(render_report(folder)).text


def test_without_gold_nobody_is_told_to_lean_on_it(tmp_path: Path) -> None:
    folder = write_folder(tmp_path)
    edit(folder / "quality.json", alpha=0.31)
    assert "Trust the consensus as far as gold confirms it." in Page(render_report(folder)).text
    edit(folder / "consensus.json", gold=None)
    assert "Gold kept for checking would show" in Page(render_report(folder)).text


@pytest.mark.parametrize(
    ("status", "words"),
    [
        ("agrees", "Yes. The holdout agrees with the training score."),
        ("overfit", "Not with its training score. The holdout disagrees with it."),
        ("exhausted", "Unknown. The holdout’s budget is used up"),
    ],
)
def test_model_verdict_follows_the_holdout(tmp_path: Path, status: str, words: str) -> None:
    assert words in Page(render_report(write_folder(tmp_path, status=status))).text


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ({}, "All of it. No further release of this data set is possible."),
        ({"n_planned": 12, "n_drawn": 11}, "1 planned release of class counts is paid for."),
        ({"n_planned": 12, "n_drawn": 12}, "No further release of this data set is possible."),
    ],
)
def test_a_spent_budget_says_what_it_has_paid_for(
    tmp_path: Path, facts: dict[str, int], words: str
) -> None:
    folder = write_folder(tmp_path)
    spend = json.loads((folder / "spend.json").read_text())
    edit(folder / "spend.json", spent=spend["budget"], left={"epsilon": 0.0, "delta": 0.0})
    edit(folder / "proportions.json", **facts)
    assert words in " ".join(Page(render_report(folder)).text.split())


def test_a_model_no_better_than_the_largest_class_is_told_apart(tmp_path: Path) -> None:
    folder = write_folder(tmp_path)
    seen = {"n": 460, "private": 0.6, "non_private": 0.7, "majority_class": 0.6}
    edit(folder / "model.json", validation=seen)
    said = "always guessing the commonest class is at least as accurate"
    assert said in Page(render_report(folder)).text


def test_a_model_that_privacy_cost_most_of_its_skill_is_told_apart(tmp_path: Path) -> None:
    """Less than half of what it gains on guessing without privacy."""
    folder = write_folder(tmp_path)
    for private, little in ((0.54, True), (0.56, False)):
        seen = {"n": 460, "private": private, "non_private": 0.8, "majority_class": 0.3}
        edit(folder / "model.json", validation=seen)
        assert ("privacy took most of what" in Page(render_report(folder)).text) is little


def test_what_the_holdout_answered_is_told_run_by_run(tmp_path: Path, report: str) -> None:
    text = Page(report).text
    assert "The holdout’s answers, run by run" in text
    assert "2026-03-02 10:15 accuracy of the model of entry 11 agrees 84.2% 3 of 3" in text
    assert "2026-03-03 10:15 accuracy of the model of entry 12 overfit 79.1% 2 of 3" in text
    folder = write_folder(tmp_path)
    runs = json.loads((folder / "trend.json").read_text())["runs"]
    edit(folder / "trend.json", runs=[*runs[:1], runs[2]])
    assert "run by run" not in Page(render_report(folder)).text


def test_one_group_is_not_called_groups(tmp_path: Path) -> None:
    text = Page(render_report(write_folder(tmp_path, groups=2))).text
    assert "class proportions of 2 groups (ε = 1 per consensus label)" in text
    assert "class ratios of 1 unlabelled group (" in text


def test_one_entry_and_a_campaign_that_is_labelled_whole_are_told_so(tmp_path: Path) -> None:
    folder = write_folder(tmp_path)
    edit(folder / "spend.json", n_entries=1)
    n_tasks = json.loads((folder / "inputs.json").read_text())["n_labelled_tasks"]
    edit(folder / "inputs.json", n_tasks=n_tasks)
    text = Page(render_report(folder)).text
    assert "in 1 ledger entry;" in text
    assert f"workers on {n_tasks:,} tasks;" in text
    assert f"Tasks {n_tasks:,}, all of them labelled" in text


def test_whom_to_ask_begins_with_whose_answers_tell_most() -> None:
    asked = [("ann", "t1", 0.9), ("bob", "t2", 0.8), ("bob", "t3", 0.7), ("cy", "t4", 0.6)]
    plan = pa.table(dict(zip(("worker", "task", "gain"), zip(*asked, strict=True), strict=True)))
    found = planned_rows(plan, {})
    assert [row["worker"] for row in found["rows"]] == ["bob", "ann", "cy"]
    assert found["n_more"] == 0


def test_consensus_verdict_sees_what_speaks_against_it(tmp_path: Path) -> None:
    folder = write_folder(tmp_path)
    gold = {
        "n": 160,
        "accuracy": 0.8,
        "low": 0.73,
        "high": 0.85,
        "unfiltered": 0.8,
        "majority_vote": 0.9,
        "ungrouped": None,
    }
    sure = json.loads((folder / "consensus.json").read_text("utf-8"))["confidence"]
    sure["before"]["confidence"] = 0.986
    for change, words in (
        ({"gold": gold}, "Right on 80.0% of the gold tasks; majority vote does better."),
        ({"gold": None}, "there is no gold to check it against"),
        ({"gold": None, "models_alone": True, "confidence": None}, "all workers are models"),
        (
            {"gold": gold | {"majority_vote": 0.7}, "models_alone": False, "confidence": sure},
            "the model is surer than that",
        ),
        ({"gold": gold | {"vote_wins": False}}, "the model is surer than that"),
        ({"gold": gold | {"vote_wins": True}}, "majority vote does better."),
        ({"converged": False}, "The aggregator stopped before it converged."),
    ):
        edit(folder / "consensus.json", **change)
        assert words in Page(render_report(folder)).text


def test_few_gold_tasks_do_not_hide_that_nothing_shows_knowledge(tmp_path: Path) -> None:
    folder = write_folder(tmp_path)
    facts = json.loads((folder / "consensus.json").read_text("utf-8"))
    gold = facts["gold"] | {"n": 3, "accuracy": 1.0, "low": 0.44, "high": 1.0}
    sure = facts["confidence"] | {"before": None, "after": None, "compared": None}
    few = "Hardly: right on 100.0% of only 3 gold tasks, and"
    for change, words in (
        ({"gold": gold, "by_chance": True}, f"{few} nothing else shows that anybody knew."),
        ({"gold": None}, "Not at all: nothing shows that anybody knew. 50 to 100 gold tasks"),
        ({"gold_used": 30}, "nothing shows that anybody knew. Gold kept for checking would tell."),
        (
            {"gold": gold, "gold_used": 0, "by_chance": False, "confidence": sure | {"hardly_known": True}},
            f"{few} votes are little more alike than by chance",
        ),
    ):  # fmt: skip
        edit(folder / "consensus.json", **{"confidence": sure, **change})
        assert words in Page(render_report(folder)).text


def test_errors_that_nobody_could_share_are_not_said_to_correlate(tmp_path: Path) -> None:
    folder = write_folder(tmp_path)
    words = "two workers’ errors on one task correlate by about"
    assert words in render_report(folder)
    edit(folder / "quality.json", alpha=None)  # no task has two labels
    assert words not in render_report(folder)


def test_a_crowd_that_agrees_and_errs_is_not_called_sound(tmp_path: Path) -> None:
    folder = write_folder(tmp_path)
    edit(folder / "quality.json", alpha=0.85)
    assert "Yes. Workers agree well enough for firm conclusions." in render_report(folder)
    sure = json.loads((folder / "consensus.json").read_text("utf-8"))["confidence"]
    sure["before"]["confidence"] = 0.986
    edit(folder / "consensus.json", confidence=sure)
    page = render_report(folder)
    assert "Workers agree, but gold shows more errors than that lets expect." in page
    assert "firm conclusions." not in page.split("customary floors")[0]


def test_a_refused_confidence_leaves_no_figure(tmp_path: Path) -> None:
    folder = write_folder(tmp_path)
    nothing = dict.fromkeys(("gold", "confidence", "mean_confidence", "confidence_histogram"))
    edit(folder / "consensus.json", **nothing, models_alone=True)
    page = render_report(folder)
    assert "No confidence: all workers are models" in page
    assert "chart-confidence" not in page
    assert "Histogram of the consensus labels" not in page


def test_sections_hold_their_numbers(report: str) -> None:
    text = Page(report).text
    for words in (
        "Workers: removed first, then by reputation, lowest first",
        "Workers disagree about 1,204 of 2,880 tasks",
        "post-00733 3 × suspicious, 1 × benign suspicious",  # the second of the least certain tasks
        "60 labels of 60 tasks by 6 workers are expected to lower the uncertainty by 41.2 of 310.4",
        "post-00010, post-00011",  # the second worker to ask
        "site-12",
        "72.4% 70.3–74.5%",
        "Estimated class ratios by group",
        "0.01 of 0.001, 0.01, 0.1",
        "internal: exact, not released",
        "Private model 83.5%",
        "Without privacy, at the smallest regularization 87.2%",
        "“Agrees” means that",
        "Clopper–Pearson ◆ least 19.6% yes",
        "compose in parallel",
        "holdout, 5 disagreements",
        "Clopper–Pearson ◆ least",
        "A bound is a promise about tasks that the model has not seen",
        "labels.csv.gz 9f2b6c41d8e0",
        "2026-03-03 10:15 8,640 2,880 120 24 0.730 0.810 3 site-02 by 6.0%",
        "Made with python 3.11.7, crowdassay 0.1.0, numpy 2.4.6.",
        "filter fraction 0.2",
        "input labels labels.csv.gz",
    ):
        assert words in text


def test_workers_who_do_not_answer_on_their_own_are_named(tmp_path: Path, report: str) -> None:
    text = Page(report).text
    assert "3 of them do not answer on their own. Each group below has one vote on a task." in text
    assert "With one vote for each member 7 tasks would have another label" in text
    assert "91.9% of the gold tasks would be right instead of 94.4%" in text
    assert "3 1.2 (1.1–1.2) 75.4% 400 of 411 203 72 21 below 0.000001" in text
    folder = write_folder(tmp_path)
    alone = {"n_workers": 43, "worth": 43.0, "done": "weigh", "n": 0, "n_grouped": 0, "shown": []}
    edit(folder / "quality.json", groups=alone)
    assert "All 43 workers answer on their own" in Page(render_report(folder)).text
    edit(folder / "quality.json", groups=None)  # the settings ignore them
    assert "were not looked for" in Page(render_report(folder)).text


def test_lineage_names_a_path_by_its_file_and_no_other_text_so() -> None:
    settings = {"input": {"tasks": ["a/t.csv", "b/u.csv"], "several": "/", "seconds": "ms/answer"}}
    rows = lineage({"python": "3", "versions": {}, "settings": settings})["settings"]
    shown = {row["key"]: row["value"] for row in rows}
    assert shown == {"tasks": "t.csv, u.csv", "several": "/", "seconds": "ms/answer"}


def test_lineage_tells_how_the_fit_was_begun(tmp_path: Path, report: str) -> None:
    assert "Consensus Dawid–Skene, 23 iterations, begun anew" in Page(report).text
    folder = write_folder(tmp_path)
    start = {"run": "20260303T101500Z-c", "n_known_workers": 40, "n_iter_anew": 31, "n_differ": 1}
    edit(folder / "consensus.json", start=start)
    told = Page(render_report(folder)).text
    assert "gone on from 20260303T101500Z-c (31 anew, where 1 task would differ)" in told
    edit(folder / "consensus.json", start={"run": "earlier", "why_not_anew": "too large"})
    assert "23 iterations, gone on from earlier" in Page(render_report(folder)).text


def test_a_small_crowd_is_listed_whole(folder: Path, report: str) -> None:
    workers = pq.read_table(folder / "workers.parquet")["worker"].to_pylist()
    called, text = pseudonyms(workers), Page(report).text
    assert [name for name in workers if f"{called[name]} " not in text] == []
    assert "more workers are in" not in text


def test_of_a_large_crowd_the_flagged_and_both_ends_of_the_others_are_listed(
    tmp_path: Path,
) -> None:
    folder = write_folder(tmp_path, workers=300)
    workers = pq.read_table(folder / "workers.parquet")["worker"].to_pylist()
    called = pseudonyms(workers)
    listed = render_report(folder).partition("What to label next")[0]
    shown = [name for name in workers if f">{called[name]}<" in listed]
    assert [*workers[:29], *workers[-5:]] == shown


def test_a_large_crowd_is_added_up_by_agreement(tmp_path: Path) -> None:
    folder = write_folder(tmp_path, workers=300, flagged=40)
    table = pq.read_table(folder / "workers.parquet")
    found = worker_rows(table)["by_agreement"]
    assert sum(row["n"] for row in found) == 300
    assert sum(row["n_flagged"] for row in found) == 40
    assert sum(row["n_labels"] for row in found) == sum(table["n_labels"].to_pylist())
    for row in found:
        inside = [
            x for x in table["agreement"].to_pylist() if int(min(x * 10, 9)) == row["low"] * 10
        ]
        assert len(inside) == row["n"]


def test_answers_are_told_the_commonest_first() -> None:
    counts = [[1, 0, 3], [0, 0, 0]]
    tasks = pa.table({"task": ["a", "b"], "counts": pa.array(counts, pa.list_(pa.int32()))})
    assert [row["given"] for row in task_rows(tasks, ["x", "y", "z"], {})] == [
        [(3, "z"), (1, "x")],
        [],
    ]
    many = pa.table({"task": ["c"], "counts": pa.array([[1, 2, 3, 4, 5, 6]], pa.list_(pa.int32()))})
    assert task_rows(many, list("abcdef"), {})[0]["given"] == [
        (6, "f"), (5, "e"), (4, "d"), (3, "c"), (3, None),
    ]  # fmt: skip


def test_a_folder_without_a_trend_has_no_such_section(tmp_path: Path) -> None:
    folder = write_folder(tmp_path)
    (folder / "trend.json").unlink()
    assert "Trend" not in Page(render_report(folder)).text


def test_a_first_run_says_that_it_is_the_first(tmp_path: Path) -> None:
    folder = write_folder(tmp_path)
    edit(folder / "trend.json", runs=json.loads((folder / "trend.json").read_text())["runs"][:1])
    assert "This is the campaign’s first run." in Page(render_report(folder)).text


def test_settings_are_told_without_places(report: str) -> None:
    text = Page(report).text
    assert "/srv" not in report
    assert "consensus use_gold no" in text
    assert "model none" not in text.lower()


@pytest.mark.parametrize("stage", SKIPPED)
def test_skipped_stage_shows_its_one_sentence(tmp_path: Path, stage: str) -> None:
    folder = write_folder(tmp_path, skip=(stage,))
    assert _sentence(SKIPPED[stage]) in Page(render_report(folder)).text
    assert _sentence(SKIPPED[stage]) not in Page(render_public(folder)).text


def test_public_page_of_a_run_without_releases_says_so(tmp_path: Path) -> None:
    text = Page(render_public(write_folder(tmp_path, skip=tuple(SKIPPED)))).text
    for words in (
        "released no class proportions",
        "released no class ratios",
        "released no model",
        "No question was put to the holdout",
    ):
        assert words in text


def test_a_quiet_run_is_told_plainly(tmp_path: Path) -> None:
    """Nobody removed, plain majority vote, no gold, a budget with a delta."""
    folder = write_folder(tmp_path, flagged=0)
    edit(folder / "quality.json", refused=[])
    edit(
        folder / "consensus.json",
        aggregator="majority_vote",
        n_iter=1,
        log_likelihood=None,
        gold=None,
    )
    edit(folder / "spend.json", left={"epsilon": 0.0, "delta": 1e-6})
    text = Page(render_report(folder)).text
    for words in (
        "No worker was removed.",
        "tied: 5. By majority vote.",
        "All of it. No further release of this data set is possible.",
        "left ε = 0, δ = 1e-06",
    ):
        assert words in text


def test_missing_numbers_are_dashes(tmp_path: Path) -> None:
    folder = write_folder(tmp_path)
    bounds = [{"name": "none", "value": 1.0, "applies": False, "assumption": "never"}]
    edit(folder / "bounds.json", bounds=bounds, least="none")
    text = Page(render_report(folder)).text
    assert "none — no never" in text
    assert "No bound on its error applies." in text


# --- what the public page may not say


def test_public_page_holds_the_releases(public: str) -> None:
    text = Page(public).text
    for words in (
        "72.4% 70.3–74.5%",
        "91.8%",
        "Training score, released with noise 84.4%",
        "The holdout agrees with the training score. Its answer: 84.4%.",
    ):
        assert words in text


def test_public_pages_do_not_deny_the_public_counts_that_they_show() -> None:
    """Tasks of a group are as many as its labels, and comparisons as many as their answers."""
    leads = [
        line
        for page in Path(charts.__file__).with_name("templates").glob("*.j2")
        for line in page.read_text(encoding="utf-8").splitlines()
        if "This page holds no" in line
    ]
    assert len(leads) == 3
    assert all(
        "no exact count of what the crowd said" in line
        or "no exact count of what was preferred" in line
        for line in leads
    )


@pytest.mark.parametrize("unit", list(Unit))
def test_public_page_promises_its_unit_and_says_what_it_does_not_promise(
    tmp_path: Path, unit: Unit
) -> None:
    folder = write_folder(tmp_path)
    edit(folder / "proportions.json", unit=str(unit))
    text = Page(render_public(folder)).text
    words = unit.protects.replace("'", "’")
    assert f"in numbers that protect {words}." in text
    assert f"whatever somebody believes about {words}, and even if everything else is known" in text
    assert f"A price promises that and no more. {unit.beyond}" in text
    others = [other.protects for other in Unit if other.protects not in unit.protects]
    promises = text.replace("it protects one task’s features and consensus label", "")  # the model
    promises = promises.replace("which protects one task’s features and consensus label", "")
    assert not [other for other in others if f"protect {other}" in promises.replace("’", "'")]


def test_nothing_is_promised_to_a_single_answer_unless_the_unit_is_one(public: str) -> None:
    """One answer moves several consensus labels in a third of all flips under Dawid-Skene."""
    text = Page(public).text
    assert "in numbers that protect one task’s consensus label. This page" in text
    assert "every single answer" not in text
    assert "what was said about any one task" not in text
    assert (
        "a single answer, or a person with several answers or tasks, may be protected less" in text
    )


def test_a_page_without_releases_promises_nothing(tmp_path: Path) -> None:
    assert (
        "protect"
        not in Page(render_public(write_folder(tmp_path, skip=tuple(SKIPPED)))).text.split(
            "How to read a price exactly"
        )[0]
    )


def test_every_price_of_the_report_says_whom_it_protects(report: str) -> None:
    text = Page(report).text
    for words in (
        "at ε = 1 (exact noise, in integers); this protects one task’s consensus label.",
        "0.1 for the score (noise in double precision: rounding is outside the proof); entry 13 of the "
        "ledger; it protects one task’s features and consensus label",
        "ε = 0.5 (exact noise, in integers); it protects one task’s features and consensus label",
        "Every price here protects one task’s features and consensus label.",
        "(ε = 0.5 per row for all its answers)",
    ):
        assert words in text


def test_public_page_does_not_tell_the_ledgers_entries(public: str) -> None:
    """Whether and when something was paid can depend on private data."""
    text = Page(public).text
    assert not [words for words in ("Ledger entries", "spent ε", "Newest release") if words in text]


def test_public_page_depends_on_released_values_alone(tmp_path: Path, public: str) -> None:
    folder = write_folder(tmp_path)
    overwrite_what_is_internal(folder)
    assert public == render_public(folder)


def test_costs_are_rounded_up_and_what_is_left_down(tmp_path: Path) -> None:
    folder = write_folder(tmp_path)
    entry = {"entry": 1, "time": "2026-03-02T10:15", "what": "x", "cell": None, "delta": 0.0}
    edit(
        folder / "spend.json",
        spent={"epsilon": 2.98507462686567, "delta": 0.0},
        left={"epsilon": 1.01492537313433, "delta": 0.0},
        entries=[entry | {"epsilon": 2.98507462686567}],
    )
    text = Page(render_report(folder)).text
    assert "spent ε = 2.98508; left ε = 1.01492" in text
    assert text.count("2.98508") >= 3  # the sentence, the chart and the table
    assert "2.98507" not in text


def test_public_page_names_no_worker_and_no_exact_number(folder: Path, public: str) -> None:
    text = Page(public).text
    workers = pq.read_table(folder / "workers.parquet")["worker"].to_pylist()
    called = pseudonyms(workers)
    for name in workers:
        assert name not in public
        assert called[name] not in public
    for exact in ("0.712", "94.4", "83.5", "87.2", "2,593", "2593", "19.6", "post-", "20,160"):
        assert exact not in text


@pytest.mark.parametrize("said", [False, None])
def test_ratios_from_private_features_stay_inside(tmp_path: Path, said: bool | None) -> None:
    folder = write_folder(tmp_path)
    edit(folder / "class_ratios.json", public=said)
    public, report = Page(render_public(folder)).text, Page(render_report(folder)).text
    assert "released no class ratios" in public
    assert "91.8%" not in public
    assert "They stay internal" in report
    assert "91.8%" in report


# --- that a page stands alone


def test_page_is_balanced_and_its_ids_are_its_own(page: str) -> None:
    parsed = Page(page)
    assert parsed.open == []
    assert len(parsed.ids) == len(set(parsed.ids))
    assert set(parsed.labelled) <= set(parsed.ids)


def test_page_refers_to_nothing_outside_itself(page: str) -> None:
    parsed = Page(page)
    files = {f"public/{name}.{kind}" for name in COLUMNS for kind in ("csv", "parquet")}
    inside = {f"#{name}" for name in parsed.ids} | {"data:,", "public.html", "public/release.json"}
    assert set(parsed.references) <= inside | files
    style = "".join(re.findall(r"<style>(.*?)</style>", page, flags=re.DOTALL))
    assert "url(" not in style
    assert "@import" not in style
    assert "default-src 'none'" in page


def test_the_only_script_is_the_one_the_policy_names(page: str) -> None:
    scripts = Page(page).scripts
    assert len(scripts) == 1
    digest = base64.b64encode(hashlib.sha256(scripts[0].encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in page
    assert page.count("<script") == 1


def test_every_chart_is_xml_with_an_accessible_name_and_a_caption(page: str) -> None:
    for svg in _svgs(page):
        root = ElementTree.fromstring(svg)
        assert root.get("role") == "img"
        assert root.get("aria-label")
    assert len(_svgs(page)) == page.count("<figure") == page.count("<figcaption>")


def test_page_is_for_readers_of_every_kind(page: str) -> None:
    assert '<html lang="en">' in page
    assert '<a class="skip" href="#main">' in page
    assert page.count("<h1>") == 1
    assert page.count("<table") == page.count("<caption>") == page.count('role="region"')
    assert page.count("<section") == page.count("<h2")
    assert "prefers-color-scheme: dark" in page
    assert "@media print" in page


def test_names_from_the_data_are_text(tmp_path: Path) -> None:
    folder = _hostile(tmp_path)
    for html in (render_report(folder, show_worker_ids=True), render_public(folder)):
        assert "<script>alert" not in html
        assert HOSTILE.replace("{{", "{") in Page(html).text


def test_same_folder_same_bytes(folder: Path, tmp_path: Path, report: str, public: str) -> None:
    """Also under another name, and whatever matplotlib settings the process has."""
    copy = shutil.copytree(folder, tmp_path / "elsewhere")
    stages = {stage.name: {"line": "done", "seconds": 12.5} for stage in STAGES}
    edit(copy / "manifest.json", started="2026-03-02", ended="2026-03-03", stages=stages)
    with matplotlib.rc_context({"font.size": 30, "svg.fonttype": "path", "axes.grid": True}):
        assert report == render_report(copy)
        assert public == render_public(copy)


def test_large_runs_stay_readable(tmp_path: Path) -> None:
    """4,000 workers, 90 + 45 groups, 8 classes: under 410 kB, and it says what is left out."""
    classes = tuple(f"class {letter} of the scheme" for letter in "abcdefgh")
    folder = write_folder(tmp_path, workers=4000, flagged=600, groups=90, classes=classes)
    html = render_report(folder)
    assert len(html.encode()) < 430_000
    assert len(render_public(folder).encode()) < 400_000
    text = Page(html).text
    for words in (
        "Removed: the first 100 of 600",
        "3,890 more workers",
        "The first 20 of 90 groups are shown",
        "Evenly spaced workers stand for all of them.",
    ):
        assert words in text


def test_more_classes_than_marks_have_a_table_and_no_chart(tmp_path: Path) -> None:
    classes = tuple(f"c{code}" for code in range(12))
    html = render_public(write_folder(tmp_path, groups=2, classes=classes))
    assert not _svgs(html)
    assert "c11" in Page(html).text


# --- pseudonyms


@given(st.sets(st.text(max_size=8), max_size=300))
@settings(max_examples=25, deadline=None, derandomize=True)
def test_different_ids_have_different_pseudonyms(names: set[str]) -> None:
    called = pseudonyms(names)
    assert set(called) == names
    assert len(set(called.values())) == len(names)


def test_pseudonyms_lengthen_where_two_would_meet() -> None:
    """10,000 ids and 65,536 names of four digits: a meeting is certain for these ids."""
    names = [f"w{code}" for code in range(10_000)]
    called = pseudonyms(names)
    assert len(set(called.values())) == len(names)
    assert len(called["w0"]) > len("worker 7f3a")


@pytest.mark.parametrize("n_names", [0, 1, 2, 400, 10_000])
def test_pseudonyms_have_one_digit_more_than_the_two_closest_share(n_names: int) -> None:
    """Told digest by digest; at least four digits."""
    texts = {
        f"w{code}": hashlib.blake2b(b"w%d" % code, digest_size=16).hexdigest()
        for code in range(n_names)
    }
    in_order = sorted(texts.values())
    shared = [next(i for i in range(32) if a[i] != b[i]) for a, b in pairwise(in_order)]
    digits = max(4, max(shared, default=0) + 1)
    expected = {name: f"worker {text[:digits]}" for name, text in texts.items()}
    assert pseudonyms(texts) == expected


def test_worker_ids_are_shown_only_on_request(folder: Path, report: str) -> None:
    assert "A0003QX" not in report
    assert "A0003QX" in render_report(folder, show_worker_ids=True)


# --- charts


def test_flagged_workers_differ_by_shape() -> None:
    root = ElementTree.fromstring(charts.worker_scatter([(0.9, 1.0)], [(0.4, 8.0)], label="x"))
    paths = {
        path.get("d") for path in root.iter("{http://www.w3.org/2000/svg}path") if path.get("id")
    }
    circle, triangle = (
        sum("C" in (d or "") for d in paths),
        sum((d or "").count("L") == 2 for d in paths),
    )
    assert circle >= 1
    assert triangle >= 1


def test_a_chart_of_nobody_is_a_chart() -> None:
    assert ElementTree.fromstring(charts.worker_scatter([], [], label="nobody")) is not None


def test_the_model_and_the_adjusted_confidence_differ_by_shape() -> None:
    points = [{"confidence": 0.9, "right": 0.8, "n": 20, "low": 0.6, "high": 0.95}]
    svg = charts.reliability_curve(points, points, label="x")
    assert ElementTree.fromstring(svg) is not None
    paths = re.findall(r'<path id="reliability-[^"]*" d="([^"]*)"', svg)
    assert any("C" in path for path in paths)
    assert any("C" not in path and path.count("L") >= 2 for path in paths)


@pytest.mark.parametrize(("high", "last"), [(0.2, "25%"), (0.3, "50%"), (0.51, "100%")])
def test_an_axis_of_shares_ends_where_they_can_be_told_apart(high: float, last: str) -> None:
    cells = [{"share": 0.1, "low": 0.05, "high": high}]
    svg = charts.interval_rows(
        [{"group": "a", "cells": cells}], ["x"], share="share", name="n", label="l"
    )
    assert re.findall(r">(\d+)%<", svg)[-1] == last.rstrip("%")


def test_interval_rows_refuse_more_classes_than_marks() -> None:
    with pytest.raises(ValueError, match="classes must be at most 8, got 9"):
        charts.interval_rows([], list("abcdefghi"), share="ratio", name="x", label="x")


def test_grades_have_colours_in_a_row_and_names_do_not() -> None:
    cells = [{"share": 0.1, "low": 0.05, "high": 0.3}] * 5
    drawn = {
        ordered: charts.interval_rows(
            [{"group": "a", "cells": cells}], list("12345"), share="share", name="n", label="l",
            ordered=ordered,
        )
        for ordered in (True, False)
    }  # fmt: skip
    found = {
        ordered: list(
            dict.fromkeys(re.findall(r"stroke: (#\w+|var\(--blue\)); stroke-width: 1.4", svg))
        )
        for ordered, svg in drawn.items()
    }
    assert len(found[True]) == 5
    assert (found[True][0], found[True][-1]) == (charts.ORANGE.lower(), "var(--blue)")
    red = [int(colour[1:3], 16) for colour in found[True][:-1]]
    assert red == sorted(red, reverse=True)
    assert found[False][:2] == ["var(--blue)", charts.VERMILLION.lower()]


# --- files


def test_both_pages_are_written(tmp_path: Path, report: str, public: str) -> None:
    folder = write_folder(tmp_path)
    before = {path.name for path in folder.iterdir()}
    write_reports(folder)
    assert before | {"report.html", "public.html", "public"} == {
        path.name for path in folder.iterdir()
    }
    assert report == (folder / "report.html").read_text(encoding="utf-8")
    assert public == (folder / "public.html").read_text(encoding="utf-8")


def test_nothing_is_written_unless_both_pages_render(tmp_path: Path) -> None:
    folder = write_folder(tmp_path)
    model = json.loads((folder / "model.json").read_text())
    del model["epsilon_score"]
    write_json(folder / "model.json", model)
    before = {path.name for path in folder.iterdir()}
    with pytest.raises(Exception, match="epsilon_score"):
        write_reports(folder)
    assert before == {path.name for path in folder.iterdir()}


def test_a_folder_that_is_no_run_is_refused(tmp_path: Path) -> None:
    for act in (render_report, render_public, write_reports):
        with pytest.raises(ValueError, match="folder must be a finished run folder"):
            act(tmp_path)


def test_one_of_a_kind_is_told_in_the_singular(tmp_path: Path) -> None:
    folder = write_folder(tmp_path, flagged=1)
    consensus = json.loads((folder / "consensus.json").read_text())
    one = {"n": 1, "n_tasks": 1, "n_workers": 1, "n_considered": 1, "n_asked": 1}
    edit(folder / "consensus.json", plan=consensus["plan"] | one, gold=consensus["gold"] | {"n": 1})
    edit(folder / "quality.json", labels_removed=1)
    edit(folder / "gate.json", budget=1, budget_left=1)
    text = Page(render_report(folder)).text
    assert "1 label of 1 task by 1 worker is expected to lower the uncertainty" in text
    assert "considered the 1 least certain task and 1 worker who gave enough" in text
    assert " 1 gold task, 95% interval" in text
    assert "and 1 label with them" in text
    assert "1 of 1 refutation left" in text
