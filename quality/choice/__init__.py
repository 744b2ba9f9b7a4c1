"""Choice among aggregators, by the labels alone.

* :func:`auto`: several aggregators pooled by how well they predict labels held out from them.
* :func:`auto_by_shards`: the same for a table in shards.
* :func:`auto_of_named`: the same for very many classes, with the aggregators that can handle them.

>>> from quality import encode
>>> labels = encode(["ann", "bob", "cy"] * 2, [1, 1, 1, 2, 2, 2], list("aabbba"))
>>> auto(labels).label
array([0, 1], dtype=int16)
"""

from quality.choice.automatic import Auto, auto
from quality.choice.held_out_labels import folds
from quality.choice.named_pool import NamedAuto, auto_of_named
from quality.choice.sharded_automatic import (
    AutoByShards,
    ShardFit,
    auto_by_shards,
    auto_result,
    fit_by_shards,
)

__all__ = [
    "Auto", "AutoByShards", "NamedAuto", "ShardFit", "auto", "auto_by_shards", "auto_of_named", "auto_result",
    "fit_by_shards", "folds",
]  # fmt: skip
