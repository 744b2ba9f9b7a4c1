"""The core: a new class, two-phase steps, wiring, copies, paths, and any order of creation."""

import numpy as np
import pytest

from learners.genesis import (
    CLASSES,
    COMPARTMENT,
    PathError,
    ScriptError,
    Simulation,
    element_class,
    variant,
)


def drawn(block, dt):
    """Begin at the field `first`."""
    return {"x": block["first"]}


@element_class(
    "averaging",
    fields={"first": 0.0, "pull": 1.0},
    state={"x": 0.0},
    outputs={"VALUE": ("x",)},
    replies={"VALUE": ("x",)},
    inputs=("VALUE",),
    reset=drawn,
)
def averaging(block, dt):
    """Move towards the mean of those linked to it; nothing of the core was changed for this class."""
    new = block["x"].copy()
    for sent in block.messages["VALUE"]:
        for row in range(len(block)):
            others = sent.fields[0][sent.row[sent.start[row] : sent.start[row + 1]]]
            if len(others):
                new[row] += dt * block["pull"][row] * (others.mean() - block["x"][row])
    return {"x": new}


@element_class("pacemaker", fields={"every": 5.0}, state={"n": 0.0, "fired": 0.0}, emits="spike")
def pacemaker(block, dt):
    """Fire every so many steps."""
    n = block["n"] + 1
    return {"n": n, "fired": (n % block["every"] == 0).astype(float)}


@element_class("bell", emits="ring", receives=("ring",))
class Bell:
    """An element that acts on events: it rings on, once."""

    def __init__(self, world, element):
        self.world, self.element, self.heard = world, element, []

    def start(self):
        if self.element.name == "first":
            self.world.schedule(1.0, self.ring)

    def ring(self):
        self.world.send(self.element, 0, "ding")

    def receive(self, connection, source, message):
        self.heard.append((self.world.time, connection.weight, message))
        self.ring()

    def result(self):
        return self.heard


def simulation():
    return Simulation(rng=np.random.default_rng(0))


def test_a_class_registered_here_runs_without_a_change_to_the_core():
    sim = simulation()
    sim.script(
        "setclock .1\ncreate averaging /a\ncreate averaging /b\nset /b first 1\nlink /a to /b"
    )
    sim.step()
    assert (sim.get("/a", "x"), sim.get("/b", "x")) == (0.1, 0.9)  # both read the values of time 0
    sim.step(200)
    assert sim.get("/a", "x") == pytest.approx(0.5)


def test_a_new_class_of_events_is_told_when_and_how_strongly():
    sim = simulation()
    for name in ("first", "second", "third"):
        sim.create("bell", f"/{name}")
    sim.connect("/first", "/second", weight=2.0, delay=3.0)
    sim.connect("/second", "/third", delay=0.5)
    sim.run()
    assert sim.result("/second") == [(4.0, 2.0, "ding")]
    assert sim.result("/third") == [(4.5, 1.0, "ding")]
    assert sim.time == pytest.approx(4.5)


@element_class("tardy")
class Tardy:
    """An element that asks at time 3 for something at time 1."""

    def __init__(self, world, element):
        self.world, self.times = world, []

    def start(self):
        self.world.schedule(3.0, self.world.schedule, 1.0, self.note)

    def note(self):
        self.times.append(self.world.time)

    def result(self):
        return self.times


def test_what_is_scheduled_for_the_past_happens_now():
    sim = simulation()
    sim.create("tardy", "/t")
    sim.run()
    assert sim.result("/t") == [3.0]
    assert sim.time == pytest.approx(3.0)


def test_a_variant_has_other_defaults_and_the_same_functions():
    quick = variant("quick_averaging", averaging, pull=5.0)
    assert quick.process is averaging.process
    sim = simulation()
    sim.script(
        "setclock .1\ncreate quick_averaging /a\ncreate averaging /b\nset /b first 1\nlink /a to /b"
    )
    sim.step()
    assert (sim.get("/a", "x"), sim.get("/b", "x")) == (0.5, 0.9)
    with pytest.raises(ValueError, match="averaging has no field 'push'"):
        variant("wrong", averaging, push=1.0)


def test_the_name_of_a_class_is_registered_once():
    with pytest.raises(
        ValueError, match="class 'compartment' must be new, got a name that learners"
    ):
        element_class("compartment")(averaging.process)
    assert COMPARTMENT.name == "compartment"


@pytest.mark.parametrize("name", ["honest", "worker"])
def test_a_variant_replaces_no_built_in_persona_but_a_notebooks_own(name):
    known, worker = CLASSES[name], CLASSES["worker"]
    with pytest.raises(ValueError, match=f"class '{name}' must be new, got a name that learners"):
        variant(name, worker, drift=0.0)
    assert CLASSES[name] is known
    variant("slow_worker", worker, t0=5.0)
    assert variant("slow_worker", worker, t0=9.0) is CLASSES["slow_worker"]


def test_results_do_not_depend_on_the_order_of_creation():
    """A ring of cells with random couplings, bit for bit."""
    rng = np.random.default_rng(1)
    cells = [f"/c{k}" for k in range(12)]
    makes = [f"create averaging {cell}\nset {cell} first {rng.normal()}" for cell in cells]
    makes += [f"create pacemaker /p{k}\nset /p{k} every {k + 3}" for k in range(4)]
    makes += [f"create synapse /s{k}" for k in range(4)]
    ends = rng.integers(12, size=(30, 2))
    wires = [f"link {cells[a]} to {cells[b]}" for a, b in ends if a != b]
    wires += [f"connect /p{a} to /s{b} -weight {w} -delay {d}"
              for a in range(4) for b in range(4) for w, d in [rng.random(2)]]  # fmt: skip
    found = []
    for seed in range(4):
        order = np.random.default_rng(seed).permutation if seed else list
        sim = simulation()
        sim.script("\n".join([*order(makes), *order(wires)]))
        sim.step(300)
        state = [sim.get(cell, "x") for cell in cells] + [sim.get(f"/s{k}", "g") for k in range(4)]
        found.append(state)
    assert all(state == found[0] for state in found)


def test_a_copy_takes_the_messages_within_it_and_no_others():
    sim = simulation()
    sim.script("""
    create averaging /out
    create neutral /one
    create averaging /one/a
    create averaging /one/b
    create pacemaker /one/p
    create synapse /one/s
    link /one/a to /one/b
    link /one/a to /out
    connect /one/p to /one/s -weight 3 -delay 1
    set /one/a first 7
    copy /one to /two
    """)
    assert {(str(one.source), str(one.target)) for one in sim.wiring.links} == {
        ("/one/a", "/one/b"), ("/one/a", "/out"), ("/two/a", "/two/b"),
    }  # fmt: skip
    connections = [
        (str(c.source), str(c.target), c.weight, c.delay) for c in sim.wiring.connections
    ]
    assert connections == [("/one/p", "/one/s", 3, 1), ("/two/p", "/two/s", 3, 1)]
    sim.set("/two/a", first=8)
    assert (sim.get("/one/a", "first"), sim.get("/two/a", "first")) == (7, 8)


def test_delete_drops_the_messages_that_touch_it_and_the_graphs():
    sim = simulation()
    sim.script(
        "create neutral /n\ncreate averaging /n/a\ncreate averaging /b\nlink /n/a to /b\ngraph /n/a x"
    )
    sim.ce("/n/a")
    sim.delete("/n")
    assert sim.pwe() == "/"
    assert sim.le() == ["b"]
    assert sim.wiring.links == []
    sim.step()


def test_move_keeps_messages_and_unlink_removes_them():
    sim = simulation()
    sim.script(
        "create averaging /a\ncreate averaging /b\nlink /a to /b\nmove /a to /z\nset /z first 1\nstep 1000"
    )
    assert sim.get("/b", "x") == pytest.approx(0.5, abs=0.01)
    assert sim.unlink("/z", "/b") == 1
    assert sim.wiring.links == []


def test_an_event_arrives_after_its_delay_with_its_weight():
    sim = simulation()
    sim.script("setclock .1\ncreate pacemaker /p\nset /p every 10\ncreate synapse /s\ngraph /s x")
    sim.script("connect /p to /s -weight 2 -delay .5\nstep 16")
    x = sim.data("/s", "x").value
    assert (x[:16] == 0).all()
    assert x[16] == pytest.approx(2 * np.exp(-0.1 / 2))
    assert sim.spikes("/p").time.tolist() == pytest.approx([1.0])


def test_rows_connect_all_to_all_or_in_pairs():
    sim = simulation()
    sim.script(
        "setclock 1\ncreate pacemaker /p -n 3\nset /p every (1, 2, 99)\ncreate synapse /s -n 3"
    )
    sim.connect("/p", "/s", pairs=True)
    sim.step(3)
    x = sim.get("/s", "x")
    assert x[0] > x[1] > x[2] == 0
    sim.unlink("/p", "/s")
    sim.connect("/p[1]", "/s")
    sim.step(4)
    assert len(set(sim.get("/s", "x"))) == 1
    with pytest.raises(ValueError, match="-pairs must join equally many rows, got /p.1. and /s"):
        sim.connect("/p[1]", "/s", pairs=True)


def test_a_class_may_step_less_often():
    sim = simulation()
    sim.script("setclock .1\nsetclock pacemaker 4\ncreate pacemaker /p\nstep 9")
    assert sim.get("/p", "n") == 3


@pytest.mark.parametrize("name", ["/c", "/x"])
def test_variants_step_as_often_as_their_class_whatever_the_elements_are_called(name):
    sim = simulation()
    sim.script(f"setclock compartment 3\ncreate compartment /m\ncreate passive_compartment {name}")
    sim.script("set /# inject 1\ngraph /# V\nstep 6")
    for path in ("/m", name):
        assert len(set(sim.data(path, "V").value)) == 3  # at the beginning, and after two steps


def test_an_event_waits_for_a_class_that_steps_less_often():
    """Its delay is counted in steps of the clock; a reset forgets what waits."""
    sim = simulation()
    sim.script("setclock .1\nsetclock synapse 4\ncreate pacemaker /p\nset /p every 10")
    sim.script("create synapse /s\ngraph /s x\nconnect /p to /s -weight 2 -delay .5\nstep 17")
    x = sim.data("/s", "x").value
    assert (x[:17] == 0).all()
    assert x[17] == pytest.approx(2 * np.exp(-0.4 / 2))
    sim.reset()
    sim.step(16)
    sim.reset()
    sim.step(2)
    assert sim.get("/s", "x") == 0


def test_a_graph_records_every_so_many_steps_and_forgets_at_a_reset():
    sim = simulation()
    sim.script("setclock .5\ncreate pacemaker /p -n 2\ngraph /p n -every 3\nstep 7")
    trace = sim.data("/p", "n")
    assert trace.time.tolist() == [0.0, 1.5, 3.0]
    assert trace.value.tolist() == [[0, 0], [3, 3], [6, 6]]
    sim.reset()
    assert sim.data("/p", "n").time.tolist() == [0.0]
    with pytest.raises(
        ValueError, match="/p must have a graph of fired, got none; `graph /p fired`"
    ):
        sim.data("/p", "fired")


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("/net/#", ["/net/a", "/net/b"]), ("/net/##", ["/net/a", "/net/a/s", "/net/b", "/net/b/s"]),
        ("/##[CLASS=synapse]", ["/net/a/s", "/net/b/s"]), ("/net/a/../b", ["/net/b"]),
        ("s", ["/net/a/s"]), ("../b/s[1:3]", ["/net/b/s[1:3]"]), ("./s[0]", ["/net/a/s[0]"]),
        ("/net/#/s[TYPE=synapse][1]", ["/net/a/s[1]", "/net/b/s[1]"]), ("/", ["/"]),
    ],
)  # fmt: skip
def test_a_path_selects(path, found):
    sim = simulation()
    sim.script("create neutral /net\ncreate neutral /net/a\ncreate neutral /net/b")
    sim.script("create synapse /net/a/s -n 2\ncreate synapse /net/b/s -n 4\nce /net/a")
    assert [str(one) for one in sim.tree.select(path)] == found
    with pytest.raises(
        PathError, match="'/net/c/s' must exist, got no c in /net, where there is a, b"
    ):
        sim.tree.select("/net/c/s")


def test_what_cannot_be_linked_names_both_classes():
    sim = simulation()
    sim.script(
        "create synapse /s\ncreate axon /x\ncreate compartment /c -n 2\ncreate synapse /t -n 3"
    )
    with pytest.raises(TypeError, match=r"got synapse .sends CHANNEL. and axon .takes VOLTAGE."):
        sim.link("/s", "/x")
    with pytest.raises(TypeError, match="as VOLTAGE"):
        sim.link("/s", "/c", message="VOLTAGE")
    with pytest.raises(TypeError, match="got compartment .emits nothing. and synapse"):
        sim.connect("/c", "/s")
    with pytest.raises(
        ValueError, match="equally many rows, or one with many, got 3 of /t and 2 of /c"
    ):
        sim.link("/t", "/c")
    with pytest.raises(ValueError, match="delay must be >= 0 and finite, got delay=-1.0"):
        sim.connect("/x", "/s", delay=-1.0)


@pytest.mark.parametrize("command", ["delete /w[0:3]", "copy /w[3] to /v", "move /w[1:2] to /v"])
def test_some_rows_of_an_element_are_not_the_element(command):
    """Nothing is lost: a row is neither deleted, copied nor moved with all the others."""
    sim = Simulation(rng=np.random.default_rng(0))
    sim.create("worker", "/w", n=5)
    with pytest.raises(ScriptError, match="must name a whole element, got some rows"):
        sim.script(command)
    assert sim.le("/") == ["w"]
    assert len(sim.get("/w", "drift")) == 5


def test_what_names_some_rows_beside_whole_elements_deletes_nothing():
    """The first of them was gone, and the world went on with it."""
    sim = Simulation(rng=np.random.default_rng(0))
    sim.script("create worker /a\ncreate worker /b -n 3")
    with pytest.raises(ValueError, match=r"delete must name a whole element, got some rows, /b"):
        sim.delete("/#[0]")
    assert sim.le("/") == ["a", "b"]


@pytest.mark.parametrize(("n", "shape"), [(1, (0,)), (3, (0, 3))])
def test_before_the_first_step_a_graph_has_recorded_nothing(n, shape):
    sim = simulation()
    sim.create("compartment", "/c", n=n)
    sim.graph("/c", "V")
    assert sim.data("/c", "V").value.shape == shape
    sim.step()
    assert sim.data("/c", "V").value.shape == (2, *shape[1:])


def test_workers_read_what_was_set_at_the_next_reset():
    sim = simulation()
    sim.script("create task /tasks -n 5\ncreate honest /w\ncreate recorder /labels")
    sim.script("connect /tasks to /w\nconnect /w to /labels\nreset\nset /w rt 2\nrun")
    assert (sim.result("/labels").seconds != 2).all()
    sim.script("reset\nrun")
    assert (sim.result("/labels").seconds == 2).all()


@pytest.mark.refusal
def test_rows_and_steps_are_whole_numbers():
    sim = Simulation(rng=np.random.default_rng(0))
    for n in (2.5, 0, np.nan, "5"):
        with pytest.raises(ValueError, match=r"n must be a whole number in \[1, "):
            sim.create("worker", "/w", n=n)
    for n in (2.7, -1, np.inf, "5", None):
        with pytest.raises(ValueError, match="n must be a whole number >= 0"):
            sim.step(n)
    with pytest.raises(ValueError, match="every 1 or more steps, got compartment=1.5"):
        sim.setclock(compartment=1.5)
    with pytest.raises(ValueError, match="every 1 or more steps, got compartment='2'"):
        sim.setclock(compartment="2")
    with pytest.raises(ValueError, match="dt must be > 0 and finite, got dt='x'"):
        sim.setclock("x")
    with pytest.raises(ValueError, match="every must be >= 1 and whole, got every='2'"):
        sim.graph("/", "x", every="2")
    with pytest.raises(ValueError, match="every must be >= 1 and whole, got every=1.5"):
        sim.graph("/", "x", every=1.5)


@pytest.mark.refusal
@pytest.mark.parametrize("value", [["a", "b"], 1j, {}])
def test_a_field_of_numbers_takes_numbers_alone(value):
    sim = Simulation(rng=np.random.default_rng(0))
    sim.create("worker", "/w", n=2)
    with pytest.raises(ValueError, match="drift of /w must be a number or a list of numbers, got"):
        sim.set("/w", drift=value)


def test_a_field_of_texts_takes_one_text_or_one_for_each_row():
    element_class("titled", fields={"title": ""})(None)
    sim = simulation()
    sim.create("titled", "/t", n=2)
    sim.set("/t", title=["a", "b"])
    assert sim.get("/t", "title").tolist() == ["a", "b"]
    with pytest.raises(ValueError, match=r"title of /t must be a text, got \('a', 'b', 'c'\)"):
        sim.set("/t", title=("a", "b", "c"))


@pytest.mark.parametrize("path", ["/net[1]/s", "/net[0:1]/#", "/net[1]/new"])
def test_rows_of_an_element_above_are_refused_for_they_would_be_ignored(path):
    sim = simulation()
    sim.script(
        "create neutral /net -n 2\ncreate synapse /net/s\ncreate neutral /one\ncreate synapse /one/s"
    )
    with pytest.raises(
        ValueError, match="rows must stand behind the last name of a path, got those of"
    ):
        sim.create("neutral", path) if path.endswith("new") else sim.set(path, tau=3.0)
    assert str(sim.tree.one("/one[0]/s")) == "/one/s"
    assert sim.le("/net[0:2]") == ["s"]
