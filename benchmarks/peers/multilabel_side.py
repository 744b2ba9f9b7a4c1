"""Print as JSON crowd-kit's BinaryRelevance over DawidSkene on sets of classes; by its own interpreter.

``python multilabel_side.py ROWS.json``: worker, task, label (a list of classes for each row). The answer has
the classes of each task and the CPU seconds of the fit, the less of two.
"""

import json
import sys
import time
import warnings

import pandas as pd
from crowdkit.aggregation import BinaryRelevance, DawidSkene

warnings.simplefilter("ignore")
pd.options.mode.chained_assignment = None
with open(sys.argv[1]) as file:
    rows = pd.DataFrame(json.load(file))
spent = float("inf")
for _ in range(2):
    began = time.process_time()
    found = BinaryRelevance(DawidSkene(n_iter=100)).fit_predict(rows)
    spent = min(spent, time.process_time() - began)
sets = {str(task): [int(one) for one in mine] for task, mine in found.items()}
print(json.dumps({"cpu": spent, "found": sets}))
