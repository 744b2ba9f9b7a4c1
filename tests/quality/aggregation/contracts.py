"""One list of aggregators, each of which keeps the promises of test_aggregator_contract.py.

A new aggregator is one line in `AGGREGATORS`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from quality import (
    CrowdLabels,
    auto,
    dawid_skene,
    glad,
    hierarchical_dawid_skene,
    kos,
    kos_plus,
    majority_vote,
    one_coin_dawid_skene,
    penalty_vote,
    weighted_majority,
)

__all__ = ["AGGREGATORS", "Aggregator", "Consensus"]


class Consensus(Protocol):
    """What every aggregator's result holds."""

    posterior: np.ndarray
    label: np.ndarray
    tied: np.ndarray


@dataclass(frozen=True)
class Aggregator:
    """A name for the test report, and the function with the parameters it is tested with.

    Parameters
    ----------
    name
        Of the function.
    run
        From a table to a result.
    nameless
        Whether the names of workers and classes play no part. A rule that breaks symmetry by a
        random start, or by the order of the codes, is not.
    """

    name: str
    run: Callable[[CrowdLabels], Consensus]
    nameless: bool = True


def by_labels_given(labels: CrowdLabels) -> Consensus:
    """Weighted majority whose weights know nothing of names."""
    return weighted_majority(labels, np.sqrt(np.diff(labels.worker_start).astype(np.float64)))


AGGREGATORS = (
    Aggregator("majority_vote", majority_vote),
    Aggregator("weighted_majority", by_labels_given),
    Aggregator("dawid_skene", dawid_skene),
    Aggregator("one_coin_dawid_skene", one_coin_dawid_skene),
    Aggregator("hierarchical_dawid_skene", hierarchical_dawid_skene),
    Aggregator("glad", glad),
    Aggregator("kos", lambda labels: kos(labels, rng=np.random.default_rng(0)), nameless=False),
    Aggregator(
        "kos_plus", lambda labels: kos_plus(labels, rng=np.random.default_rng(0)), nameless=False
    ),
    Aggregator("penalty_vote", penalty_vote, nameless=False),
    Aggregator("auto", lambda labels: auto(labels, rng=np.random.default_rng(0)), nameless=False),
)
