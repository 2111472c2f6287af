"""Page of the private methods, from the rows of :mod:`benchmarks.methods`.

Run as ``python -m benchmarks.methods_page ROWS... --page FILE [--plot FILE]``; ROWS are files of
JSON lines. ``--plot`` draws the same rows.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from benchmarks.choosing import measure_regret, read_trials
from benchmarks.contenders import CONTENDERS, SKETCH
from benchmarks.method_trial import REASONS, STRENGTHS, TRIAL, is_alike
from benchmarks.pages import describe_ends, list_table, name_origins, run_page
from benchmarks.rows import Row

_INTRODUCTION: Final = """\
# Private k-means, method by method

Measured on {date} by `python -m benchmarks.methods --json`, commit {commit}, on {machine}.
`python -m benchmarks.methods_page` writes this page from its rows.

Every private k-means of the literature that can be run, on the same records, with the same relation
(replace-one, so that epsilon counts double against papers that add or remove a record), the same
public box, quantiser and exact noise, and all of the same epsilon. Figures are the SSE relative to
the best k-means on the records: 1 is as good, and one centre for all is 3 to 20. Runs are {runs} a
case: medians, and 90th percentiles after a slash, are good to some 5 % near 1, and 20 % above 2.
Methods that can use the spread inside a cluster get the true one, except where the page says so. On
how to run them see [Methods of the literature](../how-to/methods.md).
"""


@dataclass(frozen=True)
class Method:
    """What is said of a method.

    Parameters
    ----------
    name
        Of its class.
    words, use, guarantee, source
        What it is, when to use it, what it promises, and who wrote it.
    contender
        Of its rows.
    """

    name: str
    words: str
    use: str
    guarantee: str
    source: str
    contender: str


METHODS: Final = (
    Method(
        "CompressiveKMeans",
        "one sum of random features, decoded as a mixture",
        "the default: many columns, parts and fleets, any k later",
        "epsilon, or (epsilon, delta) with Gaussian noise",
        "Schellekens et al. 2019",
        SKETCH,
    ),
    Method(
        "GridKMeans",
        "a noisy histogram of cells, then sums around its clusters",
        "2 to 4 columns",
        "epsilon",
        "Su et al. 2016",
        "grid",
    ),
    Method(
        "TreeKMeans",
        "noisy sums down a tree of random hyperplanes, then sums",
        "many columns, any k later, no scale",
        "epsilon",
        "Ghazi et al. 2020, Chang et al. 2021",
        "tree",
    ),
    Method(
        "CandidateKMeans",
        "centres of full cells of a quadtree, votes for them, then sums",
        "2 to 6 columns, where noise is strong",
        "epsilon",
        "Balcan et al. 2017, Jones et al. 2021",
        "candidates",
    ),
    Method(
        "LloydKMeans",
        "noisy sums of clusters, in rounds: five here",
        "the baseline; refining released centroids",
        "epsilon, or (epsilon, delta)",
        "Blum et al. 2005, McSherry 2009",
        "lloyd",
    ),
    Method(
        "CoverKMeans",
        "points that cover many records, votes, then averages",
        "many clusters of many columns",
        "(epsilon, delta)",
        "Nguyen et al. 2021",
        "cover-delta=1e-6",
    ),
    Method(
        "KernelKMeans",
        "noisy sums of random features of clusters, in rounds",
        "comparison; clusters that are not convex",
        "(epsilon, delta)",
        "Acs et al. 2019",
        "kernel-delta=1e-6",
    ),
    Method(
        "LloydKMeans.published",
        "DPLloyd: Laplace noise, a sphere packing",
        "comparison",
        "epsilon",
        "Su et al. 2016",
        "lloyd-published",
    ),
    Method(
        "GridKMeans.published",
        "EUGkM: negative counts are weights",
        "comparison",
        "epsilon",
        "Su et al. 2016",
        "grid-published",
    ),
    Method(
        'ReferenceKMeans(method="local-search")',
        "local search by exponential choice",
        "comparison",
        "epsilon",
        "Balcan et al. 2017",
        "candidates-published",
    ),
    Method(
        "GridKMeans.published(n_rounds=1)",
        "EUGkM, then a round of DPLloyd: their hybrid",
        "comparison",
        "epsilon",
        "Su et al. 2016",
        "grid-hybrid-published",
    ),
    Method(
        'LloydKMeans.published(start="uniform")',
        "DPLloyd from a random start",
        "comparison",
        "epsilon",
        "Su et al. 2016",
        "lloyd-uniform-published",
    ),
    Method(
        'ReferenceKMeans(method="cover")',
        "max cover with the constants of the paper; see [max cover](cover.md)",
        "comparison",
        "(epsilon, delta), add-remove-one alone",
        "Nguyen et al. 2021",
        "",
    ),
    Method(
        'ReferenceKMeans(method="sample-aggregate")',
        "k-means in blocks, averaged",
        "comparison",
        "epsilon, replace-one alone",
        "Nissim et al. 2007, Mohan et al. 2012",
        "sample-aggregate",
    ),
    Method(
        'ReferenceKMeans(method="privgene")',
        "sets of centroids that survive private choices",
        "comparison",
        "epsilon",
        "Zhang et al. 2013",
        "privgene",
    ),
    Method(
        'ReferenceKMeans(method="k-variates")',
        "noisy records as centroids",
        "comparison",
        "epsilon, replace-one alone, where records are spread as stated; nothing checks it",
        "Nock et al. 2016",
        "k-variates-granted",
    ),
    Method(
        "AutoKMeans",
        "[chooses](#the-choice-of-autokmeans) what did best with as many columns and as much noise",
        "whoever does not want to choose",
        "that of the method",
        "this table",
        "",
    ),
)
_MERGEABLE: Final = (SKETCH, "compressive-delta=1e-6", "grid-alone")
_SHOWN: Final = ("weather", "d=2 k=10", "d=10 k=10", "d=20 k=20")
_MANY: Final = 20
_PLACE: Final = 10_000.0
"""n epsilon of the column of a set in the first table."""

Figures = Mapping[str, Mapping[str, float]]
"""By case without a method, and method."""


def write_page(lines: Iterable[str], date: str, picture: str = "") -> str:
    """Write rows in JSON as a page of Markdown."""
    rows = [json.loads(line) for line in lines]
    runs = [row["runs"] for row in rows]
    head = _INTRODUCTION.format(
        date=date,
        **name_origins(rows),
        runs=describe_ends(runs),
    )
    medians, tails = (_collect(rows, f"{name}_relative_sse") for name in ("median", "p90"))
    parts = [
        *([f"![Quality over n epsilon]({picture})\n"] if picture else []),
        *_list_methods(medians),
        *_list_losses(medians),
        *_list_failures(rows),
        *_list_trial(medians, rows),
        *_list_sets(medians, tails),
        *_list_costs(rows),
        *_list_places(medians, tails, "fleet ", "Fleets"),
        *_list_places(medians, tails, "local ", "One record a device"),
        *_list_regrets(rows),
    ]
    return "\n".join([head, *parts]).rstrip() + "\n"


def _collect(rows: Iterable[Mapping[str, object]], figure: str) -> dict[str, dict[str, float]]:
    found: dict[str, dict[str, float]] = {}
    for row in rows:
        if row["figure"] == figure:
            case, name = _split(str(row["case"]))
            found.setdefault(case, {})[name] = float(str(row["value"]))
    return found


def _split(case: str) -> tuple[str, str]:
    """Return a case without its method, and the method."""
    if case.endswith(" one centre"):
        return case.removesuffix(" one centre"), "one centre"
    head, _, name = case.rpartition(" ")
    return head, name


def _list_methods(medians: Figures) -> Iterator[str]:
    def show(source: str, method: Method) -> str:
        found = medians.get(f"{source} n_eps={_PLACE:.0e}", {})
        return f"{found[method.contender]:.2f}" if method.contender in found else "-"

    yield from list_table(
        "The methods",
        f"With the median of each on four sets at n epsilon = {_PLACE:,.0f}. A guarantee is for "
        "replace-one or add-remove-one, as you choose, unless it names one; epsilon alone is pure. "
        "`-` was not run there.",
        ("class", "what it is", "use it for", "guarantee", "source", *_SHOWN),
        (
            f"| `{each.name}` | {each.words} | {each.use} | {each.guarantee} | {each.source} | "
            + " | ".join(show(source, each) for source in _SHOWN)
            + " |"
            for each in METHODS
        ),
    )


def _list_losses(medians: Figures) -> Iterator[str]:
    losses = []
    for case, found in medians.items():
        others = {
            name: sse
            for name, sse in found.items()
            if not name.startswith(SKETCH) and "delta=" not in name
        }
        if SKETCH in found and others and not case.startswith(("fleet", "local")):
            best = min(others, key=others.__getitem__)
            losses.append((found[SKETCH] / others[best], case, best, others[best], found[SKETCH]))
    losses.sort(reverse=True)
    yield from list_table(
        "Where the sketch loses",
        "Pure epsilon. All cases in which another method is better by more than 2 %.",
        ("case", "best method", "its SSE", "the sketch's", "ratio"),
        (
            f"| {case} | {best} | {sse:.2f} | {sketch:.2f} | {loss:.2f} |"
            for loss, case, best, sse, sketch in losses
            if loss > 1.02
        ),
    )


def _list_failures(rows: Sequence[Mapping[str, object]]) -> Iterator[str]:
    shares = _collect(rows, "share_above_2")
    cases = [f"{source} n_eps={_PLACE:.0e}" for source in _SHOWN]
    cases = [case for case in cases if case in shares]
    names = [name for name in CONTENDERS if any(name in shares[case] for case in cases)]
    yield from list_table(
        "How often they fail",
        f"Share of runs at twice the best SSE or more, at n epsilon = {_PLACE:,.0f}.",
        ("method", *(case.partition(" n_eps=")[0] for case in cases)),
        (
            f"| {name} | "
            + " | ".join(
                f"{shares[case][name]:.0%}" if name in shares[case] else "-" for case in cases
            )
            + " |"
            for name in names
        ),
    )


def _list_trial(medians: Figures, rows: Sequence[Mapping[str, object]]) -> Iterator[str]:
    runs = {str(row["case"]): int(str(row["runs"])) for row in rows}
    listed, differing = [], []
    for source, trial in TRIAL.items():
        for name, expected in trial.items():
            cells = []
            for strength, before in zip(STRENGTHS, expected, strict=True):
                found = medians.get(f"{source} n_eps={strength:.0e}", {}).get(name)
                if found is None or runs[f"{source} n_eps={strength:.0e} {name}"] < _MANY:
                    cells.append("-")
                    continue
                mark = "" if is_alike(name, before, found) else " *"
                cells.append(f"{before:.2f}, {found:.2f}{mark}")
            if any(cell != "-" for cell in cells):
                listed.append(f"| {source} | {name} | {' | '.join(cells)} |")
                if any("*" in cell for cell in cells):
                    differing.append(name)
    yield from list_table(
        "Beside an earlier trial",
        "Medians of an independent trial of the same methods, before this package, over 5 seeds, "
        f"and then those of at least {_MANY} seeds here, over n epsilon. The mixtures are drawn by "
        "the same recipe and are others. A star marks a median that is worse by more than 5 % "
        "where the trial's is below 1.5, and by more than 25 % above; for published settings, one "
        "that differs as much to either side.",
        ("set", "method", *(f"{strength:,.0f}" for strength in STRENGTHS)),
        listed,
    )
    reasons = [f"* `{name}`: {REASONS[name]}" for name in dict.fromkeys(differing)]
    if reasons:
        yield "Why they differ:\n"
        yield from reasons
        yield ""


def _list_sets(medians: Figures, tails: Figures) -> Iterator[str]:
    sources: dict[str, list[float]] = {}
    for case in medians:
        source, found, strength = case.partition(" n_eps=")
        if found and not source.startswith("fleet"):
            sources.setdefault(source, []).append(float(strength))
    for source, strengths in sorted(sources.items(), key=lambda each: ("n=" in each[0], each[0])):
        columns = sorted(strengths)
        cases = [f"{source} n_eps={strength:.0e}" for strength in columns]
        names = [name for name in CONTENDERS if any(name in medians[case] for case in cases)]
        yield from list_table(
            source,
            "Median / 90th percentile, over n epsilon.",
            ("method", *(f"{strength:,.0f}" for strength in columns)),
            (
                f"| {name} | "
                + " | ".join(_show(medians[case], tails.get(case, {}), name) for case in cases)
                + " |"
                for name in names
            ),
        )


def _show(medians: Mapping[str, float], tails: Mapping[str, float], name: str) -> str:
    if name not in medians:
        return "-"
    tail = f"/{tails[name]:.2f}" if tails.get(name, 0.0) > 1.02 * medians[name] else ""
    return f"{medians[name]:.2f}{tail}"


def _list_costs(rows: Sequence[Mapping[str, object]]) -> Iterator[str]:
    case = "d=10 k=10 n_eps=1e+05"
    costs = {
        figure: _collect(rows, figure).get(case, {}) for figure in ("cpu", "released", "rounds")
    }
    yield from list_table(
        "What they take",
        f"{case}, 100,000 records: CPU seconds of a fit, bytes released, rounds, and whether "
        "releases of several parts add up to one of all.",
        ("method", "seconds", "bytes", "rounds", "adds up"),
        (
            f"| {name} | {costs['cpu'][name]:.2f} | {costs['released'][name]:,.0f} | "
            f"{costs['rounds'][name]:.0f} | {'yes' if name in _MERGEABLE else 'no'} |"
            for name in CONTENDERS
            if name in costs["cpu"]
        ),
    )


def _list_places(medians: Figures, tails: Figures, start: str, title: str) -> Iterator[str]:
    cases = [case for case in medians if case.startswith(start)]
    names = list(dict.fromkeys(name for case in cases for name in medians[case]))
    words = (
        "Each of L devices adds noise of its own; n epsilon is that of all records together. "
        "`whole` are sketches of all frequencies on every device. Methods in rounds have no row: "
        "they need all records in one place."
        if start == "fleet "
        else "Each device reports once, and no party sees its record. `one centre` is the mean of "
        "all records, without noise: above it nothing was found."
    )
    yield from list_table(
        title,
        words,
        ("case", *names),
        (
            f"| {case.removeprefix(start)} | "
            + " | ".join(_show(medians[case], tails.get(case, {}), name) for name in names)
            + " |"
            for case in cases
        ),
    )


def _list_regrets(rows: Sequence[Mapping[str, object]]) -> Iterator[str]:
    trials = read_trials(json.dumps(row) for row in rows)
    found: dict[str, dict[str, Row]] = {}
    for figure in measure_regret(trials):
        found.setdefault(figure.case, {})[figure.figure] = figure
    yield from list_table(
        "The choice of `AutoKMeans`",
        "The SSE of a choice over that of the best method of each case: mean, 90th percentile and "
        "worst. `choice` is the rule fitted without the set that it is tried on.",
        ("rule", "cases", "mean", "p90", "worst"),
        (
            f"| {case} | {each['mean_regret'].runs} | {each['mean_regret'].value:.2f} | "
            f"{each['p90_regret'].value:.2f} | {each['worst_regret'].value:.2f} |"
            for case, each in found.items()
            if math.isfinite(each["mean_regret"].value)
        ),
    )


def _load_draw() -> Callable[[Sequence[Row], Path], None]:
    from benchmarks.method_pictures import draw_methods  # noqa: PLC0415

    return draw_methods


if __name__ == "__main__":
    run_page("methods_page", write_page, _load_draw)
