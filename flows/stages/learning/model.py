"""A model trained and tuned under differential privacy, and judged through the reusable holdout."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np

from flows.run import Crowd, Run, load_crowd
from flows.settings import GateSettings, ModelSettings, PrivacySettings
from flows.spending import Learning, paying, plan_learning, published_size
from flows.stages.learning.class_ratios import why_no_features
from flows.stages.learning.year_model import (
    DESCENT,
    OBJECTIVE,
    ask_fresh_holdout,
    known_scales,
    train_on_cohorts,
    validation_accuracies,
)
from flows.stages.publication import published, why_no_release
from flows.stages.stage import counted
from flows.stages.year_counts import unpaid_words
from learners import (
    Bound,
    GateAnswer,
    LinearModel,
    NoisyGradientDescent,
    ReducedTraining,
    ScoredTraining,
    agreeing_holdout_bound,
    clopper_pearson_bound,
    least,
    private_holdout_bound,
    transfer_bound,
)
from privacy import BudgetError, GroupPrivacy, Question, Release
from privacy.accounting import exact, level_text, price_text

__all__ = ["ask_holdout", "bound_verdict", "gate_verdict", "model_verdict", "train_privately"]

N_BOUNDS = 4


def train_privately(run: Run) -> str:
    """Train and tune a model under differential privacy; release it with its training score."""
    run.waits_for("the campaign as it was read")
    crowd = load_crowd(run.folder)
    planned = _planned(run, crowd)
    if planned is not None:
        return train_on_cohorts(run, crowd, *planned)
    prepared = _prepared(run, crowd)
    if isinstance(prepared, str):
        return run.skip("model.json", prepared)
    learning, privacy, model = prepared
    run.waits_for("the model that is trained privately")
    with paying(run, privacy, n=crowd.labels.n_tasks) as ledger:
        try:
            release = ledger.release(learning.mechanism, learning.training)
        except BudgetError as error:
            if not privacy.skips_unpaid:
                raise
            return run.skip("model.json", unpaid_words(error))
    drawn, rows = release.value, learning.rows
    run.waits_for("the model without privacy, to compare with")
    seen = validation_accuracies(
        LinearModel(np.asarray(drawn["coef"]), model.norm_bound), rows.develop_x, rows.develop_y, model,
        crowd.labels.n_classes, training=~rows.judges, judges=rows.judges,
    )  # fmt: skip
    run.write_json(
        "model.json",
        {
            "classes": [str(name) for name in crowd.labels.classes],
            "features": [] if crowd.tasks is None else list(crowd.tasks.feature_names),
            "coef": drawn["coef"],
            "norm_bound": model.norm_bound,
            **_terms(learning, model),
            "regularization": drawn.get("regularization"),
            "chosen": drawn.get("chosen"),
            "unit": str(learning.training.unit),
            "arithmetic": release.event.arithmetic,
            "n_train": int(rows.training.sum()),
            "n_validation": int(rows.validation.sum()),
            "n_holdout": int(rows.holdout.sum()),
            "train_score": drawn["score"],
            "entry": release.entry,
            "publication": run.publication,
            "stale": release.stale,
            "validation": seen,
        },
    )
    price, delta = learning.mechanism.epsilon, release.event.cost().delta
    also = f", delta {price_text(delta)}" if delta else ""
    return (
        f"epsilon {price_text(price)}{also} per {learning.training.unit}; "
        f"right on {seen['private']:.1%} of the validation tasks "
        f"({seen['non_private']:.1%} without privacy, {seen['majority_class']:.1%} by the commonest class)"
    )


def ask_holdout(run: Run) -> str:
    """Ask the reusable holdout whether the training score holds, and bound the model's true error.

    The question's name is that of the model's entry in the ledger, which no other model has.
    """
    crowd = load_crowd(run.folder)
    planned = _planned(run, crowd)
    if planned is not None:
        return ask_fresh_holdout(run, crowd, *planned)
    prepared = _prepared(run, crowd)
    if isinstance(prepared, str):
        return _skip_gate(run, prepared)
    learning, privacy, model = prepared
    run.waits_for("the holdout's answer")
    trained, gate, rows = run.read_json("model.json"), run.settings.gate, learning.rows
    if "skipped" in trained:
        return _skip_gate(run, trained["skipped"])
    linear = LinearModel(np.asarray(trained["coef"]), model.norm_bound)
    right = linear.predict(rows.holdout_x) == rows.y[rows.holdout]
    question = Question(
        name=f"accuracy of the model of entry {trained['entry']}",
        value={"train": trained["train_score"], "holdout": right},
    )
    with paying(run, privacy, n=crowd.labels.n_tasks) as ledger:
        try:
            release = ledger.interact(learning.asked, learning.holdout, question)
        except BudgetError as error:
            if not privacy.skips_unpaid:
                raise
            return _skip_gate(run, unpaid_words(error))
    answer, n = GateAnswer.from_json(release.value), published_size(learning.holdout, release)
    found = _gate_json(answer, n, release, learning, gate, question.name, trained)
    run.write_json("gate.json", found)
    standardize = run.settings.input.standardize
    of_one = privacy.max_tasks_per_subject or 1
    bounds = _bounds(
        answer, n, trained, learning, gate, model, standardize=standardize, of_one=of_one
    )
    best, listed = least(bounds), [asdict(bound) for bound in bounds]
    facts = {"level": gate.confidence, "bounds": listed, "least": best.name}
    run.write_json("bounds.json", facts)
    before = _refuted_before(found["refuted_before"])
    return (
        f"{answer.status}; {answer.budget_left} of {counted(gate.budget, 'refutation')} left{before}; "
        f"error on new tasks at most {best.value:.1%} ({best.name})"
    )


def _skip_gate(run: Run, reason: str) -> str:
    run.skip("bounds.json", reason)
    return run.skip("gate.json", reason)


def model_verdict(found: dict[str, Any]) -> str:
    """Say what privacy cost the model, from `model.json`."""
    seen = found["validation"]
    return (
        f"{seen['private']:.1%} on {counted(seen['n'], 'validation task')}; {seen['non_private']:.1%} "
        f"without privacy, {seen['majority_class']:.1%} for the commonest class"
        f"{published(found['publication'], stale=found['stale'])}"
    )


def gate_verdict(found: dict[str, Any]) -> str:
    """Say what the holdout answered, from `gate.json`."""
    if "pooled" in found:
        gap, threshold = found["pooled"]["gap"], found["threshold"]
        return (
            f"{found['status']}, answer {found['value']:.1%} on {counted(found['n'], 'fresh task')}; gap "
            f"{gap:+.3f} of at most {threshold:.3f}"
        )
    value = "no answer" if found["value"] is None else f"answer {found['value']:.1%}"
    left = f"{found['budget_left']} of {counted(found['budget'], 'refutation')} left"
    return f"{found['status']}, {value}; {left}{_refuted_before(found['refuted_before'])}"


def _refuted_before(times: int) -> str:
    """Say how often the holdout refuted earlier questions about these rows, to whichever gate."""
    return f"; {times} refuted before on these rows" if times else ""


def bound_verdict(found: dict[str, Any]) -> str:
    """Say the least bound on the model's error, from `bounds.json`."""
    best = next(bound for bound in found["bounds"] if bound["name"] == found["least"])
    return (
        f"at most {best['value']:.1%} of new tasks judged unlike the consensus, with "
        f"{level_text(found['level'])} confidence ({best['name']})"
    )


def _planned(run: Run, crowd: Crowd) -> tuple[PrivacySettings, ModelSettings] | None:
    """Return the settings of a planned year's model, None where none is planned or nothing can be trained."""
    privacy, model = run.settings.privacy, run.settings.model
    if privacy is None or model is None or privacy.planned_runs == 1:
        return None
    if why_no_release(run.settings) or why_no_features(crowd):
        return None
    return privacy, model


def _prepared(run: Run, crowd: Crowd) -> tuple[Learning, PrivacySettings, ModelSettings] | str:
    """Return the planned releases with their settings, or why there is no model."""
    privacy, model = run.settings.privacy, run.settings.model
    if model is None:
        return "the settings have no [model] section"
    why_not = why_no_release(run.settings) or why_no_features(crowd)
    if privacy is None or why_not is not None:
        return str(why_not)
    learning = plan_learning(run, crowd, privacy)
    if learning is None:
        return "there are too few labelled tasks to deal to training, validation and holdout"
    return learning, privacy, model


def _terms(learning: Learning, model: ModelSettings) -> dict[str, Any]:
    """Return how the model was trained, and the price of each step."""
    mechanism = learning.mechanism
    scored = mechanism.inner if isinstance(mechanism, GroupPrivacy) else mechanism
    training = scored.training if isinstance(scored, ScoredTraining) else None
    reduced = isinstance(training, ReducedTraining)
    if isinstance(training, ReducedTraining):
        training = training.training
    terms: dict[str, Any] = {
        "method": OBJECTIVE,
        "candidates": list(model.regularization),
        "epsilon_train": model.epsilons["train"],
        "epsilon_select": model.epsilons.get("select", 0.0),
        "epsilon_score": model.epsilon_score,
        "delta_train": 0.0,
    }
    if isinstance(training, NoisyGradientDescent):
        terms |= {"method": DESCENT, "candidates": [], "delta_train": training.delta}
        terms |= {"epsilon_train": training.epsilon, "epsilon_select": 0.0}
    if reduced:
        keys = ("components", "epsilon_components", "delta_components")
        terms |= {key: getattr(model, key) for key in keys}
    return terms


def _gate_json(
    answer: GateAnswer,
    n: int,
    release: Release[Any],
    learning: Learning,
    gate: GateSettings,
    question: str,
    trained: dict[str, Any],
) -> dict[str, Any]:
    """Return the holdout's answer; calls, refutations and price are those of all gates with its rows."""
    return {
        "threshold": learning.judge.threshold,
        "sigma": learning.judge.sigma,
        "budget": gate.budget,
        "budget_left": answer.budget_left,
        "epsilon": float(answer.epsilon or release.event.cost().epsilon),
        "arithmetic": release.event.arithmetic,
        "unit": str(learning.holdout.unit),
        "n": n,
        "publication": trained["publication"],
        "stale": release.stale,
        "question": question,
        "asked": answer.asked,
        "gates": answer.number,
        "refuted_before": answer.refuted - int(answer.status == "overfit"),
        "status": answer.status,
        "value": answer.value,
        "train_score": trained["train_score"],
    }


def _bounds(
    answer: GateAnswer,
    n: int,
    trained: dict[str, Any],
    learning: Learning,
    gate: GateSettings,
    model: ModelSettings,
    *,
    standardize: bool,
    of_one: int,
) -> tuple[Bound, ...]:
    """Return every bound on the model's true error that these data allow, each with its assumptions.

    That of private training is about the rows trained on, all of them: no features in the clear scaled them.
    """
    rows, linear = learning.rows, LinearModel(np.asarray(trained["coef"]), model.norm_bound)
    wrong, judges = linear.predict(rows.develop_x) != rows.develop_y, rows.judges
    level = 1 - (1 - gate.confidence) / N_BOUNDS  # the least of them has the asked confidence
    transfer = transfer_bound(
        int(wrong[~judges].sum()),
        int(rows.training.sum()),
        epsilon=float(sum(exact(part) for what, part in model.epsilons.items() if what != "score")),
        level=level,
        rows=of_one,
    )
    pure = not (trained["delta_train"] or model.delta_components)
    bounds = (
        clopper_pearson_bound(
            int(wrong[judges].sum()),
            int(rows.validation.sum()),
            level=level,
            n_candidates=max(1, len(trained["candidates"])),
            rows=of_one,
        ),
        agreeing_holdout_bound(answer, learning.judge, n=n, level=level, rows=of_one),
        private_holdout_bound(answer, learning.judge, n=n, level=level, rows=of_one),
        *((transfer,) if pure and not (trained["stale"] or standardize) else ()),
    )
    return known_scales(bounds) if standardize else bounds
