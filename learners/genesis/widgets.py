"""Widgets without a screen: forms, which issue commands of a script and obey them, and graphs, which record.

A form has dialogs, toggles and buttons; a graph keeps a field at steps, and spikes the times of events.

>>> pressed = []
>>> form = Form("control", pressed.append)
>>> form.add("dialog", "steps", "set_steps", "200")
>>> form["steps"].set(50)
>>> pressed, form["steps"].value
(['set_steps 50'], '50')
>>> print(form.text())
control
  steps [50] set_steps
>>> Trace(np.array([0.0, 0.1]), np.array([1.0, 2.0])).value.max().item()
2.0
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from learners.genesis.core import Selection
from learners.genesis.script import quoted

__all__ = ["Form", "Graph", "SpikeTimes", "Trace", "Widget"]

KINDS = ("dialog", "toggle", "button")


@dataclass(slots=True)
class Widget:
    """One widget: its kind, label, the command that it issues, and its present value."""

    kind: str
    label: str
    command: str
    value: str
    run: Callable[[str], object]

    def set(self, value: object) -> None:
        """Take a value and issue the command with it: as a user does who types or clicks."""
        if self.kind == "toggle":
            value = int(bool(value) and value != "0")  # as `value` holds it
        self.value = str(value)
        # a list or a word with values in braces is one word already; -x would be an option
        plain = r"[\w.+][\w.+-]*|-[\d.][\w.+-]*|[({]\S*[)}]"
        is_plain = re.fullmatch(plain, self.value) and self.value != "to"
        self.run(f"{self.command} {self.value if is_plain else quoted(self.value)}")

    def press(self) -> None:
        """Issue the command of a button."""
        self.run(self.command)


class Form:
    """A named set of widgets, by label."""

    def __init__(self, name: str, run: Callable[[str], object]) -> None:
        self.name, self._run = name, run
        self.widgets: dict[str, Widget] = {}

    def add(self, kind: str, label: str, command: str, value: str) -> None:
        """Add a widget, or replace the one of this label.

        Raises
        ------
        ValueError
            If the kind is not dialog, toggle or button.
        """
        if kind not in KINDS:
            raise ValueError(f"kind must be one of {', '.join(KINDS)}, got {kind!r}")
        self.widgets[label] = Widget(kind, label, command, value, self._run)

    def __getitem__(self, label: str) -> Widget:
        if label not in self.widgets:
            known = ", ".join(self.widgets) or "none"
            raise ValueError(f"form {self.name} has no widget {label!r}; its widgets are {known}")
        return self.widgets[label]

    def text(self) -> str:
        """Return the form as lines of text."""
        return "\n".join([self.name, *(f"  {_as_text(one)}" for one in self.widgets.values())])

    def html(self) -> str:
        """Return the form as a fieldset of HTML, whose texts are escaped; it has no script."""
        rows = "".join(_as_html(one) for one in self.widgets.values())
        return f"<fieldset disabled><legend>{html.escape(self.name)}</legend>{rows}</fieldset>"


def _as_text(one: Widget) -> str:
    if one.kind == "dialog":
        return f"{one.label} [{one.value}] {one.command}"
    if one.kind == "toggle":
        return f"({'x' if one.value == '1' else ' '}) {one.label} {one.command}"
    return f"<{one.label}> {one.command}"


def _as_html(one: Widget) -> str:
    label, value = html.escape(one.label), html.escape(one.value)
    title = html.escape(one.command)
    if one.kind == "button":
        return f'<button title="{title}">{label}</button>'
    checked = " checked" if one.value == "1" else ""
    box = f'type="checkbox"{checked}' if one.kind == "toggle" else f'value="{value}"'
    return f'<label title="{title}">{label} <input {box}></label>'


class Trace(NamedTuple):
    """What a graph has recorded: `value` has an entry, or a row, per time."""

    time: np.ndarray
    value: np.ndarray


class SpikeTimes(NamedTuple):
    """The events of an element: when, and from which of its rows."""

    time: np.ndarray
    row: np.ndarray


class Graph:
    """What is recorded of a field, every so many steps."""

    def __init__(self, selection: Selection, field: str, every: int) -> None:
        self.selection, self.field, self.every = selection, field, every
        self.times: list[float] = []
        self.values: list[np.ndarray] = []

    def sample(self, n_steps: int, time: float) -> None:
        """Record the field if it is time to."""
        if n_steps % self.every == 0:
            rows = self.selection.element.values[self.field][
                self.selection.start : self.selection.stop
            ]
            self.times.append(time)
            self.values.append(rows.copy())

    def clear(self) -> None:
        """Forget what was recorded."""
        self.times.clear()
        self.values.clear()
