"""Choices and columns that settings, commands and table readers share, listed once; light for `--help`.

>>> from typing import get_args
>>> get_args(Duplicates)
('error', 'first', 'last')
"""

from __future__ import annotations

from typing import Literal, TypeAlias, get_args

__all__ = [
    "LABEL_COLUMNS",
    "BlockedBy",
    "Duplicates",
    "FeatureUse",
    "GoldSampling",
    "Grouping",
    "LabelColumn",
    "Loss",
    "Metric",
    "Penalty",
    "PostedTo",
    "Removal",
    "TrainingMethod",
]

BlockedBy: TypeAlias = Literal["mturk", "toloka"]
"""Platforms that read a list of workers to block."""
Duplicates: TypeAlias = Literal["error", "first", "last"]
"""What to do with a worker's repeated labels of one task: refuse them, or keep the first or the last."""
FeatureUse: TypeAlias = Literal["auto", "join", "ignore"]
"""Whether tasks' features join the consensus: where nothing speaks against it, or in any case, or never."""
GoldSampling: TypeAlias = Literal["random", "stratified", "chosen"]
"""How the tasks with gold came: at random among all, at random in each group, or in any other way."""
Grouping: TypeAlias = Literal["weigh", "ignore", "remove"]
"""What to do with workers who do not answer on their own: one vote for each group, nothing, or removal."""
LabelColumn: TypeAlias = Literal["worker", "task", "label"]
"""A column that every table of labels has: who gave a label, to what, and which."""
Loss: TypeAlias = Literal["zero_one", "absolute", "squared"]
"""What a wrong label costs: as much as any other, or by how many classes it misses, or its square."""
Metric: TypeAlias = Literal["nominal", "ordinal", "interval"]
"""How far two labels are apart: at all; by the labels ranked between them; by their numbers."""
Penalty: TypeAlias = Literal["soft", "hard"]
"""The penalty by which the filter removes workers."""
PostedTo: TypeAlias = Literal["mturk", "toloka", "label-studio"]
"""Platforms that read tasks to post again."""
Removal: TypeAlias = Literal["weigh", "drop"]
"""What to do with the labels of workers whom the filter removes: the consensus weighs or lacks them."""
TrainingMethod: TypeAlias = Literal["auto", "objective_perturbation", "noisy_descent"]
"""How to train privately: as public numbers choose, tuned and pure, or with a delta and no knob."""

LABEL_COLUMNS: tuple[LabelColumn, ...] = get_args(LabelColumn)
