"""Check that cells are the exact sums of the merged sketches."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from sfumato.aggregator.base.sums.addition import CellKey, Entry, roll_up
from sfumato.aggregator.base.sums.cells import Cell, add_cells
from sfumato.aggregator.base.sums.dyadic import TIMELESS, Node, shift_slot
from sfumato.aggregator.base.sums.layout import Layout


class ExpectedCells:
    """The cells recomputed from sketches, in ascending order of their first slots.

    In memory are only the cells that may still change: one path of the tree for each label set.
    """

    def __init__(self, root: Node | None, layout: Layout) -> None:
        self._root = root
        self._layout = layout
        self._open: dict[CellKey, Cell] = {}

    def add(self, entries: Sequence[Entry]) -> Iterator[tuple[CellKey, Cell]]:
        """Add sketches, and yield the cells that no later sketch belongs to.

        Sketches without slots come first; no cell closes before the first with slots.
        """
        for key, cell in roll_up(entries, self._root, self._layout).items():
            before = [self._open[key]] if key in self._open else []
            self._open[key] = add_cells([*before, cell], self._layout)
        last = entries[-1].first_slot if entries else None
        if last is not None:
            yield from self._close(shift_slot(last))

    def finish(self) -> Iterator[tuple[CellKey, Cell]]:
        """Yield the remaining cells."""
        yield from self._close(None)

    def _close(self, before: int | None) -> Iterator[tuple[CellKey, Cell]]:
        closed = [
            key
            for key in self._open
            if before is None or (key[0].level != TIMELESS and key[0].last < before)
        ]
        for key in closed:
            yield key, self._open.pop(key)


def describe_differences(
    expected: Mapping[CellKey, Cell],
    found: Mapping[CellKey, Cell],
    *,
    sums_known: bool = True,
    unsure: int = 0,
) -> list[str]:
    """Name the cells that differ.

    Parameters
    ----------
    sums_known
        False where payloads were dropped: only numbers and members are compared.
    unsure
        The leaving devices, as bits: cells may name them or not.
    """

    def is_same(one: Cell, other: Cell) -> bool:
        pair = [replace(cell, devices=cell.devices & ~unsure) for cell in (one, other)]
        if not sums_known:
            pair = [_without_sums(cell) for cell in pair]
        return pair[0] == pair[1]

    return [
        describe_key(key)
        for key, cell in sorted(expected.items(), key=lambda item: item[0])
        if key not in found or not is_same(cell, found[key])
    ]


def _without_sums(cell: Cell) -> Cell:
    nothing = np.zeros(0, dtype=np.int64)
    moments = cell.moments.without_energy()
    return replace(cell, sums=nothing, size_sums=nothing, moments=moments, magnitude=0)


def describe_key(key: CellKey) -> str:
    """Name a cell."""
    node, labels = key
    return f"level {node.level}, first {node.first}, length {node.length}, labels {labels}"
