"""What a training needs to know of a network."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Protocol

import numpy as np

from sfumato.lab.generative.networks.clipping import Clipping, Factors
from sfumato.shared.arrays import Floats
from sfumato.shared.privacy.samplers import RandomSource


class Network(Protocol):
    """A network of layers: their sizes, and no weights.

    Guarantees
    ----------
    The factors of a record depend on the weights, on that record and on randomness of its own: no
    other record of the batch changes one of them.
    """

    name: ClassVar[str]

    @property
    def shapes(self) -> tuple[tuple[int, int], ...]:
        """Shape ``(out, in + 1)`` of each layer's weights; the last column holds biases."""
        ...

    def draw_start(self, rng: np.random.Generator) -> list[Floats]:
        """Draw weights to start from, which know nothing of any record."""
        ...

    def find_factors(
        self, weights: Sequence[Floats], records: Floats, source: RandomSource
    ) -> Factors:
        """Return errors and activations of each layer for some records.

        Parameters
        ----------
        weights
            As whole steps, from :func:`fixed_point.fix_weights`.
        records
            Shape ``(n, d)``, whole steps from 0 to 64.
        """
        ...

    def find_opposition(
        self, weights: Sequence[Floats], clipping: Clipping, norm: float, rng: np.random.Generator
    ) -> list[Floats] | None:
        """Return a gradient that no record has a part in, as a mean of clipped ones; or None."""
        ...

    def draw(self, weights: Sequence[Floats], n: int, rng: np.random.Generator) -> Floats:
        """Draw records between 0 and 1: shape ``(n, d)``; of zeros and ones, their chances."""
        ...
