"""Aggregators for very many classes, without tables of tasks by classes or workers by classes squared.

The models are those of :mod:`quality.aggregation` that give all classes outside a task's labels the same
likelihood, and the results are the same. A posterior is a :class:`~quality.labels.NamedPosterior`, which
holds a number for each class that a task was given and one for all others.

>>> from quality import encode
>>> labels = encode(["ann", "bob", "cy"], [1, 1, 1], ["no", "yes", "yes"])
>>> found = one_coin_of_named(labels)
>>> found, found.posterior
(NamedConsensus(1 tasks, 0 tied, converged after 5 iterations, log-likelihood -0.0), \
NamedPosterior(1 tasks, 2 classes, 2 named))

Use :func:`needs_names` to check whether a table has too many classes for the other aggregators.
"""

from quality.many_classes.named_em import mace_of_named, one_coin_of_named
from quality.many_classes.named_skills import glad_of_named, mmsr_of_named
from quality.many_classes.named_votes import (
    NamedConsensus,
    majority_of_named,
    needs_names,
    penalty_of_named,
    weighted_of_named,
)

__all__ = [
    "NamedConsensus", "glad_of_named", "mace_of_named", "majority_of_named", "mmsr_of_named",
    "needs_names", "one_coin_of_named", "penalty_of_named", "weighted_of_named",
]  # fmt: skip
