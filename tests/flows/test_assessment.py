"""One call from a data frame to a report: the same as a run, and nothing of it stays."""

from __future__ import annotations

import datetime
import gc
import tempfile
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import flows
from flows import Assessment, assess, load_settings, run_pipeline
from flows.files import OutputError
from flows.settings import SettingsError
from flows.tables import TableError
from tests.flows.campaign import write_small_campaign


def crowd(n_tasks: int = 60, n_workers: int = 8) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Labels with integer tasks, and the truth of every task; the last worker answers at random."""
    rng = np.random.default_rng(3)
    truth = np.where(rng.random(n_tasks) < 0.7, "ham", "spam")
    rows = [
        (f"w{worker}", task, truth[task] if rng.random() < 0.9 and worker else rng.choice(["ham", "spam"]))
        for task in range(n_tasks)
        for worker in rng.choice(n_workers, size=5, replace=False)
    ]  # fmt: skip
    labels = pd.DataFrame(rows, columns=["annotator", "item", "answer"])
    return labels, pd.DataFrame({"item": range(n_tasks), "answer": truth})


NAMED = {"worker": "annotator", "task": "item", "label": "answer"}


@pytest.fixture(scope="module")
def found() -> Assessment:
    labels, truth = crowd()
    gold = truth.sample(30, random_state=0)
    return assess(labels, gold=gold, gold_sampling="random", filter={"n_workers": 1}, **NAMED)


def test_workers_consensus_shares_and_report_come_from_one_call(found: Assessment) -> None:
    _, truth = crowd()
    consensus = found.consensus.to_pandas().sort_values("task", ignore_index=True)
    assert consensus["task"].tolist() == truth["item"].tolist()
    assert (consensus["label"] == truth["answer"]).mean() > 0.9
    assert found.workers.to_pandas()["worker"][0] == "w0"  # who answers at random
    assert len(found.next_labels) == len(truth)
    assert found.report.startswith("<!DOCTYPE html>")
    assert {"crowd", "consensus"} <= set(found.verdicts)
    assert not any(said.startswith("skipped") for said in found.verdicts.values())


def test_gold_of_no_labelled_task_is_not_passed_over_in_silence() -> None:
    labels, truth = crowd(n_tasks=20)
    other = truth.assign(item=[f"item {item}" for item in truth["item"]])
    said = assess(labels, gold=other, filter={"n_workers": 0}, **NAMED).verdicts["consensus"]
    assert "no gold tasks to check against; none of the 20 gold tasks has a label" in said


def test_ids_and_labels_have_the_types_that_they_came_with(found: Assessment) -> None:
    assert found.consensus.arrow["task"].type == pa.int64()
    labels, _ = crowd()
    numbers = labels.assign(answer=(labels["answer"] == "spam").astype(int))
    coded = assess(numbers, filter={"n_workers": 0}, **NAMED)
    assert set(coded.consensus.arrow["label"].to_pylist()) == {0, 1}
    assert coded.shares.arrow["class"].to_pylist() == [0, 1]


@pytest.mark.parametrize(
    "make",
    [
        lambda n: pd.Timestamp("2024-01-01", tz="Europe/Paris") + pd.Timedelta(days=n),
        lambda n: pd.Timestamp("2024-01-01") + pd.Timedelta(hours=n),
        lambda n: pd.Timedelta(hours=n),
        lambda n: datetime.date(2024, 1, 1) + datetime.timedelta(days=n),
        lambda n: Decimal(n) / 4,
    ],
    ids=["moment with a zone", "moment", "duration", "date", "decimal"],
)
def test_ids_of_other_types_come_back_as_they_came(make: Any) -> None:
    labels, _ = crowd()
    given = labels.assign(item=[make(int(task)) for task in labels["item"]])
    found = assess(given, filter={"n_workers": 0}, **NAMED).consensus.to_pandas()
    assert len(given.merge(found, left_on="item", right_on="task")) == len(given)


def test_three_columns_are_named_by_text_or_numbers_and_each_once() -> None:
    labels, _ = crowd()
    unnamed = labels.set_axis([0, 1, 2], axis=1)
    found = assess(unnamed, worker=0, task=1, label=2, filter={"n_workers": 0})  # type: ignore[arg-type]
    assert len(found.consensus) == labels["item"].nunique()
    with pytest.raises(SettingsError, match="must be three columns, got 'item', 'item', 'answer'"):
        assess(labels, worker="item", task="item", label="answer")


def test_ids_have_the_types_of_the_labels_whatever_gold_and_tasks_have(tmp_path: Path) -> None:
    """Whole floats stay floats, categories are what they stand for, and a file's ids are text."""
    labels, truth = crowd()
    floats = labels.astype({"item": "float32", "answer": "category"})
    found = assess(floats, gold=truth[:9], filter={"n_workers": 0}, **NAMED)
    assert found.consensus.arrow["task"].type == pa.float32()
    assert found.next_labels.arrow["task"].to_pylist()[0].is_integer()
    assert set(found.shares.arrow["class"].to_pylist()) == {"ham", "spam"}
    path = tmp_path / "labels.csv"
    plain = labels.set_axis(["worker", "task", "label"], axis=1)
    plain.assign(task=[f"{task:03d}" for task in labels["item"]]).to_csv(path, index=False)
    gold = {"task": truth["item"][:9], "label": truth["answer"][:9]}
    names = assess(str(path), gold=gold, filter={"n_workers": 0}).consensus.arrow["task"]
    assert sorted(names.to_pylist())[:2] == ["000", "001"]


def test_a_sample_of_gold_corrects_the_shares_and_gives_intervals(found: Assessment) -> None:
    shares = found.shares.to_pandas()
    assert shares["share"].sum() == pytest.approx(1)
    assert (shares["low"] <= shares["share"]).all()
    assert (shares["share"] <= shares["high"]).all()
    _, truth = crowd()
    true = (truth["answer"] == "ham").mean()
    (ham,) = shares[shares["class"] == "ham"].itertuples()
    assert ham.low <= true <= ham.high


def test_shares_without_a_sample_are_those_of_the_consensus_without_an_interval() -> None:
    labels, truth = crowd()
    chosen = assess(labels, gold=truth[:9], filter={"n_workers": 0}, **NAMED)
    share = chosen.consensus.to_pandas()["label"].value_counts(normalize=True)
    found = chosen.shares.to_pandas().set_index("class")
    assert found["share"].to_dict() == pytest.approx(share.to_dict())
    assert found[["low", "high"]].isna().all(axis=None)


def test_a_correction_whose_tables_would_be_too_large_is_left_out_with_a_word(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Ten thousand classes took some tables of 800 MB for each group."""
    labels, truth = crowd()
    given: dict[str, Any] = {"gold": truth.sample(30, random_state=0), "gold_sampling": "random"}
    assert "class shares" not in assess(labels, **given, **NAMED).verdicts
    monkeypatch.setattr("flows.assessment.MOST_CELLS", 3)
    left = assess(labels, **given, **NAMED)
    assert left.verdicts["class shares"].startswith(
        "The shares of 2 classes in 1 group are those of the"
    )
    frame = left.shares.to_pandas()
    plain = assess(labels, **NAMED).shares.to_pandas()
    pd.testing.assert_frame_equal(frame, plain)


def test_the_same_arguments_give_the_same_result_and_are_not_changed() -> None:
    labels, _ = crowd()
    before = labels.copy()
    one, other = (assess(labels, filter={"n_workers": 0}, **NAMED) for _ in range(2))
    assert one.consensus.arrow.equals(other.consensus.arrow)
    assert one.workers.arrow.equals(other.workers.arrow)
    pd.testing.assert_frame_equal(labels, before)


def test_no_file_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    labels, _ = crowd()
    assess(labels, filter={"n_workers": 0}, **NAMED)
    with pytest.raises(TableError):
        assess(labels.assign(answer=None), **NAMED)
    gc.collect()  # the refusal's frames hold a connection, and what it spills to
    assert list(tmp_path.iterdir()) == []


def test_it_is_the_run_on_the_same_tables(tmp_path: Path) -> None:
    """Paths are text; sections are those of the settings file."""
    path = str(write_small_campaign(tmp_path))
    whole = run_pipeline(load_settings(path))
    tables = {name: str(tmp_path / f"{name}.csv") for name in ("labels", "tasks", "gold")}
    given = {"filter": {"fraction": 0.1}, "classes": ("a", "b", "c")}
    found = assess(tables["labels"], tasks=tables["tasks"], gold=tables["gold"], **given)
    assert found.workers.arrow["worker"].equals(whole.workers.arrow["worker"])
    same = [
        found.consensus.arrow[name].equals(whole.consensus.arrow[name])
        for name in ("task", "label")
    ]
    assert all(same)
    assert whole.to_frame().equals(whole.consensus.to_pandas())
    assert whole._repr_html_().count("<tr>") == len(whole.verdicts) > 3


def test_columns_of_a_file_may_have_other_names(tmp_path: Path) -> None:
    path, gold = tmp_path / "labels.csv", {"about": ["1", "2"], "said": ["x", "y"]}
    rows = [f"{who},{task},{'xyyx'[task]}" for who in "abc" for task in range(4)]
    rows[-1] = "c,3,y"
    path.write_text("\n".join(["who,about,said", *rows]) + "\n", encoding="utf-8")
    found = assess(
        str(path), gold=gold, worker="who", task="about", label="said", filter={"n_workers": 0}
    )
    assert found.consensus.arrow["label"].to_pylist() == ["x", "y", "y", "x"]
    assert sorted(found.workers.arrow["worker"].to_pylist()) == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("header", "told"),
    [
        ("who is it,about,said", r"which: pass worker='\.\.\.', task='\.\.\.', label='\.\.\.'$"),
        ("Worker ID,task,label", "which is which: pass worker='Worker ID'$"),
        ("task,ann,bob,cy", "worker, melt it to a row per label$"),
    ],
)
def test_what_to_do_about_a_files_columns_is_said_in_arguments(
    tmp_path: Path, header: str, told: str
) -> None:
    """It was options of the command line, --map and --wide, which `assess` does not have."""
    path = tmp_path / "labels.csv"
    path.write_text(f"{header}\n{','.join('1' * len(header.split(',')))}\n")
    with pytest.raises(TableError, match=told) as error:
        assess(str(path))
    assert "--" not in str(error.value)


def test_names_that_only_a_data_frame_has_or_no_file_are_no_mistake(tmp_path: Path) -> None:
    """A run refuses a column that is named and in no table; here a file may have the names themselves."""
    path = tmp_path / "labels.csv"
    path.write_text("worker,task,label\na,t1,x\nb,t1,y\na,t2,x\nb,t2,x\n")
    gold = pd.DataFrame({"about": ["t1"], "said": ["x"]})
    tasks = tmp_path / "tasks.csv"
    tasks.write_text("task,said\nt1,0.5\nt2,0.7\n")
    for given in ({"gold": gold}, {"tasks": str(tasks)}, {}):
        found = assess(
            str(path), worker="who", task="about", label="said", filter={"n_workers": 0}, **given
        )
        assert found.consensus.arrow["task"].to_pylist() == ["t1", "t2"]


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"answer": None}, "labels, rows 1, 2, 3 and .*, column label: the cell is blank"),
        ({"item": 1}, "labels, rows 1, .*: worker 'w3', task '1' stands 39 times"),
    ],
)
def test_a_bad_row_is_named_in_the_callers_words(change: dict[str, object], sentence: str) -> None:
    labels, _ = crowd()
    with pytest.raises(TableError, match=sentence) as caught:
        assess(labels.assign(**change), **NAMED)
    assert ".parquet" not in str(caught.value)


def test_a_column_of_a_type_that_no_file_holds_is_a_sentence() -> None:
    labels, _ = crowd()
    table = pa.Table.from_pandas(labels)
    spans = pa.array([pa.MonthDayNano([1, 0, 0])] * len(labels))
    with pytest.raises(TableError, match=r"labels must have columns of text, numbers, .*month_day"):
        assess(table.append_column("span", spans), **NAMED)


@pytest.mark.parametrize("kind", [dict, pd.Series])
def test_a_label_for_each_task_is_no_table(kind: Any) -> None:
    """The dict raised a TypeError of Arrow's, the Series a sentence about mixed types."""
    labels, truth = crowd()
    gold = kind(dict(zip(truth["item"], truth["answer"], strict=True)))
    with pytest.raises(
        TableError, match=f"gold must have columns, .* got a {kind.__name__} of single"
    ):
        assess(labels, gold=gold, **NAMED)


def test_a_column_of_another_library_is_no_table() -> None:
    """A Series of Polars, which has no `ndim`, was refused for columns of several types."""

    class Series:
        shape = (2,)

    with pytest.raises(TableError, match=r"labels must have columns, .* got a Series of single"):
        assess(Series())


def test_nothing_is_no_table() -> None:
    """It was refused in the words of a settings file."""
    with pytest.raises(TableError, match="labels must be a path, a data frame .* got NoneType"):
        assess(None)


def test_refusals_name_arguments_and_no_options(found: Assessment, tmp_path: Path) -> None:
    labels, _ = crowd()
    with pytest.raises(TableError, match='duplicates = "first" or "last"$'):
        assess(pd.concat([labels, labels]), **NAMED)
    path = found.save_report(tmp_path / "report.html")
    with pytest.raises(OutputError, match="exists; force=True overwrites it"):
        found.save_report(path)


def test_what_would_release_or_keep_something_is_refused() -> None:
    labels, _ = crowd()
    with pytest.raises(SettingsError, match="keeps and releases nothing, so it takes no privacy"):
        assess(labels, privacy={"epsilon": 1.0}, **NAMED)
    with pytest.raises(SettingsError, match=r"consensus\.agregator.*did you mean 'aggregator'"):
        assess(labels, consensus={"agregator": "glad"}, **NAMED)
    with pytest.raises(SettingsError, match="arguments for its tables and for no other key of"):
        assess(labels, input={"order": True}, **NAMED)


def test_a_misspelt_argument_names_the_one_that_is_meant() -> None:
    """Columns were answered with the keys of a settings file, which knows none of them."""
    labels, truth = crowd()
    with pytest.raises(
        SettingsError, match=r"^assess takes no 'workers'; did you mean 'worker'\?$"
    ):
        assess(labels, workers="annotator", task="item", label="answer")
    with pytest.raises(SettingsError, match=r"known are labels, gold, .*, filter, consensus"):
        assess(labels, reference=truth, **NAMED)


def test_the_report_is_saved_where_the_caller_says_and_nothing_is_overwritten(
    found: Assessment, tmp_path: Path
) -> None:
    path = found.save_report(str(tmp_path / "report.html"))
    assert path.read_text(encoding="utf-8") == found.report
    with pytest.raises(OutputError):
        found.save_report(path)
    found.save_report(path, force=True)


def test_a_notebook_shows_verdicts_and_tables_escaped() -> None:
    labels, _ = crowd()
    odd = labels.assign(answer=labels["answer"].replace("ham", "<script>x</script>"))
    html = assess(odd, filter={"n_workers": 0}, **NAMED)._repr_html_()
    assert "<script>" not in html
    assert html.count("<table>") == 4


def test_assess_is_named_by_the_room() -> None:
    assert {"assess", "Assessment", "ResultTable", "result_table"} <= set(flows.__all__)
