"""A campaign as the first stage has read it and the later stages load it: labels, tasks and gold.

The file `crowd.npz` of the run folder holds it. Where the settings have an `[engine]`, `labels` has the names
of workers, tasks and classes and no rows, and the features are in the folder `features` beside it. Where
several classes may hold at once it has no rows either, and `answers` has the sets.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Float, Int, Int8

from flows.files import map_texts, write_arrays
from flows.sharding import FeatureFolder, names_alone, open_features
from flows.tables import Gold, Reference, TaskTable, undamaged
from quality import CrowdLabels, MultiLabels, encode_gold
from quality.labels import sort_codes

__all__ = ["FEATURES", "Crowd", "load_crowd", "save_crowd"]

CROWD, FEATURES = "crowd.npz", "features"
CODED = ("worker", "task", "label", "workers", "tasks", "classes")  # from which the rest follows
SETS = ("worker", "task", "label_start", "label")  # of answers that hold several classes


@dataclass(frozen=True, slots=True, eq=False)
class Crowd:
    """A campaign: crowd labels, and the task table, gold and response times where there are any.

    Parameters
    ----------
    labels
        The crowd's labels; names without rows where the labels are in shards, or are sets.
    tasks
        The task table; without features where `features` has them.
    gold
        Tasks whose true class is known.
    seconds
        Response time of each label, in seconds.
    features
        The folder of the features, where the labels are in shards.
    reference
        Answers of language models, to find workers who paste them.
    models
        Names of the workers that are language models.
    answers
        The crowd's answers where each is a set of classes.
    gold_sets
        With `answers`: 1 where a class is known to hold for a task, 0 where not, -1 where unknown.
    row
        The row of every labelled task in the task table, where it is known already.
    """

    labels: CrowdLabels
    tasks: TaskTable | None
    gold: Gold | None
    seconds: Float[np.ndarray, " labels"] | None = None
    features: FeatureFolder | None = None
    reference: Reference | None = None
    models: tuple[str, ...] = ()
    answers: MultiLabels | None = None
    gold_sets: Int8[np.ndarray, "tasks classes"] | None = None
    row: Int[np.ndarray, " tasks"] | None = None

    @classmethod
    def of_sets(
        cls,
        answers: MultiLabels,
        tasks: TaskTable | None,
        gold_sets: Int8[np.ndarray, "tasks classes"] | None,
    ) -> Crowd:
        """Return the campaign of answers that are sets of classes."""
        names = names_alone(answers.workers, answers.tasks, answers.classes)
        return cls(names, tasks, None, answers=answers, gold_sets=gold_sets)

    @property
    def n_labels(self) -> int:
        """Number of labels, or of answers where these are sets."""
        return self.labels.n_labels if self.answers is None else self.answers.n_answers

    @property
    def n_gold(self) -> int:
        """Number of labelled tasks whose truth is known."""
        known = self.gold_code() if self.gold_sets is None else self.gold_sets[:, 0]
        return int((known >= 0).sum())

    @property
    def group_names(self) -> np.ndarray:
        """Names of all groups, labelled or not; one group of all tasks if there is no task table."""
        return np.array(["all tasks"]) if self.tasks is None else self.tasks.group_names

    @property
    def table(self) -> TaskTable:
        """The task table; ValueError if there is none."""
        if self.tasks is None:
            raise ValueError("the campaign has no task table")
        return self.tasks

    def model_codes(self) -> Int[np.ndarray, " models"]:
        """Return codes of the workers that are language models."""
        return np.flatnonzero(np.isin(self.labels.workers.astype(np.str_), self.models))

    def label_row(self) -> Int[np.ndarray, " tasks"]:
        """Return the row in the task table of every labelled task, in the order of `labels.tasks`."""
        return self.table.rows(self.labels.tasks) if self.row is None else self.row

    def label_features(self) -> Float[np.ndarray, "tasks features"]:
        """Return the features of every labelled task, in the order of `labels.tasks`; in memory."""
        if self.features is not None:
            return self.features.load(self.label_row())
        features: np.ndarray = self.table.features[self.label_row()]
        return features

    def features_of(
        self, *parts: Int[np.ndarray, " _"]
    ) -> tuple[Float[np.ndarray, "_ features"], ...]:
        """Return features of parts of the labelled tasks, by their codes; on shards as pages of files."""
        rows = self.label_row()
        if self.features is not None:
            return tuple(self.features.laid_out(rows[part]) for part in parts)
        return tuple(self.table.features[rows[part]] for part in parts)

    def label_group(self) -> Int[np.ndarray, " tasks"]:
        """Return the group code of every labelled task, in the order of `labels.tasks`."""
        if self.tasks is None:
            return np.zeros(self.labels.n_tasks, dtype=np.int32)
        group: np.ndarray = self.tasks.group[self.label_row()]
        return group

    def labelled_groups(self) -> tuple[np.ndarray, Int[np.ndarray, " tasks"]]:
        """Return sorted names of the groups that have labels, and every labelled task's code among them."""
        found, code = np.unique(self.label_group(), return_inverse=True)
        return self.group_names[found], code

    def label_subject(self) -> np.ndarray | None:
        """Return every labelled task's subject, in the order of `labels.tasks`; None if none is named."""
        if self.tasks is None or self.tasks.subject is None:
            return None
        whose: np.ndarray = self.tasks.subject[self.label_row()]
        return whose

    def gold_code(self) -> Int[np.ndarray, " tasks"]:
        """Return the true class code of every labelled task, -1 where it is unknown."""
        if self.gold is None:
            return np.full(self.labels.n_tasks, -1, dtype=np.int16)
        return encode_gold(self.labels, self.gold.task, self.gold.label)

    def reference_codes(self) -> dict[str, Int[np.ndarray, " tasks"]]:
        """Return each model's class code of every labelled task, -1 where it gave none of the classes."""
        if self.reference is None:
            return {}
        classes = {str(name): code for code, name in enumerate(self.labels.classes)}
        task = {str(name): code for code, name in enumerate(self.labels.tasks)}
        found = {}
        for model in np.unique(self.reference.model).tolist():
            codes = np.full(self.labels.n_tasks, -1, dtype=np.int64)
            own = self.reference.model == model
            answers = zip(self.reference.task[own], self.reference.label[own], strict=True)
            for name, label in answers:
                if str(name) in task:
                    codes[task[str(name)]] = classes.get(str(label), -1)
            found[model] = codes
        return found


def save_crowd(folder: Path, crowd: Crowd) -> None:
    """Write a campaign into a run folder, without pickles, whole or not at all."""
    labels = crowd.labels
    arrays = {name: getattr(labels, name) for name in CODED}
    if crowd.tasks is not None:
        table = crowd.tasks
        arrays |= {
            "table": table.names,
            "group": table.group,
            "group_names": table.group_names,
            "features": table.features,
            "feature_names": np.array(table.feature_names, dtype=np.str_),
            "row": crowd.label_row(),
        }
        arrays |= {} if table.subject is None else {"subject": table.subject}
    if crowd.gold is not None:
        arrays |= {"gold_task": crowd.gold.task, "gold_label": crowd.gold.label}
    if crowd.reference is not None:
        answers = crowd.reference
        arrays |= {
            "reference_model": answers.model,
            "reference_task": answers.task,
            "reference_label": answers.label,
        }
    if crowd.models:
        arrays["models"] = np.array(crowd.models, dtype=np.str_)
    if crowd.seconds is not None:
        arrays["seconds"] = crowd.seconds
    if crowd.answers is not None:
        arrays |= {f"set_{name}": getattr(crowd.answers, name) for name in SETS}
    if crowd.gold_sets is not None:
        arrays["gold_sets"] = crowd.gold_sets
    write_arrays(folder / CROWD, arrays)


def load_crowd(folder: Path) -> Crowd:
    """Return the campaign that `save_crowd` wrote; names stay in the file until they are read."""
    with undamaged(folder / CROWD):
        stored = map_texts(folder / CROWD)
        with (folder / CROWD).open("rb") as kept, np.load(kept, allow_pickle=False) as file:
            stored |= {name: file[name] for name in file.files if name not in stored}
    labels, tasks, gold, reference = _stored_labels(stored), None, None, None
    if "table" in stored:
        names = tuple(stored["feature_names"].tolist())
        tasks = TaskTable(
            stored["table"], stored["group"], stored["group_names"], stored["features"], names,
            stored.get("subject"),
        )  # fmt: skip
    if "gold_task" in stored:
        gold = Gold(stored["gold_task"], stored["gold_label"])
    if "reference_task" in stored:
        reference = Reference(*(stored[f"reference_{name}"] for name in ("model", "task", "label")))
    seconds, row = stored.get("seconds"), stored.get("row")
    models = tuple(stored["models"].tolist()) if "models" in stored else ()
    answers, gold_sets = _stored_sets(stored, labels), stored.get("gold_sets")
    features = open_features(folder / FEATURES)
    return Crowd(
        labels, tasks, gold, seconds, features, reference, models, answers, gold_sets, row
    )  # fmt: skip


def _stored_labels(stored: Mapping[str, np.ndarray]) -> CrowdLabels:
    """Return the label table, whose rows are in order already; its names are not read."""
    worker, task, label, workers, tasks, classes = (stored[name] for name in CODED)
    task_start = np.zeros(len(tasks) + 1, dtype=np.int64)
    np.cumsum(np.bincount(task, minlength=len(tasks)), out=task_start[1:])
    by_worker, worker_start = sort_codes(worker, len(workers))
    return CrowdLabels(
        worker, task, label, workers, tasks, classes, task_start, by_worker, worker_start
    )


def _stored_sets(stored: Mapping[str, np.ndarray], names: CrowdLabels) -> MultiLabels | None:
    """Return the answers that hold several classes, None where every answer is one label."""
    if f"set_{SETS[0]}" not in stored:
        return None
    worker, task, start, label = (stored[f"set_{name}"] for name in SETS)
    answers = np.bincount(task, minlength=names.n_tasks)
    task_start = np.concatenate([[0], np.cumsum(answers)]).astype(np.int64)
    return MultiLabels(
        worker, task, start, label, names.workers, names.tasks, names.classes, task_start, None, None
    )  # fmt: skip
