"""Public integer projections, and clipping to a ball: functions of one record alone."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.shared.core.quantise import STEPS
from sfumato.shared.core.seeds import draw_bytes
from sfumato.shared.errors import ConfigError

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

EXACT = 1 << 53
"""Integers below it are exact in double precision, and so are sums of them in any order."""
_BATCH = 1 << 14


def clip_to_ball(steps: NDArray[np.integer[Any]], radius: int) -> Integers:
    """Shorten records that are longer than a radius: shape ``(n, d)`` both, int64.

    ``u R / N``, towards zero, with N the least integer whose square is at least ``|u|^2``; so the
    length of the result is at most R.
    """
    clipped = steps.astype(np.int64)
    squares = np.einsum("ij,ij->i", clipped, clipped)
    far = squares > radius * radius
    if far.any():
        # A double holds the squares, and the root of one that is no square is not near an integer.
        norms = np.ceil(np.sqrt(squares[far].astype(np.float64))).astype(np.int64)
        long = clipped[far]
        clipped[far] = np.sign(long) * (np.abs(long) * radius // norms[:, None])
    return clipped


@dataclass(frozen=True, kw_only=True)
class SignProjection:
    """Sums of coordinates with public signs; the coordinates themselves where d' = d.

    Places are integers from -Z to Z. Of a record within the ball of radius R, they are about as far
    from the centre as the record is, times ``sqrt(d')``.

    Parameters
    ----------
    n_dimensions, n_projected
        d and d', ``1 <= d' <= d``.
    radius
        R, steps.
    seed
        32 public bytes.

    Raises
    ------
    ConfigError
        Squared distances of places could pass 2^53, where double precision is not exact.
    """

    n_dimensions: int
    n_projected: int
    radius: int
    seed: bytes

    def __post_init__(self) -> None:
        # From public numbers: a refusal must not depend on records.
        if 4 * self.n_projected * self.half**2 >= EXACT:
            raise ConfigError(
                "must be fewer, so that squared distances are exact below 2^53",
                field="n_projected",
                fix="use fewer projected dimensions, or a smaller radius",
            )

    @property
    def is_identity(self) -> bool:
        """Whether coordinates are taken as they are."""
        return self.n_projected == self.n_dimensions

    @property
    def half(self) -> int:
        """Z, the largest place."""
        if self.is_identity:
            return min(self.radius, STEPS)
        return math.isqrt(self.radius * self.radius * self.n_projected)

    @cached_property
    def signs(self) -> Floats:
        """Signs of the sums: shape ``(d, d')``, 1 or -1."""
        n = self.n_dimensions * self.n_projected
        drawn = np.frombuffer(draw_bytes(self.seed, "cover-signs", -(-n // 8)), dtype=np.uint8)
        bits = np.unpackbits(drawn, bitorder="little")[:n].astype(np.float64)
        signs: Floats = (2.0 * bits - 1.0).reshape(self.n_dimensions, self.n_projected)
        return signs

    def project(self, clipped: Integers) -> Integers:
        """Return the places of clipped records: shape ``(n, d')``, int64, from -Z to Z.

        Exact: double precision holds every partial sum, so that blocks and threads change nothing.
        """
        if self.is_identity:
            return np.clip(clipped, -self.half, self.half)
        places = np.empty((len(clipped), self.n_projected), dtype=np.int64)
        for first in range(0, len(clipped), _BATCH):
            part = clipped[first : first + _BATCH].astype(np.float64)
            places[first : first + _BATCH] = part @ self.signs
        return np.clip(places, -self.half, self.half)
