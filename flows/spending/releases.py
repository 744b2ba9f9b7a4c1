"""The releases of a run: here alone a quality statistic becomes a privacy query.

All of a run's releases are planned before the first of them is paid, so that a budget that does not suffice
is refused while nothing has been spent. Public numbers alone choose the noise on the class counts.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache, partial
from typing import Any, TypeAlias

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq
from jaxtyping import Int

from flows.run import Crowd, Run
from flows.settings import GateSettings, ModelSettings, PrivacySettings, Settings, SettingsError
from flows.spending.account import server_url
from flows.spending.bounded_counts import (
    SET_THRESHOLD,
    counted_tasks,
    set_queries,
    subject_queries,
)
from flows.spending.corrections import Correction, plan_correction, why_not_corrected
from flows.spending.learning_rows import Rows, dealt_rows
from flows.spending.noise_choice import CountNoise, CountsMechanism, count_noise
from flows.spending.partitions import grow_partition
from flows.spending.year import with_choice
from flows.tables import arrow_array, numpy_array
from learners import (
    NoisyGradientDescent,
    ReducedTraining,
    ScoredTraining,
    StabilityValidation,
    Thresholdout,
    prefers_descent,
    private_subspace,
)
from learners.holdout import fitted_gate
from privacy import (
    GroupInteraction,
    GroupPrivacy,
    Interaction,
    JointLatticeLaplace,
    Ledger,
    Mechanism,
    Part,
    PlanEvent,
    Publication,
    Query,
    Release,
    Unit,
    class_counts,
    count_queries,
    partition_of,
)
from privacy.accounting import exact, six_digits_down

__all__ = [
    "PLAN", "Learning", "Plan", "consensus_label", "gate_of", "learned_label", "plan_learning",
    "plan_releases", "protected_unit", "published_group_sizes", "published_size", "training_of",
    "with_grown_partition",
]  # fmt: skip

PLAN = "planned class counts"  # the plan's name in the ledger
DEVELOP, HOLDOUT = 0, 1
CELLS = ("develop", "holdout")

Labels: TypeAlias = Callable[[], Int[np.ndarray, " tasks"]]
"""Consensus class codes in the order of the labelled tasks, read where they are needed."""


@dataclass(frozen=True, slots=True, eq=False)
class Learning:
    """The model's two releases: training on one cell of the split, the gate on the other.

    Where a subject may have several rows, both are priced for all of them together.
    """

    rows: Rows
    mechanism: ScoredTraining | GroupPrivacy
    training: Query
    judge: Thresholdout
    asked: Thresholdout | GroupInteraction  # the judge, as it is paid for
    holdout: Query


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """Every release of a run; `learning` is None where no model can be trained.

    `counts` are of the groups named, or one query of all of them together; `n_left_out` is how many
    labelled tasks do not count, or where several classes may hold how many classes of tasks.
    `correction` by gold is the reason if there is none.
    """

    noise: CountNoise
    counts: tuple[Query, ...]
    learning: Learning | None
    groups: tuple[str, ...]
    sizes: Int[np.ndarray, " groups"]
    correction: Correction | str
    n_left_out: int = 0

    @property
    def together(self) -> bool:
        """Whether all groups are one release, because a subject may be in several of them."""
        return self.counts[0].part is None

    @property
    def mechanism(self) -> CountsMechanism | JointLatticeLaplace:
        """The mechanism that draws the counts."""
        one = self.noise.mechanism
        return JointLatticeLaplace(one.epsilon) if self.together else one

    def plans(self) -> list[tuple[str, PlanEvent, str]]:
        """Return the plans that the run pays for ahead: data set, plan, name."""
        plan = self.noise.plan
        return [] if plan is None else [(self.counts[0].dataset, plan, PLAN)]

    def releases(self) -> list[tuple[Mechanism | Interaction, Query]]:
        """Return what the run will ask for, in order, without what a plan pays for."""
        asked: list[tuple[Mechanism | Interaction, Query]] = [
            (self.mechanism, query) for query in self.counts if self.noise.plan is None
        ]
        if isinstance(self.correction, Correction):
            asked += [(self.correction.mechanism, query) for query in self.correction.queries]
        if self.learning is not None:
            asked.append((self.learning.mechanism, self.learning.training))
            asked.append((self.learning.asked, self.learning.holdout))
        return asked


def plan_releases(run: Run, crowd: Crowd, privacy: PrivacySettings) -> Plan:
    """Plan the run's releases from its consensus labels."""
    label = cache(partial(consensus_label, run, crowd))
    counts, groups, sizes, n_left_out = _count_queries(run, crowd, privacy, label)
    learning = plan_learning(run, crowd, privacy)
    if not groups:
        raise SettingsError(
            f"[privacy]: min_group_size must leave a group to publish, got {privacy.min_group_size}"
        )
    noise = count_noise(privacy, crowd.labels.n_classes)
    correction = _correction(run, crowd, privacy, groups, label)
    return Plan(noise, counts, learning, groups, sizes, correction, n_left_out)


def plan_learning(run: Run, crowd: Crowd, privacy: PrivacySettings) -> Learning | None:
    """Plan the releases of a run's model from its consensus labels; None where none can be trained."""
    model = run.settings.model
    if model is None or crowd.tasks is None or not crowd.tasks.feature_names:
        return None
    rows = dealt_rows(crowd, learned_label(run, crowd), run.settings, model)
    if not all(cell.any() for cell in (rows.training, rows.validation, rows.holdout)):
        return None
    return _learning(rows, crowd, run, model, privacy)


def with_grown_partition(plan: Plan, crowd: Crowd, settings: Settings, ledger: Ledger) -> Plan:
    """Return the same plan with counts, and corrections of groups, in partitions that grow as tasks join.

    With a ledger on a server several state folders may be in use, and one partition could grow in two
    ways: there every assignment stays a partition of its own. So it does for subjects, whom a record of
    tasks and groups does not follow from group to group.
    """
    if server_url() is not None or crowd.label_subject() is not None:
        return plan
    tasks, group = crowd.labels.tasks, crowd.group_names[crowd.label_group()]
    records = 1 if settings.privacy is None else settings.privacy.max_labels or 1

    def grown(
        queries: tuple[Query, ...], tasks: np.ndarray, group: np.ndarray, records: int
    ) -> tuple[Query, ...]:
        """Return the same queries, each in the cell of its name of the partition that these tasks join."""
        parts = [query.part for query in queries if query.part is not None]
        if not parts:
            return queries
        partition = grow_partition(
            settings.state, ledger, settings.name, task=tasks, group=group, exact=parts[0].partition,
            records=records,
        )  # fmt: skip
        return tuple(
            replace(query, part=Part(partition, part.name))
            for query, part in zip(queries, parts, strict=True)
        )

    counts, correction = grown(plan.counts, tasks, group, records), plan.correction
    if isinstance(correction, Correction):
        gold = correction.of_gold
        queries = grown(correction.queries, tasks[gold], group[gold], 1)
        correction = replace(correction, queries=queries)
    return replace(plan, counts=counts, correction=correction)


def consensus_label(run: Run, crowd: Crowd) -> Int[np.ndarray, " tasks"]:
    """Return the consensus class codes in the order of the labelled tasks."""
    return _codes_of(run, crowd, "label")


def learned_label(run: Run, crowd: Crowd) -> Int[np.ndarray, " tasks"]:
    """Return the class codes that a model learns and is judged by: those before features joined them."""
    apart = "by_labels" in pq.read_schema(run.folder / "consensus.parquet").names
    return _codes_of(run, crowd, "by_labels" if apart else "label")


def _codes_of(run: Run, crowd: Crowd, column: str) -> Int[np.ndarray, " tasks"]:
    classes = arrow_array(crowd.labels.classes)
    names = run.read_table("consensus.parquet", [column]).column(column)
    return numpy_array(pc.index_in(names, value_set=classes)).astype(np.int64)


def _count_queries(
    run: Run, crowd: Crowd, privacy: PrivacySettings, label: Labels
) -> tuple[tuple[Query, ...], tuple[str, ...], Int[np.ndarray, " groups"], int]:
    """Return class counts of the groups large enough, their names and sizes, and what does not count."""
    terms: dict[str, Any] = {"classes": crowd.labels.classes.tolist()}
    n_left_out = int(np.count_nonzero(~counted_tasks(crowd, run.settings)))
    if privacy.max_labels is not None:
        queries, names, sizes, n_left_out = set_queries(run, crowd, privacy)
        terms["threshold"] = SET_THRESHOLD
    elif crowd.label_subject() is not None:
        queries, names, sizes = subject_queries(label(), crowd, run.settings, privacy)
    else:
        large = [
            (query, query.part.name, query.n)
            for query in _group_queries(run, crowd, privacy, label)
            if query.part is not None and query.n >= privacy.min_group_size
        ]
        queries, names, found = zip(*large, strict=True) if large else ((), (), ())
        sizes = np.array(found, dtype=np.int64)
    places = privacy.max_labels or 1  # of a task: so many records each
    facts: list[dict[str, object]] = [{"n": query.n // places} for query in queries]
    if len(queries) < len(names):  # one release of all groups together
        terms["groups"], facts = list(names), [{"sizes": sizes.tolist()}]
    key = run.publication
    keyed = (_published(key, *one, **terms) for one in zip(queries, facts, strict=True))
    return tuple(keyed), names, sizes, n_left_out


def _group_queries(
    run: Run, crowd: Crowd, privacy: PrivacySettings, label: Labels
) -> tuple[Query, ...]:
    """Return every labelled group's class counts, counted here or added up on the shards."""
    settings, n_classes = run.settings, crowd.labels.n_classes
    names, group = crowd.labelled_groups()
    about: dict[str, Any] = {
        "group": group, "dataset": settings.name, "group_names": tuple(names.tolist()),
        "unit": privacy.unit, "local": settings.consensus_is_local, "tasks": crowd.labels.tasks,
    }  # fmt: skip
    if settings.engine is None:
        return class_counts(label(), n_classes=n_classes, n_groups=names.size, **about)
    counts = numpy_array(run.read_table("class_counts.parquet").column("n"))
    return count_queries(counts.reshape(names.size, n_classes), **about)


def _correction(
    run: Run,
    crowd: Crowd,
    privacy: PrivacySettings,
    groups: tuple[str, ...],
    label: Labels,
) -> Correction | str:
    """Return the correction of these groups' counts by gold, under the run's key, or why there is none."""
    why_not = why_not_corrected(run.settings)
    if why_not is not None:
        return why_not
    found = plan_correction(label(), crowd, run.settings, privacy, groups)
    if isinstance(found, str):
        return found
    terms = {"classes": crowd.labels.classes.tolist(), "groups": list(found.groups or groups)}
    key = run.publication
    queries = (_published(key, query, {"n": query.n}, **terms) for query in found.queries)
    return replace(found, queries=tuple(queries))


def _published(
    key: str | None, query: Query, facts: Mapping[str, object], **terms: object
) -> Query:
    """Return the query under the run's key, with the public facts that give it its meaning, and its sizes."""
    if key is None:
        return query
    texts = (json.dumps(one, sort_keys=True) for one in (terms, facts))
    return replace(query, publication=Publication(key, *texts))


def published_size(query: Query, release: Release[Any]) -> int:
    """Return the number of records that a value is about: as published, whatever has joined since."""
    n: int = json.loads(release.facts)["n"] if release.facts else query.n
    return n


def published_group_sizes(
    plan: Plan, releases: Sequence[Release[Any]]
) -> Int[np.ndarray, " groups"]:
    """Return the sizes of the groups that counts are about: as published, whatever has joined since."""
    facts = [json.loads(release.facts) if release.facts else {} for release in releases]
    if plan.together:
        return np.array(facts[0].get("sizes", plan.sizes))
    sizes = zip(facts, plan.sizes.tolist(), strict=True)
    return np.array([fact.get("n", size) for fact, size in sizes], dtype=np.int64)


def protected_unit(settings: Settings, privacy: PrivacySettings) -> Unit:
    """Return the unit that training protects: the row, unless scaling has read the features in the clear."""
    if privacy.unit.needs_local_consensus or privacy.unit is Unit.SUBJECT:
        return privacy.unit  # what changes in answers to a task changes its row alone
    return Unit.CONSENSUS_LABEL if settings.input.standardize else Unit.ROW


def _learning(
    rows: Rows, crowd: Crowd, run: Run, model: ModelSettings, privacy: PrivacySettings
) -> Learning:
    """Return training on the development rows and the gate on the holdout rows: two cells of one partition.

    What was published under a key stays apart from the holdout while the rows are dealt as they were.
    """
    settings, gate = run.settings, run.settings.gate
    terms = {
        "classes": crowd.labels.classes.tolist(),
        "features": list(crowd.table.feature_names),
        "standardize": settings.input.standardize,
        "dealt": [settings.seed, gate.holdout, model.validation],
    }
    cell = np.where(rows.holdout, HOLDOUT, DEVELOP)
    partition = partition_of("split", cell, tasks=rows.names)
    size = privacy.max_tasks_per_subject or 1
    prices = model.epsilons.values()
    each = {
        what: price if size == 1 else _share_of(price, size)
        for what, price in model.epsilons.items()
    }
    score = each["score"]
    n_features = _n_trained(model, rows.develop_x.shape[1])
    paid = each["train"], each.get("select", 0.0)
    training = training_of(model, paid, n_features, crowd.labels.n_classes)
    with _numbers_of("[model]"):
        scored = ScoredTraining(_on_components(training, model, each), epsilon_score=score)
    whole = str(sum(map(exact, prices)))

    def query(which: int, name: str, x: np.ndarray, **value: np.ndarray) -> Query:
        mask = rows.holdout == (which == HOLDOUT)
        found = Query(
            dataset=settings.name,
            name=name,
            value={"x": x, **{key: array[mask] for key, array in value.items()}},
            unit=protected_unit(settings, privacy),
            n=int(mask.sum()),
            l1=math.inf,
            part=Part(partition, CELLS[which]),
        )
        return _published(run.publication, found, {"n": found.n}, **terms)

    judge = gate_of(
        gate, sum(map(exact, prices), exact(0)), n=int(rows.holdout.sum()), n_scored=int(rows.training.sum()),
        epsilon_score=score, rows=size,
    )  # fmt: skip
    asked = judge if size == 1 else GroupInteraction(judge, size)
    held = query(HOLDOUT, "holdout rows", rows.holdout_x, y=rows.y)
    with _numbers_of("[gate]"):
        asked.event(held)
    return Learning(
        rows,
        scored if size == 1 else GroupPrivacy(scored, size, whole),
        query(DEVELOP, "rows to train on", rows.develop_x, y=rows.y, validation=rows.validation),
        judge,
        asked,
        held,
    )


def gate_of(
    gate: GateSettings,
    price: Fraction,
    *,
    n: int,
    n_scored: int,
    epsilon_score: float,
    rows: int = 1,
) -> Thresholdout:
    """Return the gate of the settings; with threshold = "auto" the one that costs what training does."""
    if gate.threshold != "auto":
        return Thresholdout(threshold=gate.threshold, sigma=gate.sigma, budget=gate.budget)
    return fitted_gate(
        price,
        n=n,
        n_scored=n_scored,
        epsilon_score=epsilon_score,
        budget=gate.budget,
        rows=rows,
    )


def training_of(
    model: ModelSettings, prices: tuple[float, float], n_features: int, n_classes: int
) -> StabilityValidation | NoisyGradientDescent:
    """Return the training that the settings ask for, or that public numbers choose.

    Where nothing is chosen, the price of the choice is the training's too; where something is that has no
    price of its own, the training's is divided.
    """
    price, delta = sum(map(exact, prices), exact(0)), model.delta_train
    both, chosen = six_digits_down(price), prices if prices[1] else with_choice(price)
    if len(model.regularization) == 1:
        chosen = both, 0.0
    with _numbers_of("[model]"):
        descends = model.method == "noisy_descent" or (
            model.method == "auto"
            and prefers_descent(both, delta, n_features=n_features, n_classes=n_classes)
        )
        if descends:
            return NoisyGradientDescent(both, delta, model.norm_bound, n_classes)
        return StabilityValidation(model.regularization, *chosen, model.norm_bound, n_classes)


@contextmanager
def _numbers_of(section: str) -> Iterator[None]:
    """Name the settings' section whose public numbers a mechanism refuses, before anything is paid."""
    try:
        yield
    except ValueError as error:
        raise SettingsError(f"{section}: {error}") from None


def _n_trained(model: ModelSettings, n_features: int) -> int:
    """Return how many features a model is trained on; refuse as many components as there are features."""
    if model.components is None:
        return n_features
    if not model.components < n_features:
        raise SettingsError(
            "[model]: components must be below the number of features, got "
            f"{model.components} of {n_features}"
        )
    return model.components


def _on_components(
    training: StabilityValidation | NoisyGradientDescent,
    model: ModelSettings,
    prices: Mapping[str, float],
) -> StabilityValidation | NoisyGradientDescent | ReducedTraining:
    """Return the training on private components, where the settings ask for them."""
    if model.components is None:
        return training
    reduction = private_subspace(
        prices["components"], model.delta_components, n_components=model.components
    )
    return ReducedTraining(training, reduction)


def _share_of(price: float, size: int) -> float:
    """Return the price for one record with which `size` of them together stay within a price."""
    return six_digits_down(exact(price) / size)
