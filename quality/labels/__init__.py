"""TODO face of quality.labels."""

from quality.labels.columns import array_texts, code_integers, freeze_arrays, lookup, sort_codes
from quality.labels.shards import (
    Engine,
    LabelShard,
    LocalEngine,
    Sums,
    add_parts,
    cut_labels,
    join_shards,
    tree_total,
)
from quality.labels.table import CrowdLabels, LabelError, RepeatError, encode, encode_gold
from quality.labels.text_codes import code_texts
from quality.labels.texts import Texts, taken, text_array

__all__ = [
    "CrowdLabels",
    "Engine",
    "LabelError",
    "LabelShard",
    "LocalEngine",
    "RepeatError",
    "Sums",
    "Texts",
    "add_parts",
    "array_texts",
    "code_integers",
    "code_texts",
    "cut_labels",
    "encode",
    "encode_gold",
    "freeze_arrays",
    "join_shards",
    "lookup",
    "sort_codes",
    "taken",
    "text_array",
    "tree_total",
]
