"""A run whose unit is a subject: who counts, what is booked, how tasks are dealt, and what is refused."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.parquet as pq
import pytest

from flows.pipeline import RunResult, run_pipeline
from flows.run import Run, load_crowd
from flows.settings import EngineSettings, PrivacySettings, SettingsError
from flows.settings.settings import load_settings
from flows.spending import Plan, learning_rows, plan_releases, preview, read_statements
from flows.spending.bounded_counts import (
    counted_tasks,
    dealt_names,
    set_queries,
    subject_queries,
)
from flows.spending.learning_rows import binding_names, deal, drawn_by_name
from flows.tables import TableError
from privacy import Query
from tests.flows.campaign import toy_crowd, toy_run, toy_settings, write_small_campaign

MAX_TASKS = 3


def campaign(
    folder: Path, *, across: bool = False, max_tasks: int = MAX_TASKS, more: str = ""
) -> Path:
    """The small campaign; a subject has five tasks running, or with `across` every 80th task."""
    path = write_small_campaign(folder)
    header, *rows = (folder / "tasks.csv").read_text().splitlines()
    whose = [number % 80 if across else number // 5 for number in range(len(rows))]
    named = [f"{row},p{number:03d}" for row, number in zip(rows, whose, strict=True)]
    (folder / "tasks.csv").write_text("\n".join([f"{header},person", *named]) + "\n")
    unit = f'[privacy]\nunit = "subject"\nmax_tasks_per_subject = {max_tasks}\n{more}'
    text = path.read_text().replace("[privacy]\n", unit)
    text = text.replace("[filter]", 'subject = "person"\n[filter]').replace("= 20.0", "= 60.0")
    text += (
        '[consensus]\naggregator = "hierarchical_dawid_skene"\n'  # in memory and on shards alike
    )
    path.write_text(text)
    return path


@pytest.fixture(scope="module", params=[False, True], ids=["in one group", "across groups"])
def run(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, RunResult, bool]:
    path = campaign(tmp_path_factory.mktemp("subjects"), across=request.param)
    return path, run_pipeline(load_settings(path)), request.param


def planned(path: Path, folder: Path) -> Plan:
    settings = load_settings(path)
    assert settings.privacy is not None
    return plan_releases(Run(folder, settings), load_crowd(folder), settings.privacy)


def test_groups_share_one_price_whether_a_subject_is_in_one_of_them_or_in_several(
    run: tuple[Path, RunResult, bool],
) -> None:
    """Across groups all of them are one release; three rows of a subject cost the gate threefold."""
    path, result, across = run
    settings = load_settings(path)
    (found,) = read_statements(settings.state)
    counted = [entry for entry in found["entries"] if entry["what"] == "class counts"]
    assert len(counted) == (1 if across else 6)
    assert {entry["epsilon"] for entry in counted} == {2.0}
    gate = json.loads((result.folder / "gate.json").read_text())
    assert gate["epsilon"] == pytest.approx(3 * 2 * 2 / (0.02 * gate["n"]), rel=1e-12)
    assert found["unit"] == "subject"
    assert found["spent"]["epsilon"] == pytest.approx(2.0 + max(7.5, gate["epsilon"]), rel=1e-12)
    (trained,) = (entry for entry in found["entries"] if entry["what"] == "rows to train on")
    assert trained["epsilon"] == 7.5
    preview_gate = preview(settings.state, settings, n_tasks=5 * gate["n"])["parts"][2]
    assert preview_gate["epsilon"] == pytest.approx(gate["epsilon"], rel=1e-12)


def test_no_subject_counts_more_often_than_the_bound_and_the_number_left_out_is_internal(
    run: tuple[Path, RunResult, bool],
) -> None:
    path, result, across = run
    plan = planned(path, result.folder)
    assert plan.together is across
    facts = json.loads((result.folder / "proportions.json").read_text())
    n_left_out = facts["n_left_out"]
    assert n_left_out == plan.n_left_out == 360 - plan.sizes.sum()
    assert n_left_out >= 360 * 2 // 5 if not across else n_left_out > 0
    assert {query.l1 for query in plan.counts} == {2.0 * MAX_TASKS}
    assert facts["noise"]["scale"] == 2.0 * MAX_TASKS / 2.0
    table = pq.read_table(result.folder / "proportions.parquet")
    assert table.column("n").to_pylist()[::3] == plan.sizes.tolist()
    noisy = np.array(table.column("noisy_count").to_pylist()).reshape(-1, 3)
    assert noisy.sum(axis=1).tolist() == plan.sizes.tolist()
    report = (result.folder / "report.html").read_text()
    assert f"{n_left_out} tasks more were left out" in report
    (line,) = (one.line for one in result.stages if one.stage == "publish_proportions")
    assert line.endswith(f"; {n_left_out} tasks beyond 3 a subject left out")
    public = [result.folder / "public.html", result.folder / "public" / "release.json"]
    for text in (one.read_text() for one in public):
        assert "left out" not in text
        assert "left_out" not in text


def test_bounds_count_alike_tasks_of_one_subject_as_one(
    run: tuple[Path, RunResult, bool],
) -> None:
    """Of m tasks a subject n say as much as n / m: no bound is the one of so many independent tasks."""
    _, result, _ = run
    found = json.loads((result.folder / "bounds.json").read_text())["bounds"]
    names = [bound["name"] for bound in found]
    assert "Chernoff" in names
    assert "Clopper-Pearson" not in names
    assert all("independent records" not in bound["assumption"] for bound in found)
    page = (result.folder / "report.html").read_text(encoding="utf-8")
    said = "Tasks of one subject may all be alike, so that they count as one task" in page
    (bound,) = (one for one in found if one["name"] == "Chernoff")
    assert said == (not bound["applies"] or bound["value"] < 0.9)  # noise may leave nothing to say


def test_a_subject_is_dealt_whole(run: tuple[Path, RunResult, bool]) -> None:
    path, result, _ = run
    learning = planned(path, result.folder).learning
    assert learning is not None
    rows = learning.rows
    whose = np.array([json.loads(name)[1] for name in rows.names])
    parts = [set(whose[mask]) for mask in (rows.training, rows.validation, rows.holdout)]
    assert not parts[0] & parts[1] | parts[0] & parts[2] | parts[1] & parts[2]
    assert np.unique(whose, return_counts=True)[1].max() <= MAX_TASKS


def test_what_changes_about_one_subject_stays_within_what_is_paid_for(
    run: tuple[Path, RunResult, bool], tmp_path: Path
) -> None:
    """Neighbours: every consensus label and feature of one subject's tasks, and nothing else."""
    path, result, _ = run
    other = shutil.copytree(result.folder, tmp_path / "other")
    before, n_moved = planned(path, result.folder), 0
    for subject in ("p000", "p017", "p040"):
        change_subject(result.folder, other, subject)
        after = planned(path, other)
        distance = [
            int(np.abs(np.asarray(a.value) - np.asarray(b.value)).sum())
            for a, b in zip(before.counts, after.counts, strict=True)
        ]
        assert sum(distance) <= 2 * MAX_TASKS
        n_moved += sum(distance)
        assert [query.part for query in before.counts] == [query.part for query in after.counts]
        assert before.learning is not None
        assert after.learning is not None
        changed = [
            rows_that_differ(before.learning.training, after.learning.training),
            rows_that_differ(before.learning.holdout, after.learning.holdout),
        ]
        assert 0 < sum(changed) <= MAX_TASKS
        assert min(changed) == 0  # one cell of the split alone
    assert n_moved > 0


def change_subject(folder: Path, other: Path, subject: str) -> None:
    """Give all tasks of a subject another consensus label and other features, in a copy of a run."""
    whose = load_crowd(folder).label_subject()
    assert whose is not None
    labels = pq.read_table(folder / "consensus.parquet")
    column = np.array(labels.column("label").to_pylist())
    nexts = np.array(["abc"[("abc".index(name) + 1) % 3] for name in column])
    moved = pa.array(np.where(whose == subject, nexts, column).tolist())
    place = labels.schema.get_field_index("label")
    pq.write_table(labels.set_column(place, "label", moved), other / "consensus.parquet")
    with np.load(folder / "crowd.npz") as stored:
        arrays = dict(stored)
    arrays["features"] = np.where((arrays["subject"] == subject)[:, None], 9.5, arrays["features"])
    np.savez(other / "crowd.npz", allow_pickle=False, **arrays)


def rows_that_differ(one: Query, other: Query) -> int:
    differ = (one.value["x"] != other.value["x"]).any(axis=1) | (one.value["y"] != other.value["y"])
    return int(differ.sum())


def test_pages_promise_the_subject_and_class_ratios_stay_internal(
    run: tuple[Path, RunResult, bool],
) -> None:
    _, result, across = run
    page = (result.folder / "public.html").read_text()
    assert (
        "numbers that protect the features and consensus labels of all tasks of one subject."
        in page
    )
    assert "At most 3 tasks of each subject count." in page
    assert ("so all groups are one release" in page) is across
    assert ("No subject has tasks in two groups" in page) is not across
    assert not (result.folder / "public" / "class_ratios.csv").exists()
    facts = json.loads((result.folder / "class_ratios.json").read_text())
    assert facts["public"] is False
    report = (result.folder / "report.html").read_text()
    assert "Tasks of one subject may be alike" in report


def test_again_on_the_same_data_costs_nothing_and_draws_nothing(
    run: tuple[Path, RunResult, bool],
) -> None:
    path, result, _ = run
    settings = load_settings(path)
    before = read_statements(settings.state)
    again = run_pipeline(settings, again=True)
    assert read_statements(settings.state) == before
    for name in ("proportions.parquet", "model.json", "gate.json"):
        assert (again.folder / name).read_bytes() == (result.folder / name).read_bytes()
    (line,) = (one.line for one in again.stages if one.stage == "publish_proportions")
    assert "(6 of them paid for before)" in line


def test_on_shards_the_same_is_asked(run: tuple[Path, RunResult, bool]) -> None:
    path, result, _ = run
    settings = load_settings(path)
    labels = settings.input.labels.with_suffix(".parquet")
    pq.write_table(csv.read_csv(settings.input.labels), labels)
    inputs = settings.input.model_copy(update={"labels": labels})
    engine = EngineSettings(shard_labels=400)
    sharded = settings.model_copy(update={"engine": engine, "input": inputs})
    before = read_statements(settings.state)[0]["spent"]
    again = run_pipeline(sharded, again=True)
    assert read_statements(settings.state)[0]["spent"] == before
    table = "proportions.parquet"
    assert (again.folder / table).read_bytes() == (result.folder / table).read_bytes()


def test_planned_releases_of_all_groups_together_are_paid_once(tmp_path: Path) -> None:
    path = campaign(tmp_path, across=True, more="planned_releases = 2\n")
    path.write_text(re.sub(r"(?s)\[model\].*", "", path.read_text()))
    settings = load_settings(path)
    result = run_pipeline(settings)
    (line,) = (one.line for one in result.stages if one.stage == "publish_proportions")
    assert "release 1 of 2 that this pays for" in line
    (found,) = read_statements(settings.state)
    assert found["spent"]["epsilon"] == 2.0
    assert json.loads((result.folder / "proportions.json").read_text())["noise"]["scale"] == 6.0


def test_with_one_task_a_subject_prices_are_those_of_a_row(tmp_path: Path) -> None:
    result = run_pipeline(load_settings(campaign(tmp_path, max_tasks=1)))
    gate = json.loads((result.folder / "gate.json").read_text())
    assert gate["epsilon"] == pytest.approx(2 * 2 / (0.02 * gate["n"]), rel=1e-12)
    assert json.loads((result.folder / "proportions.json").read_text())["noise"]["scale"] == 1.0
    assert "At most 1 task of each subject counts." in (result.folder / "public.html").read_text()


def test_small_groups_are_not_published(tmp_path: Path) -> None:
    """Neither their proportions nor, without labels, their class ratios; none at all is refused."""
    path = write_small_campaign(tmp_path)
    rows = (tmp_path / "labels.csv").read_text().splitlines()
    few = [
        row for row in rows if not re.search(r",t0(0[5-9]|[1-5]\d),", row)
    ]  # g0 keeps five tasks
    (tmp_path / "labels.csv").write_text("\n".join(few) + "\n")
    (tmp_path / "gold.csv").write_text("task,label\nt100,a\n")
    text = re.sub(r"(?s)\[model\].*", "", path.read_text())
    path.write_text(text.replace("[privacy]\n", "[privacy]\nmin_group_size = 30\n"))
    result = run_pipeline(load_settings(path))
    table = pq.read_table(result.folder / "proportions.parquet")
    assert sorted(set(table.column("group").to_pylist())) == ["g1", "g2", "g3", "g4", "g5"]
    path.write_text(path.read_text().replace("min_group_size = 30", "min_group_size = 60"))
    result = run_pipeline(load_settings(path))
    table = pq.read_table(result.folder / "proportions.parquet")
    assert sorted(set(table.column("group").to_pylist())) == ["g1", "g2", "g3", "g4", "g5"]
    skipped = json.loads((result.folder / "class_ratios.json").read_text())["skipped"]
    assert skipped == "every group without labels is below min_group_size"
    path.write_text(path.read_text().replace("min_group_size = 60", "min_group_size = 61"))
    with pytest.raises(SettingsError, match="min_group_size must leave a group to publish, got 61"):
        run_pipeline(load_settings(path))


def test_every_task_has_a_subject(tmp_path: Path) -> None:
    path = campaign(tmp_path)
    tasks = tmp_path / "tasks.csv"
    whole = tasks.read_text()
    tasks.write_text(whole.replace(",p001\n", ",\n", 1))
    with pytest.raises(TableError, match=r"tasks.csv, row 6, column person"):
        run_pipeline(load_settings(path))
    tasks.write_text(whole.replace("person", "who"))
    with pytest.raises(
        TableError, match="tasks.csv has no column 'person', which input.subject names"
    ):
        run_pipeline(load_settings(path))


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (("max_tasks_per_subject = 3\n", ""), "max_tasks_per_subject must be given with unit"),
        (('unit = "subject"\nmax_tasks_per_subject = 3\n', ""), "must be given together"),
        (('subject = "person"\n', ""), "must be given together"),
        (('subject = "person"', 'subject = "task"'), 'subject must not be "task"'),
        (('unit = "subject"', 'unit = "row"'), "max_tasks_per_subject must be given with unit"),
        (('tasks = ["tasks.csv"]\n', ""), "needs input.tasks"),
        (
            ('subject = "person"', 'subject = "person"\nstandardize = true'),
            "standardize must be false",
        ),
    ],
)
def test_settings_of_subjects_go_together(
    tmp_path: Path, change: tuple[str, str], sentence: str
) -> None:
    path = campaign(tmp_path)
    path.write_text(path.read_text().replace(*change))
    with pytest.raises(SettingsError, match=sentence):
        load_settings(path)


# on a toy, without a run -----------------------------------------------------------------------

WHOSE = toy_crowd("nnnnss", subjects="ppppqr")


def subjects_settings(folder: Path, **privacy: object):  # type: ignore[no-untyped-def]
    given = {"unit": "subject", "max_tasks_per_subject": 2, "epsilon": 4.0} | privacy
    return toy_settings(folder, privacy=given, input={"subject": "who"})


def test_a_subjects_automatic_gate_costs_no_more_than_its_training(tmp_path: Path) -> None:
    """All rows of a subject are paid for; a gate made for one row would cost as many times as much."""
    settings = toy_settings(
        tmp_path, input={"subject": "who"}, model={"norm_bound": 1.0}, gate={"threshold": "auto"},
        privacy={"unit": "subject", "max_tasks_per_subject": 3, "epsilon": 60.0},
    )  # fmt: skip
    assert settings.privacy is not None
    crowd = toy_crowd("n" * 120, subjects="".join(chr(200 + j // 3) for j in range(120)))
    learning = plan_releases(toy_run(settings, "a" * 120), crowd, settings.privacy).learning
    assert learning is not None
    trained = learning.mechanism.event(learning.training).cost().epsilon
    judged = learning.asked.event(learning.holdout).cost().epsilon
    assert trained / 2 < judged <= trained


def test_without_a_bound_every_task_counts_and_with_one_so_many_of_each_subject(
    tmp_path: Path,
) -> None:
    bounded = subjects_settings(tmp_path)
    unbounded = bounded.model_copy(update={"privacy": PrivacySettings(epsilon=4.0)})
    private = bounded.model_copy(update={"privacy": None})
    for crowd, settings in (
        (WHOSE, unbounded), (WHOSE, private), (toy_crowd("nnnnss"), bounded)
    ):  # fmt: skip
        assert counted_tasks(crowd, settings).tolist() == [True] * 6
    counted = counted_tasks(WHOSE, bounded)
    assert (counted[:4].sum(), counted[4:].tolist()) == (2, [True, True])


def test_tasks_are_dealt_and_bound_by_their_names_or_with_whose_they_are() -> None:
    tasks = [f"t00{j}" for j in range(6)]
    assert dealt_names(toy_crowd("nnnnss")).tolist() == tasks
    assert binding_names(toy_crowd("nnnnss")).tolist() == tasks
    assert dealt_names(WHOSE).tolist() == list("ppppqr")
    bound = [json.loads(name) for name in binding_names(WHOSE).tolist()]
    assert bound == [[task, who] for task, who in zip(tasks, "ppppqr", strict=True)]


def test_a_name_draws_the_same_whatever_others_it_is_drawn_with(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    names = np.array(["a", "ü", "", "b" * 9, "c"])
    together = drawn_by_name(names, b"1").copy()
    key = next(iter(learning_rows._DRAWN))
    assert key == hashlib.blake2b("\0".join([*names, ""]).encode(), key=b"1").digest()
    learning_rows._DRAWN.clear()
    monkeypatch.setattr("flows.files.TEXTS_AT_ONCE", 2)
    assert drawn_by_name(names, b"1").tolist() == together.tolist()
    assert list(learning_rows._DRAWN) == [key]
    for name, drawn in zip(names.tolist(), together.tolist(), strict=True):
        digest = hashlib.blake2b(name.encode(), key=b"1", digest_size=8).digest()
        assert drawn == int.from_bytes(digest, "big") / 2.0**64


def test_of_what_was_drawn_by_name_the_last_alone_is_kept() -> None:
    """A service that runs for months would else remember every campaign's."""
    first = drawn_by_name(np.array(["a", "b"]), b"1").copy()
    other = drawn_by_name(np.array(["a", "b"]), b"2")
    assert len(learning_rows._DRAWN) == 1
    assert (first != other).all()
    assert (drawn_by_name(np.array(["a", "b"]), b"1") == first).all()


def test_what_was_drawn_is_returned_whoever_empties_the_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A service runs campaigns in threads: another one's deal made this one's a KeyError."""

    class Emptied(dict[bytes, np.ndarray]):
        def __setitem__(self, key: bytes, value: np.ndarray) -> None:
            """Keep nothing, as after another thread's `clear`."""

    names = np.array(["a", "b"])
    expected = drawn_by_name(names, b"1").tolist()
    monkeypatch.setattr(learning_rows, "_DRAWN", Emptied())
    assert drawn_by_name(names, b"1").tolist() == expected


def test_a_seed_may_be_longer_than_a_key_of_digests(tmp_path: Path) -> None:
    """64 bytes: of longer ones a run was refused without a sentence, once the consensus was found."""
    names = np.array([f"t{j}" for j in range(500)])
    for digits in (1, 55, 64, 65, 500):
        held, validated = deal(names, seed=10 ** (digits - 1), holdout=0.2, validation=0.2)
        assert 50 < held.sum() < 150
        assert 30 < validated.sum() < 130
    bounded = subjects_settings(tmp_path).model_copy(update={"seed": 10**70})
    assert counted_tasks(WHOSE, bounded).sum() == 4


def test_a_group_is_as_large_as_the_tasks_that_count_in_it(tmp_path: Path) -> None:
    """Of four tasks of one subject two count, which is just enough; of three others one is too few."""
    settings = subjects_settings(tmp_path, min_group_size=2)
    label = np.array([0, 0, 0, 0, 1, 1, 1])
    crowd = toy_crowd("nnnnsse", subjects="ppppqrs")
    queries, groups, sizes = subject_queries(label, crowd, settings, settings.privacy)
    assert (groups, sizes.tolist()) == (("n", "s"), [2, 2])
    assert [query.value.tolist() for query in queries] == [[2, 0], [0, 2]]
    assert {query.l1 for query in queries} == {4.0}


def sets_of(folder: Path, probability: list[list[float]], groups: str, **given: object):  # type: ignore[no-untyped-def]
    """What is asked of sets of two classes with these probabilities."""
    crowd, privacy = toy_crowd(groups), PrivacySettings(epsilon=4.0, **given)  # type: ignore[arg-type]
    run = toy_run(toy_settings(folder), "a" * len(groups))
    task, label = np.indices((len(groups), 2)).reshape(2, -1)
    cells = {"task": crowd.labels.tasks[task], "class": crowd.labels.classes[label]}
    run.write_table("class_cells.parquet", pa.table(cells | {"probability": np.ravel(probability)}))
    return set_queries(run, crowd, privacy)


def test_a_class_holds_above_one_half_and_the_likeliest_of_a_task_count(tmp_path: Path) -> None:
    """Places of n: two tasks with one each; a class at one half does not hold, nor is it left out."""
    probability = [[0.9, 0.8], [0.5, 0.6], [0.7, 0.5]]
    queries, groups, sizes, n_left_out = sets_of(tmp_path, probability, "nns", max_labels=1)
    assert (groups, sizes.tolist(), n_left_out) == (("n", "s"), [2, 1], 1)
    assert [query.value.tolist() for query in queries] == [[1, 1, 0], [1, 0, 0]]
    queries, *_, n_left_out = sets_of(tmp_path, probability, "nns", max_labels=2)
    assert n_left_out == 0
    assert [query.value.tolist() for query in queries] == [[1, 2, 1], [1, 0, 1]]


def test_sets_of_a_group_of_the_least_size_are_published(tmp_path: Path) -> None:
    queries, groups, sizes, _ = sets_of(
        tmp_path, [[0.9, 0.1]] * 3, "nns", max_labels=2, min_group_size=2
    )
    assert (len(queries), groups, sizes.tolist()) == (1, ("n",), [2])
