"""What the first stage read, as the later stages find it: labels, tasks and gold in one file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Float, Int

from flows.files import write_whole
from flows.sharding.features import FeatureFolder, open_features
from flows.tables.tables import Gold, TaskTable
from quality import CrowdLabels, encode_gold

__all__ = ["FEATURES", "Crowd", "load_crowd", "save_crowd"]

FEATURES = "features"  # the folder beside it where these are not in the file
CODED = (
    "worker",
    "task",
    "label",
    "workers",
    "tasks",
    "classes",
)  # of the labels: the rest follows


@dataclass(frozen=True, slots=True, eq=False)
class Crowd:
    """A campaign: crowd labels, and task table, gold answers and response times where there are any.

    Where a run is on shards, the table's features are in a folder instead.
    """

    labels: CrowdLabels
    tasks: TaskTable | None
    gold: Gold | None
    seconds: Float[np.ndarray, " labels"] | None = None
    features: FeatureFolder | None = None

    @property
    def group_names(self) -> np.ndarray:
        """Names of all groups, labelled or not; one group of all tasks where no table gives groups."""
        return np.array(["all tasks"]) if self.tasks is None else self.tasks.group_names

    @property
    def table(self) -> TaskTable:
        """The task table, for stages that have made sure there is one."""
        if self.tasks is None:
            raise ValueError("the campaign has no task table")
        return self.tasks

    def label_features(self) -> Float[np.ndarray, "tasks features"]:
        """Features of every labelled task, in the order of `labels.tasks`: all are loaded for it."""
        whole = self.table.features if self.features is None else self.features.load()
        features: np.ndarray = whole[self.table.rows(self.labels.tasks)]
        return features

    def label_group(self) -> Int[np.ndarray, " tasks"]:
        """Group code of every labelled task, in the order of `labels.tasks`."""
        if self.tasks is None:
            return np.zeros(self.labels.n_tasks, dtype=np.int32)
        group: np.ndarray = self.tasks.group[self.tasks.rows(self.labels.tasks)]
        return group

    def labelled_groups(self) -> tuple[np.ndarray, Int[np.ndarray, " tasks"]]:
        """Sorted names of the groups that have labels, and every labelled task's code among them."""
        found, code = np.unique(self.label_group(), return_inverse=True)
        return self.group_names[found], code

    def gold_code(self) -> Int[np.ndarray, " tasks"]:
        """True class code of every labelled task, -1 where it is unknown."""
        if self.gold is None:
            return np.full(self.labels.n_tasks, -1, dtype=np.int16)
        return encode_gold(self.labels, self.gold.task, self.gold.label)


def save_crowd(path: Path, crowd: Crowd) -> None:
    """Write a campaign as arrays of numbers and text (no pickle), whole or not at all."""
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
        }
    if crowd.gold is not None:
        arrays |= {"gold_task": crowd.gold.task, "gold_label": crowd.gold.label}
    if crowd.seconds is not None:
        arrays["seconds"] = crowd.seconds

    def write(aside: Path) -> None:
        with aside.open("wb") as file:
            np.savez(file, allow_pickle=False, **arrays)

    write_whole(path, write)


def load_crowd(path: Path) -> Crowd:
    """Read back what `save_crowd` wrote."""
    with np.load(path, allow_pickle=False) as stored:
        labels = CrowdLabels.from_codes(**{name: stored[name] for name in CODED})
        tasks = gold = None
        if "table" in stored:
            names = tuple(stored["feature_names"].tolist())
            tasks = TaskTable(
                stored["table"], stored["group"], stored["group_names"], stored["features"], names
            )
        if "gold_task" in stored:
            gold = Gold(stored["gold_task"], stored["gold_label"])
        seconds = stored.get("seconds")
    return Crowd(labels, tasks, gold, seconds, open_features(path.parent / FEATURES))
