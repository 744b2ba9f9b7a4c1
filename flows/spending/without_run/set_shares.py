"""Shares of classes of which several hold at once, published under differential privacy.

A task's consensus counts with at most `max_labels` of its classes, the likeliest, which bounds what one
task can move. The campaign's budget is declared by its first publication; every publication is paid before
it is drawn, and stays as it was drawn.

>>> publish_set_shares(Path("state"), probability, tasks, classes, groups, terms)  # doctest: +SKIP
SetShares(groups=('all',), classes=('cat', 'dog'), ...)
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float64, Int64, Shaped

from flows.settings import SettingsError
from flows.spending.account import open_state, server_url
from flows.spending.partitions import grow_partition
from flows.spending.without_run.campaign_terms import (
    PublicationTerms,
    check_terms,
    noise_of,
    open_campaign,
)
from privacy import (
    Cost,
    LatticeLaplace,
    Ledger,
    Part,
    Publication,
    Query,
    Unit,
    bounded_labels,
    label_set_counts,
)
from privacy.query import ONE_TASK

__all__ = ["SetShares", "publish_set_shares"]

UNIT = Unit.CONSENSUS_LABEL  # the model finds a task's classes from all answers together


@dataclass(frozen=True, slots=True, eq=False)
class SetShares:
    """A publication: noisy counts, and the share of each group's tasks for which each class holds.

    Parameters
    ----------
    terms, max_labels, threshold
        What it was asked for.
    groups, classes
        Names of rows and columns.
    n
        Tasks of each group, as published.
    noisy, share, low, high
        Released counts; shares in [0, 1], and the ends of intervals that cover the noise.
    half_width, scale
        By how many tasks a count errs at most, at the level; scale of the noise.
    budget, spent
        The campaign's budget, and what of it is spent.
    unit, arithmetic
        What a price protects, and how the noise was drawn.
    n_paid_before, n_stale
        Groups whose counts were drawn by an earlier call, and those of which the data are others now.
    n_left_out
        Classes beyond the bound that do not count, over all tasks; **private**.
    """

    terms: PublicationTerms
    max_labels: int
    threshold: float
    groups: tuple[str, ...]
    classes: tuple[str, ...]
    n: Int64[np.ndarray, " groups"]
    noisy: Int64[np.ndarray, "groups classes"]
    share: Float64[np.ndarray, "groups classes"]
    low: Float64[np.ndarray, "groups classes"]
    high: Float64[np.ndarray, "groups classes"]
    half_width: int
    scale: float
    budget: Cost
    spent: float
    unit: str
    arithmetic: str
    n_paid_before: int
    n_stale: int
    n_left_out: int

    def public(self) -> dict[str, Any]:
        """Return released values and public facts, by name: all that a page or a file may show.

        Whether counts were paid before, or are of older data, depends on the answers where there is no key.
        """
        rows = [
            {
                "group": group, "class": name, "n": int(self.n[g]), "noisy_count": int(self.noisy[g, c]),
                "share": float(self.share[g, c]), "low": float(self.low[g, c]),
                "high": float(self.high[g, c]),
            }
            for g, group in enumerate(self.groups)
            for c, name in enumerate(self.classes)
        ]  # fmt: skip
        terms = self.terms
        return {
            "name": terms.campaign, "publication": terms.publication, "epsilon": terms.epsilon,
            "delta": 0.0, "budget": float(self.budget.epsilon),
            "budget_delta": float(self.budget.delta), "unit": self.unit, "level": terms.level,
            "max_labels": self.max_labels, "threshold": self.threshold,
            "mechanism": "lattice Laplace", "scale": self.scale, "arithmetic": self.arithmetic,
            "half_width_labels": self.half_width, "rows": rows,
        }  # fmt: skip


def publish_set_shares(
    state: Path,
    probability: Float64[np.ndarray, "tasks classes"],
    tasks: Shaped[np.ndarray, " tasks"],
    classes: Sequence[str],
    groups: Shaped[np.ndarray, " tasks"],
    terms: PublicationTerms,
    *,
    max_labels: int,
    threshold: float = 0.5,
) -> SetShares:
    """Pay for each group's counts of classes, draw them and return the shares; or return what was drawn.

    Parameters
    ----------
    state
        Folder with the ledger, made if it is missing.
    probability
        That each class holds for each task by the consensus, private.
    tasks, classes, groups
        Names of tasks, of classes and of each task's group; **public**, none found in the answers.
    terms
        What is asked for.
    max_labels
        The most classes of a task that count; chosen without looking at the answers.
    threshold
        A class holds where its probability is above this.

    Raises
    ------
    SettingsError
        If the campaign has no budget and none is given, has another, or should have begun and has not;
        if a term is out of its range, or price and level give no interval; if there is no task, or classes
        are not different names, one for each column.
    BudgetError
        If what is left does not cover the price; nothing is spent or drawn then.
    LedgerError, UnitError
        As `Ledger.release`, such as for a key that has published with another bound or threshold.

    Notes
    -----
    **Guarantees.** All groups are paid before the first is drawn, or none. Under a key what was published
    comes back, whatever the answers are now. Tasks may join; while none changes its group, a group's
    publications add up and groups compose in parallel.
    **Privacy.** `label_set_counts` has the proof. What is returned depends on the answers through the
    released counts alone, but for `n_left_out` and, without a key, for whether they were paid before.
    """
    check_terms(terms)
    if not 1 <= max_labels <= len(classes):
        raise SettingsError(
            f"--max-labels must be from 1 to the number of classes, {len(classes)}, got {max_labels}"
        )
    if not len(tasks):
        raise SettingsError("there must be a task with its classes, got none; nothing was spent")
    if probability.shape[1:] != (len(set(classes)),) or len(set(classes)) != len(classes):
        raise SettingsError(
            f"classes must be different names, one for each column, got {len(classes)} names for a table of "
            f"shape {probability.shape}; nothing was spent"
        )
    groups = np.asarray(groups).astype(np.str_)  # as the record of groups keeps them
    law, half_width = noise_of(terms, len(classes) + 1, l1=ONE_TASK * max_labels)
    chosen = bounded_labels(probability, threshold=threshold, max_labels=max_labels)
    names, code = np.unique(groups, return_inverse=True)
    queries = label_set_counts(
        chosen, code, dataset=terms.campaign, group_names=names.tolist(), max_labels=max_labels,
        unit=UNIT, local=False, tasks=tasks,
    )  # fmt: skip
    size = np.bincount(code)
    ledger = open_state(state)
    budget = open_campaign(ledger, state, terms, unit=UNIT, n=len(tasks))
    queries = _in_growing_partition(
        queries, state, ledger, terms.campaign, tasks, groups, max_labels
    )
    meaning = json.dumps({"classes": list(classes), "threshold": threshold})
    if terms.publication is not None:
        keys = (
            Publication(terms.publication, meaning, json.dumps({"n": n})) for n in size.tolist()
        )
        queries = tuple(
            replace(query, publication=key) for query, key in zip(queries, keys, strict=True)
        )
    releases = ledger.release_all(LatticeLaplace(terms.epsilon), queries)
    facts = [json.loads(one.facts)["n"] if one.facts else None for one in releases]
    n = np.array([now if n is None else n for n, now in zip(facts, size.tolist(), strict=True)])
    noisy = np.array([one.value for one in releases], dtype=np.int64)[:, :-1]
    low, share, high = (
        np.clip((noisy + moved) / n[:, np.newaxis], 0.0, 1.0)
        for moved in (-half_width, 0, half_width)
    )
    return SetShares(
        terms, max_labels, threshold, tuple(names.tolist()), tuple(classes), n, noisy, share, low, high,
        half_width, law.scale, budget,
        float(ledger.statement(terms.campaign, entries=0).spent.epsilon), str(UNIT),
        releases[0].event.arithmetic, sum(not one.fresh for one in releases),
        sum(one.stale for one in releases), int((probability > threshold).sum() - chosen.sum()),
    )  # fmt: skip


def _in_growing_partition(
    queries: tuple[Query, ...],
    state: Path,
    ledger: Ledger,
    campaign: str,
    tasks: Shaped[np.ndarray, " tasks"],
    groups: Shaped[np.ndarray, " tasks"],
    max_labels: int,
) -> tuple[Query, ...]:
    """Return the same queries in the partition that grows as tasks join.

    With a ledger on a server, where state folders may be several, each assignment is its own partition.
    """
    parts = [query.part for query in queries if query.part is not None]
    if server_url() is not None:
        return queries
    partition = grow_partition(
        state,
        ledger,
        campaign,
        task=tasks,
        group=groups,
        exact=parts[0].partition,
        records=max_labels,
    )
    return tuple(
        replace(query, part=Part(partition, part.name))
        for query, part in zip(queries, parts, strict=True)
    )
