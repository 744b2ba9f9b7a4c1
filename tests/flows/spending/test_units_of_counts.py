"""What one change of the data can move in the class counts that a run publishes, under each unit."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from flows.aggregators import consensus_of
from flows.pipeline import run_pipeline
from flows.settings import ConsensusSettings
from flows.settings.settings import load_settings
from flows.spending import read_statements
from privacy import Unit, class_counts
from quality import CrowdLabels
from tests.flows.campaign import write_small_campaign

BY_VOTE = '[consensus]\naggregator = "majority_vote"\n'
N_TASKS, N_CLASSES = 12, 3
GROUP = np.repeat([0, 1], N_TASKS // 2)


def crowd() -> CrowdLabels:
    """Seven workers, of whom two or four answer each task: a third of the tasks or more are tied."""
    rng = np.random.default_rng(5)
    rows = [
        (worker, task, rng.integers(N_CLASSES))
        for task in range(N_TASKS)
        for worker in rng.choice(7, size=2 + 2 * (task % 2), replace=False)
    ]
    return labels_of(np.array(rows))


def labels_of(rows: np.ndarray) -> CrowdLabels:
    worker, task, label = rows.T
    return CrowdLabels.from_codes(
        worker, task, label, workers=np.array(list("abcdefg")),
        tasks=np.array([f"t{task:02d}" for task in range(N_TASKS)]), classes=np.array(list("xyz")),
    )  # fmt: skip


def flips(labels: CrowdLabels) -> Iterator[tuple[int, CrowdLabels]]:
    """Every data set that differs in one answer, with the task whose answer it is."""
    rows = np.column_stack([labels.worker, labels.task, labels.label])
    for row in range(len(rows)):
        for other in range(1, N_CLASSES):
            flipped = rows.copy()
            flipped[row, 2] = (rows[row, 2] + other) % N_CLASSES
            yield int(rows[row, 1]), labels_of(flipped)


def consensus(labels: CrowdLabels, aggregator: str) -> np.ndarray:
    chosen = ConsensusSettings(aggregator=aggregator)
    return consensus_of(labels, chosen, seed=0).label.astype(np.int64)


def counts(label: np.ndarray, unit: Unit) -> np.ndarray:
    queries = class_counts(
        label, GROUP, dataset="toy", n_classes=N_CLASSES, n_groups=2, group_names=("a", "b"),
        unit=unit, local=True, tasks=[f"t{task:02d}" for task in range(N_TASKS)],
    )  # fmt: skip
    assert {query.l1 for query in queries} == {2.0}
    return np.array([query.value for query in queries])


@pytest.mark.parametrize("unit", [Unit.ANSWER, Unit.TASK])
def test_one_answer_moves_at_most_its_own_tasks_label_where_its_unit_is_offered(unit: Unit) -> None:
    """Ties included: the counts of one group move by the l1 sensitivity that is paid for, or not at all."""
    before = consensus(crowd(), "majority_vote")
    tied = consensus_of(crowd(), ConsensusSettings(aggregator="majority_vote"), seed=0).tied
    assert tied.sum() >= N_TASKS // 3
    moved = 0
    for task, flipped in flips(crowd()):
        after = consensus(flipped, "majority_vote")
        assert set(np.flatnonzero(after != before)) <= {task}
        distance = np.abs(counts(after, unit) - counts(before, unit)).sum(axis=1)
        assert sorted(distance.tolist()) in ([0, 0], [0, 2])
        moved += distance.any()
    assert moved > 0


def test_elsewhere_one_answer_can_move_several_labels() -> None:
    """So a price for consensus labels promises nothing about a single answer, and says so."""
    before = consensus(crowd(), "dawid_skene")
    moved = [
        np.count_nonzero(consensus(flip, "dawid_skene") != before) for _, flip in flips(crowd())
    ]
    assert max(moved) >= 2
    assert "a single answer" in Unit.CONSENSUS_LABEL.beyond


def test_a_run_whose_unit_is_the_answer_books_and_promises_answers(tmp_path: Path) -> None:
    path = write_small_campaign(tmp_path)
    text = path.read_text().replace("fraction = 0.1", "n_workers = 0")
    text = text.replace("[privacy]\n", f'{BY_VOTE}groups = "ignore"\n[privacy]\nunit = "answer"\n')
    path.write_text(text)
    settings = load_settings(path)
    result = run_pipeline(settings)
    (found,) = read_statements(settings.state)
    assert found["unit"] == "answer"
    assert [entry["what"] for entry in found["entries"]].count("class counts") == 6
    page = (result.folder / "public.html").read_text(encoding="utf-8")
    assert "in numbers that protect one worker’s answer to one task." in page
    assert "it protects one worker’s answer to one task" in page
    lines = {stage.stage: stage.line for stage in result.stages}
    assert "at epsilon 2 per answer" in lines["publish_proportions"]
    assert "epsilon 7.5 per answer;" in lines["train_privately"]


def with_copiers(*, flipped: bool) -> str:
    """Nine workers on their own, and four who copy in 33 of 60 tasks; one answer of a copier is flipped."""
    rng, n_tasks, n_copied = np.random.default_rng(0), 60, 33
    truth, rows = rng.integers(2, size=n_tasks), []

    def answer(task: int, right: float) -> int:
        return int(truth[task] if rng.random() < right else 1 - truth[task])

    for worker in range(9):
        rows += [(f"h{worker}", task, answer(task, 0.75)) for task in range(n_tasks)]
    source = [answer(task, 0.6) for task in range(n_tasks)]
    for worker in range(4):
        for task in range(n_tasks):
            label = source[task] if task < n_copied else answer(task, 0.75)
            rows.append((f"c{worker}", task, label ^ (flipped and (worker, task) == (0, 5))))
    return "worker,task,label\n" + "".join(f"{who},{task},{'ab'[y]}\n" for who, task, y in rows)


def consensus_of_run(folder: Path, sections: str, *, flipped: bool) -> dict[str, str]:
    folder.mkdir()
    (folder / "labels.csv").write_text(with_copiers(flipped=flipped), encoding="utf-8")
    head = 'name = "copied"\nclasses = ["a", "b"]\n[input]\nlabels = "labels.csv"\n[filter]\nn_workers = 0\n'
    (folder / "settings.toml").write_text(head + BY_VOTE + sections, encoding="utf-8")
    table = run_pipeline(load_settings(folder / "settings.toml")).consensus.to_frame()
    return dict(zip(table["task"], table["label"], strict=True))


@pytest.mark.parametrize(
    ("sections", "moved"),
    [
        ('groups = "ignore"\n[privacy]\nunit = "answer"\nepsilon = 1.0\n', False),
        ('groups = "ignore"\n[privacy]\nunit = "task"\nepsilon = 1.0\n', False),
        ('groups = "weigh"\n[privacy]\nepsilon = 1.0\n', True),
    ],
)
def test_one_answer_of_a_copier_moves_no_other_tasks_label_where_its_unit_is_offered(
    tmp_path: Path, sections: str, moved: bool
) -> None:
    """That answer makes a group of the copiers, which moves other tasks where each group has one vote."""
    before, after = (
        consensus_of_run(tmp_path / str(flipped), sections, flipped=flipped)
        for flipped in (False, True)
    )
    others = before.keys() - {"5"}
    assert len(others) == 59
    assert any(before[task] != after[task] for task in others) is moved
