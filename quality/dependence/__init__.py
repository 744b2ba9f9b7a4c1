"""Workers who do not answer on their own: groups, their evidence, and their effective number.

:func:`dependent_groups` finds them from labels alone; every aggregator takes its `group` as
``groups=`` and counts a group as one voter. For tables in shards there is
:func:`dependent_groups_by_shards`. :func:`pasted_answers` finds workers who paste the answers of a
model, with or without reference labels of it.

>>> from quality import encode
>>> labels = encode(["ann", "bob", "cy"], [1, 1, 1], ["yes", "no", "no"])
>>> dependent_groups(labels)
DependentGroups(3 workers, worth 3.0: 0 groups)
"""

from quality.dependence.groups import (
    DependentGroups,
    dependent_groups,
    dependent_groups_by_shards,
    effective_number,
)
from quality.dependence.pasted import PastedAnswers, pasted_answers

__all__ = [
    "DependentGroups", "PastedAnswers", "dependent_groups", "dependent_groups_by_shards",
    "effective_number", "pasted_answers",
]  # fmt: skip
