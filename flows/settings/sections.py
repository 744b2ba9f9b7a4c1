"""All settings of a run, section by section, and which of their values exclude one another.

What is read and what is released have sections in files of their own.

>>> FilterSettings(fraction=0.1).penalty
'soft'
"""

from __future__ import annotations

import math
import os
import re
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, model_validator

from flows.aggregators import (
    AGGREGATORS,
    ORDERED,
    AggregatorName,
    check_keys,
    default_aggregator,
)
from flows.choices import FeatureUse, Grouping, Loss, Penalty, Removal
from flows.settings.addresses import check_folder, is_remote
from flows.settings.feature_use import why_features_stay_out, why_voices_stay_out
from flows.settings.input_sections import GroupSettings, InputSettings
from flows.settings.release_sections import GateSettings, ModelSettings, PrivacySettings
from flows.settings.section import Positive, Section
from flows.settings.several_classes import check_several
from privacy import Unit

__all__ = [
    "NAME", "ConsensusSettings", "EngineSettings", "FilterSettings", "ReportSettings", "Settings",
    "TopicsSettings",
]  # fmt: skip

NAME = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,199}$"  # of a campaign: it names run folders


class FilterSettings(Section):
    """The penalty by which workers are removed, and the rule that stops the removal.

    At most one stop rule is given. Without one, the soft penalty stops at a false removal rate of 0.1;
    the hard penalty, which has no such rate, removes the paper's 15 % of the workers, by the load they
    answer for relative to what an honest worker's tasks would give her.
    """

    penalty: Penalty = "soft"
    """Soft or hard: the penalty by which workers are removed; with input.order soft, by distance."""
    false_removal_rate: Annotated[float, Field(ge=0.001, lt=1)] | None = None
    """Probability of removing anyone from an honest crowd."""
    n_workers: Annotated[int, Field(ge=0)] | None = None
    """Instead of a rate: the number of workers to remove."""
    fraction: Annotated[float, Field(ge=0, lt=1)] | None = None
    """Instead of a rate: the share of the workers to remove."""
    min_labels_per_task: Annotated[int, Field(ge=1)] = 1
    """Removal leaves no task with fewer labels."""
    potentials: Annotated[int, Field(ge=1)] | None = None
    """Number of gold tasks that a worker needs to be an example in potentials.parquet; off by default."""

    @model_validator(mode="after")
    def _one_stop_rule(self) -> FilterSettings:
        rules = (self.false_removal_rate, self.n_workers, self.fraction)
        if sum(rule is not None for rule in rules) > 1:
            raise ValueError("give one of false_removal_rate, n_workers and fraction")
        if self.false_removal_rate is not None and self.penalty != "soft":
            raise ValueError('false_removal_rate is for penalty = "soft"')
        return self


class ConsensusSettings(Section):
    """The aggregator that turns labels into one label per task.

    With `go_on` it starts from the workers' parameters in the campaign's previous run instead of the
    majority vote. Its result may then depend on that run.
    """

    aggregator: AggregatorName | None = None
    """By default auto; ordinal_crowd with input.order; hierarchical_dawid_skene with keys that auto lacks."""
    loss: Loss = "zero_one"
    """What a wrong label costs: zero_one; with input.order absolute, by distance, or squared."""
    max_iter: Annotated[int, Field(ge=1)] | None = None
    """Maximal number of iterations; by default the aggregator's own."""
    tol: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None
    """The change at which iterations end; by default the aggregator's own."""
    smoothing: Positive | None = None
    """Added to each count of a worker's labels; by default the aggregator's own."""
    use_gold: bool = False
    """True: the consensus learns from gold, which can then no longer check it."""
    go_on: bool = False
    """True: start from the workers' parameters in the previous run."""
    groups: Grouping = "weigh"
    """Workers who do not answer on their own: weigh (a group votes once), ignore (not looked for), remove."""
    removed: Removal | None = None
    """Labels of workers whom the filter removes: weigh or drop; by default weigh with auto, else drop."""
    features: FeatureUse = "auto"
    """Features of tasks, and models' answers, as one more voice: auto (where allowed), join, ignore."""

    @model_validator(mode="after")
    def _aggregator_takes_the_keys(self) -> ConsensusSettings:
        if self.smoothing is not None and not 1e-100 <= self.smoothing <= 1e100:
            raise ValueError(
                f"smoothing must be from 1e-100 to 1e+100, got {self.smoothing:g}: beyond that counts "
                "vanish in it, or it in them"
            )
        if self.aggregator is not None:
            check_keys(self.aggregator, self.keys)
        return self

    @property
    def keys(self) -> list[str]:
        """The keys given that some aggregators take."""
        given = [key for key in ("max_iter", "tol", "smoothing") if getattr(self, key) is not None]
        return given + [key for key in ("use_gold", "go_on") if getattr(self, key)]

    def named(self, *, sharded: bool = False) -> str:
        """Return the aggregator's name: the one given, or the default for these keys, and on shards."""
        return self.aggregator or default_aggregator(self.keys, sharded=sharded)


class ReportSettings(Section):
    """The internal report: whether it names workers, and how many further labels it plans."""

    worker_names: bool = False
    """True: the internal report shows the workers' ids."""
    plan_labels: Annotated[int, Field(ge=0, le=10_000)] = 100
    """Maximal number of labels to ask for next."""
    plan_per_worker: Annotated[int, Field(ge=1)] = 10
    """Maximal number of labels to ask of one worker."""
    plan_search: bool = False
    """True: the plan also looks for tasks that some worker knows best, beside the least certain ones."""
    archetypes: bool = False
    """True: kinds of workers, and of tasks by their features, with the evidence that there are any."""
    error_features: bool = False
    """True: which features of tasks go with the consensus's errors on gold, at a level of 5 %."""
    decision_images: bool = False
    """True: which features move with each class in the crowd's labels, beside those in gold, drawn."""
    image_shape: tuple[Annotated[int, Field(ge=2)], Annotated[int, Field(ge=2)]] | None = None
    """Where the features are a picture's pixels, row by row: its rows and columns, as in [28, 28]."""
    psychometric: Annotated[str, Field(min_length=1)] | None = None
    """Each worker's skill and carelessness by the tasks' ease: a feature that says it, or "boundary"."""

    @model_validator(mode="after")
    def _keys_are_read(self) -> ReportSettings:
        if self.image_shape is not None and not self.decision_images:
            raise ValueError("image_shape needs decision_images = true, which it is drawn by")
        if self.plan_search and not self.plan_labels:
            raise ValueError("plan_search needs plan_labels above 0, the labels that it plans")
        return self

    @property
    def most_per_worker(self) -> int:
        """Labels that the plan can ask of one worker: no more than it asks for in all."""
        return min(self.plan_per_worker, max(1, self.plan_labels))


class TopicsSettings(Section):
    """A graph of concepts learned from the tasks' texts, with the labels of confident tasks as its classes.

    The internal report draws it, with difficulty and agreement of each concept and what no class names. It
    changes no label.
    """

    text: str
    """The column of the task tables that holds each task's text; it is no feature."""
    levels: tuple[Annotated[int, Field(ge=1, le=100)], ...] = (10, 10)
    """The most concepts on each level below the root; the first holds the classes."""
    confidence: Annotated[float, Field(ge=0, le=1)] = 0.9
    """A task's consensus label names its concept from this confidence on; the others find theirs."""
    min_tasks: Annotated[int, Field(ge=1)] = 5
    """Tasks that a concept without a class needs to be called one that the classes miss."""

    @model_validator(mode="after")
    def _levels_are_few(self) -> TopicsSettings:
        if not 1 <= len(self.levels) <= 3 or math.prod(self.levels) > 5000:
            raise ValueError(
                f"levels must be one to three numbers of product at most 5,000, got {list(self.levels)}"
            )
        if self.text == "task":
            raise ValueError("text must name a column of its own, got 'task'")
        return self


class EngineSettings(Section):
    """The place where a Parquet label table larger than memory is processed, in shards of millions of labels.

    `memory_gb` limits the memory for labels, in 1e9 bytes: of the process that reads them, and of all
    workers together. `workers` are threads of this process, or processes of the Dask cluster that is
    started if no `scheduler` is named. The run computes hard and balanced penalties, from a conflict
    graph that the shards build, up to `whole_conflicts` labels on conflict tasks. It computes what
    needs the whole table, robustness for one, up to `whole_labels` labels; `filter.penalty = "hard"` needs it
    too, and is refused beyond.

    Features are streamed as well: task tables of Parquet in batches (others are read whole), class
    ratios by kernel mean matching on blocks of rows (`learners.learn_streamed_ratios`). A run without
    this section tries several methods, up to 20,000 labelled tasks. A `[model]` is trained on pages of
    files, not on rows in memory.
    """

    kind: Literal["local", "dask"] = "local"
    """Local: threads of one process; dask: a cluster."""
    scheduler: Annotated[str, Field(min_length=1)] | None = None
    """Address of a running Dask cluster; without one, a cluster is started."""
    workers: Annotated[int, Field(ge=1)] | None = None
    """Threads, or processes of the cluster that is started."""
    store: str | None = None
    """Address of a folder, s3://crowd/work for one, where workers that lack the run folder find its files."""
    shard_labels: Annotated[int, Field(ge=1)] = 5_000_000
    """Labels of a shard."""
    memory_gb: Annotated[float, Field(ge=0.1, le=1e6)] = 2.0
    """Memory for labels, and for reading tasks, in 1e9 bytes."""
    checkpoint_every: Annotated[int, Field(ge=1)] = 10
    """Maximal number of iterations that a killed run loses."""
    whole_conflicts: Annotated[int, Field(ge=0)] = 100_000_000
    """Labels on conflict tasks up to which hard and balanced penalties are computed."""
    whole_labels: Annotated[int, Field(ge=0)] = 20_000_000
    """Labels up to which robustness, voices, pasted answers and the hard filter read the whole table."""

    @model_validator(mode="after")
    def _a_scheduler_is_dasks(self) -> EngineSettings:
        if self.scheduler is not None and self.kind != "dask":
            raise ValueError('scheduler is for kind = "dask"')
        if self.store is not None and self.kind != "dask":
            raise ValueError('store is for kind = "dask"')
        if self.store is not None and not re.fullmatch(r"[a-z0-9]+://[^@?#]+", self.store):
            raise ValueError(
                "store must be an address without a user, a password or a key, such as s3://crowd/work: "
                "keys stay in the environment of the run and of the workers"
            )
        if self.scheduler is not None and self.workers is not None:
            raise ValueError("workers is for a cluster that is started, not for a scheduler's")
        return self


class Settings(Section):
    """The settings of one run. A section without a default, left out, switches its stages off."""

    name: Annotated[str, Field(pattern=NAME)]
    """The data set's name, under which the ledger keeps its budget for ever."""
    classes: tuple[str, ...] | None = None
    """The classes that workers could choose, chosen or not; public with every release."""
    seed: Annotated[int, Field(ge=0)] = 0
    """Seed of every draw but privacy noise: the filter, the deal to training, validation and holdout."""
    runs: Path = Path("runs")
    """Holds one folder per run; internal, for the data's owner alone."""
    keep_runs: (
        Annotated[int, Field(ge=1)] | Annotated[str, Field(pattern=r"^[1-9]\d{0,4} days$")] | None
    ) = None
    """Older runs go when one has ended: a number to keep, or an age, "90 days"; by default all stay."""
    state: Path = Path("state")
    """The ledger and its key: never delete it, never keep two."""
    input: InputSettings
    groups: GroupSettings = GroupSettings()
    filter: FilterSettings = FilterSettings()
    consensus: ConsensusSettings = ConsensusSettings()
    privacy: PrivacySettings | None = None
    model: ModelSettings | None = None
    gate: GateSettings = GateSettings()
    report: ReportSettings = ReportSettings()
    topics: TopicsSettings | None = None
    engine: EngineSettings | None = None

    @model_validator(mode="after")
    def _parts_fit(self) -> Settings:
        if self.classes is not None and len(set(self.classes)) != len(self.classes):
            raise ValueError("classes must differ from one another")
        if self.classes is not None and len(self.classes) < 2:
            raise ValueError(f"classes must name two or more, got {len(self.classes)}")
        if any(name != name.strip() or not name for name in self.classes or ()):
            raise ValueError("classes must have no blanks around them: tables are read without")
        if any("\0" in name for name in self.classes or ()):
            raise ValueError("classes must hold no NUL, where a name would end: tables have none")
        check_folder(self.runs, "runs")
        check_folder(self.state, "state")
        self._check_order()
        check_several(self)
        if self.model is not None and self.privacy is None:
            raise ValueError("[model] needs a [privacy] section with the data set's budget")
        if self.model is not None and not self.input.tasks:
            raise ValueError("[model] needs input.tasks, the tables that hold the features")
        if self.topics is not None and not self.input.tasks:
            raise ValueError("[topics] needs input.tasks, the tables that hold the texts")
        if self.groups.pattern is not None and not self.input.tasks:
            raise ValueError("groups.pattern needs input.tasks, the tables whose names it reads")
        if "column" in self.groups.model_fields_set and not self.input.tasks:
            raise ValueError("groups.column needs input.tasks, the tables that hold the column")
        if self.consensus.use_gold and self.input.gold is None:
            raise ValueError("consensus.use_gold needs input.gold")
        if self.consensus.features == "join" and (why := why_features_stay_out(self)) is not None:
            raise ValueError(f'consensus.features = "join" cannot be: {why}')
        if self.protects_gold and (self.input.gold is None or self.consensus.use_gold):
            raise ValueError(
                "privacy.correction_epsilon needs input.gold, and consensus.use_gold = false: gold that "
                "made the consensus cannot say how often it errs"
            )
        self._check_unit(None if self.privacy is None else self.privacy.unit)
        in_year = self.privacy is not None and self.privacy.planned_runs > 1
        if in_year:
            self._check_year()
        if self.model is not None and self.model.method == "noisy_descent":
            delta = self.privacy.delta if in_year and self.privacy else self.model.delta_train
            if not delta:
                what = "privacy.delta" if in_year else "delta_train"
                raise ValueError(f'model.method = "noisy_descent" needs {what} > 0')
        if self.engine is not None:
            self._check_can_be_sharded()
        self._check_unread()
        return self

    def _check_unread(self) -> None:
        """Raise ValueError for keys that nothing would read, as what they are about is not there."""
        inputs, report = self.input, self.report
        if self.model is None and "gate" in self.model_fields_set:
            raise ValueError("[gate] needs a [model] section: it judges the model; leave it out")
        model = self.model
        if model is not None and model.method == "objective_perturbation" and model.delta_train:
            raise ValueError(
                'model.delta_train must be 0 with model.method = "objective_perturbation", which takes none'
            )
        if not inputs.tasks:
            for key in ("features", "ignore", "shown", "standardize"):
                if getattr(inputs, key) != InputSettings.model_fields[key].default:
                    raise ValueError(f"input.{key} needs input.tasks, the tables it is about")
            for key in ("error_features", "decision_images", "psychometric"):
                if getattr(report, key):
                    raise ValueError(
                        f"report.{key} needs input.tasks, the tables that hold features"
                    )
        if inputs.gold is None and inputs.gold_sampling != "chosen":
            raise ValueError(
                f'input.gold_sampling = "{inputs.gold_sampling}" needs input.gold, the tasks it is about'
            )
        if report.error_features and (inputs.gold is None or self.consensus.use_gold):
            raise ValueError(
                "report.error_features needs input.gold, and consensus.use_gold = false: gold that made the "
                "consensus shows none of its errors"
            )

    def _check_year(self) -> None:
        """Raise ValueError for settings that do not go with planned runs."""
        given = set() if self.model is None else self.model.model_fields_set
        own = sorted(
            given
            & {"components", "epsilon_train", "epsilon_select", "epsilon_score", "delta_train"}
        )
        if own:
            raise ValueError(
                f"model.{own[0]} must be left out with privacy.planned_runs, which splits the budget"
            )
        own = sorted(self.gate.model_fields_set & {"sigma", "budget"})
        if own:
            raise ValueError(
                f"gate.{own[0]} must be left out with privacy.planned_runs: each cohort has a fresh holdout, "
                "asked once at the year's own price"
            )

    def _check_order(self) -> None:
        """Raise ValueError for settings of ordered classes that do not go together."""
        if not self.input.order:
            if self.consensus.loss != "zero_one":
                raise ValueError(
                    f'consensus.loss = "{self.consensus.loss}" needs input.order = true: without an order '
                    "every wrong label misses by as much"
                )
            if self.consensus.aggregator == ORDERED:
                raise ValueError(f'consensus.aggregator = "{ORDERED}" needs input.order = true')
            return
        if self.classes is None:
            raise ValueError("input.order needs classes, the names in their order")
        if self.filter.penalty == "hard":
            raise ValueError(
                'filter.penalty = "hard" must be without input.order: it counts whole conflicts, and evening '
                "out conflicts of unequal weight is NP-hard; use the soft penalty, which weighs by distance"
            )
        if self.engine is not None:
            raise ValueError(
                "[engine] must be without input.order: the ordinal model needs all labels in memory"
            )
        check_keys(self.believed.named(), self.consensus.keys)

    def _check_unit(self, unit: Unit | None) -> None:
        """Raise ValueError for settings under which this unit cannot be protected."""
        given = 0.0 if self.model is None else self.model.delta_train + self.model.delta_components
        most = 0.0 if self.privacy is None or unit is Unit.SUBJECT else self.privacy.delta
        if given > most:
            what = "delta_train" if self.model is None else self.model.delta_keys
            if unit is Unit.SUBJECT:
                raise ValueError(
                    f'model.{what} must be 0 with privacy.unit = "subject", whose rows would multiply '
                    f"delta, got {given:g}"
                )
            raise ValueError(f"model.{what} must be at most privacy.delta, {most:g}, got {given:g}")
        if (unit is Unit.SUBJECT) != (self.input.subject is not None):
            raise ValueError(
                'privacy.unit = "subject" and input.subject, the column of the task tables that says '
                "whose a task is, must be given together"
            )
        if self.input.subject is not None and not self.input.tasks:
            raise ValueError("input.subject needs input.tasks, the tables that hold the column")
        if unit is not None and unit.protects_features and self.input.standardize:
            raise ValueError(
                f'input.standardize must be false with privacy.unit = "{unit}": it reads all features, '
                "which that unit protects, in the clear"
            )
        if unit is not None and unit.needs_local_consensus and not self.consensus_is_local:
            raise ValueError(
                f'privacy.unit = "{unit}" needs consensus.aggregator = "majority_vote", consensus.groups = '
                '"ignore" and filter.n_workers = 0: otherwise one answer can move the labels of other tasks'
            )

    @property
    def aggregator(self) -> str:
        """The name of the aggregator that a run uses."""
        return self.believed.named(sharded=self.engine is not None)

    @property
    def weighs_removed(self) -> bool:
        """Whether the consensus weighs the labels of workers whom the filter removes."""
        if self.consensus.removed is None:
            return self.aggregator == "auto" and self.input.several is None
        return self.consensus.removed == "weigh"

    @property
    def believed(self) -> ConsensusSettings:
        """The consensus settings, which name the ordinal model where classes are ordered."""
        if not self.input.order or self.consensus.aggregator is not None:
            return self.consensus
        return self.consensus.model_copy(update={"aggregator": ORDERED})

    @property
    def consensus_is_local(self) -> bool:
        """Whether a task's consensus depends on its own answers alone: one vote a worker, and no filter.

        Groups are found from all answers; features and models that join carry other tasks' labels.
        """
        unfiltered = self.filter.fraction == 0 or self.filter.n_workers == 0
        one_vote_each = self.consensus.groups == "ignore"
        by_vote = self.aggregator == "majority_vote" and one_vote_each and unfiltered
        return by_vote and not self.features_join and not self.models_join

    @property
    def features_join(self) -> bool:
        """Whether the features of tasks, if there are any, join the consensus."""
        return self.consensus.features != "ignore" and why_features_stay_out(self) is None

    @property
    def models_join(self) -> bool:
        """Whether answers of models, if there are any, may join the consensus.

        Which workers are models may stand in the labels alone, so these settings do not know it.
        """
        return self.consensus.features != "ignore" and why_voices_stay_out(self) is None

    @property
    def protects_gold(self) -> bool:
        """Whether a correction of shares is paid, whose price protects each task's gold label too."""
        return self.privacy is not None and self.privacy.correction_epsilon is not None

    def _check_can_be_sharded(self) -> None:
        """Raise ValueError for settings that need the whole table of labels at once."""
        aggregator = self.aggregator
        if not AGGREGATORS[aggregator].sharded:
            sharded = ", ".join(row.name for row in AGGREGATORS.values() if row.sharded)
            raise ValueError(
                f"[engine] needs consensus.aggregator to be {sharded}, not {aggregator}"
            )
        if self.topics is not None:
            raise ValueError("[engine] must be without [topics]: texts are learned from in memory")
        if self.input.seconds is not None:
            raise ValueError(
                "[engine] must be without input.seconds: medians need all labels in memory"
            )

    def under(self, folder: Path) -> Settings:
        """Return the same settings with every path made absolute under `folder`."""

        def found(path: Path) -> Path:
            if is_remote(path):
                return path
            return Path(os.path.normpath(folder / path))

        absolute = {
            "labels": found(self.input.labels),
            "tasks": tuple(found(path) for path in self.input.tasks),
            "gold": None if self.input.gold is None else found(self.input.gold),
            "reference": None if self.input.reference is None else found(self.input.reference),
            "embeddings": None if self.input.embeddings is None else found(self.input.embeddings),
        }
        return self.model_copy(
            update={
                "runs": found(self.runs),
                "state": found(self.state),
                "input": self.input.model_copy(update=absolute),
            }
        )
