"""A run whose classes are too many for confusion matrices: what it writes, says and refuses."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from flows.pipeline import run_pipeline
from flows.report.worker_page import worker_facts
from flows.settings import SettingsError
from flows.settings.settings import load_settings
from flows.stages.label_plan import LIKELIEST, _of_likeliest, _one_coin_of_likeliest
from flows.tables import TableError
from quality import encode
from tests.flows.campaign import write_small_campaign


@pytest.fixture
def many(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take the few classes of a small campaign for too many, and no consensus as found before."""
    monkeypatch.setattr("quality.many_classes.named_votes.MAX_CELLS", 10)
    monkeypatch.setattr("flows.stages.labels.whole_labels._RECENT", {})


def write_campaign(folder: Path, more: str = "") -> Path:
    path = write_small_campaign(folder)
    text = path.read_text(encoding="utf-8").split("[privacy]")[0]
    path.write_text(text + more, encoding="utf-8")
    return path


@pytest.mark.usefixtures("many")
def test_the_pool_takes_what_the_classes_allow_and_the_report_says_so(tmp_path: Path) -> None:
    folder = run_pipeline(load_settings(write_campaign(tmp_path))).folder
    choice = json.loads((folder / "consensus.json").read_text(encoding="utf-8"))["choice"]
    assert choice["left_out"] == ["hierarchical_dawid_skene", "dawid_skene", "kos"]
    page = (folder / "report.html").read_text("utf-8")
    assert "With so many classes these were left out: " in page
    table = pq.read_table(folder / "consensus.parquet").to_pylist()
    for row in table:
        assert len(row["named"]) == len(row["posterior"])
        assert row["label"] in row["named"]
        assert max(row["posterior"]) == pytest.approx(row["model_confidence"])
    ranked = pq.read_table(folder / "next_labels.parquet").to_pylist()
    assert all(sum(row["counts"]) == row["n_labels"] for row in ranked)
    assert all(len(row["counts"]) == len(row["named"]) for row in ranked)
    assert pq.read_table(folder / "label_plan.parquet").num_rows > 0
    worker = pq.read_table(folder / "workers.parquet")["worker"][0].as_py()
    with pytest.raises(TableError, match="classes, too many for the page of a single worker"):
        worker_facts(folder, worker)


@pytest.mark.parametrize("max_cells", [10, 2**27])
def test_tables_are_the_same_in_however_many_parts_they_are_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, max_cells: int
) -> None:
    monkeypatch.setattr("quality.many_classes.named_votes.MAX_CELLS", max_cells)
    monkeypatch.setattr("flows.stages.labels.whole_labels._RECENT", {})
    path, tables = write_campaign(tmp_path), list[dict[str, pa.Table]]()
    for rows in (2**20, 64):
        monkeypatch.setattr("flows.stages.consensus.ROW_GROUP", rows)
        folder = run_pipeline(load_settings(path), again=True).folder
        names = ("consensus.parquet", "next_labels.parquet")
        tables.append({name: pq.read_table(folder / name) for name in names})
        assert pq.read_metadata(folder / names[0]).num_row_groups == -(-360 // rows)
    assert tables[0] == tables[1]
    assert tables[0]["consensus.parquet"].num_rows == 360


@pytest.mark.parametrize(
    "name",
    [
        "glad",
        "mace",
        "majority_vote",
        "mmsr",
        "one_coin_dawid_skene",
        "penalty_vote",
        "weighted_majority",
    ],
)
def test_the_labels_are_those_of_the_aggregator_of_few_classes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    chosen = f'[consensus]\naggregator = "{name}"\nfeatures = "ignore"\n'
    (tmp_path / "few").mkdir()
    (tmp_path / "many").mkdir()
    few = run_pipeline(load_settings(write_campaign(tmp_path / "few", chosen))).folder
    monkeypatch.setattr("quality.many_classes.named_votes.MAX_CELLS", 10)
    monkeypatch.setattr("flows.stages.labels.whole_labels._RECENT", {})
    many = run_pipeline(load_settings(write_campaign(tmp_path / "many", chosen))).folder
    one, other = (pq.read_table(folder / "consensus.parquet") for folder in (few, many))
    for column in ("label", "conflict", "tied", "overruled", "n_labels"):
        assert one[column].to_pylist() == other[column].to_pylist()
    for column in ("confidence", "model_confidence", "entropy", "margin"):
        np.testing.assert_allclose(one[column].to_numpy(), other[column].to_numpy(), atol=1e-6)


@pytest.mark.usefixtures("many")
def test_what_needs_a_table_of_tasks_by_classes_is_refused(tmp_path: Path) -> None:
    path = write_campaign(tmp_path, "[report]\narchetypes = true\n")
    with pytest.raises(SettingsError, match=r"report\.archetypes must be left out with"):
        run_pipeline(load_settings(path))


def test_of_very_many_classes_a_plan_sees_the_likeliest_and_one_for_the_others() -> None:
    rng = np.random.default_rng(0)
    rows = rng.dirichlet(np.full(50, 0.1), size=4)
    labels = encode(["ann", "bob"], [0, 1], [3, 4], classes=range(50))
    part, kinds = _of_likeliest(labels, rows)
    assert part.n_classes == LIKELIEST + 1
    np.testing.assert_allclose(kinds.sum(axis=1), 1.0)
    np.testing.assert_allclose(kinds[:, 0], rows.max(axis=1))
    # the matrices are those of all classes, added up over the others
    confusion = _one_coin_of_likeliest(np.array([0.7]), 50)[0]
    whole = np.full((50, 50), 0.3 / 49)
    np.fill_diagonal(whole, 0.7)
    np.testing.assert_allclose(confusion[:-1, :-1], whole[:LIKELIEST, :LIKELIEST])
    np.testing.assert_allclose(confusion[0, -1], whole[0, LIKELIEST:].sum())
    np.testing.assert_allclose(confusion[-1, -1], whole[-1, LIKELIEST:].sum())
    np.testing.assert_allclose(confusion.sum(axis=1), 1.0)
