"""Random targets and mixtures for the tests of the mixture decoder's parts."""

import numpy as np
from numpy.typing import NDArray

from sfumato.learning.decoding.mixture.ellipsoids import Ellipsoids
from sfumato.learning.decoding.mixture.gaussians import Atoms, Target, prepare_target
from sfumato.learning.decoding.mixture.round_descent import Fitted, evaluate
from sfumato.learning.decoding.problem import DecodingProblem
from sfumato.learning.decoding.solver import Monitor

QUIET = Monitor()


def draw_target(
    rng: np.random.Generator,
    *,
    n_dimensions: int = 3,
    n_frequencies: int = 40,
    atoms: Atoms | None = None,
    noise_variance: float = 0.0,
    is_weighted: bool = False,
) -> Target:
    """Draw frequencies, and a sketch of the atoms or, without any, of nothing but chance."""
    d, m = n_dimensions, n_frequencies
    frequencies = rng.normal(size=(d, m)) / np.sqrt(d)
    sketch: NDArray[np.complex128]
    if atoms is None:
        sketch = rng.uniform(size=m) * np.exp(2j * np.pi * rng.uniform(size=m))
    else:
        sketch = compute_sketch(atoms, frequencies)
    noise = 10.0 ** rng.uniform(-2.0, 0.0, size=m) if is_weighted else None
    return prepare_target(
        DecodingProblem(
            sketch=sketch,
            frequencies=frequencies,
            lower=np.full(d, -10.0),
            upper=np.full(d, 10.0),
            centre=np.zeros(d),
            unit=np.ones(d),
            noise_variance=noise_variance if noise is None else float(np.mean(noise)),
            feature_noise=noise,
            n_clusters=1,
        )
    )


def compute_sketch(atoms: Atoms, frequencies: NDArray[np.float64]) -> NDArray[np.complex128]:
    """Compute sum_k a_k exp(i w.c_k - s_k |w|^2 / 2) in double precision: complex128 (m,)."""
    squares = np.sum(frequencies**2, axis=0)
    exponents = 1j * atoms.centres @ frequencies - 0.5 * atoms.variances[:, None] * squares
    sketch: NDArray[np.complex128] = atoms.weights @ np.exp(exponents)
    return sketch


def draw_atoms(rng: np.random.Generator, n_atoms: int, *, n_dimensions: int = 3) -> Atoms:
    """Draw a mixture well inside the box and the bounds."""
    return Atoms(
        centres=rng.uniform(-6.0, 6.0, size=(n_atoms, n_dimensions)),
        log_variances=rng.uniform(-1.0, 1.0, size=n_atoms),
        weights=rng.uniform(0.2, 1.0, size=n_atoms) / n_atoms,
    )


def draw_ellipsoids(rng: np.random.Generator, n_atoms: int, *, slanted: bool) -> Ellipsoids:
    """Draw a mixture of three-dimensional ellipsoids well inside the box and the bounds."""
    slants = np.tril(rng.uniform(-0.5, 0.5, size=(n_atoms, 3, 3)), -1)
    return Ellipsoids(
        centres=rng.uniform(-6.0, 6.0, size=(n_atoms, 3)),
        logs=rng.uniform(-0.5, 0.5, size=(n_atoms, 3)),
        slants=slants if slanted else np.zeros_like(slants),
        weights=rng.uniform(0.2, 1.0, size=n_atoms) / n_atoms,
    )


def draw_fitted(seed: int, n_atoms: int) -> tuple[Target, Fitted]:
    """Draw a target of chance, every other one weighted, and a mixture that does not explain it."""
    rng = np.random.default_rng(seed)
    target = draw_target(rng, is_weighted=seed % 2 == 1)
    return target, evaluate(target, draw_atoms(rng, n_atoms))
