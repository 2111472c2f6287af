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

from sfumato.learning.insight.covariance import Floats
from sfumato.learning.insight.model import StudyModel
from sfumato.learning.insight.selection import Errors
from sfumato.shared.plan import SketchPlan

__all__ = ["draw_errors", "draw_noise", "draw_sampling", "draw_unit_noise"]

_SAMPLES: Final = 2048
"""Records sampled of a density to draw from its covariance: variances to 3 %, over all densities
to less."""


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

    r features are those that a sketch carries. The total of a batch has two draws of the mechanism.
    """
    law = _LAWS[plan.release.mechanism]
    r, count = plan.frequencies_per_sketch, int(plan.releases_count)
    drawn = [law(rng, n_draws, r, count) for _ in range(plan.n_noises)]
    return drawn[0] if len(drawn) == 1 else np.sum(drawn, axis=0) / np.sqrt(len(drawn))


def draw_noise(plan: SketchPlan, errors: Errors, n_draws: int, rng: np.random.Generator) -> Floats:
    """Draw the privacy noise of a mean or a difference: shape ``(n_draws, 2 m)``.

    Exact in law for blocks with few sketches, each with a radius of its own; else Gaussian.
    """
    m, r = plan.n_frequencies, plan.frequencies_per_sketch
    noise = np.zeros((n_draws, 2 * m))
    deviation = np.sqrt(plan.released_variance)
    for block, members in enumerate(plan.blocks.members):
        places = np.concatenate([members, m + members])
        for factor in errors.factors[block].tolist():
            noise[:, places] += (factor * deviation) * draw_unit_noise(plan, n_draws, rng)
        if errors.gaussian[block]:
            scale = np.sqrt(errors.gaussian[block])
            noise[:, places] += scale * rng.standard_normal((n_draws, 2 * r))
    return noise


def draw_sampling(model: StudyModel, n_draws: int, rng: np.random.Generator) -> Floats:
    """Draw sampling errors, as of a mean of one record: shape ``(n_draws, 2 m)``, stacked.

    Each draw has the covariance of a density drawn from the posterior, so that the draws are wide
    where the sketches leave the covariance open. They are Gaussian combinations of the features of
    sampled records, which needs no covariance matrix of each density; and independent between
    blocks, whose records are others.
    """
    if not model.draws:
        return rng.standard_normal((n_draws, model.features.size)) @ model.factor.T
    m, centre = model.plan.n_frequencies, model.plan.quantiser.centre
    frequencies = model.frequencies.astype(np.float32)
    shares = np.array([share for share, _ in model.draws])
    chosen = rng.choice(len(shares), size=n_draws, p=shares / np.sum(shares))
    drawn = np.empty((n_draws, 2 * m))
    for number in np.unique(chosen).tolist():
        rows = np.flatnonzero(chosen == number)
        records = model.draws[number][1].draw_samples(_SAMPLES, rng=rng)
        phases = (records - centre).astype(np.float32) @ frequencies
        features = np.concatenate([np.cos(phases), np.sin(phases)], axis=1)
        features -= np.mean(features, axis=0)
        features /= np.float32(np.sqrt(_SAMPLES - 1.0))
        for members in model.plan.blocks.members:
            places = np.concatenate([members, m + members])
            chance = rng.standard_normal((rows.size, _SAMPLES), dtype=np.float32)
            drawn[np.ix_(rows, places)] = chance @ features[:, places]
    return drawn


def draw_errors(
    model: StudyModel, errors: Errors, *, n_draws: int, rng: np.random.Generator
) -> Floats:
    """Draw a difference of means where nothing has changed: shape ``(n_draws, 2 m)``.

    Parameters
    ----------
    model
        Model of the study. A secret number of records with relative variance c adds ``c phi phi'``.
    errors
        The sum of those of both sides.
    n_draws, rng
        Number and source of the draws.
    """
    plan = model.plan
    drawn = draw_noise(plan, errors, n_draws, rng)
    block_of = np.tile(plan.blocks.block_of, 2)
    drawn += draw_sampling(model, n_draws, rng) * np.sqrt(errors.sampling)[block_of]
    if plan.releases_count:
        relative = rng.standard_normal((n_draws, errors.counting.size)) * np.sqrt(errors.counting)
        drawn += relative[:, block_of] * model.features
    return drawn
