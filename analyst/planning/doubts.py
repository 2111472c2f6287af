"""Doubt about a study in words: why not to run it, and what would do."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from sfumato.analyst.planning.candidates import describe_size, round_up
from sfumato.analyst.planning.files import show_exact
from sfumato.learning.planning.remedies import Doubt, Remedies
from sfumato.shared.errors import PlanError


def describe_doubt(doubt: Doubt) -> str:
    """Describe the doubt, its figure, and what would do."""
    return f"Do not run this: {_describe_reason(doubt)}. {_describe_remedies(doubt)}"


def _describe_reason(doubt: Doubt) -> str:
    """Describe the prediction that forbids it."""
    outline = doubt.outline
    records = describe_size(outline.unit, outline.n_records, outline.n_sketches)
    return (
        f"at epsilon {show_exact(doubt.epsilon)}, with {records}, the decoder's verdict on "
        f'every answer of {_count(outline.n_clusters, "cluster")} would be "do not use", '
        f"because {doubt.band.describe_limit()}"
    )


def _describe_remedies(doubt: Doubt) -> str:
    """Describe the changes that would do, each alone."""
    ways = list(_list_remedies(doubt.remedies, is_summed=doubt.outline.is_summed))
    target = f"relative SSE {doubt.remedies.target_sse:g}"
    if not ways:
        return f"No epsilon and no number of records reaches {target}: change several of them."
    return f"Any one of these would reach {target}: {'; '.join(ways)}."


def doubt_to_json(doubt: Doubt) -> dict[str, Any]:
    """Return JSON values; an epsilon is exact text."""
    would_do = asdict(doubt.remedies)
    if doubt.remedies.epsilon is not None:
        would_do["epsilon"] = str(doubt.remedies.epsilon)
    return {
        "reason": _describe_reason(doubt),
        "snr_per_parameter": doubt.band.snr_per_parameter,
        "features_per_parameter": doubt.band.features_per_parameter,
        "would_do": would_do,
        "statement": describe_doubt(doubt),
    }


def require_hope(doubt: Doubt | None, *, anyway: bool) -> None:
    """Refuse a hopeless study, unless ``anyway``.

    Raises
    ------
    PlanError
        The study is hopeless.
    """
    if doubt is not None and not anyway:
        raise PlanError(
            describe_doubt(doubt).removesuffix("."), fix="add --anyway to go on all the same"
        )


def _list_remedies(remedies: Remedies, *, is_summed: bool) -> Iterator[str]:
    if remedies.epsilon is not None:
        yield f"epsilon {show_exact(remedies.epsilon)}"
    if remedies.n_records is not None:
        yield f"{round_up(remedies.n_records):,} records in as many sketches"
    if remedies.n_sketches is not None:
        where = "in as many batches, from more devices"
        if not is_summed:
            where = "from more devices or from more windows that are decoded together"
        yield f"{round_up(remedies.n_sketches):,} sketches of as many records each, {where}"
    if remedies.n_clusters is not None:
        yield f"at most {_count(remedies.n_clusters, 'cluster')}"


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
