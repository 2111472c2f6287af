"""Interface of the noise mechanisms: guarantee, noise and tail bounds."""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol

from sfumato.shared.arrays import Integers
from sfumato.shared.errors import PrivacyError
from sfumato.shared.privacy.samplers import RandomSource


@dataclass(frozen=True, kw_only=True)
class PrivacyGuarantee:
    """A proved bound on the privacy loss of one release.

    Parameters
    ----------
    epsilon, delta
        Exact; the loss of the sampled law, at most what the plan promises.
    neighbouring
        The relation between the data sets that the bound compares.
    rho
        The zero-concentrated loss, where the mechanism has its own.
    """

    epsilon: Fraction
    delta: Fraction
    neighbouring: str
    rho: Fraction | None = None

    def describe(self, *, unit: str = "record") -> str:
        """Describe the guarantee in words, with its relation and its assumptions.

        Parameters
        ----------
        unit
            What the neighbours differ in: one ``record``, or all records of one ``device``.
        """
        return (
            f"Each sketch is {self._show_level()} differentially private under {self.neighbouring} "
            "neighbouring: this compares two data sets of one device that "
            f"{_DIFFERENCE[unit, self.neighbouring]} It holds against anyone who sees every "
            "sketch, the plan and all results, provided that the device runs this code, its random "
            "generator is sound, and no record is sketched twice."
        )

    def describe_batch(self, *, unit: str = "record") -> str:
        """Describe the guarantee of the total of a batch of masked sums, as :meth:`describe`."""
        return (
            f"The opened total of a batch is {self._show_level()} differentially private under "
            f"{self.neighbouring} neighbouring: this compares two data sets of one device that "
            f"{_DIFFERENCE[unit, self.neighbouring]} It holds against anyone who sees every total, "
            "the plan and all results, and against one of the two servers, provided that the other "
            "server and the device run this code with sound random generators, the encryption "
            "holds, and no record is sketched twice. Against both servers together nothing holds."
        )

    def _show_level(self) -> str:
        level = f"epsilon = {float(self.epsilon):.6g}"
        if self.delta:
            level += f", delta = {float(self.delta):.3g}"
        return level


_DIFFERENCE = {
    ("record", "replace-one"): (
        "differ in the values of one record. The number of records, the window and the labels are "
        "public."
    ),
    ("record", "add-remove-one"): (
        "differ by the presence of one record. The number of records is released with noise; the "
        "window and the labels are public."
    ),
    ("device", "replace-one"): (
        "differ in all records of one window: in their values and in how many there are, but not "
        "in whether there are any. In which windows the device has records, and its labels, are "
        "public."
    ),
}


@dataclass(frozen=True, kw_only=True)
class NoiseTail:
    """Tail bounds on the noise Y on the features of one release.

    Parameters
    ----------
    exponent
        x: each of the bounds fails with probability at most ``exp(-x)``; there are at most four.
    squared_norm
        Bounds ``|Y|_2^2``, in squared units of the sum.
    spread, reach
        k and b of ``log E exp(l <S, Y>) <= k l^2 |S|_2^2 / (1 - (l b max |S_j|)^2)`` for every
        fixed S; units of the sum, k squared.
    """

    exponent: float
    squared_norm: float
    spread: float
    reach: float

    def bound_projection(self, *, norm: float, largest: float) -> float:
        """Bound ``<S, Y>`` for a fixed S with this L2 norm and this largest feature."""
        if not norm:
            return 0.0
        root, flat = math.sqrt(self.exponent), math.sqrt(self.spread) * norm
        peak = self.reach * largest * root / flat
        return 2 * root * flat * (1 + peak) ** 2 / (1 + 2 * peak)


class Mechanism(Hashable, Protocol):
    """Releases an exact integer sum with calibrated noise."""

    @property
    def gain(self) -> float:
        """The factor of a sum in the mean of its release: 1 for noise that is added."""
        ...

    @property
    def variance(self) -> float:
        """Noise variance of one real coordinate of the sum."""
        ...

    @property
    def noise_bound(self) -> int:
        """A magnitude that one coordinate's noise exceeds with probability below 2^-60."""
        ...

    @property
    def scale(self) -> Fraction:
        """The exact scale parameter of the noise, in units of the sum."""
        ...

    @property
    def guarantee(self) -> PrivacyGuarantee:
        """The proved bound for one release."""
        ...

    def bound_delta(self, epsilon: Fraction, *, n_records: int = 1, n_windows: int = 1) -> Fraction:
        """Bound delta at an epsilon for a person with ``n_records`` in each of ``n_windows``."""
        ...

    def compute_count_variance(self, count_scale: int) -> float:
        """Compute the noise variance of a number of records released times a factor."""
        ...

    def bound_tail(self, n_coordinates: int, *, exponent: float) -> NoiseTail:
        """Bound the noise on the features; each bound fails with probability exp(-exponent).

        ``n_coordinates`` is their number of integers, without a number of records.
        """
        ...

    def add_noise(self, sums: Integers, source: RandomSource) -> Integers:
        """Return ``gain`` times ``sums`` plus fresh noise of mean 0, shape ``(2 m,)``, int64.

        A second call is a second release.
        """
        ...


def bound_pure_delta(
    guarantee: PrivacyGuarantee, epsilon: Fraction, *, n_records: int, n_windows: int
) -> Fraction:
    """Bound delta at an epsilon, for q records in each of w windows, of a mechanism without delta.

    0 from ``q w`` times the mechanism's epsilon on (``proofs.md``, sections 2 and 3). Below it the
    probability that the loss exceeds epsilon is at most ``1 - exp(epsilon - q w epsilon_1)``; this
    returns 1 there, because no caller needs more.
    """
    return Fraction(int(epsilon < n_records * n_windows * guarantee.epsilon))


def require_epsilon(epsilon: Fraction) -> Fraction:
    """Return ``epsilon`` if it is a positive exact rational.

    Raises
    ------
    PrivacyError
        It is zero or negative, or not a rational.
    """
    if not isinstance(epsilon, Fraction):
        raise PrivacyError(
            "must be an exact rational",
            field="epsilon",
            fix='write it as a fraction or decimal in quotes, such as "1/10" or "0.1"',
        )
    if epsilon <= 0:
        raise PrivacyError(
            "must be greater than zero", field="epsilon", fix="use a value such as 1 or 1/10"
        )
    return epsilon
