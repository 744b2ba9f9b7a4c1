"""The releases of a planned year: every cohort is asked once, under its own key and at its own prices.

A task is in one cell of each of three partitions: (cohort, group) for the counts, (cohort) for corrections by
gold, (cohort, training or holdout) for learning. So a year costs what one cohort costs.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from jaxtyping import Bool, Float, Int

from flows.run import Crowd, Run
from flows.settings import PrivacySettings, Settings, SettingsError
from flows.spending.cohorts import (
    CORRECTED,
    COUNTED,
    SPLIT,
    Cohorts,
    check_record_beside_ledger,
    join_cohorts,
)
from flows.spending.corrections import why_not_corrected
from flows.spending.learning_rows import deal
from flows.spending.releases import consensus_label, learned_label, protected_unit, training_of
from flows.spending.year import Year, dearest, year_of
from learners import NoisyGradientDescent, StabilityValidation
from privacy import (
    LatticeCorrection,
    LatticeLaplace,
    Ledger,
    Mechanism,
    Part,
    Publication,
    Query,
    Unit,
    class_counts,
    gold_corrections,
)

__all__ = [
    "HOLDOUT", "TRAINING", "VALIDATION", "CohortRows", "YearReleases", "learning_features", "plan_year",
]  # fmt: skip

TRAINING, VALIDATION, HOLDOUT = 0, 1, 2  # what a task is used for


@dataclass(frozen=True, slots=True, eq=False)
class CohortRows:
    """A cohort's rows for learning: what trains on them, and the queries about them, each asked once.

    `task` are its labelled tasks, those that the training reads first, `y` and `use` their classes and uses.
    Features come as an argument `x`, the `learning_features` of all cohorts, of which this one's stand at
    `place`; `terms` give the values their public meaning.
    """

    key: str
    year: Year
    training: StabilityValidation | NoisyGradientDescent
    place: slice
    task: Int[np.ndarray, " tasks"]
    y: Int[np.ndarray, " tasks"]
    use: Int[np.ndarray, " tasks"]
    dataset: str
    unit: Unit
    terms: str

    @property
    def n_train(self) -> int:
        """Rows that are trained on."""
        return int((self.use == TRAINING).sum())

    def training_query(self, x: Float[np.ndarray, "all features"]) -> Query:
        """Return the rows to train on; with those of validation where the training chooses."""
        n = int(_reads(self.training, self.use).sum())
        use = self.use[:n]
        value = {"x": x[self.place][:n], "y": self.y[:n]}
        if isinstance(self.training, StabilityValidation):
            value["validation"] = use == VALIDATION
        return self._query("rows to train on", value, n, math.inf, "develop")

    def right_query(self, right: Bool[np.ndarray, " tasks"] | None, use: int) -> Query:
        """Return how many rows of one use are right, of all that are; None for the price alone."""
        own = self.use == use
        n, n_right = int(own.sum()), 0 if right is None else int(np.count_nonzero(right[own]))
        name, cell = ("training", "develop") if use == TRAINING else ("holdout", "holdout")
        # a replaced row moves one from right to wrong or back: 2 in l1 norm, as for class counts
        return self._query(f"right on {name} rows", np.array([n_right, n - n_right]), n, 2.0, cell)

    def requests(self, x: Float[np.ndarray, "all features"]) -> list[tuple[Mechanism, Query]]:
        """Return all that the cohort's rows are asked, by price."""
        return [
            (self.training, self.training_query(x)),
            (LatticeLaplace(self.year.score), self.right_query(None, TRAINING)),
            (LatticeLaplace(self.year.gate), self.right_query(None, HOLDOUT)),
        ]

    def _query(
        self, name: str, value: dict[str, np.ndarray] | np.ndarray, n: int, l1: float, cell: str
    ) -> Query:
        part, facts = Part(SPLIT, f"{self.key}: {cell}"), json.dumps({"n": n})
        published = Publication(self.key, self.terms, facts)
        return Query(self.dataset, name, value, self.unit, n, l1, part, published)


@dataclass(frozen=True, eq=False)
class YearReleases:
    """All that the cohorts so far are asked.

    `counts` and `corrections` are (cohort, query) pairs, `place` the number of each count's group among
    `groups`; `waiting` is how many labelled tasks are in no cohort yet.
    """

    cohorts: Cohorts
    year: Year
    years: tuple[Year, ...]
    groups: tuple[str, ...]
    counts: tuple[tuple[int, Query], ...]
    place: Int[np.ndarray, " queries"]
    corrections: tuple[tuple[int, Query], ...]
    why_uncorrected: str
    learning: tuple[CohortRows, ...]
    waiting: int

    @property
    def asked_at(self) -> Year:
        """The highest of each price at which a cohort so far is asked: what a page may state."""
        return dearest(self.years)

    @cached_property
    def draws(self) -> Int[np.ndarray, " groups"]:
        """How many cohorts each group's counts add up."""
        return np.bincount(self.place, minlength=len(self.groups))

    def counted(self) -> Iterator[tuple[LatticeLaplace, Query]]:
        """Yield the requests for counts."""
        for cohort, query in self.counts:
            yield LatticeLaplace(self.years[cohort].counts), query

    def corrected(self) -> Iterator[tuple[LatticeCorrection, Query]]:
        """Yield the requests for corrections by gold."""
        for cohort, query in self.corrections:
            yield LatticeCorrection(self.years[cohort].correction), query

    def learnt(self, crowd: Crowd) -> list[tuple[Mechanism, Query]]:
        """Return the requests of training, score and gate, about the campaign's features."""
        if not self.learning:
            return []
        x = learning_features(crowd, self.learning)
        return [one for rows in self.learning for one in rows.requests(x)]


def plan_year(run: Run, crowd: Crowd, privacy: PrivacySettings, ledger: Ledger) -> YearReleases:
    """Assign new tasks to a cohort, durably, and plan what every cohort is asked.

    Raises
    ------
    SettingsError
        If the settings plan no year, the ledger is on a server, no group is large enough, or prices buy no
        training. No cohort is used up then.
    BudgetError, LedgerError
        As `join_cohorts`.
    """
    settings, year = run.settings, year_of(run.settings)
    if year is None:
        raise SettingsError("[privacy]: planned_runs must be above 1 for a year")
    check_record_beside_ledger()
    names, group = crowd.labelled_groups()

    def check(grown: Cohorts) -> None:
        """Raise what a run is refused for, before it uses up one of the planned cohorts."""
        _published_tasks(grown, crowd, privacy)
        if year.train and _learns(crowd, settings):
            _training(year, crowd, settings)

    cohorts = join_cohorts(
        settings.state, ledger, settings.name, task=crowd.labels.tasks, group=names[group],
        use=_uses(crowd, settings), key=run.publication, at_most=privacy.planned_runs,
        prices=year.text(), waits=privacy.skips_unpaid, check=check,
    )  # fmt: skip
    label, years = consensus_label(run, crowd), cohorts.years()
    counts, place, groups = _count_queries(label, crowd, settings, privacy, cohorts)
    corrections = _correction_queries(label, crowd, settings, privacy, cohorts, years, groups)
    why_not = why_not_corrected(settings)
    return YearReleases(
        cohorts, year, years, groups, counts, place,
        () if isinstance(corrections, str) else corrections,
        why_not or (corrections if isinstance(corrections, str) else ""),
        _learning(learned_label(run, crowd), crowd, settings, privacy, cohorts, years),
        int(np.count_nonzero(cohorts.cohort < 0)),
    )  # fmt: skip


def _uses(crowd: Crowd, settings: Settings) -> Int[np.ndarray, " tasks"]:
    """Return what each task would be used for if it joined now."""
    share = 0.2 if settings.model is None else settings.model.validation
    held, validated = deal(
        crowd.labels.tasks, seed=settings.seed, holdout=settings.gate.holdout, validation=share
    )
    return np.where(held, HOLDOUT, np.where(validated, VALIDATION, TRAINING)).astype(np.int64)


def _count_queries(
    label: np.ndarray, crowd: Crowd, settings: Settings, privacy: PrivacySettings, cohorts: Cohorts
) -> tuple[tuple[tuple[int, Query], ...], np.ndarray, tuple[str, ...]]:
    """Return class counts of each cohort in each group that is large enough."""
    joined, of_task, groups = _published_tasks(cohorts, crowd, privacy)
    pairs = np.stack([cohorts.cohort[joined], of_task])
    cells, code = np.unique(pairs, axis=1, return_inverse=True)
    called = [f"{cohorts.keys[c]}: {groups[g]}" for c, g in cells.T]
    queries = class_counts(
        label[joined], code.ravel(), dataset=settings.name, n_classes=crowd.labels.n_classes,
        n_groups=len(called), group_names=called, unit=privacy.unit,
        local=settings.consensus_is_local, tasks=crowd.labels.tasks[joined],
    )  # fmt: skip
    terms = json.dumps({"classes": crowd.labels.classes.tolist()})
    found = tuple(
        (int(c), _published(query, cohorts.keys[c], Part(COUNTED, name), terms))
        for query, name, c in zip(queries, called, cells[0], strict=True)
    )
    return found, cells[1], groups


def _published_tasks(
    cohorts: Cohorts, crowd: Crowd, privacy: PrivacySettings
) -> tuple[Int[np.ndarray, " some"], Int[np.ndarray, " some"], tuple[str, ...]]:
    """Return the tasks in a cohort and in a group that is large enough, their groups, and these by name.

    Raises SettingsError if there is none.
    """
    joined = np.flatnonzero(cohorts.cohort >= 0)
    names, of_task = np.unique(cohorts.group[joined], return_inverse=True)
    large = np.bincount(of_task, minlength=names.size) >= privacy.min_group_size
    known = large & np.isin(names, crowd.group_names)
    if not known.any():
        raise SettingsError(
            f"[privacy]: min_group_size must leave a group to publish, got {privacy.min_group_size}"
        )
    kept, place = known[of_task], np.cumsum(known) - 1
    return joined[kept], place[of_task[kept]], tuple(names[known].tolist())


def _correction_queries(
    label: np.ndarray, crowd: Crowd, settings: Settings, privacy: PrivacySettings,
    cohorts: Cohorts, years: tuple[Year, ...], published: tuple[str, ...],
) -> tuple[tuple[int, Query], ...] | str:  # fmt: skip
    """Return corrections by gold of cohorts that have some, each of all published groups, or why not.

    Gold of other groups says nothing of the shares that are corrected.
    """
    why_not = why_not_corrected(settings)
    if why_not is not None:
        return why_not
    if settings.input.gold_sampling == "stratified" and len(published) > 1:
        return "stratified gold corrects each group by itself, which planned_runs does not offer"
    names, group = crowd.labelled_groups()
    counts = np.isin(cohorts.group, published)
    gold, found = np.where(counts, crowd.gold_code(), -1).astype(np.int64), []
    terms = json.dumps({"classes": crowd.labels.classes.tolist()})
    for cohort, key in enumerate(cohorts.keys):
        own = np.where(cohorts.cohort == cohort, gold, -1)
        if not (own >= 0).any() or not years[cohort].correction:
            continue
        (query,) = gold_corrections(
            label, own, group, dataset=settings.name, n_classes=crowd.labels.n_classes,
            group_names=tuple(names.tolist()), unit=privacy.unit,
            local=settings.consensus_is_local, tasks=crowd.labels.tasks, max_tasks=1, apart=False,
        )  # fmt: skip
        found.append((cohort, _published(query, key, Part(CORRECTED, key), terms)))
    return tuple(found) or "no task of a cohort has gold in a published group"


def _published(query: Query, key: str, part: Part, terms: str) -> Query:
    facts = json.dumps({"n": query.n})
    return replace(query, part=part, publication=Publication(key, terms, facts))


def _learning(
    label: np.ndarray, crowd: Crowd, settings: Settings, privacy: PrivacySettings,
    cohorts: Cohorts, years: tuple[Year, ...],
) -> tuple[CohortRows, ...]:  # fmt: skip
    """Return the rows of each cohort that can train a model and judge it."""
    if not _learns(crowd, settings):
        return ()
    found, first = list[CohortRows](), 0
    terms = json.dumps(
        {
            "classes": crowd.labels.classes.tolist(),
            "features": list(crowd.table.feature_names),
            "standardize": settings.input.standardize,
        }
    )
    for cohort, (key, year) in enumerate(zip(cohorts.keys, years, strict=True)):
        task = np.flatnonzero(cohorts.cohort == cohort)
        use = cohorts.use[task]
        enough = all((use == one).any() for one in (TRAINING, VALIDATION, HOLDOUT))
        if not year.train or not enough:
            continue
        training = _training(year, crowd, settings)
        order = np.argsort(~_reads(training, use), kind="stable")
        task, use, last = task[order], use[order], first + task.size
        found.append(
            CohortRows(
                key, year, training, slice(first, last), task, label[task], use, settings.name,
                protected_unit(settings, privacy), terms,
            )
        )  # fmt: skip
        first = last
    return tuple(found)


def _learns(crowd: Crowd, settings: Settings) -> bool:
    """Return whether there is a model to train, and features to train it on."""
    tasks = crowd.tasks
    return settings.model is not None and tasks is not None and bool(tasks.feature_names)


def _training(
    year: Year, crowd: Crowd, settings: Settings
) -> StabilityValidation | NoisyGradientDescent:
    """Return the training at a year's prices; SettingsError where they buy no noise."""
    if settings.model is None:
        raise ValueError("settings must have a model to train")
    priced = settings.model.model_copy(update={"delta_train": year.delta})
    n_features, n_classes = len(crowd.table.feature_names), crowd.labels.n_classes
    return training_of(priced, (year.train, year.select), n_features, n_classes)


def _reads(
    training: StabilityValidation | NoisyGradientDescent, use: Int[np.ndarray, " tasks"]
) -> Bool[np.ndarray, " tasks"]:
    """Return rows that a training reads: those of validation too, where it chooses."""
    chooses = isinstance(training, StabilityValidation)
    found: np.ndarray = use != HOLDOUT if chooses else use == TRAINING
    return found


def learning_features(
    crowd: Crowd, cohorts: Sequence[CohortRows]
) -> Float[np.ndarray, "all features"]:
    """Return the features of the cohorts' rows, one cohort after the other; on shards pages of a file."""
    (x,) = crowd.features_of(np.concatenate([rows.task for rows in cohorts]))
    return x
