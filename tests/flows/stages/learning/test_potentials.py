"""What a run writes of whom to trust: beside the plain mean, and nothing where gold says too little."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from flows.pipeline import run_pipeline
from flows.run import Run
from flows.settings.settings import load_settings
from flows.stages.learning.potentials import potential_table
from quality import (
    CrowdLabels,
    WorkerReport,
    encode,
    filter_workers,
    majority_vote,
    worker_report,
)
from tests.flows.campaign import write_small_campaign


def crowd() -> tuple[CrowdLabels, np.ndarray]:
    """Twenty workers label a hundred tasks of two classes; the first eight answer at random."""
    rng = np.random.default_rng(0)
    truth = rng.integers(2, size=100)
    worker, task = np.divmod(np.arange(2000), 100)
    right = rng.random(2000) < np.where(worker < 8, 0.5, 0.85)
    return encode(worker, task, np.where(right, truth[task], 1 - truth[task])), truth


def report_of_gold(labels: CrowdLabels, gold: np.ndarray) -> WorkerReport:
    filtered = filter_workers(labels, n_workers=0)
    return worker_report(labels, filtered, majority_vote(labels).posterior, gold=gold)


def test_potentials_speak_for_the_good_and_stand_beside_the_mean() -> None:
    labels, truth = crowd()
    report = report_of_gold(labels, truth)
    table = potential_table(labels, labels.workers, report, 5).to_pylist()
    worst = {int(row["worker"]) for row in table[:8]}
    assert worst == set(range(8))
    assert all(
        row["potential"] < 0 < later["potential"] for row in table[:8] for later in table[8:]
    )
    assert all(row["known"] for row in table)
    means = [row["mean_agreement"] for row in table]
    assert max(means[:8]) < min(means[8:])


def test_without_enough_known_workers_or_the_labels_there_is_no_potential() -> None:
    labels, truth = crowd()
    report = report_of_gold(labels, truth)
    few = potential_table(labels, labels.workers, report, 101).to_pylist()
    assert all(row["potential"] is None and row["mean_agreement"] is not None for row in few)
    assert not any(row["known"] for row in few)
    none = potential_table(None, labels.workers, report, 5).to_pylist()
    assert all(row["potential"] is None and row["mean_agreement"] is None for row in none)


@pytest.mark.parametrize("asked", [True, False])
def test_a_run_writes_them_where_it_is_asked_to(tmp_path: Path, asked: bool) -> None:
    path = write_small_campaign(tmp_path)
    if asked:
        path.write_text(path.read_text().replace("[filter]\n", "[filter]\npotentials = 5\n"))
    settings = load_settings(path)
    folder = run_pipeline(settings).folder
    assert (folder / "potentials.parquet").exists() == asked
    if asked:
        table = Run(folder, settings).read_table("potentials.parquet")
        assert table.num_rows == 15
