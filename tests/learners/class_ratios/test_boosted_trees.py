"""Boosted trees: what they ask of the machine."""

import os
import subprocess
import sys

import pytest

TOLD = {"LOKY_MAX_CPU_COUNT", "OMP_NUM_THREADS"}  # with these nobody asks the machine
UNKNOWN_CORES = """
import sys, warnings
from joblib.externals.loky.backend import context
context._cpu_count_user = lambda n: n
context._count_physical_cores = lambda: asked.append(1) or ("not found", ValueError("0 < 1"))
asked = []
import numpy as np
from learners.class_ratios.bags import LabelledBags
from learners.class_ratios.boosted_trees import boosted_trees
warnings.simplefilter("error")
line = np.linspace(-1, 1, 120)[:, None]
bags = LabelledBags.of([line[:80], line[40:]], np.array([[0.75, 0.25], [0.25, 0.75]]))
boosted_trees(bags)
print(len(asked))
"""


@pytest.mark.long
def test_a_machine_that_does_not_tell_its_cores_is_not_mentioned() -> None:
    """One thread is used whatever the number, which joblib asks for and would warn about."""
    command = [sys.executable, "-c", UNKNOWN_CORES]
    environment = {name: value for name, value in os.environ.items() if name not in TOLD}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.stdout == "1\n", done.stderr[-300:]
