"""Parameters and tables of the compressive estimators, and what of them is refused."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from sfumato.analyst.estimators.columns import (
    Bounds,
    Logs,
    Scale,
    make_dimension,
    measure_width,
    read_bounds,
    read_levels,
    read_logs,
    read_scales,
    read_steps,
)
from sfumato.analyst.estimators.contract import PrivateEstimator
from sfumato.analyst.estimators.declaration import estimator, result
from sfumato.analyst.estimators.held import Held
from sfumato.analyst.estimators.inputs import (
    Exact,
    find_names,
    list_names,
    open_table,
    read_cells,
    read_rng,
    read_seed,
    read_threads,
    read_whole,
    refuse_cells,
    refuse_infinite,
    refuse_words,
)
from sfumato.analyst.estimators.planning import (
    MOST_CLUSTERS,
    MOST_RECORDS,
    Choices,
    choose_subset,
    count_axes,
    find_bounds,
    find_scales,
)
from sfumato.learning.planning.outline import LARGEST_FREQUENCIES
from sfumato.shared.arrays import Floats
from sfumato.shared.errors import ConfigError, TableError
from sfumato.shared.plan import Dimension

_SCALES = ("auto", "pooled", "bounds", "pilot")
_PRIVATE_SCALES = ("bounds", "pilot")


@estimator
class SketchingEstimator(PrivateEstimator):
    """An estimator whose plan follows from its parameters, and without epsilon from the records.

    Parameters
    ----------
    epsilon, delta
        The guarantee: texts such as ``"0.1"`` or ``"1/10"``, integers, fractions, or floats, which
        stand for their decimal text. None: no noise, and nothing is private.
    bounds
        ``(lower, upper)``: numbers, or arrays of shape ``(d,)``, data units; or a mapping of
        columns to such pairs. Values beyond them are clipped. With epsilon they are public, and
        required, unless a pilot finds them. None without epsilon: as the records are.
    scale
        The spread inside one cluster: a number, one a column, or a mapping of columns to numbers,
        data units, from public knowledge. ``auto`` finds one for each column: without epsilon from
        k-means of at most 10,000 records, with it from a pilot. Distances are in units of it;
        where all are alike, within a factor of 2, one serves all columns, and distances are in data
        units. ``pooled`` is one for all, however much they differ; ``bounds``, with epsilon, is one
        share of the bounds of each, by which the other methods measure. ``pilot`` is ``auto`` with
        epsilon: ``fit`` spends a tenth of epsilon, up to a quarter where noise is strong, on a
        histogram of each column, and takes scales from it, and bounds where there are none.
    log
        Columns on a logarithmic scale: a list of them, or a mapping of columns to resolutions, the
        size below which values are alike. Their scale is in octaves: 1 is a factor of 2. A pilot
        chooses between both scales, for these columns and for those without bounds.
    levels
        Columns of text, each with all its values: ``{"colour": ["red", "green"]}``. A value becomes
        a coordinate that is 0 or 1; another value counts as missing.
    steps
        The distance of neighbouring values of columns, ``{"age": 1}``, where none is far commoner
        than those beside it; 0 for values without a step. With them :meth:`ask` has error bars;
        without epsilon they follow from the records, and after a pilot they are not needed.
    n_frequencies
        m, or ``auto``: ``max(64, 5 k d)`` without epsilon, and with it what the planner chooses.
    mechanism
        Name of the noise, or ``auto`` for the one that the planner chooses.
    max_records
        The most records of one sketch, public. Required with epsilon by ``partial_fit``, and under
        ``add-remove-one``.
    public_seed
        Seed of the frequencies: a number or text, published. None: fresh with epsilon, fixed
        without.
    n_jobs
        Threads that sum; -1 for all. Changes no result.
    random_state
        Steers the decoder's random starts and the subset for ``scale``, never noise.
    """

    epsilon: Exact | None = None
    bounds: Bounds | None = None
    scale: Scale = "auto"
    log: Logs = None
    levels: Mapping[Any, Sequence[object]] | None = None
    steps: Mapping[Any, float] | None = None
    n_frequencies: int | Literal["auto"] = "auto"
    mechanism: str = "auto"
    max_records: int | None = None
    public_seed: int | str | bytes | None = None
    n_jobs: int | None = None

    _held: Held = result()
    _own_steps: Mapping[str, float | None] = result()

    _COUNT: ClassVar[str]
    """Name of the parameter with the number of clusters."""

    @property
    def _is_private(self) -> bool:
        return vars(self).get("epsilon") is not None

    def _choose(
        self,
        rows: NDArray[np.floating],
        names: Sequence[str],
        *,
        margin: float,
        weights: Floats | None = None,
    ) -> Choices:
        k = self._read_count()
        read_threads(self.n_jobs)
        most = self._read_most()
        # Refused before anything is computed, or spent.
        rng = read_rng(self.random_state)
        level: tuple[Fraction | None, Fraction] = None, Fraction(0)
        if self._is_private:
            level = self._read_level()
            if self.relation == "add-remove-one" and most is None:
                raise ConfigError(
                    "is missing: under add-remove-one the number of records is secret",
                    field="max_records",
                    fix="state the most records that there can be, a public number",
                )
        dimensions = self._list_dimensions(rows, names, margin)
        is_auto = not self._is_private and self._has_scale_by_word
        if is_auto:
            chosen = choose_subset(rows, rng, weights)
            dimensions = find_scales(chosen, dimensions, k, rng, is_pooled=self._is_pooled)
        return Choices(
            dimensions=dimensions,
            n_clusters=k,
            epsilon=level[0],
            delta=level[1],
            relation=self.relation,
            n_records=len(rows) if most is None else most,
            most_records=(
                (len(rows) if self._is_private else MOST_RECORDS) if most is None else most
            ),
            n_frequencies=self._read_frequencies(k, count_axes(dimensions)),
            mechanism=self.mechanism,
            seed=read_seed(self.public_seed),
        )

    def _list_dimensions(
        self, rows: NDArray[np.floating], names: Sequence[str], margin: float
    ) -> tuple[Dimension, ...]:
        """List the columns as they are stated; without epsilon, bounds follow from the records."""
        levels = read_levels(self.levels, names)
        resolutions = read_logs(self.log, names)
        bounds = read_bounds(self.bounds, names, levels)
        scales: Sequence[float | None] = [None] * len(names)
        if not self._has_scale_by_word:
            scales = read_scales(self.scale, names, levels)
        steps = read_steps(self.steps, names, levels)
        self._require_one_unit(names, levels, resolutions)
        unstated = [i for i, pair in enumerate(bounds) if pair is None and not levels[i]]
        if unstated and not self._is_private:
            # All columns at once is a view; some of them are a copy.
            open_rows = rows if len(unstated) == len(names) else rows[:, unstated]
            found = find_bounds(open_rows, [names[i] for i in unstated], margin=margin)
            for i, pair in zip(unstated, found, strict=True):
                bounds[i] = pair
        elif unstated and (not self._wants_pilot or self.scale == "bounds"):
            raise ConfigError(
                "must be (lower, upper): two numbers, or two rows of numbers, and are missing for "
                f"{', '.join(repr(names[i]) for i in unstated)}",
                field="bounds",
                fix="state what the values can be; bounds that are read off the records are not "
                'private. With scale="pilot" a part of epsilon finds them',
            )
        return tuple(
            make_dimension(
                name,
                levels=levels[i],
                bounds=bounds[i],
                resolution=None if levels[i] else resolutions[i],
                scale=scales[i],
                step=steps[i],
            )
            for i, name in enumerate(names)
        )

    def _require_one_unit(
        self,
        names: Sequence[str],
        levels: Sequence[tuple[str, ...]],
        resolutions: Sequence[float | None],
    ) -> None:
        """Refuse one scale for columns that have no common unit."""
        if not self._is_pooled:
            return
        for name, texts, resolution in zip(names, levels, resolutions, strict=True):
            if texts or resolution is not None:
                raise ConfigError(
                    f"cannot be pooled: {name!r} has levels or a logarithmic scale",
                    field="scale",
                    fix="write auto, which gives each column its own",
                )

    @property
    def _has_scale_by_word(self) -> bool:
        """Whether the scale is to be found; refuse a word that means nothing."""
        if not isinstance(self.scale, str):
            return False
        if self.scale not in _SCALES or (self.scale in _PRIVATE_SCALES and not self._is_private):
            raise ConfigError(
                f"is {self.scale!r}, and must be auto, pooled, numbers, or with epsilon bounds or "
                "pilot",
                field="scale",
                fix="give the spread inside one cluster, in the units of the columns, or auto",
            )
        return True

    @property
    def _is_pooled(self) -> bool:
        return isinstance(self.scale, str) and self.scale in ("pooled", "bounds")

    def _list_units(self, choices: Choices) -> list[float] | None:
        """List the lengths that one scale for all is a share of; None for scales of each."""
        if not self._is_pooled:
            return None
        is_by_bounds = self.scale == "bounds"
        return [measure_width(each) / 2.0 if is_by_bounds else 1.0 for each in choices.dimensions]

    @property
    def _wants_pilot(self) -> bool:
        return self._is_private and self._has_scale_by_word

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

    def _read_table(
        self,
        X: Any,  # noqa: N803
        *,
        is_begun: bool,
    ) -> tuple[NDArray[np.floating], NDArray[np.object_] | None]:
        """Read a table, and the names of its columns, if it has any.

        Parameters
        ----------
        is_begun
            Whether its columns must be those of the sum that was begun.
        """
        array = open_table(X)
        names = find_names(X)
        if is_begun:
            self._require_columns(array.shape[1], names)
            dimensions = self._held.plan.dimensions
            known = [dimension.name for dimension in dimensions]
            levels = [dimension.levels for dimension in dimensions]
        else:
            known = list_names(names, array.shape[1])
            levels = read_levels(self.levels, known)
        refuse_words(X, levels)
        if self._is_private:
            return read_cells(array, levels), names
        refuse_cells(array, known, levels)
        rows = read_cells(array, levels)
        refuse_infinite(rows, known)
        return rows, names

    def _require_records(self, rows: NDArray[np.floating]) -> None:
        """Check a public number of records; where it is secret, any number will do."""
        if self._is_private and self.relation == "add-remove-one":
            return
        k = self._read_count()
        if not len(rows):
            raise TableError(
                f"has no record: 0 sample(s) (shape={rows.shape}) while a minimum of 1 is required",
                field="X",
                fix="pass at least one",
            )
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

    def _read_columns(self, X: Any) -> Floats:  # noqa: N803
        self._require_fitted()
        rows, _ = self._read_table(X, is_begun=True)
        return rows.astype(np.float64, copy=False)

    def _warn_of_clipped(self, rows: NDArray[np.floating]) -> None:
        space = self._held.plan.space
        # Not a number where a column has levels, and then never beyond.
        n_clipped = int(np.sum((rows < space.lower) | (rows > space.upper)))
        if n_clipped:
            warnings.warn(
                f"{n_clipped} values lie beyond the bounds that the first batch gave, and are "
                "clipped: state bounds",
                RuntimeWarning,
                stacklevel=3,
            )
