"""The inverse problem: find k weighted points that have a given sketch.

Notation: s = `sketch` (m,), Omega = `frequencies` (d, m), C = centroids (k, d),
a = weights.

    s_j = sum_k a_k exp(i omega_j . (c_k - centre)) + noise_j,     E|noise_j|^2 = `noise_variance`
"""

import math
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from sfumato.shared.errors import DecodingError

__all__ = ["Box", "DecodingProblem", "Vector", "freeze"]

Vector = NDArray[np.float64]

# An average of features of modulus 1 has modulus at most 1. Masks divide by the expected number of
# records of a feature rather than the actual one, hence the 2. Not even Laplace noise reaches 20
# standard deviations (probability e^-28 per real coordinate), so a larger sketch was not divided by
# A alpha n.
_PLAUSIBLE_MODULUS: Final = 2.0
_PLAUSIBLE_DEVIATIONS: Final = 20.0
# Largest relative error of a mean that the caller rounded.
_ROUNDING: Final = 1e-9
# Beyond this many radians a float64 phase is off by 1e-7 rad or more: probably units were mixed.
_LARGEST_PHASE: Final = 1e9


@dataclass(frozen=True, kw_only=True, eq=False)
class Box:
    """An axis-parallel box: the points between `lower` and `upper`, float64 (d,) each."""

    lower: Vector
    upper: Vector


@dataclass(frozen=True, kw_only=True, eq=False)
class DecodingProblem:
    """A global sketch with all public knowledge needed to recover its centroids.

    Parameters
    ----------
    sketch : complex128 (m,)
        Normalised sketch; a point mass at `centre` has modulus 1 in each coordinate.
    frequencies : float64 (d, m)
        Omega, radians per data unit.
    lower, upper : float64 (d,)
        The plan's public box, data units: it holds all records, because devices clip them, and all
        centroids.
    centre : float64 (d,)
        Origin of the phases, data units.
    unit : float64 (d,)
        Public length per dimension (the plan's scale), data units; it only conditions the
        optimisation.
    noise_variance : float
        E|noise_j|^2 per complex coordinate of `sketch`, privacy noise and sampling together; >= 0.
        The mean over coordinates.
    n_clusters : int
        k >= 1, with k (d + 1) <= 2 m.
    sampling_variance : float
        The part of `noise_variance` due to the sampling of records, (1 - |z|^2) / n. It is
        correlated between coordinates, unlike privacy noise; 0 treats the whole variance as
        independent.
    feature_noise : float64 (m,), optional
        E|noise_j|^2 of each coordinate, where they differ: finite, >= 0, with the mean
        `noise_variance`. None stands for equal ones. Where one is below `sampling_variance`, all
        of it counts as sampling.
    search_box : Box, optional
        Where centroids are searched for first, inside the plan's box; None stands for that box.
    is_level : bool (d,), optional
        The axes of categorical levels, where every record is 0 or 1, an end of the box. None stands
        for none. It only affects warnings.

    Raises
    ------
    DecodingError
        A field has the wrong shape or range; the message names field, rule and fix.

    Guarantees
    ----------
    The arrays are read-only copies of the stated type: later changes to the caller's arrays have no
    effect. Instances compare by identity.
    """

    sketch: NDArray[np.complex128]
    frequencies: Vector
    lower: Vector
    upper: Vector
    centre: Vector
    unit: Vector
    noise_variance: float
    n_clusters: int
    sampling_variance: float = 0.0
    feature_noise: Vector | None = None
    search_box: Box | None = None
    is_level: NDArray[np.bool_] | None = None

    def __post_init__(self) -> None:
        """Freeze the arrays and refuse a problem that cannot be decoded."""
        object.__setattr__(self, "sketch", freeze("sketch", self.sketch, np.complex128, 1))
        object.__setattr__(
            self, "frequencies", freeze("frequencies", self.frequencies, np.float64, 2)
        )
        for name in ("lower", "upper", "centre", "unit"):
            object.__setattr__(self, name, freeze(name, getattr(self, name), np.float64, 1))
        if self.feature_noise is not None:
            noise = freeze("feature_noise", self.feature_noise, np.float64, 1)
            object.__setattr__(self, "feature_noise", noise)
        if self.search_box is not None:
            frozen = Box(
                lower=freeze("search_box.lower", self.search_box.lower, np.float64, 1),
                upper=freeze("search_box.upper", self.search_box.upper, np.float64, 1),
            )
            object.__setattr__(self, "search_box", frozen)
        if self.is_level is not None:
            object.__setattr__(self, "is_level", freeze("is_level", self.is_level, np.bool_, 1))
        self._check_shapes()
        self._check_geometry()
        self._check_search_box()
        self._check_noise()
        self._check_feature_noise()
        self._check_modulus()
        self._check_n_clusters()

    @property
    def n_dimensions(self) -> int:
        """The number d of dimensions of a record."""
        return int(self.frequencies.shape[0])

    @property
    def n_frequencies(self) -> int:
        """The number m of complex coordinates of the sketch."""
        return int(self.frequencies.shape[1])

    def _check_shapes(self) -> None:
        n_dimensions, n_frequencies = self.frequencies.shape
        if n_dimensions < 1 or n_frequencies < 1:
            raise DecodingError(
                f"must be (d, m) with d, m >= 1, not {self.frequencies.shape}",
                field="frequencies",
                fix="take it from the plan",
            )
        if self.sketch.size != n_frequencies:
            raise DecodingError(
                f"must have one coordinate per frequency, {n_frequencies}, not {self.sketch.size}",
                field="sketch",
                fix="use the frequencies of the plan that made the sketch",
            )
        for name in ("lower", "upper", "centre", "unit", "is_level"):
            entries = getattr(self, name)
            if entries is not None and entries.size != n_dimensions:
                raise DecodingError(
                    f"must have one entry per dimension, {n_dimensions}, not {entries.size}",
                    field=name,
                    fix="give it in the order of the plan's dimensions",
                )

    def _check_geometry(self) -> None:
        wrong = np.flatnonzero(self.lower >= self.upper)
        if wrong.size:
            raise DecodingError(
                f"must be lower < upper, broken in dimension {wrong[0]}",
                field="lower, upper",
                fix="exchange the bounds or drop a dimension that does not vary",
            )
        if np.any(self.unit <= 0.0):
            raise DecodingError(
                "must be > 0", field="unit", fix="use the plan's scale per dimension"
            )
        reach = np.maximum(np.abs(self.lower - self.centre), np.abs(self.upper - self.centre))
        if not np.all(reach @ np.abs(self.frequencies) <= _LARGEST_PHASE):
            raise DecodingError(
                f"turn by at most {_LARGEST_PHASE:g} rad from the centre to a corner of the box",
                field="frequencies",
                fix="give bounds and frequencies in the same data unit",
            )

    def _check_search_box(self) -> None:
        box = self.search_box
        if box is None:
            return
        for name, bounds in (("lower", box.lower), ("upper", box.upper)):
            if bounds.size != self.n_dimensions:
                raise DecodingError(
                    f"must have one entry per dimension, {self.n_dimensions}, not {bounds.size}",
                    field=f"search_box.{name}",
                    fix="give it in the order of the plan's dimensions",
                )
        is_inside = (self.lower <= box.lower) & (box.upper <= self.upper)
        wrong = np.flatnonzero(~(is_inside & (box.lower < box.upper)))
        if wrong.size:
            raise DecodingError(
                f"must have lower < upper inside the plan's box, broken in dimension {wrong[0]}",
                field="search_box",
                fix="give bounds inside the plan's, or leave the search box out",
            )

    def _check_noise(self) -> None:
        if not (math.isfinite(self.noise_variance) and self.noise_variance >= 0.0):
            raise DecodingError(
                "must be finite and >= 0",
                field="noise_variance",
                fix="compute it from the plan's noise and the number of records",
            )
        # One may be a rounded sum that includes the other.
        if not 0.0 <= self.sampling_variance <= self.noise_variance * (1.0 + _ROUNDING):
            raise DecodingError(
                "lies between 0 and noise_variance",
                field="sampling_variance",
                fix="give the share of the noise that sampling makes, or leave it out",
            )

    def _check_feature_noise(self) -> None:
        noise = self.feature_noise
        if noise is None:
            return
        if noise.size != self.n_frequencies:
            raise DecodingError(
                f"must have one entry per frequency, {self.n_frequencies}, not {noise.size}",
                field="feature_noise",
                fix="give it in the order of the frequencies, or leave it out",
            )
        if np.any(noise < 0.0):
            raise DecodingError(
                f"must be >= 0, broken at feature {np.argmin(noise)}",
                field="feature_noise",
                fix="drop features that nobody sent, and give variances",
            )
        mean = float(np.mean(noise))
        if not math.isclose(mean, self.noise_variance, rel_tol=_ROUNDING):
            raise DecodingError(
                f"must have the mean noise_variance, {self.noise_variance:.6g}, not {mean:.6g}",
                field="feature_noise",
                fix="give the mean of feature_noise as noise_variance",
            )

    def _check_modulus(self) -> None:
        """Refuse an implausible coordinate by its own noise; this needs the sketch as stated."""
        noise = self.noise_variance if self.feature_noise is None else self.feature_noise
        limits = _PLAUSIBLE_MODULUS + _PLAUSIBLE_DEVIATIONS * np.sqrt(noise)
        limits = np.broadcast_to(limits, self.sketch.shape)
        moduli = np.abs(self.sketch)
        j = int(np.argmax(moduli - limits))
        limit, largest = float(limits[j]), float(moduli[j])
        if largest > limit:
            raise DecodingError(
                f"must have modulus <= 2 + 20 sqrt(noise_variance) = {limit:.3g}, "
                f"not {largest:.3g}: no records give such a sum",
                field="sketch",
                fix="decode fewer devices or windows until it succeeds, and leave out the device "
                "whose sums are wrong",
            )

    def _check_n_clusters(self) -> None:
        if isinstance(self.n_clusters, bool) or not isinstance(self.n_clusters, int | np.integer):
            raise DecodingError("must be an integer", field="n_clusters", fix="give a whole number")
        if self.n_clusters < 1:
            raise DecodingError(
                f"must be >= 1, not {self.n_clusters}",
                field="n_clusters",
                fix="ask for at least one",
            )
        most = 2 * self.n_frequencies // (self.n_dimensions + 1)
        if self.n_clusters > most:
            raise DecodingError(
                f"must be at most {most}, not {self.n_clusters}: the sketch has too few numbers to "
                "tell more apart",
                field="n_clusters",
                fix="ask for fewer clusters or plan more frequencies",
            )


def freeze(name: str, value: Any, dtype: type[np.generic], n_axes: int) -> NDArray[Any]:
    """Copy `value` to a read-only finite array of the stated type and number of axes."""
    try:
        array = np.array(value, dtype=dtype, order="C")
    except (TypeError, ValueError) as error:
        raise DecodingError(
            f"must be an array of {dtype.__name__}", field=name, fix="give numbers"
        ) from error
    if array.ndim != n_axes:
        raise DecodingError(
            f"must have {n_axes} axes, not {array.ndim}", field=name, fix="reshape it"
        )
    if not np.all(np.isfinite(array)):
        raise DecodingError(
            "must be finite", field=name, fix="find where the infinite or missing value comes from"
        )
    array.flags.writeable = False
    return array
