"""An audit of a run's whole public folder as one mechanism, on two campaigns that differ in one unit.

A run's price holds for all that it publishes together, computed from releases or not. So a small made-up
campaign and its neighbour are published again and again, and whatever tells their public folders apart is
counted: which files there are, their bytes, and every number in them.

Each publication is one of a run's: every stage that spends is called as a run calls it, on the run's folder,
settings and tables; it plans its releases, opens a new ledger, pays durably, draws and writes, and the public
folder is made of what it wrote. What all publications of one campaign share is done once: its tables are
read, its workers judged and its consensus found, without any noise. The folder lies in memory where the
system has one there, since a ledger waits for the disk at every write.

Stages between those that spend have neither noise nor ledger: what they publish must follow from what was
published before and from what the unit does not protect. That is checked rather than counted. The files
that some of the publications of the one campaign have paid for are put into the folder of the other, the
stages are called on both, and their public folders must be equal, byte for byte. A distinguisher gains
nothing from what is the same function of the same published values.
"""

from __future__ import annotations

import csv
import hashlib
import json
import os
import secrets
import shutil
import signal
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import active_children, get_context, parent_process
from pathlib import Path
from threading import Thread
from typing import Any

from flows.choices import LABEL_COLUMNS
from flows.report import write_release_files
from flows.run import MANIFEST, Run, open_run
from flows.settings import EngineError, Settings, SettingsError, load_settings
from flows.spending import as_numbers, outcome, read_statements
from flows.stages import STAGES, Stage
from privacy import AuditBound, Unit, audit_releases
from privacy.accounting import price_text
from quality import Progress
from quality.parallel import counter

__all__ = [
    "NEIGHBOURS", "FolderAudit", "audit_folder", "folder_trial", "published_folders", "unlike_files",
]  # fmt: skip

N_TASKS, PER_GROUP = 40, 10  # the last group is not labelled
FAR = "60.0"  # a feature that moves whatever is not bounded; others lie in [-1, 2]
LOCAL = '[consensus]\naggregator = "majority_vote"\ngroups = "ignore"\n[filter]\nfraction = 0.0\n'
SETTINGS = """\
name = "audited"
classes = ["a", "b"]
[input]
labels = "labels.csv"
tasks = ["tasks.csv"]
gold = "gold.csv"
gold_sampling = "random"
{input}
[privacy]
epsilon = 4.0
unit = "{unit}"
proportions_epsilon = 0.5
correction_epsilon = 0.5
{privacy}
[model]
epsilon_train = 0.4
epsilon_select = 0.2
epsilon_score = 0.2
norm_bound = 2.0
regularization = [0.1]
[gate]
threshold = 0.5
sigma = 0.4
budget = 1
"""
SHARED_MEMORY = Path("/dev/shm")
AT_ONCE = 5  # publications of each neighbour before they are counted
FOLLOWED = 10  # publications whose other stages are followed on both campaigns
Rows = list[list[str]]
OTHER = {"a": "b", "b": "a"}


def _one_label(labels: Rows, tasks: Rows, gold: Rows) -> None:
    """Change all labels of the first task, and its truth."""
    _one_task(labels, tasks, gold)
    gold[0][1] = OTHER[gold[0][1]]


def _one_row(labels: Rows, tasks: Rows, gold: Rows) -> None:
    """Change the first task's labels, its truth, and its features."""
    _one_label(labels, tasks, gold)
    tasks[0][2] = FAR


def _one_task(labels: Rows, tasks: Rows, gold: Rows) -> None:
    """Change all labels of the first task."""
    for row in labels:
        if row[1] == "t00":
            row[2] = OTHER[row[2]]


def _one_answer(labels: Rows, tasks: Rows, gold: Rows) -> None:
    """Change one of two equal labels of the first task, so that its consensus changes."""
    row = next(row for row in labels if row[1:] == ["t00", "a"])
    row[2] = "b"


def _one_subject(labels: Rows, tasks: Rows, gold: Rows) -> None:
    """Change the labels, truth and features of all tasks of one subject."""
    for row in labels:
        if row[1] in ("t00", "t01"):
            row[2] = OTHER[row[2]]
    for row in gold[:2]:
        row[1] = OTHER[row[1]]
    for task in tasks[:2]:
        task[2] = FAR


NEIGHBOURS: Mapping[str, tuple[Callable[[Rows, Rows, Rows], None], str, str]] = {
    "consensus label": (_one_label, "", LOCAL),
    "row": (_one_row, "", LOCAL),
    "task": (_one_task, "", LOCAL),
    "answer": (_one_answer, "", LOCAL),
    "subject": (_one_subject, 'subject = "subject"', LOCAL),
}
"""For each unit: what differs between neighbours, keys of `[input]`, and further sections."""


@dataclass(frozen=True, slots=True)
class FolderAudit:
    """What was found of a run's public folder: the bound, the price booked, and files that do not follow.

    `unlike` names public files that differ between the neighbours although all that was paid for is the
    same; `draws` is the number of publications of each neighbour, half of which the bound is counted on.
    """

    bound: AuditBound
    epsilon: float
    delta: float
    unlike: tuple[str, ...]
    draws: int

    @property
    def refuted(self) -> bool:
        """Whether the price is refuted."""
        return bool(self.unlike) or self.bound.refutes(self.delta)


def folder_trial(
    *, unit: str, draws: int, level: float, progress: Progress | None = None
) -> dict[str, Any]:
    """Audit the public folder under a unit and say what was found; SettingsError for an unknown unit."""
    if unit not in list(Unit):
        raise SettingsError(f"unit must be one of {', '.join(Unit)}, got {unit!r}")
    workers = os.cpu_count() or 1
    found = audit_folder(Unit(unit), draws=draws, level=level, workers=workers, progress=progress)
    record = outcome(
        f"the public folder of a run, unit {unit}, at the run's price {price_text(found.epsilon)},",
        found.bound,
        found.delta,
    )
    if found.unlike:
        files = ", ".join(found.unlike)
        why = f"{files} differ between neighbours of which all that was paid for is the same"
        record["sentences"] = [*record["sentences"][:-1], f"Refuted: {why}."]
    return record | {"refuted": found.refuted, "unlike": list(found.unlike)}


def audit_folder(
    unit: Unit, *, draws: int, level: float, workers: int = 1, progress: Progress | None = None
) -> FolderAudit:
    """Publish neighbours again and again; return what that proves, and the price that was booked.

    `draws` is the number of publications of each of the two; several processes share them, some at a time.
    """
    n_shares = max(workers, draws // AT_ONCE)
    shares = [draws // n_shares + (number < draws % n_shares) for number in range(n_shares)]
    asked = [(unit, share) for share in shares if share]
    found: list[Any] = []
    tell = counter(progress, "publications", draws)
    tell(0)
    for one in _each(asked, workers):
        found.append(one)
        tell(sum(share for _, share in asked[: len(found)]))
    counter(progress, "what tells them apart", 1)(0)
    here = [folder for one in found for folder in one[0]]
    there = [folder for one in found for folder in one[1]]
    _, _, epsilon, delta = found[0]
    bound = audit_releases(*as_numbers(here, there), epsilon=epsilon, delta=delta, level=level)
    unlike = unlike_files(unit, min(draws, FOLLOWED))
    return FolderAudit(bound, epsilon, delta, unlike, draws)


def _each(asked: Sequence[tuple[Unit, int]], workers: int) -> Iterator[Any]:
    """Yield what `published_folders` returns of each, made here or in so many processes."""
    if workers <= 1:
        yield from (published_folders(*one) for one in asked)
        return
    others = {process.pid for process in active_children()}
    with tempfile.TemporaryDirectory(dir=_memory()) as folder:
        pool = ProcessPoolExecutor(workers, get_context("spawn"), initializer=_end_with_the_audit)
        try:
            for one in _begun_without_ctrl_c(pool, asked, Path(folder)):
                yield one.result()
        except BrokenProcessPool:
            raise EngineError(
                "a process of the audit was ended from outside: is memory short? free some, and audit again"
            ) from None
        except BaseException:
            for process in active_children():
                if process.pid not in others:
                    process.terminate()
            raise
        finally:
            pool.shutdown()


def _end_with_the_audit() -> None:
    """End this process once the one that began it has ended, even by a SIGKILL; wait in a thread for that."""

    def wait() -> None:
        began = parent_process()
        if began is not None:
            began.join()
            os._exit(1)  # nobody is left to take a result, or to wait for one

    Thread(target=wait, daemon=True).start()


def _begun_without_ctrl_c(
    pool: ProcessPoolExecutor, asked: Sequence[tuple[Unit, int]], folder: Path
) -> list[Future[Any]]:
    """Begin each in a process that never sees Ctrl-C, which the terminal sends to all of them.

    They inherit the mask of this thread. Whoever began them ends them, and removes what they leave.
    """
    former = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        return [pool.submit(published_folders, *one, folder) for one in asked]
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, former)


def _memory() -> Path | None:
    """Return the folder of the system that lies in memory, or None."""
    return SHARED_MEMORY if SHARED_MEMORY.is_dir() else None


def published_folders(
    unit: Unit, draws: int, place: Path | None = None
) -> tuple[list[dict[str, Any]], list[dict[str, Any]], float, float]:
    """Publish both neighbours from new ledgers; return all that each has shown, epsilon and delta.

    They take turns, and a coin says which of a pair comes first: the time of day, which is shown, tells
    nothing of them.
    """
    with (
        _campaign(unit, changed=False, place=place) as here,
        _campaign(unit, changed=True, place=place) as there,
    ):
        runs = [(run, run.read_json(MANIFEST), list[dict[str, Any]]()) for run in (here, there)]
        for _ in range(draws):
            for run, begun, shown in runs if secrets.randbelow(2) else reversed(runs):
                _pay_anew(run, begun)
                shown.append(_shown(run))
        (found,) = read_statements(here.settings.state)
        return runs[0][2], runs[1][2], found["spent"]["epsilon"], found["spent"]["delta"]


def unlike_files(unit: Unit, times: int) -> tuple[str, ...]:
    """Return the public files in which neighbours differ although all that was paid for is the same."""
    spent, others = _published_stages()
    unlike: set[str] = set()
    with _campaign(unit, changed=False) as here, _campaign(unit, changed=True) as there:
        begun = here.read_json(MANIFEST)
        for _ in range(times):
            _pay_anew(here, begun)
            for output in (one for stage in spent for one in stage.outputs):
                if (here.folder / output.name).is_file():
                    shutil.copy(here.folder / output.name, there.folder / output.name)
            shown = []
            for run in (here, there):
                for stage in others:
                    stage(run)
                shown.append(_shown(run)["bytes"])
            names = shown[0].keys() | shown[1].keys()
            unlike |= {name for name in names if shown[0].get(name) != shown[1].get(name)}
    return tuple(sorted(unlike))


def _published_stages() -> tuple[list[Stage], list[Stage]]:
    """Return the stages that spend, and those between them."""
    held = [number for number, stage in enumerate(STAGES) if stage.holds_ledger]
    among = STAGES[held[0] : held[-1] + 1]
    return [one for one in among if one.holds_ledger], [
        one for one in among if not one.holds_ledger
    ]


@contextmanager
def _campaign(unit: Unit, *, changed: bool, place: Path | None = None) -> Iterator[Run]:
    """Yield a run of the small campaign, or of its neighbour, up to the first stage that spends."""
    with tempfile.TemporaryDirectory(dir=place or _memory()) as folder:
        run = open_run(_write_campaign(unit, Path(folder), changed=changed))
        for stage in STAGES:
            if stage.holds_ledger:
                break
            stage(run)
        yield run


def _pay_anew(run: Run, begun: dict[str, Any]) -> None:
    """Run the stages that spend, from a new ledger."""
    shutil.rmtree(run.settings.state, ignore_errors=True)
    run.write_json(MANIFEST, begun)  # it names no earlier ledger
    spent, others = _published_stages()
    for output in (one for stage in others for one in stage.outputs):
        (run.folder / output.name).unlink(missing_ok=True)
    for stage in spent:
        stage(run)


def _shown(run: Run) -> dict[str, Any]:
    """Return what the public folder shows: names, a digest of the bytes of each file, and all numbers."""
    names = write_release_files(run.folder)
    public = run.folder / "public"
    for path in public.iterdir():
        if path.name not in names:
            path.unlink()
    digests = {
        name: hashlib.blake2b((public / name).read_bytes(), digest_size=16).hexdigest()
        for name in names
    }
    found = json.loads((public / "release.json").read_text(encoding="utf-8"))
    return {"files": ", ".join(sorted(names)), "bytes": digests, "release": found}


def _write_campaign(unit: Unit, folder: Path, *, changed: bool) -> Settings:
    """Write the small campaign, or its neighbour, and load its settings."""
    if str(unit) not in NEIGHBOURS:
        raise SettingsError(f"the audit has no neighbours for the unit {unit}")
    change, keys, sections = NEIGHBOURS[str(unit)]
    labels, tasks, gold = _labels_tasks_and_gold()
    if changed:
        change(labels, tasks, gold)
    _write(folder / "labels.csv", [*LABEL_COLUMNS], labels)
    _write(folder / "gold.csv", ["task", "label"], gold)
    header = ["task", "group", "x0"]
    if "subject" in keys:
        tasks = [[*row, f"s{number // 2}"] for number, row in enumerate(tasks)]
        header.append("subject")
    _write(folder / "tasks.csv", header, tasks)
    path = folder / "settings.toml"
    bound = "max_tasks_per_subject = 2" if "subject" in keys else ""
    text = SETTINGS.format(input=keys, unit=unit, privacy=bound) + sections
    path.write_text(text, encoding="utf-8")
    return load_settings(path)


def _labels_tasks_and_gold() -> tuple[Rows, Rows, Rows]:
    """Return three labelled groups with ever more of class b, and one without; the first task is split.

    Every other labelled task and the second have gold, which says b for the first.
    """
    labels: Rows = []
    tasks: Rows = []
    gold: Rows = []
    for number in range(N_TASKS):
        name, group = f"t{number:02d}", number // PER_GROUP
        truth = "b" if number % PER_GROUP < 2 + 2 * group else "a"
        truth = "a" if number == 0 else truth
        x = (1.0 if truth == "b" else -1.0) + 0.03 * (number % 7)
        tasks.append([name, f"g{group}", f"{x:.2f}"])
        if group < N_TASKS // PER_GROUP - 1:
            answers = ["a", "a", "b"] if number == 0 else [truth] * 3
            labels += [[f"w{k}", name, one] for k, one in enumerate(answers)]
            if number == 1 or not number % 2:
                gold.append([name, truth if number else "b"])
    return labels, tasks, gold


def _write(path: Path, header: list[str], rows: Rows) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([header, *rows])
