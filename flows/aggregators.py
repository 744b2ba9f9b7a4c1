"""The one table of aggregators, by the names that settings, the command line and reports use.

>>> AGGREGATORS["glad"].title, AGGREGATORS["glad"].keys
('GLAD', ('max_iter', 'tol'))

A new aggregator is a file of its own under `quality/aggregation`, a row of this table and a test. The
choices of ``[consensus] aggregator`` and of `crowdassay aggregate`, the keys that settings accept
beside each, the names in reports and the tests of every aggregator are derived from the rows. The table
itself loads neither NumPy nor numba.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, TypeVar

if TYPE_CHECKING:
    import numpy as np
    from jaxtyping import Int

    from flows.choices import Loss
    from quality import Consensus, CrowdLabels, Progress
    from quality.aggregation import EMStart

    Decided = TypeVar("Decided", bound=Consensus)

__all__ = [
    "AGGREGATORS", "DEFAULTS", "ORDERED", "Aggregator", "AggregatorName", "check_keys", "consensus_of",
    "decided", "default_aggregator", "title_of",
]  # fmt: skip

ITERATED = ("max_iter", "tol")
STARTED = ("use_gold", "go_on")  # EM from an earlier fit, with gold held to its truth


@dataclass(frozen=True, slots=True)
class Aggregator:
    """One aggregator: the function `name` of `module`, and what is offered of it.

    `title` is its name in reports. `keys` are the keys of ``[consensus]`` that it takes. `sharded` is
    True where ``[engine]`` can run it on shards.
    """

    name: str
    title: str
    keys: tuple[str, ...] = ()
    sharded: bool = False
    module: str = "quality.aggregation"

    @property
    def function(self) -> Callable[..., Consensus]:
        """The function; it takes labels, and by name what its signature lists."""
        found: Callable[..., Consensus] = getattr(import_module(self.module), self.name)
        return found


ROWS = (
    Aggregator(
        "auto", "the pool of those that predict best", sharded=True, module="quality.choice"
    ),
    Aggregator("dawid_skene", "Dawid–Skene", (*ITERATED, "smoothing", *STARTED), sharded=True),
    Aggregator("ebcc", "EBCC", ITERATED),
    Aggregator("glad", "GLAD", ITERATED),
    Aggregator(
        "hierarchical_dawid_skene",
        "hierarchical Dawid–Skene",
        (*ITERATED, *STARTED),
        sharded=True,
    ),
    Aggregator("kos", "KOS message passing", ITERATED),
    Aggregator("kos_plus", "KOS+ message passing", ITERATED),
    Aggregator("mace", "MACE", (*ITERATED, "use_gold")),
    Aggregator("majority_vote", "majority vote", sharded=True),
    Aggregator("mmsr", "M-MSR", ITERATED),
    Aggregator(
        "one_coin_dawid_skene",
        "one-coin Dawid–Skene",
        (*ITERATED, "smoothing", *STARTED),
        sharded=True,
    ),
    Aggregator(
        "ordinal_crowd",
        "the ordinal model",
        (*ITERATED, "use_gold"),
        module="quality.ordered",
    ),
    Aggregator("penalty_vote", "penalty vote"),
    Aggregator("weighted_majority", "majority vote weighted by reputation", module=__name__),
)
AGGREGATORS = {row.name: row for row in ROWS}
DEFAULTS = (
    "auto",
    "hierarchical_dawid_skene",
    "dawid_skene",
)  # the best first; see `default_aggregator`
ORDERED = "ordinal_crowd"  # the default where classes are ordered, and for these alone

if TYPE_CHECKING:
    AggregatorName: TypeAlias = str
else:
    AggregatorName = Literal[tuple(AGGREGATORS)]


class Chosen(Protocol):
    """The part of `ConsensusSettings` that is always read; the keys of the aggregator are read as well."""

    def named(self, *, sharded: bool = False) -> str:
        """A name of the table: the settings' own, or else the default."""

    @property
    def use_gold(self) -> bool:
        """Whether gold is given to the aggregator."""

    @property
    def loss(self) -> Loss:
        """What a wrong label costs, where classes are ordered."""


def default_aggregator(keys: Collection[str] = (), *, sharded: bool = False) -> str:
    """Return the first default that takes these keys of ``[consensus]`` and, if asked, runs on shards.

    >>> default_aggregator(), default_aggregator(["use_gold"]), default_aggregator(sharded=True)
    ('auto', 'hierarchical_dawid_skene', 'auto')
    """
    rows = (AGGREGATORS[name] for name in DEFAULTS)
    return next(
        row.name for row in rows if set(keys) <= set(row.keys) and (row.sharded or not sharded)
    )


def check_keys(name: str, keys: Collection[str]) -> None:
    """Raise ValueError for a key that the aggregator does not take, with the names of those that do."""
    for key in keys:
        if key not in AGGREGATORS[name].keys:
            who = ", ".join(row.name for row in AGGREGATORS.values() if key in row.keys)
            raise ValueError(f"{key} is for {who}, not for {name}")


def title_of(name: str) -> str:
    """Return the name that reports use; an aggregator of another version keeps its own name."""
    return AGGREGATORS[name].title if name in AGGREGATORS else name


def weighted_majority(
    labels: CrowdLabels, *, groups: Int[np.ndarray, " workers"] | None = None
) -> Consensus:
    """Return the majority vote weighted by each worker's soft reputation, 1 - penalty."""
    import quality  # numba, which `--help` need not load

    return quality.weighted_majority(labels, 1.0 - quality.soft_penalty(labels), groups=groups)


def consensus_of(
    labels: CrowdLabels,
    chosen: Chosen,
    *,
    seed: int,
    gold: Int[np.ndarray, " tasks"] | None = None,
    groups: Int[np.ndarray, " workers"] | None = None,
    start: EMStart | None = None,
    progress: Progress | None = None,
) -> Consensus:
    """Aggregate by the method that the settings name, with the keys that they give.

    `gold`, -1 where unknown, is used only where ``use_gold`` is True. `groups` vote once each. `start` is
    for an aggregator that can go on from an earlier fit. `seed` is for one that draws, such as `kos`.
    The labels have the least expected loss that the settings name.
    """
    import numpy as np  # `--help` need not load it

    from quality.labels import check_table  # likewise

    check_table(labels.n_tasks, labels.n_classes, labels.n_labels)
    row = AGGREGATORS[chosen.named()]
    function = row.function
    takes = inspect.signature(function).parameters
    given: dict[str, Any] = {
        key: getattr(chosen, key)
        for key in ("max_iter", "tol", "smoothing")
        if getattr(chosen, key) is not None
    }
    if chosen.use_gold and gold is not None:
        given["gold"] = gold
    if groups is not None:
        given["groups"] = groups
    if start is not None:
        given["start"] = start
    if "progress" in takes:
        given["progress"] = progress
    if "rng" in takes:
        given["rng"] = np.random.default_rng(seed)
    return decided(function(labels, **given), chosen.loss)


def decided(found: Decided, loss: Loss) -> Decided:
    """Return a consensus with the labels of least expected loss."""
    if loss == "zero_one":
        return found
    from dataclasses import replace  # for ordered classes only

    from quality import least_loss  # likewise

    label, tied = least_loss(found.posterior, loss)
    return replace(found, label=label, tied=tied)  # type: ignore[type-var]  # results are dataclasses
