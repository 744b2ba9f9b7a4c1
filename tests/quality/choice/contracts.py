"""Every aggregator of `flows.aggregators`, each of which keeps the promises of test_aggregator_contract.py.

A new aggregator is a row of that table and nothing here, unless its result depends on names.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from inspect import signature

import numpy as np

import quality
from flows.aggregators import AGGREGATORS as TABLE
from flows.aggregators import consensus_of
from flows.settings import ConsensusSettings
from quality import Consensus, CrowdLabels

__all__ = ["AGGREGATORS", "Aggregator"]

# their random start, or the order of the codes or classes, breaks a symmetry
BY_NAME = ("auto", "ebcc", "kos", "kos_plus", "ordinal_crowd", "penalty_vote")


@dataclass(frozen=True)
class Aggregator:
    """An aggregator as a run calls it with its defaults, and its function.

    Parameters
    ----------
    name
        As in settings.
    function
        The public function.
    run
        From a table, and `groups` by name, to a result.
    nameless
        Whether the names of workers and classes play no part.
    """

    name: str
    function: Callable[..., Consensus]
    run: Callable[..., Consensus]
    nameless: bool

    @property
    def iterative(self) -> bool:
        """Whether its iterations can be limited."""
        return "max_iter" in signature(self.function).parameters


def by_settings(labels: CrowdLabels, name: str, groups: np.ndarray | None = None) -> Consensus:
    """Aggregate as a run does whose settings name an aggregator and nothing else."""
    chosen = ConsensusSettings.model_validate({"aggregator": name})
    return consensus_of(labels, chosen, seed=0, groups=groups)


AGGREGATORS = tuple(
    Aggregator(name, getattr(quality, name), partial(by_settings, name=name), name not in BY_NAME)
    for name in TABLE
)
