"""The core of the simulator: elements in a tree, links, connections, clocked blocks and a heap of events."""

from learners.genesis.core.blocks import Block, Messages
from learners.genesis.core.clock import Clock
from learners.genesis.core.element_classes import (
    BUILT_IN,
    CLASSES,
    Behaviour,
    ElementClass,
    class_named,
    element_class,
    variant,
)
from learners.genesis.core.elements import Element, PathError, Selection, Tree, as_numbers
from learners.genesis.core.event_queue import World, key_of
from learners.genesis.core.wiring import Connection, Link, Wiring, copy_subtree

__all__ = [
    "BUILT_IN", "CLASSES", "Behaviour", "Block", "Clock", "Connection", "Element", "ElementClass",
    "Link", "Messages", "PathError", "Selection", "Tree", "Wiring", "World", "as_numbers", "class_named",
    "copy_subtree", "element_class", "key_of", "variant",
]  # fmt: skip
