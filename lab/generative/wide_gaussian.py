"""Discrete Gaussian noise by the hundred million: draws from one exact table, and sums of draws.

``draw_gaussian`` takes some microseconds a variate, which a training of networks cannot pay. Here a
narrow discrete Gaussian is drawn by comparing a uniform number with its exact distribution, two
bytes at a time, and a wide one is ``Y_0 + m_1 Y_1 + m_2 Y_2`` of narrow ones. Its law is within a
factor of 10^-33 of the discrete Gaussian of that variance (``proofs.md``, section 21).

How long a draw takes depends a little on what is drawn, so it is for a curator, whose clock nobody
else reads, and not for a device.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal, localcontext
from functools import cache, cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sfumato.shared.arrays import Integers
from sfumato.shared.privacy.mechanisms.gaussian import make_large_sigma_error
from sfumato.shared.privacy.samplers import RandomSource

WIDTH: Final = 256
"""Scale of the narrow Gaussian that a table holds."""
REACH: Final = 16 * WIDTH
"""Ends of the table: more is drawn with probability below 10^-55, and counts towards delta."""
RATIO: Final = 3
"""A multiplier is at most the width of all terms before it over this."""
LARGEST_WIDE_SIGMA: Final = 1 << 40
_OPEN: Final = -(1 << 15)
_HEAD_BITS, _TAIL_BYTES = 16, 6
_CHUNK: Final = 1 << 18


@dataclass(frozen=True)
class WideGaussian:
    """Noise ``Y_0 + m_1 Y_1 + ...`` of independent discrete Gaussians of scale 256.

    Parameters
    ----------
    multipliers
        ``m_1, m_2, ...``: each at least 1, and at most a third of the width of what comes before.
    """

    multipliers: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        reached = WIDTH**2
        for each in self.multipliers:
            if each < 1 or RATIO**2 * each**2 > reached:
                raise ValueError(f"multipliers {self.multipliers} leave gaps")
            reached += each**2 * WIDTH**2

    @classmethod
    def of_least(cls, sigma: float) -> WideGaussian:
        """Return noise whose standard deviation is at least sigma, and little more.

        Raises
        ------
        PrivacyError
            It is larger than can be drawn.
        """
        if not sigma <= LARGEST_WIDE_SIGMA:
            raise make_large_sigma_error()
        wanted, chosen, reached = math.ceil(sigma) ** 2, [], WIDTH**2
        while reached < wanted:
            least = math.isqrt((wanted - reached - 1) // WIDTH**2) + 1
            most = math.isqrt(reached // RATIO**2)
            chosen.append(min(least, most))
            reached += chosen[-1] ** 2 * WIDTH**2
        return cls(tuple(chosen))

    @cached_property
    def variance(self) -> int:
        """The variance, up to a relative error below 10^-50."""
        return WIDTH**2 * (1 + sum(each**2 for each in self.multipliers))

    def draw(self, source: RandomSource, count: int) -> Integers:
        """Draw independent variates: shape ``(count,)``."""
        drawn = np.empty(count, dtype=np.int64)
        table = load_table()
        for start in range(0, count, _CHUNK):
            part = drawn[start : start + _CHUNK]
            part[:] = table.draw(source, len(part))
            for each in self.multipliers:
                part += each * table.draw(source, len(part)).astype(np.int64)
        return drawn


class Table:
    """The discrete Gaussian of scale 256 on -4096 .. 4096, drawn by inversion.

    The value is the first k whose cumulative probability is above a uniform real number. 16 digits
    of the number mostly decide; where they do not, 48 more are drawn, and then as many as it takes.
    """

    def __init__(self) -> None:
        self._cuts = np.array(_find_cuts(1), dtype=np.uint64)
        heads = (self._cuts >> np.uint64(64 - _HEAD_BITS)).astype(np.int64)
        firsts = np.arange(1 << _HEAD_BITS, dtype=np.uint64) << np.uint64(64 - _HEAD_BITS)
        values = np.searchsorted(self._cuts, firsts, side="right") - REACH
        values[heads] = _OPEN
        self._values = values.astype(np.int16)

    def draw(self, source: RandomSource, count: int) -> NDArray[np.int16]:
        """Draw independent variates: shape ``(count,)``."""
        heads = np.frombuffer(source.draw_bytes(2 * count), dtype="<u2")
        values: NDArray[np.int16] = self._values[heads]
        undecided = np.flatnonzero(values == _OPEN)
        if undecided.size:
            values[undecided] = self._decide(heads[undecided], source)
        return values

    def _decide(self, heads: NDArray[np.uint16], source: RandomSource) -> NDArray[np.int16]:
        words = np.zeros((len(heads), 8), dtype=np.uint8)
        drawn = np.frombuffer(source.draw_bytes(_TAIL_BYTES * len(heads)), dtype=np.uint8)
        words[:, :_TAIL_BYTES] = drawn.reshape(-1, _TAIL_BYTES)
        words[:, _TAIL_BYTES:] = heads.astype("<u2").view(np.uint8).reshape(-1, 2)
        numbers = words.view("<u8").ravel().astype(np.uint64)
        places = np.searchsorted(self._cuts, numbers, side="left")
        for i in np.flatnonzero(self._cuts[np.minimum(places, len(self._cuts) - 1)] == numbers):
            places[i] = self._settle(int(places[i]), int(numbers[i]), source)
        return (places - REACH).astype(np.int16)

    def _settle(self, place: int, number: int, source: RandomSource) -> int:
        """Compare further digits with the cuts that have the same first word."""
        last = place + int(np.searchsorted(self._cuts[place:], number, side="right"))
        digits, n_words = number, 1
        while True:
            n_words += 1
            digits = (digits << 64) + int.from_bytes(source.draw_bytes(8), "little")
            cuts = _find_cuts(n_words)[place:last]
            if digits not in cuts:
                return place + sum(cut < digits for cut in cuts)


@cache
def load_table() -> Table:
    """Return the table, which is made once."""
    return Table()


def _find_cuts(n_words: int) -> list[int]:
    """Return the first words of the cumulative probabilities of -4096 .. 4095, as one number."""
    digits = 20 * n_words + 40
    while True:
        with localcontext(prec=digits):
            scaled = [each * 2 ** (64 * n_words) for each in _sum_probabilities()[:-1]]
            # Far more than the arithmetic errs, and far less than a digit.
            slack = Decimal(10) ** (20 * n_words + 20 - digits)
            low, high = ([int(each + sign * slack) for each in scaled] for sign in (-1, 1))
        if low == high:
            return low
        digits *= 2


def _sum_probabilities() -> list[Decimal]:
    """Return the cumulative probabilities, to the current precision less some eight digits."""
    ratio, step = (-Decimal(1) / (2 * WIDTH**2)).exp(), (-Decimal(1) / WIDTH**2).exp()
    weights = [Decimal(1)]
    for _ in range(REACH):
        weights.append(weights[-1] * ratio)
        ratio *= step
    total, sums = Decimal(0), []
    for weight in (*weights[:0:-1], *weights):
        total += weight
        sums.append(total)
    return [each / total for each in sums]
