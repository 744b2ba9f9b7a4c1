"""Class ratios on shards: features are read and worked on a block at a time, here or by Dask."""

from __future__ import annotations

import numpy as np

from flows.run.crowd import Crowd
from flows.run.store import Run
from flows.sharding.engine import Spread, open_spread
from flows.sharding.features import FeatureFolder, FeaturePasses
from flows.stages.class_ratios import Published, published_in, write_ratios
from flows.stages.reading import load
from flows.stages.sharded_reading import engine_of
from flows.stages.skipping import skip
from learners import ClassRatio, learn_streamed_ratios

__all__ = ["estimate_ratios_by_shards"]


def estimate_ratios_by_shards(run: Run) -> str:
    """Class ratios of the groups that nobody labelled; their features are never in memory at once."""
    crowd = load(run)
    published = published_in(run, crowd)
    if isinstance(published, str):
        return skip(run, "class_ratios.json", published)
    if crowd.features is None:
        raise ValueError("the campaign's features are in no folder")
    with open_spread(engine_of(run)) as spread:
        try:
            found, sizes = _found(crowd, crowd.features, published, spread)
        except ValueError as error:  # public facts, as in one process
            return skip(run, "class_ratios.json", str(error))
    return write_ratios(run, crowd, published, found, sizes, streamed=True)


def _found(
    crowd: Crowd, features: FeatureFolder, published: Published, spread: Spread
) -> tuple[list[ClassRatio], list[int]]:
    """Ratios and sizes of the unlabelled groups, learned from the rows with labels of the others."""
    size, labelled = features.bags()
    first = np.cumsum(size) - size
    known = np.searchsorted(crowd.group_names, published.groups)
    bags = [(int(first[code]), int(first[code] + labelled[code])) for code in known]
    model = learn_streamed_ratios(
        FeaturePasses(features, bags, spread),
        published.proportions,
        noise=published.noise,
        level=published.level,
        classes=published.classes,
    )
    new = [(int(first[code]), int(first[code] + size[code])) for code in published.unlabelled]
    found = model.ratios(FeaturePasses(features, new, spread))
    return found, size[published.unlabelled].tolist()
