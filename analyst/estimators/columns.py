"""Columns of a table as the caller states them: levels, logarithms, bounds and scales."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sfumato.learning.calibration.steps import find_texture
from sfumato.learning.estimate.histogram import BinNoise, Marginal
from sfumato.shared.arrays import Floats
from sfumato.shared.errors import ConfigError
from sfumato.shared.plan import Dimension, LogTransform
from sfumato.shared.plan.dimensions import MOST_ONE_HOT

Pair = tuple[float, float]
Bounds = tuple[ArrayLike, ArrayLike] | Mapping[Any, Pair]
Scale = ArrayLike | Mapping[Any, float] | Literal["auto", "pooled", "bounds", "pilot"]
Logs = Sequence[Any] | Mapping[Any, float] | None

PILOT_RESOLUTION: Final = 1e-6
PILOT_OCTAVES: Final = 40
"""A number without bounds has a pilot of this resolution, 2^40 times as wide on both sides."""
ALIKE: Final = 2.0
"""Columns whose scales differ by less share one, so that distances are in data units."""
_N_BINS, _MOST_LOOKED_AT, _NO_NOISE = 1024, 100_000, 1e-6
_ZERO_OCTAVES = 10
"""Octaves between a bound and the linear part around zero, where no resolution is stated."""


def find_column(key: object, names: Sequence[str], field: str) -> int:
    """Return the number of a column that is named, or counted from 0.

    Raises
    ------
    ConfigError
        There is none.
    """
    if isinstance(key, str) and key in names:
        return list(names).index(key)
    if isinstance(key, int | np.integer) and not isinstance(key, bool) and 0 <= key < len(names):
        return int(key)
    raise ConfigError(
        f"names the column {key!r}, which the records do not have",
        field=field,
        fix=f"use {', '.join(names)}, or count columns from 0",
    )


def list_by_column(given: Mapping[Any, Any], names: Sequence[str], field: str) -> list[Any]:
    """Return the values of a mapping by column; None where it has none."""
    found: list[Any] = [None] * len(names)
    for key, value in given.items():
        found[find_column(key, names, field)] = value
    return found


def read_levels(levels: Any, names: Sequence[str]) -> list[tuple[str, ...]]:
    """Return the levels of each column; empty for a number.

    Raises
    ------
    ConfigError
        They are no mapping of columns to different texts, 2 to 16 of them.
    """
    if levels is None:
        return [()] * len(names)
    if not isinstance(levels, Mapping):
        raise ConfigError(
            "must be a mapping of columns to their values",
            field="levels",
            fix='write {"colour": ["red", "green"]}',
        )
    found = []
    for name, given in zip(names, list_by_column(levels, names, "levels"), strict=True):
        is_list = isinstance(given, Sequence | np.ndarray) and not isinstance(given, str)
        texts = tuple(map(write_level, given)) if is_list else ()
        is_good = 2 <= len(texts) <= MOST_ONE_HOT and len(set(texts)) == len(texts) and all(texts)
        if given is not None and not is_good:
            raise ConfigError(
                f"of {name!r} must be a list of 2 to {MOST_ONE_HOT} different values",
                field="levels",
                fix="state all values that there can be, and join rare ones before",
            )
        found.append(texts)
    return found


def write_level(value: object) -> str:
    """Return the text of a value of a column with levels; numbers are written as whole ones."""
    if isinstance(value, float | np.floating) and float(value).is_integer():
        return str(int(value))
    return str(value).strip()


def read_logs(log: Any, names: Sequence[str]) -> list[float | None]:
    """Return the resolution of each column's logarithmic scale: NaN by rule, None for linear.

    Parameters
    ----------
    log
        A list of columns, or a mapping of columns to resolutions.

    Raises
    ------
    ConfigError
        It has another form, or a resolution is not finite and positive.
    """
    if log is None:
        return [None] * len(names)
    if isinstance(log, Mapping):
        given = list_by_column(log, names, "log")
    elif isinstance(log, Sequence | np.ndarray) and not isinstance(log, str):
        given = list_by_column(dict.fromkeys(log, math.nan), names, "log")
    else:
        raise ConfigError(
            "must be a list of columns, or a mapping of columns to resolutions",
            field="log",
            fix='write ["income"], or {"income": 1.0}',
        )
    for name, value in zip(names, given, strict=True):
        is_number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
        if value is not None and not (is_number and (math.isnan(value) or 0 < value < math.inf)):
            raise ConfigError(
                f"of {name!r} must be a finite positive number",
                field="log",
                fix="give the size below which values are alike, in the unit of the column",
            )
    return [None if value is None else float(value) for value in given]


def choose_resolution(lower: float, upper: float) -> float:
    """Choose the resolution of a logarithmic scale by its bounds.

    The lower bound where it is positive; otherwise 2^-10 of the farther one.
    """
    if lower > 0.0:
        return lower
    if upper < 0.0:
        return -upper
    return max(-lower, upper) / 2.0**_ZERO_OCTAVES


def read_bounds(
    bounds: Any, names: Sequence[str], levels: Sequence[tuple[str, ...]]
) -> list[Pair | None]:
    """Return the bounds of each column, data units; None where they are not stated.

    Parameters
    ----------
    bounds
        ``(lower, upper)``, numbers or arrays; a mapping of columns to such pairs; or None.
    levels
        Levels of each column. A column with levels has no bounds: what an array says there is
        not read.

    Raises
    ------
    ConfigError
        They have another form, or are not finite and ascending.
    """
    given: list[Any]
    if bounds is None:
        return [None] * len(names)
    if isinstance(bounds, Mapping):
        given = list_by_column(bounds, names, "bounds")
    else:
        given = _list_pairs(bounds, len(names))
    found: list[Pair | None] = []
    for i, pair in enumerate(given):
        if levels[i] and pair is not None and isinstance(bounds, Mapping):
            raise ConfigError(
                f"cannot be stated for {names[i]!r}, which has levels",
                field="bounds",
                fix="leave the column out",
            )
        found.append(None if pair is None or levels[i] else _read_pair(pair, names[i], i))
    return found


def read_box(bounds: Any, names: Sequence[str]) -> tuple[Floats, Floats]:
    """Return the bounds of columns that all need them, lower and upper: shapes ``(d,)``.

    Raises
    ------
    ConfigError
        As :func:`read_bounds`, or they are missing.
    """
    pairs = read_bounds(bounds, names, [()] * len(names))
    missing = [name for name, pair in zip(names, pairs, strict=True) if pair is None]
    if missing:
        raise ConfigError(
            f"must be (lower, upper) and are missing for {', '.join(missing)}",
            field="bounds",
            fix="state what the values can be; bounds that are read off the records are not "
            "private",
        )
    lower, upper = np.array(pairs, dtype=np.float64).T
    return lower, upper


def _list_pairs(bounds: Any, n_columns: int) -> list[Any]:
    try:
        lower, upper = bounds
        sides = [np.asarray(side, dtype=np.float64) for side in (lower, upper)]
        if any(side.shape not in ((), (n_columns,)) for side in sides):
            # One number in a list would stand for all columns.
            raise ValueError
        sides = [np.broadcast_to(side, (n_columns,)) for side in sides]
    except (TypeError, ValueError) as error:
        raise ConfigError(
            f"must be (lower, upper): two numbers, or two rows of {n_columns} numbers",
            field="bounds",
            fix="state what the values can be, for a pair a column as a mapping such as "
            "{0: (0, 1), 1: (0, 9)}; bounds that are read off the records are not private",
        ) from error
    return list(zip(sides[0].tolist(), sides[1].tolist(), strict=True))


def _read_pair(pair: Any, name: str, number: int) -> Pair:
    try:
        lower, upper = map(float, pair)
    except (TypeError, ValueError):
        lower, upper = math.nan, math.nan
    if not (math.isfinite(lower) and math.isfinite(upper) and lower < upper):
        where = f"column {number}" if name == f"x{number}" else f"column {name!r}"
        raise ConfigError(
            f"must be finite with lower < upper, and are {lower:g} and {upper:g} in {where}",
            field="bounds",
            fix="state all lower bounds, then all upper ones, or a mapping of columns to pairs; "
            "leave out a column that cannot vary",
        )
    return lower, upper


def read_scales(
    scale: Any, names: Sequence[str], levels: Sequence[tuple[str, ...]]
) -> list[float | None]:
    """Return the stated spread inside one cluster of each number; None for a column with levels.

    Parameters
    ----------
    scale
        A number, one a column, or a mapping of columns to numbers.

    Raises
    ------
    ConfigError
        One is missing, or not finite and positive.
    """
    if isinstance(scale, Mapping):
        given = list_by_column(scale, names, "scale")
    else:
        given = _list_scales(scale, len(names))
    found: list[float | None] = []
    for name, value, text in zip(names, given, levels, strict=True):
        if text:
            found.append(None)
            continue
        try:
            number = math.nan if value is None else float(value)
        except (TypeError, ValueError):
            number = math.nan
        if not 0.0 < number < math.inf:
            missing = " and is missing" if value is None else ""
            raise ConfigError(
                f"of {name!r} must be a finite positive number{missing}",
                field="scale",
                fix="give the spread inside one cluster, in the unit of the column",
            )
        found.append(number)
    return found


def read_steps(
    steps: Any, names: Sequence[str], levels: Sequence[tuple[str, ...]]
) -> list[float | None]:
    """Return the stated step of the values of each column; None where nobody has said.

    Raises
    ------
    ConfigError
        One is not a finite number of at least 0, or of a column with levels.
    """
    if steps is None:
        return [None] * len(names)
    if not isinstance(steps, Mapping):
        raise ConfigError(
            "must be a mapping of columns to numbers", field="steps", fix='write {"age": 1}'
        )
    given = list_by_column(steps, names, "steps")
    for name, value, texts in zip(names, given, levels, strict=True):
        is_number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
        if value is not None and not (is_number and 0 <= value < math.inf and not texts):
            raise ConfigError(
                f"of {name!r} must be a number of at least 0, and the column have no levels",
                field="steps",
                fix="write 1 for whole numbers, 0 for values without a step, or leave it out",
            )
    return [None if value is None else float(value) for value in given]


def find_own_steps(
    dimensions: Sequence[Dimension], rows: NDArray[np.floating]
) -> dict[str, float | None]:
    """Find the step of the values of each number for which none is stated.

    For fits without epsilon alone: they are read off the records.
    """
    return {
        each.name: _find_own_step(each, rows[:, i])
        for i, each in enumerate(dimensions)
        if not each.is_categorical and each.step is None
    }


def _find_own_step(dimension: Dimension, values: NDArray[np.floating]) -> float | None:
    lower, upper = dimension.bounds
    some = values[:: max(1, len(values) // _MOST_LOOKED_AT)]
    there = some[np.isfinite(some)]
    counts, edges = np.histogram(np.clip(there, lower, upper), _N_BINS, range=(lower, upper))
    exact = Marginal(
        name=dimension.name,
        bins=counts.astype(np.float64),
        below=0.0,
        above=0.0,
        missing=0.0,
        edges=edges,
        n_records=max(1, len(there)),
        noise=BinNoise(variance=_NO_NOISE),
    )
    return find_texture(exact)


def _list_scales(scale: Any, n_columns: int) -> list[Any]:
    try:
        given = np.broadcast_to(np.asarray(scale, dtype=np.float64), (n_columns,)).tolist()
    except (TypeError, ValueError) as error:
        raise ConfigError(
            f"must be one finite positive number, or {n_columns} of them",
            field="scale",
            fix="give the spread inside one cluster, in the units of the columns, or write auto",
        ) from error
    return list(given)


def make_dimension(
    name: str,
    *,
    levels: tuple[str, ...],
    bounds: Pair | None,
    resolution: float | None,
    scale: float | None,
    step: float | None = None,
) -> Dimension:
    """Make the dimension of a column.

    Without bounds it is one for a pilot: a logarithmic scale that fits numbers of any unit.
    """
    if levels:
        return Dimension(name=name, unit="1", levels=levels)
    if bounds is None:
        stated = resolution is not None and not math.isnan(resolution)
        r = float(resolution) if stated and resolution is not None else PILOT_RESOLUTION
        reach = r * 2.0**PILOT_OCTAVES
        bounds, resolution = (-reach, reach), r
    if resolution is not None and math.isnan(resolution):
        resolution = choose_resolution(*bounds)
    return Dimension(
        name=name,
        unit="1",
        lower=bounds[0],
        upper=bounds[1],
        scale=scale,
        transform=None if resolution is None else LogTransform(resolution=resolution),
        step=step,
    )


def measure_width(dimension: Dimension) -> float:
    """Return the width of a number's bounds on its scale."""
    lower, upper = dimension.scaled_bounds.tolist()
    return float(upper - lower)


def settle_scales(
    dimensions: Sequence[Dimension],
    *,
    units: Sequence[float] | None,
    is_constant: Sequence[bool],
) -> tuple[Dimension, ...]:
    """Give all columns one scale where theirs are alike, or where that is wanted.

    Distances are then in data units, as those of k-means on the records. A constant column has no
    say.

    Parameters
    ----------
    units
        For each dimension, the length that one scale is a share of, where one is wanted however
        much they differ; None where each may have its own.
    is_constant
        For each dimension, whether it is known not to vary.
    """
    lengths = [1.0] * len(dimensions) if units is None else units
    varying = [
        float(dimension.scale or 0.0) / length
        for dimension, length, constant in zip(dimensions, lengths, is_constant, strict=True)
        if not (constant or dimension.is_categorical)
    ]
    is_plain = all(each.transform is None and not each.is_categorical for each in dimensions)
    if not varying or not is_plain:
        return tuple(dimensions)
    if units is None and max(varying) >= ALIKE * min(varying):
        return tuple(dimensions)
    pooled = math.sqrt(sum(scale**2 for scale in varying) / len(varying))
    return tuple(
        replace(dimension, scale=pooled * length)
        for dimension, length in zip(dimensions, lengths, strict=True)
    )
