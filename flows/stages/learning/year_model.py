"""The model of a planned year: one private training for each cohort, averaged, and a gate of fresh tasks.

Each month's model is judged on the newest cohort: on tasks that it was trained on, and on holdout
tasks that no question has used before. The months' counts of right answers are pooled.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int

from flows.run import Crowd, Run
from flows.settings import ModelSettings, PrivacySettings
from flows.spending import (
    HOLDOUT,
    TRAINING,
    VALIDATION,
    CohortRows,
    dearest,
    learning_features,
    numbers,
    paying,
    plan_year,
    price_of,
    published_size,
)
from flows.stages.stage import counted
from flows.stages.year_counts import unpaid_words
from learners import (
    Bound,
    LinearModel,
    NoisyGradientDescent,
    clopper_pearson_bound,
    fit_linear,
    least,
)
from learners.holdout import PooledVerdict, ScoreCounts, judge_pooled, pooled_error_limit
from privacy import BudgetError, LatticeLaplace, Ledger, Query, Release
from privacy.accounting import exact, price_text

__all__ = [
    "DESCENT", "OBJECTIVE", "ask_fresh_holdout", "known_scales", "train_on_cohorts", "validation_accuracies",
]  # fmt: skip

OBJECTIVE, DESCENT = "objective perturbation", "noisy gradient descent"
TOLERANCE = 0.1  # where threshold = "auto"
N_BOUNDS = 2
TOO_FEW = (
    "no cohort has enough tasks to deal to training, validation and holdout, or counts take the whole "
    "budget"
)


@dataclass(frozen=True, slots=True, eq=False)
class _Trained:
    """What was released of each cohort: the models up to it, averaged, and the counts of right answers."""

    models: tuple[LinearModel, ...]
    training: tuple[Release[Any], ...]
    scores: tuple[Release[Any], ...]
    n_scored: tuple[int, ...]


def train_on_cohorts(run: Run, crowd: Crowd, privacy: PrivacySettings, model: ModelSettings) -> str:
    """Train on every cohort that has not been trained on, and release the average with its score."""
    with paying(run, privacy, n=crowd.labels.n_tasks) as ledger:
        cohorts = plan_year(run, crowd, privacy, ledger).learning
        if not cohorts:
            return run.skip("model.json", TOO_FEW)
        x = learning_features(crowd, cohorts)
        try:
            ledger.afford([one for rows in cohorts for one in rows.requests(x)])
        except BudgetError as error:
            if not privacy.skips_unpaid:
                raise
            return run.skip("model.json", unpaid_words(error))
        found = _train(ledger, cohorts, x, model)
    published, newest, over = found.models[-1], cohorts[-1], counted(len(cohorts), "cohort")
    prices = dearest(rows.year for rows in cohorts)
    scored = _counts(found.scores, found.n_scored, [rows.year.score for rows in cohorts])
    y, use = _classes_and_uses(cohorts)
    seen = validation_accuracies(
        published, x, y, model, crowd.labels.n_classes, training=use == TRAINING,
        judges=use == VALIDATION,
    )  # fmt: skip
    training = max((rows.training for rows in cohorts), key=lambda one: exact(str(one.epsilon)))
    if descends := isinstance(training, NoisyGradientDescent):
        trained, selected = training.epsilon, 0.0
    else:
        trained, selected = training.epsilon_train, training.epsilon_select
    run.write_json(
        "model.json",
        {
            "classes": [str(name) for name in crowd.labels.classes],
            "features": [] if crowd.tasks is None else list(crowd.tasks.feature_names),
            "coef": published.coef.tolist(),
            "norm_bound": model.norm_bound,
            "method": f"{DESCENT if descends else OBJECTIVE}, averaged over {over}",
            "candidates": [],
            "epsilon_train": trained,
            "epsilon_select": selected,
            "epsilon_score": prices.score,
            "delta_train": prices.delta if descends else 0.0,
            "regularization": None,
            "chosen": None,
            "unit": str(newest.unit),
            "arithmetic": found.training[-1].event.arithmetic,
            "n_train": int((use == TRAINING).sum()),
            "n_validation": int((use == VALIDATION).sum()),
            "n_holdout": int((use == HOLDOUT).sum()),
            "train_score": _share(scored),
            "entry": found.training[-1].entry,
            "publication": newest.key,
            "stale": any(one.stale for one in found.training),
            "validation": seen,
        },
    )
    fresh = sum(one.fresh for one in found.training)
    return (
        f"{over}, {fresh} newly trained on, at epsilon "
        f"{price_text(exact(str(training.epsilon)))} per {newest.unit}; "
        f"right on {seen['private']:.1%} of the validation tasks "
        f"({seen['non_private']:.1%} without privacy, {seen['majority_class']:.1%} by the commonest "
        "class)"
    )


def ask_fresh_holdout(
    run: Run, crowd: Crowd, privacy: PrivacySettings, model: ModelSettings
) -> str:
    """Ask the newest cohort's holdout about the model, pool the months' answers, and bound the error."""
    trained, gate = run.read_json("model.json"), run.settings.gate
    if "skipped" in trained:
        run.skip("bounds.json", trained["skipped"])
        return run.skip("gate.json", trained["skipped"])
    with paying(run, privacy, n=crowd.labels.n_tasks) as ledger:
        cohorts = plan_year(run, crowd, privacy, ledger).learning
        x = learning_features(crowd, cohorts)
        found = _train(ledger, cohorts, x, model)  # all of it is released already
        asked = [
            (LatticeLaplace(rows.year.gate), rows.right_query(_right(rows, x, one), HOLDOUT))
            for rows, one in zip(cohorts, found.models, strict=True)
        ]
        answers = [ledger.release(*one) for one in asked]
    sizes = _sizes([query for _, query in asked], answers)
    held = _counts(answers, sizes, [rows.year.gate for rows in cohorts])
    scored = _counts(found.scores, found.n_scored, [rows.year.score for rows in cohorts])
    tolerance = TOLERANCE if gate.threshold == "auto" else gate.threshold
    verdict = judge_pooled(scored, held, tolerance=tolerance)
    facts = _gate_json(verdict, held, cohorts, answers, run.settings.privacy, trained)
    run.write_json("gate.json", facts)
    bounds = _bounds(cohorts, x, found.models[-1], held, gate.confidence)
    bounds = known_scales(bounds) if run.settings.input.standardize else bounds
    best = least(bounds)
    run.write_json(
        "bounds.json",
        {
            "level": gate.confidence,
            "bounds": [asdict(bound) for bound in bounds],
            "least": best.name,
        },
    )
    return (
        f"{verdict.status}; {counted(len(cohorts), 'cohort')} of {counted(held.size, 'fresh task')} pooled, "
        f"gap {verdict.gap:+.3f} of at most {verdict.threshold:.3f}; error on new tasks at most "
        f"{best.value:.1%} ({best.name})"
    )


def _train(
    ledger: Ledger,
    cohorts: Sequence[CohortRows],
    x: Float[np.ndarray, "all features"],
    model: ModelSettings,
) -> _Trained:
    """Release each cohort's model, then its score by the average up to it; what is released stays."""
    training = [ledger.release(rows.training, rows.training_query(x)) for rows in cohorts]
    coefs = np.array([release.value["coef"] for release in training])
    sizes = np.array([rows.n_train for rows in cohorts], dtype=np.float64)
    models = tuple(
        LinearModel(np.average(coefs[:last], axis=0, weights=sizes[:last]), model.norm_bound)
        for last in range(1, len(cohorts) + 1)
    )
    asked = [
        rows.right_query(_right(rows, x, one), TRAINING)
        for rows, one in zip(cohorts, models, strict=True)
    ]
    scores = [
        ledger.release(LatticeLaplace(rows.year.score), query)
        for rows, query in zip(cohorts, asked, strict=True)
    ]
    return _Trained(models, tuple(training), tuple(scores), _sizes(asked, scores))


def _right(
    rows: CohortRows, x: Float[np.ndarray, "all features"], model: LinearModel
) -> Bool[np.ndarray, " tasks"]:
    """Return which of a cohort's rows a model gets right."""
    return np.asarray(model.predict(x[rows.place]) == rows.y)


def _sizes(queries: Sequence[Query], releases: Sequence[Release[Any]]) -> tuple[int, ...]:
    pairs = zip(queries, releases, strict=True)
    return tuple(published_size(query, release) for query, release in pairs)


def _counts(
    releases: Sequence[Release[Any]], sizes: tuple[int, ...], prices: Sequence[float]
) -> ScoreCounts:
    """Return released counts of right answers, each at its price; the noise of their sum has the mean law."""
    right = tuple(int(release.value[0]) for release in releases)
    variances = [LatticeLaplace(price).law(2).variance for price in prices]
    return ScoreCounts(right, sizes, sum(variances) / len(variances))


def _share(counts: ScoreCounts) -> float:
    return min(1.0, max(0.0, counts.share))


def validation_accuracies(
    private: LinearModel,
    x: Float[np.ndarray, "rows features"],
    y: Int[np.ndarray, " rows"],
    model: ModelSettings,
    n_classes: int,
    *,
    training: Bool[np.ndarray, " rows"],
    judges: Bool[np.ndarray, " rows"],
) -> dict[str, Any]:
    """Return exact accuracies on the rows that judge, for the internal report alone.

    They are those of the private model, of one trained without noise, and of the commonest class.
    """
    clear = fit_linear(
        x, y, regularization=min(model.regularization), norm_bound=model.norm_bound,
        n_classes=n_classes, places=np.flatnonzero(training),
    )  # fmt: skip
    commonest = np.bincount(y[training], minlength=n_classes).argmax()
    return {
        "n": int(judges.sum()),
        "private": float((private.predict(x) == y)[judges].mean()),
        "non_private": float((clear.predict(x) == y)[judges].mean()),
        "majority_class": float((y == commonest)[judges].mean()),
    }


def _classes_and_uses(
    cohorts: Sequence[CohortRows],
) -> tuple[Int[np.ndarray, " all"], Int[np.ndarray, " all"]]:
    """Return class codes and uses of all cohorts' rows, in the order of their features."""
    return np.concatenate([one.y for one in cohorts]), np.concatenate([one.use for one in cohorts])


def _gate_json(
    verdict: PooledVerdict,
    held: ScoreCounts,
    cohorts: Sequence[CohortRows],
    answers: Sequence[Release[Any]],
    privacy: PrivacySettings | None,
    trained: dict[str, Any],
) -> dict[str, Any]:
    """Return the answers of fresh holdouts, with the fields of the reusable one; none is asked twice."""
    newest = cohorts[-1]
    planned = 0 if privacy is None else privacy.planned_runs
    return {
        "threshold": round(verdict.threshold, 4),
        "sigma": math.sqrt(held.noise),
        "budget": planned,
        "budget_left": max(0, planned - len(answers)),
        "epsilon": max(rows.year.gate for rows in cohorts),
        "arithmetic": answers[-1].event.arithmetic,
        "unit": str(newest.unit),
        "n": held.size,
        "publication": newest.key,
        "stale": any(answer.stale for answer in answers),
        "question": f"right answers of the model of cohort {newest.key}, and of those before",
        "asked": len(answers),
        "gates": len(answers),
        "refuted_before": 0,
        "status": verdict.status,
        "value": _share(held),
        "train_score": trained["train_score"],
        "pooled": {
            "gap": verdict.gap,
            "deviation": verdict.deviation,
            "right": list(held.right),
            "n": list(held.n),
        },
        "price": numbers(price_of(rows.year for rows in cohorts)),
    }


def _bounds(
    cohorts: Sequence[CohortRows],
    x: Float[np.ndarray, "all features"],
    published: LinearModel,
    held: ScoreCounts,
    confidence: float,
) -> tuple[Bound, ...]:
    """Return bounds on the published model's error: by the newest holdout, and by tasks not yet read."""
    level = 1 - (1 - confidence) / N_BOUNDS
    price = cohorts[-1].year.gate
    width = LatticeLaplace(price).law(2).half_width((1 + level) / 2)
    limit = pooled_error_limit(held.right[-1], held.n[-1], half_width=width, level=level)
    fresh = Bound(
        name="fresh holdout",
        value=limit,
        level=level,
        assumption=f"the {held.n[-1]:,} holdout tasks of the newest cohort are independent draws",
        applies=True,
    )
    if not all(isinstance(rows.training, NoisyGradientDescent) for rows in cohorts):
        return (fresh,)  # validation rows helped to choose each cohort's model
    y, use = _classes_and_uses(cohorts)
    wrong = (published.predict(x) != y)[use == VALIDATION]
    return fresh, clopper_pearson_bound(int(wrong.sum()), wrong.size, level=level)


def known_scales(bounds: tuple[Bound, ...]) -> tuple[Bound, ...]:
    """Return bounds on a model of standardized features, whose scales are those of all tasks."""
    also = "the scales of the features, which are of all tasks, were known beforehand"
    return tuple(
        replace(bound, assumption=f"{bound.assumption}; {also}") if bound.applies else bound
        for bound in bounds
    )
