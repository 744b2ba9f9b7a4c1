"""Forms without a screen: dialogs, toggles and buttons that issue commands of a script and obey them.

>>> pressed = []
>>> form = Form("control", pressed.append)
>>> form.add("dialog", "steps", "set_steps", "200")
>>> form["steps"].set(50)
>>> pressed, form["steps"].value
(['set_steps 50'], '50')
>>> print(form.text())
control
  steps [50] set_steps
"""

from __future__ import annotations

import html
from collections.abc import Callable
from dataclasses import dataclass

__all__ = ["Form", "Widget"]

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
            value = int(bool(value))
        self.value = str(value)
        quoted = (
            f'"{value}"' if any(c.isspace() for c in self.value) or not self.value else self.value
        )
        self.run(f"{self.command} {quoted}")

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
            If the kind is none of dialog, toggle, button.
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
