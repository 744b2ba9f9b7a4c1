"""The text of proposed settings, section by section: every key, and half a line why.

Numbers come from public facts alone: rows, tasks, groups and their sizes, features, classes. Two
things do not, and the text says so: the class names, and the bound on the features' norms.
"""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from flows.init_gate import GateNumbers, gate_for, training_price
from flows.settings.section import Section
from flows.settings.sections import (
    ConsensusSettings,
    EngineSettings,
    FilterSettings,
    GateSettings,
    GroupSettings,
    InputSettings,
    ModelSettings,
    PrivacySettings,
    ReportSettings,
)
from flows.settings.settings import Settings
from privacy import choose_mechanism

__all__ = ["Found", "settings_text", "spelled", "why_no_model"]

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
