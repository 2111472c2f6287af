"""A second implementation, written from the definition page alone, reproduces the vectors.

The page is ``docs/explanation/sketch.md``.
It uses Python integers, floats and the standard library, as a port would use what it has.
"""

import hashlib
import json
import math
from collections.abc import Iterator
from typing import Any

import pytest

from tests.vectors.make_vectors import HERE

WORD = (1 << 64) - 1


def stored(name: str) -> Any:
    return json.loads((HERE / f"{name}.json").read_text())


def words(seed: bytes, label: str) -> Iterator[int]:
    data = hashlib.shake_256(b"sfumato/v1/" + label.encode() + b"\x00" + seed).digest(1 << 16)
    for i in range(0, len(data), 8):
        yield int.from_bytes(data[i : i + 8], "little")


def unit(word: int) -> float:
    return (2 * (word >> 12) + 1) * 2.0**-53


def logarithm(s: float) -> float:
    f, e = math.frexp(s)
    if f < 0.7071067811865476:
        f, e = f + f, e - 1
    z = (f - 1.0) / (f + 1.0)
    w = z * z
    p = 1.0 / 21.0
    for k in range(9, -1, -1):
        p = p * w + 1.0 / (2 * k + 1)
    return e * 0.6931471805599453 + 2.0 * (z * p)


def gaussians(stream: Iterator[int]) -> Iterator[float]:
    while True:
        u, v = 2.0 * unit(next(stream)) - 1.0, 2.0 * unit(next(stream)) - 1.0
        s = u * u + v * v
        if s < 1.0:
            f = math.sqrt((-2.0 * logarithm(s)) / s)
            yield u * f
            yield v * f


def radii(seed: bytes, kind: str, norms: list[float]) -> Iterator[float]:
    stream = gaussians(words(seed, "frequencies/radius"))
    if kind == "gaussian":
        yield from norms
    while kind == "folded-gaussian":
        yield abs(next(stream))
    while kind == "adapted":
        a, b, c = next(stream), next(stream), next(stream)
        q = a * a + b * b + c * c
        if q >= 4.0:
            yield math.sqrt(q - 4.0)


def sigmas(seed: bytes, label: str, low: float, high: float) -> Iterator[float]:
    stream = words(seed, label)
    while True:
        if low == high:
            yield low
            continue
        sigma = low + (high - low) * unit(next(stream))
        if unit(next(stream)) * sigma <= low:
            yield sigma


def frequencies(case: dict[str, Any]) -> tuple[list[list[int]], int]:
    seed, law, m = bytes.fromhex(case["seed"]), case["radius_law"], case["n_frequencies"]
    lower, upper, scale = case["lower"], case["upper"], case["scale"]
    d = len(lower)
    stream = gaussians(words(seed, "frequencies/direction"))
    g = [[next(stream) for _ in range(d)] for _ in range(m)]
    norms = []
    for row in g:
        total = 0.0
        for value in row:
            total = total + value * value
        norms.append(math.sqrt(total))
    radius = radii(seed, law["kind"], norms)
    low, middle, share, high = (
        law[name] for name in ("sigma_low", "sigma_high", "tail_share", "tail_high")
    )
    body = sigmas(seed, "frequencies/sigma", low, middle)
    tail = sigmas(seed, "frequencies/sigma-tail", middle, high)
    turns = []
    for j in range(m):
        is_tail = math.floor((j + 1) * share) > math.floor(j * share)
        factor = next(radius) / (norms[j] * next(tail if is_tail else body))
        turns.append(
            [
                factor
                * g[j][i]
                * (((upper[i] - lower[i]) / 2.0 / scale[i]) / (32767 * 6.283185307179586))
                for i in range(d)
            ]
        )
    largest = max(abs(t) for row in turns for t in row)
    bits = max(b for b in range(16, 33) if round(largest * 2.0**b) <= 32767)
    return [[round(turns[j][i] * 2.0**bits) for j in range(m)] for i in range(d)], bits


def high(x: int, y: int) -> int:
    assert -32768 < x <= 32767
    assert -32768 < y <= 32767
    return (x * y + (1 << 14)) >> 15


def feature(p: int) -> tuple[int, int]:
    t = 4 * (p & 0x3FFF) + 2 - 32768
    t2 = high(t, t)
    even = high(t2, high(t2, 175) - 3567) + 11581
    odd = high(t >> 1, high(t2, high(t2, 58) - 1871) + 18191)
    q = p >> 14
    cs, sn = (1 if q in (0, 3) else -1), (1 if q in (0, 1) else -1)
    return cs * even - sn * odd, sn * even + cs * odd


def quantise(case: dict[str, Any], record: list[float | None]) -> list[int] | None:
    if any(value is None for value in record):
        return None
    steps = []
    for x, lower, upper in zip(record, case["lower"], case["upper"], strict=True):
        assert x is not None
        t = (x - (lower + upper) / 2.0) * (32767 / ((upper - lower) / 2.0))
        steps.append(round(min(max(t, -32767.0), 32767.0)))
    return steps


def mix(key: int, i: int) -> int:
    z = (key + (i + 1) * 0x9E3779B97F4A7C15) & WORD
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & WORD
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & WORD
    return z ^ (z >> 31)


def mask(case: dict[str, Any], counter: int) -> list[int]:
    m, r = case["n_frequencies"], case["measurements_per_record"]
    if r == m:
        return list(range(m))
    seed, label = bytes.fromhex(case["seed"]), f"masks/{case['stream_id']}"
    keys = words(seed, label)
    assignment, permutation = next(keys), next(keys)
    group = (mix(assignment, counter) * (m // r)) >> 64
    block = counter // 65536
    order = sorted(range(m), key=lambda j: (mix(permutation, block * m + j), j))
    return order[group * r : (group + 1) * r]


@pytest.mark.parametrize("phase", [row[0] for row in stored("features")["features"]])
def test_a_feature_from_the_page_is_the_published_one(phase: int) -> None:
    published = {row[0]: tuple(row[1:]) for row in stored("features")["features"]}
    assert feature(phase) == published[phase]


def test_all_features_from_the_page_have_the_published_digest() -> None:
    table = b"".join(
        value.to_bytes(2, "little", signed=True) for p in range(65536) for value in feature(p)
    )
    assert hashlib.sha256(table).hexdigest() == stored("features")["table_sha256"]


@pytest.mark.parametrize("index", range(5))
def test_frequencies_from_the_page_are_the_published_ones(index: int) -> None:
    case = stored("frequencies")[index]
    turns, bits = frequencies(case)
    assert (turns, bits) == (case["turns"], case["bits"])
    body = b"".join(w.to_bytes(2, "little", signed=True) for row in turns for w in row)
    head = f"{len(turns)},{len(turns[0])},{bits};".encode()
    assert hashlib.sha256(head + body).hexdigest() == case["digest"]


@pytest.mark.parametrize("index", range(2))
def test_sums_from_the_page_are_the_published_ones(index: int) -> None:
    case = stored("sketches")[index]
    turns, bits = frequencies(case)
    m = case["n_frequencies"]
    sums = [0] * (2 * m)
    for i, record in enumerate(case["records"]):
        steps = quantise(case, record)
        if steps is None:
            continue
        for j in mask(case, case["first_record"] + i):
            p32 = sum(u * row[j] for u, row in zip(steps, turns, strict=True)) % (1 << 32)
            cosine, sine = feature(((p32 << (32 - bits)) % (1 << 32)) >> 16)
            sums[j] += cosine
            sums[m + j] += sine
    assert sums == case["sums"]
