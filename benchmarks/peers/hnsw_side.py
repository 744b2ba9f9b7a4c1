"""Search a graph index of faiss for queries' neighbours; runs in an environment of its own.

``python hnsw_side.py ROWS.npz``: arrays `objects` and `queries`; it prints, for each breadth of the search,
mean distance computations and the row numbers found.
"""

import json
import sys

import faiss
import numpy as np

with np.load(sys.argv[1]) as data:
    objects, queries = data["objects"].astype("float32"), data["queries"].astype("float32")
faiss.omp_set_num_threads(1)
index = faiss.IndexHNSWFlat(objects.shape[1], 16)
index.add(objects)
found = []
for breadth in (10, 20, 40, 80, 160, 320):
    index.hnsw.efSearch = breadth
    faiss.cvar.hnsw_stats.reset()
    ids = index.search(queries, 10)[1]
    found.append((faiss.cvar.hnsw_stats.ndis / len(queries), ids.tolist()))
print(json.dumps(found))
