"""Features of tasks, and answers of models, as one more voice in the consensus.

Models make common errors, which a consensus that counts them as workers follows. So where people have
labelled enough tasks, the consensus is theirs, and the models' answers are a feature.
A classifier learns the consensus from other tasks' features (`learners.cross_fitted_probabilities`); its
probabilities are weighed by labels held out (`quality.join_voice`), and it learns anew from the joint belief.
Tasks that no person has labelled do not train it; at the end it answers them, with a confidence learned from
the other tasks' calibrated confidence. Where the voice is heard, its tables name the labels that look wrong,
the workers who give them, and duplicate tasks.

Where models alone have answered, gold takes the people's part: it teaches how their answers are to be read.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa
from jaxtyping import Bool, Float, Float64, Int

from flows.aggregators import consensus_of, decided
from flows.run import Crowd, Run
from flows.settings import ConsensusSettings, Settings, why_features_stay_out
from flows.stages.labels import Aggregated, Groups
from flows.stages.stage import counted
from flows.tables import arrow_table
from quality import (
    Consensus,
    CrowdLabels,
    JoinedVoice,
    accuracy,
    calibrate,
    hold_labels_out,
    join_voice,
    task_report,
    task_support,
    wilson_interval,
)
from quality.aggregation import decide
from quality.choice import NamedAuto
from quality.many_classes import NamedConsensus, needs_names

__all__ = [
    "answers_as_features", "answers_of", "beside_people", "hear_models", "heard_beside", "join_voices",
    "models_beside",
    "of_models_alone", "panel_sentence", "read_panel", "voices_sentence", "why_unlearned",
]  # fmt: skip

ROUNDS = 3  # of a classifier that learns from labels and the one before it
MIN_TASKS = 50  # tasks to learn from, labelled by people
MIN_TRUTHS = 50  # gold tasks to learn from what models answer, where only models do
MIN_FEATURES = 8  # for duplicates: with fewer, many tasks point the same way by chance
SHOWN = 10


def models_beside(
    run: Run, crowd: Crowd, whole: CrowdLabels | None, keep: Bool[np.ndarray, " workers"]
) -> Int[np.ndarray, " models"]:
    """Return the codes of the models kept whose answers are to be a voice beside the people's labels.

    There are none where the settings keep voices out, the table is too large to be held whole, people have
    labelled too few tasks, or there are too many classes for a classifier.
    """
    if not run.settings.models_join or whole is None or needs_names(whole):
        return np.zeros(0, dtype=np.int64)
    models = crowd.model_codes()
    joining: np.ndarray = models[keep[models] & beside_people(whole, models, keep)]
    return joining


def beside_people(
    labels: CrowdLabels, models: Int[np.ndarray, " models"], keep: Bool[np.ndarray, " workers"]
) -> bool:
    """Return whether there are models, and tasks enough that have a label of a person kept."""
    if not models.size:
        return False
    people = keep & ~np.isin(np.arange(labels.n_workers), models)
    answered = np.unique(labels.task[people[labels.worker]]).size
    return answered >= MIN_TASKS


def of_models_alone(
    labels: CrowdLabels, models: Int[np.ndarray, " models"]
) -> Bool[np.ndarray, " tasks"]:
    """Return which tasks have labels of models alone."""
    of_model = np.isin(np.arange(labels.n_workers), models)[labels.worker]
    by_models = np.bincount(labels.task, of_model, labels.n_tasks)
    alone: np.ndarray = (by_models > 0) & (by_models == np.diff(labels.task_start))
    return alone


def answers_of(
    labels: CrowdLabels, judges: Int[np.ndarray, " judges"]
) -> Int[np.ndarray, "tasks judges"]:
    """Return the class code that each of these workers gave each task, -1 where none; codes ascend."""
    given = np.full((labels.n_tasks, len(judges)), -1)
    rows = np.flatnonzero(np.isin(labels.worker, judges))
    given[labels.task[rows], np.searchsorted(judges, labels.worker[rows])] = labels.label[rows]
    return given


def answers_as_features(
    labels: CrowdLabels, models: Int[np.ndarray, " models"]
) -> Float[np.ndarray, "tasks answers"]:
    """Return which class each model gave each task, and how many of them gave it."""
    from learners.task_features import answer_features  # scikit-learn, for runs with voices alone

    features: np.ndarray = answer_features(answers_of(labels, models), labels.n_classes)
    return features


def join_voices(
    run: Run,
    crowd: Crowd,
    whole: CrowdLabels | None,
    found: Aggregated,
    groups: Groups,
    models: Int[np.ndarray, " models"],
) -> tuple[Aggregated, dict[str, Any] | None]:
    """Join features of tasks and models' answers with the consensus; return it and the facts of that.

    The second is None where there are neither or the settings ignore them.
    """
    chosen = run.settings.consensus
    has_features = crowd.tasks is not None and bool(crowd.tasks.feature_names)
    if chosen.features == "ignore" or not (has_features or models.size):
        return found, None
    if isinstance(found.consensus, NamedConsensus | NamedAuto):
        return found, {"why_not": "there are too many classes for a classifier to learn them"}
    why = why_unlearned(run.settings, crowd, bool(models.size)) if has_features else None
    kept, labels = found.kept, found.heard
    if kept is None or labels is None or whole is None:
        return found, {"why_not": why or "there are more labels than engine.whole_labels"}
    if why is not None and not models.size:
        return found, {"why_not": why}
    own = crowd.label_features() if has_features and why is None else None
    answers = answers_as_features(whole, models)
    features = answers if own is None else np.column_stack([own, answers])
    heard, voice = _heard(run, crowd, found.consensus, labels.merge_workers(groups), features)
    facts = _facts(crowd, found, heard, voice) | {
        "n_models": int(models.size),
        "features": own is not None,
    }
    facts |= {"duplicates": None} if own is None else _duplicates(run, crowd, own, heard.label)
    if not (heard.heard or voice.alone.any()):
        return found, facts
    joined = _believing(crowd, found, kept, groups, heard)
    table = _voice_table(crowd, found.consensus, heard, voice)
    run.write_table("task_voices.parquet", table)
    workers = _worker_table(whole, models, heard, voice)
    run.write_table("worker_voices.parquet", workers)
    return joined, facts | {"suspected": _suspected(table), "doubtful_workers": _doubtful(workers)}


def why_unlearned(settings: Settings, crowd: Crowd, by_models: bool = False) -> str | None:
    """Return why a classifier does not learn from these tasks' features, beside models if so, or None."""
    why = why_features_stay_out(settings)
    if why is not None:
        return why
    if by_models and settings.model is not None:
        return "models' answers join the labels that [model] is judged by, which these features would shape"
    n_tasks = crowd.labels.n_tasks
    if n_tasks < MIN_TASKS:
        return f"fewer than {MIN_TASKS} labelled tasks are too few to learn from"
    size = 8 * n_tasks * len(crowd.table.feature_names)
    if settings.engine is not None and size > settings.engine.memory_gb * 1e9:
        return f"features of {n_tasks:,} tasks are {size / 1e9:.1f} GB, more than engine.memory_gb"
    return None


def voices_sentence(found: dict[str, Any] | None) -> str:
    """Say what features added to the consensus, as the end of a sentence, from `consensus.json`."""
    if found is None or found.get("why_not"):
        return ""
    what = _voices(found)
    n_alone = found.get("n_alone", 0)
    tasks, are = counted(n_alone, "task"), "is" if n_alone == 1 else "are"
    answered = f"; {tasks} without a person's label {are} answered by them" * bool(n_alone)
    if not found["heard"]:
        return f"; {what} say nothing that the labels bear out{answered}"
    gold = found["gold"]
    without = "" if gold is None else f" ({gold['without']:.1%} right without them)"
    return (
        f"; {what}, worth {found['worth']:.1f} labels a task, turned "
        f"{counted(found['n_turned'], 'task')}{without}{answered}"
    )


def heard_beside(found: dict[str, Any] | None) -> str:
    """Name the voices that are heard beside the labels, from `consensus.json`; "" if there are none."""
    return _voices(found) if found and found.get("heard") else ""


def _voices(found: dict[str, Any]) -> str:
    return " and ".join(
        ["features"] * found["features"] + ["models' answers"] * bool(found["n_models"])
    )


def read_panel(
    run: Run, crowd: Crowd, found: Aggregated, groups: Groups
) -> tuple[Aggregated, dict[str, Any] | None]:
    """Map the answers of models to classes by gold, where models alone have answered.

    Return the consensus and its facts; None where a person has answered, the settings keep voices out, use
    the gold otherwise or protect each gold label, or fewer than 50 gold tasks are known.
    """
    kept, consensus = found.kept, found.consensus
    if kept is None or isinstance(consensus, NamedConsensus | NamedAuto):
        return found, None
    if run.settings.consensus.use_gold or not run.settings.models_join:
        return found, None
    if run.settings.protects_gold:
        return found, None
    judges = np.flatnonzero(np.diff(kept.worker_start) > 0)
    gold = np.where(np.diff(kept.task_start) > 0, crowd.gold_code(), -1)
    if not np.isin(judges, crowd.model_codes()).all() or np.count_nonzero(gold >= 0) < MIN_TRUTHS:
        return found, None
    from learners.task_features import read_by_gold  # scikit-learn, for such runs alone

    rng = np.random.default_rng(run.settings.seed)
    reading = read_by_gold(answers_of(kept, judges), consensus.posterior, gold, rng=rng)
    label, tied = decide(reading.probabilities)
    belief = {"posterior": reading.probabilities, "label": label, "tied": tied}
    likeliest = replace(consensus, **belief)  # type: ignore[type-var]  # results are dataclasses
    read = decided(likeliest, run.settings.believed.loss)
    with_it, without = accuracy(read.label, gold), accuracy(consensus.label, gold)
    facts = {
        "n_models": len(judges),
        "n_gold": reading.n_gold,
        "consensus_weight": reading.consensus_weight,
        "n_turned": int(np.count_nonzero(read.label != consensus.label)),
        "with": with_it.value,
        "without": without.value,
    }
    return _believing(crowd, found, kept, groups, read), facts


def panel_sentence(found: dict[str, Any] | None) -> str:
    """Say what gold changed of a panel's answers, as the end of a sentence, from `consensus.json`."""
    if found is None:
        return ""
    return (
        f"; answers of {counted(found['n_models'], 'model')}, read as {found['n_gold']:,} gold tasks teach, "
        f"turned {counted(found['n_turned'], 'task')} ({found['without']:.1%} right without that)"
    )


class Voice(NamedTuple):
    """A classifier's probabilities of each task, and the tasks without labels, which it answers alone."""

    probabilities: Float[np.ndarray, "tasks classes"]
    alone: Bool[np.ndarray, " tasks"]


def _heard(
    run: Run, crowd: Crowd, consensus: Consensus, labels: CrowdLabels, features: np.ndarray
) -> tuple[JoinedVoice, Voice]:
    """Return the consensus with the voice of the last round, and the probabilities of that voice."""
    chosen = run.settings.believed
    gold = crowd.gold_code() if chosen.use_gold else None
    return _rounds(consensus, labels, features, chosen, seed=run.settings.seed, gold=gold)


def hear_models(
    consensus: Consensus,
    labels: CrowdLabels,
    models: Int[np.ndarray, " models"],
    chosen: ConsensusSettings,
    *,
    groups: Groups,
    seed: int,
) -> tuple[Consensus, JoinedVoice]:
    """Return the people's consensus joined by the models' answers; unchanged if they are not heard.

    `labels` are those of people and models, and `groups` vote once each. Tasks that no person has labelled
    are answered by the classifier that the others have trained.
    """
    people = ~np.isin(np.arange(labels.n_workers), models)
    alone = labels.keep_workers(people).merge_workers(groups)
    heard, voice = _rounds(consensus, alone, answers_as_features(labels, models), chosen, seed=seed)
    changed = heard.heard or voice.alone.any()
    return _with_belief(consensus, heard) if changed else consensus, heard


def _rounds(
    consensus: Consensus,
    kept: CrowdLabels,
    features: np.ndarray,
    chosen: ConsensusSettings,
    *,
    seed: int,
    gold: Int[np.ndarray, " tasks"] | None = None,
) -> tuple[JoinedVoice, Voice]:
    """Let a classifier learn the consensus and join it, a few times; return both of the last round."""
    from learners.task_features import cross_fitted_probabilities as learn  # scikit-learn

    def fit(labels: CrowdLabels) -> Consensus:
        return consensus_of(labels, chosen, seed=seed, gold=gold)

    taught = np.diff(kept.task_start) > 0
    if gold is not None:
        taught |= gold >= 0
    held_out, rng = hold_labels_out(kept, fit), np.random.default_rng(seed)
    believed, last = consensus.posterior, None
    tried: list[float] | None = None
    for _ in range(ROUNDS):
        learned = learn(features, believed, rng=rng, taught=taught, inverse_penalties=tried)
        tried = np.unique(learned.inverse_penalty).tolist()  # nearly the same is learned anew
        voice = _silent(learned.probabilities, taught)
        found = decided(join_voice(consensus, voice, held_out, gold=gold), chosen.loss)
        if last is None or found.heard:
            last = found, Voice(voice, ~taught)
        if not found.heard:
            break
        believed = found.posterior
    if last is None:
        raise AssertionError("a voice has one round or more")
    if taught.all():
        return last
    # not by the voice's votes: where no worker votes beside it, its errors are nobody else's to show
    sure = calibrate(kept, last[0].posterior).believed(last[0].posterior)
    answers = learn(features, sure, rng=rng, taught=taught, inverse_penalties=tried).probabilities
    return _answered(*last, answers, chosen)


def _silent(voice: np.ndarray, taught: np.ndarray) -> Float64[np.ndarray, "tasks classes"]:
    """Return a voice that gives the tasks not taught its average over the others.

    Their own probabilities would move the mean with which the others are compared.
    """
    return np.where(taught[:, np.newaxis], voice, voice[taught].mean(axis=0))


def _answered(
    heard: JoinedVoice, voice: Voice, answers: np.ndarray, chosen: ConsensusSettings
) -> tuple[JoinedVoice, Voice]:
    """Put the answers of tasks without labels beside the joint belief of the others."""
    alone = voice.alone[:, np.newaxis]
    posterior = np.where(alone, answers, heard.posterior)
    label, tied = decide(posterior)
    answered = decided(replace(heard, posterior=posterior, label=label, tied=tied), chosen.loss)
    label, tied = (
        np.where(voice.alone, getattr(answered, name), getattr(heard, name))
        for name in ("label", "tied")
    )
    said = Voice(np.where(alone, answers, voice.probabilities), voice.alone)
    return replace(answered, label=label, tied=tied), said


def _believing(
    crowd: Crowd,
    found: Aggregated,
    kept: CrowdLabels,
    groups: Groups,
    belief: JoinedVoice | Consensus,
) -> Aggregated:
    """Return the consensus with another belief, and all that is derived from it."""
    counts, votes = found.class_counts, belief.votes if isinstance(belief, JoinedVoice) else None
    if counts is not None:
        _, group = crowd.labelled_groups()
        cell = group.astype(np.int64) * kept.n_classes + belief.label
        counts = np.bincount(cell, minlength=counts.size).reshape(counts.shape)
    return replace(
        found,
        consensus=_with_belief(found.consensus, belief),
        fitted=_with_belief(found.fitted, belief),
        tasks=task_report(kept, belief.posterior),
        support=task_support(kept, belief.posterior, groups=groups, voice_votes=votes),
        class_counts=counts,
        alone=found.of_labels,
    )


Found = TypeVar("Found")


def _with_belief(consensus: Found, heard: JoinedVoice | Consensus) -> Found:
    """Return the same result with another belief."""
    belief = {name: getattr(heard, name) for name in ("posterior", "label", "tied")}
    return replace(consensus, **belief)  # type: ignore[type-var]  # results are dataclasses


def _facts(crowd: Crowd, found: Aggregated, heard: JoinedVoice, voice: Voice) -> dict[str, Any]:
    """Return the voice's weight, the labels it changed, and its accuracy where it answers alone."""
    by_labels = ~voice.alone
    turned = by_labels & (heard.label != found.consensus.label)
    gold = crowd.gold_code()
    known = np.where(by_labels, gold, -1)
    checked = None
    if heard.heard and (known >= 0).any():
        with_them, without = accuracy(heard.label, known), accuracy(found.consensus.label, known)
        checked = {"n": with_them.n, "with": with_them.value, "without": without.value}
    alone = accuracy(heard.label, np.where(voice.alone, gold, -1))
    return {
        "why_not": None,
        "heard": heard.heard,
        "voice_weight": heard.voice_weight,
        "crowd_weight": heard.crowd_weight,
        "evidence": heard.evidence,
        "worth": heard.worth,
        "n_turned": int(np.count_nonzero(turned)),
        "n_tasks": int(np.count_nonzero(by_labels)),
        "gold": checked,
        "n_alone": int(np.count_nonzero(voice.alone)),
        "gold_alone": {"n": alone.n, "right": alone.value} if alone.n else None,
    }


def _voice_table(crowd: Crowd, consensus: Consensus, heard: JoinedVoice, voice: Voice) -> pa.Table:
    """Return a row per labelled task, those that look most wrong first; no label where the voice is alone."""
    tasks = np.arange(len(heard.label))
    doubt = np.where(voice.alone, np.nan, heard.posterior[tasks, consensus.label])
    turned: Bool[np.ndarray, " tasks"] = ~voice.alone & (heard.label != consensus.label)
    order = np.lexsort((tasks, doubt, ~turned))
    names = crowd.labels.classes.astype(str)
    by_labels = np.where(voice.alone, None, names[consensus.label].astype(object))
    return arrow_table(
        {
            "task": crowd.labels.tasks.astype(str)[order],
            "by_labels": pa.array(by_labels[order], pa.string()),
            "by_features": names[voice.probabilities.argmax(axis=1)][order],
            "label": names[heard.label][order],
            "suspected": turned[order],
            "believed": doubt[order],
            "probability": voice.probabilities[order],
        }
    )


def _suspected(table: pa.Table) -> list[dict[str, Any]]:
    """Return the first of the labels that look wrong."""
    rows = table.slice(0, SHOWN).select(["task", "by_labels", "label", "suspected", "believed"])
    return [row for row in rows.to_pylist() if row["suspected"]]


def _worker_table(
    whole: CrowdLabels, models: Int[np.ndarray, " models"], heard: JoinedVoice, voice: Voice
) -> pa.Table:
    """Return a row for each person with labels: how many are the joint label, those who least agree first."""
    given = whole.keep_workers(~np.isin(np.arange(whole.n_workers), models))
    n_labels = np.diff(given.worker_start)

    def agreeing(label: np.ndarray) -> Int[np.ndarray, " workers"]:
        alike = given.label == label[given.task]
        return np.bincount(given.worker[alike], minlength=given.n_workers)

    interval = wilson_interval(agreeing(heard.label), n_labels)
    order = np.lexsort((interval[:, 1], n_labels == 0))[: np.count_nonzero(n_labels)]
    n = n_labels[order]
    return arrow_table(
        {
            "worker": given.workers.astype(str)[order],
            "n_labels": n,
            "agreement": agreeing(heard.label)[order] / n,
            "low": interval[order, 0],
            "high": interval[order, 1],
            "by_features": agreeing(voice.probabilities.argmax(axis=1))[order] / n,
        }
    )


def _doubtful(table: pa.Table) -> list[dict[str, Any]]:
    """Return the first of the workers who clearly agree less than labels do in the mean."""
    n_labels, agreement = table["n_labels"].to_numpy(), table["agreement"].to_numpy()
    mean = np.average(agreement, weights=n_labels)
    return [row for row in table.slice(0, SHOWN).to_pylist() if row["high"] < mean]


def _duplicates(
    run: Run, crowd: Crowd, features: np.ndarray, label: Int[np.ndarray, " tasks"]
) -> dict[str, Any]:
    """Return tasks with nearly the same features, and how many of them have different labels."""
    if features.shape[1] < MIN_FEATURES:
        return {"duplicates": None}
    from learners.task_features import near_duplicates  # with the classifier's file

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
