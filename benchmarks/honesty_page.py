"""Markdown pages on the accuracy of verdicts, worst rows first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from benchmarks.rows import Row, describe_machine, find_commit

_INTRODUCTION = """\
# Verdicts on shapes that nobody tuned to

Measured on {date} by `python -m benchmarks.honesty --page docs/benchmarks/honesty.md`, commit
{commit}, on {machine}. That command writes this page.

The data are families of synthetic records, and real sets that ship in wheels, with 20,000 records
each. They are sketched in the same way as in a study (planner, integer sums, exact K-norm noise,
default decoder). A digest of the decoder's source determines their parameters, frequencies and
noise, so nobody who changes the decoder has seen them. Every shape is decoded at two noise levels
with honest guesses of scale and bounds, and in two situations with a mistake. *Relative SSE* is the
SSE of the centroids divided by that of k-means on the records. *Truth start* is the relative SSE of
round clusters fitted by descent from the clusters of k-means. It shows what a perfect search could
recover from the sketch.
"""


def write_page(rows: Sequence[Row], introduction: str = _INTRODUCTION) -> str:
    """Write rows of answers, verdicts and quality as a page of Markdown.

    ``introduction`` is a format with the fields ``date``, ``commit`` and ``machine``.
    """
    head = introduction.format(
        date=f"{datetime.now(UTC):%Y-%m-%d}", commit=find_commit(), machine=describe_machine()
    )
    parts = [head, *_list_worst(rows), *_list_verdicts(rows), *_list_quality(rows)]
    parts += _list_coverage(rows)
    return "\n".join(parts) + "\n"


def _list_worst(rows: Sequence[Row]) -> Iterator[str]:
    yield from _list_answers(rows, "worst", "The worst answers, and their verdicts")
    yield from _list_answers(rows, "mistaken", "Bad answers that were called sound or rough")


def _list_answers(rows: Sequence[Row], prefix: str, title: str) -> Iterator[str]:
    chosen = [row for row in rows if row.case.startswith(f"{prefix} ")]
    if not chosen:
        return
    yield f"## {title}\n"
    yield "| shape and situation | relative SSE | verdict | promised band, and truth start |"
    yield "|---|---|---|---|"
    for row in chosen:
        case = row.case.removeprefix(f"{prefix} ")
        yield f"| {case} | {_format(row.value)} | {row.figure} | {row.baseline} |"
    yield ""


def _list_verdicts(rows: Sequence[Row]) -> Iterator[str]:
    words = ("sound", "rough", "doubtful", "do_not_use")
    yield "## Verdicts, by quality of the answers\n"
    yield "| answers | number | sound | rough | doubtful | do not use |"
    yield "|---|---|---|---|---|---|"
    for case in _find_cases(rows, words):
        found = {row.figure: row for row in rows if row.case == case}
        shares = " | ".join(f"{found[word].value:.1%}" for word in words)
        yield f"| {case.removeprefix('answers ')} | {found['sound'].runs} | {shares} |"


def _list_quality(rows: Sequence[Row]) -> Iterator[str]:
    figures = (
        "median_relative_sse",
        "p90_relative_sse",
        "truth_start_median",
        "truth_start_p90",
        "phantoms_shown",
    )
    cases = _find_cases(rows, figures)
    if not cases:
        return
    yield "\n## Quality\n"
    yield "| records, situation | decodes | median / p90 | truth start | phantoms shown |"
    yield "|---|---|---|---|---|"
    for case in cases:
        found = {row.figure: row.value for row in rows if row.case == case}
        n = next(row.runs for row in rows if row.case == case)
        median, p90, truth, truth_p90, phantoms = (found[figure] for figure in figures)
        yield (
            f"| {case} | {n} | {_format(median)} / {_format(p90)} | {_format(truth)} / "
            f"{_format(truth_p90)} | {phantoms:g} |"
        )
    yield "\n| mixtures of clusters, at most weak noise | decodes | median / p90 | truth start |"
    yield "|---|---|---|---|"
    for case in _find_cases(rows, figures[:4]):
        if case.endswith("at most weak noise"):
            found = {row.figure: row.value for row in rows if row.case == case}
            n = next(row.runs for row in rows if row.case == case)
            cells = [_format(found[figure]) for figure in figures[:4]]
            own, ideal = " / ".join(cells[:2]), " / ".join(cells[2:])
            yield f"| {case.split(', ')[0]} | {n} | {own} | {ideal} |"


def _list_coverage(rows: Sequence[Row]) -> Iterator[str]:
    yield "\n## How often the band held\n"
    yield "The band promises to hold nine times in ten.\n"
    yield "| records | decodes | held | median width |"
    yield "|---|---|---|---|"
    widths = {row.case: row.value for row in rows if row.figure == "median_width"}
    for row in rows:
        if row.figure == "coverage":
            width = _format(widths[row.case]) if row.case in widths else ""
            yield f"| {row.case} | {row.runs} | {row.value:.1%} | {width} |"


def _find_cases(rows: Sequence[Row], figures: Sequence[str]) -> list[str]:
    """Return the cases that have all of some figures, in order."""
    of_case: dict[str, set[str]] = {}
    for row in rows:
        of_case.setdefault(row.case, set()).add(row.figure)
    return [case for case, found in of_case.items() if found >= set(figures)]


def _format(value: float) -> str:
    return f"{value:.3f}" if value < 10 else f"{value:.3g}"
