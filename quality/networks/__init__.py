"""Graphs for networkx: conflicts, semi-matchings, and pairs of workers.

>>> from quality import encode
>>> graph = to_networkx(encode(["ann", "bob", "cy"], [1, 1, 1], list("xyx")))
>>> sorted(graph["ann"])
[('label', 1, 'x')]
"""

from quality.networks.named_graphs import to_networkx

__all__ = ["to_networkx"]
