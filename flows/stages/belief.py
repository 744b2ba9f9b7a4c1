"""What the stages on shards share: the fit of a consensus, gone on with, and the whole table if small."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from flows.run.crowd import Crowd
from flows.run.store import Run
from flows.sharding.engine import load_fit, save_fit
from flows.sharding.shards import ShardFolder
from flows.stages.sharded_reading import engine_of
from quality import CrowdLabels
from quality.aggregation import (
    EMFit,
    EMStart,
    Posterior,
    dawid_skene_by_shards,
    majority_of_shard,
    one_coin_by_shards,
    posterior_of_shard,
)
from quality.labels import Engine, LabelShard, join_shards

__all__ = ["KEPT_FIT", "MAJORITY", "UNFILTERED_FIT", "Belief", "believed", "whole_table"]

KEPT_FIT, UNFILTERED_FIT = "kept_fit.npz", "unfiltered_fit.npz"
FITS: dict[str, Callable[..., EMFit]] = {
    "dawid_skene": dawid_skene_by_shards,
    "one_coin_dawid_skene": one_coin_by_shards,
}


class Belief(NamedTuple):
    """How a shard's posterior is found, and from what; `fit` is None for majority vote."""

    posterior: Posterior
    parameters: Any
    fit: EMFit | None


MAJORITY = Belief(majority_of_shard, None, None)


def believed(run: Run, engine: Engine, name: str, start: EMStart | None = None) -> Belief:
    """The consensus of an engine's labels; a fit goes on from where its file says it stood.

    A fit that has no file yet starts from `start`, which is in the order of the table's codes.
    """
    chosen, path = run.settings.consensus, run.folder / name
    if chosen.aggregator == "majority_vote":
        return MAJORITY
    knobs = {knob: getattr(chosen, knob) for knob in ("max_iter", "tol", "smoothing")}

    def after(fit: EMFit) -> None:
        if run.progress is not None:
            run.progress("EM over shards", fit.n_iter, chosen.max_iter or 100)
        if fit.n_iter % engine_of(run).checkpoint_every == 0:
            save_fit(path, fit)

    fit = FITS[chosen.aggregator](
        engine, use_gold=chosen.use_gold, start=start, begun=load_fit(path), after=after,
        **{knob: value for knob, value in knobs.items() if value is not None},
    )  # fmt: skip
    save_fit(path, fit)
    return Belief(posterior_of_shard, (fit.prior, fit.table, chosen.use_gold), fit)


def whole_table(run: Run, engine: Engine, shards: ShardFolder, crowd: Crowd) -> CrowdLabels | None:
    """The whole table, where it is small enough for what looks at all labels together."""
    if shards.n_labels > engine_of(run).whole_labels:
        return None
    return join_shards(engine.map(_itself, None), crowd.labels)


def _itself(shard: LabelShard, _: object) -> LabelShard:
    return shard
