"""Dimensions of records, and the space that they are sketched in."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from sfumato.shared.arrays import Floats
from sfumato.shared.core import (
    Columns,
    DimensionEncoding,
    FrequencyMatrix,
    Quantiser,
    RadiusLaw,
    RecordEncoder,
    draw_frequencies,
)
from sfumato.shared.core.logarithm import compress
from sfumato.shared.core.text import PLAIN_TEXT_FIX, PLAIN_TEXT_RULE, is_plain
from sfumato.shared.errors import PlanError
from sfumato.shared.structure import declared, member

MOST_LEVELS = 256
MOST_ONE_HOT = 16
"""Levels of a categorical dimension beyond which only a histogram can have it."""


@declared
class LogTransform:
    """A logarithmic scale, linear around 0: ``sign(x) log2(1 + |x| / resolution)``."""

    kind: Literal["log"] = member("`log`.", default="log")
    resolution: float = member(
        "The magnitude, in `unit`, below which the scale is linear: values that differ by less are "
        "alike. With 1 for counts and 1e-6 for numbers, no bounds need be known."
    )


@declared
class Dimension:
    """One column of the records: a number, or one of some levels."""

    name: str = member("The column's name.")
    unit: str = member('The unit of measurement; `"1"` for a pure number or a category.')
    lower: float | None = member(
        "The public lower bound, in `unit`: smaller values are clipped. Never read it off the data."
        " Left out with `levels`.",
        0.0,
        default=None,
        optional=True,
    )
    upper: float | None = member(
        "The public upper bound, in `unit`: larger values are clipped. Never read it off the data."
        " Left out with `levels`.",
        1.0,
        default=None,
        optional=True,
    )
    scale: float | None = member(
        "A public guess of the spread inside one cluster (a standard deviation), in `unit`; with a "
        "`transform` in doublings (1 means a factor of 2). Left out with `levels`, and where the "
        "statistic is not `fourier`.",
        0.1,
        default=None,
        optional=True,
    )
    transform: LogTransform | None = member(
        "The scale on which the dimension is sketched. Default: linear.",
        default=None,
        optional=True,
    )
    missing: float | str | None = member(
        "A public value, in `unit`, that stands for a missing one; a level with `levels`. Default: "
        "none, and a record with a missing value adds nothing. A histogram counts missing values "
        "as such all the same.",
        default=None,
        optional=True,
    )
    step: float | None = member(
        "The distance of neighbouring values, in `unit`, none of which is far commoner than those "
        "beside it; 0 for values without a step. Questions then have error bars without a "
        "histogram. Left out where nobody knows. Changes no sketch.",
        default=None,
        optional=True,
    )
    levels: tuple[str, ...] = member(
        "The public values of a column of text; each becomes a coordinate that is 0 or 1. Other "
        "values count as missing.",
        default=(),
        optional=True,
    )

    @property
    def is_categorical(self) -> bool:
        """True if values are levels, not numbers."""
        return bool(self.levels)

    @property
    def bounds(self) -> tuple[float, float]:
        """The bounds of a number, in data units; 0 and 1 for a category."""
        if self.lower is None or self.upper is None:
            return 0.0, 1.0
        return self.lower, self.upper

    @property
    def scaled_bounds(self) -> Floats:
        """The bounds on the dimension's scale, shape ``(2,)``."""
        ends = np.array(self.bounds)
        return ends if self.transform is None else compress(ends, self.transform.resolution)

    @property
    def encoding(self) -> DimensionEncoding:
        """The rule that turns values into coordinates."""
        if self.is_categorical:
            imputed = None if self.missing is None else float(self.levels.index(str(self.missing)))
            return DimensionEncoding(n_levels=len(self.levels), imputed=imputed)
        return DimensionEncoding(
            resolution=None if self.transform is None else self.transform.resolution,
            imputed=None if self.missing is None else float(self.missing),
        )


_FINEST_STEP = 1e-15


@dataclass(frozen=True, kw_only=True)
class Axis:
    """A coordinate of sketched records.

    Parameters
    ----------
    name, unit
        Those of the dimension; the coordinate of a level is named ``dimension=level``.
    dimension
        The dimension's number.
    lower, upper
        The box, on the scale of the axis: logarithmic with a transform, 0 and 1 for a level.
    resolution
        That of a logarithmic scale, else None.
    """

    name: str
    unit: str
    dimension: int
    lower: float
    upper: float
    resolution: float | None = None


@dataclass(frozen=True, kw_only=True)
class RecordSpace:
    """The space of records: columns as devices read them, axes as sketches see them.

    Parameters
    ----------
    dimensions
        The d columns.
    """

    dimensions: tuple[Dimension, ...]

    @property
    def n_dimensions(self) -> int:
        """The number of columns d."""
        return len(self.dimensions)

    @cached_property
    def encoder(self) -> RecordEncoder:
        """Turns columns into coordinates."""
        return RecordEncoder(dimensions=tuple(each.encoding for each in self.dimensions))

    @cached_property
    def _bounds(self) -> tuple[list[float | None], list[float | None]]:
        return [each.lower for each in self.dimensions], [each.upper for each in self.dimensions]

    @cached_property
    def quantiser(self) -> Quantiser:
        """The quantiser of the axes."""
        return Quantiser.from_bounds(*self.encoder.encode_bounds(*self._bounds))

    @cached_property
    def column_quantiser(self) -> Quantiser:
        """The quantiser of the columns on their scales, which histograms have."""
        return Quantiser.from_bounds(*self.encoder.transform_bounds(*self._bounds))

    @cached_property
    def lower(self) -> Floats:
        """The lower bounds of the columns, shape ``(d,)``, data units; NaN for a category."""
        return np.array(self._bounds[0], dtype=np.float64)

    @cached_property
    def upper(self) -> Floats:
        """The upper bounds, as :attr:`lower`."""
        return np.array(self._bounds[1], dtype=np.float64)

    @cached_property
    def scale(self) -> Floats:
        """The guess of the spread along each axis, shape ``(d',)``; 1 for a level."""
        return self.encoder.encode_scale([each.scale for each in self.dimensions])

    def place(self, records: Floats) -> Floats:
        """Return records on the axes, clipped to the box: shapes ``(n, d)`` and ``(n, d')``."""
        encoded = self.encoder.encode(records)
        points = encoded.to_array() if isinstance(encoded, Columns) else encoded
        lower, upper = zip(*((axis.lower, axis.upper) for axis in self.axes), strict=True)
        clipped: Floats = np.clip(points, lower, upper)
        return clipped

    def to_records(self, points: Floats) -> Floats:
        """Return the records of points on the axes: shapes ``(n, d')`` and ``(n, d)``.

        A category takes the level of its largest coordinate.
        """
        shown = self.encoder.decode(points)
        of_axis = np.array(self.encoder.dimension_of)
        columns = [
            shown[:, of_axis == i].argmax(axis=1).astype(np.float64)
            if dimension.is_categorical
            else shown[:, of_axis == i][:, 0]
            for i, dimension in enumerate(self.dimensions)
        ]
        return np.stack(columns, axis=1)

    @cached_property
    def _drawn(self) -> dict[tuple[bytes, int, RadiusLaw], FrequencyMatrix]:
        return {}

    def draw_frequencies(
        self, seed: bytes, *, n_frequencies: int, law: RadiusLaw
    ) -> FrequencyMatrix:
        """Draw the frequencies of m features of the axes, once for each space."""
        key = seed, n_frequencies, law
        if key not in self._drawn:
            self._drawn[key] = draw_frequencies(
                seed,
                n_frequencies=n_frequencies,
                law=law,
                quantiser=self.quantiser,
                scale=self.scale,
            )
        return self._drawn[key]

    @cached_property
    def axes(self) -> tuple[Axis, ...]:
        """The d' axes."""
        lower, upper = self.encoder.encode_bounds(*self._bounds)
        names = [
            name
            for each in self.dimensions
            for name in ([f"{each.name}={level}" for level in each.levels] or [each.name])
        ]
        axes = zip(names, self.encoder.dimension_of, lower.tolist(), upper.tolist(), strict=True)
        return tuple(
            Axis(
                name=name,
                unit=self.dimensions[i].unit,
                dimension=i,
                lower=low,
                upper=high,
                resolution=self.encoder.dimensions[i].resolution,
            )
            for name, i, low, high in axes
        )

    def require_valid(self, *, has_scale: bool, most_levels: int) -> None:
        """Check the fields that a person chooses.

        Parameters
        ----------
        has_scale
            Whether the statistic needs the scale of each number; otherwise it is refused.
        most_levels
            The largest number of levels that the statistic allows.

        Raises
        ------
        PlanError
            A field breaks its rule.
        """
        require(self.n_dimensions >= 1, "dimensions", "must name at least one column")
        names = [dimension.name for dimension in self.dimensions]
        require(len(set(names)) == len(names), "dimensions", "names must differ")
        for i, dimension in enumerate(self.dimensions):
            _require_complete(dimension, f"dimensions[{i}]", has_scale=has_scale)
            where = f"dimensions.{dimension.name or '?'}"
            require(bool(dimension.name), where, "must have a name")
            require_plain(where, dimension.name, dimension.unit, *dimension.levels)
            if dimension.is_categorical:
                _require_levels(dimension, where, most_levels)
            else:
                _require_number(dimension, where)
                _require_scale(dimension, where, has_scale=has_scale)


def require(holds: bool, field: str, rule: str, fix: str | None = None) -> None:
    """Raise a ``PlanError`` unless a rule holds."""
    if not holds:
        raise PlanError(rule, field=field, fix=fix)


def require_plain(field: str, *texts: str) -> None:
    """Refuse text that could deceive a reader."""
    require(
        all(map(is_plain, texts)),
        field,
        f"{PLAIN_TEXT_RULE}, in every name, unit and value",
        PLAIN_TEXT_FIX,
    )


def _require_complete(dimension: Dimension, where: str, *, has_scale: bool) -> None:
    """Refuse a number without its bounds, or a scale where one is needed."""
    if dimension.is_categorical:
        return
    for name in ("lower", "upper", "scale") if has_scale else ("lower", "upper"):
        require(
            getattr(dimension, name) is not None,
            f"{where}.{name}",
            "is missing",
            f"add {name} = 1, or levels where the column has text",
        )


def _require_number(dimension: Dimension, where: str) -> None:
    lower, upper = dimension.lower, dimension.upper
    require(
        lower is not None
        and upper is not None
        and math.isfinite(lower)
        and math.isfinite(upper)
        and lower < upper,
        where,
        "the lower bound must be finite and below the upper bound",
        "swap or widen the bounds; they are public and must not be read off the data",
    )
    require(
        dimension.transform is None or 0 < dimension.transform.resolution < math.inf,
        f"{where}.transform.resolution",
        "must be finite and positive",
        "use the smallest difference that matters, such as 1e-6, or 1 for counts",
    )
    missing = dimension.missing
    require(
        missing is None or (not isinstance(missing, str) and math.isfinite(missing)),
        f"{where}.missing",
        "must be a finite number",
        "give the value that stands for a missing one, or leave it out",
    )
    require(
        dimension.step is None or _is_step(dimension.step, *dimension.bounds),
        f"{where}.step",
        "must be 0, or no wider than the bounds and no finer than doubles tell apart",
        "write 1 for whole numbers, 0 for values without a step, or leave it out",
    )


def _is_step(step: float, lower: float, upper: float) -> bool:
    # Finer ones are no multiples any more in doubles.
    return step == 0.0 or _FINEST_STEP * max(-lower, upper) <= step <= upper - lower


def _require_scale(dimension: Dimension, where: str, *, has_scale: bool) -> None:
    scale = dimension.scale
    if not has_scale:
        require(
            scale is None,
            f"{where}.scale",
            "must be left out where the statistic is not fourier",
            "leave it out",
        )
        return
    require(
        scale is not None and math.isfinite(scale) and scale > 0,
        where,
        "the scale must be finite and positive",
        "give the spread you expect inside one cluster",
    )


def _require_levels(dimension: Dimension, where: str, most: int) -> None:
    for name in ("lower", "upper", "scale", "transform", "step"):
        require(
            getattr(dimension, name) is None,
            f"{where}.{name}",
            "must be left out with levels",
            "leave it out",
        )
    levels = dimension.levels
    require(
        len(set(levels)) == len(levels) and all(levels),
        f"{where}.levels",
        "must differ, and none may be empty",
    )
    require(
        all(level == level.strip() for level in levels),
        f"{where}.levels",
        "must have no white space around them: readers ignore it around values",
        "remove it",
    )
    require(
        2 <= len(levels) <= most,
        f"{where}.levels",
        f"must be 2 to {most} and are {len(levels)}",
        f"join rare levels; only a histogram may have more than {MOST_ONE_HOT}"
        if most < MOST_LEVELS
        else "join rare levels",
    )
    require(
        dimension.missing is None or dimension.missing in levels,
        f"{where}.missing",
        "must be one of the levels",
        "choose one, or leave it out",
    )
