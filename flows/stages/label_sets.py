"""Several classes at once: the consensus of a campaign's answers as one set of classes a task.

The same files as of one label a task, with a set where that has a label, and one file more: the probability
of each class of each task that somebody gave.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from jaxtyping import Bool, Float64, Int64
from scipy.special import entr

from flows.run import Crowd, Run, load_crowd
from flows.settings import InputSettings, ReportSettings
from flows.stages.labels import answers_of, set_consensus
from flows.stages.reading import gold_apart
from flows.stages.stage import counted
from flows.stages.workers import group_codes, kept_workers
from flows.tables import arrow_table
from quality import MultiLabelConsensus, MultiLabels, accuracy, wilson_interval
from quality.multilabel import plan_answers
from quality.reports import rank_tasks

__all__ = [
    "aggregate_sets", "compared_with_gold", "gold_tasks", "if_alike", "sets_sentence", "unchecked",
    "vote_wins",
]  # fmt: skip

MAX_ASKED, MAX_CONSIDERED = 500, 2_000  # workers and tasks that the plan chooses from
MAX_WORK = 2 * 10**8  # of workers, tasks and classes
MIN_ANSWERS = 10  # a worker who gave fewer may look better than she is


def aggregate_sets(run: Run) -> str:
    """Turn the kept workers' answers into one set of classes per task, and plan whom to ask next."""
    crowd = load_crowd(run.folder)
    answers, keep, groups = answers_of(crowd), kept_workers(run, crowd), group_codes(run, crowd)
    kept = answers.keep_workers(keep)
    found = set_consensus(run, crowd, kept, groups)
    chosen, given = _chosen(found, kept.n_classes), _given(kept)
    entropy = _entropy(found.table())
    sure, of_model = _least_sure(found, found.probability), _least_sure(found, found.model)
    n_answers = np.diff(kept.task_start)
    order = rank_tasks(sure, n_answers)
    plan, facts = _planned(kept, found, order, run.settings.report)
    labels = _joined(kept, chosen, run.settings.input)
    overruled = (chosen != (2 * given > n_answers[:, None])).any(axis=1)
    per_task = {
        "task": kept.tasks.astype(str),
        "group": crowd.group_names[crowd.label_group()].astype(str),
        "label": labels,
        "confidence": sure,
        "model_confidence": of_model,
        "entropy": entropy.sum(axis=1),
        "conflict": ((given > 0) & (given < n_answers[:, None])).any(axis=1),
        "overruled": overruled,
        "n_labels": n_answers,
        "n_classes": chosen.sum(axis=1),
    }
    run.write_table("consensus.parquet", arrow_table({**per_task, "posterior": found.table()}))
    run.write_table("class_cells.parquet", _cell_table(kept, found, given))
    ranked = {name: values[order] for name, values in per_task.items() if name != "group"}
    places = {"rank": np.arange(1, order.size + 1, dtype=np.int32), "counts": given[order]}
    run.write_table("next_labels.parquet", arrow_table(places | ranked))
    run.write_table("label_plan.parquet", plan)
    gold = _gold_check(run, crowd, answers, groups, chosen)
    run.write_json(
        "consensus.json",
        {
            "aggregator": "multi-label consensus",
            "n_iter": found.n_iter,
            "converged": found.converged,
            "n_conflict": int(per_task["conflict"].sum()),
            "n_overruled": int(overruled.sum()),
            "classes": kept.classes.astype(str).tolist(),
            **_gold_given(run, crowd),
            "n_regrouped": _n_regrouped(run, crowd, kept, groups, chosen),
            "entropy": float(entropy.sum()),
            "plan": {key: value for key, value in facts.items() if key != "by_class"},
            "gold": gold,
            **_confidence(sure, of_model),
            "sets": {
                "n_labels": float(np.diff(kept.label_start).mean()),
                "n_classes": float(chosen.sum(axis=1).mean()),
                "evidence": found.evidence,
                "classes": _class_rows(kept, found, chosen, entropy, facts["by_class"]),
            },
        }
        | NOT_OF_SETS,
    )
    exact = f"; {gold['accuracy']:.1%} of {gold_tasks(gold['n'])} exactly right" if gold else ""
    return (
        f"{counted(kept.n_tasks, 'set')} of {chosen.sum(axis=1).mean():.2f} classes, the least sure class "
        f"right with a mean probability of {sure.mean():.3f}{exact}"
    )


NOT_OF_SETS: dict[str, Any] = {
    "n_tied": 0, "models_alone": False, "log_likelihood": None, "choice": None, "start": None,
    "features": None, "order": None, "confidence": None,
}  # fmt: skip
"""What `consensus.json` says of one label a task alone."""


def gold_tasks(number: int) -> str:
    """Return so many gold tasks, in words."""
    return counted(number, "gold task")


def compared_with_gold(before: dict[str, Any] | None) -> str | None:
    """Return how the model's confidence compares with gold, as the end of a sentence."""
    if before is None:
        return None
    model, gold = before["confidence"], before["right"]
    compared = f"the model says {model:.1%}, gold says {gold:.1%}"
    if before["low"] <= model <= before["high"]:
        return f"{compared}: as close as {before['n']:,} gold tasks can tell"
    word, points = "over" if model > gold else "under", 100 * abs(model - gold)
    return f"{compared}: {word}confident by {points:.1f} points; use the adjusted figures"


def if_alike(gold: dict[str, Any] | None) -> str:
    """Return the condition of what gold says of the other tasks, where it is not declared a sample."""
    if gold is None or not gold.get("chosen"):
        return ""
    return ', if gold is like the other tasks (input.gold_sampling is "chosen")'


def sets_sentence(found: dict[str, Any]) -> str:
    """Say how sure the sets are, and how often they are right on gold, from `consensus.json`."""
    gold, checked = found["gold"], unchecked(found)
    if gold is not None:
        checked = (
            f"{gold['accuracy']:.1%} of {gold_tasks(gold['n'])} exactly right ({gold['low']:.1%} to "
            f"{gold['high']:.1%}; with all workers {gold['unfiltered']:.1%}, majority vote "
            f"{gold['majority_vote']:.1%}), macro-F1 {gold['macro_f1']:.3f}"
        )
    by = "by gold" if found["sets"]["evidence"] == "gold" else "by answers alone"
    return (
        f"{found['sets']['n_classes']:.2f} classes a task, the least sure one right with a mean "
        f"probability of {found['mean_confidence']:.3f} ({by}), {checked}"
    )


def _gold_given(run: Run, crowd: Crowd) -> dict[str, Any]:
    """Return the number of gold tasks that made the consensus, and whether none has an answer."""
    used = crowd.n_gold if run.settings.consensus.use_gold else 0
    return {"gold_used": used, "gold_apart": gold_apart(crowd)}


def unchecked(found: dict[str, Any]) -> str:
    """Say why gold does not check the consensus, from `consensus.json`."""
    n_used = found.get("gold_used")
    if not n_used:
        return f"no gold tasks to check against{found.get('gold_apart', '')}"
    return f"not checked, as the {gold_tasks(n_used)} made it"


def vote_wins(right: Bool[np.ndarray, " tasks"], by_vote: Bool[np.ndarray, " tasks"]) -> bool:
    """Return whether gold shows that majority vote is right more often than the consensus.

    Of the tasks that one of the two alone gets right, the vote has more than half, by a 95 % interval. A
    task whose truth is unknown is right by neither.
    """
    wins, losses = np.count_nonzero(by_vote & ~right), np.count_nonzero(right & ~by_vote)
    (low, _) = wilson_interval(np.array(wins), np.array(wins + losses)).tolist()
    return bool(low > 0.5)


def _chosen(found: MultiLabelConsensus, n_classes: int) -> Bool[np.ndarray, "tasks classes"]:
    """Return whether each class is in each task's consensus."""
    n_tasks = len(found.start) - 1
    chosen = np.zeros((n_tasks, n_classes), dtype=np.bool_)
    chosen[np.repeat(np.arange(n_tasks), np.diff(found.start)), found.label] = found.chosen
    return chosen


def _given(answers: MultiLabels) -> Int64[np.ndarray, "tasks classes"]:
    """Count the workers who gave each class to each task."""
    task = np.repeat(answers.task, np.diff(answers.label_start)).astype(np.int64)
    cell = task * answers.n_classes + answers.label
    counted: np.ndarray = np.bincount(cell, minlength=answers.n_tasks * answers.n_classes)
    return counted.reshape(answers.n_tasks, answers.n_classes)


def _entropy(chance: Float64[np.ndarray, "tasks classes"]) -> Float64[np.ndarray, "tasks classes"]:
    """Return the entropy of whether each class holds, in nats."""
    found: np.ndarray = entr(chance) + entr(1 - chance)
    return found


def _least_sure(
    found: MultiLabelConsensus, chance: Float64[np.ndarray, " cells"]
) -> Float64[np.ndarray, " tasks"]:
    """Return each task's smallest probability that a class is decided rightly; 1 where nobody gave one."""
    sure = np.ones(len(found.start) - 1)
    task = np.repeat(np.arange(len(sure)), np.diff(found.start))
    np.minimum.at(sure, task, np.where(found.chosen, chance, 1 - chance))
    return sure


def _confidence(
    sure: Float64[np.ndarray, " tasks"], of_model: Float64[np.ndarray, " tasks"]
) -> dict[str, Any]:
    """Return the mean of confidence, the model's, and a histogram."""
    counts, edges = np.histogram(sure, bins=20, range=(0.0, 1.0))
    return {
        "mean_confidence": float(sure.mean()),
        "model_confidence": float(of_model.mean()),
        "confidence_histogram": {"edges": edges.tolist(), "counts": counts.tolist()},
    }


def _joined(
    answers: MultiLabels, chosen: Bool[np.ndarray, "tasks classes"], inputs: InputSettings
) -> np.ndarray:
    """Return each task's classes as a cell of the label table would have them."""
    names, split = answers.classes.astype(str), str(inputs.several)
    cells = [split.join(names[row].tolist()) or inputs.nothing or "" for row in chosen]
    return np.array(cells, dtype=np.str_)


def _cell_table(
    answers: MultiLabels, found: MultiLabelConsensus, given: Int64[np.ndarray, "tasks classes"]
) -> pa.Table:
    """Return a row per task and class that a worker or gold gave it: how likely the class holds."""
    task = np.repeat(np.arange(answers.n_tasks), np.diff(found.start))
    return arrow_table(
        {
            "task": answers.tasks[task].astype(str),
            "class": answers.classes[found.label].astype(str),
            "probability": found.probability,
            "model_probability": found.model,
            "chosen": found.chosen,
            "given": given[task, found.label],
            "n_answers": np.diff(answers.task_start)[task],
        }
    )


def _planned(
    answers: MultiLabels, found: MultiLabelConsensus, order: np.ndarray, chosen: ReportSettings
) -> tuple[pa.Table, dict[str, Any]]:
    """Plan the answers to ask for: of the least certain tasks, from the most informative workers."""
    n_answers = np.bincount(answers.worker, minlength=answers.n_workers)
    known = np.flatnonzero(n_answers >= max(1, min(MIN_ANSWERS, n_answers.max(initial=0))))
    skill = (found.worker_sensitivity - found.worker_false_rate)[known]
    asked = np.sort(known[np.argsort(-skill, kind="stable")[:MAX_ASKED]])
    most = min(MAX_CONSIDERED, max(1, MAX_WORK // max(1, asked.size * answers.n_classes)))
    considered = np.sort(order[: max(most, chosen.plan_labels)]).astype(np.int64)
    plan = plan_answers(
        answers, found, budget=chosen.plan_labels if asked.size else 0,
        per_worker=chosen.most_per_worker, tasks=considered, workers=asked,
    )  # fmt: skip
    facts = {
        "n": plan.task.size,
        "n_tasks": plan.task.size,
        "n_workers": np.unique(plan.worker).size,
        "gain": float(plan.gain.sum()),
        "workers_told_apart": True,
        "n_considered": considered.size,
        "n_asked": asked.size,
        "by_class": plan.by_class,
    }
    columns = {
        "worker": answers.workers[plan.worker].astype(str),
        "task": answers.tasks[plan.task].astype(str),
        "gain": plan.gain,
    }
    return arrow_table(columns), facts


def _class_rows(
    answers: MultiLabels,
    found: MultiLabelConsensus,
    chosen: Bool[np.ndarray, "tasks classes"],
    entropy: Float64[np.ndarray, "tasks classes"],
    gain: Float64[np.ndarray, " classes"],
) -> list[dict[str, Any]]:
    """Return what is known of each class, in the order of the classes."""
    given = np.bincount(answers.label, minlength=answers.n_classes)
    return [
        {
            "class": str(answers.classes[code]),
            "given": int(given[code]),
            "n_tasks": int(chosen[:, code].sum()),
            "prevalence": float(found.prevalence[code]),
            "found_by": float(np.median(found.sensitivity[:, code])),
            "false_rate": float(np.median(found.false_rate[:, code])),
            "entropy": float(entropy[:, code].sum()),
            "gain": float(gain[code]),
        }
        for code in range(answers.n_classes)
    ]


def _gold_check(
    run: Run, crowd: Crowd, answers: MultiLabels, groups: np.ndarray | None, chosen: np.ndarray
) -> dict[str, Any] | None:
    """Return the share of gold tasks whose set is right, beside all workers' and a vote on each class.

    Gold that was used cannot check; the result is then None.
    """
    gold = crowd.gold_sets
    if gold is None or run.settings.consensus.use_gold or not crowd.n_gold:
        return None
    known = gold[:, 0] >= 0
    truth = gold[known] == 1
    everybody = _chosen(set_consensus(run, crowd, answers, groups), answers.n_classes)
    vote = 2 * _given(answers) > np.diff(answers.task_start)[:, None]
    rules = {"accuracy": chosen, "unfiltered": everybody, "majority_vote": vote}
    right = {name: (one[known] == truth).all(axis=1) for name, one in rules.items()}
    all_right = np.ones(len(truth), np.int64)
    exact = {name: accuracy(one.astype(np.int64), all_right) for name, one in right.items()}
    return {
        "n": len(truth),
        "low": exact["accuracy"].lower,
        "high": exact["accuracy"].upper,
        "ungrouped": None,
        "macro_f1": _macro_f1(truth, chosen[known]),
        **{name: one.value for name, one in exact.items()},
        "vote_wins": vote_wins(right["accuracy"], right["majority_vote"]),
    }


def _macro_f1(
    truth: Bool[np.ndarray, "gold classes"], chosen: Bool[np.ndarray, "gold classes"]
) -> float:
    """Return the mean, over classes that occur, of the harmonic mean of precision and recall."""
    both, either = (truth & chosen).sum(axis=0), truth.sum(axis=0) + chosen.sum(axis=0)
    f1: float = (2 * both[either > 0] / either[either > 0]).mean() if either.any() else 0.0
    return float(f1)


def _n_regrouped(
    run: Run, crowd: Crowd, kept: MultiLabels, groups: np.ndarray | None, chosen: np.ndarray
) -> int | None:
    """Count tasks whose set would differ if members of groups had one vote each; None without groups."""
    if groups is None:
        return None
    apart = _chosen(set_consensus(run, crowd, kept, None), kept.n_classes)
    return int((apart != chosen).any(axis=1).sum())
