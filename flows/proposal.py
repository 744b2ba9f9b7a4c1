"""Settings proposed from the tables of a campaign: a commented TOML file that runs as it is.

The gate's numbers that settings propose, from the public number of labelled tasks.

The text of proposed settings, section by section: every key, and half a line why.

Numbers come from public facts alone: rows, tasks, groups and their sizes, features, classes. Two
things do not, and the text says so: the class names, and the bound on the features' norms.
"""

from __future__ import annotations

import json
import math
import os
import re
import statistics
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import ValidationError

from flows.choices import Duplicates
from flows.settings import (
    NAME,
    ConsensusSettings,
    EngineSettings,
    FilterSettings,
    GateSettings,
    GroupSettings,
    InputSettings,
    ModelSettings,
    PrivacySettings,
    ReportSettings,
    Section,
    Settings,
    SettingsError,
    fault_sentence,
)
from flows.tables import (
    Sources,
    TableError,
    TaskTable,
    find_files,
    is_query,
    open_sources,
    open_table,
    read_gold,
    read_labels,
    read_seconds,
    read_tasks,
    refuse_hollow,
)
from privacy import choose_mechanism
from quality import CrowdLabels

__all__ = [
    "Found",
    "GateNumbers",
    "Shown",
    "gate_for",
    "look_at",
    "settings_text",
    "spelled",
    "training_price",
    "why_no_model",
    "write_settings",
]

WIDEST_THRESHOLD = 0.15  # a gate that tolerates more says little
NOISE_VARIANCE = 2 * (4**2 + 2**2)  # of Thresholdout's comparison, in sigmas squared
SPREADS = 3  # standard deviations, of a model that does not overfit, within the threshold


@dataclass(frozen=True, slots=True)
class GateNumbers:
    """The gate's numbers for a holdout of at least so many tasks."""

    holdout: int
    threshold: float
    sigma: float
    budget: int


def gate_for(n_labelled: int) -> GateNumbers | None:
    """The most refutations that a gate can afford which tolerates little; None if it can none.

    The deal to the holdout is random: all but four of its standard deviations are counted on.
    """
    share, price = GateSettings().holdout, training_price()
    size = math.floor(n_labelled * share - 4 * math.sqrt(n_labelled * share * (1 - share)))
    for budget in (3, 2, 1) if size > 0 else ():
        sigma = _rounded_up(2 * budget / (price * size))
        threshold = _rounded_up(max(SPREADS * _spread(size, n_labelled, sigma), 0.02))
        if threshold <= WIDEST_THRESHOLD:
            return GateNumbers(size, threshold, sigma, budget)
    return None


def _spread(n_holdout: int, n_labelled: int, sigma: float) -> float:
    """Standard deviation, at most, of holdout less training score where nothing overfits.

    Both are means of 0s and 1s; the training score has the noise of its release, and the comparison
    the gate's own.
    """
    model = _sample_model()
    n_scored = n_labelled * (1 - GateSettings().holdout) * model.validation
    chance = 0.25 / n_holdout + 0.25 / n_scored
    score = 2 / (model.epsilon_score * n_scored) ** 2
    return math.sqrt(chance + score + NOISE_VARIANCE * sigma**2)


def training_price() -> float:
    """What training takes of the budget where nothing else is said."""
    given = _sample_model()
    return round(given.epsilon_train + given.epsilon_select + given.epsilon_score, 9)


def _sample_model() -> ModelSettings:
    """The model's settings where nothing else is said."""
    return ModelSettings(norm_bound=1.0)


def _rounded_up(value: float) -> float:
    """The next number of two digits."""
    digits = 1 - math.floor(math.log10(value))
    return round(math.ceil(round(value * 10.0**digits, 6)) / 10.0**digits, digits)


WIDTH = 34  # where the reasons begin
PLANNED = 12


@dataclass(frozen=True, slots=True)
class Found:
    """What settings are chosen by. All of it is public but the class names and `norm`.

    `group_sizes` are the labelled tasks of each group that has any; `n_gold` and `norm` are None
    where there is no gold and no feature to measure.
    """

    n_labels: int
    n_workers: int
    n_labelled: int
    classes: tuple[str, ...]
    other_columns: tuple[str, ...]
    seconds: str | None
    n_gold: int | None
    group_sizes: tuple[int, ...]
    n_groups: int
    column: str
    grouped: bool
    n_tasks: int
    n_features: int
    norm: float | None
    url_env: str | None = None


def settings_text(
    found: Found, name: str, paths: Mapping[str, Sequence[str]], duplicates: str
) -> str:
    """The whole file; `paths` are the tables' as seen from it."""
    sections = (
        _head(found, name),
        _input(found, paths, duplicates),
        _groups(found),
        _filter(found),
        _consensus(found),
        _privacy(found),
        _model(found),
        _gate(found),
        _report(),
        _engine(),
    )
    return "\n\n".join("\n".join(lines) for lines in sections) + "\n"


def why_no_model(found: Found) -> str | None:
    """Why [model] is left out, in public facts; or None."""
    if found.n_features == 0:
        return "there are no task features"
    if found.norm is None:
        return "every feature of every task is 0, or too large to measure"
    if gate_for(found.n_labelled) is None:
        return f"{found.n_labelled:,} labelled tasks are too few for a holdout that could judge it"
    rows, noise = _training(found)
    if noise > rows:
        return (
            f"its noise would have a length of {noise:,.0f}, more than its {rows:,} training tasks can "
            f"add up to: {found.n_features:,} features and {len(found.classes)} classes are too many"
        )
    return None


def _training(found: Found) -> tuple[int, float]:
    """Tasks that are trained on, and the mean length of the noise on their sums of unit vectors.

    Of objective perturbation where all of epsilon_train went into the noise, which is the best case.
    """
    given = ModelSettings(norm_bound=1.0)
    rows = round(found.n_labelled * (1 - GateSettings().holdout) * (1 - given.validation))
    n_problems = 1 if len(found.classes) == 2 else len(found.classes)
    return rows, 2 * (found.n_features + 1) * n_problems / given.epsilon_train


def _head(found: Found, name: str) -> list[str]:
    return [
        f"# Proposed by `crowdassay init` for {found.n_labels:,} labels of {found.n_labelled:,} tasks by "
        f"{found.n_workers:,} workers.",
        "# Read and edit every line; what is commented out is off, or shows what else there is.",
        "# Paths count from this file.",
        _said(Settings, "name", name),
        "# The class names become public with every release. These stand in the data, and a name that",
        "# only private labels hold would leak: list what the workers could choose, chosen or not.",
        f"classes = {spelled(found.classes)}",
        _said(Settings, "seed", 0),
        _said(Settings, "runs", "runs"),
        _said(Settings, "state", "state"),
    ]


def _input(found: Found, paths: Mapping[str, Sequence[str]], duplicates: str) -> list[str]:
    gold, tasks = paths["gold"], paths["tasks"]
    others = ", ".join(map(spelled, found.other_columns)) or "none"
    return [
        "[input]",
        "# Each a file, a folder or pattern of files that arrive day by day, or a query in a file *.sql.",
        _line("labels", paths["labels"][0], f"{found.n_labels:,} rows: worker, task, label"),
        _line("tasks", list(tasks), f"{found.n_tasks:,} tasks, {found.n_features:,} features")
        if tasks
        else _off("tasks", ["tasks.csv"], "none was given: neither groups nor features"),
        _line("gold", gold[0], f"{found.n_gold:,} tasks whose truth is known")
        if gold
        else _off("gold", "gold.csv", "none was given: nothing checks the consensus"),
        _said(InputSettings, "url_env", found.url_env)
        if found.url_env
        else _said(InputSettings, "url_env", "CROWD_DATABASE", off=True),
        _said(InputSettings, "seconds", found.seconds)
        if found.seconds
        else _off("seconds", "seconds", f"no column of that name; besides what is read: {others}"),
        _said(InputSettings, "duplicates", duplicates),
        _said(InputSettings, "features_private", False),
        _said(InputSettings, "standardize", False),
    ]


def _groups(found: Found) -> list[str]:
    pattern = _said(GroupSettings, "pattern", "^([a-z]+)", off=True)
    if not found.grouped:
        why = "the task tables have no such column: all tasks are one group"
        return ["[groups]", _off("column", found.column, why), pattern]
    why = f"{found.n_groups:,} groups, public with their sizes; {len(found.group_sizes):,} have labels"
    return ["[groups]", _line("column", found.column, why), pattern]


def _filter(found: Found) -> list[str]:
    rate = 0.1
    return [
        "[filter]",
        _said(FilterSettings, "penalty", "soft"),
        _said(FilterSettings, "false_removal_rate", rate),
        _off("fraction", 0.15, f"instead of a rate: a share of the {found.n_workers:,} workers"),
        _said(FilterSettings, "n_workers", math.ceil(0.15 * found.n_workers), off=True),
        _said(FilterSettings, "min_labels_per_task", 1),
    ]


def _consensus(found: Found) -> list[str]:
    return [
        "[consensus]",
        _said(ConsensusSettings, "aggregator", "dawid_skene"),
        _said(ConsensusSettings, "max_iter", 100, off=True),
        _said(ConsensusSettings, "tol", 1e-5, off=True),
        _said(ConsensusSettings, "smoothing", 0.01, off=True),
        _said(ConsensusSettings, "use_gold", False)
        if found.n_gold
        else _line("use_gold", False, "there is no gold"),
        _said(ConsensusSettings, "go_on", False),
    ]


def _privacy(found: Found) -> list[str]:
    counts, training = PrivacySettings(epsilon=1.0).proportions_epsilon, training_price()
    total = counts if why_no_model(found) else round(counts + training, 9)
    parts = (
        "class counts alone"
        if why_no_model(found)
        else f"class counts and the model's {training:g}"
    )
    error = {eps: _expected_error(found, eps) for eps in (counts / 2, counts, counts * 2)}
    errors = ", ".join(f"{e:.3g} at {eps:g}" for eps, e in error.items())
    sizes = found.group_sizes
    planned = f"{PLANNED} would err by {_expected_error(found, counts, PLANNED):.3g} each"
    return [
        "[privacy]",
        f"# By proportions_epsilon, the {len(found.classes)} published counts of a group err, in labels and",
        f"# together, by {errors}. Labelled groups have {min(sizes):,} to {max(sizes):,}",
        f"# tasks, the median {statistics.median(sizes):,.0f}.",
        _said(PrivacySettings, "unit", "consensus label"),
        _line("epsilon", total, f"the whole budget, for ever: {parts}, once"),
        _line("delta", 0.0, f"pure; if more, then below 1/{found.n_labelled}"),
        _said(PrivacySettings, "proportions_epsilon", counts),
        _said(PrivacySettings, "proportions_delta", 0.0),
        _line("planned_releases", 1, f"counts of changed data this price pays for; {planned}"),
        _said(PrivacySettings, "level", 0.9),
    ]


def _model(found: Found) -> list[str]:
    why, given = why_no_model(found), ModelSettings(norm_bound=found.norm or 1.0)
    keys = (
        "norm_bound", "epsilon_train", "epsilon_select", "epsilon_score", "regularization",
        "validation",
    )  # fmt: skip
    looked = [
        "# norm_bound is the median length of the feature vectors; longer ones are shortened to it.",
        "# That looked at the features in the clear: if they are private, set one known without.",
    ]
    return [
        "[model]" if why is None else f"# [model]  is left out: {why}",
        *(looked if found.norm else []),
        *(_said(ModelSettings, key, getattr(given, key), off=why is not None) for key in keys),
    ]


def _gate(found: Found) -> list[str]:
    why, gate, given = why_no_model(found), gate_for(found.n_labelled), GateSettings()
    off = why is not None
    line = _off if off else _line
    head = "[gate]" if why is None else "# [gate]  is left out: it judges the model"
    if gate is None:
        gate = GateNumbers(0, given.threshold, given.sigma, given.budget)
    price = f"least with which {gate.holdout:,} tasks cost no more than the model does"
    return [
        head,
        line(
            "holdout",
            given.holdout,
            f"share of {found.n_labelled:,} labelled tasks, never trained on",
        ),
        _said(GateSettings, "threshold", gate.threshold, off=off),
        _line("sigma", gate.sigma, price)
        if why is None
        else _said(GateSettings, "sigma", gate.sigma, off=True),
        _said(GateSettings, "budget", gate.budget, off=off),
        _said(GateSettings, "confidence", given.confidence, off=off),
    ]


def _report() -> list[str]:
    given = ReportSettings()
    keys = ("worker_names", "plan_labels", "plan_per_worker")
    return ["[report]", *(_said(ReportSettings, key, getattr(given, key)) for key in keys)]


def _engine() -> list[str]:
    """What is off unless asked for; keys without a default have an example."""
    examples = {"scheduler": "tcp://host:8786", "workers": 4}
    shown = {**EngineSettings().model_dump(), **examples}
    return [
        "# [engine]  is off: for labels that do not fit into memory, worked on in shards",
        *(_said(EngineSettings, key, value, off=True) for key, value in shown.items()),
    ]


def _expected_error(found: Found, epsilon: float, n_releases: int = 1) -> float:
    chosen = choose_mechanism(len(found.classes), epsilon, 0.0, n_releases=n_releases)
    return float(chosen.expected_l1)


def _line(key: str, value: Any, why: str) -> str:
    return f"{key} = {spelled(value)}".ljust(WIDTH) + f"  # {why}"


def _off(key: str, value: Any, why: str) -> str:
    """The same as a comment; without its first two characters it is a line."""
    return _line(f"# {key}", value, why)


def _said(section: type[Section], key: str, value: Any, *, off: bool = False) -> str:
    """A line that says what the section says of its key."""
    said = (section.model_fields[key].description or "").removesuffix(".")
    return (_off if off else _line)(key, value, said[:1].lower() + said[1:])


def spelled(value: Any) -> str:
    """A value as TOML spells it, on one line whatever is in it."""
    if isinstance(value, tuple):
        value = list(value)
    return json.dumps(value, ensure_ascii=False).replace("\x7f", r"\u007f")


SECONDS = "seconds"  # the column of response times that is taken up without asking


@dataclass(frozen=True, slots=True)
class Shown:
    """The tables of a campaign, each as `input` takes it, and what is told about them beside."""

    labels: Path
    tasks: tuple[Path, ...] = ()
    gold: Path | None = None
    url_env: str | None = None
    column: str | None = None
    duplicates: Duplicates = "error"


def write_settings(output: Path, shown: Shown, *, name: str | None = None) -> Found:
    """Write settings for the tables shown to a new file, and tell what was found in them.

    Without a name, the campaign takes that of the folder of its labels.

    Raises
    ------
    SettingsError
        If the file exists, or the name cannot be one.
    TableError
        If a run would refuse the tables.
    """
    if output.exists():
        raise _taken(output)
    if not output.parent.is_dir():
        raise SettingsError(f"the folder of --output must exist, got {output}")
    name = _name_of(shown.labels) if name is None else name
    if not re.match(NAME, name):
        raise SettingsError(
            f"--name must be letters, digits, dots, dashes and underscores, got {name!r}"
        )
    found = look_at(shown)
    text = settings_text(found, name, _paths(shown, output.parent.resolve()), shown.duplicates)
    try:
        with output.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise _taken(output) from None
    return found


def look_at(shown: Shown) -> Found:
    """Read and check the tables as a run would, and keep what settings are chosen by."""
    try:
        inputs = InputSettings.model_validate(
            {
                "labels": shown.labels,
                "tasks": shown.tasks,
                "gold": shown.gold,
                "url_env": shown.url_env,
                "duplicates": shown.duplicates,
            }
        )
    except ValidationError as error:
        raise SettingsError(fault_sentence(error, InputSettings)) from None
    first = None if is_query(shown.labels) else find_files(shown.labels)[0]
    if first is not None and SECONDS in _other_columns(first):
        inputs = inputs.model_copy(update={"seconds": SECONDS})
    with tempfile.TemporaryDirectory() as folder:
        sources = open_sources(inputs, Path(folder))
        with sources.telling():
            return _look_at(shown, sources, first or sources.labels.table)


def _look_at(shown: Shown, sources: Sources, first: Path) -> Found:
    """What is found in tables that are there; `first` has the columns of the labels."""
    grouped = _has_column(shown, sources)
    tasks = _tasks(shown, sources, grouped=grouped)
    known = None if tasks is None else tasks.names
    table = sources.labels.table
    labels = read_labels(table, classes=None, duplicates=shown.duplicates, known_tasks=known)
    refuse_hollow(labels, sources.labels.name)
    gold = None if sources.gold is None else read_gold(sources.gold.table, classes=None)
    named = set(labels.classes.tolist()) | set([] if gold is None else gold.label.tolist())
    others = _other_columns(first)
    if SECONDS in others:
        read_seconds(table, SECONDS, labels, duplicates=shown.duplicates)
    return Found(
        n_labels=labels.n_labels,
        n_workers=labels.n_workers,
        n_labelled=labels.n_tasks,
        classes=tuple(sorted(map(str, named))),
        other_columns=others,
        seconds=SECONDS if SECONDS in others else None,
        n_gold=None if gold is None else len(gold.task),
        group_sizes=_group_sizes(labels, tasks),
        n_groups=1 if tasks is None else len(tasks.group_names),
        column=shown.column or GroupSettings().column,
        grouped=grouped,
        n_tasks=labels.n_tasks if tasks is None else len(tasks.names),
        n_features=0 if tasks is None else len(tasks.feature_names),
        norm=None if tasks is None else _middle_norm(tasks),
        url_env=shown.url_env,
    )


def _taken(output: Path) -> SettingsError:
    return SettingsError(f"{output} exists and is never overwritten; name another with --output")


def _tasks(shown: Shown, sources: Sources, *, grouped: bool) -> TaskTable | None:
    """The task tables, if there are any; a column of groups that is asked for must be there."""
    if shown.column is not None and not grouped:
        none = not shown.tasks
        where = "no task tables" if none else f"{sources.tasks[0].name} has no such column"
        raise TableError(
            f"--groups must name a column of the task tables, got {shown.column!r}: {where}"
        )
    if not sources.tasks:
        return None
    column = shown.column or GroupSettings().column
    return read_tasks([source.table for source in sources.tasks], GroupSettings(column=column))


def _has_column(shown: Shown, sources: Sources) -> bool:
    column = shown.column or GroupSettings().column
    first = next(iter(sources.tasks), None)
    return first is not None and column in open_table(first.table, ("task",)).names


def _other_columns(path: Path) -> tuple[str, ...]:
    needed = ("worker", "task", "label")
    return tuple(name for name in open_table(path, needed).names if name not in needed)


def _group_sizes(labels: CrowdLabels, tasks: TaskTable | None) -> tuple[int, ...]:
    """Labelled tasks of every group that has any."""
    if tasks is None:
        return (labels.n_tasks,)
    sizes = np.bincount(tasks.group[tasks.rows(labels.tasks)])
    return tuple(sizes[sizes > 0].tolist())


def _middle_norm(tasks: TaskTable) -> float | None:
    """The median length of the feature vectors that are not 0, to two digits."""
    norms = np.linalg.norm(tasks.features, axis=1)
    middle = float(np.median(norms[norms > 0])) if (norms > 0).any() else math.inf
    return float(f"{middle:.2g}") if math.isfinite(middle) else None


def _name_of(labels: Path) -> str:
    """A name for the campaign: that of its labels' folder, in letters that a name may have."""
    folder = labels if labels.is_dir() else labels.parent
    plain = re.sub(r"[^A-Za-z0-9._-]+", "-", folder.resolve().name).strip("-._")
    return plain or "campaign"


def _paths(shown: Shown, folder: Path) -> dict[str, Sequence[str]]:
    """The tables' paths as seen from the settings file's folder."""
    given = {"labels": [shown.labels], "tasks": shown.tasks, "gold": [shown.gold]}
    return {
        role: [Path(os.path.relpath(path.resolve(), folder)).as_posix() for path in paths if path]
        for role, paths in given.items()
    }
