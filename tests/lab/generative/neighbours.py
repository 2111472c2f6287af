"""All small data sets and their neighbours, and planted runs of reference methods on them."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.lab.generative.bins import Bins
from sfumato.learning.clustering.methods.contract import Answer, Curator
from sfumato.shared.privacy.testing import SeededSource

Records = NDArray[np.float64]

SIZES = (2, 3)
MISSING = (float("nan"), 0.0)


def make_bins(sizes: Sequence[int] = SIZES, kind: type[Bins] = Bins) -> Bins:
    """Make bins of which each whole number is in one of its own."""
    return kind(
        lower=np.zeros(len(sizes)), upper=np.array(sizes, dtype=float) - 1.0, n_bins=tuple(sizes)
    )


def list_neighbours(relation: str, n_records: int = 3) -> Iterator[tuple[Records, Records]]:
    """Yield all neighbours with so many records at most; one record may lack a value."""
    cells = [*itertools.product(*(map(float, range(size)) for size in SIZES)), MISSING]

    def pack(rows: Sequence[tuple[float, ...]]) -> Records:
        return np.array(rows, dtype=np.float64).reshape(-1, len(SIZES))

    for rest in itertools.combinations_with_replacement(cells, n_records - 1):
        for one in cells:
            if relation == "add-remove-one":
                yield pack([*rest, one]), pack(rest)
            else:
                yield from (
                    (pack([*rest, one]), pack([*rest, other])) for other in cells if other != one
                )


def play(design: Any, records: Records, seed: int) -> list[Answer]:
    """Return the answers of one run with noise from a seed."""
    curator = Curator(rounds=design.rounds, relation=design.relation, source=SeededSource(seed))
    design.release(records, curator)
    return curator.answers
