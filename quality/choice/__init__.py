"""Choice: which aggregators to believe, settled by the labels alone.

* :func:`auto`: several aggregators pooled by how well they predict labels held out from them.

>>> from quality import encode
>>> labels = encode(["ann", "bob", "cy"] * 2, [1, 1, 1, 2, 2, 2], list("aabbba"))
>>> auto(labels).label
array([0, 1], dtype=int16)
"""

from quality.choice.automatic import Auto, auto, folds, meanings

__all__ = ["Auto", "auto", "folds", "meanings"]
