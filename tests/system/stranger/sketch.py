"""The sketch, written again from ``docs/explanation/sketch.md``; the numbers are its sections."""

from __future__ import annotations

import hashlib
import math
import struct
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any

MASK_64 = (1 << 64) - 1
Record = Sequence[float | None]


def quantise(record: Record, lower: Sequence[float], upper: Sequence[float]) -> list[int] | None:
    """1. Return the steps of a record; None if it cannot be sketched."""
    steps = []
    for value, low, high in zip(record, lower, upper, strict=True):
        if value is None or not math.isfinite(value):
            return None
        centre, half = (low + high) / 2, (high - low) / 2
        scale = 32767 / half
        steps.append(round(min(max((value - centre) * scale, -32767.0), 32767.0)))
    return steps


def phase_of(steps: Sequence[int], turns: Sequence[Sequence[int]], feature: int, bits: int) -> int:
    """2. Return the phase of one feature."""
    total = sum(u * row[feature] for u, row in zip(steps, turns, strict=True)) % (1 << 32)
    return ((total << (32 - bits)) % (1 << 32)) >> 16


def feature_of(phase: int) -> tuple[int, int]:
    """3. Return cosine and sine of a phase, as integers."""

    def high(x: int, y: int) -> int:
        return (x * y + (1 << 14)) >> 15

    t = 4 * (phase & 0x3FFF) + 2 - 32768
    t2 = high(t, t)
    even = high(t2, high(t2, 175) - 3567) + 11581
    odd = high(t >> 1, high(t2, high(t2, 58) - 1871) + 18191)
    quarter = phase >> 14
    cosine = 1 if quarter in (0, 3) else -1
    sine = 1 if quarter in (0, 1) else -1
    return cosine * even - sine * odd, sine * even + cosine * odd


def read_words(seed: bytes, label: str) -> Iterator[int]:
    """5. Yield the words of a stream."""
    start = b"sfumato/v1/" + label.encode("ascii") + b"\x00" + seed
    done, size = 0, 1 << 10
    while True:
        data = hashlib.shake_256(start).digest(8 * size)
        yield from struct.unpack(f"<{size - done}Q", data[8 * done :])
        done, size = size, 2 * size


def unit(word: int) -> float:
    return (2 * (word >> 12) + 1) * 2.0**-53


def log(s: float) -> float:
    f, e = math.frexp(s)
    if f < 0.7071067811865476:
        f, e = f + f, e - 1
    z = (f - 1) / (f + 1)
    w = z * z
    p = 1 / 21
    for k in range(9, -1, -1):
        p = p * w + 1 / (2 * k + 1)
    return e * 0.6931471805599453 + 2 * (z * p)


def draw_gaussians(seed: bytes, label: str) -> Iterator[float]:
    words = read_words(seed, label)
    while True:
        u, v = 2 * unit(next(words)) - 1, 2 * unit(next(words)) - 1
        s = u * u + v * v
        if s < 1:
            f = math.sqrt((-2 * log(s)) / s)
            yield u * f
            yield v * f


def draw_radii(seed: bytes, kind: str, norms: Sequence[float]) -> Iterator[float]:
    """6.2."""
    if kind == "gaussian":
        yield from norms
    gaussians = draw_gaussians(seed, "frequencies/radius")
    while kind == "folded-gaussian":
        yield abs(next(gaussians))
    while kind == "adapted":
        q = 0.0
        for _ in range(3):
            g = next(gaussians)
            q += g * g
        if q >= 4:
            yield math.sqrt(q - 4)


def draw_sigmas(seed: bytes, label: str, low: float, high: float) -> Iterator[float]:
    """6.3."""
    words = read_words(seed, label)
    while True:
        if low == high:
            yield low
            continue
        sigma = low + (high - low) * unit(next(words))
        if unit(next(words)) * sigma <= low:
            yield sigma


def draw_frequencies(
    seed: bytes,
    m: int,
    law: Mapping[str, Any],
    lower: Sequence[float],
    upper: Sequence[float],
    scale: Sequence[float],
) -> tuple[list[list[int]], int]:
    """6. Return W, row by row, and b."""
    d = len(scale)
    gaussians = draw_gaussians(seed, "frequencies/direction")
    directions = [[next(gaussians) for _ in range(d)] for _ in range(m)]
    norms = []
    for direction in directions:
        squares = 0.0
        for g in direction:
            squares += g * g
        norms.append(math.sqrt(squares))
    radii = draw_radii(seed, law["kind"], norms)
    body = draw_sigmas(seed, "frequencies/sigma", law["sigma_low"], law["sigma_high"])
    tail = draw_sigmas(seed, "frequencies/sigma-tail", law["sigma_high"], law["tail_high"])
    t: list[list[float]] = [[] for _ in range(d)]
    for j in range(m):
        share = law["tail_share"]
        is_tail = math.floor((j + 1) * share) > math.floor(j * share)
        factor = next(radii) / (norms[j] * next(tail if is_tail else body))
        for i in range(d):
            half = (upper[i] - lower[i]) / 2
            omega = factor * directions[j][i]
            t[i].append(omega * ((half / scale[i]) / (32767 * 6.283185307179586)))
    largest = max(abs(value) for row in t for value in row)
    bits = next(b for b in range(32, 15, -1) if round(largest * 2.0**b) <= 32767)
    return [[round(value * 2.0**bits) for value in row] for row in t], bits


def digest_of(turns: Sequence[Sequence[int]], bits: int) -> bytes:
    text = f"{len(turns)},{len(turns[0])},{bits};".encode("ascii")
    return hashlib.sha256(
        text + b"".join(struct.pack(f"<{len(row)}h", *row) for row in turns)
    ).digest()


class Masks:
    """7."""

    def __init__(self, seed: bytes, stream_id: bytes, m: int, r: int) -> None:
        start = b"sfumato/v1/masks/" + stream_id.hex().encode("ascii") + b"\x00" + seed
        keys = hashlib.shake_256(start).digest(16)
        self.assignment, self.permutation = struct.unpack("<QQ", keys)
        self.m, self.r = m, r

    def group_of(self, record: int) -> int:
        return mix(self.assignment, record) * (self.m // self.r) >> 64

    def features_of(self, record: int) -> list[int]:
        first = record // 65536 * self.m
        order = sorted(range(self.m), key=lambda j: (mix(self.permutation, first + j), j))
        start = self.group_of(record) * self.r
        return order[start : start + self.r]


class Blocks:
    """8."""

    def __init__(self, seed: bytes, m: int, r: int) -> None:
        words = read_words(seed, "blocks")
        drawn = [next(words) for _ in range(m)]
        order = sorted(range(m), key=lambda j: (drawn[j], j))
        self.seed, self.n = seed, m // r
        self.members = [sorted(order[b * r : (b + 1) * r]) for b in range(self.n)]

    def choose(self, ordinal: int, stream: str, turn: int) -> int:
        bits = len(f"{self.n - 1:b}")
        turned = [int(f"{i:0{bits}b}"[::-1], 2) for i in range(2**bits)]
        spread = [number for number in turned if number < self.n]
        label = b"sfumato/v1/blocks/" + stream.encode("utf-8").hex().encode("ascii") + b"\x00"
        (offset,) = struct.unpack("<Q", hashlib.shake_256(label + self.seed).digest(8))
        return (spread[ordinal % self.n] + int(offset) + turn + turn // self.n) % self.n


def mix(key: int, i: int) -> int:
    z = (key + (i + 1) * 0x9E3779B97F4A7C15) & MASK_64
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK_64
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK_64
    return z ^ (z >> 31)


def add_up(
    records: Sequence[Record],
    lower: Sequence[float],
    upper: Sequence[float],
    turns: Sequence[Sequence[int]],
    bits: int,
    *,
    masks: Masks | None,
    first_record: int,
) -> list[int]:
    """4. Return the 2m sums of some records."""
    m = len(turns[0])
    sums = [0] * (2 * m)
    for place, record in enumerate(records):
        steps = quantise(record, lower, upper)
        if steps is None:
            continue
        for j in range(m) if masks is None else masks.features_of(first_record + place):
            cosine, sine = feature_of(phase_of(steps, turns, j, bits))
            sums[j] += cosine
            sums[m + j] += sine
    return sums


def average(sums: Sequence[int], n_records: int) -> list[int]:
    """9. Return the mean, rounded towards zero."""
    return [total // n_records if total >= 0 else -(-total // n_records) for total in sums]


def find_phases(
    record: Record,
    lower: Sequence[float],
    upper: Sequence[float],
    turns: Sequence[Sequence[int]],
    bits: int,
) -> list[int] | None:
    """9. Return the phase of each feature of a record; None if it cannot be sketched."""
    steps = quantise(record, lower, upper)
    if steps is None:
        return None
    return [phase_of(steps, turns, j, bits) for j in range(len(turns[0]))]


def keeps_epsilon(odds: Fraction, epsilon: Fraction, n_reports: int) -> bool:
    """9. Decide ``odds^r <= e^epsilon`` by sums of the exponential series, in rationals."""
    wanted = odds**n_reports
    total = term = Fraction(1)
    i = 0
    while total < wanted:
        # From here on each term is at most half the one before, so all that follow are below one.
        if i >= 2 * epsilon and total + term < wanted:
            return False
        i += 1
        term *= epsilon / i
        total += term
    return True
