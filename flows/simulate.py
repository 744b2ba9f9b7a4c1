"""Campaigns to try: a simulated one with its truth, and the sample campaign of the package.

>>> from tempfile import TemporaryDirectory
>>> with TemporaryDirectory() as folder:
...     copy_sample(Path(folder)).name, sorted(file.name for file in Path(folder).iterdir())
('settings.toml', ['gold.csv', 'labels.csv', 'settings.toml', 'tasks.csv'])
"""

from __future__ import annotations

import csv
import json
import os
import shutil
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from functools import partial
from importlib.resources import as_file, files
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from flows.files import OutputFile, output_folder
from quality import (
    Campaign,
    SimulatedCrowd,
    SimulatedMultiLabels,
    regular_assignment,
    simulate_campaign,
    simulate_crowd,
    simulate_multilabels,
)
from quality.labels import MAX_CLASSES

if TYPE_CHECKING:
    from learners.genesis import CrowdRecord

__all__ = [
    "copy_sample", "strategies_of", "write_campaign", "write_crowd", "write_multilabels",
    "write_scripted",
]  # fmt: skip

START = datetime(2026, 3, 2, 8, 0, tzinfo=UTC)  # of the first label
LAST = (datetime.max.replace(tzinfo=UTC) - START).total_seconds()
GOLD_SHARE = 0.2  # of a simulated crowd's tasks
MOST = 10_000_000  # tasks or workers of a simulated crowd, as of one element of a script
MOST_CELLS = 10 * MOST  # its labels; with several classes a task, tasks times classes
DECAY = 0.3  # of wrong grades with each class of distance, where a crowd grades
CROWD_SETTINGS = """\
name = "simulated-crowd"
classes = {classes}

[input]
labels = "labels.csv"
gold = "gold.csv"
"""
DRAWN = 'gold_sampling = "random"\n'  # whatever the crowd, gold is of tasks drawn at random
SETS_SETTINGS = 'several = "|"\nnothing = "none"\n'  # and their shares are not corrected by gold
NAMES = ("labels.csv", "tasks.csv", "gold.csv", "settings.toml")

Tables: TypeAlias = dict[str, dict[str, Iterable[object]]]
"""The columns of each file, by name."""


def copy_sample(folder: Path) -> Path:
    """Copy the sample's files that are missing in `folder`; an edited settings file stays as it is.

    Returns
    -------
    Path
        The settings file in `folder`.
    """
    output_folder(folder)
    for name in NAMES:
        if not os.path.lexists(folder / name):
            _copy(name, OutputFile(folder / name))
    return folder / "settings.toml"


def _copy(name: str, output: OutputFile) -> None:
    """Copy a file of the sample campaign."""
    with as_file(files("sample_data") / name) as source:
        output.write(partial(shutil.copyfile, source))


def write_campaign(folder: Path, *, seed: int, force: bool = False) -> Campaign:
    """Simulate a campaign from a seed and write labels, tasks, gold, settings and the truth.

    Raises
    ------
    OutputError
        If one of the files exists, and `force` does not say that they may be overwritten.
    """
    output_folder(folder / "truth")
    names = (*NAMES, "truth/tasks.csv", "truth/workers.csv")
    outputs = {name: OutputFile(folder / name, force=force) for name in names}
    campaign = simulate_campaign(rng=np.random.default_rng(seed))
    for name, columns in _tables(campaign).items():
        outputs[name].write(partial(_write, columns))
    # the sample is simulated too, with these classes
    _copy("settings.toml", outputs["settings.toml"])
    return campaign


def _tables(campaign: Campaign) -> Tables:
    """Return the campaign's tables by file name, each as columns by name."""
    classes = campaign.classes
    times = (START + timedelta(seconds=int(second)) for second in campaign.label_time)
    features = {
        f"x{j}": (f"{value:.2f}" for value in column)
        for j, column in enumerate(campaign.features.T)
    }
    truth, gold = classes[campaign.truth], campaign.gold
    return {
        "labels.csv": {
            "worker": campaign.label_worker,
            "task": campaign.label_task,
            "label": classes[campaign.label],
            "time": (f"{time:%Y-%m-%dT%H:%M:%S}" for time in times),
        },
        "tasks.csv": {"task": campaign.tasks, "group": campaign.group, **features},
        "gold.csv": {"task": campaign.tasks[gold], "label": truth[gold]},
        "truth/tasks.csv": {"task": campaign.tasks, "label": truth},
        "truth/workers.csv": {
            "worker": campaign.workers,
            "kind": campaign.worker_kind,
            "accuracy": _shares(campaign.worker_accuracy),
        },
    }


def write_crowd(
    folder: Path,
    *,
    n_tasks: int,
    n_workers: int,
    labels_per_task: int,
    n_classes: int,
    strategies: Mapping[str, int],
    seed: int,
    ordered: bool = False,
    force: bool = False,
) -> SimulatedCrowd:
    """Simulate a crowd of given size from a seed and write labels, gold, settings and the truth.

    Tasks, classes and the labels of `n_workers` are dealt evenly; `strategies` are the adversaries of
    :func:`quality.simulate_crowd`, who are among those workers if each answers alone, and join them if they
    answer alike. One task of five has gold, one at least. With `ordered` the classes are the grades
    1, 2, ..., a wrong one the rarer the farther off, and the settings say so.

    Raises
    ------
    OutputError
        If one of the files exists, and `force` does not say that they may be overwritten.
    ValueError
        If a size or a strategy is out of its range, or fewer than three classes are to be ordered.
    """
    if not 2 <= n_classes <= MAX_CLASSES:
        raise ValueError(f"classes must be 2 to {MAX_CLASSES:,}, got {n_classes:,}")
    if ordered and not n_classes >= 3:
        raise ValueError(
            f"ordered classes must be 3 or more, got {n_classes}: two have an order always"
        )
    _refuse_huge(n_tasks, n_workers, labels_per_task, strategies)
    rng = np.random.default_rng(seed)
    rows = regular_assignment(
        n_tasks=n_tasks, n_workers=n_workers, labels_per_task=labels_per_task, rng=rng
    )
    truth = rng.integers(n_classes, size=n_tasks)
    crowd = simulate_crowd(
        rows, truth, n_classes=n_classes, adversaries=strategies, decay=DECAY if ordered else 1.0,
        rng=rng,
    )  # fmt: skip
    named = "{}".format if ordered else "class-{}".format
    classes = np.array([named(code + ordered) for code in range(n_classes)])
    tasks, workers = _names("t", n_tasks), _names("w", len(crowd.kind))
    gold = _gold_tasks(n_tasks, rng)
    tables: Tables = {
        "labels.csv": {
            "worker": workers[crowd.worker],
            "task": tasks[crowd.task],
            "label": classes[crowd.label],
        },
        "gold.csv": {"task": tasks[gold], "label": classes[truth[gold]]},
        "truth/tasks.csv": {"task": tasks, "label": classes[truth]},
        "truth/workers.csv": {
            "worker": workers, "kind": crowd.kind, "accuracy": _shares(crowd.accuracy),
        },
    }  # fmt: skip
    _write_files(folder, tables, classes, DRAWN + "order = true\n" * ordered, force=force)
    return crowd


def write_multilabels(
    folder: Path,
    *,
    n_tasks: int,
    n_workers: int,
    answers_per_task: int,
    n_classes: int,
    max_labels: int,
    kinds: Mapping[str, int],
    seed: int,
    force: bool = False,
) -> SimulatedMultiLabels:
    """Simulate answers that hold several classes, as cells such as ``class-0|class-2``, with gold and truth.

    There are `n_workers` honest workers, and those of `kinds` beside them, as
    :func:`quality.simulate_multilabels` names them. An answer without any class is the word none. One task of
    five has gold, and settings say what cells hold.

    Raises
    ------
    OutputError
        If one of the files exists, and `force` does not say that they may be overwritten.
    ValueError
        If a size is out of its range, or a kind is unknown.
    """
    _refuse_huge(n_tasks, n_workers, max(answers_per_task, n_classes), kinds)
    rng = np.random.default_rng(seed)
    crowd = simulate_multilabels(
        n_tasks=n_tasks, n_workers=n_workers + sum(kinds.values()), answers_per_task=answers_per_task,
        n_classes=n_classes, max_labels=max_labels, others=kinds, rng=rng,
    )  # fmt: skip
    table = crowd.table
    classes = np.array([f"class-{code}" for code in range(n_classes)])
    tasks, workers = _names("t", n_tasks), _names("w", len(crowd.kind))
    given = ("|".join(classes[table.set_of(answer)]) for answer in range(table.n_answers))
    truth = np.array(["|".join(classes[row]) or "none" for row in crowd.truth])
    gold = _gold_tasks(n_tasks, rng)
    tables: Tables = {
        "labels.csv": {
            "worker": workers[table.worker],
            "task": tasks[table.task],
            "label": [cell or "none" for cell in given],
        },
        "gold.csv": {"task": tasks[gold], "label": truth[gold]},
        "truth/tasks.csv": {"task": tasks, "label": truth},
        "truth/workers.csv": {"worker": workers, "kind": crowd.kind},
    }
    _write_files(folder, tables, classes, SETS_SETTINGS, force=force)
    return crowd


def write_scripted(
    folder: Path, script: Path, *, seed: int, force: bool = False
) -> tuple[CrowdRecord, list[str]]:
    """Run a script of the population simulator and write its recorder's labels as a campaign.

    Parameters
    ----------
    folder
        Where the files go; labels have their time and the seconds that they took.
    script
        A file, or the name of one in `sample_data/crowds`. It may include others of its folder.
    seed, force
        As for :func:`write_crowd`.

    Returns
    -------
    tuple
        The recorder's labels, and the lines that the script printed.

    Raises
    ------
    SettingsError
        For a mistake in the script, with file and line; if it has not exactly one recorder; if it is no text;
        if a script outside of its folder is included.
    OutputError
        If one of the files exists, and `force` does not say that they may be overwritten.
    """
    from flows.settings import SettingsError  # pydantic and numba, for scripts only
    from learners.genesis import Simulation

    shipped = Path(str(files("sample_data"))) / "crowds" / script.name
    if not script.exists() and len(script.parts) == 1 and shipped.is_file():
        script = shipped
    if not script.exists():
        raise SettingsError(f"{script} does not exist; mend the path")
    top = script.resolve().parent

    def read(name: str) -> str:
        included = (top / name).resolve()
        if not included.is_relative_to(top):
            raise ValueError(f"included script {name!r} must lie in the folder of {script.name}")
        return _script_text(included)

    simulation = Simulation(rng=np.random.default_rng(seed), read=read)
    try:
        simulation.script(_script_text(script), name=script.name)
        every = simulation.tree.root.subtree()
        recorders = [one.path for one in every if one.cls.name == "recorder"]
        if len(recorders) != 1:
            raise ValueError(f"{script.name} must have one recorder, got {len(recorders)}")
        simulation.run()
        record: CrowdRecord = simulation.result(recorders[0])
        if not record.time.max(initial=0) < LAST:
            raise ValueError(
                f"{script.name} must have its labels before the year 10000, got one after "
                f"{record.time.max():.3g} seconds"
            )
    except ValueError as error:
        raise SettingsError(str(error)) from None
    _write_record(folder, record, script, seed=seed, force=force)
    return record, simulation.output


def _script_text(path: Path) -> str:
    if path.is_dir():
        raise ValueError(f"{path.name or path} must be a script, got a folder")
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise ValueError(f"{path.name} must be UTF-8; convert it first") from None


def _write_record(
    folder: Path, record: CrowdRecord, script: Path, *, seed: int, force: bool
) -> None:
    """Write a recorder's labels as a campaign; workers' names do not reveal their kind."""
    n_tasks = len(record.truth)
    classes = np.array([f"class-{code}" for code in range(int(record.options.max()))])
    tasks, workers = _names("t", n_tasks), _names("w", len(record.worker_path))
    rng = np.random.default_rng([seed, 1])
    gold = _gold_tasks(n_tasks, rng)
    times = (START + timedelta(seconds=float(second)) for second in record.time)
    tables: Tables = {
        "labels.csv": {
            "worker": workers[record.worker],
            "task": tasks[record.task],
            "label": classes[record.label],
            "time": (f"{time:%Y-%m-%dT%H:%M:%S}" for time in times),
            "seconds": (f"{second:.3f}" for second in record.seconds),
        },
        "gold.csv": {"task": tasks[gold], "label": classes[record.truth[gold]]},
        "truth/tasks.csv": {"task": tasks, "label": classes[record.truth]},
        "truth/workers.csv": {
            "worker": workers,
            "kind": record.worker_kind,
            "element": record.worker_path,
            "row": record.worker_row,
            "accuracy": _shares(record.accuracy),
        },
    }
    more = DRAWN + 'seconds = "seconds"\n'
    _write_files(folder, tables, classes, more, inputs=(script,), force=force)


def _gold_tasks(n_tasks: int, rng: np.random.Generator) -> np.ndarray:
    """Draw the tasks that have gold, in their order."""
    n_gold = max(round(GOLD_SHARE * n_tasks), 1)  # a gold table has rows
    return np.sort(rng.permutation(n_tasks)[:n_gold])


def _write_files(
    folder: Path,
    tables: Tables,
    classes: np.ndarray,
    more_settings: str,
    *,
    inputs: tuple[Path, ...] = (),
    force: bool,
) -> None:
    """Write the tables of a simulated crowd and its settings, after all files were checked."""
    output_folder(folder / "truth")
    outputs = {
        name: OutputFile(folder / name, inputs=inputs, force=force)
        for name in (*tables, "settings.toml")
    }
    for name, columns in tables.items():
        outputs[name].write(partial(_write, columns))
    settings = CROWD_SETTINGS.format(classes=json.dumps(classes.tolist())) + more_settings
    outputs["settings.toml"].write(lambda aside: aside.write_text(settings, encoding="utf-8"))


def _refuse_huge(n_tasks: int, n_workers: int, width: int, others: Mapping[str, int]) -> None:
    """Raise ValueError for a crowd that would fill the memory; each task takes `width` cells."""
    for what, number, most in (
        ("n_tasks", n_tasks, MOST),
        ("n_workers", n_workers, MOST),
        ("workers of strategies", sum(others.values()), MOST),
        ("n_tasks times labels (with several, classes) of a task", n_tasks * width, MOST_CELLS),
    ):
        if number > most:
            raise ValueError(f"{what} must be at most {most:,}, got {number:,}")


def strategies_of(given: Iterable[str]) -> dict[str, int]:
    """Return the number of workers of each strategy from texts such as ``sybils=6``.

    >>> strategies_of(["sybils=6", "random=2"])
    {'sybils': 6, 'random': 2}
    """
    found: dict[str, int] = {}
    for text in given:
        name, _, count = text.partition("=")
        if not (name and count.isdecimal()):
            raise ValueError(f"strategy must be a name and a number, sybils=6, got {text!r}")
        found[name] = found.get(name, 0) + int(count)
    return found


def _names(letter: str, count: int) -> np.ndarray:
    """Return t000, t001, ..., as wide as the count asks."""
    width = len(str(count - 1))
    return np.array([f"{letter}{number:0{width}d}" for number in range(count)])


def _shares(values: np.ndarray) -> list[str]:
    """Return numbers with three decimals, NaN as blank."""
    return ["" if np.isnan(value) else f"{value:.3f}" for value in values]


def _write(columns: Mapping[str, Iterable[object]], path: Path) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))
