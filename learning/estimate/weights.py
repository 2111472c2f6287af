"""Weights of sketches in the global sketch: by size, or for the least error.

The global sketch is ``sum_l w_l s_l / sum_l w_l`` with ``s_l = S_l / (A alpha n_l)``. Every sketch
carries the same noise whatever its size, so sketches below half the mean size lower the SNR under
the paper's size weights. The best weights are ``n^2 / (v + c n)`` with v the noise of one sketch's
sum and c the sampling variance of one record. This module uses ``a n + b n^2`` with the best a and
b: sums can carry their moments exactly, and they equal the best weights at both ends, ``n`` where
sampling dominates and ``n^2`` where noise does.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sfumato.learning.estimate.sizes import SizeMoments
from sfumato.shared.errors import PrivacyError

Floats = NDArray[np.float64]
WEIGHTINGS = ("size", "noise-optimal")


@dataclass(frozen=True, kw_only=True)
class Weights:
    """Weights ``a n + b n^2`` of sketches of n records; a and b are not negative, not both zero."""

    a: float
    b: float

    def total(self, moments: SizeMoments) -> Floats:
        """Return the sum of the weights in each block: shape ``(B,)``."""
        _, first, second, _, _ = moments.floats
        total: Floats = self.a * first + self.b * second
        return total

    def compute_noise_energy(
        self, moments: SizeMoments, *, noise_variance: float, amplitude: float, alpha: float
    ) -> Floats:
        """Compute V, the squared modulus that privacy noise adds to one averaged feature.

        ``V = 2 Var sum_l (w_l / n_l)^2 / (A alpha sum_l w_l)^2`` over the sketches of a block, with
        Var the noise variance of one real coordinate of one sketch. Shape ``(B,)``; infinite for a
        block that no sketch carries.
        """
        n_sketches, first, second, _, _ = moments.floats
        squares = self.a**2 * n_sketches + 2 * self.a * self.b * first + self.b**2 * second
        scale = (amplitude * alpha * self.total(moments)) ** 2
        return _divide(2.0 * noise_variance * squares, scale, otherwise=math.inf)

    def compute_effective_records(self, moments: SizeMoments) -> Floats:
        """Return the n of an unweighted average with the same sampling error: shape ``(B,)``.

        ``(sum w)^2 / sum w^2 / n`` in each block; n itself under size weights.
        """
        _, first, second, third, _ = moments.floats
        squares = self.a**2 * first + 2 * self.a * self.b * second + self.b**2 * third
        return _divide(self.total(moments) ** 2, squares, otherwise=0.0)

    def average(
        self,
        moments: SizeMoments,
        *,
        sums: Floats,
        size_sums: Floats,
        amplitude: float,
        alpha: float,
        block_of: NDArray[np.int64],
    ) -> NDArray[np.complex128]:
        """Form the global sketch: shape ``(m,)``; 0 for features that no sketch carries.

        Parameters
        ----------
        sums, size_sums
            Shape ``(2 m,)``: ``sum S_l`` and ``sum n_l S_l``, real parts, then imaginary parts.
        block_of
            The block of each feature: shape ``(m,)``.
        """
        scale = amplitude * alpha * self.total(moments)[np.tile(block_of, 2)]
        scaled = _divide(self.a * sums + self.b * size_sums, scale, otherwise=0.0)
        m = block_of.size
        sketch = np.empty(m, dtype=np.complex128)
        sketch.real, sketch.imag = scaled[:m], scaled[m:]
        return sketch


def _divide(numerator: Floats, denominator: Floats, *, otherwise: float) -> Floats:
    out = np.full(numerator.shape, otherwise)
    np.divide(numerator, denominator, out=out, where=denominator > 0)
    return out


SIZE_WEIGHTS = Weights(a=1.0, b=0.0)
"""The paper's weights: every record counts the same."""


def choose_weights(
    weighting: str,
    moments: SizeMoments,
    *,
    noise_variance: float,
    amplitude: float,
    alpha: float,
    signal_energy: float,
) -> Weights:
    """Choose the weights of a global sketch.

    One pair (a, b) serves all blocks: it depends on how sizes vary, which is alike in them.
    ``noise-optimal`` minimises ``w' M w / (g' w)^2`` over ``w = (a, b)``, with M the error of the
    average by moments and g the sums of n and n^2; so ``w = M^-1 g``.

    Parameters
    ----------
    weighting
        ``size`` or ``noise-optimal``.
    moments
        Moments of the sizes; those of all blocks together count.
    noise_variance
        Variance of one real coordinate of one sketch's sum.
    amplitude, alpha
        A, times the mechanism's gain, and r / m.
    signal_energy
        ``|z|^2``, mean over features; an estimate suffices, because the minimum is flat.

    Raises
    ------
    PrivacyError
        The weighting is unknown.
    """
    if weighting not in WEIGHTINGS:
        raise PrivacyError(f"must be one of {', '.join(WEIGHTINGS)}", field="weighting")
    if weighting == "size" or moments.n_sketches < 2:
        return SIZE_WEIGHTS
    v = 2.0 * noise_variance / (amplitude * alpha) ** 2
    c = max(0.0, 1.0 / alpha - signal_energy)
    # In units of the mean size, so that the four entries have one magnitude.
    mean = moments.first / moments.n_sketches
    one, two, three = (
        moments.first / mean,
        moments.second / mean**2,
        moments.third / mean**3,
    )
    noise = (v / mean**2) * np.array([[moments.n_sketches, one], [one, two]])
    sampling = (c / mean) * np.array([[one, two], [two, three]])
    a, b = np.linalg.lstsq(noise + sampling, np.array([one, two]), rcond=None)[0]
    if a <= 0.0:
        return Weights(a=0.0, b=1.0)
    if b <= 0.0:
        return SIZE_WEIGHTS
    return Weights(a=1.0, b=float(b / a / mean))
