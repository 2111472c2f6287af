"""Columns and the other statistics, written again from ``docs/explanation/sketch.md``, 10 to 14."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from tests.system.stranger import sketch

Value = float | str | None
Dimension = Mapping[str, Any]
WHITE_SPACE = " \t\n\v\f\r"


def number_of(value: Value, dimension: Dimension) -> float | None:
    """Return a value as a number, that of a level for text; None where it is missing."""
    if "levels" in dimension:
        text = value.strip(WHITE_SPACE) if isinstance(value, str) else None
        return dimension["levels"].index(text) if text in dimension["levels"] else None
    return value if isinstance(value, int | float) and math.isfinite(value) else None


def scale_of(x: float, dimension: Dimension) -> float:
    """10. Return T(x), or x itself."""
    if "transform" not in dimension:
        return x
    s = 1 + abs(x) / dimension["transform"]["resolution"]
    t = 1100.0 if math.isinf(s) else sketch.log(s) * 1.4426950408889634
    return math.copysign(t, x)


def box_of(dimension: Dimension) -> tuple[float, float]:
    """10. Return the bounds of a number, on its scale."""
    return scale_of(dimension["lower"], dimension), scale_of(dimension["upper"], dimension)


def axes_of(dimensions: Sequence[Dimension]) -> tuple[list[float], list[float], list[float]]:
    """10. Return the box of the coordinates, and their scale; 1 where there is none."""
    lower, upper, scale = [], [], []
    for dimension in dimensions:
        n = len(dimension.get("levels", ())) or 1
        low, high = (0.0, 1.0) if "levels" in dimension else box_of(dimension)
        lower += n * [low]
        upper += n * [high]
        scale += n * [dimension.get("scale", 1.0)]
    return lower, upper, scale


def place(record: Sequence[Value], dimensions: Sequence[Dimension]) -> list[float | None]:
    """10. Return the coordinates of a record; None for those that are missing."""
    found: list[float | None] = []
    for value, dimension in zip(record, dimensions, strict=True):
        x = number_of(value, dimension)
        x = number_of(dimension.get("missing"), dimension) if x is None else x
        if "levels" in dimension:
            n = len(dimension["levels"])
            found += n * [None] if x is None else [float(level == x) for level in range(n)]
        else:
            found.append(None if x is None else scale_of(x, dimension))
    return found


def bins_of(dimension: Dimension, bits: int) -> int:
    """11. Return the number of bins."""
    return len(dimension["levels"]) + 1 if "levels" in dimension else (1 << bits) + 3


def find_bin(value: Value, dimension: Dimension, bits: int) -> int:
    """11. Return the bin of a value; nothing is imputed."""
    x = number_of(value, dimension)
    if x is None:
        return bins_of(dimension, bits) - 1
    if "levels" in dimension:
        return int(x)
    low, high = box_of(dimension)
    t = (scale_of(x, dimension) - (low + high) / 2) * (32767 / ((high - low) / 2))
    if not -32767 <= t <= 32767:
        return (1 << bits) + (t > 0)
    return (round(t) + 32768) >> (16 - bits)


def find_place(number: int, dimension: Dimension, bits: int) -> int:
    """9. Return the place of a bin on the circle."""
    below, above, missing = (1 << bits) + 2, 1 << bits, (1 << bits) + 1
    ends = {1 << bits: below, (1 << bits) + 1: above, (1 << bits) + 2: missing}
    return number if "levels" in dimension else ends.get(number, number)


def find_cell(steps: Sequence[int] | None, cells: Sequence[int]) -> int:
    """12. Return the cell of a record."""
    if steps is None:
        return math.prod(cells)
    cell = 0
    for u, m in zip(steps, cells, strict=True):
        cell = cell * m + (u + 32767) * m // 65535
    return cell


def root(x: int) -> int:
    """Return the least integer whose square is at least x."""
    return math.isqrt(x - 1) + 1 if x > 0 else 0


def clip(steps: Sequence[int], radius: int) -> list[int]:
    """13. Return the coordinates within the ball."""
    u = [min(max((step + 8) >> 4, -2047), 2047) for step in steps]
    s = sum(each * each for each in u)
    if s <= radius**2:
        return u
    return [(1 if each > 0 else -1) * (abs(each) * radius // root(s)) for each in u]


def moments_of(steps: Sequence[int] | None, n_axes: int, radius: int, weight: int) -> list[int]:
    """13. Return what a record adds."""
    if steps is None:
        return [0] * (1 + n_axes + n_axes * (n_axes + 1) // 2)
    u = clip(steps, radius)
    products = [
        (weight if i == j else 7) * u[i] * u[j] for i in range(n_axes) for j in range(i, n_axes)
    ]
    return [radius**2, *(7 * (radius // 4) * each for each in u), *products]


def bound_moments(d: int, radius: int, w: int) -> Mapping[str, tuple[int, int]]:
    """Return the sensitivities of two records and of one, by norm: the wire's section 4."""
    r2, q = radius**2, radius // 4
    l2 = (
        2 * w**2 * r2**2 + 98 * q**2 * r2 - (-2401 * q**4 // (2 * w**2)),
        w**2 * r2**2 + 49 * q**2 * r2 + r2**2,
    )
    one = r2 + root(49 * q**2 * r2 * d) - (-(2 * w - 7 + 7 * d) * r2 // 2)
    t = 4 * d * w**2 + 49 * d * (d - 1)
    a, b = t * r2, 98 * d * q**2
    k = max(1, 1024 * (math.isqrt(b * b + 8 * a * b) - b) // (4 * a))
    two = root(-(-((1024 + k) ** 2 * (t * r2**2 * k + 1024 * b * r2)) // (2**21 * k)))
    if d == 1:
        return {"l1": (one, one), "l2-squared": (l2[1], l2[1])}
    return {"l1": (max(one, two), one), "l2-squared": l2}


def largest_moment(d: int, radius: int, w: int) -> int:
    """Return V: the wire's section 4."""
    most = min(radius, 2047)
    product = 7 * min(radius**2 // 2, most**2) if d > 1 else 0
    return max(radius**2, 7 * (radius // 4) * most, w * most**2, product)


def bound_clusters(rule: Mapping[str, Any]) -> Mapping[str, tuple[int, int]]:
    """Return the sensitivities of two records and of one, by norm: the wire's section 4."""
    units, n_sets = rule["units"], 1 + len(rule["candidates"])
    parts = [(units["count"], 1), (units["square"], 1), (units["residual"], 1)]
    parts.append((units["presence"], len(rule["optional"])))
    totals = [(units["beyond"], 1), (units["total"], n_sets)]
    b, t = (sum(unit * n for unit, n in each) for each in (parts, totals))
    if rule["norm"] == "l2":
        b += units["residual"] * (len(rule["summed"]) - 1)
    b2, t2 = (sum(unit**2 * n for unit, n in each) for each in (parts, totals))
    same = b2 - units["count"] ** 2 + 3 * units["residual"] ** 2
    return {"l1": (2 * b + t, b + t), "l2-squared": (max(2 * b2, same) + t2, b2 + t2)}


def clusters_of(
    steps: Sequence[int | None], rule: Mapping[str, Any], members: Sequence[int]
) -> list[int]:
    """14. Return what a record adds to the blocks of some clusters, and to the totals."""
    units, e = rule["units"], len(rule["summed"])
    sums: list[int] = []
    assigned = [steps[i] for i in rule["assigned"]]
    missing = any(each is None for each in assigned)

    def nearest(centres: Sequence[Sequence[int]]) -> tuple[int, int]:
        distances = [
            sum(
                w * (u - c) ** 2
                for w, u, c in zip(rule["weights"], assigned, centre, strict=True)
                if u is not None
            )
            for centre in centres
        ]
        return min(distances), distances.index(min(distances))

    def share(unit: int, distance: int) -> int:
        return unit * min(distance, int(rule["cap"])) // int(rule["cap"])

    distance, own = nearest(rule["centres"])
    residuals, is_beyond = [0] * e, distance >= rule["cap"]
    for i, place in enumerate(rule["summed"]):
        value = steps[place]
        if value is None or missing:
            continue
        away = value - rule["origins"][own][i]
        size = abs(away) * units["residual"] // rule["radii"][own][i]
        is_beyond |= size > units["residual"]
        residuals[i] = (1 if away > 0 else -1) * min(size, units["residual"])
    norm = sum(map(abs, residuals))
    if rule["norm"] == "l2":
        norm = root(sum(each**2 for each in residuals))
    if norm > units["residual"]:
        is_beyond = True
        residuals = [
            (1 if each > 0 else -1) * (abs(each) * units["residual"] // norm) for each in residuals
        ]
    block = [units["count"]]
    block += [share(units["square"], distance)] * (units["square"] > 0)
    block += residuals
    if units["presence"]:
        block += [units["presence"] * (steps[i] is not None) for i in rule["optional"]]
    for j in members:
        sums += [each * (j == own and not missing) for each in block]
    is_beyond &= not missing
    sums += [units["beyond"] * is_beyond] * (units["beyond"] > 0)
    if units["total"]:
        sets = [rule["centres"], *rule["candidates"]]
        sums += [share(units["total"], nearest(each)[0]) * (not missing) for each in sets]
    return sums
