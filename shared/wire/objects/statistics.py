"""JSON bodies about histograms, moments and calibrations."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import Any, Literal

from sfumato.shared.structure import member
from sfumato.shared.wire.objects.answers import DimensionBody, PromiseBody
from sfumato.shared.wire.objects.declaration import Hex, body, make_body


@body
class BarBody:
    """Records in a stretch of a dimension, joined until they stand out from the noise."""

    lower: float = member("Lower end, in the dimension's unit.", 0.0)
    upper: float = member("Upper end.", 2.5)
    share: float = member("Share of the records, noise included.", 0.21)
    error: float = member("Standard deviation of the noise of the share.", 0.004)


@body
class QuantileBody:
    """Bounds of a quantile of the records with a value; all bounds hold together, 95 %."""

    share: float = member("Share of the records at or below the quantile.", 0.5)
    value: float | None = member("Estimate; null beyond the plan's bounds.", 7.2)
    low: float | None = member("Lower bound; null beyond the plan's bounds.", 7.1)
    high: float | None = member("Upper bound; null beyond the plan's bounds.", 7.4)


@body
class LevelBody:
    """Records with one level of a category."""

    level: str = member("The level.", "north")
    share: float = member("Share of the records, noise included.", 0.4)
    error: float = member("Standard deviation of the noise of the share.", 0.004)


@body
class MarginalBody:
    """The distribution of one dimension by itself."""

    name: str = member("The dimension's name.", "pressure")
    unit: str = member("The dimension's unit.", "bar")
    scale: Literal["linear", "log", "levels"] = member("The scale that was summed.", "linear")
    n_records: float = member("Records of the sketches that carry the dimension.", 240000.0)
    bars: list[BarBody] = member("Bars, ascending; empty for a category.")
    seen_lower: float | None = member(
        "Lower end of the stretch outside which nothing stands out from the noise; null without.",
        0.0,
    )
    seen_upper: float | None = member("Upper end of that stretch; null without.", 10.0)
    quantiles: list[QuantileBody] = member("Quantiles; empty for a category.")
    levels: list[LevelBody] = member("Levels; empty for a number.", [])
    below: float = member("Share of values below the bounds, noise included.", 0.0)
    above: float = member("Share of values above the bounds, noise included.", 0.001)
    missing: float = member("Share of missing values, noise included.", 0.02)
    error: float = member("Standard deviation of the noise of one of these shares.", 0.0005)


@body
class HistogramBody:
    """Marginals of a snapshot."""

    snapshot_id: Hex = member("The snapshot.", "21" * 32)
    n_sketches: int = member("Sketches in it.", 120)
    n_records: int = member("Records in it, or an estimate where the number is secret.", 240000)
    marginals: list[MarginalBody] = member("A marginal for each dimension that is carried.")
    privacy: PromiseBody = member("Privacy promise of each sketch.")


@body
class ComponentBody:
    """A principal direction."""

    direction: list[float] = member(
        "Entry for each axis, in half widths of the bounds; of length 1.", [0.8, 0.6]
    )
    loadings: list[float] = member(
        "The same, moved by one standard deviation, in the axes' units.", [0.4, 3.1]
    )
    loadings_error: list[float] | None = member(
        "Standard deviation of the noise of each loading; null if not told apart.", [0.02, 0.3]
    )
    eigenvalue: float = member("Variance along it, the lift by noise removed.", 0.12)
    share: float = member("Share of the whole variance.", 0.61)
    share_low: float = member("Low end of its 95 % band.", 0.58)
    share_high: float = member("High end of its 95 % band.", 0.64)
    is_told_apart: bool = member("Whether it stands out from noise and from the others.", True)
    expected_sin_squared: float = member(
        "Expected squared sine of the angle to the true direction; 1 is arbitrary.", 0.004
    )


@body
class MomentsAnswerBody:
    """Mean, correlations and principal directions of a snapshot."""

    snapshot_id: Hex = member("The snapshot.", "21" * 32)
    n_sketches: int = member("Sketches in it.", 120)
    n_records: int = member("Records in it, or an estimate where the number is secret.", 240000)
    n_complete: float = member("Records without a missing value, noise included.", 239120.5)
    axes: list[DimensionBody] = member("The axes.")
    mean: list[float] = member("Mean along each axis, in its unit.", [5.1, 80.0])
    mean_error: list[float] = member("Standard deviation of its noise.", [0.02, 0.4])
    correlation: list[list[float]] = member("Correlations.", [[1.0, 0.4], [0.4, 1.0]])
    correlation_low: list[list[float]] = member(
        "Low ends of their 95 % bands.", [[1.0, 0.3], [0.3, 1.0]]
    )
    correlation_high: list[list[float]] = member(
        "High ends of their 95 % bands.", [[1.0, 0.5], [0.5, 1.0]]
    )
    components: list[ComponentBody] = member("Principal directions, by falling variance.")
    warnings: list[str] = member("Doubts, a sentence each.", [])
    privacy: PromiseBody = member("Privacy promise of each sketch.")


@body
class ColumnBody:
    """What a pilot says about one dimension of the main plan."""

    name: str = member("The dimension's name.", "pressure")
    unit: str = member("The dimension's unit.", "bar")
    is_kept: bool = member("Whether it belongs in the main plan.", True)
    resolution: float | None = member(
        "Resolution of the advised logarithmic scale; null for a linear one.", None
    )
    centre: float = member("Mean on the advised scale, in the unit.", 5.1)
    spread: float = member("Standard deviation on that scale: unit, or doublings.", 0.8)
    scale: float = member("Scale for the plan: the spread inside one cluster.", 0.4)
    lower: float = member("Lower bound for the plan.", -4.5)
    upper: float = member("Upper bound for the plan.", 14.7)
    search_lower: float = member("Lower end of the search box.", 1.1)
    search_upper: float = member("Upper end of the search box.", 9.1)
    missing_share: float = member("Share of missing values.", 0.0)
    step: float | None = member(
        "Distance of neighbouring values, none of which is far commoner than those beside it; 0 "
        "without one, null where the pilot cannot tell.",
        0.0,
    )
    codes: list[str] = member("Findings in a word each, such as `constant` or `flag`.", [])
    findings: list[str] = member("What to know about it, a clause each.", [])


_COLUMN = frozenset(field.name for field in fields(ColumnBody))


@body
class CalibrationBody:
    """Bounds, scales and search box for a main study, from a pilot's histogram."""

    snapshot_id: Hex = member("The snapshot.", "21" * 32)
    n_records: int = member("Records in it, or an estimate where the number is secret.", 240000)
    n_clusters: list[int] = member("Least and largest number of clusters.", [5, 5])
    columns: list[ColumnBody] = member("The dimensions.")
    strength: float = member(
        "Of the weakest dimension: n epsilon / (d sqrt L), or g sqrt(32 n / d) of reports of bins.",
        480.0,
    )
    refusal: str | None = member("Why nothing should be built on it; null if it suffices.", None)
    needs_wider_law: bool = member(
        "Whether the law of frequencies should be one wider, because a spread is a guess.", False
    )
    limits: list[str] = member("What it cannot promise, a sentence each.", [])
    privacy: PromiseBody = member("Privacy promise of each sketch.")


def make_calibration(
    found: Any, columns: Iterable[Mapping[str, Any]], **members: Any
) -> CalibrationBody:
    """Make the body of a calibration; columns may have more members than are shown."""
    shown = [ColumnBody(**{name: each[name] for name in _COLUMN}) for each in columns]
    return make_body(CalibrationBody, found, columns=shown, **members)
