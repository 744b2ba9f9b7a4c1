"""The sections of the settings file: what each may say, and what in it cannot be together."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, model_validator

from flows.section import Section
from privacy import Unit

__all__ = [
    "KNOBS",
    "Aggregator",
    "ConsensusSettings",
    "EngineSettings",
    "FilterSettings",
    "GateSettings",
    "GroupSettings",
    "InputSettings",
    "ModelSettings",
    "PrivacySettings",
    "ReportSettings",
]

Aggregator = Literal[
    "auto",
    "dawid_skene",
    "glad",
    "hierarchical_dawid_skene",
    "kos",
    "kos_plus",
    "majority_vote",
    "one_coin_dawid_skene",
    "penalty_vote",
    "weighted_majority",
]
KNOBS = {  # what each takes besides the labels
    "dawid_skene": ("max_iter", "tol", "smoothing", "use_gold", "go_on"),
    "glad": ("max_iter", "tol"),
    "hierarchical_dawid_skene": ("max_iter", "tol", "use_gold", "go_on"),
    "kos": ("max_iter", "tol"),
    "kos_plus": ("max_iter", "tol"),
    "one_coin_dawid_skene": ("max_iter", "tol", "smoothing", "use_gold", "go_on"),
}
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Share = Annotated[float, Field(gt=0, lt=1)]


class GroupSettings(Section):
    """Where a task's group comes from: a column of the task table, or what a pattern captures of its name."""

    column: str = "group"
    pattern: str | None = None

    @model_validator(mode="after")
    def _pattern_captures_the_group(self) -> GroupSettings:
        try:
            captures = self.pattern is None or re.compile(self.pattern).groups >= 1
        except re.error as error:
            raise ValueError(f"pattern must be a regular expression: {error}") from None
        if self.column == "task":
            raise ValueError('column must not be "task": every task would be its own group')
        if not captures:
            raise ValueError(f"pattern must have a (capturing group), got {self.pattern!r}")
        return self


class InputSettings(Section):
    """The tables to read, told apart by their names: CSV (plain or gzipped), Parquet, or a query.

    A path is a file, or a folder or pattern of files that arrive day by day. A query is a file `*.sql`,
    and `url_env` names the environment variable that holds its database's address: a secret, which
    never stands in settings. `seconds` names a column of the label table that says how long each
    label took.
    """

    labels: Path
    tasks: tuple[Path, ...] = ()
    gold: Path | None = None
    url_env: str | None = None
    seconds: str | None = None
    duplicates: Literal["error", "first", "last"] = "error"
    features_private: bool = False
    standardize: bool = False

    @model_validator(mode="after")
    def _queries_have_an_address(self) -> InputSettings:
        given = (self.labels, *self.tasks, *([self.gold] if self.gold else []))
        query = next((path.name for path in given if path.suffix == ".sql"), None)
        if self.url_env is not None and not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", self.url_env):
            raise ValueError(
                "url_env must be the name of an environment variable; the address that it holds is "
                "a secret and does not stand in settings"
            )
        if query is not None and self.url_env is None:
            raise ValueError(
                f"{query} is a query, so url_env must name the environment variable that holds the "
                "database's address"
            )
        if query is None and self.url_env is not None:
            raise ValueError("url_env is for queries; name a file *.sql as labels, tasks or gold")
        return self

    @model_validator(mode="after")
    def _what_is_read_fits(self) -> InputSettings:
        if self.seconds in ("worker", "task", "label"):
            raise ValueError(f"seconds must name a column of its own, got {self.seconds!r}")
        if self.standardize and self.features_private:
            raise ValueError(
                "standardize reads all features in the clear; not with features_private"
            )
        return self


class FilterSettings(Section):
    """Which penalty speaks against a worker, and when the filter stops.

    One stop rule is given, or none: then the false removal rate is 0.1, and with the hard penalty,
    which has no such rate, the paper's 15 % of the workers are removed.
    """

    penalty: Literal["soft", "hard"] = "soft"
    false_removal_rate: Annotated[float, Field(ge=0.001, lt=1)] | None = None
    n_workers: Annotated[int, Field(ge=0)] | None = None
    fraction: Annotated[float, Field(ge=0, lt=1)] | None = None
    min_labels_per_task: Annotated[int, Field(ge=1)] = 1

    @model_validator(mode="after")
    def _one_stop_rule(self) -> FilterSettings:
        rules = (self.false_removal_rate, self.n_workers, self.fraction)
        if sum(rule is not None for rule in rules) > 1:
            raise ValueError("give one of false_removal_rate, n_workers and fraction")
        if self.false_removal_rate is not None and self.penalty != "soft":
            raise ValueError('false_removal_rate is for penalty = "soft"')
        return self


class ConsensusSettings(Section):
    """The aggregator that turns kept labels into one label per task.

    With `go_on` it starts from what the campaign's run before believed of the workers, instead of
    anew from the majority vote: where it ends may then depend on that run.
    """

    aggregator: Aggregator = "dawid_skene"
    max_iter: Annotated[int, Field(ge=1)] | None = None
    tol: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None
    smoothing: Positive | None = None
    use_gold: bool = False
    go_on: bool = False

    @model_validator(mode="after")
    def _aggregator_takes_what_is_given(self) -> ConsensusSettings:
        given = [key for key in ("max_iter", "tol", "smoothing") if getattr(self, key) is not None]
        given += [key for key in ("use_gold", "go_on") if getattr(self, key)]
        takes = KNOBS.get(self.aggregator, ())
        for key in given:
            if key not in takes:
                who = ", ".join(name for name, knobs in KNOBS.items() if key in knobs)
                raise ValueError(f"{key} is for {who}, not for {self.aggregator}")
        return self


class PrivacySettings(Section):
    """The data set's whole privacy budget, and what the published proportions take of it.

    With `planned_releases` above 1 the proportions' price pays once for that many releases of class
    counts: those of later runs, on data that have changed, are then drawn from what was paid.
    While no task changes its group, a release counts for the groups that have changed, or that
    tasks have joined; after a task has moved it counts for all groups, and adds to all releases
    before. With a ledger on a server (CROWDASSAY_LEDGER) that is so after tasks have joined, too.
    """

    unit: Unit = Unit.CONSENSUS_LABEL
    epsilon: Positive
    delta: Annotated[float, Field(ge=0, lt=1)] = 0.0
    proportions_epsilon: Positive = 1.0
    proportions_delta: Annotated[float, Field(ge=0, lt=1)] = 0.0
    planned_releases: Annotated[int, Field(ge=1, le=10_000)] = 1
    level: Share = 0.9

    @model_validator(mode="after")
    def _budget_has_the_proportions_delta(self) -> PrivacySettings:
        if self.proportions_delta > self.delta:
            raise ValueError(
                f"proportions_delta must be at most delta, got {self.proportions_delta:g} of "
                f"{self.delta:g}"
            )
        return self


class ModelSettings(Section):
    """Private training: what it may spend, and what is fixed before the data are seen."""

    epsilon_train: Positive = 1.0
    epsilon_select: Positive = 0.5
    epsilon_score: Positive = 0.1
    norm_bound: Positive
    regularization: tuple[Positive, ...] = (0.001, 0.003, 0.01)
    validation: Share = 0.2

    @model_validator(mode="after")
    def _candidates_differ(self) -> ModelSettings:
        if not len(set(self.regularization)) == len(self.regularization) > 0:
            raise ValueError("regularization must list one number or more, each once")
        return self


class GateSettings(Section):
    """The reusable holdout: its share of the tasks, and Thresholdout's three numbers."""

    holdout: Share = 0.2
    threshold: Share = 0.1
    sigma: Positive = 0.004
    budget: Annotated[int, Field(ge=1)] = 3
    confidence: Share = 0.95

    @model_validator(mode="after")
    def _noise_is_below_the_threshold(self) -> GateSettings:
        if not self.sigma < self.threshold:
            raise ValueError(
                f"sigma must be below threshold, or noise alone refutes, got {self.sigma:g} and "
                f"{self.threshold:g}"
            )
        return self


class ReportSettings(Section):
    """The internal report: whether it names workers, and for how many labels more it plans."""

    worker_names: bool = False
    plan_labels: Annotated[int, Field(ge=0, le=10_000)] = 100
    plan_per_worker: Annotated[int, Field(ge=1)] = 10


class EngineSettings(Section):
    """Where a label table larger than memory is worked on, in shards of some millions of labels.

    `memory_gb` is for labels, in 1e9 bytes: of the process that reads them, and of all workers
    together. `workers` are threads of this process, or processes of a Dask cluster that is started
    where no `scheduler` is named. Up to `whole_conflicts` labels on conflict tasks the run works out
    hard and balanced penalties, from a conflict graph that the shards build; up to `whole_labels` what
    needs the whole table: robustness, and whom to ask for more labels.
    """

    kind: Literal["local", "dask"] = "local"
    scheduler: Annotated[str, Field(min_length=1)] | None = None
    workers: Annotated[int, Field(ge=1)] | None = None
    shard_labels: Annotated[int, Field(ge=1)] = 5_000_000
    memory_gb: Annotated[float, Field(ge=0.1, allow_inf_nan=False)] = 2.0
    checkpoint_every: Annotated[int, Field(ge=1)] = 10
    whole_conflicts: Annotated[int, Field(ge=0)] = 100_000_000
    whole_labels: Annotated[int, Field(ge=0)] = 20_000_000

    @model_validator(mode="after")
    def _a_scheduler_is_dasks(self) -> EngineSettings:
        if self.scheduler is not None and self.kind != "dask":
            raise ValueError('scheduler is for kind = "dask"')
        if self.scheduler is not None and self.workers is not None:
            raise ValueError("workers is for a cluster that is started, not for a scheduler's")
        return self
