"""A private partition of records: k-means on random features (Rahimi and Recht 2007).

A record becomes ``(cos w'x, sin w'x)`` for public frequencies w, in integers, so that its length is
at most ``A sqrt(D / 2)`` whatever its values. Every round releases counts and sums of features of
all parts by one Gaussian mechanism; centroids follow from them. A part is then a function of the
record and of released centroids.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sfumato.shared.arrays import Integers
from sfumato.shared.core.features import AMPLITUDE, PHASES, feature_table
from sfumato.shared.core.frequencies import FrequencyMatrix, RadiusLaw, draw_frequencies
from sfumato.shared.core.quantise import Quantiser
from sfumato.shared.errors import ConfigError

_COUNT_SHARE: Final = Fraction(1, 10)
"""The share of a round's squared mu that counts get."""
_BATCH: Final = 1 << 13
_LAW: Final = RadiusLaw(kind="gaussian", sigma_low=1.0, sigma_high=1.0)
"""Features whose products estimate ``exp(-|x - y|^2 / (2 bandwidth^2))``."""
_MOST_PAIRS: Final = 2000
_DOUBT: Final = 3.0


@dataclass(frozen=True, kw_only=True, eq=False)
class FeatureMap:
    """Records to integer features.

    Parameters
    ----------
    quantiser
        Quantiser of records, with the public bounds.
    frequencies
        Frequencies, of shape ``(d, D / 2)``.
    """

    quantiser: Quantiser
    frequencies: FrequencyMatrix

    @classmethod
    def draw(
        cls, quantiser: Quantiser, *, n_features: int, bandwidth: float, seed: bytes
    ) -> FeatureMap:
        """Draw public frequencies.

        Parameters
        ----------
        n_features
            D, even.
        bandwidth
            Distance at which records differ, in half widths of the bounds.
        seed
            32 public bytes.

        Raises
        ------
        ConfigError, PlanError
            A number is out of range.
        """
        if not 2 <= n_features <= 2 * _MOST_PAIRS:
            raise ConfigError(
                f"must be from 2 to {2 * _MOST_PAIRS}", field="n_kernel_features", fix="use 200"
            )
        if not 0.0 < bandwidth < math.inf:
            raise ConfigError(
                "must be a positive number",
                field="bandwidth",
                fix="leave it out for a half of the square root of the number of columns",
            )
        frequencies = draw_frequencies(
            seed,
            n_frequencies=n_features // 2,
            law=_LAW,
            quantiser=quantiser,
            scale=quantiser.half_width * bandwidth,
        )
        return cls(quantiser=quantiser, frequencies=frequencies)

    @property
    def n_features(self) -> int:
        """D."""
        return 2 * self.frequencies.n_frequencies

    @property
    def squared_length(self) -> int:
        """The largest squared length of a record's features."""
        return self.frequencies.n_frequencies * AMPLITUDE**2

    def compute(self, steps: NDArray[np.int16]) -> NDArray[np.int16]:
        """Return features of quantised records, shape ``(n, d)``: shape ``(n, D)``, exact."""
        turns = self.frequencies.turns.astype(np.float64)
        shift = float(2**self.frequencies.bits)
        found = np.empty((len(steps), self.n_features), dtype=np.int16)
        for start in range(0, len(steps), _BATCH):
            part = steps[start : start + _BATCH].astype(np.float64)
            # Below 2^53, so that the order of additions does not matter.
            angles = part @ turns
            angles -= np.floor(angles / shift) * shift
            phases = np.floor(angles * (PHASES / shift)).astype(np.int32)
            pairs = feature_table()[phases]
            found[start : start + _BATCH] = pairs.reshape(len(part), -1)
        return found


@dataclass(frozen=True, kw_only=True, eq=False)
class KernelPartition:
    """How records are put into parts, in public numbers.

    Parameters
    ----------
    features
        Features of records.
    n_parts, n_rounds
        k, and how often the centroids move.
    start
        Shape ``(k, D)``: features of public records; None to start from public directions.
    seed
        Public, for directions.
    """

    features: FeatureMap
    n_parts: int
    n_rounds: int
    start: Integers | None
    seed: int

    @property
    def unit(self) -> int:
        """Weight of a count, so that it has its share of the squared distance."""
        share = _COUNT_SHARE / (1 - _COUNT_SHARE)
        return math.isqrt(int(self.features.squared_length * share))

    @property
    def squared_distance(self) -> int:
        """Squared distance of the sums of one round if a record comes or goes."""
        return self.features.squared_length + self.unit**2

    @property
    def n_sums(self) -> int:
        """Numbers that a round releases."""
        return self.n_parts * (1 + self.features.n_features)

    def find_centroids(self, found: Integers, sigma: float, before: Integers) -> Integers:
        """Return centroids after a round, in steps: shape ``(k, D)``; post-processing.

        Parameters
        ----------
        found
            Shape ``(k, 1 + D)``, noisy.
        sigma
            Standard deviation of the noise.
        before
            Centroids of a part that noise hides stay as they were.
        """
        counts = found[:, 0] / self.unit
        least = _DOUBT * sigma / self.unit
        means = np.rint(found[:, 1:] / np.maximum(counts, least)[:, None])
        moved = np.clip(means, -AMPLITUDE, AMPLITUDE).astype(np.int64)
        return np.where((counts > least)[:, None], moved, before)

    def draw_start(self) -> Integers:
        """Return the first centroids, public: shape ``(k, D)``."""
        if self.start is not None:
            return self.start
        rng = np.random.default_rng(self.seed)
        shape = self.n_parts, self.features.n_features
        return np.rint(rng.normal(size=shape) * AMPLITUDE / 2).astype(np.int64)

    def sum_parts(self, features: NDArray[np.int16], parts: NDArray[np.intp]) -> Integers:
        """Return weighted counts and sums of features: shape ``(k, 1 + D)``, exact."""
        sums = np.zeros((self.n_parts, 1 + self.features.n_features), dtype=np.int64)
        for part in range(self.n_parts):
            mine = features[parts == part]
            sums[part, 0] = self.unit * len(mine)
            sums[part, 1:] = mine.sum(axis=0, dtype=np.int64)
        return sums

    def release(
        self,
        features: NDArray[np.int16],
        add_noise: Callable[[Integers], Integers],
        sigma: float,
    ) -> Integers:
        """Release ``n_rounds`` sums of all records, and return the last centroids: ``(k, D)``."""
        centroids = self.draw_start()
        for _ in range(self.n_rounds):
            sums = self.sum_parts(features, assign(features, centroids))
            found = add_noise(sums.ravel()).reshape(sums.shape)
            centroids = self.find_centroids(found, sigma, centroids)
        return centroids


def assign(features: NDArray[np.int16], centroids: Integers) -> NDArray[np.intp]:
    """Return the nearest centroid of each record, the first of equally near ones: exact."""
    whole = centroids.astype(np.float64)
    parts = np.empty(len(features), dtype=np.intp)
    squares = np.sum(whole**2, axis=1)
    for start in range(0, len(features), _BATCH):
        batch = features[start : start + _BATCH].astype(np.float64)
        # Whole numbers below 2^53: the number of other records changes no distance.
        parts[start : start + _BATCH] = np.argmin(squares - 2.0 * (batch @ whole.T), axis=1)
    return parts
