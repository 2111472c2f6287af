"""Tables of pages that compare methods: rows are cases, columns are methods or places."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import partial
from statistics import median
from typing import Final

from benchmarks.choosing import measure_regret, read_trials
from benchmarks.contenders import CONTENDERS, SKETCH
from benchmarks.pages import sizing
from benchmarks.pages.templates import (
    Cells,
    Show,
    Table,
    Tables,
    describe_ends,
    group_rows,
    list_table,
    pivot,
    pivot_cases,
)
from benchmarks.runner import Row
from benchmarks.synthesis_ways import WAYS

ByMethod = Mapping[str, Mapping[str, Mapping[str, Row]]]
"""Rows by case without a method, method, and figure."""


def split_methods(rows: Iterable[Row], *names: str) -> ByMethod:
    """Return rows by case and method: one of some names of more words, else the last word."""
    found: dict[str, dict[str, Mapping[str, Row]]] = {}
    for case, figures in group_rows(rows).items():
        name = next((n for n in names if case.endswith(f" {n}")), case.rpartition(" ")[2])
        found.setdefault(case.removesuffix(f" {name}"), {})[name] = figures
    return found


def show_quality(figures: Mapping[str, Row]) -> str:
    """Return the cell of a median, with the 90th percentile where it is more than 2 % above."""
    if "median_relative_sse" not in figures:
        return ""
    median, tail = (figures[f"{each}_relative_sse"].value for each in ("median", "p90"))
    return f"{median:.2f}" + (f"/{tail:.2f}" if tail > 1.02 * median else "")


_COST: Final = "{mean_squared_distance:,.0f}/{spread_over_seeds:,.0f}"
_COVER: Final[Tables] = {
    "recipe": pivot_cases(("case",), r"d=100 (k=\S+ eps=\S+) (.*)", _COST),
    "seconds": pivot_cases(("case",), r"d=100 (k=\S+ eps=\S+) (.*)", "{cpu_seconds:.2f}"),
}

# ---- the seed paper ----


def collect_curves(rows: Iterable[Row], start: str, figure: str) -> dict[str, dict[float, Row]]:
    """Return the points of curves, ``START CURVE AXIS=PLACE``, by curve and place."""
    curves: dict[str, dict[float, Row]] = {}
    for row in rows:
        head, _, place = row.case.rpartition(" ")
        if row.figure == figure and head.startswith(f"{start} "):
            curve = curves.setdefault(head.removeprefix(f"{start} "), {})
            curve[float(place.partition("=")[2])] = row
    return curves


def _list_curves(rows: Sequence[Row], start: str) -> Iterator[str]:
    curves = collect_curves(rows, start, "median_relative_sse")
    places = sorted({place for curve in curves.values() for place in curve})
    listed = (
        (
            (name, str(min(row.runs for row in curve.values()))),
            {f"{place:.2g}": f"{row.value:.2f}" for place, row in curve.items()},
        )
        for name, curve in curves.items()
    )
    yield from pivot(("curve", "runs"), listed, [f"{place:.2g}" for place in places])


_PAPER: Final[Tables] = {
    "third": partial(_list_curves, start="fig3"),
    "right": partial(_list_curves, start="fig2 right"),
    "left": partial(_list_curves, start="fig2 left"),
}

# ---- private k-means ----

_SHOWN: Final = ("weather", "d=2 k=10", "d=10 k=10", "d=20 k=20")
_PLACE: Final = " n_eps=1e+04"
_VARIED: Final = re.compile(r" (n=|no scale|stretched|wide|zipf)")
"""Names of sets that the choice is judged on, and that have no section of their own."""
_FAR_OFF: Final = re.compile("sample-aggregate|privgene|k-variates|lloyd-uniform|.*-alone")
"""Methods, or halves of them, that the sections of sets leave out: a table has all methods."""
_LOSS: Final = 1.2
"""The least ratio of the sketch's error to another method's that is listed."""
_SETS: Final = "Median / 90th percentile, over n epsilon."


def fill_methods(template: str, rows: Sequence[Row]) -> str:
    """Fill ``{at:METHOD}`` with the medians of a method on four sets."""
    medians = {row.case: row.value for row in rows if row.figure == "median_relative_sse"}

    def show(match: re.Match[str]) -> str:
        cells = (medians.get(f"{name}{_PLACE} {match[1]}") for name in _SHOWN)
        return " | ".join("-" if cell is None else f"{cell:.2f}" for cell in cells)

    return re.sub(r"\{at:(.*?)\}", show, template)


def _list_sketch_losses(rows: Sequence[Row]) -> Iterator[str]:
    losses = []
    for case, found in split_methods(rows).items():
        reached = {name: own["median_relative_sse"].value for name, own in found.items()}
        others = {
            name: sse
            for name, sse in reached.items()
            if not name.startswith(SKETCH) and "delta=" not in name
        }
        if SKETCH in reached and others and not case.startswith(("fleet", "local")):
            best = min(others, key=others.__getitem__)
            ratio = reached[SKETCH] / others[best]
            losses.append((ratio, case, best, others[best], reached[SKETCH]))
    yield from list_table(
        ("case", "best method", "its SSE", "the sketch's", "ratio"),
        (
            (case, best, *(f"{value:.2f}" for value in (sse, own, ratio)))
            for ratio, case, best, sse, own in sorted(losses, reverse=True)
            if ratio > _LOSS
        ),
    )


def _list_by_contender(rows: Sequence[Row], cases: Mapping[str, str], show: Show) -> Iterator[str]:
    """Yield a line for each contender, and a column for each case with the head that it has."""
    found = split_methods(rows)
    listed = [
        (
            (name,),
            {head: show(found[case][name]) for case, head in cases.items() if name in found[case]},
        )
        for name in CONTENDERS
    ]
    yield from pivot(("method",), (each for each in listed if each[1]), cases.values())


def _list_sets(rows: Sequence[Row]) -> Iterator[str]:
    """Yield a section for each set, but for those that only the choice is judged on."""
    sources: dict[str, list[float]] = {}
    near = [row for row in rows if not _FAR_OFF.match(row.case.rpartition(" ")[2])]
    for case in split_methods(near):
        source, has_strength, strength = case.partition(" n_eps=")
        if has_strength and not source.startswith("fleet") and not _VARIED.search(source):
            sources.setdefault(source, []).append(float(strength))
    for source, strengths in sorted(sources.items()):
        cases = {f"{source} n_eps={each:.0e}": f"{each:,.0f}" for each in sorted(strengths)}
        yield f"## {source}\n\n{_SETS}\n"
        yield from _list_by_contender(near, cases, show_quality)
        yield ""


def _list_regrets(rows: Sequence[Row]) -> Iterator[str]:
    found = group_rows(measure_regret(read_trials(rows)))
    heads = ("rule", "cases", "mean", "p90", "worst")
    yield from list_table(
        heads,
        (
            (
                case,
                str(own["mean_regret"].runs),
                *(f"{own[f'{each}_regret'].value:.2f}" for each in heads[2:]),
            )
            for case, own in found.items()
        ),
    )


_METHODS: Final[Tables] = {
    "losses": _list_sketch_losses,
    "sections": _list_sets,
    "fleets": pivot_cases(("case",), r"fleet (.*) (\S+)", show_quality),
    "phones": pivot_cases(("case",), r"local (.*eps=\S+) (.*)", show_quality),
    "regrets": _list_regrets,
}

# ---- other libraries ----

_OURS: Final = ("auto", "split")
_SURE: Final = 2.0
_MATTERS: Final = 0.02
"""An excess over k-means above which a comparison of excesses says something."""


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """The mean of the estimator that chooses beside that of the best other library."""

    case: str
    peer: str
    ours: float
    theirs: float
    error: float

    @property
    def word(self) -> str:
        """Whether ours is better or worse by more than two standard errors of the difference."""
        away = (self.ours - self.theirs) / max(self.error, 1e-12)
        return "worse" if away > _SURE else "better" if away < -_SURE else "alike"


def compare_peers(rows: Iterable[Row]) -> Iterator[Comparison]:
    """Yield a comparison for each case that has ``auto`` and another library."""
    for case, own in split_methods(rows).items():
        means = {
            name: (figures["mean_relative_sse"].value, figures["standard_error"].value)
            for name, figures in own.items()
            if "standard_error" in figures
        }
        others = [name for name in means if name not in _OURS]
        if "auto" not in means or not others:
            continue
        peer = min(others, key=lambda name: means[name][0])
        (ours, error), (theirs, other) = means["auto"], means[peer]
        yield Comparison(
            case=case, peer=peer, ours=ours, theirs=theirs, error=math.hypot(error, other)
        )


def _list_comparisons(rows: Sequence[Row]) -> Iterator[str]:
    heads = ("set", "epsilon", "auto", "best other library", "its mean", "error", "auto is")
    yield from list_table(
        heads,
        (
            (
                *each.case.rsplit(" epsilon=", 1),
                f"{each.ours:.3f}",
                each.peer,
                f"{each.theirs:.3f}",
                f"{each.error:.3f}",
                each.word,
            )
            for each in compare_peers(rows)
        ),
    )


def _count_comparisons(rows: Sequence[Row]) -> Iterator[str]:
    found = list(compare_peers(rows))
    words = [each.word for each in found]
    matters = [each for each in found if each.theirs > 1.0 + _MATTERS]
    smaller = sum(each.ours < each.theirs for each in matters)
    heads = ("cases", "better", "alike", "worse", "excess above 0.02", "auto's is smaller")
    counts = (len(found), *map(words.count, ("better", "alike", "worse")), len(matters), smaller)
    yield from list_table(heads, [tuple(map(str, counts))] if found else [])


def list_by_epsilon(rows: Sequence[Row]) -> Iterator[str]:
    """Yield median, least and greatest over sets of the medians that the page shows.

    A set without a figure of some method counts for none, so that all have the same sets.
    """
    shown: dict[str, list[dict[str, Decimal]]] = {}
    for case, own in split_methods(rows).items():
        medians = {
            name: Decimal(f"{figures['median_relative_sse'].value:.2f}")
            for name, figures in own.items()
            if "median_relative_sse" in figures
        }
        shown.setdefault(case.rpartition(" epsilon=")[2], []).append(medians)
    names = dict.fromkeys(name for sets in shown.values() for own in sets for name in own)
    listed = []
    for epsilon, sets in sorted(shown.items(), key=lambda each: Fraction(each[0])):
        full = [own for own in sets if len(own) == len(names)]
        if full:
            columns = {name: [own[name] for own in full] for name in names}
            cells = {
                name: f"{median(found):.2f} ({min(found)} to {max(found)})"
                for name, found in columns.items()
            }
            listed.append(((epsilon, str(len(full))), cells))
    yield from pivot(("epsilon", "sets"), listed, names)


_PEERS: Final[Tables] = {
    "overview": list_by_epsilon,
    "table": pivot_cases(("set", "epsilon"), r"(.*) epsilon=(\S+) (\S+)", show_quality),
    "comparisons": _list_comparisons,
    "counts": _count_comparisons,
}

# ---- second looks ----

_SHOTS: Final = ("one shot", "with a look")


def _list_looks(rows: Sequence[Row], more: Mapping[str, str], *, fleets: bool) -> Iterator[str]:
    """Yield cases of one curator or of fleets, with further figures of the look."""
    listed = []
    own_rows = (row for row in rows if row.benchmark == "looks" and " by m " not in row.case)
    for case, own in split_methods(own_rows, *_SHOTS).items():
        if case.startswith(("secure sum", "local")) == fleets:
            cells = {
                name: f"{each['relative_sse'].value:.4f}/{each['relative_sse_p90'].value:.3f}"
                for name, each in own.items()
            }
            cells["runs"] = describe_ends(each["relative_sse"] for each in own.values())
            for head, name in more.items():
                found = own.get(head.partition(": ")[0], {}).get(name)
                cells[head] = "-" if found is None else f"{found.value:.0%}"
            listed.append(((case,), cells))
    yield from pivot(("records",), listed, ("runs", *_SHOTS, *more))


_LOOKS: Final[Tables] = {
    "curator": lambda rows: _list_looks(rows, {"with a look: looks": "looks"}, fleets=False),
    "fleets": lambda rows: _list_looks(
        rows,
        {
            "one shot: above 1.3": "share_above_1_3",
            "with a look: above 1.3": "share_above_1_3",
            "with a look: made worse": "made_worse",
            "with a look: unforetold": "worse_unforetold",
        },
        fleets=True,
    ),
}

# ---- synthetic records ----

_BOTH: Final = next(iter(WAYS))
_KINDS: Final = {"uniform ends": "", "whole bins": ", whole bins"}
_MEASURES: Final = {"relative": ".2f", "absolute": ".1%"}
_CASE: Final = r"(weather|shuttle|diamonds) eps=(\S+) (.*)"


def _list_way_losses(rows: Sequence[Row]) -> Iterator[str]:
    losses = []
    found: dict[Cells, dict[str, Mapping[str, Row]]] = {}
    for case, figures in group_rows(rows).items():
        if match := re.fullmatch(_CASE, case):
            found.setdefault(match.groups()[:2], {})[match[3]] = figures
    for cells, ways in found.items():
        for measure, form in _MEASURES.items():
            for words, kind in _KINDS.items():
                figure = f"{measure}_error{kind}"
                ours = ways.get(_BOTH, {}).get(figure)
                for way in WAYS:
                    row = ways.get(way, {}).get(figure)
                    if ours and row and row.value < ours.value:
                        values = (format(each.value, form) for each in (row, ours))
                        losses.append(
                            (row.value / ours.value, (*cells, words, measure, way, *values))
                        )
    yield from list_table(
        ("set", "epsilon", "boxes", "error", "better", "its error", "sketch and histograms"),
        (line for _, line in sorted(losses)),
    )


def _compare_ways(cell: str) -> Table:
    return pivot_cases(
        ("set", "epsilon"), _CASE, cell, WAYS, order=lambda case: (case[0], Fraction(case[1]))
    )


_SYNTHESIS: Final[Tables] = {
    "losses": _list_way_losses,
    "uniform": _compare_ways("{relative_error:.2f} ({absolute_error:.1%})"),
    "whole": _compare_ways("{relative_error, whole bins:.2f} ({absolute_error, whole bins:.1%})"),
    "correlations": _compare_ways("{correlation_error:.3f}"),
}


def _show_pilot(figures: Mapping[str, Row]) -> str:
    if "told" not in figures:
        return ""
    above = figures["above_band"].value
    beyond = f", {above:.0%} above" if above else ""
    median, worst = (figures[f"{each}_over_oracle"].value for each in ("median", "worst"))
    return f"{median:.3f}, {worst:.3f} ({figures['told'].value:.0%} told{beyond})"


TABLES: Final[Mapping[str, Tables]] = {
    "calibration": {"table": pivot_cases(("columns",), r"(\S+) n_eps=(\S+) pilot", _show_pilot)},
    "cover": _COVER,
    "methods": _METHODS,
    "looks": _LOOKS,
    "paper": _PAPER,
    "peers": _PEERS,
    "sizing": sizing.TABLES,
    "synthesis": _SYNTHESIS,
}
"""By page."""
