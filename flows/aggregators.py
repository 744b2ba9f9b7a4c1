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
    from quality.choice import NamedAuto
    from quality.many_classes import NamedConsensus

    AnyConsensus: TypeAlias = Consensus | NamedConsensus | NamedAuto

    Decided = TypeVar("Decided", bound=Consensus)

__all__ = [
    "AGGREGATORS", "DEFAULTS", "ORDERED", "Aggregator", "AggregatorName", "any_consensus_of",
    "check_classes", "check_keys", "consensus_of", "decided", "default_aggregator", "title_of",
]  # fmt: skip

ITERATED = ("max_iter", "tol")
STARTED = ("use_gold", "go_on")  # EM from an earlier fit, with gold held to its truth


@dataclass(frozen=True, slots=True)
class Aggregator:
    """One aggregator: the function `name` of `module`, and what is offered of it.

    `title` is its name in reports. `keys` are the keys of ``[consensus]`` that it takes. `sharded` is
    True where ``[engine]`` can run it on shards. `named` is the function of `named_module` for tables
    of very many classes; without one it `needs` more than such tables allow.
    """

    name: str
    title: str
    keys: tuple[str, ...] = ()
    sharded: bool = False
    module: str = "quality.aggregation"
    named: str = ""
    named_module: str = "quality.many_classes"
    needs: str = ""

    @property
    def function(self) -> Callable[..., Consensus]:
        """The function; it takes labels, and by name what its signature lists."""
        found: Callable[..., Consensus] = getattr(import_module(self.module), self.name)
        return found

    @property
    def function_of_named(self) -> Callable[..., NamedConsensus | NamedAuto]:
        """The function for very many classes."""
        found: Callable[..., NamedConsensus | NamedAuto] = getattr(
            import_module(self.named_module), self.named
        )
        return found


MATRICES, TABLE = "a confusion matrix of every worker", "a table of all tasks by all classes"
ROWS = (
    Aggregator(
        "auto",
        "the pool of those that predict best",
        sharded=True,
        module="quality.choice",
        named="auto_of_named",
        named_module="quality.choice",
    ),
    Aggregator(
        "dawid_skene",
        "Dawid–Skene",
        (*ITERATED, "smoothing", *STARTED),
        sharded=True,
        needs=MATRICES,
    ),
    Aggregator("ebcc", "EBCC", ITERATED, needs=MATRICES),
    Aggregator("glad", "GLAD", ITERATED, named="glad_of_named"),
    Aggregator(
        "hierarchical_dawid_skene",
        "hierarchical Dawid–Skene",
        (*ITERATED, *STARTED),
        sharded=True,
        needs=MATRICES,
    ),
    Aggregator("kos", "KOS message passing", ITERATED, needs=TABLE),
    Aggregator("kos_plus", "KOS+ message passing", ITERATED, needs=TABLE),
    Aggregator("mace", "MACE", (*ITERATED, "use_gold"), named="mace_of_named"),
    Aggregator("majority_vote", "majority vote", sharded=True, named="majority_of_named"),
    Aggregator("mmsr", "M-MSR", ITERATED, named="mmsr_of_named"),
    Aggregator(
        "one_coin_dawid_skene",
        "one-coin Dawid–Skene",
        (*ITERATED, "smoothing", *STARTED),
        sharded=True,
        named="one_coin_of_named",
    ),
    Aggregator(
        "ordinal_crowd",
        "the ordinal model",
        (*ITERATED, "use_gold"),
        module="quality.ordered",
        needs=TABLE,
    ),
    Aggregator("penalty_vote", "penalty vote", named="penalty_of_named"),
    Aggregator(
        "weighted_majority",
        "majority vote weighted by reputation",
        module=__name__,
        named="weighted_of_named",
        named_module=__name__,
    ),
)
AGGREGATORS = {row.name: row for row in ROWS}
# the best first; see `default_aggregator`
DEFAULTS = ("auto", "hierarchical_dawid_skene", "dawid_skene")
ORDERED = "ordinal_crowd"  # the default where classes are ordered, and for these alone

if TYPE_CHECKING:
    AggregatorName: TypeAlias = str
else:
    AggregatorName = Literal[tuple(AGGREGATORS)]


class Chosen(Protocol):
    """The part of `ConsensusSettings` that is always read; the keys of the aggregator are read as well."""

    def named(self, *, sharded: bool = False) -> str:
        """Return a name of the table: the settings' own, or else the default."""

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
    """Return the majority vote weighted by :func:`~quality.reputation_weight`."""
    import quality  # numba, which `--help` need not load

    weight = quality.reputation_weight(quality.soft_penalty(labels))
    return quality.weighted_majority(labels, weight, groups=groups)


def weighted_of_named(
    labels: CrowdLabels, *, groups: Int[np.ndarray, " workers"] | None = None
) -> NamedConsensus:
    """Return :func:`weighted_majority` by the classes that each task was given."""
    import quality  # numba, which `--help` need not load
    from quality import many_classes  # likewise

    weight = quality.reputation_weight(quality.soft_penalty(labels))
    return many_classes.weighted_of_named(labels, weight, groups=groups)


def check_classes(
    name: str, *, n_workers: int, n_tasks: int, n_classes: int, n_labels: int, sharded: bool = False
) -> None:
    """Raise LabelError where an aggregator needs more memory than so many classes leave.

    On shards every aggregator but majority vote needs confusion matrices.
    """
    from quality.aggregation import MAX_CELLS  # numba, which `--help` need not load
    from quality.labels import LabelError, fits_table  # likewise

    row, cells = AGGREGATORS[name], n_workers * n_classes**2
    matrices = row.needs == MATRICES or (sharded and name != "majority_vote")
    if matrices and cells > MAX_CELLS:
        has = f"{cells:,} cells with {n_workers:,} workers and {n_classes:,} classes"
        what = MATRICES
    elif row.needs == TABLE and not fits_table(n_tasks, n_classes, n_labels):
        has = f"{n_tasks * n_classes:,} cells with {n_tasks:,} tasks and {n_classes:,} classes"
        what = TABLE
    else:
        return
    others = [
        one.name for one in ROWS if one.named and (not sharded or one.name == "majority_vote")
    ]
    raise LabelError(
        f"{name} needs {what}, of at most {MAX_CELLS:,} cells in all, and there are {has}; "
        f"consensus.aggregator can be {', '.join(others)} instead",
        column="classes",
    )


def any_consensus_of(
    labels: CrowdLabels,
    chosen: Chosen,
    *,
    seed: int,
    gold: Int[np.ndarray, " tasks"] | None = None,
    groups: Int[np.ndarray, " workers"] | None = None,
    start: EMStart | None = None,
    progress: Progress | None = None,
) -> AnyConsensus:
    """Aggregate as `consensus_of` does; by the classes that tasks were given where there are too many.

    Those aggregators begin anew, whatever the `start`.
    """
    from quality.labels import LabelError  # numba, which `--help` need not load
    from quality.many_classes import needs_names  # likewise

    row = AGGREGATORS[chosen.named()]
    if not needs_names(labels):
        return consensus_of(
            labels, chosen, seed=seed, gold=gold, groups=groups, start=start, progress=progress
        )
    check_classes(
        row.name, n_workers=labels.n_workers, n_tasks=labels.n_tasks, n_classes=labels.n_classes,
        n_labels=labels.n_labels,
    )  # fmt: skip
    if not row.named:
        return consensus_of(labels, chosen, seed=seed, groups=groups, progress=progress)
    if chosen.loss != "zero_one":
        raise LabelError(
            f'consensus.loss must be "zero_one" with {labels.n_classes:,} classes, got "{chosen.loss}"',
            column="classes",
        )
    function = row.function_of_named
    return function(labels, **_arguments(function, chosen, seed, gold, groups, None, progress))


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
    from quality.labels import check_table  # numba, which `--help` need not load

    check_table(labels.n_tasks, labels.n_classes, labels.n_labels)
    function = AGGREGATORS[chosen.named()].function
    given = _arguments(function, chosen, seed, gold, groups, start, progress)
    return decided(function(labels, **given), chosen.loss)


def _arguments(
    function: Callable[..., Any],
    chosen: Chosen,
    seed: int,
    gold: Int[np.ndarray, " tasks"] | None,
    groups: Int[np.ndarray, " workers"] | None,
    start: EMStart | None,
    progress: Progress | None,
) -> dict[str, Any]:
    """Return what a function is given beside the labels."""
    import numpy as np  # `--help` need not load it

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
    return given


def decided(found: Decided, loss: Loss) -> Decided:
    """Return a consensus with the labels of least expected loss."""
    if loss == "zero_one":
        return found
    from dataclasses import replace  # for ordered classes only

    from quality import least_loss  # likewise

    label, tied = least_loss(found.posterior, loss)
    return replace(found, label=label, tied=tied)  # type: ignore[type-var]  # results are dataclasses
