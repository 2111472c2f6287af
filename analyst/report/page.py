"""The page: the verdict first, then pictures, protection and origin, and all figures as tables."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import fields
from html import escape

import numpy as np

from sfumato.analyst.report.charts import draw_curve, draw_positions, draw_shares, show_number
from sfumato.analyst.report.layout import capitalise, fold, render_page, tabulate
from sfumato.analyst.results import UNUSABLE, DecodeResult
from sfumato.analyst.results.looks import describe_look, show_measured
from sfumato.learning.decoding.bars import DEVIATIONS
from sfumato.learning.decoding.judgement import LEAST_SNR_PER_PARAMETER
from sfumato.learning.decoding.verdict import DOUBTFUL, ROUGH, SOUND
from sfumato.shared.arrays import Floats
from sfumato.shared.plan import compute_plan_digest, make_statement
from sfumato.shared.wire.objects.results import ChoiceBody, EvidenceBody

_MOST_PANELS = 160
"""Clusters times axes beyond which positions are a table of shades, not pictures."""
_CLUSTERS_ACROSS = 8
"""Clusters beside each other in a table, so that it fits a sheet of paper."""
_SHADES = 8
_MOST_JSON = 120_000
"""Characters of JSON beyond which the fitted density is left out of it."""


def render_report(result: DecodeResult, *, title: str, origin: str = "") -> str:
    """Return a result as one HTML page without scripts or anything from elsewhere.

    Parameters
    ----------
    title
        The study's name, or the file's.
    origin
        The command that gives the same result again, if there is one.
    """
    body = "".join(
        [
            f'<p class="note">{escape(_describe_size(result))}</p>',
            *_describe_verdict(result),
            *_draw_clusters(result),
            *_describe_looks(result),
            *_describe_choice(result.choice),
            *_describe_evidence(result.evidence),
            *_describe_privacy(result),
            *_describe_origin(result, origin),
            *_list_figures(result),
        ]
    )
    return render_page(body, title=f"{result.verdict}: {title}", heading=title)


def _describe_size(result: DecodeResult) -> str:
    axes = "1 axis" if len(result.names) == 1 else f"{len(result.names)} axes"
    clusters = "1 cluster" if result.n_clusters == 1 else f"{result.n_clusters} clusters"
    words = f"{clusters} on {axes}"
    if (snapshot := result.snapshot) is None:
        return f"{words}, from files of sketches"
    about = "about " if snapshot.n_records_error else ""
    return (
        f"{words}, from {snapshot.n_sketches:,} private sketches of {snapshot.n_devices:,} "
        f"device(s), {about}{snapshot.n_records:,} records"
        + (f"; {result.selection}" if result.selection else "")
    )


def _describe_verdict(result: DecodeResult) -> Iterator[str]:
    kind = "unusable" if result.verdict == UNUSABLE else result.verdict
    notes = "".join(f"<p>Warning: {escape(each)}</p>" for each in result.warnings)
    quality = f"<p>{escape(capitalise(result.quality))}.</p>" if result.quality else ""
    yield (
        f'<section class="verdict {kind}"><strong>{escape(result.verdict)}</strong>'
        f"<p>{escape(capitalise(result.reason))}.</p>{quality}{notes}</section>"
    )


def _draw_clusters(result: DecodeResult) -> Iterator[str]:
    pale = "" if result.resolved is None or result.resolved.all() else _list_pale(result)
    yield "<section><h2>How the records divide</h2>"
    yield draw_shares(
        result.weights.tolist(),
        result.body.resolved,
        _list_bars(result.weight_errors),
        label="Share of the records of each cluster",
    )
    bars = f"<p>{escape(capitalise(result.bars.sentence))}.</p>"
    yield f"{pale}{bars}</section><section><h2>Where the clusters are</h2>"
    if result.n_clusters * len(result.names) > _MOST_PANELS:
        yield (
            '<p class="note">The darker a cell, the higher the value among the clusters.</p>'
            f"{_tabulate_shades(result)}</section>"
        )
        return
    if result.spreads is not None:
        yield (
            '<p class="note">A coloured line is one standard deviation of the records to each side'
            f"{'' if result.centroid_errors is None else ', a thin one the error bar'}.</p>"
        )
    yield '<div class="panels">'
    for i, (name, unit) in enumerate(zip(result.names, result.units, strict=True)):
        spreads = None if result.spreads is None else result.spreads[:, i].tolist()
        errors = None if result.centroid_errors is None else result.centroid_errors[:, i]
        picture = draw_positions(
            result.centroids[:, i].tolist(),
            spreads,
            _list_bars(errors),
            label=f"Clusters along {name}",
        )
        caption = f"<figcaption>{_name(name, unit)}</figcaption>"
        yield f"<figure>{caption}{picture}</figure>"
    yield "</div></section>"


def _list_bars(errors: Floats | None) -> list[float] | None:
    """Return half the lengths of 90 % bars."""
    return None if errors is None else (DEVIATIONS * errors).tolist()


def _list_pale(result: DecodeResult) -> str:
    assert result.resolved is not None
    numbers = ", ".join(str(i + 1) for i in np.flatnonzero(~result.resolved))
    return f"<p>Cannot be told from noise: {numbers}.</p>"


def _describe_looks(result: DecodeResult) -> Iterator[str]:
    """Yield what second looks measured, beside what the sketch predicts."""
    if result.looks is None:
        return
    yield "<section><h2>What second looks measured</h2>"
    for i, look in enumerate(result.looks.looks, start=1):
        doubts = "".join(f"<p>Doubt: {escape(each)}.</p>" for each in look.doubts)
        words = escape("; ".join(describe_look(look)))
        yield f"<p>Look {i}: {escape(look.verdict.word)}. {capitalise(words)}.</p>{doubts}"
        shares = [(show_measured(each.share, ".1%"), each.is_phantom) for each in look.clusters]
        rows = [
            [
                f"{j + 1}{' (phantom)' if is_phantom else ''}",
                share,
                f"{result.looks.weights[j]:.1%}",
            ]
            for j, (share, is_phantom) in enumerate(shares)
        ]
        yield tabulate(["cluster", "measured share", "predicted"], rows)
    yield (
        '<p class="note">Errors are twice the standard deviation of the noise. A look does not see '
        f"other optima. {escape(capitalise(result.looks.cost))}.</p></section>"
    )


def _describe_choice(choice: ChoiceBody | None) -> Iterator[str]:
    if choice is None:
        return
    picture = draw_curve(
        choice.residuals,
        choice.noise_floors,
        chosen=choice.recommended,
        label="Residual by number of clusters",
    )
    yield (
        f"<section><h2>How many clusters</h2><p>{escape(capitalise(choice.statement))}.</p>"
        "<figure><figcaption>Residual <small>by number of clusters; dashed: what noise alone leaves"
        f"</small></figcaption>{picture}</figure></section>"
    )


def _describe_evidence(evidence: EvidenceBody | None) -> Iterator[str]:
    if evidence is None:
        return
    yield '<section><h2>Why this verdict</h2><table class="facts"><tbody>'
    for each in fields(evidence):
        value = getattr(evidence, each.name)
        if isinstance(value, list):
            continue
        shown = escape(value) if isinstance(value, str) else show_number(value)
        words = escape(each.metadata["description"])
        yield f"<tr><td>{words}</td><td>{shown}</td></tr>"
    yield (
        '</tbody></table><p class="note">The word follows from the largest SSE that is '
        "expected, relative to "
        f"k-means on the records: sound up to {SOUND:g}, rough up to {ROUGH:g}, doubtful up to "
        f"{DOUBTFUL:g}. Below an SNR per parameter of {LEAST_SNR_PER_PARAMETER:g} no result is "
        "used.</p></section>"
    )


def _describe_privacy(result: DecodeResult) -> Iterator[str]:
    statement = make_statement(result.plan)
    if result.privacy != statement.describe():
        # An exact sum: nothing that the plan promises holds for it.
        words = f"<p>{escape(capitalise(result.privacy))}</p>"
        yield f"<section><h2>What is protected</h2>{words}</section>"
        return
    cautions = "".join(f"<p>Caution: {escape(each)}</p>" for each in statement.cautions)
    uncovered = "".join(f"<li>{escape(each)}</li>" for each in statement.unprotected)
    yield (
        "<section><h2>What is protected</h2>"
        f"<p>{escape(result.privacy)}</p>{cautions}"
        f"<details><summary>What the promise does not cover</summary><ul>{uncovered}</ul>"
        "</details></section>"
    )


def _describe_origin(result: DecodeResult, origin: str) -> Iterator[str]:
    snapshot, body = result.snapshot, result.body
    box = ", ".join(f"{name} {low:g} to {high:g}" for name, (low, high) in body.search_box.items())
    rows: list[tuple[str, str | None]] = [
        ("plan", compute_plan_digest(result.plan).hex()),
        ("study", None if snapshot is None else snapshot.study_id),
        ("snapshot", result.snapshot_id),
        ("digest of the sums", result.digest),
        ("selected", (result.selection or "all sketches") if snapshot else "files of sketches"),
        ("weighting", None if snapshot is None else snapshot.weighting),
        ("decode", result.decode_id),
        ("decoder", f"{body.decoder} version {body.decoder_version}, {body.n_replicates} starts"),
        ("seed", None if result.seed is None else str(result.seed)),
        ("searched within", box or "the plan's bounds"),
        ("SNR", show_number(body.snr) if body.snr else None),
        ("residual", f"{show_number(body.residual)}; noise leaves {show_number(body.noise_floor)}"),
        ("again", origin),
    ]
    listed = "".join(
        f"<dt>{name}</dt><dd><code>{escape(value)}</code></dd>" for name, value in rows if value
    )
    yield (
        f'<section><h2>Where it comes from</h2><dl>{listed}</dl><p class="note">The same snapshot, '
        "decoder and seed give the same result again.</p></section>"
    )


def _list_figures(result: DecodeResult) -> Iterator[str]:
    yield "<section><h2>Figures</h2>"
    yield fold("Centroids", _tabulate_clusters(result, result.body.centroids))
    if result.body.centroid_errors is not None:
        errors = [_list_bars(np.array(row)) or [] for row in result.body.centroid_errors]
        yield fold("Half the lengths of error bars", _tabulate_clusters(result, errors))
    if result.body.spreads is not None:
        yield fold("Standard deviations", _tabulate_clusters(result, result.body.spreads))
    yield fold("All of it as JSON", f"<pre>{escape(_make_json(result))}</pre>", kind="json")
    yield "</section>"


def _make_json(result: DecodeResult) -> str:
    """Return the content of the file that ``save`` writes; a large density is left out."""
    text = result.to_file()
    if len(text) <= _MOST_JSON:
        return text
    document = json.loads(text)
    document["result"]["mixture"] = document["result"]["evidence"] = None
    document["left_out"] = ["result.mixture", "result.evidence"]
    return json.dumps(document, ensure_ascii=False)


def _tabulate_clusters(result: DecodeResult, rows: Sequence[Sequence[float]]) -> str:
    def show(first: int, last: int) -> str:
        return tabulate(
            ["axis", *(f"{i + 1}" for i in range(first, last))],
            [
                ["share", *(f"{weight:.1%}" for weight in result.body.weights[first:last])],
                *(
                    [name, *(show_number(row[i]) for row in rows[first:last])]
                    for i, name in enumerate(_list_names(result))
                ),
            ],
        )

    return "".join(show(first, last) for first, last in _cut(result.n_clusters))


def _tabulate_shades(result: DecodeResult) -> str:
    centroids = result.centroids
    low, width = centroids.min(axis=0), np.ptp(centroids, axis=0)
    shades = np.round((_SHADES - 1) * (centroids - low) / np.where(width > 0.0, width, 1.0))

    def show(first: int, last: int) -> str:
        heads = "".join(f"<th>{i + 1}</th>" for i in range(first, last))
        rows = "".join(
            f"<tr><th>{name}</th>"
            + "".join(
                f"<td class=h{shades[k, i]:.0f}>{show_number(centroids[k, i])}</td>"
                for k in range(first, last)
            )
            + "</tr>"
            for i, name in enumerate(_list_names(result))
        )
        return (
            f'<div class="scroll"><table><thead><tr><th>axis</th>{heads}</tr></thead>'
            f"<tbody>{rows}</tbody></table></div>"
        )

    return "".join(show(first, last) for first, last in _cut(result.n_clusters))


def _cut(n_clusters: int) -> Iterator[tuple[int, int]]:
    for first in range(0, n_clusters, _CLUSTERS_ACROSS):
        yield first, min(n_clusters, first + _CLUSTERS_ACROSS)


def _list_names(result: DecodeResult) -> list[str]:
    return [_name(*each) for each in zip(result.names, result.units, strict=True)]


def _name(name: str, unit: str) -> str:
    """Return an axis as HTML; a name that runs from right to left leaves its neighbours alone."""
    small = "" if unit == "1" else f" <small>(<bdi>{escape(unit)}</bdi>)</small>"
    return f"<bdi>{escape(name)}</bdi>{small}"
