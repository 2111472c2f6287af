"""Radius laws by noise, narrow ones under strong noise, and the signal to expect under each.

A narrow law puts every frequency where clusters of the stated scale are detected best. A wide one
tolerates a wrong scale, and detects clusters that are far apart or differ in spread; but some of
its frequencies carry little information, which strong noise does not allow. The limits were
measured with the mixture decoder: ``docs/explanation/decoding.md`` has the table.

A narrow law has less signal: the SNR of a law is that at its own signal energy. Law and m are
chosen together: with m = 5 k d the law with a tail is worse than the next one whatever the noise,
because half of it resolves little, and with 10 k d it is better.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sfumato.shared.core import Quantiser, RadiusLaw, draw_frequencies
from sfumato.shared.core.seeds import SEED_BYTES

SEPARATION: Final = 1.5
"""Standard deviation of cluster centres in scales, for k = 1; it grows as ``k^(1/d)``."""
_SAMPLE = 2000
_MOST_DIMENSIONS = 64
"""Norms of frequencies depend on d under one law alone, and hardly beyond."""


@dataclass(frozen=True, kw_only=True)
class LawChoice:
    """A radius law for a noise level, and the reason for it.

    Parameters
    ----------
    law
        The law to put into the plan.
    least_snr_per_parameter
        Least SNR m / (k d), at the law's own signal energy, at which it is chosen.
    reason
        A clause that completes "because".
    least_features
        Least m / (k d) at which it is chosen: half of a law with a tail resolves little.
    gain
        Fall of the relative SSE on real data, against the next law with half of the m.
    """

    law: RadiusLaw
    least_snr_per_parameter: float
    reason: str
    least_features: float = 0.0
    gain: float = 0.0


LAW_CHOICES: Final = (
    LawChoice(
        law=RadiusLaw(sigma_low=1.0, sigma_high=2.0, tail_share=0.5, tail_high=32.0),
        least_snr_per_parameter=14_000.0,
        reason="noise is weak, and low frequencies also detect clusters that are far apart or "
        "whose scale was guessed wrong",
        least_features=10.0,
        gain=0.01,
    ),
    LawChoice(
        law=RadiusLaw(sigma_low=1.0, sigma_high=4.0),
        least_snr_per_parameter=740.0,
        reason="noise is moderate, and lower frequencies also detect clusters that are not round",
    ),
    LawChoice(
        law=RadiusLaw(sigma_low=0.7, sigma_high=3.0),
        least_snr_per_parameter=217.0,
        reason="noise is rather strong, and frequencies close to the scale on both sides still "
        "forgive a guess that is wrong by 2",
    ),
    LawChoice(
        law=RadiusLaw(sigma_low=0.8, sigma_high=2.0),
        least_snr_per_parameter=0.0,
        reason="noise is strong, and only frequencies near the scale carry enough information, so "
        "that the scale has to be right",
    ),
)
"""From weak noise to strong."""


def choose_radius_law(
    predict: Callable[[float], float], *, features: float, n_clusters: int, n_dimensions: int
) -> tuple[LawChoice, float]:
    """Choose a law by its own SNR and by m; return it, and the signal energy to expect under it.

    Parameters
    ----------
    predict
        From ``|z|^2`` to SNR m / (k d).
    features
        m / (k d).
    n_clusters, n_dimensions
        k and d.
    """
    for choice in LAW_CHOICES:
        signal = expect_signal_energy(choice.law, n_clusters=n_clusters, n_dimensions=n_dimensions)
        is_wide_enough = features >= choice.least_features
        if is_wide_enough and predict(signal) >= choice.least_snr_per_parameter:
            break
    return choice, signal


def widen_law(choice: LawChoice) -> LawChoice:
    """Return the law one wider than a choice, for scales that are a guess; the widest stays."""
    place = LAW_CHOICES.index(choice)
    if not place:
        return choice
    return LawChoice(
        law=LAW_CHOICES[place - 1].law,
        least_snr_per_parameter=choice.least_snr_per_parameter,
        reason="one wider than the noise asks for, because the pilot did not see every spread well",
    )


def describe_law(law: RadiusLaw) -> str:
    """Write a law in words; w is the scale."""
    words = f"{law.kind}, sigma from {law.sigma_low:g} w to {law.sigma_high:g} w"
    if law.tail_share:
        words += f", for {law.tail_share:.0%} of the frequencies up to {law.tail_high:g} w instead"
    return words


@lru_cache(maxsize=1024)
def expect_signal_energy(law: RadiusLaw, *, n_clusters: int, n_dimensions: int) -> float:
    """Return ``|z|^2``, the mean over frequencies of the squared modulus of the features' mean.

    ``|z|^2 = E exp(-u^2) (1/k + (1 - 1/k) exp(-(s u)^2))`` over ``u = w |omega|``, with w the scale
    and ``s = 1.5 k^(1/d)``: k round clusters of the stated scale and equal weights, whose centres
    have standard deviation ``s w`` in each dimension. Then there is about as much room for each,
    whatever their number. Clusters that are further apart have less energy, but not below
    ``E exp(-u^2) / k``; closer or elongated ones have more.

    Parameters
    ----------
    law
        The law of the frequencies.
    n_clusters, n_dimensions
        k and d.
    """
    norms = _draw_norms(law, min(n_dimensions, _MOST_DIMENSIONS))
    share = 1.0 / n_clusters
    spread = SEPARATION * n_clusters ** (1.0 / n_dimensions)
    within, between = np.exp(-(norms**2)), np.exp(-((spread * norms) ** 2))
    return float(np.mean(within * (share + (1.0 - share) * between)))


@lru_cache(maxsize=256)
def _draw_norms(law: RadiusLaw, n_dimensions: int) -> NDArray[np.float64]:
    """Draw norms of frequencies in units of one over the scale: the same ones each time."""
    quantiser = Quantiser.from_bounds([-1.0] * n_dimensions, [1.0] * n_dimensions)
    frequencies = draw_frequencies(
        bytes(SEED_BYTES),
        n_frequencies=_SAMPLE,
        law=law,
        quantiser=quantiser,
        scale=np.ones(n_dimensions),
    )
    norms: NDArray[np.float64] = np.linalg.norm(frequencies.to_angular(quantiser), axis=0)
    return norms
