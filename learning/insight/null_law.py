"""Errors of mean features where nothing has changed: draws of noise and of sampling.

K-norm noise is independent between features only given its radius, which is common to all features
of a sketch: the energy of one sketch's noise over m features varies by 2.33 / m relative to its
square, not by 1 / m. The draws have the radius: T is a Gamma variate of shape D + 1, for D
coordinates, and each feature uniform on the disc of radius T (the lattice 24-gon to three digits).

The draws are simulations from what is public, for display; they protect nobody.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

import numpy as np

from learning.insight.covariance import Floats
from learning.insight.selection import Errors
from shared.plan import SketchPlan

__all__ = ["draw_errors", "draw_noise", "draw_unit_noise"]

_PART: Final = 1 << 20
"""Numbers drawn at a time."""


def _draw_knorm(rng: np.random.Generator, n_draws: int, n_features: int, n_counts: int) -> Floats:
    n_coordinates = 2 * n_features + n_counts
    radius = rng.standard_gamma(n_coordinates + 1, n_draws)
    # A coordinate of a point of the unit disc has variance 1 / 4; T^2 has mean (D + 1) (D + 2).
    radius *= 2.0 / np.sqrt((n_coordinates + 1.0) * (n_coordinates + 2.0))
    distance = np.sqrt(rng.random((n_draws, n_features), dtype=np.float32))
    angle = rng.random((n_draws, n_features), dtype=np.float32) * np.float32(2.0 * np.pi)
    distance *= radius[:, None].astype(np.float32)
    noise = np.empty((n_draws, 2 * n_features))
    np.multiply(distance, np.cos(angle), out=noise[:, :n_features])
    np.multiply(distance, np.sin(angle), out=noise[:, n_features:])
    return noise


def _draw_laplace(rng: np.random.Generator, n_draws: int, n_features: int, _: int) -> Floats:
    return rng.laplace(0.0, np.sqrt(0.5), (n_draws, 2 * n_features))


def _draw_gaussian(rng: np.random.Generator, n_draws: int, n_features: int, _: int) -> Floats:
    return rng.standard_normal((n_draws, 2 * n_features))


_LAWS: Final[Mapping[str, Callable[[np.random.Generator, int, int, int], Floats]]] = (
    MappingProxyType(
        {
            "discrete-knorm": _draw_knorm,
            "discrete-laplace": _draw_laplace,
            "discrete-gaussian": _draw_gaussian,
        }
    )
)
"""The law of the noise of one sketch, at variance 1 of a real coordinate."""


def draw_unit_noise(plan: SketchPlan, n_draws: int, rng: np.random.Generator) -> Floats:
    """Draw the noise of single sketches, at variance 1: shape ``(n_draws, 2 r)``, stacked.

    r features are those that a sketch carries.
    """
    law = _LAWS[plan.release.mechanism]
    return law(rng, n_draws, plan.frequencies_per_sketch, int(plan.releases_count))


def draw_noise(plan: SketchPlan, errors: Errors, n_draws: int, rng: np.random.Generator) -> Floats:
    """Draw the privacy noise of a mean or a difference: shape ``(n_draws, 2 m)``.

    Exact in law for blocks with few sketches, each with a radius of its own; else Gaussian.
    """
    m, r = plan.n_frequencies, plan.frequencies_per_sketch
    noise = np.zeros((n_draws, 2 * m))
    deviation = np.sqrt(plan.mechanism.variance)
    for block, members in enumerate(plan.blocks.members):
        places = np.concatenate([members, m + members])
        for factor in errors.factors[block].tolist():
            noise[:, places] += (factor * deviation) * draw_unit_noise(plan, n_draws, rng)
        if errors.gaussian[block]:
            scale = np.sqrt(errors.gaussian[block])
            noise[:, places] += scale * rng.standard_normal((n_draws, 2 * r))
    return noise


def draw_errors(
    plan: SketchPlan,
    errors: Errors,
    *,
    factor: Floats,
    phi: Floats,
    n_draws: int,
    rng: np.random.Generator,
) -> Floats:
    """Draw a difference of means where nothing has changed: shape ``(n_draws, 2 m)``.

    Parameters
    ----------
    plan
        The plan of the sketches.
    errors
        The sum of those of both sides.
    factor
        F with ``F F'`` the covariance of one record: shape ``(2 m, 2 m)``.
    phi
        Expected features, stacked: shape ``(2 m,)``. A secret number of records with relative
        variance c adds ``c phi phi'``.
    n_draws, rng
        Number and source of the draws.
    """
    drawn = draw_noise(plan, errors, n_draws, rng)
    block_of = np.tile(plan.blocks.block_of, 2)
    spread = np.sqrt(errors.sampling)[block_of]
    step = max(1, _PART // phi.size)
    for start in range(0, n_draws, step):
        part = drawn[start : start + step]
        part += (rng.standard_normal(part.shape) @ factor.T) * spread
    if plan.releases_count:
        relative = rng.standard_normal((n_draws, errors.counting.size)) * np.sqrt(errors.counting)
        drawn += relative[:, block_of] * phi
    return drawn
