"""Plan of an estimator's sketch, from public choices alone; without epsilon also from records."""

from __future__ import annotations

import bisect
import hashlib
import math
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from sfumato.analyst.estimators.columns import settle_scales
from sfumato.learning.decoding.kmeans import assign, cluster
from sfumato.learning.decoding.solver import Monitor
from sfumato.learning.planning.laws import LAW_CHOICES
from sfumato.learning.planning.methods import MOST_PARAMETERS
from sfumato.learning.planning.outline import TARGET_SSE, StudyOutline
from sfumato.learning.planning.planner import Advice, advise
from sfumato.learning.planning.quality import QualityBand
from sfumato.shared.arrays import Floats
from sfumato.shared.cbor import encode_deterministic
from sfumato.shared.core.seeds import SEED_BYTES
from sfumato.shared.errors import ConfigError, PrivacyError
from sfumato.shared.plan import Dimension, PlanSpec, SketchPlan, WindowRule, create_plan
from sfumato.shared.plan.dimensions import RecordSpace

MOST_RECORDS: Final = 1 << 31
"""Room in a sketch without epsilon, where the caller states none."""
MOST_CLUSTERS: Final = 1 << 16
_LEAST_SNR: Final = 0.01
"""SNR below which a sketch is noise alone, and to decode it takes minutes for nothing."""
_MOST_DOUBLINGS: Final = 12
_MOST_SKETCHES: Final = 1 << 10
_SUBSET: Final = 10_000
_LEAST_FREQUENCIES: Final = 64
_WIDEST: Final = 4000.0
"""Largest half width over scale that the scale is allowed to follow records to."""
_FLAT: Final = 1e-9
"""Range over magnitude, or spread over width, of a column that does not vary."""
_BESIDE: Final = 256
"""Records beside each other in one long row."""
_ROWS: Final = 256
_EXACT_SEED: Final = "sfumato without epsilon"


@dataclass(frozen=True, kw_only=True, eq=False)
class Choices:
    """Public choices behind a plan.

    Parameters
    ----------
    dimensions
        The columns, in order. A number that a pilot is to find has no scale, and perhaps the
        bounds of a pilot.
    n_clusters
        k.
    epsilon, delta, relation
        The guarantee; epsilon is None where no noise is added.
    n_records
        Records to plan for: public.
    most_records
        Records that a sketch has room for.
    n_frequencies, mechanism
        A number, or None for one by rule; and a name, or ``auto``.
    seed
        Text that the frequencies follow from; None for a fresh one, or without epsilon a fixed one.
    needs_wider_law
        Whether some scale is a guess, so that the frequencies should spread more.
    look
        Epsilon and delta of a second look after the sketch, beside the others; None without one.
    """

    dimensions: tuple[Dimension, ...]
    n_clusters: int
    epsilon: Fraction | None
    delta: Fraction
    relation: str
    n_records: int
    most_records: int
    n_frequencies: int | None
    mechanism: str
    seed: str | None
    needs_wider_law: bool = False
    look: tuple[Fraction, Fraction] | None = None

    @property
    def n_axes(self) -> int:
        """Number of coordinates: one for a number, one for each level."""
        return count_axes(self.dimensions)

    @property
    def digest(self) -> bytes:
        """SHA-256 of the choices; of a fresh seed it says only that it is fresh."""
        listed = {
            **vars(self),
            "look": list(self.look or ()),
            "dimensions": [
                [
                    *(each.name, each.lower, each.upper, each.scale, list(each.levels)),
                    None if each.transform is None else each.transform.resolution,
                ]
                for each in self.dimensions
            ],
        }
        return hashlib.sha256(encode_deterministic(listed)).digest()

    def name_design(self, part: str) -> bytes:
        """Return the digest by which events name one part of a fit with these choices."""
        return hashlib.sha256(self.digest + part.encode()).digest()


def count_axes(dimensions: Sequence[Dimension]) -> int:
    """Return the number of coordinates of some columns."""
    return sum(len(dimension.levels) or 1 for dimension in dimensions)


def make_plan(choices: Choices) -> SketchPlan:
    """Make the plan of a sketch.

    Raises
    ------
    PlanError, PrivacyError, ConfigError
        A choice breaks a rule.
    """
    chosen = _choose_exact(choices) if choices.epsilon is None else _choose_private(choices)
    return create_plan(
        PlanSpec(
            dimensions=choices.dimensions,
            seed=choices.seed or _draw_seed(choices.epsilon is None),
            most_clusters=choices.n_clusters,
            **chosen,
            **list_common(choices),
        )
    )


def list_common(choices: Choices) -> dict[str, Any]:
    """List the fields that all plans of an estimator have in common."""
    hides_presence = choices.epsilon is not None and choices.relation == "add-remove-one"
    return {
        "window": (
            # Nothing here has a time: all records are in the first slot.
            WindowRule(kind="time", origin=1, length_s=1 << 31)
            if hides_presence
            else WindowRule(kind="count", length=choices.most_records)
        ),
        "most_records": choices.most_records,
        "neighbouring": "add-remove-one" if hides_presence else "replace-one",
        "most_sketches": _MOST_SKETCHES,
    }


def _draw_seed(is_exact: bool) -> str:
    return _EXACT_SEED if is_exact else secrets.token_hex(SEED_BYTES)


def _choose_exact(choices: Choices) -> dict[str, Any]:
    """Choose features where there is no noise; the plan's own noise is never drawn."""
    k, d = choices.n_clusters, choices.n_axes
    m = choices.n_frequencies
    return {
        "n_frequencies": max(_LEAST_FREQUENCIES, 5 * k * d) if m is None else m,
        "epsilon": Fraction(1),
        "radius_law": LAW_CHOICES[0].law,
    }


def _choose_private(choices: Choices) -> dict[str, Any]:
    """Choose noise, frequencies and their law by the quality that the planner predicts."""
    best = _advise(choices).recommended
    if best.snr < _LEAST_SNR:
        raise ConfigError(
            f"is too little for {choices.n_clusters} clusters of {choices.n_records} records: the "
            f"sketch would be {1.0 / max(best.snr, 1e-99):.0f} times as much noise as signal",
            field="epsilon",
            fix="ask for fewer clusters, which need fewer features and so less noise, give more "
            "records, or raise epsilon; nothing was spent",
        )
    if choices.needs_wider_law:
        best = best.widen()
    return {
        "n_frequencies": best.n_frequencies,
        "mechanism": best.mechanism,
        "epsilon": best.epsilon,
        "delta": best.delta,
        "radius_law": best.law_choice.law,
    }


def predict_quality(choices: Choices) -> QualityBand:
    """Predict the quality of a private sketch from public choices: no record is read.

    Raises
    ------
    PrivacyError, ConfigError
        No noise gives the guarantee.
    """
    return _advise(choices).recommended.band


def require_hope(choices: Choices, field: str) -> None:
    """Refuse more clusters than a sketch can tell apart, before it is released.

    Parameters
    ----------
    field
        The parameter that states the number of clusters.

    Raises
    ------
    ConfigError
        Noise would decide where the centroids are, or decoding would take minutes.
    PrivacyError
        No noise gives the guarantee.
    """
    k, d = choices.n_clusters, choices.n_axes
    if k * d > MOST_PARAMETERS:
        raise ConfigError(
            f"must be at most {MOST_PARAMETERS // d} in {d} dimensions: to decode more takes "
            "minutes",
            field=field,
            fix="ask for fewer clusters, or use AutoKMeans (--method auto); nothing was spent",
        )
    band = predict_quality(choices)
    if not band.is_hopeless:
        return
    # A smaller k, and a larger epsilon, never leave less signal for each cluster.
    most = bisect.bisect_left(range(1, k), True, key=lambda k: _is_hopeless(choices, n_clusters=k))
    epsilon = choices.epsilon or Fraction(1)
    levels = (epsilon * 2**i for i in range(1, _MOST_DOUBLINGS))
    enough = next((each for each in levels if not _is_hopeless(choices, epsilon=each)), None)
    fixes = [f"ask for at most {most}"] * bool(most)
    if enough is not None:
        fixes.append(f"raise epsilon to {enough}")
    raise ConfigError(
        f"is {k}, and {choices.n_records} records with epsilon {epsilon} cannot tell so many "
        f"clusters apart: {band.describe_limit()}, so noise would decide where centroids are",
        field=field,
        fix=f"{', or '.join([*fixes, 'give more records'])}; parts of a larger whole are summed by "
        "partial_fit, or released by it and merged; nothing was spent",
    )


def _is_hopeless(choices: Choices, **changes: Any) -> bool:
    try:
        return predict_quality(replace(choices, **changes)).is_hopeless
    except (ConfigError, PrivacyError):
        return True


def _advise(choices: Choices) -> Advice:
    outline = StudyOutline(
        n_records=max(1, choices.n_records),
        n_sketches=1,
        n_dimensions=choices.n_axes,
        n_clusters=choices.n_clusters,
        neighbouring=choices.relation,
        # Phase reports need windows by time, and a table has none.
        by_time=False,
        mechanism=None if choices.mechanism == "auto" else choices.mechanism,
        stated_frequencies=choices.n_frequencies,
    )
    return advise(
        outline,
        epsilon=choices.epsilon or Fraction(0),
        delta=choices.delta,
        target_sse=TARGET_SSE,
    )


def find_bounds(
    records: NDArray[np.floating], names: Sequence[str], *, margin: float
) -> list[tuple[float, float]]:
    """Return bounds around the columns of records, without epsilon.

    A constant column gets the width of the widest one, so that it has a place.

    Parameters
    ----------
    margin
        Share of the range to add on each side.

    Raises
    ------
    ConfigError
        A column has no finite value.
    """
    lower, upper = _measure_ranges(records)
    for i in np.flatnonzero(~(np.isfinite(lower) & np.isfinite(upper))).tolist():
        column = records[:, i]
        finite = column[np.isfinite(column)]
        if not finite.size:
            raise ConfigError(
                f"cannot be read off X: column {names[i]!r} has no finite value",
                field="bounds",
                fix="state them, or drop the column",
            )
        lower[i], upper[i] = float(finite.min()), float(finite.max())
    width = upper - lower
    widest = float(width.max()) or 1.0
    # Less is lost to the resolution of the bounds.
    flat = width <= _FLAT * np.maximum(np.abs(lower), np.abs(upper))
    added = np.where(flat, np.maximum(widest, 1e-6 * np.abs(lower)) / 2.0, margin * width)
    return list(zip((lower - added).tolist(), (upper + added).tolist(), strict=True))


def _measure_ranges(records: NDArray[np.floating]) -> tuple[Floats, ...]:
    """Return the least and the greatest of each column, NaN where a value or all are missing.

    Records lie beside each other in long rows, because a reduction over ten columns spends its
    time between them.
    """
    n_columns = records.shape[1]
    if not len(records) or not n_columns:
        return np.full(n_columns, math.nan), np.full(n_columns, math.nan)
    lows, highs = [], []
    for first in range(0, len(records), _ROWS * _BESIDE):
        part = records[first : first + _ROWS * _BESIDE]
        whole = len(part) // _BESIDE * _BESIDE
        for rows in (part[:whole].reshape(-1, _BESIDE * n_columns), part[whole:]):
            if len(rows):
                lows.append(rows.min(axis=0).reshape(-1, n_columns).min(axis=0))
                highs.append(rows.max(axis=0).reshape(-1, n_columns).max(axis=0))
    return np.min(lows, axis=0).astype(np.float64), np.max(highs, axis=0).astype(np.float64)


def choose_subset(
    records: NDArray[np.floating], rng: np.random.Generator, weights: Floats | None
) -> NDArray[np.floating]:
    """Return at most 10,000 records, in their order; with weights, drawn in proportion to them."""
    n = len(records)
    if weights is not None:
        return records[np.sort(rng.choice(n, min(n, _SUBSET), p=weights / weights.sum()))]
    if n <= _SUBSET:
        return records
    return records[np.sort(rng.choice(n, _SUBSET, replace=False))]


def find_scales(
    records: NDArray[np.floating],
    dimensions: Sequence[Dimension],
    n_clusters: int,
    rng: np.random.Generator,
    *,
    is_pooled: bool,
) -> tuple[Dimension, ...]:
    """Return columns with the spread inside one cluster of some records, without epsilon.

    They are clustered in units of the columns' spreads; then each column has its own.

    Parameters
    ----------
    records
        Shape ``(n, d)``, data units: as :func:`choose_subset` chooses them.
    dimensions
        Their columns, without scales.
    is_pooled
        Whether they are clustered in data units, and one scale serves all columns.
    """
    space = RecordSpace(dimensions=tuple(dimensions))
    points = space.place(records.astype(np.float64))
    points = points[np.isfinite(points).all(axis=1)]
    of_number = np.array([not dimensions[axis.dimension].is_categorical for axis in space.axes])
    widths = np.array([axis.upper - axis.lower for axis in space.axes])
    spreads, within = np.ones(len(widths)), widths / 8.0
    if len(points):
        spreads = points.std(axis=0)
        if is_pooled:
            spreads = np.full_like(spreads, float(spreads.max()))
        unit = np.where(of_number & (spreads > 0.0), spreads, 1.0)
        # In single precision, where an offset would cost digits.
        scaled = (points - points.mean(axis=0)) / unit
        starts = [scaled[rng.choice(len(points), n_clusters)]]
        found = cluster(scaled, starts, n_restarts=2, rng=rng, monitor=Monitor())
        labels, _ = assign(scaled, found.centroids)
        # A sample of few records per cluster hugs its centroids.
        freed = len(points) / max(1, len(points) - n_clusters)
        squares = np.mean((scaled - found.centroids[labels]) ** 2, axis=0) * freed
        within = unit * np.sqrt(squares)
        within = np.where(within <= widths / 2.0 / _WIDEST, spreads / 100.0, within)
    least = widths / 2.0 / _WIDEST
    is_constant = spreads <= _FLAT * widths
    # What does not vary has no scale of its own, and hardly any say.
    scales = np.maximum(least, np.where(is_constant, widths / 8.0, within))
    by_dimension = {axis.dimension: i for i, axis in enumerate(space.axes)}
    return settle_scales(
        [
            each if each.is_categorical else replace(each, scale=float(scales[by_dimension[i]]))
            for i, each in enumerate(dimensions)
        ],
        units=[1.0] * len(dimensions) if is_pooled else None,
        is_constant=[bool(is_constant[by_dimension[i]]) for i in range(len(dimensions))],
    )
