"""The sections of the settings file: the keys of each, and which values exclude one another.

Longer than 500 lines: it is the one list of settings.

>>> FilterSettings(fraction=0.1).penalty
'soft'
"""

from __future__ import annotations

import ast
import inspect
import math
import os
import re
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    ValidationInfo,
    field_validator,
    model_validator,
)

from flows.aggregators import (
    AGGREGATORS,
    ORDERED,
    AggregatorName,
    check_keys,
    default_aggregator,
)
from flows.choices import (
    Duplicates,
    FeatureUse,
    GoldSampling,
    Grouping,
    Loss,
    Penalty,
    TrainingMethod,
)
from flows.settings.addresses import check_address, is_remote
from flows.settings.feature_use import why_features_stay_out, why_voices_stay_out
from flows.settings.publication_keys import check_key
from privacy import Unit

__all__ = [
    "ConsensusSettings", "EngineError", "EngineSettings", "FilterSettings", "GateSettings",
    "GroupSettings", "InputSettings", "ModelSettings", "PrivacySettings", "ReportSettings", "Section",
    "Settings", "SettingsError", "TopicsSettings", "key_sentences", "section_of",
]  # fmt: skip

NAME = r"^[A-Za-z0-9][A-Za-z0-9._-]*$"  # of a campaign: it names run folders


class SettingsError(ValueError):
    """The settings file cannot be used; the message says which key, what came and what to do."""


class EngineError(RuntimeError):
    """The machines that a run works on are gone; ``--resume`` goes on from the stages that are finished."""


class Section(BaseModel):
    """One table of the settings file: frozen, and an unknown key is a mistake.

    The text under a key says what it is for; `crowdassay init` and the reference repeat it.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    @field_validator("*", mode="before")
    @classmethod
    def _truth_is_no_number(cls, value: Any, info: ValidationInfo) -> Any:
        field = cls.model_fields[str(info.field_name)]
        if isinstance(value, bool) and field.annotation is not bool:
            raise ValueError("input should not be true or false")
        return value


@cache
def key_sentences(section: type[Section]) -> dict[str, str]:
    """Return the sentence under each key of a section, which says what the key is for.

    Read from the source when asked: read by pydantic at each start it costs four times what the sections do.

    >>> key_sentences(FilterSettings)["n_workers"]
    'Instead of a rate: the number of workers to remove.'
    """
    (written,) = ast.parse(inspect.getsource(section)).body
    assert isinstance(written, ast.ClassDef)
    return {
        key.target.id: inspect.cleandoc(str(text.value.value))
        for key, text in pairwise(written.body)
        if isinstance(key, ast.AnnAssign) and isinstance(key.target, ast.Name)
        if isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant)
    }


def section_of(annotation: Any) -> type[Section] | None:
    """Return the section that a key holds, or None where it holds a value."""
    for kind in getattr(annotation, "__args__", (annotation,)):
        if isinstance(kind, type) and issubclass(kind, Section):
            return kind
    return None


Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Share = Annotated[float, Field(gt=0, lt=1)]


class GroupSettings(Section):
    """The source of a task's group: a column of the task tables, or a pattern in the task's name."""

    column: str = "group"
    """The column of the task tables that names a task's group."""
    pattern: str | None = None
    """Instead of a column: a pattern, and its groups in the task's name."""

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
    """The tables to read, each in the format that the end of its name says.

    They are CSV or TSV (plain or gzipped), Parquet, JSON (lines or an array), workbooks (.xlsx, .xls, .ods)
    or queries. How a CSV is written is found out and said; `sep` and `encoding` say it instead.

    A path is a file, or a folder or pattern of files that arrive day by day. A query is a file `*.sql`.
    The address of its database is a secret and never stands in settings.

    A table elsewhere is named by its address, without keys: ``s3://``, ``gs://``, ``https://`` and others, or
    ``delta+s3://``, ``iceberg+s3://`` for a whole table; DuckDB's extensions read it, where installed.
    """

    labels: Path
    """The crowd's labels, one a row: worker, task, label."""
    tasks: tuple[Path, ...] = ()
    """Tables of the tasks: their names, groups and features."""
    gold: Path | None = None
    """Tasks whose truth is known: task, label."""
    reference: Path | None = None
    """Answers of language models, to find workers who paste them: task, label, and model if of several."""
    url_env: str | None = None
    """For queries: the environment variable with the database's address."""
    sep: str | None = None
    """What separates the cells of a CSV; by default found out."""
    encoding: str | None = None
    """The encoding of a CSV, such as "cp1252"; by default found out."""
    sheet: str | None = None
    """The sheet of a workbook; by default the first with cells."""
    wide: bool = False
    """True: the labels have a row per task and a column per worker."""
    seconds: str | None = None
    """The column of the labels with the seconds that each took."""
    gold_sampling: GoldSampling = "chosen"
    """How gold tasks came: random among all, stratified (random in each group), or chosen."""
    duplicates: Duplicates = "error"
    """A worker's repeated label of a task: error, first or last."""
    subject: str | None = None
    """The column of the task tables that says whose a task is, for the unit "subject"."""
    features: tuple[str, ...] = ()
    """Columns of the task tables to learn from, as in ["x*", "embedding"]; by default all that are left."""
    ignore: tuple[str, ...] = ()
    """Columns of the task tables that are not read, as in ["note*"]."""
    shown: tuple[str, ...] = ("title", "text", "url")
    """Columns of the task tables, if there, that say what a task is: the internal report shows them."""
    embeddings: Path | None = None
    """A matrix in a file .npy, a row for each row of the task tables in their order: more features."""
    order: bool = False
    """True: the classes, in the order given, are grades, where a near miss is better than a far one."""
    models: tuple[str, ...] = ()
    """Workers that are language models, beside those whose kind is "model" in the labels."""
    features_private: bool = False
    """True: results that read features in the clear stay internal."""
    standardize: bool = False
    """True: features are centred and scaled, which reads them in the clear."""

    @model_validator(mode="after")
    def _queries_have_an_address(self) -> InputSettings:
        given = (self.labels, *self.tasks, *filter(None, (self.gold, self.reference)))
        for path in given:
            check_address(path)
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
            raise ValueError(
                "url_env is for queries; name a file *.sql as labels, tasks, gold or reference"
            )
        return self

    @model_validator(mode="after")
    def _embeddings_are_of_tasks(self) -> InputSettings:
        if self.embeddings is not None and self.embeddings.suffix != ".npy":
            raise ValueError(f"embeddings must be a file .npy, got {self.embeddings.name}")
        if self.embeddings is not None and not self.tasks:
            raise ValueError("embeddings needs tasks, the tables whose rows they are of")
        return self

    @model_validator(mode="after")
    def _columns_and_scaling_fit(self) -> InputSettings:
        if self.subject == "task":
            raise ValueError(
                'subject must not be "task": use the unit "row", which protects one task'
            )
        if self.sep is not None and (len(self.sep) != 1 or self.sep in '"\r\n'):
            raise ValueError(f'sep must be one letter, such as ";" or "\\t", got {self.sep!r}')
        if self.seconds in ("worker", "task", "label"):
            raise ValueError(f"seconds must name a column of its own, got {self.seconds!r}")
        if self.standardize and self.features_private:
            raise ValueError(
                "standardize must be false with features_private: it reads all features in the clear"
            )
        return self


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
    """Gold tasks from which on a worker teaches whom to trust, in potentials.parquet; none by default."""

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

    With `go_on` it starts from the workers' parameters in the campaign's previous run instead of the
    majority vote. Its result may then depend on that run.
    """

    aggregator: AggregatorName | None = None
    """By default auto; ordinal_crowd with input.order; hierarchical_dawid_skene with [engine] or keys."""
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
    """Workers who do not answer on their own: each group votes once, or they are ignored or removed."""
    features: FeatureUse = "auto"
    """Features of tasks, and models' answers, as one more voice: auto (where allowed), join, ignore."""

    @model_validator(mode="after")
    def _aggregator_takes_the_keys(self) -> ConsensusSettings:
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


class PrivacySettings(Section):
    """The data set's whole privacy budget, and the part of it that published proportions cost.

    With `planned_releases` above 1, the proportions' price pays once for that many releases of class
    counts. Later runs, on changed data, then draw their counts from the paid plan. As long as no task
    changes its group, a release counts for the groups that changed or that tasks joined. After a task
    has moved to another group, a release counts for all groups and adds to all earlier releases. With a
    ledger on a server (CROWDASSAY_LEDGER) this also holds after tasks have joined.

    With a `publication` key everything that a run publishes is paid and drawn once under that key,
    whatever becomes of the data. A pattern, "%Y-%m" say, makes a key of the date (UTC) on which the run
    began. Without a key a publication is drawn anew if the data changed, and only then: whoever sees two
    publications that are equal learns, without noise and at no price, that nothing changed.

    The unit "subject" protects a person with several tasks: at most `max_tasks_per_subject` of them
    count, chosen by an order that `seed` fixes. Where no subject has tasks in two groups, groups share one
    price; otherwise all groups are one release. Any change of tasks begins a new partition.

    With `planned_runs` above 1 the whole budget is split, by public numbers, among all that a campaign
    publishes in that many runs. Tasks that joined since the run before are a cohort. Each cohort is asked
    once, for everything, and stays as it was asked: so a new cohort costs nothing on top of the first.
    """

    unit: Unit = Unit.CONSENSUS_LABEL
    """Whom every price protects: consensus label, row, task, answer or subject."""
    max_tasks_per_subject: Annotated[int, Field(ge=1, le=10_000)] | None = None
    """For the unit "subject": tasks of one that count; more of them need more noise."""
    epsilon: Positive
    """The data set's whole budget, for ever."""
    delta: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """Delta of the whole budget: 0 is pure, else below 1 / (labelled tasks)."""
    proportions_epsilon: Positive = 1.0
    """Price of the class counts; smaller is more private and less accurate."""
    proportions_delta: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """Delta of the class counts, at most delta."""
    correction_epsilon: Positive | None = None
    """Price of correcting the shares by gold, on top of the class counts'; without it they are not."""
    planned_releases: Annotated[int, Field(ge=1, le=10_000)] = 1
    """Number of releases of the counts, of changed data, that the price pays for."""
    publication: Annotated[str, AfterValidator(check_key)] | None = None
    """Public key, "2026-11" or "%Y-%m"; without one, equal publications show that no data changed."""
    planned_runs: Annotated[int, Field(ge=1, le=1_000)] = 1
    """Number of runs, each with tasks that joined, that the whole budget pays for, all stages together."""
    planned_tasks: Annotated[int, Field(ge=1)] | None = None
    """Labelled tasks expected after the last planned run; the preview foretells errors by it."""
    unpaid: Literal["skip", "refuse"] | None = None
    """Stages the budget does not cover: skip or refuse the run; by default skip with planned_runs alone."""
    level: Share = 0.9
    """Confidence of each published interval."""
    min_group_size: Annotated[int, Field(ge=1)] = 1
    """Smaller groups are not published; their size is public."""

    @model_validator(mode="after")
    def _numbers_fit(self) -> PrivacySettings:
        if self.proportions_delta > self.delta:
            raise ValueError(
                f"proportions_delta must be at most delta, got {self.proportions_delta:g} of "
                f"{self.delta:g}"
            )
        self._check_planned_runs()
        if (self.unit is Unit.SUBJECT) != (self.max_tasks_per_subject is not None):
            raise ValueError(
                'max_tasks_per_subject must be given with unit = "subject", and only then'
            )
        return self

    def _check_planned_runs(self) -> None:
        """Raise ValueError for keys that do not go with planned runs, or that need them."""
        if self.planned_runs == 1:
            if self.planned_tasks is not None:
                raise ValueError("planned_tasks is for planned_runs above 1")
            if self.unpaid == "skip" and self.publication is None:
                raise ValueError(
                    'unpaid = "skip" needs a publication key or planned_runs: otherwise what is skipped '
                    "would show whether data changed"
                )
            return
        if self.planned_releases > 1:
            raise ValueError(
                "give planned_runs, which pays for the counts too, or planned_releases"
            )
        if self.proportions_delta > 0:
            raise ValueError(
                "proportions_delta must be 0 with planned_runs: its counts need no delta"
            )
        if self.unit is Unit.SUBJECT:
            raise ValueError(
                'planned_runs is for other units than "subject", whose tasks may join in several runs'
            )
        if self.correction_epsilon is not None and self.correction_epsilon >= self.epsilon:
            raise ValueError("correction_epsilon must be below epsilon, which planned_runs splits")

    @property
    def skips_unpaid(self) -> bool:
        """Whether a stage that the budget does not cover is skipped, and the run goes on."""
        return self.unpaid == "skip" or (self.unpaid is None and self.planned_runs > 1)


class ModelSettings(Section):
    """Private training: its prices, and the choices that are fixed before the data are read."""

    method: TrainingMethod = "auto"
    """How to train: auto, objective_perturbation or noisy_descent."""
    epsilon_train: Positive = 1.0
    """Price of the coefficients."""
    epsilon_select: Positive = 0.5
    """Price of choosing among regularization."""
    delta_train: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """Delta of the coefficients, at most privacy.delta; above 0 it allows noisy descent."""
    epsilon_score: Positive = 0.1
    """Price of the released score."""
    components: Annotated[int, Field(ge=1)] | None = None
    """Train on so many principal components of the features, drawn privately at a price of their own."""
    epsilon_components: Positive = 0.5
    """Price of the components."""
    delta_components: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """Delta of the components; above 0 they err far less. With delta_train at most privacy.delta."""
    norm_bound: Positive
    """Length to which longer feature vectors are shortened; a larger one needs more noise."""
    regularization: tuple[Positive, ...] = (0.001, 0.003, 0.01)
    """Candidate strengths, few and fixed in advance."""
    validation: Share = 0.2
    """Share of the tasks outside the holdout on which candidates are judged."""

    @model_validator(mode="after")
    def _candidates_differ(self) -> ModelSettings:
        if not len(set(self.regularization)) == len(self.regularization) > 0:
            raise ValueError("regularization must list one number or more, each once")
        if self.method == "noisy_descent" and self.delta_train == 0:
            raise ValueError('method = "noisy_descent" needs delta_train > 0')
        unused = {"epsilon_components", "delta_components"} & self.model_fields_set
        if self.components is None and unused:
            raise ValueError(f"{min(unused)} needs components, how many there are to be")
        return self

    @property
    def delta_keys(self) -> str:
        """The keys that hold its delta, as a message names them."""
        return "delta_train" if self.components is None else "delta_train + delta_components"

    @property
    def epsilons(self) -> dict[str, float]:
        """What the price of the model is the sum of, by what it buys."""
        parts = {
            "train": self.epsilon_train,
            "select": self.epsilon_select,
            "score": self.epsilon_score,
        }
        return parts if self.components is None else parts | {"components": self.epsilon_components}


class GateSettings(Section):
    """The reusable holdout: its share of the tasks, and Thresholdout's three numbers."""

    holdout: Share = 0.2
    """Share of the labelled tasks, never trained on."""
    threshold: Share | Literal["auto"] = 0.1
    """Largest gap between training and holdout mean that passes; auto: from the data's size."""
    sigma: Positive = 0.004
    """Scale of the noise on answers, well below the threshold; with auto, from the training's price."""
    budget: Annotated[int, Field(ge=1)] = 3
    """Number of refutations after which the gate closes."""
    confidence: Share = 0.95
    """Confidence of the gate's error bound."""

    @model_validator(mode="after")
    def _noise_is_below_the_threshold(self) -> GateSettings:
        if self.threshold == "auto":
            if "sigma" in self.model_fields_set:
                raise ValueError(
                    'sigma must be left out with threshold = "auto", which settles it too'
                )
            return self
        if not self.sigma < self.threshold:
            raise ValueError(
                f"sigma must be below threshold, or noise alone refutes, got {self.sigma:g} and "
                f"{self.threshold:g}"
            )
        return self


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
    """The place where a label table larger than memory is processed, in shards of some millions of labels.

    `memory_gb` limits the memory for labels, in 1e9 bytes: of the process that reads them, and of all
    workers together. `workers` are threads of this process, or processes of the Dask cluster that is
    started if no `scheduler` is named. The run computes hard and balanced penalties, from a conflict
    graph that the shards build, up to `whole_conflicts` labels on conflict tasks. It computes what
    needs the whole table, robustness for one, up to `whole_labels` labels. Filters other than by the soft
    penalty with `filter.fraction` or `filter.n_workers` need it too, and are refused beyond.

    Features are streamed as well: task tables of Parquet in batches (others are read whole), class
    ratios by kernel mean matching on blocks of rows (`learners.learn_streamed_ratios`). A run without
    this section tries several methods on all features in memory. A `[model]` needs all features in
    memory.
    """

    kind: Literal["local", "dask"] = "local"
    """Local: threads of one process; dask: a cluster."""
    scheduler: Annotated[str, Field(min_length=1)] | None = None
    """Address of a running Dask cluster; without one, a cluster is started."""
    workers: Annotated[int, Field(ge=1)] | None = None
    """Threads, or processes of the cluster that is started."""
    shard_labels: Annotated[int, Field(ge=1)] = 5_000_000
    """Labels of a shard."""
    memory_gb: Annotated[float, Field(ge=0.1, allow_inf_nan=False)] = 2.0
    """Memory for labels, and for reading tasks, in 1e9 bytes."""
    checkpoint_every: Annotated[int, Field(ge=1)] = 10
    """Maximal number of iterations that a killed run loses."""
    whole_conflicts: Annotated[int, Field(ge=0)] = 100_000_000
    """Labels on conflict tasks up to which hard and balanced penalties are computed."""
    whole_labels: Annotated[int, Field(ge=0)] = 20_000_000
    """Labels up to which robustness, and every filter, are computed."""

    @model_validator(mode="after")
    def _a_scheduler_is_dasks(self) -> EngineSettings:
        if self.scheduler is not None and self.kind != "dask":
            raise ValueError('scheduler is for kind = "dask"')
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
        Annotated[int, Field(ge=1)] | Annotated[str, Field(pattern=r"^[1-9]\d* days$")] | None
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
        self._check_order()
        if self.model is not None and self.privacy is None:
            raise ValueError("[model] needs a [privacy] section with the data set's budget")
        if self.model is not None and not self.input.tasks:
            raise ValueError("[model] needs input.tasks, the tables that hold the features")
        if self.topics is not None and not self.input.tasks:
            raise ValueError("[topics] needs input.tasks, the tables that hold the texts")
        if self.groups.pattern is not None and not self.input.tasks:
            raise ValueError("groups.pattern needs input.tasks, the tables whose names it reads")
        if self.consensus.use_gold and self.input.gold is None:
            raise ValueError("consensus.use_gold needs input.gold")
        if self.consensus.features == "join" and (why := why_features_stay_out(self)) is not None:
            raise ValueError(f'consensus.features = "join" cannot be: {why}')
        corrected = self.privacy is not None and self.privacy.correction_epsilon is not None
        if corrected and (self.input.gold is None or self.consensus.use_gold):
            raise ValueError(
                "privacy.correction_epsilon needs input.gold, and consensus.use_gold = false: gold that "
                "made the consensus cannot say how often it errs"
            )
        self._check_unit(None if self.privacy is None else self.privacy.unit)
        if self.privacy is not None and self.privacy.planned_runs > 1:
            self._check_year()
        if self.engine is not None:
            self._check_can_be_sharded()
        return self

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
        if self.engine is not None:
            raise ValueError(
                "privacy.planned_runs must be without [engine]: a record of every task's cohort is kept, "
                "and shards are read without one"
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
        if given > most:  # the rows of a subject would multiply it
            words = f"at most privacy.delta, got {given:g} of {most:g} for the unit {unit}"
            what = "delta_train" if self.model is None else self.model.delta_keys
            raise ValueError(f"model.{what} must be {words}")
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
                f'privacy.unit = "{unit}" needs consensus.aggregator = "majority_vote" and '
                "filter.n_workers = 0: otherwise one answer can move the labels of other tasks"
            )

    @property
    def aggregator(self) -> str:
        """The name of the aggregator that a run uses."""
        return self.believed.named(sharded=self.engine is not None)

    @property
    def believed(self) -> ConsensusSettings:
        """The consensus settings, which name the ordinal model where classes are ordered."""
        if not self.input.order or self.consensus.aggregator is not None:
            return self.consensus
        return self.consensus.model_copy(update={"aggregator": ORDERED})

    @property
    def consensus_is_local(self) -> bool:
        """Whether a task's consensus depends on its own answers alone: majority vote, and no filter.

        Features and models that join carry other tasks' labels.
        """
        unfiltered = self.filter.fraction == 0 or self.filter.n_workers == 0
        by_vote = self.aggregator == "majority_vote" and unfiltered
        return by_vote and not self.features_join and not self.models_join

    @property
    def features_join(self) -> bool:
        """Whether the features of tasks, if there are any, join the consensus."""
        return self.consensus.features != "ignore" and why_features_stay_out(self) is None

    @property
    def models_join(self) -> bool:
        """Whether answers of models, if there are any and people have answered every task, join theirs.

        Which workers are models may stand in the labels alone, so these settings do not know it.
        """
        return self.consensus.features != "ignore" and why_voices_stay_out(self) is None

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
