"""The generator fills templates, leaves out what was not measured, and draws."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from benchmarks.contenders import CONTENDERS
from benchmarks.pages.__main__ import PAGES, PICTURES, main, render
from benchmarks.pages.tables import list_by_epsilon
from benchmarks.pages.templates import find_template, write_page
from benchmarks.runner import Row

ROOT = Path(__file__).parents[2]
QUALITY = ("median_relative_sse", "p90_relative_sse")


def list_cover() -> list[Row]:
    figures = {"mean_squared_distance": 2551.0, "spread_over_seeds": 120.0, "cpu_seconds": 0.5}
    return [
        Row("cover", f"d=100 k={k} eps=1 {name}", figure, value, "1", 5, "")
        for k in (16, 64)
        for name in ("one centre", "cover")
        for figure, value in figures.items()
    ]


def list_paper() -> list[Row]:
    points = [
        Row("paper", f"{name} {axis}={x:g}", "median_relative_sse", 1.15, "1", 20, "")
        for name, axis in (("fig3 knorm L=1 m=2kd", "eps"), ("fig2 right mixture m=2kd", "snr"))
        for x in (0.001, 0.01)
    ]
    area = [
        Row("paper", f"fig2 right mixture m={m}kd snr={snr}", "mean_relative_sse", 2.0, "1", 1, "")
        for m in (1, 10)
        for snr in (1, 100)
    ]
    crossing = Row("paper", "fig3 knorm L=1 m=2kd", "epsilon_for_1.2", 0.00093, "1", 2, "")
    return [*points, *area, crossing]


def list_methods() -> list[Row]:
    cases = {
        "weather n_eps=1e+03": ("compressive", "grid"),
        "weather n_eps=1e+04": ("compressive", "grid"),
        "d=10 k=10 n_eps=1e+05": ("compressive", "grid"),
        "fleet weather n_eps=3e+04 L=1": ("compressive", "whole"),
        "fleet weather n_eps=3e+04 L=100": ("compressive", "whole"),
        "local d=10 k=10 n=1e+04 eps=1": ("reports", "one centre"),
    }
    values = {"median_relative_sse": 1.1, "p90_relative_sse": 1.6, "cpu": 0.25}
    values |= {"released": 1000.0, "rounds": 2.0, "share_above_2": 0.05}
    return [
        Row("methods", f"{case} {name}", figure, value * (1 + 0.25 * i), "1", 3, "")
        for case, names in cases.items()
        for i, name in enumerate(reversed(names))
        for figure, value in values.items()
    ]


def list_sizing() -> list[Row]:
    figures = {
        "enrolment": {"server_cpu_ms": 2.0, "wire_bytes": 500.0, "kept_bytes": 1000.0},
        "upload": {"server_cpu_ms": 1.0, "wire_bytes": 8600.0},
        "report": {"server_cpu_ms": 1.0, "wire_bytes": 600.0, "held_bytes": 600.0},
        "decode": {"worker_cpu_ms": 2000.0},
        "merge devices=1000000": {"merge_cpu_ms": 0.25},
        "disk": {"held_bytes": 9000.0, "kept_bytes": 600.0, "cells": 30.0, "cell_bytes": 10062.5},
    }
    figures["report"]["kept_bytes"] = 500.0
    of_database = {"sqlite": 0.0, "postgres": 0.5}
    return [
        Row("service", f"sizing {kind} {unit}", figure, value, "1", 5, "")
        for kind, database in of_database.items()
        for unit, own in figures.items()
        for figure, value in {**own, "database_cpu_ms": database}.items()
    ]


def list_synthesis() -> list[Row]:
    ways = {"sketch and histograms": 0.3, "pair tree": 0.2, "sketch and histograms, L=3": 0.6}
    found = [
        Row("synthesis", f"weather eps={epsilon} {way}", f"{each}_error{kind}", value, "1", 10, "")
        for epsilon in ("1/2", "2")
        for way, value in ways.items()
        for each in ("relative", "absolute")
        for kind in ("", ", whole bins")
    ]
    case, way = "sparse eps=1 pair tree", "weather eps=1/2 sketch and histograms"
    return [
        *found,
        Row("synthesis", case, "any_item_error, 1 to 3", 0.25, "1", 10, ""),
        Row("synthesis", way, "correlation_error_over_stated", 0.8, "1", 10, ""),
        Row("synthesis", way, "correlation_error", 0.02, "1", 10, ""),
        Row("synthesis", way, "cpu_s", 3.0, "s", 10, ""),
    ]


def list_insight() -> list[Row]:
    power = {f"power_{each}": 0.5 for each in ("smallest", "all", "moved", "single")}
    return [
        *(Row("insight", "grows, a", f, v, "1", 9, "1") for f, v in power.items()),
    ]


def list_verdicts() -> list[Row]:
    words = {"sound": 1.0, "rough": 0.0, "doubtful": 0.0, "do_not_use": 0.0}
    return [
        Row("honesty", "worst even, no noise", "do not use", 12.34, "1", 1, "band 2 to inf"),
        Row("honesty", "worst even, no noise", "rough", 1.2, "1", 1, "band 1 to 2"),
        *(Row("honesty", "answers below 1.05", f, v, "1", 7, "") for f, v in words.items()),
        Row("honesty", "all", "coverage", 0.9, "1", 7, ""),
        Row("honesty", "mixtures", "coverage", 0.8, "1", 7, ""),
        Row("honesty", "all", "median_width", 0.25, "1", 7, ""),
    ]


def list_pilots() -> list[Row]:
    figures = {"median_over_oracle": 1.01, "worst_over_oracle": 1.2, "told": 0.5, "above_band": 0.1}
    case = "rare n_eps=1e5 pilot"
    return [Row("calibration", case, name, value, "1", 10, "") for name, value in figures.items()]


def list_peers() -> list[Row]:
    figures = {"median_relative_sse": 1.01, "p90_relative_sse": 1.2, "standard_error": 0.03}
    means = {"auto": 1.02, "pe": 1.3, "diffprivlib": 2.0}
    found = [
        Row("peers", f"{name} epsilon=1 {method}", figure, value, "1", 10, "")
        for name in ("g2", "letter")
        for method in means
        for figure, value in figures.items()
    ]
    for i, name in enumerate(("g2", "letter")):
        for method, value in means.items():
            mean = value + 0.5 * i * (method == "auto")
            case = f"{name} epsilon=1 {method}"
            found.append(Row("peers", case, "mean_relative_sse", mean, "1", 10, ""))
    return found


def list_looks() -> list[Row]:
    figures = {
        "relative_sse": 1.0021,
        "relative_sse_p90": 1.02,
        "looks": 0.5,
        "share_above_1.3": 0.25,
        "made_worse": 0.1,
        "worse_unforetold": 0.05,
    }
    rules = {"answers": 4.0, "alone": 2.0, "ratio_median": 1.01, "ratio_worst": 1.2}
    law = dict.fromkeys(("factor_median", "factor_p90", "factor_of_no_change"), 1.25)
    law |= dict.fromkeys(("excess_before", "excess_after"), 0.01)
    law |= dict.fromkeys(("worth", "foretold", "harmed"), 0.5)
    rules |= {"first_median": 1.02, "first_worst": 1.3, "ratio_p90": 1.1}
    return [
        Row("verdicts", "all", "sound_above_1.1", 1.0, "1", 300, ""),
        Row("verdicts", "false rare, n eps 100, d=2 k=3", "sound", 1.25, "1", 1, ""),
        *(Row("look_law", "fitted", name, 0.5, "1", 9, "") for name in ("missed", "lost")),
        *(
            Row("look_law", case, name, value, "1", 9, "")
            for case in ("fitted", "judged")
            for name, value in law.items()
        ),
        *(
            Row("looks", "round by m m = 2 k d", name, value, "1", 6, "")
            for name, value in {"relative_sse": 9.0, "relative_sse_p90": 12.5}.items()
        ),
        *(Row("verdicts", "sound", f, v, "1", 4, "") for f, v in rules.items() if f != "alone"),
        *(Row("verdicts", "rule wide clusters", f, v, "1", 4, "") for f, v in rules.items()),
        *(
            Row("looks", f"{case} {way}", figure, value, "1", 20, "")
            for case in ("replace-one weather", "local n=5 L=300 weather")
            for way in ("one shot", "with a look")
            for figure, value in figures.items()
            if way == "with a look" or figure.startswith(("relative", "share"))
        ),
    ]


PAGE_ROWS = {
    "calibration": list_pilots,
    "cover": list_cover,
    "honesty": list_verdicts,
    "insight": list_insight,
    "looks": list_looks,
    "methods": list_methods,
    "paper": list_paper,
    "peers": list_peers,
    "real-sets": list_verdicts,
    "sizing": list_sizing,
    "synthesis": list_synthesis,
}
EXPECTED = {
    "calibration": ["| rare | 1.010, 1.200 (50% told, 10% above) |"],
    "cover": [
        "means over 5 seeds",
        "| case | one centre | cover |",
        "| k=64 eps=1 | 2,551/120 | 2,551/120 |",
        "| k=16 eps=1 | 0.50 | 0.50 |",
    ],
    "honesty": [
        "| even, no noise | 12.3 | do not use | band 2 to inf |\n| even, no noise | 1.200 | rough",
        "| below 1.05 | 7 | 100.0% | 0.0% | 0.0% | 0.0% |",
        "| all | 7 | 90.0% | 0.250 |\n| mixtures | 7 | 80.0% |  |",
    ],
    "insight": [
        "| grows, a | 9 | 0.50 | 0.50 | 0.50 | 0.50 | - | - | - |",
    ],
    "looks": [
        "| replace-one weather | 20 | 1.0021/1.020 | 1.0021/1.020 | 50% |",
        "| local n=5 L=300 weather | 20 | 1.0021/1.020 | 1.0021/1.020 | 25% | 25% | 10% | 5% |",
        "| sound | 4 | 1.010 | 1.100 | 1.200 |",
        "| 1 | 300 |",
        "| rare, n eps 100, d=2 k=3 | 1.250 |",
        "| 2 k d | 6 | 9.000 | 12.500 |",
        "| part of that which no step takes away | 0.50 |",
        "| judged | 9 | 0.010 | 0.010 | 1.25 | 1.25 | 1.25 | 50% | 50% | 50% |",
        "| wide clusters | 4 | 2 | 1.010 | 1.200 | 1.020 | 1.300 |",
    ],
    "methods": [
        "| weather n_eps=1e+04 | grid | 1.10 | 1.38 | 1.25 |",
        "| grid | 0.25 | 1,000 | 2 |",
        "| compressive | 1.38/2.00 | 1.38/2.00 |",
        "| weather n_eps=3e+04 L=100 | 1.10/1.60 | 1.38/2.00 |",
        "| d=10 k=10 n=1e+04 eps=1 | 1.10/1.60 | 1.38/2.00 |",
        "| always grid, a scale | 3 | 1.00 | 1.00 | 1.00 |",
    ],
    "paper": ["| knorm L=1 m=2kd | 20 | 1.15 | 1.15 |", "| knorm L=1 m=2kd | 2 | 0.00093 |"],
    "peers": [
        "| 1 | 2 | 1.01 (1.01 to 1.01) | 1.01 (1.01 to 1.01) | 1.01 (1.01 to 1.01) |",
        "| set | epsilon | auto | pe | diffprivlib |",
        "| g2 | 1 | 1.01/1.20 | 1.01/1.20 | 1.01/1.20 |",
        "| g2 | 1 | 1.020 | pe | 1.300 | 0.042 | better |",
        "| letter | 1 | 1.520 | pe | 1.300 | 0.042 | worse |",
        "| 2 | 1 | 0 | 1 | 2 | 1 |",
    ],
    "real-sets": ["| all | 7 | 90.0% | 0.250 |"],
    "sizing": [
        # 2.8 x 8 x 8600 bits; a device 1 kB; 87.6e6 rows of 600 B; payloads of 7.2e6 rows of
        # 8400 B; 8760 windows of 30 cells of 10 kB and 1250 B that name devices.
        "* **10,000 devices**, a sketch an hour: 1 server, SQLite, 1 study, 116 GB of disk",
        "| 10,000 | a sketch an hour | 2.8 | 1 | - | 0.19 | 116 GB | 1 | SQLite |",
        # A core half busy keeps up with 500 a second; a study has a million devices at most.
        "| 100,000,000 | a sketch a day | 1,160 | 3 | 2 | 80 | 47 TB | 100 | 2 |",
        "| merging of a study | 1,000 | 3,600,000 |",
        "| running sums, half of which names devices | - | 80,000 |",
        "| upload | sqlite | 1 | - | 8,600 | 600 | 9,000 |",
        "| decode | postgres | 2,000 | 0.5 | - | - | - |",
    ],
    "synthesis": [
        "| weather | 1/2 | uniform ends | relative | pair tree | 0.20 | 0.30 |",
        "| weather | 1/2 | 0.30 (30.0%) | 0.20 (20.0%) |",
        "|  | 0.30 | 0.30 |\n| L=3 | 0.60 | 0.60 |",
        "| sparse | 1 | pair tree | 10 | 0.250 | - | - |",
        "| weather | 1/2 | sketch and histograms | - | - | - | 0.80 | - |",
    ],
}


@pytest.mark.parametrize("name", PAGES)
def test_every_table_has_its_rows_and_no_other_table_is_there(name: str) -> None:
    page = render(name, [row.to_json() for row in PAGE_ROWS[name]()], "2026-11-23")
    assert "2026-11-23" in page
    for line in EXPECTED[name]:
        assert line in page
    assert "{" not in page
    for section in re.split("^## ", page, flags=re.MULTILINE)[1:]:
        assert "\n|" in section
        lines = [line for line in section.split("\n\n")[-1].splitlines() if line.startswith("|")]
        assert len({line.count("|") for line in lines}) <= 1


def test_other_libraries_are_compared_over_the_sets_that_all_were_run_on() -> None:
    figures = {
        ("a", "1"): {"auto": 1.004, "pe": 1.1},
        ("b", "1"): {"auto": 1.018, "pe": 3.0},
        ("c", "1"): {"auto": 1.1},
        ("a", "1/4"): {"auto": 2.0, "pe": 4.0},
    }
    rows = [
        Row("peers", f"{name} epsilon={epsilon} {method}", "median_relative_sse", sse, "1", 10, "")
        for (name, epsilon), methods in figures.items()
        for method, sse in methods.items()
    ]
    assert list(list_by_epsilon(rows)) == [
        "| epsilon | sets | auto | pe |",
        "|---|---|---|---|",
        "| 1/4 | 1 | 2.00 (2.00 to 2.00) | 4.00 (4.00 to 4.00) |",
        "| 1 | 2 | 1.01 (1.00 to 1.02) | 2.05 (1.10 to 3.00) |",
    ]


def read_cells(page: Path, start: str) -> list[str]:
    """Return the cells of the first line of a table that begins so."""
    line = next(each for each in page.read_text("utf-8").splitlines() if each.startswith(start))
    return [cell.strip() for cell in line.strip("| ").split("|")]


def test_the_readme_has_the_figures_of_the_page_of_other_libraries() -> None:
    _, *shown = read_cells(ROOT / "README.md", "| relative SSE")
    _, n_sets, auto, _, pe, diffprivlib = read_cells(
        ROOT / "docs" / "benchmarks" / "peers.md", "| 1 | "
    )
    assert n_sets == "10"
    assert [cell for cell in shown if cell != "not run"] == [auto, diffprivlib, pe]


def test_the_command_writes_page_and_picture_and_replaces_a_section(tmp_path: Path) -> None:
    rows, page, plot = tmp_path / "rows", tmp_path / "page.md", tmp_path / "paper.png"
    rows.write_text("\n".join(row.to_json() for row in list_paper()))
    main(["paper", str(rows), "--page", str(page), "--plot", str(plot)])
    assert f"](../{tmp_path.name}/paper.png)" in page.read_text()
    rows.write_text("\n".join(row.to_json() for row in list_pilots()))
    page.write_text("a\n<!-- begin calibration -->\nold\n<!-- end calibration -->\nb\n")
    for _ in range(2):
        main(["calibration", str(rows), "--page", str(page)])
        assert page.read_text().startswith("a\n<!-- begin calibration -->\n## Calibration")
        assert page.read_text().endswith("<!-- end calibration -->\nb\n")


PICTURE_ROWS: dict[str, Callable[[], list[Row]]] = {
    **PAGE_ROWS,
    "fleets": lambda: [
        Row("fleets", f"n=1e+06 L={n} eps=0.1 alike {form}", "median_relative_sse", y, "1", 1, "")
        for n, form, y in ((1, "one", 1.0), (1000, "split", 1.02), (1000, "whole", 3.5))
    ],
}


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_is_drawn_from_its_rows(name: str, tmp_path: Path) -> None:
    rows, plot = tmp_path / "rows", tmp_path / "picture.png"
    rows.write_text("\n".join(row.to_json() for row in PICTURE_ROWS[name]()))
    main([name, str(rows), "--plot", str(plot)])
    assert plot.stat().st_size > 5_000


def test_every_class_that_can_be_used_has_a_row_of_a_contender() -> None:
    from sfumato.analyst import estimators

    template = find_template("methods").read_text()
    named = re.findall(r"^\| `(\w+)[^`]*` .*\{at:(.*)\}", template, flags=re.MULTILINE)
    ours = {name for name in estimators.__all__ if name.endswith("KMeans")}
    assert {name for name, _ in named} == ours | {"ReferenceKMeans"}
    assert {contender for _, contender in named} - {""} <= set(CONTENDERS)


def test_a_section_without_rows_and_a_picture_without_a_place_are_left_out() -> None:
    template = (
        "# Title of {date}\n\n![words]({picture})\n\n## Full\n\n| case | a |\n|---|---|\n"
        "| {case:x (.*)} | {a:.1f} |\n\n## Empty\n\n| case | b |\n|---|---|\n| {case} | {b} |\n"
    )
    lines = [Row("t", "x y", "a", 1.0, "1", 1, "").to_json()]
    page = write_page(template, lines, "today", tables={})
    assert page == "# Title of today\n\n## Full\n\n| case | a |\n|---|---|\n| y | 1.0 |\n"
