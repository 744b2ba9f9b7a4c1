"""Populations: who is asked, who copies, who tires, and what the recorder and the aggregator keep of it."""

import tracemalloc

import numpy as np
import pytest

from learners.genesis import ScriptError, Simulation
from learners.genesis.crowd.assignment import _draw
from learners.genesis.crowd.worker_classes import Answer

POPULATION = """
create task /tasks -n 3000
set /tasks truth {integers 0 2} clarity {uniform .2 1.4}
create desk /desk
set /desk labels 7
create neutral /crowd
create honest /crowd/honest -n 72
set /crowd/honest drift {normal 1.6 .3}
create hasty /crowd/hasty -n 18
create spammer /crowd/spammer -n 18
create copier /crowd/copier -n 12
create recorder /labels
create aggregator /consensus
connect /tasks to /desk
connect /desk to /crowd/#
connect /crowd/# to /labels
connect /crowd/# to /consensus
connect /crowd/honest to /crowd/copier -weight .3 -delay 30
"""
SMALL = """
create task /tasks -n 60
set /tasks truth {integers 0 3} options 3
create desk /desk
create honest /pool -n 8
create recorder /labels
connect /tasks to /desk
connect /desk to /pool
connect /pool to /labels
"""


def ran(script, seed=0):
    sim = Simulation(rng=np.random.default_rng(seed))
    sim.script(f"{script}\nrun")
    return sim


def auc(score, is_bad):
    """The chance that a bad worker's score is above a good one's."""
    bad, good = score[is_bad], score[~is_bad]
    above = (bad[:, None] > good) + 0.5 * (bad[:, None] == good)
    return above.mean()


def test_a_live_agreement_finds_the_bad_workers_and_response_times_find_all_of_them():
    sim = ran(POPULATION)
    record, live = sim.result("/labels"), sim.result("/consensus")
    assert len(record.label) == 21_000
    kind = live.worker_kind
    is_bad = kind != "honest"
    assert auc(-live.agreement, is_bad) >= 0.98
    places = zip(record.worker_path, record.worker_row, strict=True)
    code = {place: one for one, place in enumerate(places)}
    order = [code[place] for place in zip(live.worker_path, live.worker_row, strict=True)]
    median = np.array([np.median(record.seconds[record.worker == one]) for one in order])
    score = sum(
        (np.median(v) - v) / np.median(abs(v - np.median(v)))
        for v in (live.agreement, np.log(median))
    )
    assert auc(score, is_bad) >= 0.99
    accuracy = record.accuracy[order]
    gap = {one: (live.agreement - accuracy)[kind == one].mean() for one in set(kind)}
    assert gap["copier"] > gap["honest"] + 0.05  # agreement overrates who copies
    assert 0.9 < (live.label == live.truth).mean() < 0.97


def test_a_desk_asks_so_many_different_workers():
    record = ran(SMALL).result("/labels")
    pairs = set(zip(record.worker, record.task, strict=True))
    assert len(pairs) == len(record.label) == 180
    assert (np.bincount(record.task) == 3).all()
    assert (np.diff(record.time) >= 0).all()
    assert (record.seconds > 0).all()


def test_results_do_not_depend_on_the_order_in_which_elements_and_messages_were_made():
    lines = POPULATION.replace("3000", "200").strip().splitlines()
    made = [line for line in lines if line.startswith("create")]
    rest = [line for line in lines if not line.startswith("create")]
    parents = [line for line in made if line.startswith("create neutral")]
    others = [line for line in made if line not in parents]
    one = ran("\n".join(lines)).result("/labels")
    for seed in range(3):
        shuffle = np.random.default_rng(seed).permutation
        script = [*parents, *shuffle(others), *shuffle(rest)]
        another = ran("\n".join(script)).result("/labels")
        for name in ("worker", "task", "label", "time", "seconds", "truth"):
            assert np.array_equal(getattr(one, name), getattr(another, name)), name


def test_a_seed_gives_the_same_labels_and_another_seed_others():
    one, same, other = (ran(SMALL, seed).result("/labels") for seed in (1, 1, 2))
    assert np.array_equal(one.label, same.label)
    assert np.array_equal(one.time, same.time)
    assert not np.array_equal(one.time, other.time)


def test_an_answer_is_copied_with_the_weight_and_the_delay_of_its_connection():
    """1,000 tasks: a share of .7 is missed by .06 with a chance of 4e-5."""
    sim = ran("""
create task /tasks -n 1000
create honest /model
create sybil /copy
create recorder /labels
connect /tasks to /model
connect /model to /copy -weight .7 -delay 50
connect /model to /labels
connect /copy to /labels
""")
    record = sim.result("/labels")
    (model,) = np.flatnonzero(record.worker_path == "/model")
    label = {
        t: v for w, t, v in zip(record.worker, record.task, record.label, strict=True) if w == model
    }
    time = {
        t: v for w, t, v in zip(record.worker, record.task, record.time, strict=True) if w == model
    }
    copied = np.flatnonzero(record.worker != model)
    assert abs(len(copied) / 1000 - 0.7) < 0.06
    assert all(record.label[k] == label[record.task[k]] for k in copied)
    lag = [record.time[k] - time[record.task[k]] for k in copied]
    np.testing.assert_allclose(lag, 50 + sim.get("/copy", "copy_time"))


def test_a_slip_gives_any_label_but_the_copied_one():
    """Of 600 copies each of two labels has a share of 1/2; .1 off has a chance below 1e-6."""
    record = ran("""
create task /tasks -n 600
set /tasks options 3
create honest /model
set /model favourite 0 bias 50
create sybil /copy
set /copy slip 1
create recorder /labels
connect /tasks to /model
connect /model to /copy
connect /copy to /labels
""").result("/labels")
    share = np.bincount(record.label, minlength=3) / 600
    assert share[0] == 0
    assert share[1] == pytest.approx(0.5, abs=0.1)


def test_several_connections_from_a_desk_to_a_worker_add_their_weights():
    """A share of 2/3 of 3,000 tasks is missed by .05 with a chance below 1e-7."""
    record = ran("""
create task /tasks -n 3000
create desk /desk
set /desk labels 1
create honest /pool -n 2
create recorder /labels
connect /tasks to /desk
connect /desk to /pool
connect /desk to /pool[1] -delay 1
connect /pool to /labels
""").result("/labels")
    twice = np.mean(record.worker_row[record.worker] == 1)
    assert twice == pytest.approx(2 / 3, abs=0.05)


def test_who_meets_a_tie_agrees_with_her_share_of_it():
    sim = Simulation(rng=np.random.default_rng(0))
    sim.script("create task /tasks\nset /tasks truth 1 options 3\ncreate honest /w -n 5")
    sim.script("create aggregator /consensus\nconnect /w to /consensus\nreset")
    tasks, heard = (
        sim._ready().behaviour(sim.tree.one(path).element) for path in ("/tasks", "/consensus")
    )
    for row, label in enumerate((0, 1, 1, 2, 1)):
        heard.receive(sim.wiring.connections[0], row, Answer(tasks, 0, label, 0.0, 1.0))
    found = sim.result("/consensus")
    assert found.n_compared.tolist() == [0, 1, 1, 1, 1]
    assert found.agreement[1:].tolist() == [0.0, 0.5, 0.0, 1.0]
    assert (found.label.tolist(), found.truth.tolist()) == ([1], [1])


def test_in_pairs_each_copies_her_own_model_and_is_asked_her_own_task():
    record = ran("""
create task /tasks -n 40
create honest /model -n 3
set /model favourite (0, 1, 2) bias 50
create sybil /copy -n 3
create recorder /labels
set /tasks options 3
connect /tasks to /model
connect /model to /copy[0:3] -pairs
connect /copy to /labels
""").result("/labels")
    assert len(record.label) == 120
    assert (record.label == record.worker_row[record.worker]).all()
    record = ran("""
create task /tasks -n 5
create honest /pool -n 5
create recorder /labels
connect /tasks[1:4] to /pool[2:5] -pairs
connect /pool to /labels
""").result("/labels")
    asked = zip(record.task_row[record.task], record.worker_row[record.worker], strict=True)
    assert sorted(asked) == [(1, 2), (2, 3), (3, 4)]


def test_who_takes_no_task_unasked_copies_only_what_she_was_asked():
    record = ran("""
create task /tasks -n 400
create honest /model
create copier /copy
set /copy gap 1000
create recorder /labels
connect /tasks to /model
connect /tasks to /copy -weight .5
connect /model to /copy
connect /copy to /labels
""").result("/labels")
    assert 150 < len(record.label) < 250
    assert (record.seconds[:100] == 0.3).mean() > 0.9  # the copy time: hardly any of her own


def test_fatigue_lowers_accuracy_and_rest_restores_it():
    """Of 2,000 labels each, accuracies differ by many standard errors."""
    script = """
create task /tasks -n 2000
create worker /w
set /w fatigue {f} recovery {r} gap 1
create recorder /labels
connect /tasks to /w
connect /w to /labels
"""
    fresh, tired, rested = (
        ran(script.replace("{f}", f).replace("{r}", r)).result("/labels").accuracy[0]
        for f, r in (("0", "600"), (".05", "600"), (".05", "2"))
    )
    assert tired < fresh - 0.1
    assert abs(rested - fresh) < 0.03


def test_a_persona_shares_what_it_sets_with_the_workers_linked_to_it():
    sim = ran("""
create task /tasks -n 200
create persona /bots
set /bots rt 2 lapse 1
create honest /pool -n 3
create recorder /labels
link /bots to /pool
connect /tasks to /pool
connect /pool to /labels
""")
    record = sim.result("/labels")
    assert (record.seconds == 2).all()
    assert np.abs(record.accuracy - 0.5).max() < 0.2
    assert sim.get("/pool[0]", "rt") == 0.0  # her own field is as it was


def test_biased_workers_prefer_their_favourite():
    record = ran("""
create task /tasks -n 400
set /tasks truth {integers 0 4} options 4
create biased /w
set /w favourite 2
create recorder /labels
connect /tasks to /w
connect /w to /labels
""").result("/labels")
    shares = np.bincount(record.label, minlength=4) / 400
    assert shares.argmax() == 2
    assert shares[2] > 0.35


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("set /pool bound 0", r"bound of /pool\[0\] must be > 0, got 0.0"),
        ("set /pool[3] lapse 2", r"lapse of /pool\[3\] must be in \[0, 1\], got 2.0"),
        ("set /desk labels 9", r"labels of /desk must be in \[1, 8\]"),
        ("delete /desk\ncreate desk /desk -n 2", "/desk must be one desk, got 2 rows; create one"),
        ("set /tasks truth {uniform 0 2}", r"truth of /tasks\[0\] must be a whole number, got"),
        ("set /tasks[3] options 2.5", r"options of /tasks\[3\] must be a whole number, got 2.5"),
        ("set /desk labels {inf}", r"labels of /desk\[0\] must be a whole number, got inf"),
        ("set /tasks truth 7", "truth of /tasks must be one of its options 0 to 2"),
        ("set /tasks options 1", r"options of /tasks must be in \[2, 1000\]"),
        ("set /pool relative 1", "relative of /pool must be 0"),
        ("set /tasks[3] clarity {inf}", r"clarity of /tasks\[3\] must be finite, got inf"),
        ("set /pool[2] gap {inf}", r"gap of /pool\[2\] must be >= 0 and finite, got inf"),
        ("set /pool rt 1e308", r"rt of /pool\[0\] must be >= 0 and finite, got 1e\+308"),
        ("set /pool drift {-inf}", r"drift of /pool\[0\] must be finite, got -inf"),
        ("set /pool noise {inf}", r"noise of /pool\[0\] must be > 0 and finite, got inf"),
        ("set /pool activity -1", r"activity of /pool\[0\] must be >= 0 and finite, got -1.0"),
        ("set /pool[1] favourite .5", r"favourite of /pool\[1\] must be -1 or an option, got 0.5"),
        ("set /pool favourite {inf}", r"favourite of /pool\[0\] must be -1 or an option, got inf"),
        (
            "unlink /tasks to /desk\nconnect /tasks to /desk -weight .5",
            "weight of /tasks to /desk must be 1, for a desk takes all that it is sent, got 0.5",
        ),
        (
            "unlink /pool to /labels\nconnect /pool to /labels -weight 0",
            "weight of /pool to /labels must be 1, for a recorder takes all that it is sent, got 0.0",
        ),
        ("create aggregator /a\nconnect /pool to /a -weight 2", "weight of /pool to /a must be 1"),
        ("connect /tasks to /pool -weight 2", r"a probability, in \[0, 1\], got 2.0"),
        ("connect /pool to /pool -weight -1", r"a probability, in \[0, 1\], got -1.0"),
        ("create desk /e\nconnect /desk to /e", r"must be connected to workers, got /e \(desk\)"),
        (
            "unlink /tasks to /desk\nconnect /tasks to /desk -delay 1e308",
            "times must be a finite number of steps of 0.01, got 1e",
        ),
        ("connect /pool to /tasks", "got honest .emits label. and task"),
        ("link /tasks to /pool", "got task .sends nothing. and honest"),
    ],
)
def test_a_mistake_is_one_sentence_with_its_line(line, sentence):
    with pytest.raises(ScriptError, match=f"^script:\\d+: .*{sentence}"):
        ran(f"{SMALL}{line}")


def test_a_recorder_without_labels_says_so():
    sim = Simulation(rng=np.random.default_rng(0))
    sim.script(SMALL)
    with pytest.raises(ValueError, match="/labels must be sent labels, got none"):
        sim.result("/labels")
    with pytest.raises(ValueError, match="gathers results, got desk"):
        sim.result("/desk")


def places(record):
    """Which row of the workers labelled which row of the tasks."""
    found = np.zeros((record.worker_row.max() + 1, record.task_row.max() + 1), dtype=int)
    np.add.at(found, (record.worker_row[record.worker], record.task_row[record.task]), 1)
    return found


def test_a_worker_to_whom_two_connections_lead_is_one_worker():
    """A task has as many labels as the desk asks for, and the weights of one worker add up."""
    asked = places(ran(SMALL + "connect /desk to /pool[0:3] -weight 5").result("/labels"))
    assert (asked.sum(axis=0) == 3).all()
    assert asked.max() == 1
    assert asked[:3].sum(axis=1).min() > asked[3:].sum(axis=1).max()


@pytest.mark.parametrize("to", ["/desk", "/pool -weight .5"])
def test_tasks_that_come_in_parts_are_drawn_apart(to):
    script = SMALL.replace("connect /tasks to /desk\n", "")
    parts = "".join(
        f"connect /tasks[{first}:{first + 30}] to {to} -delay {100 * first}\n" for first in (0, 30)
    )
    asked = places(ran(script + parts).result("/labels"))
    assert (asked[:, :30] == asked[:, 30:]).mean() < 0.7


def test_a_group_of_whom_nobody_is_asked_is_left_alone():
    """One task, and a group for each of eight workers."""
    groups = "".join(f"create honest /pool/w{k}\n" for k in range(8))
    record = ran(f"""
create task /tasks
create desk /desk
create neutral /pool
{groups}
create recorder /labels
connect /tasks to /desk
connect /desk to /pool/#
connect /pool/# to /labels
""").result("/labels")
    assert len(record.label) == 3


def test_workers_are_drawn_alike_however_many_tasks_at_a_time(monkeypatch):
    whole = ran(SMALL).result("/labels")
    monkeypatch.setattr("learners.genesis.crowd.assignment.MAX_SCORES", 16)
    parts = ran(SMALL).result("/labels")
    np.testing.assert_array_equal(parts.time, whole.time)


def test_a_desk_knows_the_activity_that_a_persona_shares():
    """It asked by the worker's own field, and a persona's activity had no effect."""
    persona = "create persona /idle\nset /idle activity 0\nlink /idle to /pool[0:3]"
    asked = places(ran(f"{SMALL}{persona}").result("/labels"))
    own = places(ran(f"{SMALL}set /pool[0:3] activity 0").result("/labels"))
    np.testing.assert_array_equal(asked, own)
    assert asked[:3].sum() == 0


def test_memory_of_a_desk_grows_with_the_labels_and_not_with_workers_times_tasks():
    rng = np.random.default_rng(0)
    tracemalloc.start()
    try:
        chosen = _draw(40_000, np.ones(1000), 3, rng)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert chosen.shape == (40_000, 3)
    assert peak < 200e6  # four tables of 32 MB at a time; all tables were 320 MB
