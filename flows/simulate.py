"""Campaigns to try: a simulated one with its truth, and the sample campaign of the package.

>>> from tempfile import TemporaryDirectory
>>> with TemporaryDirectory() as folder:
...     copy_sample(Path(folder)).name, sorted(file.name for file in Path(folder).iterdir())
('settings.toml', ['gold.csv', 'labels.csv', 'settings.toml', 'tasks.csv'])
"""

from __future__ import annotations

import csv
import shutil
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from importlib.resources import as_file, files
from pathlib import Path

import numpy as np

from quality import Campaign, simulate_campaign

__all__ = ["copy_sample", "write_campaign"]

START = datetime(2026, 3, 2, 8, 0, tzinfo=UTC)  # of the first label
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
            _copy(name, folder)
    return folder / "settings.toml"


def _copy(name: str, folder: Path) -> None:
    """Copy a file of the sample campaign."""
    with as_file(files("sample_data") / name) as source:
        shutil.copyfile(source, folder / name)


def write_campaign(folder: Path, *, seed: int) -> Campaign:
    """Simulate a campaign from a seed and write labels, tasks, gold, settings and the truth."""
    campaign = simulate_campaign(rng=np.random.default_rng(seed))
    (folder / "truth").mkdir(parents=True, exist_ok=True)
    classes = campaign.classes
    times = (START + timedelta(seconds=int(second)) for second in campaign.label_time)
    _write(
        folder / "labels.csv",
        worker=campaign.label_worker,
        task=campaign.label_task,
        label=classes[campaign.label],
        time=(f"{time:%Y-%m-%dT%H:%M:%S}" for time in times),
    )
    features = {
        f"x{j}": (f"{value:.2f}" for value in column)
        for j, column in enumerate(campaign.features.T)
    }
    _write(folder / "tasks.csv", task=campaign.tasks, group=campaign.group, **features)
    truth, gold = classes[campaign.truth], campaign.gold
    _write(folder / "gold.csv", task=campaign.tasks[gold], label=truth[gold])
    _write(folder / "truth" / "tasks.csv", task=campaign.tasks, label=truth)
    _write(
        folder / "truth" / "workers.csv",
        worker=campaign.workers,
        kind=campaign.worker_kind,
        accuracy=_shares(campaign.worker_accuracy),
    )
    _copy("settings.toml", folder)  # the sample is simulated too, with the same classes
    return campaign


def _shares(values: np.ndarray) -> list[str]:
    """Return numbers with three decimals, NaN as blank."""
    return ["" if np.isnan(value) else f"{value:.3f}" for value in values]


def _write(path: Path, **columns: Iterable[object]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))
