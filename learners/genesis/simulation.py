"""A simulation: every command of the script language is a method here.

>>> import numpy as np
>>> sim = Simulation(rng=np.random.default_rng(0))
>>> _ = sim.create("compartment", "/soma")
>>> sim.set("/soma", C=1.0, inject=1.0)
>>> sim.graph("/soma", "V", every=10)
>>> sim.step(20)
>>> sim.data("/soma", "V").time.round(2)
array([0. , 0.1, 0.2])
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from numbers import Real
from typing import Any

import numpy as np

from learners.genesis.core import (
    Clock,
    Connection,
    Element,
    Link,
    Selection,
    Tree,
    Wiring,
    World,
    as_numbers,
    class_named,
    copy_subtree,
    key_of,
)
from learners.genesis.script import Distribution, Interpreter, written
from learners.genesis.widgets import Form, Graph, SpikeTimes, Trace

__all__ = ["Simulation"]

MAX_COPIED = 100_000  # elements, so that copies of copies do not fill the memory


class Simulation:
    r"""Elements, what they share and send, and the time: a whole simulation.

    Parameters
    ----------
    rng
        Source of randomness; one number is drawn, and everything random is a function of it and of paths.
    read
        Returns the text of a script that another one includes. With None only the scripts that come with
        the package can be included (:data:`learners.genesis.LIBRARY`).
    max_statements
        Statements that all scripts together may execute, and iterations of their loops.

    Notes
    -----
    **Guarantees.** Results do not depend on the order in which elements, links and connections were
    made. Links and connections within a subtree are copied with it, others are not. A script that
    :meth:`save` returns makes the same simulation.

    References
    ----------
    .. [1] Wilson, Bhalla, Uhley, Bower, "GENESIS: a system for simulating neural networks", NIPS 1989.

    Examples
    --------
    >>> sim = Simulation(rng=np.random.default_rng(0))
    >>> sim.script("create compartment /soma\nset /soma inject 2\nstep 10")
    >>> sim.time
    0.1
    """

    def __init__(
        self,
        *,
        rng: np.random.Generator,
        read: Callable[[str], str] | None = None,
        max_statements: int = 1_000_000,
    ) -> None:
        self.tree, self.wiring = Tree(), Wiring()
        self.entropy = int(rng.integers(2**63))
        self.forms: dict[str, Form] = {}
        self.output: list[str] = []
        self._clock = Clock(self.tree, self.wiring)
        self._world: World | None = None
        self._graphs: list[Graph] = []
        self._form: Form | None = None
        self._interpreter = Interpreter(self, read=read, max_statements=max_statements)

    # elements

    def create(self, class_name: str, path: str, *, n: int = 1) -> Element:
        """Add an element of `n` rows.

        Raises
        ------
        ValueError
            If the class is unknown, the name taken, or the parent missing.
        """
        self._world = None
        return self.tree.create(class_name, path, n=n)

    def delete(self, path: str) -> None:
        """Remove elements, all below them, and every message that touches them."""
        for element in [_whole(found, "delete") for found in self.tree.select(path)]:
            if element.parent is None:
                raise ValueError("the root / must stay, got delete /")
            below = list(element.subtree())
            if self.tree.working in below:
                self.tree.working = element.parent
            self.wiring.drop(below)
            ids = {id(one) for one in below}
            self._graphs = [one for one in self._graphs if id(one.selection.element) not in ids]
            element.parent.children.pop(element.name, None)
        self._world = None

    def copy(self, source: str, target: str) -> Element:
        """Copy an element and all below it, with the messages that stay within.

        Raises
        ------
        ValueError
            If these are more than 100,000 elements, or the target exists.
        """
        element = _whole(self.tree.one(source), "copy")
        if sum(1 for _ in element.subtree()) > MAX_COPIED:
            raise ValueError(
                f"a copy must have at most {MAX_COPIED} elements, got more in {source!r}"
            )
        parent, name = self.tree.place(target)
        copies = copy_subtree(element, name, parent)
        self.wiring.repeat(copies)
        self._world = None
        return copies[id(element)]

    def move(self, source: str, target: str) -> None:
        """Give an element another name or parent; its messages stay."""
        element = _whole(self.tree.one(source), "move")
        parent, name = self.tree.place(target)
        if element.parent is None or parent in list(element.subtree()):
            raise ValueError(f"an element must move out of itself, got {source!r} to {target!r}")
        del element.parent.children[element.name]
        element.parent, element.name = parent, name
        parent.children[name] = element
        self._world = None

    def ce(self, path: str) -> None:
        """Make an element the one that relative paths begin at."""
        self.tree.working = self.tree.one(path).element

    def pwe(self) -> str:
        """Return the path of the working element."""
        return self.tree.working.path

    def le(self, path: str = ".") -> list[str]:
        """Return the names of the elements below one."""
        return sorted(self.tree.one(path).element.children)

    def exists(self, path: str) -> bool:
        """Return whether a path names anything."""
        try:
            return bool(self.tree.select(path))
        except ValueError:
            return False

    # messages

    def link(self, source: str, target: str, *, message: str | None = None) -> list[Link]:
        """Let elements share data without delay; `source` may name several.

        Raises
        ------
        TypeError
            If nothing that one class sends is taken by the other.
        """
        self._world = None
        return [
            self.wiring.link(a, b, message=message)
            for b in self.tree.select(target)
            for a in self.tree.select(source)
        ]

    def connect(
        self,
        source: str,
        target: str,
        *,
        weight: float = 1.0,
        delay: float = 0.0,
        pairs: bool = False,
    ) -> list[Connection]:
        """Let events pass, every row to every row, or row by row with `pairs`.

        Raises
        ------
        TypeError
            If one class emits nothing that the other receives.
        """
        self._world = None
        return [
            self.wiring.connect(a, b, weight=weight, delay=delay, pairs=pairs)
            for b in self.tree.select(target)
            for a in self.tree.select(source)
        ]

    def unlink(self, source: str, target: str) -> int:
        """Remove links and connections between two ends; return their number."""
        self._world = None
        ends = [(a, b) for a in self.tree.select(source) for b in self.tree.select(target)]
        return sum(self.wiring.unlink(a, b) for a, b in ends)

    # fields

    def set(self, path: str, /, **fields: Any) -> None:
        """Set fields of all that a path names: numbers, texts, an array with an entry per row, draws.

        Elements that act on events, such as workers and tasks, read their fields at the next reset.

        Raises
        ------
        ValueError
            If a field is unknown, or a value does not fit it.
        """
        for found in self.tree.select(path):
            for name, value in fields.items():
                field = found.element.cls.field_named(name)
                if isinstance(value, Distribution):
                    key = key_of(self.entropy, found, field)
                    value = value.draw(len(found.rows), np.random.default_rng(key))
                _assign(found, field, value)

    def get(self, path: str, field: str) -> Any:
        """Return a field: of one row a number, a text or a tuple, of several an array."""
        found = self.tree.one(path)
        values = found.element.values[found.element.cls.field_named(field)]
        rows = values[found.start : found.stop]
        if len(rows) > 1:
            return rows.copy()
        return tuple(rows[0].tolist()) if rows.ndim > 1 else _plain(rows[0])

    def show(self, path: str) -> str:
        """Return an element's class, fields and messages, as lines of text."""
        found = self.tree.one(path)
        element = found.element
        lines = [f"{found} ({element.cls.name}, {element.size} rows)"]
        for name, values in element.values.items():
            rows = values[found.start : found.stop]
            shown = written(rows[0]) if len(rows) == 1 else f"{len(rows)} values"
            lines.append(f"  {name} = {shown}")
        ends = [(one.source, one.target) for one in self.wiring.links]
        ends += [(one.source, one.target) for one in self.wiring.connections]
        lines += [f"  {a} to {b}" for a, b in ends if element in (a.element, b.element)]
        return "\n".join(lines)

    # time

    @property
    def time(self) -> float:
        """The time that has been reached."""
        return self._clock.time

    def setclock(self, dt: float | None = None, /, **every: int) -> None:
        """Set the length of a step (> 0), or the number of steps between two of a class."""
        if dt is not None:
            if not (isinstance(dt, Real) and 0 < dt < float("inf")):
                raise ValueError(f"dt must be > 0 and finite, got dt={dt!r}")
            self._clock.dt = float(dt)
        for name, steps in every.items():
            if not (isinstance(steps, Real) and steps >= 1 and steps % 1 == 0):
                raise ValueError(f"a class must step every 1 or more steps, got {name}={steps!r}")
            self._clock.every[class_named(name).base] = int(steps)
        self._world = None

    def clocks(self) -> tuple[float, Mapping[str, int]]:
        """Return the length of a step, and the steps between two of a class where not 1."""
        return self._clock.dt, dict(self._clock.every)

    def reset(self) -> None:
        """Return to time 0 and compile what has changed; recordings are forgotten."""
        self._clock.compile()
        self._clock.reset()
        self._world = World(self.tree, self.wiring, self.entropy)
        self._world.start()
        for graph in self._graphs:
            graph.clear()
            graph.sample(0, 0.0)

    def step(self, n: int = 1) -> None:
        """Make `n` steps; after a change of elements or messages from time 0."""
        if not (isinstance(n, Real) and n >= 0 and n % 1 == 0):
            raise ValueError(f"n must be a whole number >= 0, got n={n!r}")
        world = self._ready()
        clock = self._clock
        if not clock.blocks and not self._graphs:
            clock.n_steps += int(n)
            world.advance(clock.time)
            return
        for _ in range(int(n)):
            clock.step()
            world.advance(clock.time)
            for graph in self._graphs:
                graph.sample(clock.n_steps, clock.time)

    def run(self) -> None:
        """Go on until no event is left to happen."""
        world = self._ready()
        if self._clock.blocks or self._graphs:
            while world.n_waiting:
                self.step()
            return
        world.advance(float("inf"))
        self._clock.set_time(world.time)

    def _ready(self) -> World:
        """Reset after a change, and return the world."""
        if self._world is None:
            self.reset()
        if self._world is None:
            raise RuntimeError("a reset must leave a world")
        return self._world

    # what comes out

    def graph(self, path: str, field: str, *, every: int = 1) -> None:
        """Record a field at time 0 and every so many steps."""
        if not (isinstance(every, Real) and every >= 1 and every % 1 == 0):
            raise ValueError(f"every must be >= 1 and whole, got every={every!r}")
        for found in self.tree.select(path):
            name = found.element.cls.field_named(field)
            self._graphs.append(Graph(found, name, int(every)))
        self._world = None

    def graphs(self) -> list[tuple[Selection, str, int]]:
        """Return all that is recorded: selection, field, and steps from one value to the next."""
        return [(one.selection, one.field, one.every) for one in self._graphs]

    def data(self, path: str, field: str) -> Trace:
        """Return what a graph has recorded: nothing before the first step or reset.

        Raises
        ------
        ValueError
            If there is no such graph.
        """
        found = self.tree.one(path)
        name = found.element.cls.field_named(field)
        for graph in self._graphs:
            if (graph.selection, graph.field) == (found, name):
                width = found.element.values[name][found.start : found.stop].size
                values = np.array(graph.values).reshape(len(graph.times), width)
                return Trace(np.array(graph.times), values[:, 0] if width == 1 else values)
        raise ValueError(
            f"{found} must have a graph of {name}, got none; `graph {path} {field}` makes one"
        )

    def spikes(self, path: str) -> SpikeTimes:
        """Return the times of an element's events since the last reset."""
        found = self.tree.one(path)
        train = self._clock.trains.get(id(found.element))
        times, rows = (train.times, train.rows) if train else ([], [])
        time, row = np.array(times, dtype=float), np.array(rows, dtype=np.int64)
        inside = (row >= found.start) & (row < found.stop)
        return SpikeTimes(time[inside], row[inside] - found.start)

    def result(self, path: str) -> Any:
        """Return what an element that acts on events has gathered, such as a recorder's labels.

        Raises
        ------
        ValueError
            If its class gathers nothing.
        """
        element = self.tree.one(path).element
        behaviour = element.cls.behaviour
        if behaviour is None or not hasattr(behaviour, "result"):
            raise ValueError(
                f"{path} must be an element that gathers results, got {element.cls.name}"
            )
        return self._ready().behaviour(element).result()

    def check(self) -> list[str]:
        """Return a doubt for every element that takes messages or receives events, and is sent none."""
        links = self.wiring.links
        sent = {id(end.element) for one in links for end in (one.source, one.target)}
        connected = {id(one.target.element) for one in self.wiring.connections}
        doubts = []
        for element in self.tree.root.subtree():
            cls = element.cls
            if cls.inputs and id(element) not in sent:
                doubts.append(f"{element.path} takes {', '.join(cls.inputs)} and is not linked")
            if cls.receives and id(element) not in connected:
                doubts.append(
                    f"{element.path} receives {', '.join(cls.receives)} and is not connected"
                )
        return doubts

    # widgets and scripts

    def xform(self, name: str) -> Form:
        """Open a form, to which the next widgets belong."""
        self._form = self.forms.setdefault(name, Form(name, self.script))
        return self._form

    def xdialog(self, label: str, command: str, *, default: object = "") -> None:
        """Add a dialog to the open form: it issues the command with its value."""
        self._open_form().add("dialog", label, command, str(default))

    def xtoggle(self, label: str, command: str, *, default: object = 0) -> None:
        """Add a toggle to the open form: it issues the command with 0 or 1."""
        self._open_form().add("toggle", label, command, str(default))

    def xbutton(self, label: str, command: str) -> None:
        """Add a button to the open form."""
        self._open_form().add("button", label, command, "")

    def _open_form(self) -> Form:
        if self._form is None:
            raise ValueError("a form must be open for a widget; `xform name` opens one")
        return self._form

    def echo(self, *words: object) -> None:
        """Add a line to `output`."""
        self.output.append(" ".join(map(str, words)))

    def script(self, text: str, *, name: str = "script") -> None:
        """Execute a script.

        Parameters
        ----------
        text
            The script.
        name
            What messages call it.

        Raises
        ------
        ScriptError
            With the file, the line, and what must be changed.
        """
        self._interpreter.run(text, name)

    def call(self, function: str, *arguments: object) -> Any:
        """Call a function that a script has defined."""
        return self._interpreter.call(function, arguments)

    def save(self) -> str:
        """Return a script that makes this simulation anew: elements, fields, messages, graphs, forms.

        It holds functions and variables, except variables that hold the field of several rows, and nothing
        that has happened since time 0.
        """
        from learners.genesis.script import saved_script  # the writer, for this method only

        script = self._interpreter
        return saved_script(self, script.variables, script.definitions())

    @classmethod
    def load(cls, text: str, *, rng: np.random.Generator) -> Simulation:
        """Return the simulation that a script makes."""
        made = cls(rng=rng)
        made.script(text, name="saved")
        return made


def _whole(found: Selection, command: str) -> Element:
    """Return the element of a selection of all its rows; raise ValueError for some of them."""
    if not found.is_whole:
        raise ValueError(f"{command} must name a whole element, got some rows, {found}")
    return found.element


def _plain(value: Any) -> Any:
    return float(value) if isinstance(value, float | np.floating) else value


def _assign(found: Selection, field: str, value: Any) -> None:
    """Write a value into the rows of a field, so that views of the array see it."""
    element = found.element
    rows = element.values[field][found.start : found.stop]
    is_text = rows.dtype == object
    if is_text != isinstance(value, str) and not (is_text and np.shape(value) == rows.shape):
        kind = "a text" if is_text else "a number"
        raise ValueError(f"{field} of {found} must be {kind}, got {value!r}")
    if is_text:
        rows[:] = value
        return
    given = as_numbers(value, f"{field} of {found}")
    fits = (
        given.ndim == 0
        or given.shape == rows.shape
        or (rows.ndim == 2 and given.shape == rows.shape[1:])
    )
    if not fits:
        wanted = " or ".join(dict.fromkeys(str(one) for one in ("one", *rows.shape)))
        raise ValueError(f"{field} of {found} must have {wanted} values, got {given.size}")
    if np.isnan(given).any():
        raise ValueError(f"{field} of {found} must be a number, got NaN")
    rows[:] = given
