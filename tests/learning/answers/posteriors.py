"""Posteriors of known mixtures."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sfumato.learning.decoding.density import Posterior


def make_posterior(
    means: NDArray[np.float64],
    roots: NDArray[np.float64],
    *,
    half_width: float = 10.0,
    weights: NDArray[np.float64] | None = None,
    held_out: float = 1.0,
    is_trusted: bool = True,
) -> Posterior:
    """Return equal draws; shapes ``(n, K, d)`` and ``(n, K, d, d)``, weights ``(K,)``."""
    n, k, d = means.shape
    weights = np.full(k, 1.0 / k) if weights is None else weights
    return Posterior(
        shares=np.full(n, 1.0 / n),
        draw_of=np.repeat(np.arange(n), k),
        weights=np.tile(weights, n),
        means=means.reshape(n * k, d),
        roots=roots.reshape(n * k, d, d),
        lower=np.full(d, -half_width),
        upper=np.full(d, half_width),
        doubt=0.0,
        held_out=held_out,
        is_trusted=is_trusted,
    )


def draw_posterior(
    rng: np.random.Generator, *, n_draws: int, n_atoms: int, d: int, slanted: bool
) -> Posterior:
    """Draw a posterior: atoms of any place and shape, some of them beyond the box."""
    roots = np.zeros((n_draws, n_atoms, d, d))
    along = np.arange(d)
    roots[:, :, along, along] = np.exp(rng.normal(0.0, 0.6, size=(n_draws, n_atoms, d)))
    if slanted:
        roots += np.tril(rng.normal(size=roots.shape), -1)
    weights = rng.dirichlet(np.ones(n_atoms))
    return make_posterior(
        rng.normal(0.0, 5.0, size=(n_draws, n_atoms, d)),
        roots,
        half_width=float(rng.uniform(3.0, 12.0)),
        weights=weights,
    )
