"""Campaigns to try: a simulated one with its truth, and the sample campaign of the package.

>>> from tempfile import TemporaryDirectory
>>> with TemporaryDirectory() as folder:
...     copy_sample(Path(folder)).name, sorted(file.name for file in Path(folder).iterdir())
('settings.toml', ['gold.csv', 'labels.csv', 'settings.toml', 'tasks.csv'])
"""

from __future__ import annotations

import csv
import shutil
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from importlib.resources import as_file, files
from pathlib import Path

import numpy as np

from quality import Campaign, simulate_campaign

__all__ = ["SETTINGS", "copy_sample", "write_campaign"]

NAMES = ("labels.csv", "tasks.csv", "gold.csv", "settings.toml")


def copy_sample(folder: Path) -> Path:
    """Copy the sample's files that are missing in `folder`; an edited settings file stays as it is.

    Returns
    -------
    Path
        The settings file in `folder`.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for name in NAMES:
        if not (folder / name).exists():
            with as_file(files("sample_data") / name) as source:
                shutil.copyfile(source, folder / name)
    return folder / "settings.toml"


START = datetime(2026, 3, 2, 8, 0, tzinfo=UTC)
SETTINGS = """\
# A simulated campaign. Paths are relative to this file.
name = "sample-campaign"
classes = [{classes}]   # public: names found in private labels would leak
seed = 1                # deals tasks to training, validation and holdout

[input]
labels = "labels.csv"
tasks = ["tasks.csv"]
gold = "gold.csv"

[filter]                # remove the workers with the highest penalties
penalty = "soft"
false_removal_rate = 0.1

[privacy]               # the whole budget of this data set, for ever
unit = "consensus label"
epsilon = 4.0
proportions_epsilon = 1.0

[model]                 # trained and tuned privately on consensus labels
epsilon_train = 2.0
epsilon_select = 0.3
epsilon_score = 0.2
norm_bound = 4.0        # longer feature vectors are shortened to this
regularization = [0.001, 0.003, 0.01]

[gate]                  # the reusable holdout
holdout = 0.2
threshold = 0.1         # a model that does not overfit passes 99 times in 100
sigma = 0.0035          # well below the threshold, or noise alone refutes
budget = 3
"""


def write_campaign(folder: Path, *, seed: int) -> Campaign:
    """Simulate a campaign from a seed and write labels, tasks, gold, settings and the truth."""
    campaign = simulate_campaign(rng=np.random.default_rng(seed))
    (folder / "truth").mkdir(parents=True, exist_ok=True)
    classes = campaign.classes
    times = (START + timedelta(seconds=int(second)) for second in campaign.label_time)
    _write(
        folder / "labels.csv",
        ("worker", "task", "label", "time"),
        zip(
            campaign.label_worker,
            campaign.label_task,
            classes[campaign.label],
            (f"{time:%Y-%m-%dT%H:%M:%S}" for time in times),
            strict=True,
        ),
    )
    features = ([f"{value:.2f}" for value in row] for row in campaign.features)
    _write(
        folder / "tasks.csv",
        ("task", "group", *(f"x{j}" for j in range(campaign.features.shape[1]))),
        (
            (name, group, *row)
            for name, group, row in zip(campaign.tasks, campaign.group, features, strict=True)
        ),
    )
    truth = classes[campaign.truth]
    _write(
        folder / "gold.csv",
        ("task", "label"),
        zip(campaign.tasks[campaign.gold], truth[campaign.gold], strict=True),
    )
    _write(
        folder / "truth" / "tasks.csv", ("task", "label"), zip(campaign.tasks, truth, strict=True)
    )
    _write(
        folder / "truth" / "workers.csv",
        ("worker", "kind", "accuracy"),
        zip(campaign.workers, campaign.worker_kind, _shares(campaign.worker_accuracy), strict=True),
    )
    named = ", ".join(f'"{name}"' for name in classes)
    (folder / "settings.toml").write_text(SETTINGS.format(classes=named), encoding="utf-8")
    return campaign


def _shares(values: np.ndarray) -> list[str]:
    """Return numbers with three decimals, NaN as blank."""
    return ["" if np.isnan(value) else f"{value:.3f}" for value in values]


def _write(path: Path, header: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)
