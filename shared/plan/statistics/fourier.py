"""Random Fourier features in a plan."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import numpy as np

from sfumato.shared.arrays import Integers
from sfumato.shared.core import (
    AMPLITUDE,
    FourierStatistic,
    FrequencyBlocks,
    FrequencyMatrix,
    MaskSchedule,
    RadiusLaw,
)
from sfumato.shared.core.seeds import SEED_BYTES
from sfumato.shared.plan.dimensions import MOST_ONE_HOT, RecordSpace, require
from sfumato.shared.plan.statistics.interface import StatisticPart
from sfumato.shared.privacy import FourierShape

MAX_FREQUENCIES = 1 << 20
MAX_MATRIX = 1 << 24
"""Entries of the frequency matrix, which every device draws."""


@dataclass(frozen=True, kw_only=True)
class FourierPart(StatisticPart):
    """Random Fourier features, from which centroids are decoded.

    Parameters
    ----------
    kind
        ``fourier``.
    n_frequencies, seed, radius_law, frequencies_digest
        m; 32 published bytes; the law of radii; SHA-256 of the frequency matrix they give.
    measurements_per_record
        A divisor of m: features that one record adds to, by its mask. Below m: Laplace noise alone.
    frequencies_per_sketch
        A divisor of m: features that one sketch carries, see :mod:`sfumato.shared.core.blocks`.
    amplitude
        A, the largest modulus of an integer feature.
    """

    kind: Literal["fourier"] = "fourier"
    n_frequencies: int
    seed: bytes
    radius_law: RadiusLaw
    frequencies_digest: bytes = b""
    measurements_per_record: int
    frequencies_per_sketch: int
    amplitude: int = AMPLITUDE

    def require_valid(self, space: RecordSpace) -> None:
        """Check the chosen fields; raise ``PlanError`` where one breaks its rule."""
        require(self.amplitude == AMPLITUDE, "amplitude", f"must be {AMPLITUDE} in version 1")
        require(len(self.seed) == SEED_BYTES, "seed", f"must be {SEED_BYTES} bytes")
        space.require_valid(has_scale=True, most_levels=MOST_ONE_HOT)
        m, r = self.n_frequencies, self.measurements_per_record
        require(
            1 <= m <= MAX_FREQUENCIES,
            "n_frequencies",
            f"must be between 1 and {MAX_FREQUENCIES}",
            "use 2 to 5 times the number of clusters times the number of dimensions",
        )
        require(
            m * len(space.axes) <= MAX_MATRIX,
            "n_frequencies",
            f"times the number of dimensions must be at most {MAX_MATRIX}",
            "use fewer of either: every device computes the whole matrix",
        )
        require(
            1 <= r <= m and m % r == 0,
            "measurements_per_record",
            f"must be a divisor of n_frequencies ({m}) and is {r}",
            "choose a divisor, or leave it out to use every feature",
        )
        carried = self.frequencies_per_sketch
        require(
            1 <= carried <= m and m % carried == 0,
            "frequencies_per_sketch",
            f"must be a divisor of n_frequencies ({m}) and is {carried}",
            "choose a divisor, or leave it out to carry every feature",
        )
        require(
            m in (carried, r),
            "frequencies_per_sketch",
            f"must equal n_frequencies ({m}) with masks for each record (measurements_per_record = "
            f"{r})",
            "leave measurements_per_record out: a sketch that carries fewer features needs no "
            "masks",
        )

    def derive(self, space: RecordSpace, *, norm: str) -> FourierPart:
        """Return the part with the digest of its frequencies."""
        return replace(self, frequencies_digest=self.draw(space).digest)

    def bound_values(self, space: RecordSpace) -> tuple[int, int]:
        """Return -A and A."""
        return -self.amplitude, self.amplitude

    def draw(self, space: RecordSpace) -> FrequencyMatrix:
        """Regenerate the integer frequencies from the seed."""
        return space.draw_frequencies(
            self.seed, n_frequencies=self.n_frequencies, law=self.radius_law
        )

    @cached_property
    def blocks(self) -> FrequencyBlocks:
        """The blocks of features, of which a sketch carries one; by default one block has all."""
        return FrequencyBlocks(
            seed=self.seed,
            n_frequencies=self.n_frequencies,
            frequencies_per_sketch=self.frequencies_per_sketch,
        )

    def get_blocks(self, space: RecordSpace) -> FrequencyBlocks:
        """Return the blocks of features."""
        return self.blocks

    def find_places(self, space: RecordSpace) -> Integers:
        """Return the real parts of each block's features, then their imaginary parts."""
        members = self.blocks.members
        return np.concatenate([members, members + self.n_frequencies], axis=1)

    def measure_shape(self, space: RecordSpace) -> FourierShape:
        """Return the shape of the features that a sketch carries."""
        r = self.frequencies_per_sketch
        # Masks and blocks exclude each other.
        return FourierShape(
            n_frequencies=r, measurements_per_record=min(self.measurements_per_record, r)
        )

    def build(self, space: RecordSpace, *, stream_id: bytes, block: int) -> FourierStatistic:
        """Return the statistic of one window: its masks and its block of features."""
        masks = None
        if self.measurements_per_record < self.n_frequencies:
            masks = MaskSchedule.from_seed(
                self.seed,
                stream_id,
                n_frequencies=self.n_frequencies,
                measurements_per_record=self.measurements_per_record,
            )
        frequencies = self.draw(space)
        if self.blocks.n_blocks > 1:
            frequencies = frequencies.select(self.blocks.members[block])
        return FourierStatistic(
            quantiser=space.quantiser,
            frequencies=frequencies,
            masks=masks,
            encoder=space.encoder,
        )

    def describe(self, space: RecordSpace) -> str:
        """Name what a sketch holds."""
        return "random Fourier features of the records"
