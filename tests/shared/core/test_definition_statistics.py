"""Bins, cells, moments and coordinates, written from the definition page alone.

Sections 10 to 13 of ``docs/explanation/sketch.md``; the vectors are those of ``kinds.json``.
"""

import math
from typing import Any

import pytest

from tests.shared.core.test_definition import feature, frequencies, logarithm, stored

CASE = stored("kinds")
Value = float | None


def transform(x: float, encoding: dict[str, Any]) -> Value:
    """10. Return the value on the scale of its dimension; None if it is missing."""
    if not math.isfinite(x):
        return None
    levels, r = encoding["n_levels"], encoding["resolution"]
    if levels is not None:
        return x if x in range(levels) else None
    return x if r is None else log_scale(x, r)


def limit(bound: Value, encoding: dict[str, Any]) -> float:
    value = None if bound is None else transform(bound, encoding)
    assert value is not None
    return value


def log_scale(x: float, r: float) -> float:
    s = 1.0 + abs(x) / r
    return math.copysign(
        1100.0 if math.isinf(s) else logarithm(s) * 1.4426950408889634,
        x,
    )


def coordinates(record: list[Value], encodings: list[dict[str, Any]]) -> list[float] | None:
    """10. Return the coordinates of a record; None if it is unsketchable."""
    found: list[float] = []
    for x, encoding in zip(record, encodings, strict=True):
        value = None if x is None else transform(x, encoding)
        if value is None and encoding["imputed"] is not None:
            value = transform(encoding["imputed"], encoding)
        if value is None:
            return None
        if encoding["n_levels"] is None:
            found.append(value)
        else:
            found += [float(value == level) for level in range(encoding["n_levels"])]
    return found


def boxes(encodings: list[dict[str, Any]]) -> tuple[list[float], list[float]]:
    lower, upper = [], []
    for low, high, encoding in zip(CASE["lower"], CASE["upper"], encodings, strict=False):
        if encoding["n_levels"] is not None:
            lower += [0.0] * encoding["n_levels"]
            upper += [1.0] * encoding["n_levels"]
        else:
            lower.append(limit(low, encoding))
            upper.append(limit(high, encoding))
    return lower, upper


def turn(x: float, low: float, high: float) -> float:
    return (x - (low + high) / 2.0) * (32767 / ((high - low) / 2.0))


def quantise(record: list[Value], encodings: list[dict[str, Any]]) -> list[int] | None:
    found = coordinates(record, encodings)
    if found is None:
        return None
    turns = (turn(x, low, high) for x, low, high in zip(found, *boxes(encodings), strict=True))
    return [round(min(max(t, -32767.0), 32767.0)) for t in turns]


def bin_of(x: Value, encoding: dict[str, Any], bits: int, low: Value, high: Value) -> int:
    """11. Return the bin of a value."""
    value = None if x is None else transform(x, encoding)
    if encoding["n_levels"] is not None:
        return encoding["n_levels"] if value is None else int(value)
    if value is None:
        return (1 << bits) + 2
    t = turn(value, limit(low, encoding), limit(high, encoding))
    if not -32767 <= t <= 32767:
        return (1 << bits) + (t > 32767)
    return (round(t) + 32768) >> (16 - bits)


def clip(u: list[int], radius: int) -> list[int]:
    square = sum(value * value for value in u)
    if square <= radius * radius:
        return u
    norm = next(n for n in range(math.isqrt(square), 1 << 30) if n * n >= square)
    return [(1 if value > 0 else -1) * (abs(value) * radius // norm) for value in u]


def moments(steps: list[int], radius: int, weight: int) -> list[int]:
    """13. Return the integers that a record adds."""
    u = clip([min(max((step + 8) >> 4, -2047), 2047) for step in steps], radius)
    d, added = len(u), [radius * radius, *(7 * (radius // 4) * value for value in u)]
    for i in range(d):
        added += [weight * u[i] ** 2, *(7 * u[i] * u[j] for j in range(i + 1, d))]
    return added


def published(name: str) -> list[int]:
    found: list[int] = next(case["sums"] for case in CASE["sums"] if case["statistic"] == name)
    return found


@pytest.mark.parametrize("index", range(3))
def test_the_logarithmic_scale_from_the_page_is_the_published_one(index: int) -> None:
    case = CASE["logarithms"][index]
    assert len(case["x"]) == 64
    r = float.fromhex(case["resolution"])
    assert [log_scale(float.fromhex(x), r).hex() for x in case["x"]] == case["t"]


@pytest.mark.parametrize("index", range(5))
def test_bins_from_the_page_are_the_published_ones(index: int) -> None:
    case = CASE["bins"][index]
    bounds = float.fromhex(case["lower"]), float.fromhex(case["upper"])
    assert case["bins"] == [
        bin_of(float.fromhex(x), case["encoding"], case["bins_log2"], *bounds)
        for x in case["values"]
    ]


@pytest.mark.parametrize("index", range(3))
def test_clipped_records_from_the_page_are_the_published_ones(index: int) -> None:
    case = CASE["clipped"][index]
    assert [clip(u, case["norm_steps"]) for u in case["coordinates"]] == case["clipped"]


@pytest.mark.parametrize(
    ("name", "carried"),
    [("histogram", [0, 1, 2, 3]), ("histogram of dimensions 1 and 3", [1, 3])],
)
def test_histograms_from_the_page_are_the_published_ones(name: str, carried: list[int]) -> None:
    expected: list[int] = []
    for i in carried:
        encoding, bits = CASE["encodings"][i], CASE["histogram_bins_log2"][i]
        size = encoding["n_levels"] + 1 if encoding["n_levels"] else (1 << bits) + 3
        counts = [0] * size
        for record in CASE["records"]:
            counts[bin_of(record[i], encoding, bits, CASE["lower"][i], CASE["upper"][i])] += 1
        expected += counts
    assert published(name) == expected


def test_cells_from_the_page_are_the_published_ones() -> None:
    cells = CASE["grid_cells"]
    counts = [0] * (math.prod(cells) + 1)
    for record in CASE["records"]:
        steps = quantise(record[:3], CASE["encodings"][:3])
        place = 0
        for u, m in zip(steps or [], cells, strict=False):
            place = place * m + ((u + 32767) * m) // 65535
        counts[place if steps is not None else -1] += 1
    assert published("grid of dimensions 0 to 2") == counts


@pytest.mark.parametrize("weight", [5, 7])
def test_moments_from_the_page_are_the_published_ones(weight: int) -> None:
    rows = [quantise(record, CASE["encodings"]) for record in CASE["records"]]
    added = [moments(row, CASE["norm_steps"][str(weight)], weight) for row in rows if row]
    expected = [sum(column) for column in zip(*added, strict=True)]
    assert published(f"moments, diagonal weight {weight}") == expected


def test_features_of_encoded_records_from_the_page_are_the_published_ones() -> None:
    lower, upper = boxes(CASE["encodings"])
    scale = [*CASE["scale"][:3], 1.0, 1.0, 1.0]
    box = {"lower": lower, "upper": upper, "scale": scale}
    turns, bits = frequencies({**CASE["frequencies"], **box})
    m = CASE["frequencies"]["n_frequencies"]
    sums = [0] * (2 * m)
    for record in CASE["records"]:
        steps = quantise(record, CASE["encodings"])
        for j in range(m if steps is not None else 0):
            total = sum(u * row[j] for u, row in zip(steps or [], turns, strict=True))
            cosine, sine = feature(((total << (32 - bits)) & 0xFFFFFFFF) >> 16)
            sums[j] += cosine
            sums[m + j] += sine
    assert published("fourier") == sums
