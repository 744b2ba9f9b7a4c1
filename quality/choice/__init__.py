"""Choice: which aggregator to believe, settled by the labels alone.

* :func:`auto`: the one of several aggregators whose consensus predicts other workers' labels best.

>>> from quality import encode
>>> labels = encode(["ann", "bob", "cy"] * 2, [1, 1, 1, 2, 2, 2], list("aabbba"))
>>> auto(labels, rng=np.random.default_rng(0)).label
array([0, 1], dtype=int16)
"""

from quality.choice.automatic import Auto, auto

__all__ = ["Auto", "auto"]
