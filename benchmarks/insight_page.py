"""Page of the figures of comparisons, from the rows of :mod:`benchmarks.insight`.

Run as ``python -m benchmarks.insight_page ROWS... --page FILE``; ROWS are files of JSON lines.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.pages import list_table, name_origins
from benchmarks.rows import read_page

_INTRODUCTION = """\
# Comparisons of sketches

Measured on {date} by `python -m benchmarks.insight --json --part PART --studies N`,
commit {commit}, on {machine}. `python -m benchmarks.insight_page` writes this page from its rows.

Pairs of selections, groups and fleets of devices are compared by their sketches alone, with exact
noise of the mechanisms. *All* is the omnibus statistic, *moved* the directed one, and *single* the
surest change of one parameter of one cluster. *Reported* is the p-value of the smallest of the
three, by the same draws, or of *all* alone where the others are in doubt. Each study has
frequencies, a mixture and a fit of its own; the pairs of one study share its fit, so that the
figures vary more than their number suggests. Settings that
no row names were not measured on this date.
"""
_STATISTICS = ("smallest", "all", "moved", "single")
_LAMPS = ("content", "silence", "unusual")


@dataclass(frozen=True)
class _Figure:
    value: float
    runs: int
    baseline: str


_Cases = dict[str, dict[str, _Figure]]


def write_page(lines: Iterable[str], date: str) -> str:
    """Write rows in JSON as a page of Markdown."""
    rows = [json.loads(line) for line in lines]
    cases: _Cases = {}
    for row in rows:
        figure = _Figure(row["value"], row["runs"], row["baseline"])
        cases.setdefault(row["case"], {})[row["figure"]] = figure
    head = _INTRODUCTION.format(
        date=date,
        **name_origins(rows),
    )
    parts = [*_list_rates(cases), *_list_power(cases), *_list_years(cases)]
    parts += [*_list_groups(cases), *_list_fleets(cases), *_list_lamps(cases)]
    return "\n".join([head, *parts]) + "\n"


def _list_rates(cases: _Cases) -> Iterator[str]:
    def show(found: dict[str, _Figure], name: str) -> str:
        five, one = found[f"false_alarms_5_{name}"], found[f"false_alarms_1_{name}"]
        return f"{five.value:.2f} / {one.value:.2f}"

    yield from list_table(
        "False alarms",
        "Share of pairs without a change with p below 5 % / 1 %, over 5 % / 1 %: 1 is right. *z* "
        "is the root mean square of estimated changes in their standard errors: 1 is right.",
        ("setting", "pairs", "reported", "all", "moved", "single", "z"),
        (
            f"| {case.removeprefix('no change, ')} | {found['rms_score'].runs} | "
            + " | ".join(show(found, name) for name in _STATISTICS)
            + f" | {found['rms_score'].value:.2f} |"
            for case, found in cases.items()
            if "false_alarms_5_smallest" in found
        ),
    )


def _list_power(cases: _Cases) -> Iterator[str]:
    yield from list_table(
        "Power",
        "Share of pairs with a change that have p below 1 %. *Found* is how often the surest "
        "change is of the cluster that changed, and *estimate* the median estimate.",
        ("change", "pairs", "reported", "all", "moved", "single", "found", "estimate", "size"),
        (
            f"| {case} | {found['power_all'].runs} | "
            + " | ".join(f"{found[f'power_{name}'].value:.2f}" for name in _STATISTICS)
            + f" | {_show(found, 'found')} | {_show_estimate(found)} | {_show(found, 'size')} |"
            for case, found in cases.items()
            if "power_all" in found
        ),
    )


def _list_years(cases: _Cases) -> Iterator[str]:
    yield from list_table(
        "Years",
        "52 windows; changes are at window 30. A scan without a change rejects at 5 %.",
        ("year", "years", "scan finds", "median miss, windows"),
        (
            f"| {case} | {found['scan_finds'].runs} | {found['scan_finds'].value:.2f} | "
            f"{_show(found, 'median_miss')} |"
            for case, found in cases.items()
            if "scan_finds" in found
        ),
    )
    rates = {"5 %": "monitor_false_alarms_5", "one a year": "monitor_false_alarms_1.9"}
    yield from list_table(
        "Windows of a year",
        "Each window of years without a change, against all before it. False alarms over the "
        "stated rate, at 5 % and at one a year: 1 is right.",
        ("year", "windows", *rates),
        (
            f"| {case} | {found[rates['5 %']].runs} | "
            + " | ".join(f"{found[figure].value:.2f}" for figure in rates.values())
            + " |"
            for case, found in cases.items()
            if rates["5 %"] in found
        ),
    )


def _list_groups(cases: _Cases) -> Iterator[str]:
    yield from list_table(
        "Groups",
        "The demo's weather: twelve sketches at epsilon 1, by airport and by quarter. Sizes are in "
        "the plan's scales, medians over runs with fresh noise; *told apart* is the share of runs "
        "with an adjusted p below 5 %.",
        ("pair", "runs", "size", "error", "told apart", "with a named change"),
        (
            f"| {case.removeprefix('weather by ')} | {found['size'].runs} | "
            f"{found['size'].value:.2f} ({found['size'].baseline}) | "
            f"{_show(found, 'size_error')} | {_show(found, 'told_apart')} | "
            f"{_show(found, 'named')} |"
            for case, found in cases.items()
            if "told_apart" in found
        ),
    )


def _list_fleets(cases: _Cases) -> Iterator[str]:
    yield from list_table(
        "Devices: limits",
        "Fleets of 100 honest devices with 1,000 records each and one sketch, of a mixture of ten "
        "clusters in ten dimensions. *Least lie* is the share of a device's records at one point "
        "that the omnibus statistic finds half of the time. False alarms are of single devices, as "
        "above.",
        ("noise", "devices", "SNR of a device", "least lie", "false alarms, 5 % / 1 %"),
        (
            f"| {case.removeprefix('devices, ')} | {found['snr'].runs} | "
            f"{found['snr'].value:.2g} | {found['least_lie'].value:.0%} | "
            f"{found['false_alarms_5_content'].value:.2f} / "
            f"{found['false_alarms_1_content'].value:.2f} |"
            for case, found in cases.items()
            if "least_lie" in found
        ),
    )


def _list_lamps(cases: _Cases) -> Iterator[str]:
    yield from list_table(
        "Devices: lamps",
        "Share of devices whose lamps are lit, after correction for 100 devices. Each fleet has "
        "one liar of each kind among honest devices; *uneven* honest devices have cluster weights "
        "of a Dirichlet law with parameter 10.",
        ("device", "number", *_LAMPS),
        (
            f"| {case.removeprefix('devices, ')} | {found['content'].runs} | "
            + " | ".join(f"{found[lamp].value:.3g}" for lamp in _LAMPS)
            + " |"
            for case, found in cases.items()
            if "silence" in found
        ),
    )


def _show(found: dict[str, _Figure], name: str) -> str:
    return f"{found[name].value:.2f}" if name in found else "-"


def _show_estimate(found: dict[str, _Figure]) -> str:
    if "estimate" not in found:
        return "-"
    return f"{found['estimate'].value:.2f} ({found['estimate'].baseline})"


def main() -> None:
    """Read the files and write the page."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.insight_page")
    parser.add_argument("rows", nargs="+", type=Path, help="files of JSON lines")
    parser.add_argument("--page", type=read_page, required=True, help="the page of Markdown")
    options = parser.parse_args()
    lines = [line for path in options.rows for line in path.read_text("utf-8").splitlines()]
    newest = max(path.stat().st_mtime for path in options.rows)
    date = f"{datetime.fromtimestamp(newest, UTC):%Y-%m-%d}"
    options.page.write_text(write_page(lines, date), "utf-8")


if __name__ == "__main__":
    main()
