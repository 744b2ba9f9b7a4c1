"""crowd-kit's consensus of a table of ours, asked once: its answers are kept beside its environment."""

from __future__ import annotations

import csv
import json
import tempfile
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import numpy as np

from benchmarks.peers.peers import CROWDKIT
from quality import CrowdLabels

__all__ = ["GIGABYTES", "PEERS", "SECONDS", "Answer", "ask_crowdkit"]

SIDE = "crowdkit_side.py"
PEERS = (
    "MajorityVote", "Wawa", "ZeroBasedSkill", "DawidSkene", "OneCoinDawidSkene", "GLAD", "MACE", "KOS",
    "MMSR",
)  # fmt: skip
SECONDS, GIGABYTES = 900, 12  # a fit of crowd-kit's may take


@dataclass(frozen=True)
class Answer:
    """One rule's labels by task code, and its CPU seconds; or why it has none."""

    label: dict[int, int]
    seconds: float
    error: str = ""

    def right(self, gold: np.ndarray) -> float | str:
        """Per cent of the gold tasks that are right; the error where there is no answer."""
        known = np.flatnonzero(gold >= 0)
        if self.error:
            return self.error
        return 100 * float(np.mean([self.label.get(int(task)) == gold[task] for task in known]))


def ask_crowdkit(labels: CrowdLabels, seconds: int = SECONDS) -> dict[str, Answer]:
    """Every rule's answer to integer codes; none where crowd-kit cannot be installed.

    A fit gets so many CPU seconds; answers are kept that were given as many or more.
    """
    columns = [getattr(labels, part).astype(np.int64) for part in ("worker", "task", "label")]
    key = sha256(b"".join(column.tobytes() for column in columns)).hexdigest()[:16]
    asked = {
        int(path.stem.split("-")[2]): path for path in CROWDKIT.folder.glob(f"answers-{key}-*")
    }
    kept = asked.get(max(asked, default=0), Path())
    if max(asked, default=0) < seconds:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "labels.csv"
            with path.open("w", newline="") as file:
                writer = csv.writer(file)
                writer.writerow(("worker", "task", "label"))
                writer.writerows(zip(*(column.tolist() for column in columns), strict=True))
            printed = CROWDKIT.run(SIDE, str(path), str(seconds), str(GIGABYTES))
        if printed is None:
            return {}
        kept = CROWDKIT.folder / f"answers-{key}-{seconds}.json"
        kept.write_text(printed)
    return {
        name: Answer(
            {int(task): label for task, label in found.get("label", {}).items()},
            found.get("seconds", 0.0),
            found.get("error", ""),
        )
        for name, found in json.loads(kept.read_text()).items()
    }
