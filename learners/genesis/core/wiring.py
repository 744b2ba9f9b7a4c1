"""Links, which share data within a step, and connections, which carry events with a weight and a delay.

The declarations of two classes decide whether they may be linked or connected; there is no table of
pairs. A link carries the outputs of the first that are inputs of the second, and back the replies of
the second.

>>> from learners.genesis.core.elements import Tree
>>> import learners.genesis.neuro
>>> tree, wiring = Tree(), Wiring()
>>> _ = tree.create("compartment", "/soma"), tree.create("channel", "/na")
>>> wiring.link(tree.one("/na"), tree.one("/soma")).messages
('CHANNEL',)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from learners.genesis.core.element_classes import ElementClass
from learners.genesis.core.elements import Element, Selection

__all__ = ["Connection", "Link", "Wiring", "copy_subtree"]


@dataclass(frozen=True, slots=True)
class Link:
    """Data shared between rows, without delay: `messages` along it and `replies` against it."""

    source: Selection
    target: Selection
    messages: tuple[str, ...]
    replies: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Connection:
    """A channel of events.

    Parameters
    ----------
    source, target
        Every row of the source sends to every row of the target, or row by row with `pairs`.
    weight, delay
        The strength that the target receives, and how much later (>= 0) an event arrives.
    """

    source: Selection
    target: Selection
    weight: float = 1.0
    delay: float = 0.0
    pairs: bool = False

    def of_row(self, row: int) -> Connection:
        """Return the connection as one row of the source's element has it."""
        if not self.pairs:
            return self
        place = self.target.start + row - self.source.start
        return replace(self, target=Selection(self.target.element, place, place + 1))


@dataclass(slots=True)
class Wiring:
    """All links and connections of a simulation."""

    links: list[Link] = field(default_factory=list)
    connections: list[Connection] = field(default_factory=list)

    def link(self, source: Selection, target: Selection, *, message: str | None = None) -> Link:
        """Add a link of all messages that fit, or of the one named.

        Raises
        ------
        TypeError
            If nothing fits; both classes are named.
        ValueError
            If the numbers of rows differ and neither is 1.
        """
        a, b = source.element.cls, target.element.cls
        messages = tuple(name for name in a.outputs if name in b.inputs and message in (None, name))
        replies = tuple(name for name in b.replies if name in a.inputs and message in (None, name))
        if not messages and not replies:
            raise TypeError(_no_link(a, b, message))
        if len(source.rows) != len(target.rows) and 1 not in (len(source.rows), len(target.rows)):
            raise ValueError(
                f"a link must join equally many rows, or one with many, got {len(source.rows)} of "
                f"{source} and {len(target.rows)} of {target}"
            )
        made = Link(source, target, messages, replies)
        self.links.append(made)
        return made

    def connect(
        self,
        source: Selection,
        target: Selection,
        *,
        weight: float = 1.0,
        delay: float = 0.0,
        pairs: bool = False,
    ) -> Connection:
        """Add a connection.

        Raises
        ------
        TypeError
            If the source emits nothing that the target receives; both classes are named.
        ValueError
            If `delay` is negative, `weight` not finite, or the rows do not pair.
        """
        a, b = source.element.cls, target.element.cls
        if not a.emits or a.emits not in b.receives:
            raise TypeError(
                f"a connection must lead from a class that emits what the other receives, got {a.name} "
                f"(emits {a.emits or 'nothing'}) and {b.name} (receives {', '.join(b.receives) or 'nothing'})"
            )
        if not 0 <= delay < float("inf"):
            raise ValueError(f"delay must be >= 0 and finite, got delay={delay}")
        if not -float("inf") < weight < float("inf"):
            raise ValueError(f"weight must be finite, got weight={weight}")
        if pairs and len(source.rows) != len(target.rows):
            raise ValueError(f"-pairs must join equally many rows, got {source} and {target}")
        made = Connection(source, target, float(weight), float(delay), pairs)
        self.connections.append(made)
        return made

    def unlink(self, source: Selection, target: Selection) -> int:
        """Remove the links and connections from a source to a target; return how many there were."""
        before = len(self.links) + len(self.connections)
        ends = (source, target)
        self.links = [one for one in self.links if (one.source, one.target) != ends]
        self.connections = [one for one in self.connections if (one.source, one.target) != ends]
        return before - len(self.links) - len(self.connections)

    def drop(self, gone: Iterable[Element]) -> None:
        """Remove the links and connections of these elements."""
        ids = {id(element) for element in gone}

        def stays(one: Link | Connection) -> bool:
            return not {id(one.source.element), id(one.target.element)} & ids

        self.links = [one for one in self.links if stays(one)]
        self.connections = [one for one in self.connections if stays(one)]

    def repeat(self, copies: Mapping[int, Element]) -> None:
        """Repeat, between copies, the links and connections among the copied elements."""

        def within(one: Link | Connection) -> bool:
            return id(one.source.element) in copies and id(one.target.element) in copies

        def moved(end: Selection) -> Selection:
            return end.of(copies[id(end.element)])

        for link in [one for one in self.links if within(one)]:
            self.links.append(replace(link, source=moved(link.source), target=moved(link.target)))
        for one in [one for one in self.connections if within(one)]:
            self.connections.append(
                replace(one, source=moved(one.source), target=moved(one.target))
            )


def copy_subtree(element: Element, name: str, parent: Element) -> dict[int, Element]:
    """Copy an element and all below it; return the copies by the identity of the originals."""
    made = Element(name, element.cls, parent, element.size)
    made.values = {field: value.copy() for field, value in element.values.items()}
    copies = {id(element): made}
    for child in list(element.children.values()):
        copies |= copy_subtree(child, child.name, made)
    parent.children[name] = made
    return copies


def _no_link(a: ElementClass, b: ElementClass, message: str | None) -> str:
    asked = f" as {message}" if message else ""
    sends = ", ".join(a.outputs) or "nothing"
    takes = ", ".join(b.inputs) or "nothing"
    return (
        f"a link must lead from a class that sends what the other takes, got {a.name} (sends {sends}) and "
        f"{b.name} (takes {takes}){asked}"
    )
