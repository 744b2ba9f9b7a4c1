"""Non-interference: what a unit protects leaves no trace beside what was released.

Two campaigns differ in one thing. All that the mechanisms drew for the first is what they draw for the
second, as noise may always have made it up. Then every public file and every row of the ledger must be
the same, byte for byte, whatever the pipeline computed between. Each unit is tried with each thing that
can be changed; where a unit does not protect a thing, the public files do show it, so that the test is
known to see.
"""

from __future__ import annotations

import copy
import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from flows.pipeline import run_pipeline
from flows.settings.settings import load_settings
from privacy import Unit
from tests.flows.campaign import write_small_campaign
from tests.flows.run.test_canaries import booked, trace, without_times

LOCAL = {
    "[filter]\nfraction = 0.1\n": '[consensus]\naggregator = "majority_vote"\ngroups = "ignore"\n'
    "[filter]\nfraction = 0.0\n"
}
UNITS: dict[str, dict[str, str]] = {
    "consensus label": {},
    "row": {},
    "task": LOCAL,
    "answer": LOCAL,
    "subject": {
        'gold = "gold.csv"\n': 'gold = "gold.csv"\nsubject = "subject"\n',
        "[privacy]\n": "[privacy]\nmax_tasks_per_subject = 3\n",
    },
}
"""What each unit asks of the settings beside its name: text that stands there, and what takes its place."""

PROTECTS_FEATURES = {"row", "subject"}
"""Units that hold a labelled task's features as well; all of them hold everything said about it."""


def edit(path: Path, change: Callable[[list[str]], list[str]]) -> None:
    """Rewrite the rows of a CSV file, its header left as it is."""
    header, *rows = path.read_text(encoding="utf-8").splitlines()
    path.write_text("\n".join([header, *change(rows)]) + "\n", encoding="utf-8")


def another(label: str) -> str:
    return {"a": "b", "b": "c", "c": "a"}[label]


def relabel(rows: list[str], task: str, *, answers: int) -> list[str]:
    """Another class for this many of a task's answers."""
    changed = []
    for row in rows:
        if f",{task}," in row and answers > 0:
            answers -= 1
            row = row[:-1] + another(row[-1])
        changed.append(row)
    assert changed != rows
    return changed


def a_label(folder: Path) -> None:
    """Everybody gave one task another class, and hence its consensus is another."""
    edit(folder / "labels.csv", lambda rows: relabel(rows, "t000", answers=99))


def an_answer(folder: Path) -> None:
    edit(folder / "labels.csv", lambda rows: relabel(rows, "t007", answers=1))


def many_answers(folder: Path) -> None:
    """Half of all tasks: every exact count moves, and with it consensus, filter and model."""
    for number in range(0, 360, 2):
        edit(folder / "labels.csv", lambda rows, n=number: relabel(rows, f"t{n:03d}", answers=99))


def a_feature(folder: Path) -> None:
    edit(
        folder / "tasks.csv",
        lambda rows: [re.sub(r"^(t000,g0,)[^,]*", r"\g<1>-3.5", row) for row in rows],
    )


def a_gold_label(folder: Path) -> None:
    edit(folder / "gold.csv", lambda rows: [rows[0][:-1] + another(rows[0][-1]), *rows[1:]])


def a_subjects_rows(folder: Path) -> None:
    """Answers and features of three tasks, as one person may have sent them in."""
    for task in ("t000", "t001", "t002"):
        edit(folder / "labels.csv", lambda rows, one=task: relabel(rows, one, answers=99))
    edit(
        folder / "tasks.csv",
        lambda rows: [re.sub(r"^(t00[012],g0,)[^,]*", r"\g<1>-3.5", row) for row in rows],
    )


CHANGES = {
    "a label": a_label,
    "an answer": an_answer,
    "many answers": many_answers,
    "a feature": a_feature,
    "a gold label": a_gold_label,
    "a subject's rows": a_subjects_rows,
}
WITH_FEATURES = {"a feature", "a subject's rows"}


class Tape:
    """What the mechanisms drew: recorded in a first run, and drawn again in every later one."""

    DRAWS = ("draw", "draw_all", "start", "answer")

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.drawn: list[Any] = []
        self.place: int | None = None
        self.inside = False
        for kind in mechanisms():
            for name in set(self.DRAWS) & set(vars(kind)):
                monkeypatch.setattr(kind, name, self._listening(vars(kind)[name]))

    def rewind(self) -> None:
        """From now on nothing new is drawn."""
        self.place = 0

    def _listening(self, draw: Callable[..., Any]) -> Callable[..., Any]:
        def listening(*arguments: Any) -> Any:
            if self.inside:  # one mechanism draws by another, whose draw is part of its own
                return draw(*arguments)
            if self.place is not None:
                self.place += 1
                return copy.deepcopy(self.drawn[self.place - 1])
            self.inside = True
            try:
                drawn = draw(*arguments)
            finally:
                self.inside = False
            self.drawn.append(copy.deepcopy(drawn))
            return drawn

        return listening


def mechanisms() -> list[type]:
    """Every class of the private rooms that describes a release and draws it."""
    found = {
        value
        for name, module in sys.modules.items()
        if name.split(".")[0] in ("privacy", "learners")
        for value in vars(module).values()
        if isinstance(value, type) and value.__module__ == name and "event" in dir(value)
    }
    return [kind for kind in found if set(Tape.DRAWS) & set(vars(kind))]


def campaign_of(unit: str, folder: Path) -> Path:
    """The small campaign under a unit, three tasks to each subject."""
    path = write_small_campaign(folder)
    tasks = folder / "tasks.csv"
    header, *rows = tasks.read_text(encoding="utf-8").splitlines()
    text = path.read_text(encoding="utf-8").replace(
        "epsilon = 20.0", f'epsilon = 20.0\nunit = "{unit}"'
    )
    for old, new in UNITS[unit].items():
        assert old in text
        text = text.replace(old, new)
    if "subject =" in text:
        rows = [f"{row},s{number // 3:03d}" for number, row in enumerate(rows)]
        tasks.write_text("\n".join([f"{header},subject", *rows]) + "\n", encoding="utf-8")
    path.write_text(text, encoding="utf-8")
    return path


def shown_by(path: Path) -> tuple[dict[str, str], list[str]]:
    """The public files of a run, and the rows of its ledger, without times."""
    settings = load_settings(path)
    folder = run_pipeline(settings).folder
    public = [folder / "public.html", *(folder / "public").iterdir()]
    return {one.name: without_times(trace(one)) for one in public}, booked(settings)


def difference(one: dict[str, str], other: dict[str, str]) -> list[str]:
    """Names of the files that differ."""
    return sorted(name for name in one.keys() | other.keys() if one.get(name) != other.get(name))


def test_every_unit_and_only_units_are_tried() -> None:
    """A new unit belongs in `UNITS`, and in `PROTECTS_FEATURES` where it is about whole rows."""
    assert {str(unit) for unit in Unit} <= set(UNITS)
    assert set(UNITS) >= PROTECTS_FEATURES


@pytest.fixture(scope="module", params=[str(unit) for unit in Unit])
def first(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A unit, its unchanged campaign, what its run showed, and the tape to draw again from."""
    unit, folder = request.param, tmp_path_factory.mktemp("first")
    with pytest.MonkeyPatch.context() as monkeypatch:
        path = campaign_of(unit, folder / "campaign")
        shutil.copytree(path.parent, folder / "unchanged")
        tape = Tape(monkeypatch)
        shown = shown_by(path)
        yield unit, folder / "unchanged", shown, tape


@pytest.mark.parametrize("change", CHANGES)
def test_what_a_unit_protects_leaves_no_trace_beside_what_was_released(
    first: Any, change: str, tmp_path: Path
) -> None:
    unit, unchanged, (files, rows), tape = first
    shutil.copytree(unchanged, tmp_path / "campaign")
    CHANGES[change](tmp_path / "campaign")
    tape.rewind()
    public, ledger = shown_by(tmp_path / "campaign" / "settings.toml")
    if change in WITH_FEATURES and unit not in PROTECTS_FEATURES:
        assert "class_ratios.csv" in difference(files, public)  # features are public there
    else:
        assert difference(files, public) == []
    assert ledger == rows
    assert tape.place == len(tape.drawn)


def test_the_tape_holds_every_draw(first: Any) -> None:
    """Counts, training, and the holdout's start and answer: nothing is drawn past it."""
    _, _, _, tape = first
    assert len(tape.drawn) == 4
