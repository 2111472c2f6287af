"""A Gaussian for each part of the records, on a private basis, from sums of integers.

The one-shot rival of generative networks: first the second moments of all records, whose leading
eigenvectors are a basis of r directions; then count, mean and second moments of each part's records
on that basis. Parts are a public rule or a label. Both are sums of bounded integer vectors with one
discrete Gaussian each, and a curator releases them.

A fleet has no basis in common before it has released anything, so each part is a study of moments
in all dimensions instead, and :func:`fit_parts` makes Gaussians of their answers. That suits few
columns: d of them have d (d + 3) / 2 noisy sums a sketch.

A record is a vector u of integer steps in a ball of radius R about an origin, as
:class:`sfumato.shared.core.statistics.MomentsStatistic` has it. The basis is rounded to integers,
so that a record's place on it is exact in double precision: no record's bytes change how another is
rounded.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from sfumato.learning.clustering.methods.contract import Answer, Curator, Round, divide_by_shares
from sfumato.learning.estimate.moments import PrincipalComponents
from sfumato.shared.core.engines import default_engine
from sfumato.shared.core.quantise import Quantiser
from sfumato.shared.core.statistics import MomentsStatistic
from sfumato.shared.core.statistics.moments import MOMENT_STEPS
from sfumato.shared.errors import ConfigError
from sfumato.shared.privacy.mechanisms.gaussian import DiscreteGaussian, sigma_for_rho

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

BASIS_STEPS: Final = 1 << 15
"""Length of a direction after rounding; ``784 * 2047 * 2^15 < 2^53``."""
SHARE_OF_BASIS: Final = Fraction(3, 10)
"""The share of rho that the basis gets; the parts get the rest."""
MOST_PARTS: Final = 1000
_DIAGONAL: Final = 5
_FLOOR: Final = 0.012
"""Least standard deviation along a direction, in radii: below it noise alone makes eigenvalues."""
_TOLD: Final = 3.0
"""A part with fewer records than so many standard deviations of its count is taken for empty."""


@dataclass(frozen=True, kw_only=True, eq=False)
class MomentDesign:
    """All that is decided before a record is read.

    Parameters
    ----------
    lower, upper
        Shape ``(d,)``, the public bounds, data units: what is sampled lies between.
    origin
        ``centre`` of the bounds, or ``lower``, for sparse records: lengths are measured from there.
    norm
        R over the half width of the bounds about the centre, over their width about ``lower``.
    n_parts, n_directions
        k and r.
    relation
        ``replace-one`` or ``add-remove-one``.
    epsilon, delta
        Epsilon and delta of both releases together, exact.

    Raises
    ------
    ConfigError, PrivacyError
        A number is out of range, or there is no delta.
    """

    lower: Floats
    upper: Floats
    origin: str
    norm: float
    n_parts: int
    n_directions: int
    relation: str
    epsilon: Fraction
    delta: Fraction

    def __post_init__(self) -> None:
        d = len(self.lower)
        for name, value, most in (
            ("n_parts", self.n_parts, MOST_PARTS),
            ("n_directions", self.n_directions, d),
        ):
            if not 1 <= value <= most:
                raise ConfigError(
                    f"must be from 1 to {most}", field=name, fix="choose another number"
                )
        if self.origin not in ("centre", "lower"):
            raise ConfigError(
                "must be centre or lower",
                field="origin",
                fix="use lower where most values are at the lower bound, as in images",
            )
        if not 0.0 < self.norm < math.inf:
            raise ConfigError(
                "must be a positive number", field="norm", fix="use the length of a usual record"
            )

    @property
    def records_statistic(self) -> MomentsStatistic:
        """Moments of whole records, about the origin."""
        quantiser = Quantiser.from_bounds(*self._box)
        most = MOMENT_STEPS * math.sqrt(len(self.lower))
        return MomentsStatistic(
            quantiser=quantiser,
            norm_steps=max(1, round(min(most, MOMENT_STEPS * self.norm))),
            diagonal_weight=_DIAGONAL,
        )

    @property
    def parts_statistic(self) -> MomentsStatistic:
        """Moments of records on the basis, of one part."""
        # A place on a rounded basis may lie a little out of the ball, and is pulled in.
        far = np.full(self.n_directions, float(self.records_statistic.norm_steps * BASIS_STEPS))
        return MomentsStatistic(
            quantiser=Quantiser.from_bounds(-far, far),
            norm_steps=MOMENT_STEPS,
            diagonal_weight=_DIAGONAL,
        )

    @cached_property
    def rounds(self) -> tuple[Round, Round]:
        """The two planned releases, basis and parts, with the most that each may cost."""
        shares = {"basis": SHARE_OF_BASIS, "parts": 1 - SHARE_OF_BASIS}
        basis, parts = divide_by_shares(self.epsilon, self.delta, shares)
        return basis, parts

    @property
    def basis_noise(self) -> DiscreteGaussian:
        """Noise of the first release."""
        statistic = self.records_statistic
        squared = statistic.measure_l2_squared(self.relation)
        return self._make_noise(squared, statistic.n_coordinates, self.rounds[0])

    @property
    def parts_noise(self) -> DiscreteGaussian:
        """Noise of the second release: one record changes one part, or two where it is replaced."""
        statistic = self.parts_statistic
        squared = statistic.measure_l2_squared(self.relation)
        if self.relation == "replace-one":
            squared = max(squared, 2 * statistic.measure_l2_squared("add-remove-one"))
        n = self.n_parts * statistic.n_coordinates
        return self._make_noise(squared, n, self.rounds[1])

    def _make_noise(self, squared: int, n_coordinates: int, planned: Round) -> DiscreteGaussian:
        assert planned.rho is not None
        return DiscreteGaussian(
            n_coordinates=n_coordinates,
            sensitivity_l2_squared=squared,
            sigma=sigma_for_rho(squared, planned.rho),
            epsilon=planned.epsilon,
            delta=planned.delta,
            neighbouring=self.relation,
        )

    @property
    def public(self) -> dict[str, Any]:
        """Return the choices behind the releases: numbers, texts and lists."""
        return {
            "statistic": "moments of parts",
            "lower": self.lower.tolist(),
            "upper": self.upper.tolist(),
            "origin": self.origin,
            "norm_steps": self.records_statistic.norm_steps,
            "n_parts": self.n_parts,
            "n_directions": self.n_directions,
            "relation": self.relation,
            "epsilon": self.epsilon,
            "delta": self.delta,
        }

    def release(
        self, records: Floats, parts: NDArray[np.intp], curator: Curator
    ) -> tuple[Answer, Answer]:
        """Release the moments of some records, then those of their parts.

        Parameters
        ----------
        records
            Shape ``(n, d)``, data units; a record with a missing value adds nothing.
        parts
            Shape ``(n,)``: 0 to k - 1, or anything else for a record of no part.
        """
        steps, is_whole = self.clip(records)
        basis = curator.ask(self.basis_noise, self.sum_records(steps))
        directions = self.find_basis(basis.values)
        sums = self.sum_parts(steps, directions, parts[is_whole])
        return basis, curator.ask(self.parts_noise, sums.ravel())

    def read(self, answers: Sequence[Answer]) -> MomentMixtureModel:
        """Return the Gaussians of both answers: post-processing."""
        basis, parts = answers
        directions = self.find_basis(basis.values)
        return self.read_parts(parts.values.reshape(self.n_parts, -1), directions)

    @property
    def _box(self) -> tuple[Floats, Floats]:
        if self.origin == "centre":
            return self.lower, self.upper
        return 2.0 * self.lower - self.upper, self.upper

    def clip(self, records: Floats) -> tuple[Integers, NDArray[np.bool_]]:
        """Return clipped steps of whole records, and which records are whole."""
        statistic = self.records_statistic
        steps, is_whole = statistic.quantiser.quantise(records)
        return statistic.clip(steps[is_whole]), is_whole

    def sum_records(self, steps: Integers) -> Integers:
        """Return the sums of the first release: shape ``(1 + d + d (d + 1) / 2,)``, exact."""
        return _sum_moments(steps, self.records_statistic)

    def find_basis(self, sums: Integers) -> Integers:
        """Return r directions from noisy sums: shape ``(d, r)``, in steps of 1 / 2^15."""
        matrix = _read_products(sums, self.records_statistic)
        _, vectors = np.linalg.eigh(matrix)
        leading = vectors[:, ::-1][:, : self.n_directions]
        # Towards zero, so that no direction is longer than 1.
        basis: Integers = np.trunc(leading * BASIS_STEPS).astype(np.int64)
        return basis

    def sum_parts(self, steps: Integers, basis: Integers, parts: NDArray[np.intp]) -> Integers:
        """Return the sums of the second release: shape ``(k, 1 + r + r (r + 1) / 2)``, exact.

        Parameters
        ----------
        steps
            Shape ``(n, d)``, clipped.
        parts
            Shape ``(n,)``; a record whose part is none of 0 to k - 1 adds nothing.
        """
        statistic, engine = self.parts_statistic, default_engine()
        sums = np.zeros((self.n_parts, statistic.n_coordinates), dtype=np.int64)
        # Exact: whole numbers below 2^53, in whatever order they are added.
        places = steps.astype(np.float64) @ basis.astype(np.float64)
        for i in range(self.n_parts):
            engine.add(places[parts == i], statistic, sums=sums[i])
        return sums

    def read_parts(self, sums: Integers, basis: Integers) -> MomentMixtureModel:
        """Return the Gaussians of noisy sums: post-processing."""
        statistic, noise = self.parts_statistic, self.parts_noise
        counts = sums[:, 0] / statistic.constant
        told = _TOLD * noise.sigma / statistic.constant
        scale = self.records_statistic.norm_steps / MOMENT_STEPS
        means, factors = [], []
        for row, count in zip(sums, counts, strict=True):
            n = max(count, told)
            mean = row[1 : 1 + self.n_directions] / statistic.mean_weight / n
            second = _read_products(row, statistic) / n
            values, vectors = np.linalg.eigh(second - np.outer(mean, mean))
            floor = (_FLOOR * MOMENT_STEPS) ** 2
            deviations = np.sqrt(np.clip(values, floor, MOMENT_STEPS**2))
            means.append(mean * scale)
            factors.append(vectors * deviations * scale)
        sizes = np.where(counts < told, 0.0, counts)
        lower, upper = self._box
        return MomentMixtureModel(
            sizes=sizes,
            means=np.array(means),
            factors=np.array(factors),
            basis=basis / BASIS_STEPS,
            step=(upper - lower) / 2.0 / MOMENT_STEPS,
            origin=(upper + lower) / 2.0,
            lower=self.lower,
            upper=self.upper,
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class MomentMixtureModel:
    """A Gaussian for each part on a basis of r directions.

    Parameters
    ----------
    sizes
        Shape ``(k,)``: records of each part, with noise; 0 for a part that noise hides.
    means, factors
        Shapes ``(k, r)`` and ``(k, r, r)``, steps: covariances are ``F F'``.
    basis
        Shape ``(d, r)``: directions of length 1.
    step, origin
        Shape ``(d,)``: data units of one step, and where lengths are measured from.
    lower, upper
        Shape ``(d,)``, data units.
    """

    sizes: Floats
    means: Floats
    factors: Floats
    basis: Floats
    step: Floats
    origin: Floats
    lower: Floats
    upper: Floats

    @property
    def centres(self) -> Floats:
        """Means of the parts: shape ``(k, d)``, data units."""
        return self.origin + (self.means @ self.basis.T) * self.step

    @property
    def covariances(self) -> Floats:
        """Covariances of the parts: shape ``(k, d, d)``, squared data units."""
        spread = (self.basis @ self.factors) * self.step[:, None]
        found: Floats = spread @ spread.transpose(0, 2, 1)
        return found

    def draw(
        self, n: int, rng: np.random.Generator, *, parts: Sequence[int] | None = None
    ) -> tuple[Floats, NDArray[np.intp]]:
        """Draw n records, data units, and their parts: shapes ``(n, d)`` and ``(n,)``.

        Parameters
        ----------
        parts
            The part of each record; None to draw them by their sizes.
        """
        chosen = (
            rng.choice(len(self.sizes), size=n, p=self.sizes / self.sizes.sum())
            if parts is None
            else np.asarray(parts, dtype=np.intp)
        )
        normal = rng.standard_normal((n, self.means.shape[1]))
        places = self.means[chosen] + np.einsum("nij,nj->ni", self.factors[chosen], normal)
        records = self.origin + (places @ self.basis.T) * self.step
        return np.clip(records, self.lower, self.upper), chosen


def fit_parts(
    answers: Sequence[PrincipalComponents], *, lower: Floats, upper: Floats
) -> MomentMixtureModel:
    """Return a Gaussian for each part of the answers of studies of moments: post-processing.

    A part has size 0 where noise hides the number of its records, or by itself could have made the
    mean square of its places.

    Parameters
    ----------
    answers
        Answers of the parts.
    lower, upper
        Shape ``(d,)``, the public bounds, data units.
    """
    step, origin = (upper - lower) / 2.0, (upper + lower) / 2.0
    sizes, means, factors = [], [], []
    for found in answers:
        is_counted = found.n_complete > _TOLD * found.n_complete_error
        mean = (found.mean - origin) / step
        square = float(mean @ mean) + max(0.0, float(found.raw_eigenvalues[0]))
        # In half widths of the bounds, which are the metric of a study.
        is_told = is_counted and found.edge < min(square, 1.0)
        sizes.append(found.n_complete if is_told else 0.0)
        means.append(mean)
        values, vectors = np.linalg.eigh(found.covariance / np.outer(step, step))
        factors.append(vectors * np.sqrt(np.maximum(values, 0.0)))
    return MomentMixtureModel(
        sizes=np.array(sizes),
        means=np.array(means),
        factors=np.array(factors),
        basis=np.eye(len(step)),
        step=step,
        origin=origin,
        lower=lower,
        upper=upper,
    )


def _sum_moments(u: Integers, statistic: MomentsStatistic) -> Integers:
    """Return the sums that :class:`MomentsStatistic` defines, of clipped steps.

    By products of matrices, which are exact in double precision and fast in many dimensions.
    """
    d = statistic.n_dimensions
    sums = np.zeros(statistic.n_coordinates, dtype=np.int64)
    sums[0] = statistic.constant * len(u)
    sums[1 : 1 + d] = statistic.mean_weight * u.sum(axis=0)
    upper = np.triu_indices(d)
    for start in range(0, len(u), 1 << 14):
        # At most 2^14 products below 2^22.
        exact = u[start : start + (1 << 14)].astype(np.float64)
        sums[1 + d :] += (exact.T @ exact)[upper].astype(np.int64)
    sums[1 + d :] *= statistic.product_weights
    return sums


def _read_products(sums: Integers, statistic: MomentsStatistic) -> Floats:
    """Return the matrix of sums of ``u_i u_j``: shape ``(d, d)``, symmetric."""
    d = statistic.n_dimensions
    matrix = np.zeros((d, d))
    rows, columns = np.triu_indices(d)
    matrix[rows, columns] = sums[1 + d :] / statistic.product_weights
    matrix[columns, rows] = matrix[rows, columns]
    return matrix
