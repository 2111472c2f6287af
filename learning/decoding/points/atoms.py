"""Dirac atoms in standardised coordinates, and the two objectives of CL-OMPR with their gradients.

Standardised: v = (x - centre) / unit, W = diag(unit) Omega, so phases W^T v are those of the data.
Complex vectors are stacked to real ones, [Re; Im], of length 2m: the atom of v is A(v) = [cos W^T
v; sin W^T v] with ||A(v)||^2 = m.
"""

import numpy as np

from sfumato.learning.decoding.problem import Vector

__all__ = ["compute_atoms", "compute_correlation", "compute_misfit"]


def compute_atoms(points: Vector, frequencies: Vector, factors: Vector | None = None) -> Vector:
    """Compute the atoms of several points.

    Parameters
    ----------
    points : float64 (K, d)
        v, unit lengths.
    frequencies : float64 (d, m)
        W, radians per unit length.
    factors : float64 (m,), optional
        omega of the equations.

    Returns
    -------
    float64 (K, 2m)
        Rows A(v_k) = [omega cos W^T v_k; omega sin W^T v_k].
    """
    phases = points @ frequencies
    cosines, sines = np.cos(phases), np.sin(phases)
    if factors is not None:
        cosines *= factors
        sines *= factors
    return np.concatenate([cosines, sines], axis=1)


def compute_correlation(
    point: Vector, frequencies: Vector, residual: Vector
) -> tuple[float, Vector]:
    """Compute the correlation of one normalised atom with the residual, and its gradient.

        g(v) = Re <A(v), r> / ||A(v)||,   dg/dv = W (-sin(p) Re r + cos(p) Im r) / sqrt(m)

    with p = W^T v.

    Parameters
    ----------
    point : float64 (d,)
        v, unit lengths.
    frequencies : float64 (d, m)
        W, radians per unit length.
    residual : float64 (2m,)
        r, [Re; Im].

    Returns
    -------
    tuple of float and float64 (d,)
        g and its gradient; Keriven et al. 2017, algorithm 1, step 1.
    """
    n_frequencies = frequencies.shape[1]
    phases = point @ frequencies
    cosines, sines = np.cos(phases), np.sin(phases)
    real, imaginary = residual[:n_frequencies], residual[n_frequencies:]
    value = cosines @ real + sines @ imaginary
    gradient = frequencies @ (cosines * imaginary - sines * real)
    norm = np.sqrt(n_frequencies)
    return float(value / norm), gradient / norm


def compute_misfit(
    points: Vector,
    weights: Vector,
    frequencies: Vector,
    target: Vector,
    factors: Vector | None = None,
) -> tuple[float, Vector, Vector]:
    """Compute the squared misfit of a mixture and its gradients.

        f(V, a) = ||r||^2,   r = z - sum_k a_k A(v_k),   df/da_k = -2 <A(v_k), r>,
        df/dv_k = -2 a_k W (-sin(p_k) Re r + cos(p_k) Im r),   p_k = W^T v_k

    Parameters
    ----------
    points : float64 (K, d)
        V, unit lengths.
    weights : float64 (K,)
        a.
    frequencies : float64 (d, m)
        W, radians per unit length.
    target : float64 (2m,)
        z, [Re; Im], each equation times its factor.
    factors : float64 (m,), optional
        omega of the equations.

    Returns
    -------
    tuple of float, float64 (K, d), float64 (K,)
        f, df/dV and df/da; Keriven et al. 2017, algorithm 1, step 5.
    """
    n_frequencies = frequencies.shape[1]
    atoms = compute_atoms(points, frequencies, factors)
    residual = target - weights @ atoms
    real, imaginary = residual[:n_frequencies], residual[n_frequencies:]
    slopes = atoms[:, :n_frequencies] * imaginary - atoms[:, n_frequencies:] * real
    towards_points = -2.0 * weights[:, None] * (slopes @ frequencies.T)
    return float(residual @ residual), towards_points, -2.0 * (atoms @ residual)
