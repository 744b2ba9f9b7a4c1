"""The settings file that `crowdassay init` writes.

It has every key of every section, with half a line why. A key that the proposal says nothing about has its
default and the sentence of its section.
"""

from __future__ import annotations

import json
import math
import os
import re
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from flows.aggregators import default_aggregator
from flows.files import OutputFile
from flows.proposal.facts import CampaignFacts, CampaignTables, facts_of
from flows.proposal.gate import GateNumbers, gate_for, training_price, why_no_model
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
    TopicsSettings,
    address_of,
    is_remote,
    key_sentences,
)
from flows.tables import inputs_of
from privacy import choose_mechanism
from privacy.query import ONE_TASK

__all__ = ["settings_text", "toml_value", "write_settings"]

WIDTH = 34  # where the reasons begin
RUNS = 2  # on changed data that the proposed budget pays for
PLANNED = 12
MAX_LABELS = 3
YEAR = 8.0  # epsilon of a year that is shown; counts take half beside a model


def write_settings(
    output: Path, given: CampaignTables, *, name: str | None = None, force: bool = False
) -> CampaignFacts:
    """Write settings for the given tables, and return the facts that they were chosen by.

    Without `name` the campaign is named after the folder of its labels. Another file is overwritten
    with `force`, a table never.

    Raises
    ------
    OutputError
        If the file exists, or is one of the tables.
    SettingsError
        If the name cannot be one.
    TableError
        If a run would refuse the tables.
    """
    inputs = inputs_of(given.labels, *given.tasks, given.gold)
    written = OutputFile(output, inputs=inputs, force=force)
    name = _name_of(given.labels) if name is None else name
    if not re.match(NAME, name):
        raise SettingsError(
            "--name must be letters, digits, dots, dashes and underscores, at most 200, got "
            f"{name!r}"
        )
    found = facts_of(given)
    text = settings_text(found, name, _paths(given, output.parent.resolve()), given.duplicates)
    written.write(lambda aside: aside.write_text(text, encoding="utf-8"))
    return found


def _name_of(labels: Path) -> str:
    """Return the name of the labels' folder, in letters that a campaign's name may have."""
    folder = labels if labels.is_dir() else labels.parent
    plain = re.sub(r"[^A-Za-z0-9._-]+", "-", folder.resolve().name).strip("-._")
    return plain or "campaign"


def _paths(given: CampaignTables, folder: Path) -> dict[str, Sequence[str]]:
    """Return the tables' paths relative to the settings file's folder."""
    by_role = {"labels": [given.labels], "tasks": given.tasks, "gold": [given.gold]}
    return {
        role: [_relative(path, folder) for path in paths if path] for role, paths in by_role.items()
    }


def _relative(path: Path, folder: Path) -> str:
    """Return a path relative to the folder; an address as it is."""
    if is_remote(path):
        return address_of(path)
    return Path(os.path.relpath(path.resolve(), folder)).as_posix()


class Line(NamedTuple):
    """The proposal's line for a key; without `why` it has the section's own sentence on the key.

    A line that is `off` is a comment: without its first two characters it is a line.
    """

    value: Any
    why: str | None = None
    off: bool = False


def settings_text(
    facts: CampaignFacts, name: str, paths: Mapping[str, Sequence[str]], duplicates: str
) -> str:
    """Return the whole file; `paths` are those of the tables, relative to it."""
    sections = (
        _head(facts, name),
        _input(facts, paths, duplicates),
        _groups(facts),
        _filter(facts),
        _consensus(facts),
        _privacy(facts),
        _model(facts),
        _gate(facts),
        _report(),
        _topics(),
        _engine(),
    )
    return "\n\n".join("\n".join(lines) for lines in sections) + "\n"


def toml_value(value: Any) -> str:
    """Return a value as TOML writes it, always on one line.

    Examples
    --------
    >>> toml_value(("a", "b"))
    '["a", "b"]'
    """
    if isinstance(value, tuple):
        value = list(value)
    return json.dumps(value, ensure_ascii=False).replace("\x7f", r"\u007f")


def _lines(
    section: type[Section],
    given: Mapping[str, Line] | None = None,
    *,
    keys: Sequence[str] | None = None,
    off: bool = False,
) -> list[str]:
    """Return a line for each of the keys, by default all of the section; `off` makes all of them comments."""
    given, lines, sentences = given or {}, [], key_sentences(section)
    for key in keys or section.model_fields:
        field = section.model_fields[key]
        line = given.get(key) or Line(field.default)
        if line.value is None:  # TOML has no null
            raise TypeError(f"{section.__name__}.{key} must have an example, as it has no default")
        sentence = sentences[key].removesuffix(".")
        why = line.why or sentence[:1].lower() + sentence[1:]
        name = f"# {key}" if off or line.off else key
        lines.append(f"{name} = {toml_value(line.value)}".ljust(WIDTH) + f"  # {why}")
    return lines


def _head(facts: CampaignFacts, name: str) -> list[str]:
    given = {
        "name": Line(name),
        "runs": Line("runs"),
        "keep_runs": Line(20, off=True),
        "state": Line("state"),
    }
    return [
        f"# Proposed by `crowdassay init` for {facts.n_labels:,} labels of {facts.n_labelled:,} tasks by "
        f"{facts.n_workers:,} workers.",
        "# Read and edit every line; what is commented out is off, or shows what else there is.",
        "# Paths count from this file.",
        *_lines(Settings, given, keys=["name"]),
        "# The class names become public with every release. These stand in the data, and a name that",
        "# only private labels hold would leak: list what the workers could choose, chosen or not.",
        f"classes = {toml_value(facts.grades or facts.classes)}",
        *_lines(Settings, given, keys=["seed", "runs", "keep_runs", "state"]),
    ]


def _input(facts: CampaignFacts, paths: Mapping[str, Sequence[str]], duplicates: str) -> list[str]:
    gold, tasks = paths["gold"], paths["tasks"]
    others = ", ".join(map(toml_value, facts.other_columns)) or "none"
    given = {
        "labels": Line(paths["labels"][0], f"{facts.n_labels:,} rows: worker, task, label"),
        "tasks": Line(list(tasks), f"{facts.n_tasks:,} tasks, {facts.n_features:,} features")
        if tasks
        else Line(["tasks.csv"], "none was given: neither groups nor features", off=True),
        "gold": Line(gold[0], f"{facts.n_gold:,} tasks whose truth is known")
        if gold
        else Line("gold.csv", "none was given: nothing checks the consensus", off=True),
        "gold_column": Line(facts.gold_column or "truth", off=facts.gold_column is None),
        "reference": Line("reference.csv", off=True),
        "url_env": Line(facts.url_env or "CROWD_DATABASE", off=not facts.url_env),
        "seconds": Line(facts.seconds)
        if facts.seconds
        else Line("seconds", f"no column of that name; besides what is read: {others}", off=True),
        "sep": Line(facts.reading.sep or ",", off=facts.reading.sep is None),
        "encoding": Line(facts.reading.encoding or "utf-8", off=facts.reading.encoding is None),
        "sheet": Line(facts.reading.sheet or "Sheet1", off=facts.reading.sheet is None),
        "wide": Line(facts.reading.wide),
        "columns": Line(
            facts.reading.keys()["columns"] or ["worker=annotator"], off=not facts.reading.columns
        ),
        "subject": Line("subject", off=True),
        "models": Line(
            list(facts.like_models),
            "workers who look like language models by name: keep those who are, or write [] for none",
            off=True,
        )
        if facts.like_models
        else Line(list(facts.models)),
        "features": Line(["x*"], off=True),
        "ignore": Line(["note*"], off=True),
        "shown": Line(list(facts.texts or InputSettings.model_fields["shown"].default)),
        "embeddings": Line("embeddings.npy", off=True),
        "order": Line(
            True,
            "the classes look like grades; a run tests the order"
            if facts.plainly_graded
            else "the classes may be grades; a run tests the order",
            off=not facts.plainly_graded,
        )
        if facts.grades
        else Line(False),
        "several": Line(
            facts.several or "|",
            "cells hold several classes at once, with this between them" if facts.several else None,
            off=facts.several is None,
        ),
        "nothing": Line(facts.nothing or "none", off=facts.nothing is None),
        "duplicates": Line(duplicates),
    }
    return [
        "[input]",
        "# Each a file, a folder or pattern of files that arrive day by day, or a query in a file *.sql.",
        *_lines(InputSettings, given),
    ]


def _groups(facts: CampaignFacts) -> list[str]:
    n_labelled = len(facts.group_sizes)
    column = (
        f"{facts.n_groups:,} groups, public with their sizes; {n_labelled:,} have labels"
        if facts.grouped
        else "the task tables have no such column: all tasks are one group"
    )
    given = {
        "column": Line(facts.column, column, off=not facts.grouped),
        "pattern": Line("^([a-z]+)", off=True),
    }
    return ["[groups]", *_lines(GroupSettings, given)]


def _filter(facts: CampaignFacts) -> list[str]:
    share = f"instead of a rate: a share of the {facts.n_workers:,} workers"
    given = {
        "false_removal_rate": Line(0.1),
        "fraction": Line(0.15, share, off=True),
        "n_workers": Line(math.ceil(0.15 * facts.n_workers), off=True),
        "potentials": Line(5, off=True),
    }
    keys = (
        "penalty", "false_removal_rate", "fraction", "n_workers", "min_labels_per_task", "potentials",
    )  # fmt: skip
    return ["[filter]", *_lines(FilterSettings, given, keys=keys)]


def _consensus(facts: CampaignFacts) -> list[str]:
    given = {
        "aggregator": Line(default_aggregator(), off=True),
        "max_iter": Line(100, off=True),
        "tol": Line(1e-5, off=True),
        "smoothing": Line(0.01, off=True),
        "removed": Line("drop", off=True),
        "use_gold": Line(False, None if facts.n_gold else "there is no gold"),
    }
    return ["[consensus]", *_lines(ConsensusSettings, given)]


def _privacy(facts: CampaignFacts) -> list[str]:
    counts, training = PrivacySettings(epsilon=1.0).proportions_epsilon, training_price()
    trained = why_no_model(facts) is None
    once = round(counts + training, 9) if trained else counts
    parts = f"class counts and the model's {training:g}" if trained else "class counts alone"
    error = {eps: _expected_error(facts, eps) for eps in (counts / 2, counts, counts * 2)}
    errors = ", ".join(f"{e:.3g} at {eps:g}" for eps, e in error.items())
    sizes = facts.group_sizes
    planned = f"{PLANNED} would err by {_expected_error(facts, counts, PLANNED):.3g} each"
    given = {
        "unit": Line("consensus label"),
        "epsilon": Line(
            round(RUNS * once, 9),
            f"the whole budget, for ever: {RUNS} runs at {once:g} each, {parts}",
        ),
        "delta": Line(0.0, f"pure; if more, then below 1/{facts.n_labelled}"),
        "max_tasks_per_subject": Line(3, off=True),
        "max_labels": Line(_max_labels(facts), off=facts.several is None),
        "planned_releases": Line(1, f"releases of changed counts this price pays for; {planned}"),
        "correction_epsilon": Line(1.0, off=True),
        "planned_runs": Line(PLANNED, _year(facts), off=True),
        "planned_tasks": Line(PLANNED * facts.n_labelled, off=True),
        "unpaid": Line("refuse", off=True),
        "publication": Line("%Y-%m", off=True),
    }
    return [
        "[privacy]",
        f"# Expected error of a group's {len(facts.classes)} published counts together, in labels, by",
        f"# proportions_epsilon: {errors}. Labelled groups have {min(sizes):,} to {max(sizes):,}",
        f"# tasks, the median {statistics.median(sizes):,.0f}.",
        *_lines(PrivacySettings, given),
    ]


def _year(facts: CampaignFacts) -> str:
    """Return what a year of monthly runs buys, with a budget that lasts for one."""
    error = _expected_error(facts, YEAR / 2 if why_no_model(facts) is None else YEAR)
    return (
        f"for a campaign that grows: with epsilon {YEAR:g} for all runs together the first run's counts err "
        f"by {error:.2g} labels a group; crowdassay budget STATE --preview SETTINGS shows the others"
    )


def _expected_error(facts: CampaignFacts, epsilon: float, n_releases: int = 1) -> float:
    several = facts.several is not None
    moved = ONE_TASK * (_max_labels(facts) if several else 1)
    chosen = choose_mechanism(
        len(facts.classes) + several, epsilon, 0.0, n_releases=n_releases, l1=moved
    )
    return float(chosen.expected_l1)


def _max_labels(facts: CampaignFacts) -> int:
    """Return how many classes of a task to count, where several hold; the number depends on no answer."""
    return min(MAX_LABELS, len(facts.classes))


def _model(facts: CampaignFacts) -> list[str]:
    why = why_no_model(facts)
    measured = [
        "# norm_bound is the median length of the feature vectors; longer ones are shortened to it.",
        "# That looked at the features in the clear: if they are private, or the unit protects them, set",
        "# one known without.",
    ]
    keys = sorted(ModelSettings.model_fields, key=lambda key: key != "norm_bound")
    given = {
        "norm_bound": Line(facts.norm or 1.0),
        "components": Line(10, off=True),
        "epsilon_components": Line(0.5, off=True),
        "delta_components": Line(0.0, off=True),
    }
    return [
        "[model]" if why is None else f"# [model]  is left out: {why}",
        *(measured if facts.norm else []),
        *_lines(ModelSettings, given, keys=keys, off=why is not None),
    ]


def _gate(facts: CampaignFacts) -> list[str]:
    default, off = GateSettings(), why_no_model(facts) is not None
    passes = GateSettings.model_fields["threshold"].default
    gate = gate_for(facts.n_labelled) or GateNumbers(0, passes, default.sigma, default.budget)
    price = f"least with which {gate.holdout:,} tasks cost no more than the model does"
    share = f"share of {facts.n_labelled:,} labelled tasks, never trained on"
    given = {
        "holdout": Line(default.holdout, share),
        "threshold": Line(gate.threshold),
        "sigma": Line(gate.sigma, None if off else price),
        "budget": Line(gate.budget),
    }
    head = "# [gate]  is left out: it judges the model" if off else "[gate]"
    return [head, *_lines(GateSettings, given, off=off)]


def _report() -> list[str]:
    examples = {
        "image_shape": Line([28, 28], off=True),
        "psychometric": Line("boundary", off=True),
    }
    return ["[report]", *_lines(ReportSettings, examples)]


def _topics() -> list[str]:
    """Return a section of comments; the key without a default has an example."""
    return [
        "# [topics]  is off: for tasks with texts, whose concepts the report then draws",
        *_lines(TopicsSettings, {"text": Line("text")}, off=True),
    ]


def _engine() -> list[str]:
    """Return a section of comments; keys without a default have an example."""
    examples = {
        "scheduler": Line("tcp://host:8786"),
        "workers": Line(4),
        "store": Line("s3://crowd/work"),
    }
    return [
        "# [engine]  is off: for labels that do not fit into memory, worked on in shards",
        *_lines(EngineSettings, examples, off=True),
    ]
