"""Elements in a tree, as files stand in folders: names alone, without any flow of data.

>>> from learners.genesis.core.element_classes import element_class
>>> _ = element_class("thing", fields={"mass": 1.0})(None)
>>> tree = Tree()
>>> shelf = tree.create("neutral", "/shelf")
>>> things = tree.create("thing", "/shelf/box", n=3)
>>> [str(found) for found in tree.select("/shelf/#")], str(tree.one("/shelf/box[1]"))
(['/shelf/box'], '/shelf/box[1]')
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from fnmatch import fnmatchcase
from numbers import Real
from typing import Any

import numpy as np

from learners.genesis.core.element_classes import ElementClass, class_named, element_class

__all__ = ["Element", "PathError", "Selection", "Tree", "as_numbers"]

NAME = re.compile(r"[A-Za-z_][\w-]*\Z")
PART = re.compile(r"([^\[\]]+)((?:\[[^\[\]]*\])*)\Z")
MAX_ROWS = 10_000_000  # of one element
SIBLINGS = 12  # named in a message

element_class("neutral")(None)


class PathError(ValueError):
    """A path that names no element, or a name that cannot be given."""


class Element:
    """A node of the tree: one row, or an array of rows, of a class.

    Parameters
    ----------
    name, cls, parent, size
        Its name among its parent's children, its class, the parent, and the number of rows.
    """

    __slots__ = ("children", "cls", "name", "parent", "size", "values")

    def __init__(self, name: str, cls: ElementClass, parent: Element | None, size: int = 1) -> None:
        self.name, self.cls, self.parent, self.size = name, cls, parent, size
        self.children: dict[str, Element] = {}
        self.values: dict[str, np.ndarray] = {
            field: _filled(default, size) for field, default in {**cls.fields, **cls.state}.items()
        }

    @property
    def path(self) -> str:
        """The names from the root to here."""
        if self.parent is None:
            return "/"
        return f"{self.parent.path.rstrip('/')}/{self.name}"

    def subtree(self) -> Iterator[Element]:
        """Yield the element and all below it, children by name."""
        yield self
        for name in sorted(self.children):
            yield from self.children[name].subtree()

    def __repr__(self) -> str:
        rows = f", {self.size} rows" if self.size > 1 else ""
        return f"Element({self.path}, {self.cls.name}{rows})"


def _filled(default: Any, size: int) -> np.ndarray:
    if isinstance(default, str):
        return np.full(size, default, dtype=object)
    if isinstance(default, tuple):
        return np.tile(np.array(default, dtype=float), (size, 1))
    return np.full(size, float(default))


def as_numbers(value: Any, what: str) -> np.ndarray:
    """Return a number, or a list of them, as an array; raise ValueError for anything else."""
    try:
        return np.asarray(value, dtype=float)
    except (TypeError, ValueError):
        raise ValueError(f"{what} must be a number or a list of numbers, got {value!r}") from None


@dataclass(frozen=True, slots=True)
class Selection:
    """Rows of an element, `start` to `stop` - 1."""

    element: Element
    start: int
    stop: int

    @property
    def rows(self) -> range:
        """The rows' numbers."""
        return range(self.start, self.stop)

    @property
    def is_whole(self) -> bool:
        """Whether these are all of the element's rows."""
        return (self.start, self.stop) == (0, self.element.size)

    def of(self, element: Element) -> Selection:
        """Return the same rows of another element."""
        return Selection(element, self.start, self.stop)

    def __str__(self) -> str:
        if self.is_whole:
            return self.element.path
        inside = f"{self.start}" if self.stop == self.start + 1 else f"{self.start}:{self.stop}"
        return f"{self.element.path}[{inside}]"


class Tree:
    """All elements of a simulation, and the one that relative paths begin at.

    A path is absolute or relative to the working element; ``..`` is the parent, ``box[3]`` and
    ``box[2:5]`` are rows, ``#`` stands for any characters of a name, ``##`` for any number of
    levels, and a name may be followed by ``[CLASS=synapse]``.
    """

    def __init__(self) -> None:
        self.root = Element("", class_named("neutral"), None)
        self.working = self.root

    def create(self, class_name: str, path: str, *, n: int = 1) -> Element:
        """Add an element of `n` rows; its parent must exist.

        Raises
        ------
        PathError
            If the name is taken or is no name, or the parent does not exist.
        ValueError
            If the class is unknown, or `n` out of its range.
        """
        cls = class_named(class_name)
        if not (isinstance(n, Real) and 1 <= n <= MAX_ROWS and n % 1 == 0):
            raise ValueError(f"n must be a whole number in [1, {MAX_ROWS}], got n={n}")
        parent, name = self.place(path)
        made = Element(name, cls, parent, int(n))
        parent.children[name] = made
        return made

    def place(self, path: str) -> tuple[Element, str]:
        """Return the parent and the free name that a path to a new element means."""
        above, _, name = path.rpartition("/")
        parent = self.working
        if "/" in path:
            found = self.one(above or "/")
            _check_whole([found], path)
            parent = found.element
        if not NAME.match(name):
            raise PathError(
                f"a name must be a letter and then letters, digits, _ or -, got {name!r} in {path!r}"
            )
        if name in parent.children:
            raise PathError(
                f"{path!r} must be new, got a path that exists ({parent.children[name]})"
            )
        return parent, name

    def one(self, path: str) -> Selection:
        """Return the only selection of a path.

        Raises
        ------
        PathError
            If there is none, or several.
        """
        found = self.select(path)
        if len(found) != 1:
            raise PathError(f"{path!r} must name one element, got {len(found)}")
        return found[0]

    def select(self, path: str) -> list[Selection]:
        """Return the selections that a path names, sorted by path.

        Raises
        ------
        PathError
            If it names nothing; the message lists the names at that place.
        """
        here = [self.root if path.startswith("/") else self.working]
        rows = ""
        for part in (part for part in path.split("/") if part):
            _check_whole([_rows(one, rows, path) for one in here], path)
            matched = PART.match(part)
            if matched is None:
                raise PathError(
                    f"a part of a path must be a name with [..] behind it, got {part!r}"
                )
            name, rows = matched[1], ""
            wanted = []
            for bracket in re.findall(r"\[([^\[\]]*)\]", matched[2]):
                if bracket.startswith(("CLASS=", "TYPE=")):
                    wanted.append(bracket.partition("=")[2])
                else:
                    rows = bracket
            found = [
                element
                for start in here
                for element in _matches(start, name)
                if all(kind in (element.cls.name, element.cls.base) for kind in wanted)
            ]
            if not found:
                raise PathError(_missing(path, name, here, wanted))
            here = found
        unique = {element.path: element for element in here}
        return [_rows(unique[key], rows, path) for key in sorted(unique)]


def _matches(element: Element, name: str) -> list[Element]:
    """Return the elements that one part of a path leads to."""
    if name == ".":
        return [element]
    if name == "..":
        return [element.parent or element]
    if name == "##":
        return list(element.subtree())[1:]
    if "#" in name:
        pattern = name.replace("#", "*")
        return [child for child in element.children.values() if fnmatchcase(child.name, pattern)]
    return [element.children[name]] if name in element.children else []


def _missing(path: str, name: str, here: list[Element], wanted: list[str]) -> str:
    """Return the message for a path that leads nowhere: the names at that place, and the nearest one."""
    names = sorted({child for element in here for child in element.children})
    among = f" of class {wanted[0]}" if wanted else ""
    at = here[0].path if len(here) == 1 else f"{len(here)} elements"
    near = [] if "#" in name else get_close_matches(name, names, n=1)
    hint = f"; did you mean {near[0]}?" if near else ""
    more = ", ..." if len(names) > SIBLINGS else ""
    listed = ", ".join(names[:SIBLINGS]) + more if names else "nothing"
    return f"{path!r} must exist, got no {name}{among} in {at}, where there is {listed}{hint}"


def _check_whole(above: list[Selection], path: str) -> None:
    """Raise PathError for some rows of an element above others, which belong to all of its rows."""
    for found in above:
        if not found.is_whole:
            raise PathError(
                f"rows must stand behind the last name of a path, got those of {found} in {path!r}"
            )


def _rows(element: Element, text: str, path: str) -> Selection:
    if not text:
        return Selection(element, 0, element.size)
    matched = re.match(r"(\d+)(?::(\d+))?\Z", text)
    if matched is None:
        raise PathError(f"rows must be [3] or [2:5] or [CLASS=name], got [{text}] in {path!r}")
    start = int(matched[1])
    stop = int(matched[2]) if matched[2] else start + 1
    if not start < stop <= element.size:
        raise PathError(f"rows must lie within [0:{element.size}], got [{text}] in {path!r}")
    return Selection(element, start, stop)
