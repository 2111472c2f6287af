"""Tables of pages that compare methods: rows are cases, columns are methods or places."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from functools import partial
from typing import Final

from benchmarks.calibration import BUDGETS
from benchmarks.choosing import measure_regret, read_trials
from benchmarks.contenders import CONTENDERS, SKETCH
from benchmarks.cover import METHODS as COVERS
from benchmarks.pages.comparisons import (
    LOOKS,
    PEERS,
    ByMethod,
    show_all,
    show_median,
    show_quality,
    split_methods,
)
from benchmarks.pages.templates import Cells, Tables, group_rows, list_table, pivot
from benchmarks.runner import Row
from benchmarks.synthesis_items import INDEPENDENT, LENGTHS
from benchmarks.synthesis_ways import FLEETS, WAYS
from benchmarks.unknown_sets import SETS

# ---- max cover ----


def _list_covers(
    rows: Sequence[Row], start: str, show: Callable[[Mapping[str, Row]], str]
) -> Iterator[str]:
    found = split_methods(rows, COVERS)
    listed = (
        ((case.removeprefix(start),), show_all(own, show))
        for case, own in found.items()
        if case.startswith(start) and not case.startswith("accounting")
    )
    yield from pivot(("case",), listed, COVERS)


def _show_cost(figures: Mapping[str, Row]) -> str:
    cost, spread = figures["mean_squared_distance"].value, figures["spread_over_seeds"].value
    return f"{cost:,.0f}" + (f"/{spread:,.0f}" if spread >= 0.5 else "")


_COVER: Final[Tables] = {
    "recipe": lambda rows: _list_covers(rows, "d=100 ", _show_cost),
    "images": lambda rows: _list_covers(rows, "mnist ", _show_cost),
    "seconds": lambda rows: _list_covers(rows, "", lambda own: f"{own['cpu_seconds'].value:.2f}"),
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
    "third": lambda rows: _list_curves(rows, "fig3"),
    "right": lambda rows: _list_curves(rows, "fig2 right"),
    "left": lambda rows: _list_curves(rows, "fig2 left"),
}

# ---- private k-means ----

_MERGEABLE: Final = (SKETCH, "compressive-delta=1e-6", "grid-alone")
_SHOWN: Final = ("weather", "d=2 k=10", "d=10 k=10", "d=20 k=20")
_PLACE: Final = " n_eps=1e+04"
_COSTS: Final = {
    "seconds": ("cpu", ".2f"),
    "bytes": ("released", ",.0f"),
    "rounds": ("rounds", ".0f"),
}
_OF_CHOICE: Final = "n=2e+04"
_SETS: Final = "Median / 90th percentile, over n epsilon."


def _split_contenders(rows: Iterable[Row]) -> ByMethod:
    return split_methods(rows, ("one centre",))


def fill_methods(template: str, rows: Sequence[Row]) -> str:
    """Fill ``{at:METHOD}`` with the medians of a method on four sets."""
    found = _split_contenders(rows)

    def show(match: re.Match[str]) -> str:
        cells = (found.get(name + _PLACE, {}).get(match[1]) for name in _SHOWN)
        return " | ".join(show_median(cell) if cell else "-" for cell in cells)

    return re.sub(r"\{at:(.*?)\}", show, template)


def _list_sketch_losses(rows: Sequence[Row]) -> Iterator[str]:
    losses = []
    for case, found in _split_contenders(rows).items():
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
            if ratio > 1.02
        ),
    )


def _list_by_contender(
    found: ByMethod, cases: Mapping[str, str], show: Callable[[Mapping[str, Row]], str]
) -> Iterator[str]:
    """Yield a line for each contender, and a column for each case with the head that it has."""
    listed = [
        (
            (name,),
            {head: show(found[case][name]) for case, head in cases.items() if name in found[case]},
        )
        for name in CONTENDERS
    ]
    yield from pivot(("method",), (each for each in listed if each[1]), cases.values())


def _list_failures(rows: Sequence[Row]) -> Iterator[str]:
    found = _split_contenders(row for row in rows if row.figure == "share_above_2")
    cases = {name + _PLACE: name for name in _SHOWN if name + _PLACE in found}
    yield from _list_by_contender(found, cases, lambda own: f"{own['share_above_2'].value:.0%}")


def _list_sets(rows: Sequence[Row]) -> Iterator[str]:
    """Yield a section for each set, but for those that only the choice is judged on."""
    found = _split_contenders(rows)
    sources: dict[str, list[float]] = {}
    for case in found:
        source, has_strength, strength = case.partition(" n_eps=")
        if has_strength and not source.startswith("fleet") and _OF_CHOICE not in source:
            sources.setdefault(source, []).append(float(strength))
    for source, strengths in sorted(sources.items(), key=lambda each: ("n=" in each[0], each[0])):
        cases = {f"{source} n_eps={each:.0e}": f"{each:,.0f}" for each in sorted(strengths)}
        yield f"## {source}\n\n{_SETS}\n"
        yield from _list_by_contender(found, cases, show_quality)
        yield ""


def _list_costs(rows: Sequence[Row]) -> Iterator[str]:
    found = _split_contenders(rows).get("d=10 k=10 n_eps=1e+05", {})
    yield from list_table(
        ("method", *_COSTS, "adds up"),
        (
            (
                name,
                *(format(found[name][figure].value, form) for figure, form in _COSTS.values()),
                "yes" if name in _MERGEABLE else "no",
            )
            for name in CONTENDERS
            if name in found
        ),
    )


def _list_places(rows: Sequence[Row], start: str) -> Iterator[str]:
    found = {c: own for c, own in _split_contenders(rows).items() if c.startswith(start)}
    names = dict.fromkeys(name for own in found.values() for name in own)
    listed = (
        ((case.removeprefix(start),), show_all(own, show_quality)) for case, own in found.items()
    )
    yield from pivot(("case",), listed, names)


def _list_regrets(rows: Sequence[Row]) -> Iterator[str]:
    found = group_rows(measure_regret(read_trials(rows)))
    figures = ("mean_regret", "p90_regret", "worst_regret")
    yield from list_table(
        ("rule", "cases", "mean", "p90", "worst"),
        (
            (case, str(own[figures[0]].runs), *(f"{own[each].value:.2f}" for each in figures))
            for case, own in found.items()
        ),
    )


_METHODS: Final[Tables] = {
    "losses": _list_sketch_losses,
    "failures": _list_failures,
    "sections": _list_sets,
    "costs": _list_costs,
    "fleets": lambda rows: _list_places(rows, "fleet "),
    "phones": lambda rows: _list_places(rows, "local "),
    "regrets": _list_regrets,
}

# ---- synthetic records ----

_BOTH: Final = next(iter(WAYS))
_KINDS: Final = {"uniform ends": "", "whole bins": ", whole bins"}
_MEASURES: Final = {"relative": ".2f", "absolute": ".1%"}
_ITEM_SETS: Final = ("sparse", "mnist")
_STATED: Final = {
    **{f"{n} column{'s' * (n > 1)}": f"error_over_stated, columns={n}" for n in (1, 2, 3)},
    "correlations": "correlation_error_over_stated",
    "within twice": "correlations_within_twice",
}


def split_ways(
    rows: Iterable[Row], *, has_items: bool
) -> dict[Cells, Mapping[str, Mapping[str, Row]]]:
    """Return rows by set and epsilon, way, and figure: of sets of items, or of ranges."""
    found: dict[Cells, dict[str, Mapping[str, Row]]] = {}
    for case, figures in group_rows(rows).items():
        name, epsilon, way = case.split(" ", 2)
        if (name in _ITEM_SETS) == has_items:
            found.setdefault((name, epsilon.removeprefix("eps=")), {})[way] = figures
    order = sorted(found, key=lambda case: (case[0], Fraction(case[1])))
    return {case: found[case] for case in order}


def _list_way_losses(rows: Sequence[Row]) -> Iterator[str]:
    losses = []
    for case, ways in split_ways(rows, has_items=False).items():
        for measure, form in _MEASURES.items():
            for words, kind in _KINDS.items():
                figure = f"{measure}_error{kind}"
                ours = ways.get(_BOTH, {}).get(figure)
                for way in WAYS:
                    row = ways.get(way, {}).get(figure)
                    if ours and row and row.value < ours.value:
                        cells = (*case, words, measure, way, format(row.value, form))
                        losses.append((row.value / ours.value, (*cells, format(ours.value, form))))
    yield from list_table(
        ("set", "epsilon", "boxes", "error", "better", "its error", "sketch and histograms"),
        (cells for _, cells in sorted(losses)),
    )


def _list_ways(rows: Sequence[Row], show: Callable[[Mapping[str, Row]], str]) -> Iterator[str]:
    ranges = split_ways(rows, has_items=False)
    names = [way for way in WAYS if any(way in ways for ways in ranges.values())]
    listed = ((case, {"": "", **show_all(ways, show)}) for case, ways in ranges.items())
    yield from pivot(("set", "epsilon"), listed, names)


def _show_range(figures: Mapping[str, Row], kind: str) -> str:
    errors = [figures.get(f"{measure}_error{kind}") for measure in _MEASURES]
    if None in errors:
        return ""
    relative, absolute = (
        f"{each.value:{form}}"
        for each, form in zip(errors, _MEASURES.values(), strict=True)
        if each
    )
    return f"{relative} ({absolute})"


def _list_way_fleets(rows: Sequence[Row]) -> Iterator[str]:
    def show(figures: Mapping[str, Row]) -> str:
        found = (figures.get(f"relative_error{kind}") for kind in _KINDS.values())
        return " / ".join(f"{row.value:.2f}" if row else "-" for row in found)

    heads = {_BOTH: "L = 1", **{way: way.rpartition(", ")[2].replace("=", " = ") for way in FLEETS}}
    listed = (
        ((*case, *(show(ways.get(way, {})) for way in heads)))
        for case, ways in split_ways(rows, has_items=False).items()
        if any(way in ways for way in FLEETS)
    )
    yield from list_table(("set", "epsilon", *heads.values()), listed)


def _list_items(rows: Sequence[Row]) -> Iterator[str]:
    def show(figures: Mapping[str, Row], length: str) -> str:
        row = figures.get(f"any_item_error, {length}")
        return f"{row.value:.3f}" if row else "-"

    listed = (
        (*case, way, str(next(iter(own.values())).runs), *(show(own, each) for each in LENGTHS))
        for case, ways in split_ways(rows, has_items=True).items()
        for way, own in sorted(ways.items(), key=lambda each: each[0] == INDEPENDENT)
    )
    yield from list_table(("set", "epsilon", "way", "runs", *LENGTHS), listed)


def _list_stated(rows: Sequence[Row]) -> Iterator[str]:
    def show(figures: Mapping[str, Row], name: str) -> str:
        row = figures.get(_STATED[name])
        return "-" if row is None else f"{row.value:{'.0%' if 'within' in name else '.2f'}}"

    listed = (
        (*case, way, *(show(own, name) for name in _STATED))
        for case, ways in split_ways(rows, has_items=False).items()
        for way, own in ways.items()
        if {_STATED["correlations"], _STATED["1 column"]} & set(own)
    )
    yield from list_table(("set", "epsilon", "way", *_STATED), listed)


def _list_seconds(rows: Sequence[Row]) -> Iterator[str]:
    seconds: dict[Cells, list[float]] = {}
    for has_items in (False, True):
        for (name, _), ways in split_ways(rows, has_items=has_items).items():
            for way, own in ways.items():
                if "cpu_s" in own:
                    seconds.setdefault((name, way), []).append(own["cpu_s"].value)
    listed = sorted(seconds.items(), key=lambda each: each[0][0])
    yield from list_table(
        ("set", "way", "seconds"), ((*key, f"{max(each):.2g}") for key, each in listed)
    )


def _show_correlation(figures: Mapping[str, Row]) -> str:
    row = figures.get("correlation_error")
    return f"{row.value:.3f}" if row else ""


_SYNTHESIS: Final[Tables] = {
    "losses": _list_way_losses,
    "uniform": lambda rows: _list_ways(rows, partial(_show_range, kind="")),
    "whole": lambda rows: _list_ways(rows, partial(_show_range, kind=", whole bins")),
    "fleets": _list_way_fleets,
    "items": _list_items,
    "correlations": lambda rows: _list_ways(rows, _show_correlation),
    "stated": _list_stated,
    "seconds": _list_seconds,
}

# ---- calibration ----


def _list_pilots(rows: Sequence[Row]) -> Iterator[str]:
    found = group_rows(rows)

    def show(case: str) -> str:
        own = found.get(case, {})
        if "told" not in own:
            return ""
        above = own["above_band"].value
        beyond = f", {above:.0%} above" if above else ""
        median, worst = (own[f"{each}_over_oracle"].value for each in ("median", "worst"))
        return f"{median:.3f}, {worst:.3f} ({own['told'].value:.0%} told{beyond})"

    listed = (
        (name, *(show(f"{name} n_eps={words} pilot") for words in BUDGETS))
        for name in SETS
        if any(case.startswith(f"{name} ") for case in found)
    )
    yield from list_table(("columns", *(f"n epsilon = {words}" for words in BUDGETS)), listed)


TABLES: Final[Mapping[str, Tables]] = {
    "calibration": {"table": _list_pilots},
    "cover": _COVER,
    "methods": _METHODS,
    "looks": LOOKS,
    "paper": _PAPER,
    "peers": PEERS,
    "synthesis": _SYNTHESIS,
}
"""By page."""
