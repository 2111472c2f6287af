"""Results as HTML in a notebook: the verdict first, and names of others as text."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Final

import numpy as np

from sfumato.learning.answers.words import name_clusters
from sfumato.learning.decoding.bars import DEVIATIONS
from sfumato.shared.arrays import Floats
from sfumato.shared.wire.objects.results import ResultBody

_CELL: Final = '<td style="text-align: right; white-space: nowrap">{}</td>'


def describe_as_html(
    body: ResultBody, *, verdict: str, reason: str, warnings: Sequence[str]
) -> str:
    """Return a result as HTML without scripts and styles of its own."""
    names = [each.name for each in body.dimensions]
    heads = "".join(
        f"<th><bdi>{escape(each.name)}</bdi>{_in(each.unit)}</th>" for each in body.dimensions
    )
    resolved = body.resolved or [True] * len(body.weights)
    words = body.words or name_clusters(np.array(body.centroids), np.array(body.weights), names)
    rows = "".join(
        f"<tr><td>{i}</td><td><bdi>{escape(words[i])}</bdi></td>"
        + "".join(_CELL.format(cell) for cell in [f"{share}{'' if is_resolved else ' *'}", *cells])
        + "</tr>"
        for i, (is_resolved, (share, *cells)) in enumerate(zip(resolved, _write(body), strict=True))
    )
    predicted = body.band or body.quality
    notes = [
        *([] if body.centroid_errors is None else ["±: 90 % bars"]),
        *([] if all(resolved) else ["* cannot be told from noise"]),
        *([] if predicted is None else [predicted.statement]),
        body.privacy.statement,
        *(f"Warning: {each}" for each in warnings),
    ]
    said = "".join(f"<p>{escape(note)}</p>" for note in notes)
    return (
        f"<div><p><b>{escape(verdict)}</b>: {escape(reason)}</p>"
        f"<table><thead><tr><th>cluster</th><th></th><th>share</th>{heads}</tr></thead>"
        f"<tbody>{rows}</tbody></table>{said}</div>"
    )


def _in(unit: str) -> str:
    return "" if unit == "1" else f"<br>({escape(unit)})"


def _write(body: ResultBody) -> list[list[str]]:
    errors, weight_errors = (
        None if each is None else np.array(each)
        for each in (body.centroid_errors, body.weight_errors)
    )
    return write_centroids(np.array(body.weights), np.array(body.centroids), errors, weight_errors)


def write_centroids(
    weights: Floats, centroids: Floats, errors: Floats | None, weight_errors: Floats | None
) -> list[list[str]]:
    """Return the share of each cluster and its centroid, with 90 % bars where any may be shown.

    Parameters
    ----------
    weights, centroids
        Shapes ``(k,)`` and ``(k, d)``.
    errors, weight_errors
        Standard errors of centroids and weights; None where no bars are shown.
    """
    return [
        [
            f"{weight:.1%}" + _write_bar(weight_errors, i, form=".1%"),
            *(f"{value:.4g}" + _write_bar(errors, i, j) for j, value in enumerate(centroid)),
        ]
        for i, (weight, centroid) in enumerate(zip(weights, centroids, strict=True))
    ]


def _write_bar(errors: Floats | None, *place: int, form: str = ".2g") -> str:
    return "" if errors is None else f" ± {DEVIATIONS * float(errors[place]):{form}}"
