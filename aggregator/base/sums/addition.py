"""Merging: groups of equal slots and labels are summed once, and added to all their cells."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from sfumato.aggregator.base.sums.cells import Cell, add_cells
from sfumato.aggregator.base.sums.dyadic import NO_LABELS, Node, homes, label_sets, widen_root
from sfumato.aggregator.base.sums.layout import Layout
from sfumato.aggregator.base.sums.payloads import PayloadSum, Rest, Row
from sfumato.aggregator.base.sums.selection import Selection

CellKey = tuple[Node, str]
"""The node of a cell, and the canonical JSON of its label set."""


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A sketch with its labels and slots, which decide its cells."""

    row: Row
    labels: str
    first_slot: int | None
    last_slot: int | None


@dataclass(frozen=True, kw_only=True, eq=False)
class Addition:
    """Pending sketches, summed for each cell that they will be in.

    Parameters
    ----------
    old, new
        The present root, and the root that holds the sketches too.
    """

    study_id: bytes
    layout: Layout
    sketch_ids: Sequence[bytes]
    old: Node | None
    new: Node | None
    cells: Mapping[CellKey, Cell]


def sum_up(
    study_id: bytes,
    entries: Sequence[Entry],
    root: Node | None,
    layout: Layout,
    rest: Rest = lambda: None,
) -> Addition:
    """Sum sketches for a study whose cells have a root.

    Raises
    ------
    StoreError
        A sum could leave 64 bits.
    """
    new = root
    for entry in entries:
        if entry.first_slot is not None and entry.last_slot is not None:
            new = widen_root(new, entry.first_slot, entry.last_slot)
    return Addition(
        study_id=study_id,
        layout=layout,
        sketch_ids=[entry.row.sketch_id for entry in entries],
        old=root,
        new=new,
        cells=roll_up(entries, new, layout, rest),
    )


def encode_labels(labels: Mapping[str, str]) -> str:
    """Return a label set as canonical JSON."""
    return json.dumps(dict(labels), sort_keys=True, separators=(",", ":"))


def is_shown(label_set: str, selection: Selection) -> bool:
    """Return whether a selection adds up the cells of a label set."""
    if not selection.labels:
        return label_set == NO_LABELS
    return selection.matches_labels(json.loads(label_set))


def roll_up(
    entries: Iterable[Entry], root: Node | None, layout: Layout, rest: Rest = lambda: None
) -> dict[CellKey, Cell]:
    """Sum sketches into all their cells.

    Raises
    ------
    StoreError
        A sum could leave 64 bits.
    """
    groups: dict[tuple[int | None, int | None, str], list[Row]] = defaultdict(list)
    for entry in entries:
        groups[entry.first_slot, entry.last_slot, entry.labels].append(entry.row)
    parts: dict[CellKey, list[Cell]] = defaultdict(list)
    for (first, last, labels), rows in groups.items():
        running = PayloadSum(layout)
        running.add(rows, rest)
        cell = running.total()
        for node in homes(first, last, root):
            for label_set in label_sets(labels):
                parts[node, label_set].append(cell)
    total = {}
    for key, cells in parts.items():
        total[key] = add_cells(cells, layout)
        rest()
    return total
