"""Step 0 of the sketch: the columns of a record to the coordinates that are quantised.

A linear dimension is one coordinate, its value. A logarithmic one is one coordinate, ``T(x)``. A
categorical one has a coordinate a level, 1 for the record's level and 0 for the others. A value is
missing if it is not finite, or if it is no level of a categorical dimension.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from sfumato.shared.arrays import Floats
from sfumato.shared.core.logarithm import compress, expand
from sfumato.shared.core.masks import split_at_blocks
from sfumato.shared.core.records import Columns, Records, require_records
from sfumato.shared.errors import PlanError

Column = NDArray[np.floating]
PerDimension = Floats | Sequence[float | None]
"""One number a dimension; that of a categorical dimension is never read."""


@dataclass(frozen=True, kw_only=True)
class DimensionEncoding:
    """Public rule that turns one column into coordinates.

    Parameters
    ----------
    resolution
        r of the logarithmic scale, positive, data units. None for a linear scale.
    imputed
        Value that replaces a missing one: data units, or the number of a level. None leaves it
        missing.
    n_levels
        Number of levels of a categorical dimension, whose values are 0, 1, 2, ... None for a
        number.
    """

    resolution: float | None = None
    imputed: float | None = None
    n_levels: int | None = None

    @property
    def n_coordinates(self) -> int:
        """The number of coordinates."""
        return 1 if self.n_levels is None else self.n_levels

    def transform(self, column: Column) -> Column:
        """Return values on the scale of the dimension, unsketchable where they are missing.

        Parameters
        ----------
        column
            Shape ``(n,)``, float32 or float64.

        Returns
        -------
        Column
            Shape ``(n,)``; the same object for a linear scale.
        """
        if self.n_levels is not None:
            x = column.astype(np.float64)
            is_level = (x >= 0) & (x < self.n_levels) & (x == np.floor(x))
            return np.where(is_level, x, np.nan)
        if self.resolution is None:
            return column
        x = column.astype(np.float64)
        return compress(np.where(np.isfinite(x), x, np.nan), self.resolution)

    def impute(self, transformed: Column) -> Column:
        """Replace missing values on the scale of the dimension by the public one."""
        if self.imputed is None:
            return transformed
        public = np.array([self.imputed], dtype=np.float64)
        missing = ~np.isfinite(transformed)
        return np.where(missing, self.transform(public), transformed.astype(np.float64))

    def encode(self, column: Column) -> tuple[Column, ...]:
        """Return the coordinates of a column, each of shape ``(n,)``."""
        values = self.impute(self.transform(column))
        if self.n_levels is None:
            return (values,)
        missing = np.isnan(values)
        return tuple(
            np.where(missing, np.nan, (values == level).astype(np.float64))
            for level in range(self.n_levels)
        )

    def require_valid(self, index: int) -> None:
        """Refuse impossible parameters of dimension number ``index`` with a ``PlanError``."""
        field = f"dimensions[{index}]"
        r, value = self.resolution, self.imputed
        if r is not None and not 0.0 < r < math.inf:
            raise PlanError(
                "must be finite and positive",
                field=f"{field}.transform.resolution",
                fix="use the smallest difference that matters, such as 1e-6",
            )
        if value is not None and not math.isfinite(value):
            raise PlanError("must be finite", field=f"{field}.missing", fix="leave it out")
        if self.n_levels is None:
            return
        if r is not None:
            raise PlanError(
                "cannot have a logarithmic scale and levels",
                field=f"{field}.transform",
                fix="leave the transform of a categorical dimension out",
            )
        if self.n_levels < 1:
            raise PlanError("must have at least one level", field=f"{field}.levels")
        if value is not None and value not in range(self.n_levels):
            raise PlanError(
                f"must be the number of a level, 0 to {self.n_levels - 1}",
                field=f"{field}.missing",
                fix="count the levels from 0, or leave it out",
            )


@dataclass(frozen=True, kw_only=True, eq=False)
class RecordEncoder:
    """The public encoding of a plan's records.

    Parameters
    ----------
    dimensions
        One rule a dimension, d of them.

    Guarantees
    ----------
    The coordinates of a record depend on its own values and public numbers alone. All of it is
    ``+ - * /`` on doubles in a fixed order: the same bits on every machine.
    """

    dimensions: tuple[DimensionEncoding, ...]

    def __post_init__(self) -> None:
        for index, dimension in enumerate(self.dimensions):
            dimension.require_valid(index)

    @classmethod
    def linear(cls, n_dimensions: int) -> RecordEncoder:
        """Return the identity on d dimensions."""
        return cls(dimensions=(DimensionEncoding(),) * n_dimensions)

    @property
    def n_dimensions(self) -> int:
        """The number of dimensions d."""
        return len(self.dimensions)

    @property
    def n_coordinates(self) -> int:
        """The number of coordinates d'."""
        return len(self.dimension_of)

    @cached_property
    def dimension_of(self) -> tuple[int, ...]:
        """The dimension of each coordinate, d' numbers."""
        return tuple(
            index
            for index, dimension in enumerate(self.dimensions)
            for _ in range(dimension.n_coordinates)
        )

    @property
    def is_identity(self) -> bool:
        """Whether coordinates are the records themselves."""
        return all(dimension == DimensionEncoding() for dimension in self.dimensions)

    def encode(self, records: Records) -> Records:
        """Return the coordinates of records.

        Parameters
        ----------
        records
            Shape ``(n, d)`` or d columns, float32 or float64, data units.

        Returns
        -------
        Records
            d' columns; the same object if coordinates are the records themselves. A coordinate is
            not finite if its value is missing and not imputed.

        Raises
        ------
        RecordError
            Wrong shape or type.
        """
        require_records(records, self.n_dimensions)
        if self.is_identity:
            return records
        columns = records.columns if isinstance(records, Columns) else tuple(records.T)
        return Columns(
            tuple(
                coordinate
                for dimension, column in zip(self.dimensions, columns, strict=True)
                for coordinate in dimension.encode(column)
            )
        )

    def transform_bounds(self, lower: PerDimension, upper: PerDimension) -> tuple[Floats, Floats]:
        """Return the box on the scale of each dimension, before levels become coordinates.

        Parameters
        ----------
        lower, upper
            Shape ``(d,)``, data units; any value, None too, for a categorical dimension.

        Returns
        -------
        lower, upper
            Shape ``(d,)``; ``[-1/2, n_levels - 1/2]`` for a categorical dimension.
        """
        box = np.stack([_to_doubles(lower), _to_doubles(upper)])
        for index, dimension in enumerate(self.dimensions):
            if dimension.n_levels is not None:
                box[:, index] = -0.5, dimension.n_levels - 0.5
            elif dimension.resolution is not None:
                box[:, index] = compress(box[:, index], dimension.resolution)
        return box[0], box[1]

    def encode_bounds(self, lower: PerDimension, upper: PerDimension) -> tuple[Floats, Floats]:
        """Return the box of the coordinates, which the quantiser takes.

        Absent and present of a level lie at the ends of ``[0, 1]``, so they are -32767 and 32767
        quantisation steps.

        Parameters
        ----------
        lower, upper
            Shape ``(d,)``, data units; any value, None too, for a categorical dimension.

        Returns
        -------
        lower, upper
            Shape ``(d',)``.
        """
        low, high = self.transform_bounds(lower, upper)
        return self._expand(low, 0.0), self._expand(high, 1.0)

    def encode_scale(self, scale: PerDimension) -> Floats:
        """Return the scale of each coordinate, shape ``(d',)``; 1 for a level.

        Parameters
        ----------
        scale
            Shape ``(d,)``: data units for a linear dimension, units of T (octaves) for a
            logarithmic one; any value, None too, for a categorical one.
        """
        return self._expand(_to_doubles(scale), 1.0)

    def decode(self, coordinates: Floats) -> Floats:
        """Return points in data units, for answers: shape ``(..., d')`` both.

        Logarithmic coordinates are expanded. The averages of the levels of a category are shares;
        noise makes their sum another than 1, so that they become the nearest shares.
        """
        values = np.array(coordinates, dtype=np.float64)
        start = 0
        for dimension in self.dimensions:
            stop = start + dimension.n_coordinates
            part = values[..., start:stop]
            if dimension.n_levels is not None:
                values[..., start:stop] = find_nearest_shares(part)
            elif dimension.resolution is not None:
                values[..., start:stop] = expand(part, dimension.resolution)
            start = stop
        return values

    def decode_widths(self, values: Floats, widths: Floats) -> Floats:
        """Return widths about points in data units, such as standard errors.

        On a logarithmic scale half of the distance between both ends. Those of the shares of levels
        stay as they are: shares that move together would be moved back by :meth:`decode`.

        Parameters
        ----------
        values, widths
            Shape ``(..., d')``, coordinates.
        """
        found = np.array(widths, dtype=np.float64)
        for place, index in enumerate(self.dimension_of):
            resolution = self.dimensions[index].resolution
            if resolution is not None:
                centre, width = values[..., place], widths[..., place]
                ends = expand(centre - width, resolution), expand(centre + width, resolution)
                found[..., place] = np.abs(ends[1] - ends[0]) / 2.0
        return found

    def encode_answers(self, values: Floats) -> Floats:
        """Return the coordinates of points in data units: the inverse of :meth:`decode`."""
        coordinates = np.array(values, dtype=np.float64)
        for place, index in enumerate(self.dimension_of):
            resolution = self.dimensions[index].resolution
            if resolution is not None:
                coordinates[..., place] = compress(coordinates[..., place], resolution)
        return coordinates

    def _expand(self, values: Floats, of_level: float) -> Floats:
        """Repeat the value of each dimension for its coordinates; ``of_level`` for levels."""
        has_levels = [dimension.n_levels is not None for dimension in self.dimensions]
        expanded: Floats = np.where(has_levels, of_level, values)[list(self.dimension_of)]
        return expanded


def find_nearest_shares(points: Floats) -> Floats:
    """Return the shares nearest to points: at least 0, and of sum 1 up to rounding.

    ``max(0, y - t)`` with t such that the sum is 1: ``t = (y_(1) + ... + y_(j) - 1) / j`` over the
    largest j coordinates, for the largest j whose last coordinate stays above t. Shares lie in a
    convex set, so that their squared error is never larger than that of the points.

    Parameters
    ----------
    points
        Shape ``(..., L)``; not finite where a point is not.

    Guarantees
    ----------
    ``+ - * /`` on doubles in a fixed order: the same bits on every machine. The order of the
    coordinates stays.

    Source: Held, Wolfe and Crowder, Validation of subgradient optimization, 1974.
    """
    ordered = -np.sort(-points, axis=-1)
    total, threshold = np.zeros(points.shape[:-1]), np.zeros(points.shape[:-1])
    for j in range(points.shape[-1]):
        total = total + ordered[..., j]
        found = (total - 1.0) / (j + 1.0)
        threshold = np.where(ordered[..., j] > found, found, threshold)
    shares: Floats = np.maximum(points - threshold[..., None], 0.0)
    return shares


def encode_parts(
    encoder: RecordEncoder | None, records: Records, first_record: int
) -> Iterator[tuple[int, Records]]:
    """Yield the coordinates of records in parts, each with the counter of its first record.

    Records that are their own coordinates are one part. Others are cut at the blocks of the masks,
    which bounds the memory of the copy.
    """
    if encoder is None or encoder.is_identity:
        yield first_record, records
        return
    require_records(records, encoder.n_dimensions)
    for start, stop in split_at_blocks(first_record, len(records)):
        yield first_record + start, encoder.encode(records[start:stop])


def _to_doubles(values: PerDimension) -> Floats:
    return np.array([np.nan if value is None else value for value in values], dtype=np.float64)
