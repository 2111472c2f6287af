"""Removal of the sketches of excluded devices from the cells, batch by batch.

From its exclusion on, no selection shows a device's sketches: those still in cells are subtracted
when a selection is read. So removal changes no total. It changes the devices that a cell names:
each batch removes the names of its devices from its cells, and a later batch may come to a cell
again. While a device is leaving, its names are not relied upon. Afterwards cells name it exactly
where a sketch of it stays.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from sfumato.aggregator.base.sums.addition import CellKey, Entry, roll_up
from sfumato.aggregator.base.sums.cells import Cell, subtract_cell
from sfumato.aggregator.base.sums.dyadic import Node, homes, label_sets
from sfumato.aggregator.base.sums.layout import Layout
from sfumato.aggregator.base.sums.payloads import Rest
from sfumato.shared.errors import StoreError


class Kept(NamedTuple):
    """The place of a sketch that stays in cells, because its payload was dropped."""

    first_slot: int | None
    last_slot: int | None
    labels: str
    device: int


@dataclass(frozen=True, kw_only=True, eq=False)
class Removal:
    """Leaving sketches, summed for each cell that they are in.

    Parameters
    ----------
    stay
        By cell, the devices that it still names, as bits: other sketches of them stay there.
    """

    study_id: bytes
    sketch_ids: Sequence[bytes]
    root: Node | None
    cells: Mapping[CellKey, Cell]
    stay: Mapping[CellKey, int]

    def take_out(self, present: Mapping[CellKey, Cell]) -> dict[CellKey, Cell]:
        """Subtract the sketches from the present cells.

        Raises
        ------
        StoreError
            A cell is missing.
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
    """Sum leaving sketches for the cells of a study.

    Parameters
    ----------
    kept
        The sketches of the same devices that stay in cells.
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
