"""Exact moments of the sizes of sketches, and their energy, for each block of features."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from sfumato.learning.estimate.limbs import add_limbs, join_limbs, split_limbs, subtract_limbs

N_MOMENTS = 5
"""The sums over sketches of 1, n, n^2, n^3, and of the squared features."""
N_POWERS = 4


@dataclass(frozen=True, kw_only=True, eq=False)
class SizeMoments:
    """The sums over sketches of 1, n, n^2, n^3 and ``|S|^2``, by block; n is a sketch's records.

    A plan whose sketches carry all features has one block, and no energy is kept: it is 0. With
    blocks, the energy of the sketches tells how much the devices differ, whose blocks do.

    Parameters
    ----------
    limbs
        Shape ``(2, 5, B)``, int64: the limbs of
        :func:`sfumato.learning.estimate.limbs.split_limbs`.
    """

    limbs: NDArray[np.int64]

    @classmethod
    def of_sizes(
        cls,
        sizes: Iterable[int],
        *,
        blocks: Iterable[int] | None = None,
        n_blocks: int = 1,
        energy: Sequence[int] | None = None,
    ) -> SizeMoments:
        """Return the moments of sketches of given sizes; without ``blocks`` all are in block 0."""
        listed = [int(n) for n in sizes]
        places = [0] * len(listed) if blocks is None else list(blocks)
        moments = [[0] * n_blocks for _ in range(N_POWERS)]
        for n, block in zip(listed, places, strict=True):
            for power, row in enumerate(moments):
                row[block] += n**power
        return cls.of_rows([*moments, energy or [0] * n_blocks])

    @classmethod
    def of_rows(cls, rows: Sequence[Sequence[int]]) -> SizeMoments:
        """Return the moments of five rows, each with a number for each block."""
        flat = [value for row in rows for value in row]
        return cls(limbs=split_limbs(flat).reshape(2, N_MOMENTS, -1))

    @classmethod
    def empty(cls, n_blocks: int) -> SizeMoments:
        """Return the moments of no sketch."""
        return cls(limbs=np.zeros((2, N_MOMENTS, n_blocks), dtype=np.int64))

    def __eq__(self, other: object) -> bool:
        """Return whether every number is the same."""
        return isinstance(other, SizeMoments) and np.array_equal(self.limbs, other.limbs)

    __hash__ = None  # type: ignore[assignment]

    def __add__(self, other: SizeMoments) -> SizeMoments:
        return SizeMoments(limbs=add_limbs(self.limbs, other.limbs))

    def __sub__(self, other: SizeMoments) -> SizeMoments:
        return SizeMoments(limbs=subtract_limbs(self.limbs, other.limbs))

    @property
    def n_blocks(self) -> int:
        """The number of blocks B."""
        return int(self.limbs.shape[2])

    @cached_property
    def rows(self) -> list[list[int]]:
        """The five sums of each block, exact."""
        joined, n = join_limbs(self.limbs.reshape(2, -1)), self.n_blocks
        return [joined[i * n : (i + 1) * n] for i in range(N_MOMENTS)]

    @cached_property
    def floats(self) -> NDArray[np.float64]:
        """The five sums of each block, each rounded once: shape ``(5, B)``."""
        return np.array([[float(value) for value in row] for row in self.rows])

    @property
    def n_sketches(self) -> int:
        """L, over all blocks."""
        return sum(self.rows[0])

    @property
    def first(self) -> int:
        """The sum of n over all sketches."""
        return sum(self.rows[1])

    @property
    def second(self) -> int:
        """The sum of n^2 over all sketches."""
        return sum(self.rows[2])

    @property
    def third(self) -> int:
        """The sum of n^3 over all sketches."""
        return sum(self.rows[3])

    def without_energy(self) -> SizeMoments:
        """Return the moments of the sizes alone, which need no payload."""
        limbs = self.limbs.copy()
        limbs[:, -1] = 0
        return SizeMoments(limbs=limbs)

    def with_first(self, first: Sequence[int]) -> SizeMoments:
        """Return the same with other sums of n: one for each block."""
        rows = [*self.rows]
        rows[1] = list(first)
        return replace(self, limbs=SizeMoments.of_rows(rows).limbs)
