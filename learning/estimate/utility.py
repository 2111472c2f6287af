"""Utility of a global sketch, and the weights of its sketches."""

from __future__ import annotations

import sys
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sfumato.learning.estimate.counts import RecordCount, count_records, put_count
from sfumato.learning.estimate.devices import estimate_difference
from sfumato.learning.estimate.limbs import join_limbs
from sfumato.learning.estimate.sizes import SizeMoments
from sfumato.learning.estimate.snr import estimate_signal_energy, predict_snr
from sfumato.learning.estimate.totals import Totals
from sfumato.learning.estimate.weights import SIZE_WEIGHTS, Weights, choose_weights
from sfumato.shared.plan import SketchPlan


@dataclass(frozen=True, kw_only=True)
class Utility:
    """The utility of a global sketch.

    Parameters
    ----------
    n_records, n_records_error
        An estimate and its standard error where the number is secret; otherwise exact, and 0.
    noise_energy
        V, including the noise of a secret number of records and the difference between devices, as
        a mean over the known features; None where there is no record, or none distinct from noise.
    n_covered
        Features that some sketch carries, with a number of records distinct from noise.

    Statistics other than Fourier features have no SNR: it is 0, as is the signal energy, and the
    noise energy is the variance of a coordinate's noise as a share of the records.
    """

    n_sketches: int
    n_records: int
    n_records_error: float
    snr: float
    signal_energy: float
    noise_energy: float | None
    n_covered: int

    @classmethod
    def of_plain(
        cls, count: RecordCount, n_sketches: int, *, noise_energy: float | None, n_covered: int
    ) -> Utility:
        """Return a utility without a signal."""
        return cls(
            n_sketches=n_sketches,
            n_records=count.n_records,
            n_records_error=count.standard_error,
            snr=0.0,
            signal_energy=0.0,
            noise_energy=noise_energy,
            n_covered=n_covered,
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class NoiseByBlock:
    """Noise and effective records of each block under some weights: shapes ``(B,)``.

    Parameters
    ----------
    energy
        V, without the noise of a secret number of records.
    n_effective
        Records of an unweighted average with the same sampling error, rounded down.
    is_known
        False for blocks that no sketch carries, or whose records are indistinct from noise.
    """

    energy: NDArray[np.float64]
    n_effective: NDArray[np.float64]
    is_known: NDArray[np.bool_]


def measure_noise(
    plan: SketchPlan,
    moments: SizeMoments,
    count: RecordCount,
    weights: Weights,
    *,
    is_exact: bool = False,
) -> NoiseByBlock:
    """Compute the noise and the effective records of each block.

    Parameters
    ----------
    moments
        With the estimated number of records where it is secret.
    is_exact
        Whether no noise was added to the sums.
    """
    return NoiseByBlock(
        energy=weights.compute_noise_energy(
            moments,
            noise_variance=0.0 if is_exact else plan.released_variance,
            amplitude=plan.mean_amplitude,
            alpha=plan.alpha,
        ),
        n_effective=_count_effective(weights, moments),
        is_known=count.is_known & (moments.floats[0] > 0),
    )


def form_sketch(
    plan: SketchPlan,
    weights: Weights,
    moments: SizeMoments,
    *,
    sums: NDArray[np.int64],
    size_sums: NDArray[np.int64],
) -> NDArray[np.complex128]:
    """Form the weighted global sketch of exact sums: shape ``(m,)``.

    Parameters
    ----------
    sums, size_sums
        Shapes ``(D,)`` and ``(2, D)``, as in :class:`~sfumato.learning.estimate.totals.Totals`;
        noised counts at the end are ignored.
    """
    n_features = 2 * plan.n_frequencies
    return weights.average(
        moments,
        sums=sums[:n_features].astype(np.float64),
        # Joined as integers first, so that each is rounded once, alike on every machine.
        size_sums=np.array([float(total) for total in join_limbs(size_sums[:, :n_features])]),
        amplitude=plan.mean_amplitude,
        alpha=plan.alpha,
        block_of=plan.blocks.block_of,
    )


def weigh(plan: SketchPlan, totals: Totals, weighting: str) -> Weights:
    """Choose the weights of a selection with a sketch; post-processing, costs no privacy.

    Statistics other than Fourier features count every record alike.

    Raises
    ------
    PrivacyError
        The weighting is unknown.
    """
    if plan.kind != "fourier":
        return SIZE_WEIGHTS
    return choose_weights(
        weighting,
        totals.moments,
        noise_variance=plan.released_variance,
        amplitude=plan.mean_amplitude,
        alpha=plan.alpha,
        # Under size weights: the best ones are not known yet, and the minimum is flat.
        signal_energy=estimate_utility(
            plan, totals, count_records(plan, totals), SIZE_WEIGHTS
        ).signal_energy,
    )


def estimate_utility(
    plan: SketchPlan,
    totals: Totals,
    count: RecordCount,
    weights: Weights,
    *,
    is_exact: bool = False,
) -> Utility:
    """Estimate signal, noise and their ratio from sums; post-processing, costs no privacy.

    Division by a number of records with relative variance c adds ``c |z|^2`` to the noise.
    """
    moments = put_count(totals, count).moments
    if plan.kind != "fourier":
        return _estimate_plain(plan, moments, count)
    noise = measure_noise(plan, moments, count, weights, is_exact=is_exact)
    if not (count.is_clear and noise.is_known.any()):
        return Utility.of_plain(count, moments.n_sketches, noise_energy=None, n_covered=0)
    # Blocks are of one size, so a mean over blocks is a mean over features.
    known, n_effective = noise.is_known, noise.n_effective[noise.is_known]
    energy = float(np.mean(noise.energy[known]))
    relative_variance = float(np.mean(count.relative_variance[known]))
    sketch = form_sketch(plan, weights, moments, sums=totals.sums, size_sums=totals.size_sums)
    # Features have modulus at most 1; a record adds to the share alpha of them.
    signal = min(
        1.0 / plan.alpha,
        estimate_signal_energy(
            sketch[known[plan.blocks.block_of]],
            noise_energy=energy,
            alpha=plan.alpha,
            n_records=n_effective,
        )
        / (1.0 + relative_variance),
    )
    difference = estimate_difference(plan, moments, known, raw_signal=signal)
    signal = difference.signal_energy
    energy += relative_variance * signal + float(np.mean(difference.energy[known]))
    snr = predict_snr(
        signal_energy=signal,
        # Noise may round to zero at an absurd epsilon; this keeps the ratio finite.
        noise_energy=max(energy, sys.float_info.min),
        alpha=plan.alpha,
        n_records=n_effective,
    )
    return Utility(
        n_sketches=moments.n_sketches,
        n_records=count.n_records,
        n_records_error=count.standard_error,
        snr=snr,
        signal_energy=signal,
        noise_energy=energy,
        n_covered=int(np.count_nonzero(known)) * plan.frequencies_per_sketch,
    )


def _estimate_plain(plan: SketchPlan, moments: SizeMoments, count: RecordCount) -> Utility:
    n_sketches, n_records, *_ = moments.floats
    known = count.is_known & (n_sketches > 0)
    if not (count.is_clear and known.any()):
        return Utility.of_plain(count, moments.n_sketches, noise_energy=None, n_covered=0)
    largest = plan.value_range[1] * plan.mechanism.gain * n_records[known]
    energies = n_sketches[known] * plan.released_variance / largest**2
    return Utility.of_plain(
        count,
        moments.n_sketches,
        noise_energy=float(np.mean(energies)),
        n_covered=int(np.count_nonzero(known)) * plan.n_features,
    )


def _count_effective(weights: Weights, moments: SizeMoments) -> NDArray[np.float64]:
    """Return the whole effective records of each block, at least two where there are two.

    Rounded down, so that the sampling error is never understated; one record alone carries no
    estimate of the signal.
    """
    # Under size weights they are whole; float rounding must not make them one fewer.
    whole = np.floor(weights.compute_effective_records(moments) * (1.0 + 1e-12))
    least: NDArray[np.float64] = np.minimum(2.0, moments.floats[1])
    return np.maximum(least, whole)
