"""Features of tasks, and answers of models beside people, as one more voice in the consensus.

Models err together, and a consensus that counts them as workers believes them. So where people have
answered every task, the consensus is the people's, and the models' answers are a feature.
A classifier learns the consensus from other tasks' features (`learners.cross_fitted_probabilities`); its
probabilities are weighed by labels held out (`quality.join_voice`), and it learns anew from what both
say. Where the voice is heard, its tables name the labels that look wrong and tasks that came in twice.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
from jaxtyping import Bool, Float, Int

from flows.aggregators import consensus_of, decided
from flows.run import Crowd, Run
from flows.settings import ConsensusSettings, why_features_stay_out
from flows.stages.labels import Aggregated, Groups
from flows.tables import arrow_table
from quality import (
    Consensus,
    CrowdLabels,
    JoinedVoice,
    accuracy,
    hold_labels_out,
    join_voice,
    task_report,
    task_support,
)
from quality.choice import NamedAuto
from quality.many_classes import NamedConsensus, needs_names

__all__ = [
    "answers_as_features", "beside_people", "hear_models", "join_voices", "models_beside",
    "voices_sentence",
]  # fmt: skip

ROUNDS = 3  # of a classifier that learns from labels and the one before it
MIN_TASKS = 50  # labelled tasks to learn from
MIN_FEATURES = 8  # for duplicates: with fewer, many tasks point the same way by chance
SHOWN = 10


def models_beside(
    run: Run, crowd: Crowd, keep: Bool[np.ndarray, " workers"]
) -> Int[np.ndarray, " models"]:
    """Return the codes of the models kept whose answers are to be a voice beside the people's labels.

    None of them is where the settings speak against it, a task has no label of a person, or there are
    too many classes for a classifier.
    """
    if not run.settings.models_join or needs_names(crowd.labels):
        return np.zeros(0, dtype=np.int64)
    models = crowd.model_codes()
    joining: np.ndarray = models[keep[models] & beside_people(crowd.labels, models, keep)]
    return joining


def beside_people(
    labels: CrowdLabels, models: Int[np.ndarray, " models"], keep: Bool[np.ndarray, " workers"]
) -> bool:
    """Return whether there are models and enough tasks, and every task has a label of a person kept."""
    if not models.size or labels.n_tasks < MIN_TASKS:
        return False
    people = keep & ~np.isin(np.arange(labels.n_workers), models)
    answered = np.bincount(labels.task[people[labels.worker]], minlength=labels.n_tasks)
    return bool(answered.all())


def answers_as_features(
    labels: CrowdLabels, models: Int[np.ndarray, " models"]
) -> Float[np.ndarray, "tasks answers"]:
    """Return which class each model gave each task, and how many of them gave it."""
    table = np.zeros((labels.n_tasks, len(models), labels.n_classes))
    rows = np.flatnonzero(np.isin(labels.worker, models))
    table[labels.task[rows], np.searchsorted(models, labels.worker[rows]), labels.label[rows]] = 1.0
    return np.column_stack([table.reshape(labels.n_tasks, -1), table.sum(axis=1)])


def join_voices(
    run: Run, crowd: Crowd, found: Aggregated, groups: Groups, models: Int[np.ndarray, " models"]
) -> tuple[Aggregated, dict[str, Any] | None]:
    """Join features of tasks, and models' answers, with the consensus; return it and what to say of them.

    The second is None where there are neither or the settings ignore them.
    """
    chosen, settings = run.settings.consensus, run.settings
    has_features = crowd.tasks is not None and bool(crowd.tasks.feature_names)
    if chosen.features == "ignore" or not (has_features or models.size):
        return found, None
    why = why_features_stay_out(settings) if has_features else None
    if why is None and crowd.labels.n_tasks < MIN_TASKS:
        why = f"fewer than {MIN_TASKS} labelled tasks are too few to learn from"
    if isinstance(found.consensus, NamedConsensus | NamedAuto):
        return found, {"why_not": "there are too many classes for a classifier to learn them"}
    kept = found.kept
    if kept is None or (why is not None and not models.size):
        return found, {"why_not": why}
    own = crowd.label_features() if has_features and why is None else None
    answers = answers_as_features(crowd.labels, models)
    features = answers if own is None else np.column_stack([own, answers])
    heard, probabilities = _heard(run, crowd, found.consensus, kept.merge_workers(groups), features)
    facts = _facts(crowd, found, heard) | {
        "n_models": int(models.size),
        "features": own is not None,
    }
    facts |= {"duplicates": None} if own is None else _duplicates(run, crowd, own, heard.label)
    if not heard.heard:
        return found, facts
    joined = replace(
        found,
        consensus=_with_belief(found.consensus, heard),
        fitted=_with_belief(found.fitted, heard),
        tasks=task_report(kept, heard.posterior),
        support=task_support(kept, heard.posterior, groups=groups),
        alone=found.consensus.label,
    )
    table = _voice_table(crowd, found.consensus, heard, probabilities)
    run.write_table("task_voices.parquet", table)
    return joined, facts | {"suspected": _suspected(table)}


def voices_sentence(found: dict[str, Any] | None) -> str:
    """Say what features added to the consensus, as the end of a sentence, from `consensus.json`."""
    if found is None or found.get("why_not"):
        return ""
    what = " and ".join(
        ["features"] * found["features"] + ["models' answers"] * bool(found["n_models"])
    )
    if not found["heard"]:
        return f"; {what} say nothing that the labels bear out"
    gold = found["gold"]
    without = "" if gold is None else f" ({gold['without']:.1%} right without them)"
    return (
        f"; {what}, worth {found['worth']:.1f} labels a task, turned {found['n_turned']:,} "
        f"tasks{without}"
    )


def _heard(
    run: Run, crowd: Crowd, consensus: Consensus, kept: CrowdLabels, features: np.ndarray
) -> tuple[JoinedVoice, Float[np.ndarray, "tasks classes"]]:
    """The consensus with the voice of the last round, and what that voice says."""
    chosen = run.settings.believed
    gold = crowd.gold_code() if chosen.use_gold else None
    return _rounds(consensus, kept, features, chosen, seed=run.settings.seed, gold=gold)


def hear_models(
    consensus: Consensus,
    labels: CrowdLabels,
    models: Int[np.ndarray, " models"],
    chosen: ConsensusSettings,
    *,
    groups: Groups,
    seed: int,
) -> tuple[Consensus, JoinedVoice]:
    """Return the people's consensus joined by the models' answers, as it was if they are not heard.

    `labels` are those of people and models, and `groups` vote once each.
    """
    people = ~np.isin(np.arange(labels.n_workers), models)
    alone = labels.keep_workers(people).merge_workers(groups)
    heard, _ = _rounds(consensus, alone, answers_as_features(labels, models), chosen, seed=seed)
    return _with_belief(consensus, heard) if heard.heard else consensus, heard


def _rounds(
    consensus: Consensus,
    kept: CrowdLabels,
    features: np.ndarray,
    chosen: ConsensusSettings,
    *,
    seed: int,
    gold: Int[np.ndarray, " tasks"] | None = None,
) -> tuple[JoinedVoice, Float[np.ndarray, "tasks classes"]]:
    """Let a classifier learn the consensus and join it, a few times; return both of the last round."""
    from learners import cross_fitted_probabilities  # scikit-learn, for runs with features alone

    def fit(labels: CrowdLabels) -> Consensus:
        return consensus_of(labels, chosen, seed=seed, gold=gold)

    held_out, rng = hold_labels_out(kept, fit), np.random.default_rng(seed)
    believed, last = consensus.posterior, None
    for _ in range(ROUNDS):
        voice = cross_fitted_probabilities(features, believed, rng=rng).probabilities
        found = decided(join_voice(consensus, voice, held_out, gold=gold), chosen.loss)
        if last is None or found.heard:
            last = found, voice
        if not found.heard:
            break
        believed = found.posterior
    if last is None:
        raise AssertionError("a voice has one round or more")
    return last


Found = TypeVar("Found")


def _with_belief(consensus: Found, heard: JoinedVoice) -> Found:
    """The same result with the belief by labels and features."""
    belief = {name: getattr(heard, name) for name in ("posterior", "label", "tied")}
    return replace(consensus, **belief)  # type: ignore[type-var]  # results are dataclasses


def _facts(crowd: Crowd, found: Aggregated, heard: JoinedVoice) -> dict[str, Any]:
    """What the voice is worth, and what it changed."""
    turned, gold = heard.label != found.consensus.label, crowd.gold_code()
    checked = None
    if heard.heard and (gold >= 0).any():
        with_them, without = accuracy(heard.label, gold), accuracy(found.consensus.label, gold)
        checked = {"n": with_them.n, "with": with_them.value, "without": without.value}
    return {
        "why_not": None,
        "heard": heard.heard,
        "voice_weight": heard.voice_weight,
        "crowd_weight": heard.crowd_weight,
        "evidence": heard.evidence,
        "worth": heard.worth,
        "n_turned": int(np.count_nonzero(turned)),
        "n_tasks": int(turned.size),
        "gold": checked,
    }


def _voice_table(
    crowd: Crowd,
    consensus: Consensus,
    heard: JoinedVoice,
    probabilities: Float[np.ndarray, "tasks classes"],
) -> pa.Table:
    """One row per labelled task, labels that look most wrong first."""
    tasks = np.arange(len(heard.label))
    doubt = heard.posterior[tasks, consensus.label]
    turned: Bool[np.ndarray, " tasks"] = heard.label != consensus.label
    order = np.lexsort((tasks, doubt, ~turned))
    names = crowd.labels.classes.astype(str)
    return arrow_table(
        {
            "task": crowd.labels.tasks.astype(str)[order],
            "by_labels": names[consensus.label][order],
            "by_features": names[probabilities.argmax(axis=1)][order],
            "label": names[heard.label][order],
            "suspected": turned[order],
            "believed": doubt[order],
            "probability": probabilities[order],
        }
    )


def _suspected(table: pa.Table) -> list[dict[str, Any]]:
    """The first of the labels that look wrong."""
    rows = table.slice(0, SHOWN).select(["task", "by_labels", "label", "suspected", "believed"])
    return [row for row in rows.to_pylist() if row["suspected"]]


def _duplicates(
    run: Run, crowd: Crowd, features: np.ndarray, label: Int[np.ndarray, " tasks"]
) -> dict[str, Any]:
    """Tasks with nearly the same features, and how many of them have different labels."""
    if features.shape[1] < MIN_FEATURES:
        return {"duplicates": None}
    from learners import near_duplicates  # with the classifier's file

    found = near_duplicates(features)
    one, other = found.pair.T
    names, classes = crowd.labels.tasks.astype(str), crowd.labels.classes.astype(str)
    table = arrow_table(
        {
            "task": names[one],
            "like": names[other],
            "cosine": found.cosine,
            "label": classes[label[one]],
            "label_of_like": classes[label[other]],
        }
    )
    run.write_table("near_duplicates.parquet", table)
    return {
        "duplicates": {
            "n": len(one),
            "complete": found.complete,
            "n_differ": int(np.count_nonzero(label[one] != label[other])),
            "first": table.slice(0, SHOWN).to_pylist(),
        }
    }
