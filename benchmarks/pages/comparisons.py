"""Rows of several methods side by side: other libraries, and second looks."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from benchmarks.pages.templates import Tables, describe_ends, group_rows, list_table, pivot
from benchmarks.runner import Row

ByMethod = Mapping[str, Mapping[str, Mapping[str, Row]]]
"""Rows by case without a method, method, and figure."""


def split_methods(rows: Iterable[Row], methods: Iterable[str] = ()) -> ByMethod:
    """Return rows by case and method: one of some methods, else the last word of a case."""
    names = sorted(methods, key=len, reverse=True)
    found: dict[str, dict[str, dict[str, Row]]] = {}
    for case, figures in group_rows(rows).items():
        name = next((n for n in names if case.endswith(f" {n}")), case.rpartition(" ")[2])
        found.setdefault(case.removesuffix(f" {name}"), {})[name] = figures
    return found


def show_all(
    found: Mapping[str, Mapping[str, Row]], show: Callable[[Mapping[str, Row]], str]
) -> dict[str, str]:
    """Return the cell of each method that has one."""
    return {name: cell for name, figures in found.items() if (cell := show(figures))}


def show_median(figures: Mapping[str, Row]) -> str:
    """Return the cell of a median."""
    return f"{figures['median_relative_sse'].value:.2f}"


def show_quality(figures: Mapping[str, Row]) -> str:
    """Return the cell of a median, with the 90th percentile where it is more than 2 % above."""
    tail = figures["p90_relative_sse"].value
    has_tail = tail > 1.02 * figures["median_relative_sse"].value
    return show_median(figures) + (f"/{tail:.2f}" if has_tail else "")


# ---- other libraries ----


def _list_peers(rows: Sequence[Row]) -> Iterator[str]:
    found = split_methods(rows)
    listed = (
        (tuple(case.rsplit(" epsilon=", 1)), show_all(own, show_quality))
        for case, own in found.items()
    )
    yield from pivot(
        ("set", "epsilon"), listed, dict.fromkeys(n for own in found.values() for n in own)
    )


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


PEERS: Final[Tables] = {
    "table": _list_peers,
    "comparisons": _list_comparisons,
    "counts": _count_comparisons,
}

# ---- second looks ----

_SHOTS: Final = ("one shot", "with a look")


def _show_look(figures: Mapping[str, Row]) -> str:
    return f"{figures['relative_sse'].value:.4f}/{figures['relative_sse_p90'].value:.3f}"


def _list_looks(rows: Sequence[Row], more: Mapping[str, str], *, fleets: bool) -> Iterator[str]:
    """Yield cases of one curator or of fleets, with further figures of the look."""
    listed = []
    for case, own in split_methods(
        (row for row in rows if row.benchmark == "looks" and " by m " not in row.case), _SHOTS
    ).items():
        if case.startswith(("secure sum", "local")) == fleets:
            cells = show_all(own, _show_look)
            cells["runs"] = describe_ends(f["relative_sse"] for f in own.values())
            for head, name in more.items():
                found = own.get(head.partition(": ")[0], {}).get(name)
                cells[head] = "-" if found is None else f"{found.value:.0%}"
            listed.append(((case,), cells))
    yield from pivot(("records",), listed, ("runs", *_SHOTS, *more))


LOOKS: Final[Tables] = {
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
