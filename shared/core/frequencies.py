"""Frequencies from a published seed: the same bits on every machine.

Only operations that IEEE 754 rounds correctly are used (+, -, *, /, sqrt, conversion, scaling by
powers of two), in a fixed order; the logarithm in the normal variates is a sequence of these.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from sfumato.shared.arrays import Bools, Floats, Integers
from sfumato.shared.core.logarithm import compute_log
from sfumato.shared.core.quantise import STEPS, Quantiser
from sfumato.shared.core.seeds import WordStream
from sfumato.shared.errors import PlanError

RADIUS_KINDS = ("adapted", "folded-gaussian", "gaussian")
_WIDEST_SCALE = 2e6
_TWO_PI = 6.283185307179586
_BATCH = 1 << 14
_LARGEST_RATIO = 100.0
"""Of the ends of a range of sigma: values are drawn by rejection, which would take long beyond."""


@dataclass(frozen=True, kw_only=True)
class RadiusLaw:
    """Law of the distance of frequencies from the origin: ``omega = R phi / sigma``.

    Parameters
    ----------
    kind
        ``adapted``: density of R proportional to ``sqrt(R^2 + R^4/4) exp(-R^2/2)``;
        ``folded-gaussian``: R = abs(N(0,1)); ``gaussian``: omega is Gaussian (poor beyond d = 10).
    sigma_low, sigma_high
        sigma is drawn log-uniformly between them, in multiples of each dimension's scale. Equal
        values give a single scale.
    tail_share, tail_high
        For this share of the features, spread evenly among them, sigma lies between ``sigma_high``
        and ``tail_high`` instead. These low frequencies detect clusters that are far apart, or
        wider than the scale.
    """

    kind: Literal["adapted", "folded-gaussian", "gaussian"] = "adapted"
    sigma_low: float = 1.0
    sigma_high: float = 4.0
    tail_share: float = 0.0
    tail_high: float = 16.0

    def __post_init__(self) -> None:
        if self.kind not in RADIUS_KINDS:
            raise PlanError(f"must be one of {', '.join(RADIUS_KINDS)}", field="radius_law.kind")
        if not (0.0 < self.sigma_low <= self.sigma_high < math.inf):
            raise PlanError(
                "must satisfy 0 < sigma_low <= sigma_high, both finite",
                field="radius_law.sigma_low",
                fix="leave both out to use the default",
            )
        if self.sigma_high > _LARGEST_RATIO * self.sigma_low:
            raise PlanError(
                f"must be at most {_LARGEST_RATIO:g} times sigma_low",
                field="radius_law.sigma_high",
                fix="narrow the range",
            )
        if not 0.0 <= self.tail_share <= 1.0:
            raise PlanError("must be from 0 to 1", field="radius_law.tail_share")
        if self.tail_share and not self.sigma_high <= self.tail_high:
            raise PlanError(
                "must be at least sigma_high",
                field="radius_law.tail_high",
                fix="raise it, or set tail_share to 0",
            )
        if not 0.0 < self.tail_high < math.inf:
            raise PlanError("must be finite and positive", field="radius_law.tail_high")
        if self.tail_share and self.tail_high > _LARGEST_RATIO * self.sigma_high:
            raise PlanError(
                f"must be at most {_LARGEST_RATIO:g} times sigma_high",
                field="radius_law.tail_high",
                fix="narrow the range, or raise sigma_high",
            )

    def is_tail(self, n_frequencies: int) -> Bools:
        """Return the features whose sigma is in the tail: bool, shape ``(m,)``."""
        ends = np.floor(np.arange(n_frequencies + 1) * self.tail_share)
        is_tail: Bools = ends[1:] > ends[:-1]
        return is_tail


@dataclass(frozen=True, kw_only=True, eq=False)
class FrequencyMatrix:
    """Integer frequencies W: shape ``(d, m)``, int16, in ``2^-bits`` turns a quantisation step."""

    turns: NDArray[np.int16]
    bits: int
    digest: bytes = field(init=False)

    def __post_init__(self) -> None:
        head = f"{self.turns.shape[0]},{self.turns.shape[1]},{self.bits};".encode()
        body = np.ascontiguousarray(self.turns, dtype="<i2").tobytes()
        object.__setattr__(self, "digest", hashlib.sha256(head + body).digest())
        self.turns.setflags(write=False)

    @property
    def n_dimensions(self) -> int:
        """The number of dimensions d."""
        return int(self.turns.shape[0])

    @property
    def n_frequencies(self) -> int:
        """The number of frequencies m."""
        return int(self.turns.shape[1])

    def select(self, features: Integers) -> FrequencyMatrix:
        """Return the frequencies of some features: shape ``(r,)``, feature numbers."""
        return FrequencyMatrix(turns=self.turns[:, features], bits=self.bits)

    def to_angular(self, quantiser: Quantiser) -> Floats:
        """Return Omega of exactly these integers: shape ``(d, m)``, radians per data unit."""
        per_step = _TWO_PI * 2.0**-self.bits * STEPS / quantiser.half_width
        return per_step[:, None] * self.turns.astype(np.float64)


def draw_frequencies(
    seed: bytes, *, n_frequencies: int, law: RadiusLaw, quantiser: Quantiser, scale: Floats
) -> FrequencyMatrix:
    """Draw the frequency matrix of a plan.

    Parameters
    ----------
    seed
        32 published bytes.
    n_frequencies
        m.
    law
        The radius law.
    quantiser
        Gives the half widths of the public box.
    scale
        Shape ``(d,)``, positive, data units: a public guess of the spread inside one cluster.

    Returns
    -------
    FrequencyMatrix
        A smaller m' with the same seed gives the first m' columns, with equal directions and radii.

    Raises
    ------
    PlanError
        A size or scale is not positive, a scale is far beyond its range, or a frequency turns more
        than once in two quantisation steps, which 16-bit records could not resolve.
    """
    if n_frequencies < 1:
        raise PlanError("must be at least 1", field="n_frequencies", fix="use 2 to 5 times k d")
    if scale.shape != quantiser.half_width.shape or not np.all((scale > 0) & np.isfinite(scale)):
        raise PlanError("each scale must be finite and positive", field="dimensions.scale")
    if np.any(scale > _WIDEST_SCALE * quantiser.half_width):
        raise PlanError(
            "each scale must be smaller than a million times the range of its dimension",
            field="dimensions.scale",
            fix="give the spread inside one cluster, in the unit of the dimension",
        )
    omega = _draw_scaled(seed, quantiser.n_dimensions, n_frequencies, law)
    turns_per_step = omega * ((quantiser.half_width / scale) / (STEPS * _TWO_PI))[:, None]
    largest = float(np.max(np.abs(turns_per_step)))
    bits = 32
    while bits >= 16 and np.rint(largest * 2.0**bits) > STEPS:
        bits -= 1
    if bits < 16:
        raise PlanError(
            "a frequency turns more than once in two quantisation steps",
            field="dimensions.scale",
            fix="raise the scale or narrow the bounds: they differ by more than 16 bits can hold",
        )
    return FrequencyMatrix(turns=np.rint(turns_per_step * 2.0**bits).astype(np.int16), bits=bits)


def _draw_scaled(seed: bytes, d: int, m: int, law: RadiusLaw) -> Floats:
    """Frequencies in radians per scale unit, shape (d, m)."""
    gaussians = _take(_gaussians(WordStream(seed, "frequencies/direction")), d * m)
    direction = gaussians.reshape(m, d).T
    norm = np.sqrt(_sum_of_squares(direction))
    if law.kind == "gaussian":
        radius = norm
    elif law.kind == "folded-gaussian":
        radius = np.abs(_take(_gaussians(WordStream(seed, "frequencies/radius")), m))
    else:
        radius = _take(_adapted_radii(WordStream(seed, "frequencies/radius")), m)
    return (radius / (norm * _draw_sigmas(seed, m, law))) * direction


def _draw_sigmas(seed: bytes, m: int, law: RadiusLaw) -> Floats:
    """Scales of the features, shape (m,); body and tail each take theirs in order."""
    tail = law.is_tail(m)
    sigma = np.empty(m)
    for members, label, low, high in (
        (~tail, "frequencies/sigma", law.sigma_low, law.sigma_high),
        (tail, "frequencies/sigma-tail", law.sigma_high, law.tail_high),
    ):
        if members.any():
            stream = _log_uniform(WordStream(seed, label), low, high)
            sigma[members] = _take(stream, int(np.count_nonzero(members)))
    return sigma


def _take(batches: Iterator[Floats], count: int) -> Floats:
    """Return the first ``count`` numbers of a sequence that arrives in batches."""
    taken: list[Floats] = []
    missing = count
    while missing > 0:
        batch = next(batches)[:missing]
        taken.append(batch)
        missing -= batch.size
    return np.concatenate(taken)


def _sum_of_squares(rows: Floats) -> Floats:
    """Sum of squares over the first axis, added in order: libraries choose their own order."""
    total = np.zeros(rows.shape[1:])
    for row in rows:
        total = total + row * row
    return total


def _unit(words: NDArray[np.uint64]) -> Floats:
    """(2k + 1) 2^-53 for the top 52 bits k of each word: exact, inside (0, 1)."""
    odd = 2 * (words >> np.uint64(12)).astype(np.int64) + 1
    return odd.astype(np.float64) * 2.0**-53


def _gaussians(stream: WordStream) -> Iterator[Floats]:
    """Marsaglia's polar method: attempt i reads words 2i, 2i + 1 and yields two numbers or none."""
    while True:
        words = stream.take(2 * _BATCH).reshape(_BATCH, 2)
        u, v = 2.0 * _unit(words[:, 0]) - 1.0, 2.0 * _unit(words[:, 1]) - 1.0
        s = u * u + v * v
        inside = s < 1.0
        u, v, s = u[inside], v[inside], s[inside]
        factor = np.sqrt((-2.0 * compute_log(s)) / s)
        yield np.stack([u * factor, v * factor], axis=1).ravel()


def _adapted_radii(stream: WordStream) -> Iterator[Floats]:
    """R = sqrt(q - 4) for q = abs(g)^2 of a Gaussian g in three dimensions, given q >= 4.

    Substituting R^2 = q - 4 in the density of q, sqrt(q) exp(-q/2), gives the adapted radius law
    exactly, without a table and without cutting its tail.
    """
    rest = np.empty(0)
    for batch in _gaussians(stream):
        gaussians = np.concatenate([rest, batch])
        whole = gaussians.size // 3 * 3
        rest = gaussians[whole:]
        q = _sum_of_squares(gaussians[:whole].reshape(-1, 3).T)
        yield np.sqrt(q[q >= 4.0] - 4.0)


def _log_uniform(stream: WordStream, low: float, high: float) -> Iterator[Floats]:
    """Uniform on [low, high], kept with probability low / sigma: density as 1 / sigma."""
    while True:
        if low == high:
            yield np.full(_BATCH, low)
            continue
        words = stream.take(2 * _BATCH).reshape(_BATCH, 2)
        sigma = low + (high - low) * _unit(words[:, 0])
        yield sigma[_unit(words[:, 1]) * sigma <= low]
