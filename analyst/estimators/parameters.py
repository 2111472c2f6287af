"""Parameters and tables of the compressive estimators, and what of them is refused."""

from __future__ import annotations

import warnings
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from analyst.estimators.contract import PrivateEstimator
from analyst.estimators.held import Held
from analyst.estimators.planning import (
    MOST_CLUSTERS,
    MOST_RECORDS,
    Choices,
    find_bounds,
    find_scale,
)
from analyst.estimators.reading import (
    find_names,
    make_unfitted,
    read_bounds,
    read_rng,
    read_rows,
    read_scale,
    read_seed,
    read_threads,
    read_whole,
    refuse_words,
)
from learning.planning.outline import LARGEST_FREQUENCIES
from shared.errors import ConfigError, TableError

Floats = NDArray[np.float64]


class SketchingEstimator(PrivateEstimator):
    """An estimator whose plan follows from its parameters, and without epsilon from the records."""

    epsilon: Any
    bounds: Any
    scale: Any
    n_frequencies: Any
    mechanism: str
    max_records: Any
    public_seed: Any
    n_jobs: Any
    random_state: Any

    n_features_in_: int
    _held: Held

    _COUNT: ClassVar[str]
    """Name of the parameter with the number of clusters."""

    @property
    def _is_private(self) -> bool:
        return vars(self).get("epsilon") is not None

    def _choose(
        self, rows: NDArray[np.floating], names: NDArray[np.object_] | None, *, margin: float
    ) -> Choices:
        n, d = rows.shape
        k = self._read_count()
        read_threads(self.n_jobs)
        most = self._read_most()
        level: tuple[Fraction | None, Fraction] = None, Fraction(0)
        if self._is_private:
            level = self._read_level()
            lower, upper = read_bounds(self.bounds, d)
            scale = self._read_private_scale(d)
            if self.relation == "add-remove-one" and most is None:
                raise ConfigError(
                    "is missing: under add-remove-one the number of records is secret",
                    field="max_records",
                    fix="state the most records that there can be, a public number",
                )
        else:
            rng = read_rng(self.random_state)
            if self.bounds is None:
                lower, upper = find_bounds(rows, margin=margin)
            else:
                lower, upper = read_bounds(self.bounds, d)
            is_auto = isinstance(self.scale, str) and self.scale == "auto"
            scale = find_scale(rows, k, lower, upper, rng) if is_auto else read_scale(self.scale, d)
        return Choices(
            names=[f"x{i}" for i in range(d)] if names is None else names.tolist(),
            lower=lower,
            upper=upper,
            scale=scale,
            n_clusters=k,
            epsilon=level[0],
            delta=level[1],
            relation=self.relation,
            n_records=n if most is None else most,
            most_records=(n if self._is_private else MOST_RECORDS) if most is None else most,
            n_frequencies=self._read_frequencies(k, d),
            mechanism=self.mechanism,
            seed=read_seed(self.public_seed),
        )

    @property
    def _wants_pilot(self) -> bool:
        return self._is_private and isinstance(self.scale, str) and self.scale == "pilot"

    def _read_private_scale(self, n_dimensions: int) -> Floats:
        if self._wants_pilot:
            # Replaced by what the pilot finds.
            return np.ones(n_dimensions)
        if isinstance(self.scale, str):
            raise ConfigError(
                f"is {self.scale!r}: with epsilon nothing may be read off the records",
                field="scale",
                fix="give the spread inside one cluster as a number, from public knowledge, or "
                'write "pilot", which spends a tenth of epsilon on it',
            )
        return read_scale(self.scale, n_dimensions)

    def _read_count(self) -> int:
        count = getattr(self, self._COUNT)
        return read_whole(count, self._COUNT, most=MOST_CLUSTERS, fix="give a number of clusters")

    def _read_most(self) -> int | None:
        if self.max_records is None:
            return None
        return read_whole(self.max_records, "max_records", most=1 << 36, fix="give a public number")

    def _read_frequencies(self, n_clusters: int, n_dimensions: int) -> int | None:
        m = self.n_frequencies
        if isinstance(m, str) and m == "auto":
            return None
        return read_whole(
            m,
            "n_frequencies",
            # With fewer, centroids and weights are more numbers than the sketch has.
            least=-(-n_clusters * (n_dimensions + 1) // 2),
            most=LARGEST_FREQUENCIES,
            fix="leave it out, or write auto",
        )

    # ---- tables ----

    def _read_table(self, X: ArrayLike) -> tuple[NDArray[np.floating], Any]:  # noqa: N803
        refuse_words(X, look_inside=not self._is_private)
        return read_rows(X), find_names(X)

    def _require_records(self, rows: NDArray[np.floating]) -> None:
        """Check a public number of records; where it is secret, any number will do."""
        if self._is_private and self.relation == "add-remove-one":
            return
        k = self._read_count()
        if not len(rows):
            raise TableError("has no record", field="X", fix="pass at least one")
        if k > len(rows):
            raise ConfigError(
                f"must be at most the number of records, {len(rows)}",
                field=self._COUNT,
                fix="ask for fewer clusters, or pass more records",
            )

    def _require_room(self, n_records: int, most: int) -> None:
        """Refuse more records than there is room for; where their number is secret, nothing is."""
        if n_records > most and not (self._is_private and self.relation == "add-remove-one"):
            raise TableError(
                f"makes {n_records} records, more than max_records = {most}",
                field="X",
                fix="raise max_records before the first batch, or release before",
            )

    def _require_columns(self, rows: NDArray[np.floating], names: Any) -> None:
        """Refuse other columns than those of the fit."""
        known = vars(self).get("feature_names_in_")
        if known is not None and names is not None and known.tolist() != names.tolist():
            raise TableError(
                f"must have the columns {', '.join(known)}, in this order, and has "
                f"{', '.join(names)}",
                field="X",
                fix="reorder the columns, such as X[estimator.feature_names_in_]",
            )
        if rows.shape[1] != self.n_features_in_:
            raise TableError(
                f"must have {self.n_features_in_} columns and has {rows.shape[1]}",
                field="X",
                fix="pass the columns that it was fitted to",
            )

    def _read_columns(self, X: ArrayLike) -> Floats:  # noqa: N803
        if "n_features_in_" not in vars(self):
            raise make_unfitted(f"{type(self).__name__!r} has no result: call fit first")
        rows, names = self._read_table(X)
        self._require_columns(rows, names)
        return rows.astype(np.float64, copy=False)

    def _warn_of_clipped(self, rows: NDArray[np.floating]) -> None:
        space = self._held.plan.space
        n_clipped = int(np.sum((rows < space.lower) | (rows > space.upper)))
        if n_clipped:
            warnings.warn(
                f"{n_clipped} values lie beyond the bounds that the first batch gave, and are "
                "clipped: state bounds",
                RuntimeWarning,
                stacklevel=3,
            )
