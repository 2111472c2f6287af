"""Removal of excluded devices' sketches from the cells, batch by batch.

From the moment of its exclusion no selection shows a device's sketches, for those still in cells
are subtracted as a selection is read; so when they leave the cells changes no total. What does
change is which devices a cell names: each batch takes the names of its devices from every cell that
it comes to, though later batches may come there again. So while a device leaves, nobody relies on
its name in a cell; and when it has left, it is named where a sketch of it stays, and nowhere else.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from aggregator.storage.sums.cells import Cell, subtract_cell
from aggregator.storage.sums.dyadic import Node, homes, label_sets
from aggregator.storage.sums.merging import CellKey, Entry, Layout, Rest, roll_up
from shared.errors import StoreError


class Kept(NamedTuple):
    """Where a sketch lies that stays in cells, for its payload was dropped before."""

    first_slot: int | None
    last_slot: int | None
    labels: str
    device: int


@dataclass(frozen=True, kw_only=True, eq=False)
class Removal:
    """Sketches that leave, summed for all the cells that they are in.

    Parameters
    ----------
    stay
        Which of their devices, as bits, a cell names nevertheless: they have others there.
    """

    study_id: bytes
    sketch_ids: Sequence[bytes]
    root: Node | None
    cells: Mapping[CellKey, Cell]
    stay: Mapping[CellKey, int]

    def take_out(self, present: Mapping[CellKey, Cell]) -> dict[CellKey, Cell]:
        """Return the cells without the sketches, given those with them.

        Raises
        ------
        StoreError
            A cell is not there.
        """
        if self.cells.keys() - present.keys():
            raise StoreError("lacks a running sum", field="cells", fix="run `sfumato check-store`")
        return {
            key: subtract_cell(present[key], part, keep=self.stay.get(key, 0))
            for key, part in self.cells.items()
        }


def sum_removal(
    study_id: bytes,
    entries: Sequence[Entry],
    kept: Iterable[Kept],
    root: Node | None,
    layout: Layout,
    rest: Rest = lambda: None,
) -> Removal:
    """Sum sketches that leave the cells of a study with this root.

    Parameters
    ----------
    kept
        The sketches of their devices that stay in cells.
    """
    return Removal(
        study_id=study_id,
        sketch_ids=[entry.row.sketch_id for entry in entries],
        root=root,
        cells=roll_up(entries, root, layout, rest),
        stay=_mark_homes(kept, root),
    )


def _mark_homes(kept: Iterable[Kept], root: Node | None) -> Mapping[CellKey, int]:
    marked: dict[CellKey, int] = defaultdict(int)
    for first, last, labels, device in set(kept):
        for node in homes(first, last, root):
            for label_set in label_sets(labels):
                marked[node, label_set] |= 1 << device
    return marked


def subtract_leaving(total: Cell, less: Cell, *, leaving: int, kept: int) -> Cell:
    """Take what leaves from a sum over cells.

    Parameters
    ----------
    leaving
        The devices that leave, as bits.
    kept
        Those of them that have a sketch in the sum that stays.
    """
    return subtract_cell(total, replace(less, devices=leaving), keep=kept)
