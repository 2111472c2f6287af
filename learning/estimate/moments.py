"""Mean, covariance and principal components from noised second moments, with their errors.

A record is a vector u of integer steps, in a ball whose radius is public. The sums over complete
records of u and of ``u_i u_j`` are released with noise of a variance that is known exactly. This
module turns them into an answer; it is post-processing and costs no privacy.

The law of the noise on the covariance, :mod:`sfumato.learning.estimate.moment_noise`, gives how far
an eigenvalue is lifted by noise, how far a direction is turned, and how wide each band is.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sfumato.learning.estimate.moment_noise import (
    NoiseLaw,
    expect_errors,
    expect_turns,
    find_gaps,
    remove_lift,
)
from sfumato.shared.core.quantise import STEPS
from sfumato.shared.core.statistics.moments import WEIGHT, MomentsStatistic
from sfumato.shared.errors import DecodingError

Floats = NDArray[np.float64]

_MERGED = 16
"""A step of moments is so many of the quantiser's."""
_WIDE = 2.0
_TIGHT, _LOOSE = 0.85, 0.25
_MISSING = 3.0
"""Records are taken for incomplete where the counts differ by more than so many sd."""
_DISTINCT = 2.0
"""A number smaller than so many of its sd is not distinct from noise."""


@dataclass(frozen=True, kw_only=True)
class Finding:
    """Something that a person should know about the answer, as a code and a number.

    Parameters
    ----------
    code
        ``records-missing``: the share of records that seem incomplete. ``records-hidden``: the
        number of records is not distinct from noise; its error as a share of it. ``norm-tight``:
        the mean squared length of a record over R^2, so large that many records must have been
        shortened. ``norm-wide``: the same, so small that a smaller R would have less noise.
        ``no-direction``: no direction stands out from noise and from the others; the share of the
        trace that an eigenvalue would need.
    value
        The number; a share.
    """

    code: str
    value: float


@dataclass(frozen=True, kw_only=True, eq=False)
class PrincipalComponents:
    """Mean, covariance and principal components of records, with the errors that noise causes.

    The errors are about the records themselves. As a sample of a larger population they err by
    their number besides.

    Parameters
    ----------
    n_complete, n_complete_error
        Records without missing value, and the standard deviation of that number.
    mean, mean_error
        Shape ``(d,)``, data units; and standard deviations.
    covariance
        Shape ``(d, d)``, data units: the nearest positive semidefinite matrix in the metric.
    correlation, correlation_low, correlation_high
        Shape ``(d, d)``; and 95 % bands of each entry. Where a variance is not distinct from
        noise, the correlation is 0 and its band is [-1, 1].
    metric
        Shape ``(d,)``: data units for one unit of the metric.
    directions
        Shape ``(d, d)``: row i is direction i, of length 1, in the metric.
    raw_eigenvalues, eigenvalues
        Shape ``(d,)``, squared units of the metric, in descending order: with the noise; and with
        its expected lift removed, where components that are not told apart have their mean.
    share, share_low, share_high
        Shape ``(d,)``: each eigenvalue over their sum; and 95 % bands.
    is_parted
        Shape ``(d,)``: whether the first i + 1 directions together are told apart from the rest.
    is_told_apart
        Shape ``(d,)``: whether a direction by itself is.
    loadings_error
        Shape ``(d, d)``, data units: standard deviation of each of the loadings, to first order;
        infinite where the direction is not told apart.
    expected_sin_squared
        Shape ``(d,)``: the expected squared sine of the angle to the true direction; 1 means that
        the direction is arbitrary.
    edge
        Eigenvalues below it may be noise alone, squared units of the metric: noise by itself has a
        larger one in at most one case of twenty.
    findings
        What else a person should know.
    """

    n_complete: float
    n_complete_error: float
    mean: Floats
    mean_error: Floats
    covariance: Floats
    correlation: Floats
    correlation_low: Floats
    correlation_high: Floats
    metric: Floats
    directions: Floats
    raw_eigenvalues: Floats
    eigenvalues: Floats
    share: Floats
    share_low: Floats
    share_high: Floats
    is_parted: NDArray[np.bool_]
    is_told_apart: NDArray[np.bool_]
    loadings_error: Floats
    expected_sin_squared: Floats
    edge: float
    findings: tuple[Finding, ...]

    @property
    def loadings(self) -> Floats:
        """Shape ``(d, d)``, data units: row i moves along direction i by one spread of it."""
        spreads = np.sqrt(self.eigenvalues)[:, np.newaxis]
        moved: Floats = self.directions * spreads * self.metric
        return moved


def estimate_components(
    sums: NDArray[np.int64] | Floats,
    statistic: MomentsStatistic,
    *,
    noise_variance: float,
    n_records: float | None = None,
    n_records_variance: float = 0.0,
    metric: Floats | None = None,
) -> PrincipalComponents:
    """Estimate mean, covariance and principal components from noised sums.

    Eigenvalues are freed of the lift that noise gives them: to second order
    ``E l_i = lambda_i + sum over j of Var(v_i' N v_j) / (lambda_i - lambda_j)``, solved for lambda;
    for one large eigenvalue beside equal ones this is ``(l + sqrt(l^2 - edge^2)) / 2``. Two
    neighbours are told apart if they differ by more than five standard deviations of
    ``v_i' N v_j``, which equal ones do in at most one case of twenty; noise alone makes
    eigenvalues repel, so that a gap by itself means nothing. Of a direction,
    ``E sin^2 = sum over j of Var(v_i' N v_j) / (lambda_i - lambda_j)^2``.

    Parameters
    ----------
    sums
        Shape ``(1 + d + d (d + 1) / 2,)``: the statistic of all records, plus noise.
    statistic
        Its definition. Where it has an encoder, data units are those of the encoded coordinates.
    noise_variance
        Variance of the noise on each sum, in squared units of the sums.
    n_records, n_records_variance
        Records, complete or not, and the noise variance of that number; None if it is not known.
    metric
        Shape ``(d,)``, data units: one unit of the metric in each dimension, such as a scale that
        makes dimensions comparable; the half widths if not given. It must not be read off the
        records.

    Returns
    -------
    PrincipalComponents
        The answer.

    Raises
    ------
    DecodingError
        The shape of the sums or of the metric does not fit.
    """
    d = statistic.n_dimensions
    centre, widths = statistic.quantiser.centre, statistic.quantiser.half_width
    _require_shapes(np.shape(sums), statistic, metric)
    sd = math.sqrt(noise_variance)
    n, n_error = _count_complete(
        float(sums[0]), statistic.constant, sd, n_records, n_records_variance
    )
    step = widths * (_MERGED / STEPS)
    one = widths if metric is None else np.asarray(metric, dtype=np.float64)
    g = step / one
    mean = np.asarray(sums[1 : d + 1], dtype=np.float64) / (statistic.mean_weight * n)
    noise = NoiseLaw(
        t=sd / (WEIGHT * n),
        s=sd / (statistic.diagonal_weight * n),
        r=sd / (statistic.mean_weight * n),
        f=n_error / n,
        g=g,
        m=g * mean,
    )
    seconds = _unpack(np.asarray(sums[d + 1 :], dtype=np.float64) / (statistic.product_weights * n))
    centred = seconds - np.outer(mean, mean) + noise.r**2 * np.eye(d)
    found = centred * np.outer(g, g)
    raw, q = _decompose(found)
    variances = noise.vary(q)
    is_parted = find_gaps(raw, variances, noise)
    values = remove_lift(raw, variances, is_parted)
    told_apart = is_parted & np.concatenate([[True], is_parted[:-1]])
    trace = max(float(np.sum(raw)), noise.reach)
    projected = (q * np.maximum(raw, 0.0)) @ q.T * np.outer(one, one)
    low, high = _find_bands(raw, values, trace, q, noise, told_apart)
    length = float(np.trace(seconds)) / statistic.norm_steps**2
    turns = expect_turns(values, variances, is_parted)
    errors = expect_errors(values, variances, turns, q) * one
    correlation, error = _correlate(centred, mean, noise)
    return PrincipalComponents(
        n_complete=n,
        n_complete_error=n_error,
        mean=centre + step * mean,
        mean_error=step * np.hypot(noise.r, noise.f * mean),
        covariance=projected,
        correlation=correlation,
        correlation_low=np.maximum(-1.0, correlation - _WIDE * error),
        correlation_high=np.minimum(1.0, correlation + _WIDE * error),
        metric=one,
        directions=np.ascontiguousarray(q.T),
        raw_eigenvalues=raw,
        eigenvalues=values,
        share=values / max(float(np.sum(values)), np.finfo(float).tiny),
        share_low=low,
        share_high=high,
        is_parted=is_parted,
        is_told_apart=told_apart,
        loadings_error=np.where(told_apart[:, np.newaxis], errors, np.inf),
        expected_sin_squared=np.minimum(np.sum(turns, axis=1), 1.0),
        edge=noise.reach,
        findings=_list_findings(
            n_records,
            n,
            n_error,
            length=length,
            length_error=math.hypot(
                math.sqrt(d) * noise.s / statistic.norm_steps**2, noise.f * length
            ),
            is_told_apart=told_apart,
            needed=noise.reach / trace,
        ),
    )


def _require_shapes(
    shape: tuple[int, ...], statistic: MomentsStatistic, metric: Floats | None
) -> None:
    if shape != (statistic.n_coordinates,):
        raise DecodingError(
            f"must have shape ({statistic.n_coordinates},) and has {shape}",
            field="sums",
            fix="pass the sums of this statistic, without an appended number of records",
        )
    if metric is None:
        return
    d = statistic.n_dimensions
    if np.shape(metric) != (d,) or not np.all(np.isfinite(metric) & (np.asarray(metric) > 0)):
        raise DecodingError(
            f"must be {d} finite positive numbers",
            field="metric",
            fix="give one unit a dimension",
        )


def _count_complete(
    first: float, constant: int, sd: float, n_records: float | None, variance: float
) -> tuple[float, float]:
    """Estimate the number of complete records, and its standard deviation.

    The number of records, complete or not, has far less noise. It is taken unless the difference
    is distinct from noise. A number that noise hides is taken for its standard deviation: an upper
    bound of its size, and directions hardly depend on it.
    """
    n, error = first / constant, sd / constant
    if n_records is not None:
        is_hidden = n < _DISTINCT * error
        if is_hidden or n_records - n <= _MISSING * math.hypot(error, math.sqrt(variance)):
            weight = error**2 / (error**2 + variance) if error else 1.0
            n = weight * n_records + (1 - weight) * n
            error = math.sqrt(weight * variance)
    return max(n, error, 1.0), error


def _unpack(triangle: Floats) -> Floats:
    """Return the symmetric matrix of an upper triangle, row by row."""
    d = math.isqrt(2 * len(triangle))
    rows, columns = np.triu_indices(d)
    matrix = np.empty((d, d))
    matrix[rows, columns] = matrix[columns, rows] = triangle
    return matrix


def _decompose(matrix: Floats) -> tuple[Floats, Floats]:
    """Return eigenvalues in descending order, and eigenvectors as columns.

    The largest entry of each is positive, so that the answer does not depend on the library.
    """
    values, vectors = np.linalg.eigh(matrix)
    values, vectors = values[::-1], vectors[:, ::-1]
    largest = np.argmax(np.abs(vectors), axis=0)
    signs = np.where(vectors[largest, np.arange(len(values))] < 0, -1.0, 1.0)
    return np.ascontiguousarray(values), np.ascontiguousarray(vectors * signs)


def _find_bands(
    raw: Floats,
    values: Floats,
    trace: float,
    q: Floats,
    noise: NoiseLaw,
    is_told_apart: NDArray[np.bool_],
) -> tuple[Floats, Floats]:
    """Find 95 % bands of the shares.

    The band of a direction that is told apart follows from the first-order variance, that of any
    other from this: no eigenvalue moves further than the norm of the noise.
    """
    share = values / trace
    half = _WIDE * np.sqrt(noise.vary_share(q, share)) / trace
    low = np.where(is_told_apart, share - half, (raw - noise.reach) / trace)
    high = np.where(is_told_apart, share + half, (raw + noise.reach) / trace)
    return np.clip(low, 0.0, 1.0), np.clip(high, 0.0, 1.0)


def _correlate(centred: Floats, mean: Floats, noise: NoiseLaw) -> tuple[Floats, Floats]:
    """Return correlations, and their standard deviations to first order: shapes ``(d, d)``."""
    t, s, r, f = noise.t, noise.s, noise.r, noise.f
    own = np.diag(centred)
    error = np.sqrt(s**2 + 4 * (r * mean) ** 2 + 2 * r**4 + (f * (mean**2 - own)) ** 2)
    is_known = (own > _DISTINCT * error) & (own > 0)
    variance = np.where(is_known, own, 1.0)
    spread = np.sqrt(np.outer(variance, variance))
    known = np.outer(is_known, is_known)
    found = np.where(known, np.clip(centred / spread, -1.0, 1.0), 0.0)
    # How the correlation moves with the error of the mean of the row's dimension.
    slope = found * (mean / variance)[:, np.newaxis] - mean / spread
    shrunk = 1 / variance**2
    moved = np.outer(mean, mean) / spread - found / 2 * (
        (mean**2 / variance)[:, np.newaxis] + mean**2 / variance
    )
    squares = (t**2 + r**4) / spread**2
    squares = squares + found**2 / 4 * s**2 * (shrunk[:, np.newaxis] + shrunk)
    squares = squares + r**2 * (slope**2 + slope.T**2) + (f * moved) ** 2
    error_of = np.where(known, np.sqrt(squares), np.inf)
    np.fill_diagonal(found, 1.0)
    np.fill_diagonal(error_of, 0.0)
    return found, error_of


def _list_findings(
    n_records: float | None,
    n_complete: float,
    n_complete_error: float,
    *,
    length: float,
    length_error: float,
    is_told_apart: NDArray[np.bool_],
    needed: float,
) -> tuple[Finding, ...]:
    findings = []
    # Lengths are over the number of records: where noise hides it, they say nothing.
    is_hidden = n_complete < _DISTINCT * n_complete_error
    if is_hidden:
        findings.append(Finding(code="records-hidden", value=n_complete_error / n_complete))
    if n_records is not None and n_complete < n_records:
        findings.append(Finding(code="records-missing", value=1 - n_complete / n_records))
    margin = _WIDE * length_error
    is_seen = not is_hidden and margin < _TIGHT - _LOOSE
    if is_seen and length - margin > _TIGHT:
        findings.append(Finding(code="norm-tight", value=length))
    if is_seen and length + margin < _LOOSE:
        findings.append(Finding(code="norm-wide", value=length))
    if len(is_told_apart) > 1 and not is_told_apart.any():
        findings.append(Finding(code="no-direction", value=min(1.0, needed)))
    return tuple(findings)
