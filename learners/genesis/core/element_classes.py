"""The registry of element classes: what an element of a class holds, exchanges and does in a step.

A class that computes at a fixed clock is one function, from a block of all its elements to their
new values:

>>> @element_class("decaying", fields={"tau": 2.0}, state={"x": 1.0})
... def decaying(block, dt):
...     return {"x": block["x"] * (1 - dt / block["tau"])}
>>> decaying.name, decaying.fields["tau"]
('decaying', 2.0)

A class that acts on events is a Python class with the methods of :class:`Behaviour`. The core knows
neither kind by name, so that a new class needs no change to it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np

__all__ = [
    "BUILT_IN",
    "CLASSES",
    "Behaviour",
    "ElementClass",
    "Process",
    "class_named",
    "element_class",
    "variant",
]

Default: TypeAlias = float | str | tuple[float, ...]
Process: TypeAlias = Callable[[Any, float], Mapping[str, np.ndarray]]
"""A function from a block of elements and the length of a step to the new values of some fields."""


@runtime_checkable
class Behaviour(Protocol):
    """An element that acts on events; it is made anew by every reset."""

    def __init__(self, world: Any, element: Any) -> None:
        """Hold the :class:`~learners.genesis.core.World` and the element."""

    def start(self) -> None:
        """Schedule the first events."""

    def receive(self, connection: Any, source: int, message: Any) -> None:
        """Take what row `source` of a connection's source has sent."""


@dataclass(frozen=True, slots=True)
class ElementClass:
    """What the elements of a class hold and exchange, and what they do.

    Parameters
    ----------
    name
        As `create` names it.
    base
        The class whose functions it shares; its own name unless it is a :func:`variant`.
    fields
        Parameters with their defaults: a number, a text, or a tuple of numbers.
    state
        Variables with the values that they have before the first reset.
    aliases
        Other names of fields.
    outputs, replies
        Messages that a link carries with it and against it: name, and the fields sent.
    inputs
        Names of the messages that it takes.
    emits, receives
        The kinds of event that a connection carries from and to it; `emits` is empty for none.
    phase
        Classes of a lower phase are processed first, and those of higher phases see their new values.
    process, reset
        Functions of a clocked class.
    behaviour
        The Python class of one that acts on events.
    """

    name: str
    base: str
    fields: Mapping[str, Default]
    state: Mapping[str, float] = field(default_factory=dict)
    aliases: Mapping[str, str] = field(default_factory=dict)
    outputs: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    replies: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    inputs: tuple[str, ...] = ()
    emits: str = ""
    receives: tuple[str, ...] = ()
    phase: int = 0
    process: Process | None = None
    reset: Process | None = None
    behaviour: type[Any] | None = None

    def field_named(self, name: str) -> str:
        """Return the field of a name or alias.

        Raises
        ------
        ValueError
            If there is none.
        """
        found = self.aliases.get(name, name)
        if found not in self.fields and found not in self.state:
            known = ", ".join([*self.fields, *self.state, *self.aliases]) or "none"
            raise ValueError(f"{self.name} has no field {name!r}; its fields are {known}")
        return found


CLASSES: dict[str, ElementClass] = {}
BUILT_IN: set[str] = set()  # names of those that scripts rely on; variants share their home


def element_class(
    name: str,
    *,
    fields: Mapping[str, Default] | None = None,
    state: Mapping[str, float] | None = None,
    aliases: Mapping[str, str] | None = None,
    outputs: Mapping[str, tuple[str, ...]] | None = None,
    replies: Mapping[str, tuple[str, ...]] | None = None,
    inputs: tuple[str, ...] = (),
    emits: str = "",
    receives: tuple[str, ...] = (),
    phase: int = 0,
    reset: Process | None = None,
) -> Callable[[Any], ElementClass]:
    """Register the decorated function, or class of behaviour, as a class of elements.

    Parameters
    ----------
    name, fields, state, aliases, outputs, replies, inputs, emits, receives, phase, reset
        As in :class:`ElementClass`.

    Returns
    -------
    Callable
        A decorator that returns the :class:`ElementClass`.

    Raises
    ------
    ValueError
        If another module has registered the name.

    Notes
    -----
    A process that lists ``"fired"`` among the values it returns sends an event from every row that
    is not 0.

    Examples
    --------
    >>> @element_class("counting", state={"n": 0.0})
    ... def counting(block, dt):
    ...     return {"n": block["n"] + 1}
    >>> counting.phase
    0
    """

    def register(target: Any) -> ElementClass:
        is_behaviour = isinstance(target, type)
        made = ElementClass(
            name=name,
            base=name,
            fields=MappingProxyType(dict(fields or {})),
            state=MappingProxyType(dict(state or {})),
            aliases=MappingProxyType(dict(aliases or {})),
            outputs=MappingProxyType(dict(outputs or {})),
            replies=MappingProxyType(dict(replies or {})),
            inputs=inputs,
            emits=emits,
            receives=receives,
            phase=phase,
            process=None if is_behaviour or target is None else target,
            reset=reset,
            behaviour=target if is_behaviour else None,
        )
        return _registered(made)

    return register


def variant(name: str, base: ElementClass, **defaults: Default) -> ElementClass:
    """Register a class that differs from another in the defaults of its fields alone.

    Raises
    ------
    ValueError
        If the other class has no such field, or the name is a built-in class's or another module's.

    Examples
    --------
    >>> base = element_class("leaky", fields={"tau": 2.0})(None)
    >>> variant("slow", base, tau=20.0).fields["tau"]
    20.0
    """
    for given in defaults:
        base.field_named(given)
    fields = MappingProxyType({**base.fields, **defaults})
    return _registered(replace(base, name=name, fields=fields))


def class_named(name: str) -> ElementClass:
    """Return the registered class of a name.

    Raises
    ------
    ValueError
        If there is none.
    """
    if name not in CLASSES:
        raise ValueError(f"class must be one of {', '.join(sorted(CLASSES))}, got {name!r}")
    return CLASSES[name]


def _registered(made: ElementClass) -> ElementClass:
    """Put a class into the registry; a module may replace its own, as a notebook does."""
    known = CLASSES.get(made.name)
    if known is not None and (made.name in BUILT_IN or _home(known) != _home(made)):
        raise ValueError(
            f"class {made.name!r} must be new, got a name that {_home(known)} has registered"
        )
    CLASSES[made.name] = made
    return made


def _home(known: ElementClass) -> str:
    return str(getattr(known.process or known.behaviour, "__module__", ""))
