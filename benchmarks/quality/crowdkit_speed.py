"""crowd-kit's CPU time and posteriors on a table of ours, measured in its own environment."""

from __future__ import annotations

import json
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.peers.peers import CROWDKIT
from quality import CrowdLabels

__all__ = ["Peer", "measure_crowdkit"]

SIDE = "crowdkit_speed_side.py"


@dataclass(frozen=True)
class Peer:
    """The seconds and posteriors of crowd-kit for each work; the name of its error where it failed."""

    seconds: dict[str, float | str]
    posterior: dict[str, np.ndarray]


def measure_crowdkit(labels: CrowdLabels, *works: str) -> Peer:
    """Process CPU seconds of works such as ``DawidSkene:100``, on integer codes in shuffled rows."""
    shuffled = np.random.default_rng(0).permutation(labels.n_labels)
    columns = {name: getattr(labels, name)[shuffled] for name in ("worker", "task", "label")}
    with tempfile.TemporaryDirectory() as folder:
        table, answer = Path(folder) / "table.npz", Path(folder) / "answer.npz"
        np.savez(table, **{name: code.astype(np.int64) for name, code in columns.items()})
        printed = CROWDKIT.run(SIDE, str(table), str(answer), *works)
        if printed is None:
            raise SystemExit(
                "crowd-kit's environment cannot be built here: is there a package index?"
            )
        with np.load(answer) as held:
            return Peer(json.loads(printed), dict(held))
