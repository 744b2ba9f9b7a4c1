"""The commands of the language: which words each takes, and the method of a simulation that it calls.

>>> sorted(COMMANDS)[:6]
['addmsg', 'call', 'ce', 'check', 'connect', 'copy']
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["COMMANDS", "CommandForm"]

Words = list[Any]
Options = dict[str, Any]


@dataclass(frozen=True, slots=True)
class CommandForm:
    """How a command is written, and what it does.

    Parameters
    ----------
    usage
        The line, as the reference shows it; options stand behind it.
    about
        One sentence.
    least, most
        Numbers of words.
    options
        Their names; those in `flags` take no value.
    act
        A function of the simulation, the words and the options.
    """

    usage: str
    about: str
    least: int
    most: int
    act: Callable[[Any, Words, Options], object]
    options: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()


def _set(sim: Any, words: Words, _: Options) -> None:
    if len(words) % 2 == 0:  # fields of the working element
        words = [".", *words]
    path, *pairs = words
    for name, value in zip(pairs[::2], pairs[1::2], strict=True):
        sim.set(str(path), **{str(name): value})


def _show(sim: Any, words: Words, _: Options) -> None:
    if len(words) == 2:
        sim.echo(written_plainly(sim.get(str(words[0]), str(words[1]))))
        return
    sim.echo(sim.show(str(words[0] if words else ".")))


def _setclock(sim: Any, words: Words, _: Options) -> None:
    if len(words) == 1:
        sim.setclock(number(words[0]))
    else:
        sim.setclock(**{str(words[0]): whole(words[1])})


def _check(sim: Any, words: Words, _: Options) -> None:
    for doubt in sim.check():
        sim.echo(doubt)


def number(word: Any) -> float:
    """Return a word as a number, or raise ValueError."""
    try:
        return float(word)
    except (TypeError, ValueError):
        raise ValueError(f"a number must stand here, got {word!r}") from None


def whole(word: Any) -> int:
    """Return a word as a whole number, or raise ValueError."""
    value = number(word)
    if not abs(value) < 2**53 or value != int(value):
        raise ValueError(f"a whole number must stand here, got {word!r}")
    return int(value)


def written_plainly(value: Any) -> str:
    """Return a value as `echo` prints it."""
    if hasattr(value, "tolist"):
        return " ".join(
            f"{one:g}" if isinstance(one, float) else str(one) for one in value.tolist()
        )
    return f"{value:g}" if isinstance(value, float) else str(value)


def _create(sim: Any, words: Words, given: Options) -> None:
    sim.create(str(words[0]), str(words[1]), n=whole(given.get("n", 1)))


def _link(sim: Any, words: Words, given: Options) -> None:
    sim.link(str(words[0]), str(words[1]), message=given.get("as"))


def _connect(sim: Any, words: Words, given: Options) -> None:
    sim.connect(
        str(words[0]),
        str(words[1]),
        weight=number(given.get("weight", 1.0)),
        delay=number(given.get("delay", 0.0)),
        pairs="pairs" in given,
    )


def _widget(method: str) -> Callable[[Any, Words, Options], object]:
    def act(sim: Any, words: Words, given: Options) -> None:
        getattr(sim, method)(str(words[0]), str(words[1]), default=given.get("default", ""))

    return act


COMMANDS: Mapping[str, CommandForm] = {
    "create": CommandForm(
        "create CLASS PATH", "Add an element, or with -n an array of rows.", 2, 2, _create, ("n",)
    ),
    "delete": CommandForm(
        "delete PATH", "Remove elements, all below them, and their messages.", 1, 1,
        lambda sim, w, _: sim.delete(str(w[0])),
    ),
    "copy": CommandForm(
        "copy PATH to PATH", "Copy an element and all below it, with the messages within.", 2, 2,
        lambda sim, w, _: sim.copy(str(w[0]), str(w[1])),
    ),
    "move": CommandForm(
        "move PATH to PATH", "Give an element another name or parent.", 2, 2,
        lambda sim, w, _: sim.move(str(w[0]), str(w[1])),
    ),
    "ce": CommandForm(
        "ce PATH", "Make an element the one that relative paths begin at.", 1, 1,
        lambda sim, w, _: sim.ce(str(w[0])),
    ),
    "pwe": CommandForm("pwe", "Print that element's path.", 0, 0, lambda sim, w, _: sim.echo(sim.pwe())),
    "le": CommandForm(
        "le [PATH]", "Print the names below an element.", 0, 1,
        lambda sim, w, _: sim.echo(*sim.le(str(w[0]) if w else ".")),
    ),
    "link": CommandForm(
        "link PATH to PATH", "Let elements share data without delay.", 2, 2, _link, ("as",)
    ),
    "unlink": CommandForm(
        "unlink PATH to PATH", "Remove the links and connections between them.", 2, 2,
        lambda sim, w, _: sim.unlink(str(w[0]), str(w[1])),
    ),
    "connect": CommandForm(
        "connect PATH to PATH", "Let events pass: every row to every row, or with -pairs row by row.",
        2, 2, _connect, ("weight", "delay"), ("pairs",),
    ),
    "set": CommandForm("set [PATH] FIELD VALUE ...", "Set fields; a value may be drawn.", 2, 1000, _set),
    "get": CommandForm("get PATH FIELD", "Print a field.", 2, 2, _show),
    "show": CommandForm("show [PATH] [FIELD]", "Print an element, or a field.", 0, 2, _show),
    "step": CommandForm(
        "step [N]", "Make N steps.", 0, 1, lambda sim, w, _: sim.step(whole(w[0]) if w else 1)
    ),
    "run": CommandForm("run", "Go on until no event is left.", 0, 0, lambda sim, w, _: sim.run()),
    "reset": CommandForm("reset", "Return to time 0.", 0, 0, lambda sim, w, _: sim.reset()),
    "setclock": CommandForm(
        "setclock DT | CLASS STEPS", "Set the length of a step, or the steps between two of a class.",
        1, 2, _setclock,
    ),
    "graph": CommandForm(
        "graph PATH FIELD", "Record a field at every step, or every -every steps.", 2, 2,
        lambda sim, w, o: sim.graph(str(w[0]), str(w[1]), every=whole(o.get("every", 1))), ("every",),
    ),
    "xform": CommandForm("xform NAME", "Open a form.", 1, 1, lambda sim, w, _: sim.xform(str(w[0]))),
    "xdialog": CommandForm(
        "xdialog LABEL COMMAND", "Add a dialog to the form.", 2, 2, _widget("xdialog"), ("default",)
    ),
    "xtoggle": CommandForm(
        "xtoggle LABEL COMMAND", "Add a toggle to the form.", 2, 2, _widget("xtoggle"), ("default",)
    ),
    "xbutton": CommandForm(
        "xbutton LABEL COMMAND", "Add a button to the form.", 2, 2,
        lambda sim, w, _: sim.xbutton(str(w[0]), str(w[1])),
    ),
    "echo": CommandForm(
        "echo WORD ...", "Print words.", 0, 1000,
        lambda sim, w, _: sim.echo(*map(written_plainly, w)),
    ),
    "call": CommandForm(
        "call FUNCTION [VALUE ...]", "Call a function by its name.", 1, 1000,
        lambda sim, w, _: sim.call(str(w[0]), *w[1:]),
    ),
    "check": CommandForm("check", "Print what is not linked or connected.", 0, 0, _check),
}  # fmt: skip
COMMANDS = {**COMMANDS, "setfield": COMMANDS["set"], "addmsg": COMMANDS["link"]}
