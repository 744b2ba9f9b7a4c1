"""Crowd labels: names in, integer codes inside, whole tables or tables in shards.

Use :func:`encode` for columns of names, whatever holds them, and :func:`encode_gold` for known
truths; everything else of `quality` takes the :class:`CrowdLabels` that comes out.

>>> labels = encode(["ann", "bob", "ann"], ["t2", "t1", "t1"], ["yes", "no", "no"])
>>> labels
CrowdLabels(3 labels, 2 tasks, 2 workers, 2 classes)
>>> encode_gold(labels, ["t2"], ["yes"])
array([-1,  1], dtype=int16)

A table larger than memory is cut into :class:`LabelShard`, on which an :class:`Engine` works:
:class:`LocalEngine` by threads, others on other machines. For readers of tables there are
:class:`Texts`, :func:`code_texts` and :func:`code_integers`, which code columns without a Python
object for every cell.
"""

from quality.labels.columns import (
    array_texts,
    code_columns,
    code_integers,
    freeze_arrays,
    lookup,
    sort_codes,
)
from quality.labels.merging import check_groups, of_voters, voters
from quality.labels.named_classes import NamedClasses, NamedPosterior, name_classes
from quality.labels.nearness import NearTable, bring_near, by_votes, order_by_votes, walk_near
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
from quality.labels.sort import check_keep, sorted_ranges
from quality.labels.table import (
    MAX_CLASSES,
    CrowdLabels,
    LabelError,
    RepeatError,
    check_gold,
    check_table,
    count_labels,
    encode,
    encode_gold,
    fits_table,
)
from quality.labels.text_codes import code_texts
from quality.labels.texts import Texts, places_among, taken, text_array

__all__ = [
    "MAX_CLASSES", "CrowdLabels", "Engine", "LabelError", "LabelShard", "LocalEngine", "NamedClasses",
    "NamedPosterior", "NearTable", "RepeatError", "Sums", "Texts", "add_parts", "array_texts",
    "bring_near", "by_votes", "check_gold", "check_groups", "check_keep", "check_table", "code_columns",
    "code_integers", "code_texts", "count_labels", "cut_labels", "encode", "encode_gold", "fits_table",
    "freeze_arrays", "join_shards", "lookup", "name_classes", "of_voters", "order_by_votes",
    "places_among", "sort_codes", "sorted_ranges", "taken", "text_array", "tree_total", "voters",
    "walk_near",
]  # fmt: skip
