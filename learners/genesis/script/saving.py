"""A simulation written as a script that makes it anew."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from learners.genesis.core import Element, Link, Selection
from learners.genesis.script.arithmetic import Distribution

__all__ = ["quoted", "saved_script", "written"]

MAX_VALUES = 50_000  # of a line: an expression may have two million characters


def written(value: Any) -> str:
    """Return a value as a script writes it: exactly, so that reading it gives the same number.

    >>> written(0.1), written("a b"), written((1.0, -2.0)), written(np.array([1.0, np.inf]))
    ('0.1', '"a b"', '(1.0,-2.0)', '(1.0,inf)')
    >>> written(np.inf)
    '{inf}'
    """
    if isinstance(value, str):
        text = quoted(value)
        if "{" in value or "}" in value:
            # as an expression: in quotes alone a script replaces braces by values
            return "{" + text.replace("{", r"\x7b").replace("}", r"\x7d") + "}"
        return text
    if isinstance(value, np.ndarray | tuple):
        inside = [
            written(one).strip("{}")  # a list is an expression already
            for one in (value.tolist() if isinstance(value, np.ndarray) else value)
        ]
        return f"({','.join(inside)}{',' if len(inside) == 1 else ''})"
    if isinstance(value, float | np.floating):
        return repr(float(value)) if np.isfinite(value) else f"{{{float(value)}}}"
    return str(value)


def quoted(text: str) -> str:
    """Return a text as a word in quotes, whose braces a script still replaces by values."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def saved_script(sim: Any, variables: Mapping[str, Any], definitions: list[str]) -> str:
    """Return the script of a simulation: clocks, variables, functions, elements, messages, graphs, forms."""
    dt, every = sim.clocks()
    lines = [
        f"setclock {written(dt)}",
        *(f"setclock {name} {k}" for name, k in sorted(every.items())),
    ]
    lines += [
        f"{name} = {_expression(value)}"
        for name, value in sorted(variables.items())
        if not _holds_rows(value)
    ]
    lines += definitions
    elements = list(sim.tree.root.subtree())[1:]
    for element in elements:
        rows = f" -n {element.size}" if element.size > 1 else ""
        lines.append(f"create {element.cls.name} {element.path}{rows}")
        lines += _fields(element)
    lines += [_link(link) for link in sim.wiring.links]
    for one in sim.wiring.connections:
        pairs = " -pairs" if one.pairs else ""
        lines.append(
            f"connect {one.source} to {one.target} -weight {written(one.weight)} "
            f"-delay {written(one.delay)}{pairs}"
        )
    lines += [f"graph {selection} {field} -every {k}" for selection, field, k in sim.graphs()]
    for form in sim.forms.values():
        lines.append(f"xform {written(form.name)}")
        for one in form.widgets.values():
            default = "" if one.kind == "button" else f" -default {written(one.value)}"
            lines.append(f"x{one.kind} {written(one.label)} {written(one.command)}{default}")
    if sim.tree.working is not sim.tree.root:
        lines.append(f"ce {sim.pwe()}")
    return "\n".join(lines) + "\n"


def _holds_rows(value: Any) -> bool:
    """Return whether a value is or holds the field of several rows, an array, which no expression makes."""
    if isinstance(value, tuple):
        return any(map(_holds_rows, value))
    return isinstance(value, np.ndarray)


def _expression(value: Any) -> str:
    """Return the expression that has a variable's value."""
    if isinstance(value, str):
        return '"' + value.encode("unicode_escape").decode().replace('"', r"\"") + '"'
    if isinstance(value, tuple):
        return f"({''.join(_expression(one) + ', ' for one in value)})"
    if isinstance(value, Distribution):
        return value.name + _expression(value.parameters)
    return "inf - inf" if value != value else str(value)  # NaN has no name


def _fields(element: Element) -> Iterator[str]:
    """Yield a line for every field that differs from its class's default."""
    for name, default in element.cls.fields.items():
        values = element.values[name]
        if values.dtype == object:
            yield from _texts(element, name, default)
            continue
        usual = np.broadcast_to(np.array(default, dtype=float), values.shape)
        if np.array_equal(values, usual, equal_nan=True):
            continue
        if (values == values[0]).all():
            yield f"set {element.path} {name} {written(values[0])}"
        elif values.ndim == 1:
            # a script sets no NaN: rows that hold it are as they were made
            known = np.flatnonzero(~np.isnan(values))
            cuts = np.union1d(
                np.flatnonzero(np.diff(known) > 1) + 1,
                np.arange(MAX_VALUES, len(known), MAX_VALUES),
            )
            for run in np.split(known, cuts):
                if run.size:
                    rows = Selection(element, int(run[0]), int(run[-1]) + 1)
                    yield f"set {rows} {name} {written(values[run])}"
        else:
            for row, value in enumerate(values):
                if not np.isnan(value).any():
                    yield f"set {element.path}[{row}] {name} {written(value)}"


def _texts(element: Element, name: str, default: Any) -> Iterator[str]:
    for row, value in enumerate(element.values[name]):
        if value != default:
            yield f"set {element.path}[{row}] {name} {written(value)}"


def _link(link: Link) -> str:
    """Return the line of a link; its message is named where the classes have others too."""
    a, b = link.source.element.cls, link.target.element.cls
    every = [name for name in a.outputs if name in b.inputs]
    every += [name for name in b.replies if name in a.inputs]
    carried = [*link.messages, *link.replies]
    named = f" -as {carried[0]}" if carried != every else ""
    return f"link {link.source} to {link.target}{named}"
