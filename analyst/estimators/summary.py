"""Summaries of estimators, for people: trust first, then cost, then clusters."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any

from sfumato.analyst.results import DecodeResult
from sfumato.analyst.results.notebook import write_centroids
from sfumato.shared.errors import SketchError

if TYPE_CHECKING:
    from sfumato.analyst.estimators.compressive import CompressiveEstimator

_WIDTH = 100
_MOST_AXES, _MOST_CLUSTERS = 7, 20


def describe_estimator(estimator: CompressiveEstimator) -> str:
    """Describe what an estimator has found; nothing is released or decoded for it."""
    name, known = type(estimator).__name__, vars(estimator)
    held = known.get("_held")
    if held is None:
        return f"{name}: not fitted"
    if "result_" not in known:
        if held.is_exact or held.unreleased is None:
            return f"{name}: not decoded yet; a look at a result decodes"
        # Their exact number may be secret.
        number = "" if held.plan.releases_count else f"{held.unreleased.n_records:,} "
        return (
            f"{name}: {number}records are not released yet; a look at a result releases them once"
        )
    result: DecodeResult = known["result_"]
    lines = [f"{name}: {result.n_clusters} clusters of {_count(estimator)} records"]
    lines += _wrap(f"{result.verdict}: {result.reason}")
    lines += _wrap(result.quality) if result.quality else []
    lines += [line for doubt in result.warnings for line in _wrap(f"warning: {doubt}")]
    lines += _wrap(result.privacy)
    return "\n".join([*lines, "", *_list_clusters(result)])


def _count(estimator: CompressiveEstimator) -> str:
    try:
        n_records = estimator._held.count_records()
    except SketchError:
        return "an unknown number of"
    about = "" if estimator._held.is_exact or not estimator.plan_.releases_count else "about "
    return f"{about}{n_records:,}"


def _wrap(text: str) -> list[str]:
    return textwrap.wrap(text, _WIDTH, initial_indent="  ", subsequent_indent="    ")


def _list_clusters(result: DecodeResult) -> list[str]:
    """Return a table of shares and centroids, with errors where bars may be shown."""
    errors = result.centroid_errors, result.weight_errors
    written = write_centroids(result.weights, result.centroids, *errors)
    rows = [["share", *result.names], *written[:_MOST_CLUSTERS]]
    rows = [row[: 1 + _MOST_AXES] for row in rows]
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = ["  ".join(cell.rjust(w) for cell, w in zip(row, widths, strict=True)) for row in rows]
    if result.body.centroid_errors is not None:
        lines.append("±: 90 % bars")
    left_out: list[Any] = [*result.names[_MOST_AXES:]]
    if left_out:
        lines.append(f"and {len(left_out)} more columns: see cluster_centers_")
    if result.n_clusters > _MOST_CLUSTERS:
        lines.append(f"and {result.n_clusters - _MOST_CLUSTERS} more clusters")
    return lines
