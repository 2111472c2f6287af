"""The tree of cells: the nodes that a sketch is added to, and the nodes of a range of slots.

The node ``(level, first)`` holds the slots ``first`` to ``first + 2^level - 1``, ``first`` a
multiple of ``2^level``. The tree of a study has one root, no higher than its slots need. A sketch
is added to the smallest node that holds all its slots and to every node above. A range of slots is
the disjoint union of at most two nodes of each level, so a selection costs the logarithm of its
length.

A sketch over several slots may lie in a range while its smallest node reaches beyond it. So it is
also added to a *span*, a cell for exactly its slots. A range takes the spans inside it from the two
nodes of each level that reach over its ends. There are as many spans as pairs of ends, however many
the devices.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

TIMELESS = -1
"""The level of sketches of windows by count, which have no slots."""
NO_LABELS = "{}"
"""The label set of a cell over all devices."""
_SHIFT = 0x2AAAAAAAAAAAAA
"""Added to a slot, which lies between -2^53 and 2^53. Two thirds of a power of two are far from the
ends of nodes at every level, so slots on both sides of the origin have a low root all the same."""


@dataclass(frozen=True, order=True)
class Node:
    """A range of slots whose sums are kept.

    Parameters
    ----------
    level, first
        As above; slots are shifted, so that none is negative.
    length
        0 for all sketches within the node; else a span of ``length`` slots from ``first``, and
        ``level`` is that of the smallest node that holds it.
    """

    level: int
    first: int
    length: int = 0

    @property
    def last(self) -> int:
        """The last slot."""
        return self.first + (self.length or 1 << self.level) - 1

    def parent(self) -> Node:
        """Return the node one level up."""
        return node_at(self.level + 1, self.first)

    def children(self) -> tuple[Node, Node]:
        """Return the halves."""
        below = self.level - 1
        return Node(below, self.first), Node(below, self.first + (1 << below))


TIMELESS_NODE = Node(TIMELESS, 0)


def node_at(level: int, slot: int) -> Node:
    """Return the node of a level that holds a slot."""
    return Node(level, slot >> level << level)


def smallest_node(first: int, last: int) -> Node:
    """Return the smallest node that holds slots."""
    return node_at((first ^ last).bit_length(), first)


def shift_slot(slot: int) -> int:
    """Return a slot as nodes count it."""
    return slot + _SHIFT


def unshift_slot(place: int) -> int:
    """Return the slot that nodes count so."""
    return place - _SHIFT


def widen_root(root: Node | None, first: int, last: int) -> Node:
    """Return the smallest root over the present one and more slots."""
    first, last = shift_slot(first), shift_slot(last)
    if root is None:
        return smallest_node(first, last)
    return smallest_node(min(root.first, first), max(root.last, last))


def homes(first: int | None, last: int | None, root: Node | None) -> Iterator[Node]:
    """Yield the nodes that a sketch is added to; the root holds its slots."""
    if first is None or last is None or root is None:
        yield TIMELESS_NODE
        return
    node = smallest_node(shift_slot(first), shift_slot(last))
    if first != last:
        yield Node(node.level, shift_slot(first), last - first + 1)
    while node.level < root.level:
        yield node
        node = node.parent()
    yield node


def between(lower: Node, upper: Node) -> Iterator[Node]:
    """Yield the nodes above ``lower`` up to ``upper``."""
    while lower.level < upper.level:
        lower = lower.parent()
        yield lower


@dataclass(frozen=True)
class Cover:
    """The parts of a range of slots.

    Parameters
    ----------
    nodes
        Disjoint, and inside the range.
    crossed
        Nodes that reach beyond the range; their spans may lie inside it.
    lower, upper
        The range's ends; None does not restrict.
    """

    nodes: tuple[Node, ...]
    crossed: tuple[Node, ...] = ()
    lower: int | None = None
    upper: int | None = None

    def takes(self, span: Node) -> bool:
        """Return whether a span is in the range and in none of the nodes."""
        return (
            span.length > 0
            and node_at(span.level, span.first) in self.crossed
            and (self.lower is None or self.lower <= span.first)
            and (self.upper is None or span.last <= self.upper)
        )


def cover(root: Node | None, first: int | None, last: int | None) -> Cover:
    """Return the cover of a range; a bound that is None does not restrict."""
    if first is None and last is None:
        return Cover((TIMELESS_NODE,) if root is None else (TIMELESS_NODE, root))
    lower = None if first is None else shift_slot(first)
    upper = None if last is None else shift_slot(last)
    nodes: list[Node] = []
    crossed: list[Node] = []
    waiting = [] if root is None else [root]
    while waiting:
        node = waiting.pop()
        if (lower is not None and node.last < lower) or (upper is not None and node.first > upper):
            continue
        if (lower is None or lower <= node.first) and (upper is None or node.last <= upper):
            nodes.append(node)
        else:
            crossed.append(node)
            waiting.extend(node.children())
    return Cover(tuple(sorted(nodes)), tuple(sorted(crossed)), lower, upper)


def label_sets(labels: str) -> Iterable[str]:
    """Return the label sets whose cells a device's sketches are added to."""
    return (NO_LABELS,) if labels == NO_LABELS else (NO_LABELS, labels)
