"""Results as HTML in a notebook: the verdict first, and names of others as text."""

from __future__ import annotations

from html import escape

from sfumato.shared.wire.objects.results import ResultBody


def describe_as_html(body: ResultBody, *, verdict: str, reason: str) -> str:
    """Return a result as HTML without scripts and styles of its own."""
    heads = "".join(
        f"<th><bdi>{escape(each.name)}</bdi>{_in(each.unit)}</th>" for each in body.dimensions
    )
    resolved = body.resolved or [True] * len(body.weights)
    rows = "".join(
        f"<tr><td>{i}</td><td>{weight:.1%}{'' if is_resolved else ' *'}</td>"
        + "".join(f"<td>{value:.4g}</td>" for value in centroid)
        + "</tr>"
        for i, (weight, centroid, is_resolved) in enumerate(
            zip(body.weights, body.centroids, resolved, strict=True)
        )
    )
    predicted = body.band or body.quality
    notes = [
        *([] if all(resolved) else ["* cannot be told from noise"]),
        *([] if predicted is None else [predicted.statement]),
        body.privacy.statement,
        *(f"Warning: {each}" for each in body.warnings),
    ]
    words = "".join(f"<p>{escape(note)}</p>" for note in notes)
    return (
        f"<div><p><b>{escape(verdict)}</b>: {escape(reason)}</p>"
        f"<table><thead><tr><th>cluster</th><th>share</th>{heads}</tr></thead>"
        f"<tbody>{rows}</tbody></table>{words}</div>"
    )


def _in(unit: str) -> str:
    return "" if unit == "1" else f"<br>({escape(unit)})"
