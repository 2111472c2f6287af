"""Step 1 of the sketch: records to 16-bit integers within the plan's public bounds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sfumato.shared.arrays import Bools, Floats
from sfumato.shared.core.records import Columns, Records, list_parts, require_records
from sfumato.shared.errors import PlanError

STEPS = 32767
"""Quantisation steps from the centre of the box to its edge."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Quantiser:
    """Map each dimension's public interval onto the integers -32767 .. 32767.

    ``u = round(32767 (x - centre) / half_width)``, saturated. All operations are IEEE 754 binary64,
    in the order written in :meth:`quantise`, rounding halves to even.

    Parameters
    ----------
    centre, half_width
        Shape ``(d,)``, float64, data units; ``half_width`` is positive.
    """

    centre: Floats
    half_width: Floats

    @classmethod
    def from_bounds(cls, lower: ArrayLike, upper: ArrayLike) -> Quantiser:
        """Build the quantiser of the box ``[lower, upper]``, both of shape ``(d,)``, data units.

        Raises
        ------
        PlanError
            A bound is not finite, or a lower bound is not below its upper bound.
        """
        low = np.asarray(lower, dtype=np.float64)
        high = np.asarray(upper, dtype=np.float64)
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            centre = (low + high) / 2.0
            half_width = (high - low) / 2.0
            finite = np.isfinite(centre) & np.isfinite(half_width) & np.isfinite(STEPS / half_width)
        for i in np.flatnonzero(~((low < high) & finite & (half_width > 0))):
            raise PlanError(
                "the lower bound must be finite and below the upper bound",
                field=f"dimensions[{i}]",
                fix="swap or widen the bounds; they are public and must not be read off the data",
            )
        return cls(centre=centre, half_width=half_width)

    @property
    def n_dimensions(self) -> int:
        """The number of dimensions d."""
        return int(self.centre.size)

    def quantise(self, records: NDArray[np.floating]) -> tuple[NDArray[np.int16], Bools]:
        """Quantise records.

        Parameters
        ----------
        records
            Shape ``(n, d)``, float32 or float64, data units. Values outside the box saturate.

        Returns
        -------
        quantised, sketchable
            Shape ``(n, d)``, int16, steps; and shape ``(n,)``, bool: False where a value is not
            finite. Such a row of ``quantised`` is zero and must add nothing.

        Raises
        ------
        RecordError
            The array is not two-dimensional with d columns, or not of a floating-point type.
        """
        steps, present = self.quantise_values(records)
        sketchable: Bools = np.logical_and.reduce(present, axis=1)
        steps[~sketchable] = 0
        return steps, sketchable

    def quantise_parts(self, records: Records) -> Iterator[tuple[NDArray[np.int16], Bools]]:
        """Yield records or columns in parts as :meth:`quantise_values` returns them."""
        for part in list_parts(records, self.n_dimensions):
            yield self.quantise_values(part.to_array() if isinstance(part, Columns) else part)

    def quantise_values(self, records: NDArray[np.floating]) -> tuple[NDArray[np.int16], Bools]:
        """Quantise values, each by itself: zero where one is not finite; else as :meth:`quantise`.

        Returns
        -------
        quantised, present
            Shape ``(n, d)``: int16, steps, and bool.
        """
        require_records(records, self.n_dimensions)
        x = records.astype(np.float64)
        present: Bools = np.isfinite(x)
        scale = STEPS / self.half_width
        with np.errstate(over="ignore", invalid="ignore"):
            steps = (x - self.centre) * scale
        steps[~present] = 0.0
        return np.rint(np.clip(steps, -STEPS, STEPS)).astype(np.int16), present
