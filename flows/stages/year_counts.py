"""Class proportions of a planned year: each cohort's counts, released once, and added up over cohorts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
import pyarrow as pa
from jaxtyping import Float, Int

from flows.run import Crowd, Run
from flows.settings import PrivacySettings
from flows.spending import (
    YearReleases,
    count_noise,
    gold_needed,
    numbers,
    paying,
    plan_year,
    price_of,
    published_size,
)
from flows.stages.corrected_shares import Noisy, kurtosis_of_sum, name_of_all, write_shares
from flows.stages.ordered_classes import counted_bands, with_cumulative_shares
from flows.stages.stage import counted
from flows.tables import arrow_table
from privacy import (
    BudgetError,
    LatticeCorrection,
    LatticeLaplace,
    LatticeLaplaceLaw,
    Ledger,
    Mechanism,
    Query,
    Release,
    project_to_simplex,
)
from privacy.accounting import price_text
from privacy.mechanisms import ExactLaw

__all__ = ["publish_year", "skip_counts", "unpaid_words", "year_words"]


def publish_year(run: Run, crowd: Crowd, privacy: PrivacySettings) -> str:
    """Release the counts of every cohort that has not been counted, and publish the sums over cohorts.

    The budget covers the counts, or the stage is skipped; where the settings refuse what is not paid, it
    covers all that the run will ask.
    """
    with paying(run, privacy, n=crowd.labels.n_tasks) as ledger:
        planned = plan_year(run, crowd, privacy, ledger)
        asked, corrected = list(planned.counted()), list(planned.corrected())
        if not privacy.skips_unpaid:
            ledger.afford([*asked, *corrected, *planned.learnt(crowd)])
        try:
            releases = _released(ledger, asked)
        except BudgetError as error:
            if not privacy.skips_unpaid:
                raise
            return skip_counts(run, privacy, error, run.publication or planned.cohorts.keys[-1])
        try:
            corrections, why_not = _released(ledger, corrected), planned.why_uncorrected
        except BudgetError as error:
            corrections, why_not = [], unpaid_words(error)
        released_at = ledger.time_of(*(one.entry for one in releases + corrections))
    sums = _add_up(planned, crowd.labels.n_classes, asked, releases)
    classes = [str(name) for name in crowd.labels.classes]
    table = _table(classes, planned.groups, sums, privacy.level)
    if run.settings.input.order:
        table = with_cumulative_shares(table, counted_bands(table, sums.drawn, privacy.level))
    run.write_table("proportions.parquet", table)
    found = _facts(planned, sums, releases, privacy, len(classes)) | {
        "released_at": released_at,
        "publication": run.publication or planned.cohorts.keys[-1],
    }
    run.write_json("proportions.json", found)
    if corrections:
        correction = _correct(run, planned, privacy, classes, sums, corrected, corrections)
    else:
        correction = ""
        run.skip("corrected_shares.json", why_not)
    fresh, n_groups = sum(one.fresh for one in releases), len(planned.groups)
    return (
        f"{counted(n_groups, 'group')} at epsilon {price_text(planned.asked_at.counts)} per "
        f"{privacy.unit} ({counted(fresh, 'count')} of cohorts newly asked, {len(releases) - fresh:,} "
        f"before), expected error {found['expected_l1_labels']:.1f} labels a group{correction}; "
        f"{year_words(found['year'])}"
    )


def year_words(year: dict[str, Any]) -> str:
    """Say how far a year is used, from the facts that a run has kept."""
    left = year["planned"] - year["used"]
    wait = "waits" if year["waiting"] == 1 else "wait"
    waiting = f"; {counted(year['waiting'], 'task')} {wait} for the next" if year["waiting"] else ""
    return f"year: {year['planned']} runs paid for, {year['used']} used, {left} left{waiting}"


def skip_counts(
    run: Run, privacy: PrivacySettings, error: BudgetError, publication: str | None
) -> str:
    """Write why the counts are skipped, with the terms that the pages state of what else is released."""
    why_not = unpaid_words(error)
    run.skip("corrected_shares.json", why_not)
    budget = {"epsilon": privacy.epsilon, "delta": privacy.delta}
    terms = {"publication": publication, "unit": str(privacy.unit), "budget": budget}
    return run.skip("proportions.json", why_not, **terms)


def unpaid_words(error: BudgetError) -> str:
    """Say why a stage is skipped that the budget does not cover."""
    return (
        f"what is left of the budget, epsilon {price_text(error.left.epsilon, left=True)}, does not "
        f"cover the epsilon {price_text(error.asked.epsilon)} that this asks; the run goes on without"
    )


def _released(ledger: Ledger, asked: Sequence[tuple[Mechanism, Query]]) -> list[Release[Any]]:
    """Release requests in order, those of one mechanism together; all of them, or none."""
    ledger.afford(asked)
    found: list[Release[Any]] = []
    while len(found) < len(asked):
        mechanism, alike = asked[len(found)][0], []
        for one, query in asked[len(found) :]:
            if one != mechanism:
                break
            alike.append(query)
        found += ledger.release_all(mechanism, alike)
    return found


@dataclass(frozen=True, slots=True, eq=False)
class _Sums:
    """Counts added up over cohorts, with the exact law of the noise of each group's sum."""

    noisy: Int[np.ndarray, "groups classes"]
    sizes: Int[np.ndarray, " groups"]
    laws: tuple[ExactLaw, ...]
    entry: Int[np.ndarray, " groups"]
    drawn: tuple[list[LatticeLaplaceLaw], ...]

    @property
    def variances(self) -> Float[np.ndarray, " groups"]:
        """Variance of each noisy count."""
        return np.array([law.variance for law in self.laws])

    @property
    def covariances(self) -> Float[np.ndarray, "groups classes classes"]:
        """Covariance of each group's noisy counts, which add up to the public size."""
        k = self.noisy.shape[1]
        found: np.ndarray = self.variances[:, None, None] * k / (k - 1) * (np.eye(k) - 1 / k)
        return found


def _add_up(
    planned: YearReleases,
    k: int,
    counted: Sequence[tuple[LatticeLaplace, Query]],
    releases: Sequence[Release[Any]],
) -> _Sums:
    """Add up the counts of each group's cohorts."""
    n_groups = len(planned.groups)
    noisy, sizes = np.zeros((n_groups, k), dtype=np.int64), np.zeros(n_groups, dtype=np.int64)
    entry, drawn = np.zeros(n_groups, dtype=np.int64), [list[float]() for _ in range(n_groups)]
    for place, (mechanism, query), release in zip(planned.place, counted, releases, strict=True):
        noisy[place] += np.array(release.value)
        sizes[place] += published_size(query, release)
        entry[place] = max(entry[place], release.entry)
        drawn[place].append(mechanism.epsilon)
    one = {price: LatticeLaplace(price).law(k) for prices in drawn for price in prices}
    keys = [tuple(sorted(prices)) for prices in drawn]
    laws: dict[float, ExactLaw] = dict(one)
    sums = {key: reduce(ExactLaw.plus, (laws[price] for price in key)) for key in set(keys)}
    parts = tuple([one[price] for price in key] for key in keys)
    return _Sums(noisy, sizes, tuple(sums[key] for key in keys), entry, parts)


def _facts(
    planned: YearReleases,
    sums: _Sums,
    releases: Sequence[Release[Any]],
    privacy: PrivacySettings,
    n_classes: int,
) -> dict[str, Any]:
    """Return the run's facts about all groups; the widest noise stands for all."""
    widest = int(np.argmax(sums.variances))
    law, noise, price = (
        sums.laws[widest], count_noise(privacy, n_classes), planned.asked_at.counts,
    )  # fmt: skip
    return {
        "mechanism": noise.name,
        "reason": (
            f"each cohort of tasks is counted once, at epsilon {price_text(price)}"
            f"{' at most' * (len({one.counts for one in planned.years}) > 1)}; the noise of up to "
            f"{counted(int(planned.draws.max()), 'cohort')} adds up in a group"
        ),
        "epsilon": price,
        "delta": 0.0,
        "arithmetic": releases[0].event.arithmetic,
        "half_width_labels": law.half_width(privacy.level),
        "expected_l1_labels": law.expected_l1,
        "noise": {
            "law": f"{noise.described()['law']}; one such z for each cohort, added up",
            "scale": law.scale,
            "variance": law.variance,
            "covariance": sums.covariances[widest].tolist(),
            "variances": sums.variances.tolist(),
        },
        "n_stale": sum(one.stale for one in releases),
        "unit": str(privacy.unit),
        "level": privacy.level,
        "budget": {"epsilon": privacy.epsilon, "delta": privacy.delta},
        "year": {
            "planned": privacy.planned_runs,
            "used": len(planned.cohorts.keys),
            "waiting": planned.waiting,
            "price": numbers(price_of(planned.years)),
        },
    }


def _table(classes: list[str], groups: Iterable[str], sums: _Sums, level: float) -> pa.Table:
    """Return a row per group and class, as for a single release; `entry` is that of the newest cohort."""
    k, n = len(classes), sums.sizes
    noisy = sums.noisy.astype(np.float64)
    shares = [project_to_simplex(row, total=float(m)) / m for row, m in zip(noisy, n, strict=True)]
    width = np.array([law.half_width(level) for law in sums.laws])
    low, high = (np.clip((noisy + side * width[:, None]) / n[:, None], 0, 1) for side in (-1, 1))
    return arrow_table(
        {
            "group": [name for name in groups for _ in classes],
            "class": classes * n.size,
            "n": np.repeat(n, k),
            "noisy_count": sums.noisy.ravel(),
            "proportion": np.concatenate(shares),
            "low": low.ravel(),
            "high": high.ravel(),
            "entry": np.repeat(sums.entry, k),
        }
    )


def _correct(
    run: Run,
    planned: YearReleases,
    privacy: PrivacySettings,
    classes: list[str],
    sums: _Sums,
    asked: Sequence[tuple[LatticeCorrection, Query]],
    releases: Sequence[Release[Any]],
) -> str:
    """Write the shares of all groups together, corrected by the gold of all cohorts."""
    k = len(classes)
    pairs = list(zip(asked, releases, strict=True))
    n_gold = sum(published_size(query, release) for (_, query), release in pairs)
    laws = [mechanism.law(k) for mechanism, _ in asked]
    known = Noisy(
        sums.noisy.sum(axis=0).astype(np.float64),
        np.sum([release.value[0] for release in releases], axis=0).astype(np.float64),
        float(sum(release.value[1][1] for release in releases)),
        int(sums.sizes.sum()),
        n_gold,
        sums.covariances.sum(axis=0),
        np.sum([law.covariance for law in laws], axis=0),
        *(
            kurtosis_of_sum(
                np.array([law.variance for law in of]), np.array([law.kurtosis for law in of])
            )
            for of in (sums.laws, laws)
        ),
    )
    name = name_of_all(planned.groups)
    facts = {"n_needed": gold_needed(asked[-1][0], k), "apart": False}
    return write_shares(
        run, privacy, classes, {name: known}, releases, facts,
        epsilon=planned.asked_at.correction, n_gold=n_gold,
    )  # fmt: skip
