"""Difference between devices, which matters where a feature is averaged over only some of them.

Where a sketch carries one block of features, every feature is an average over the records of other
sketches. If these hold records of different kinds, that is a further error of the global sketch.
Each sketch has the expected energy ``|S_j|^2 = A^2 (n^2 (|z_j|^2 + D) + n (1 - |z_j|^2)) + 2 Var``,
with D the variance of a feature between sketches. So the sum of these energies shows D, at no cost
in privacy: it is a function of released sketches.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sfumato.learning.estimate.sizes import SizeMoments
from sfumato.shared.plan import SketchPlan

_LARGEST_DILUTION = 0.5
"""With fewer than about two sketches in a block, signal and difference look alike."""


@dataclass(frozen=True, kw_only=True, eq=False)
class DeviceDifference:
    """The difference between devices, as the noise that it adds to the global sketch.

    Parameters
    ----------
    energy
        ``D (1 / L_b - 1 / L)`` for each block, with L_b the effective number of its sketches and D
        the variance between sketches, a mean over features: shape ``(B,)``. 0 where D cannot be
        told.
    signal_energy
        ``|z|^2`` without it.
    """

    energy: NDArray[np.float64]
    signal_energy: float


def estimate_difference(
    plan: SketchPlan, moments: SizeMoments, is_known: NDArray[np.bool_], *, raw_signal: float
) -> DeviceDifference:
    """Estimate the difference between devices, and take it out of the signal.

    The energy of the global sketch without noise is ``R = |z|^2 + D h`` with
    ``h = mean(1 / L_b) - 1 / L``, the mean energy of the sketches is ``T = |z|^2 + D``, and so
    ``D = (T - R) / (1 - h)``.

    Parameters
    ----------
    moments
        With the estimated number of records where it is secret; sizes then count as equal.
    is_known
        The blocks that count, at least one: shape ``(B,)``.
    raw_signal
        R.
    """
    shares = _find_shares(plan, moments, is_known)
    dilution = float(np.mean(shares[is_known]))
    if not plan.is_split or dilution > _LARGEST_DILUTION:
        return DeviceDifference(energy=np.zeros_like(shares), signal_energy=raw_signal)
    excess = _measure_energy(plan, moments, is_known, raw_signal) - raw_signal
    variance = min(1.0, max(0.0, excess / (1.0 - dilution)))
    return DeviceDifference(
        energy=variance * shares, signal_energy=max(0.0, raw_signal - variance * dilution)
    )


def find_difference(
    plan: SketchPlan, moments: SizeMoments, is_known: NDArray[np.bool_], *, signal_energy: float
) -> NDArray[np.float64]:
    """Return the energy of a :class:`DeviceDifference` from its signal: ``D = T - |z|^2``."""
    shares = _find_shares(plan, moments, is_known)
    if not plan.is_split or float(np.mean(shares[is_known])) > _LARGEST_DILUTION:
        return np.zeros_like(shares)
    whole = _measure_energy(plan, moments, is_known, signal_energy)
    return min(1.0, max(0.0, whole - signal_energy)) * shares


def _find_shares(
    plan: SketchPlan, moments: SizeMoments, is_known: NDArray[np.bool_]
) -> NDArray[np.float64]:
    """Return ``1 / L_b - 1 / L`` of the known blocks, 0 for others: shape ``(B,)``."""
    first, second = _find_sizes(plan, moments, is_known)
    shares = np.zeros(moments.n_blocks)
    overall = np.sum(second) / np.sum(first) ** 2
    shares[is_known] = np.maximum(0.0, second / first**2 - overall)
    return shares


def _find_sizes(
    plan: SketchPlan, moments: SizeMoments, is_known: NDArray[np.bool_]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    n_sketches, first, second, _, _ = moments.floats[:, is_known]
    return first, first**2 / n_sketches if plan.releases_count else second


def _measure_energy(
    plan: SketchPlan, moments: SizeMoments, is_known: NDArray[np.bool_], signal: float
) -> float:
    """Return T, the mean ``|z_j|^2`` of single sketches without noise and sampling."""
    first, second = _find_sizes(plan, moments, is_known)
    n_sketches, energy = moments.floats[0, is_known], moments.floats[-1, is_known]
    r, unit = plan.frequencies_per_sketch, plan.mean_amplitude**2
    noise = 2.0 * plan.released_variance * r * n_sketches
    sampling = max(0.0, 1.0 - signal) * unit * r * first
    return float(np.sum(energy - noise - sampling) / np.sum(unit * r * second))
