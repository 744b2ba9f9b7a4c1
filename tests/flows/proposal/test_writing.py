"""Proposed settings: that they run as they are, what their numbers depend on, and what is refused."""

from __future__ import annotations

import contextlib
import csv
import json
import re
import sqlite3
import tomllib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from flows.cli import app
from flows.files import OutputError
from flows.pipeline import RunResult, run_pipeline
from flows.proposal import CampaignTables, facts_of, toml_value, why_no_model, write_settings
from flows.settings import Settings, key_sentences, load_settings, section_of
from flows.spending import open_state
from flows.tables import TableError
from learners import Thresholdout
from privacy import Query, Unit, choose_mechanism
from privacy.noise import SystemNoise
from tests.flows.campaign import write_small_campaign

SAMPLE = Path(__file__).resolve().parents[3] / "sample_data"
WHOLE = CampaignTables(SAMPLE / "labels.csv", (SAMPLE / "tasks.csv",), SAMPLE / "gold.csv")
ALONE = CampaignTables(SAMPLE / "labels.csv")


def init(*arguments: object):  # type: ignore[no-untyped-def]
    return CliRunner().invoke(app, ["init", *map(str, arguments)])


def proposed(folder: Path, shown: CampaignTables) -> Settings:
    write_settings(folder / "proposed.toml", shown, name="proposed")
    return load_settings(folder / "proposed.toml")


def skipped(result: RunResult) -> dict[str, str]:
    return {s.stage: s.line for s in result.stages if s.line.startswith("skipped")}


def assert_budget_is_left(result: RunResult) -> None:
    """A run on changed data can follow, and the report says so."""
    spend = json.loads((result.folder / "spend.json").read_text())
    assert 2 * spend["spent"]["epsilon"] == pytest.approx(spend["budget"]["epsilon"], abs=1e-9)
    report = result.report.read_text(encoding="utf-8")
    assert "Some left" in report
    assert "Used up" not in report


def labelled_rows(folder: Path) -> Path:
    """The sample's tasks of the groups that have labels: class ratios, the long stage, have no work."""
    with (SAMPLE / "labels.csv").open(newline="") as file:
        labelled = {row["task"] for row in csv.DictReader(file)}
    header, *rows = (SAMPLE / "tasks.csv").read_text().splitlines()
    kept = [row for row in rows if row.split(",")[0] in labelled]
    (folder / "tasks.csv").write_text("\n".join([header, *kept]) + "\n")
    return folder / "tasks.csv"


@pytest.mark.slow
def test_what_is_proposed_for_the_sample_runs_whole(tmp_path: Path) -> None:
    result = run_pipeline(proposed(tmp_path, WHOLE))
    assert skipped(result) == {}
    assert_budget_is_left(result)


def test_what_is_proposed_for_labelled_groups_runs_whole(tmp_path: Path) -> None:
    shown = CampaignTables(WHOLE.labels, (labelled_rows(tmp_path),), WHOLE.gold)
    result = run_pipeline(proposed(tmp_path, shown))
    assert skipped(result) == {"estimate_ratios": "skipped: every group has labels"}
    assert_budget_is_left(result)


def test_what_is_proposed_for_labels_alone_publishes_and_trains_nothing(tmp_path: Path) -> None:
    chosen = proposed(tmp_path, ALONE)
    assert (chosen.model, chosen.input.tasks, chosen.input.gold) == (None, (), None)
    result = run_pipeline(chosen)
    assert set(skipped(result)) == {
        "estimate_ratios",
        "train_privately",
        "ask_holdout",
    }
    assert_budget_is_left(result)


def test_the_proposed_budget_pays_for_a_second_run_on_changed_labels(tmp_path: Path) -> None:
    write_small_campaign(tmp_path)
    chosen = proposed(tmp_path, CampaignTables(tmp_path / "labels.csv"))
    assert_budget_is_left(run_pipeline(chosen))
    path = tmp_path / "labels.csv"
    turned = {"a": "b", "b": "c", "c": "a"}
    path.write_text(re.sub(r"(?m),([abc])$", lambda m: f",{turned[m[1]]}", path.read_text()))
    again = run_pipeline(chosen)
    spend = json.loads((again.folder / "spend.json").read_text())
    assert spend["spent"] == spend["budget"]
    assert "Used up" in again.report.read_text(encoding="utf-8")


@pytest.mark.parametrize("shown", [WHOLE, ALONE], ids=["whole", "labels alone"])
def test_every_key_of_every_section_is_there(tmp_path: Path, shown: CampaignTables) -> None:
    """Active or as a comment; and as a line, each comment of a key is what a section takes."""
    proposed(tmp_path, shown)
    text = (tmp_path / "proposed.toml").read_text(encoding="utf-8")
    for name, field in Settings.model_fields.items():
        section = section_of(field.annotation)
        if section is None:
            assert re.search(rf"(?m)^(?:# )?{name} = ", text), name
            continue
        (part,) = re.findall(rf"(?ms)^(?:# )?\[{name}\].*?(?:\n\n|\Z)", text)
        for key in section.model_fields:
            (line,) = re.findall(rf"(?m)^(?:# )?({key} = .*)$", part)
            assert set(tomllib.loads(line)) == {key}


def test_a_key_is_explained_in_the_words_of_its_section(tmp_path: Path) -> None:
    """Unless a number of these tables says more; those that do are named here."""
    proposed(tmp_path, WHOLE)
    text = (tmp_path / "proposed.toml").read_text(encoding="utf-8")
    own = {
        "classes",
        "labels",
        "tasks",
        "gold",
        "seconds",
        "column",
        "fraction",
        "epsilon",
        "delta",
    }
    own |= {"planned_releases", "planned_runs", "holdout", "sigma"}
    sections = [section_of(field.annotation) for field in Settings.model_fields.values()]
    for section in [Settings, *filter(None, sections)]:
        for key, field in section.model_fields.items():
            if section_of(field.annotation) is None and key not in own:
                sentence = key_sentences(section)[key]
                said = sentence[:1].lower() + sentence[1:-1]
                assert re.search(rf"(?m)^(?:# )?{key} = .*  # {re.escape(said)}$", text), key


def test_the_numbers_depend_on_public_facts_alone(tmp_path: Path) -> None:
    """Every label another, the same classes and sizes: the same file, byte for byte."""
    folders = [tmp_path / "a", tmp_path / "b"]
    for folder in folders:
        write_small_campaign(folder)
    path = folders[1] / "labels.csv"
    turned = {"a": "b", "b": "c", "c": "a"}
    text = re.sub(r"(?m),([abc])$", lambda m: f",{turned[m[1]]}", path.read_text())
    assert text != path.read_text()
    path.write_text(text)
    for folder in folders:
        proposed(folder, CampaignTables(folder / "labels.csv", (folder / "tasks.csv",)))
    first, second = ((folder / "proposed.toml").read_bytes() for folder in folders)
    assert first == second


def test_too_few_tasks_for_a_holdout_leave_the_model_out(tmp_path: Path) -> None:
    write_small_campaign(tmp_path)
    told = init(
        tmp_path / "labels.csv", tmp_path / "tasks.csv", "--output", tmp_path / "proposed.toml"
    )
    why = "360 labelled tasks are too few for a holdout that could judge it"
    assert f"[model] and [gate] are left out: {why}" in told.output
    assert f"# [model]  is left out: {why}" in (tmp_path / "proposed.toml").read_text()
    assert load_settings(tmp_path / "proposed.toml").model is None


def test_a_model_that_noise_would_drown_is_left_out(tmp_path: Path) -> None:
    """The length it tells is that of the noise that training adds, where all of epsilon is the noise's."""
    found = replace(facts_of(WHOLE), n_features=500)
    why = why_no_model(found)
    assert str(why).startswith("its noise would have a length of 3,006, more than its 2,560")
    assert why_no_model(replace(found, n_features=300)) is None
    columns, times = 501, 400  # a mean of 400 lengths: within 5 standard errors
    lengths = np.array([SystemNoise().gamma(columns, 1.0) for _ in range(times)]) * 2 * 3
    assert abs(lengths.mean() - 3006) < 5 * 6 * np.sqrt(columns / times)


def test_the_gate_costs_no_more_than_the_model(tmp_path: Path) -> None:
    """With the holdout four standard deviations smaller than expected: price by the mechanism."""
    chosen = proposed(tmp_path, WHOLE)
    assert chosen.model is not None
    n = int(800 - 4 * np.sqrt(4000 * 0.2 * 0.8))
    rows = np.zeros(n)
    query = Query(dataset="d", name="holdout", value=rows, unit=Unit.ROW, n=n, l1=np.inf)
    gate = chosen.gate
    judge = Thresholdout(threshold=gate.threshold, sigma=gate.sigma, budget=gate.budget)
    model = chosen.model
    price = model.epsilon_train + model.epsilon_select + model.epsilon_score
    assert 0.95 * price < float(judge.event(query).cost().epsilon) <= price


def test_the_expected_errors_are_the_mechanisms(tmp_path: Path) -> None:
    proposed(tmp_path, WHOLE)
    errors = [choose_mechanism(3, epsilon, 0.0).expected_l1 for epsilon in (0.5, 1.0, 2.0)]
    said = "{:.3g} at 0.5, {:.3g} at 1, {:.3g} at 2".format(*errors)
    assert said in (tmp_path / "proposed.toml").read_text(encoding="utf-8")


def test_the_bound_is_the_median_length_of_the_features() -> None:
    rows = np.loadtxt(SAMPLE / "tasks.csv", delimiter=",", skiprows=1, usecols=range(2, 18))
    norm = facts_of(WHOLE).norm
    assert norm == pytest.approx(np.median(np.sqrt((rows**2).sum(axis=1))), rel=0.05)


def as_parquet(folder: Path) -> CampaignTables:
    """The sample's tables as Parquet, with numbers as numbers."""
    for name in ("labels", "tasks", "gold"):
        pq.write_table(pc.read_csv(SAMPLE / f"{name}.csv"), folder / f"{name}.parquet")
    labels, tasks, gold = (folder / f"{name}.parquet" for name in ("labels", "tasks", "gold"))
    return CampaignTables(labels, (tasks,), gold)


def test_tables_of_parquet_are_streamed_and_labels_beyond_memory_go_through_shards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To the facts of tables that are read whole; and what a run would refuse, is."""
    given = as_parquet(tmp_path)
    assert facts_of(given) == facts_of(WHOLE)
    monkeypatch.setattr("flows.proposal.facts.WHOLE_LABELS", 100)
    assert facts_of(given) == facts_of(WHOLE)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "gold.parquet", "labels.parquet", "tasks.parquet",
    ]  # fmt: skip
    rows = pq.read_table(given.labels)
    pq.write_table(pa.concat_tables([rows, rows.slice(0, 1)]), given.labels)
    with pytest.raises(TableError, match=r"labels\.parquet, rows 1, .* stands 2 times"):
        facts_of(given)
    pq.write_table(pq.read_table(given.tasks[0]).drop_columns("task"), given.tasks[0])
    with pytest.raises(
        TableError, match=r"tasks\.parquet must have the columns task; missing: task"
    ):
        facts_of(given)


def test_a_class_that_only_gold_holds_is_declared(tmp_path: Path) -> None:
    write_small_campaign(tmp_path)
    with (tmp_path / "gold.csv").open("a") as file:
        file.write("t900,z\n")
    assert facts_of(
        CampaignTables(tmp_path / "labels.csv", gold=tmp_path / "gold.csv")
    ).classes == (
        "a",
        "b",
        "c",
        "z",
    )


@given(st.text(st.characters(exclude_categories=["Cs"])))
@settings(max_examples=100, deadline=None, derandomize=True)
def test_any_text_is_spelled_on_one_line_and_read_back(text: str) -> None:
    line = f"key = {toml_value([text])}  # {toml_value(text)}"
    assert tomllib.loads(line) == {"key": [text]}
    assert "\n" not in line


def test_awkward_names_of_columns_and_classes_stay_inside_their_quotes(tmp_path: Path) -> None:
    header = ("worker", "task", "label", 'no # "\\ epsilon = 99')
    classes = ('a"b', "[privacy]\nepsilon = 99", "c # d")
    with (tmp_path / "labels.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(header)
        writer.writerows(
            (f"w{i}", f"t{j}", classes[(i * j) % 3], "x") for i in range(4) for j in range(9)
        )
    chosen = proposed(tmp_path, CampaignTables(tmp_path / "labels.csv"))
    assert chosen.classes == tuple(sorted(classes))
    assert chosen.privacy is not None
    assert chosen.privacy.epsilon == 2.0


def test_seconds_and_another_column_of_groups_are_taken_up(tmp_path: Path) -> None:
    write_small_campaign(tmp_path)
    for name, change in (
        ("labels.csv", ("label", "label,seconds")),
        ("tasks.csv", ("group", "site")),
    ):
        header, _, rows = (tmp_path / name).read_text().partition("\n")
        rows = re.sub(r"(?m)$", ",2.5", rows.rstrip()) if name == "labels.csv" else rows
        (tmp_path / name).write_text(f"{header.replace(*change)}\n{rows}")
    shown = CampaignTables(tmp_path / "labels.csv", (tmp_path / "tasks.csv",), column="site")
    chosen = proposed(tmp_path, shown)
    assert (chosen.input.seconds, chosen.groups.column) == ("seconds", "site")
    assert facts_of(shown).group_sizes == (60,) * 6


def test_the_command_says_what_it_found_and_what_comes_next(tmp_path: Path) -> None:
    output = tmp_path / "my settings.toml"
    told = init(WHOLE.labels, *WHOLE.tasks, "--gold", WHOLE.gold, "--output", output)
    assert told.exit_code == 0
    assert told.output.splitlines() == [
        '20,000 labels of 4,000 tasks by 120 workers, 3 classes: "benign", "suspicious", "toxic"',
        "5,500 tasks in 18 groups (12 with labels); 16 features",
        "300 gold tasks",
        f"{output} is written. Read it, the class names above all, then:",
        f"crowdassay run '{output}'",
    ]
    assert load_settings(output).name == "sample_data"


def test_the_command_says_what_looks_like_a_mistake(tmp_path: Path) -> None:
    """Labels that are numbers or mean nothing, gold of other tasks, classes misspelled in the gold."""
    (tmp_path / "numbers.csv").write_text(
        "worker,task,label\n" + "".join(f"w{n % 2},t{n // 2},{n / 64}\n" for n in range(64))
    )
    (tmp_path / "labels.csv").write_text("worker,task,label\nw1,t1,a\nw2,t1,N/A\n")
    (tmp_path / "gold.csv").write_text("task,label\nt1,a\nT2,A\n")
    output = tmp_path / "settings.toml"
    told = init(tmp_path / "numbers.csv", "--output", output).output
    assert re.search("64 classes: .* and 44 more\n", told)
    assert "64 classes are too many for 64 labels: cut numbers into a few classes first" in told
    told = init(
        tmp_path / "labels.csv", "--gold", tmp_path / "gold.csv", "--output", output, "--force"
    ).output
    assert told.splitlines()[:5] == [
        '2 labels of 1 task by 2 workers, 3 classes: "A", "N/A", "a"',
        "1 task in 1 group (1 with labels); 0 features",
        "2 gold tasks; 1 of them without a label: are tasks named there as in the labels?",
        "classes that gold alone has, and nobody gave: 'A'; mend them if they are misspelled",
        "classes that may mean that there is no label: 'N/A'; crowdassay check finds their rows",
    ]
    assert "spelling alone" not in told  # 'A' is in gold alone, which was given
    (tmp_path / "labels.csv").write_text("worker,task,label\nw1,t1,a\nw2,t1,A\nworker,task,label\n")
    told = init(tmp_path / "labels.csv", "--output", output, "--force").output
    assert "differ in their spelling alone: 'A' = 'a'; crowdassay check --merge --clean" in told
    assert "a class is called 'label', as the column is" in told


def test_workers_with_names_of_models_are_told_and_shown_as_a_comment(tmp_path: Path) -> None:
    labels, output = tmp_path / "labels.csv", tmp_path / "settings.toml"
    rows = "".join(
        f"{who},t{n},{'ab'[n % (j + 2) > 0]}\n"
        for j, who in enumerate(("gpt-4o", "ann", "Qwen/Qwen2.5"))
        for n in range(6)
    )
    labels.write_text("worker,task,label\n" + rows)
    told = init(labels, "--output", output).output
    assert (
        "workers who look like language models by name: 'Qwen/Qwen2.5', 'gpt-4o'; models under [input] "
        "declares those who are\n"
    ) in told
    text = output.read_text(encoding="utf-8")
    assert (
        '# models = ["Qwen/Qwen2.5", "gpt-4o"]  # workers who look like language models by name'
        in text
    )
    assert "models" not in load_settings(output).input.model_fields_set
    output.write_text(text.replace("# models = ", "models = "), encoding="utf-8")
    assert load_settings(output).input.models == ("Qwen/Qwen2.5", "gpt-4o")
    labels.write_text("worker,task,label,kind\n" + rows.replace("\n", ",model\n"))
    told = init(labels, "--output", output, "--force").output
    assert "by name" not in told
    assert len(load_settings(output).input.models) == 3


def test_models_are_those_that_a_run_would_find(tmp_path: Path) -> None:
    """In whichever file of a folder they are, and however the kind is written."""
    days, output = tmp_path / "days", tmp_path / "settings.toml"
    days.mkdir()
    (days / "1.csv").write_text("worker,task,label\nann,t1,a\nbob,t1,b\n")
    (days / "2.csv").write_text("worker,task,label,kind\njudge,t1,a,Model\n")
    assert init(days, "--output", output).exit_code == 0
    assert load_settings(output).input.models == ("judge",)
    (days / "2.csv").write_text("worker,task,label,kind\njudge,t1,a,model\njudge,t2,a,human\n")
    told = init(days, "--output", output, "--force")
    assert told.exit_code == 2
    assert "worker 'judge' is a model in some rows only" in told.stderr


def test_a_name_that_the_ledger_knows_is_told_with_what_it_has_spent(tmp_path: Path) -> None:
    """Other tables in the same folder would silently share a budget."""
    with open_state(tmp_path / "state") as ledger:
        ledger.open_budget("sample_data", unit=Unit.CONSENSUS_LABEL, epsilon=2.0, delta=0.0, n=4)
    told = init(WHOLE.labels, "--output", tmp_path / "settings.toml").output
    assert "the ledger knows 'sample_data', with epsilon 0 of 2 spent" in told
    told = init(
        WHOLE.labels, "--output", tmp_path / "settings.toml", "--name", "mine", "--force"
    ).output
    assert "the ledger knows" not in told


def test_the_command_has_help_with_an_example() -> None:
    assert "Example: crowdassay init labels.csv tasks.csv --gold gold.csv" in init("--help").output


def test_a_file_is_not_overwritten(tmp_path: Path) -> None:
    output = tmp_path / "settings.toml"
    output.write_text("mine")
    told = init(WHOLE.labels, "--output", output)
    assert told.exit_code == 2
    assert told.stderr == (
        f"crowdassay: {output} exists; --force overwrites it, or name another output\n"
    )
    assert output.read_text() == "mine"


def test_a_file_that_appears_meanwhile_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "proposed.toml").symlink_to(tmp_path / "elsewhere.toml")
    with pytest.raises(OutputError, match="exists"):
        proposed(tmp_path, ALONE)
    assert not (tmp_path / "elsewhere.toml").exists()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["none.csv"], "none.csv does not exist"),
        (["labels.csv", "labels.csv"], "labels.csv"),
        (["labels.csv", "--name", "a/b"], "--name must be letters, digits, dots, dashes"),
        (["labels.csv", "--groups", "site"], "--groups must name a column of the task tables"),
        (["labels.csv", "tasks.csv", "--groups", "site"], "tasks.csv has no such column"),
        (["labels.csv", "--gold", "labels.csv"], "labels.csv"),
        (
            ["labels.csv", "--output", "nowhere/settings.toml"],
            "nowhere must be a folder, and is not there",
        ),
    ],
)
def test_a_mistake_is_one_sentence_and_nothing_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], sentence: str
) -> None:
    write_small_campaign(tmp_path)
    monkeypatch.chdir(tmp_path)
    before = sorted(tmp_path.iterdir())
    told = init(*arguments, *([] if "--output" in arguments else ["--output", "new.toml"]))
    assert told.exit_code == 2
    assert told.stderr.startswith("crowdassay: ")
    assert sentence in told.stderr
    assert told.stderr.count("\n") == 1
    assert sorted(tmp_path.iterdir()) == before


def test_files_that_arrive_in_a_folder_are_taken_up_as_one_table(tmp_path: Path) -> None:
    write_small_campaign(tmp_path)
    header, *rows = (tmp_path / "labels.csv").read_text().splitlines()
    (tmp_path / "arrived").mkdir()
    for day in range(2):
        text = "\n".join([header, *rows[day::2]]) + "\n"
        (tmp_path / "arrived" / f"{day}.csv").write_text(text)
    parts = CampaignTables(tmp_path / "arrived", (tmp_path / "tasks*.csv",))
    whole = CampaignTables(tmp_path / "labels.csv", (tmp_path / "tasks.csv",))
    assert facts_of(parts) == facts_of(whole)
    chosen = proposed(tmp_path, parts)
    assert chosen.input.labels == tmp_path / "arrived"
    assert chosen.input.tasks == (tmp_path / "tasks*.csv",)


def test_a_query_is_taken_up_with_the_name_of_its_address(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_small_campaign(tmp_path)
    (tmp_path / "labels.sql").write_text("SELECT * FROM labels")
    header, *rows = (tmp_path / "labels.csv").read_text().splitlines()
    with contextlib.closing(sqlite3.connect(tmp_path / "crowd.db")) as connection, connection:
        connection.execute(f"CREATE TABLE labels ({header})")
        connection.executemany(
            "INSERT INTO labels VALUES (?, ?, ?)", [row.split(",") for row in rows]
        )
    monkeypatch.setenv("CROWD_DATABASE", f"sqlite:///{tmp_path / 'crowd.db'}")
    output = tmp_path / "new.toml"
    labels = str(tmp_path / "labels.sql")
    told = init(labels, "--url-env", "CROWD_DATABASE", "--output", output)
    assert told.exit_code == 0, told.stderr
    assert load_settings(output).input.url_env == "CROWD_DATABASE"
    told = init(labels, "--output", tmp_path / "other.toml")
    assert told.exit_code == 2
    assert "labels.sql is a query, so url_env must name" in told.stderr


def test_without_gold_it_is_told_how_to_give_some(tmp_path: Path) -> None:
    write_small_campaign(tmp_path)
    told = init(tmp_path / "labels.csv", "--output", tmp_path / "proposed.toml")
    assert "no gold: --gold FILE names tasks whose truth is known" in told.output
