"""``sfumato plan pilot | refine | compare``: plans without knowledge of the records."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.text import Text

from sfumato.analyst.cli.options import (
    DEFAULT_URL,
    PLAN_HELP,
    Anyway,
    Json,
    Neighbouring,
    Url,
    make_table,
    print_answer,
)
from sfumato.analyst.cli.sources import (
    SOURCES,
    MaybeKey,
    Picture,
    PlanOfFile,
    draw,
    find_resolutions,
    open_sources,
)
from sfumato.analyst.client import Client
from sfumato.analyst.levels import parse_delta, parse_epsilon
from sfumato.analyst.planning.files import read_plan, require_count, write_text
from sfumato.analyst.planning.pilots import (
    describe_pilot,
    format_pilot,
    parse_columns,
    require_strength,
)
from sfumato.analyst.planning.questions import parse_date, parse_window
from sfumato.analyst.planning.refinement import (
    format_refinement,
    format_search_box,
    refine_study,
    refinement_to_json,
)
from sfumato.analyst.sketching.answers import LocalSketches
from sfumato.analyst.sketching.sketch_file import read_sketch_file
from sfumato.learning.answers.histograms import MOST_BARS
from sfumato.learning.calibration.drift import (
    DRIFT_FALSE_ALARM,
    ColumnDrift,
    compare,
    compare_levels,
)
from sfumato.learning.calibration.words import describe_block, describe_drift
from sfumato.learning.estimate.studies import read_study_levels, read_study_marginals
from sfumato.learning.planning.outline import TARGET_SSE
from sfumato.learning.planning.pilots import PilotOutline, plan_pilot
from sfumato.learning.planning.refinement import MainOutline, refine
from sfumato.shared.command import EXIT_REFUSED, SETTINGS, list_examples
from sfumato.shared.errors import ConfigError
from sfumato.shared.plan import Label, SketchPlan, WindowRule, find_cautions
from sfumato.shared.plan.people import find_person_doubt

app = typer.Typer(**SETTINGS)

_MOST = 10**15
_MOST_BLOCKS = 5
"""Blocks of a column that a table shows: those that are furthest beyond their limit."""
SameRecords = Annotated[
    bool,
    typer.Option(
        "--same-records",
        help="Pilot and main study read the same records, such as one file: --epsilon and --delta "
        "are for both together.",
    ),
]


PerPerson = Annotated[
    int | None, typer.Option(min=1, help="Most records of one person in a window.")
]


@app.command(
    "pilot",
    epilog=list_examples(
        'sfumato plan pilot --dimensions "temperature:degF,load:kW,trips:1:count" \\',
        "    --records 2e5 --devices 100 --epsilon 1 -o pilot.toml",
    ),
)
def _pilot(
    dimensions: Annotated[
        list[str],
        typer.Option(
            metavar="COLUMNS",
            help="Columns between commas: NAME:UNIT, NAME:UNIT:count for whole numbers, "
            "NAME:UNIT:LOWER..UPPER for dates and other numbers far from zero, or "
            "NAME:levels=A|B for text.",
        ),
    ],
    records: Annotated[str, typer.Option(help="Records of all devices and windows together.")],
    epsilon: Annotated[str, typer.Option(help='For each record, exact: "1", "0.1" or "1/10".')],
    devices: Annotated[int, typer.Option(min=1, max=_MOST, help="Devices that take part.")] = 1,
    windows: Annotated[int, typer.Option(min=1, max=_MOST, help="Windows of the pilot.")] = 1,
    delta: Annotated[str, typer.Option(help="Delta; 0 for pure epsilon only.")] = "0",
    same_records: SameRecords = False,
    window: Annotated[
        str, typer.Option(help='A length of time such as 6h or 7d, or "1000 records".')
    ] = "7d",
    start: Annotated[
        str | None,
        typer.Option(help="Day in UTC from which records are read; not for --same-records."),
    ] = None,
    neighbouring: Neighbouring = "replace-one",
    labels: Annotated[
        list[str] | None,
        typer.Option("--label", metavar="NAME=VALUE|...", help="A label of devices. Repeatable."),
    ] = None,
    unit: Annotated[
        Literal["record", "device"],
        typer.Option(
            help="What epsilon protects: each record, or all records of a device in a window, of "
            "which only the first then counts."
        ),
    ] = "record",
    per_person: PerPerson = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="File for the specification.")
    ] = None,
    anyway: Anyway = False,
) -> None:
    """Plan a histogram that calibrates another plan, from the names of columns alone.

    Most columns need no bounds: a logarithmic scale holds values up to about a million, and whole
    numbers up to a trillion. A pilot that is too weak to calibrate from is refused before it spends
    anything, and the exit status is 2. With windows by time it reads only records of --windows
    windows from --start on, and a main study of later records may have the whole epsilon too.
    """
    outline = PilotOutline(
        dimensions=parse_columns(dimensions),
        n_records=parse_count(records),
        n_sketches=devices * windows,
        epsilon=parse_epsilon(epsilon, "--epsilon"),
        delta=parse_delta(delta, "--delta"),
        shares_records=same_records,
        window=_choose_window(
            window, start, n_slots=None if same_records else windows, neighbouring=neighbouring
        ),
        neighbouring=neighbouring,
        n_windows=windows,
        labels=tuple(map(parse_label, labels or [])),
        unit=unit,
        max_records_per_person=per_person,
    )
    pilot = plan_pilot(outline)
    if known := _ask_per_person(pilot.plan):
        pilot = plan_pilot(replace(outline, max_records_per_person=known))
    require_strength(pilot, anyway=anyway)
    _say(*describe_pilot(pilot), *(f"warning: {text}" for text in find_cautions(pilot.plan)))
    text = format_pilot(pilot)
    if output is None:
        print(text, end="")
        return
    # Without its plan a sketch cannot be read, and its epsilon is spent for nothing.
    write_text(output, text, exclusive=True)
    _say(f"wrote {output}", f"next, with devices: sfumato study create NAME {output}")
    if same_records:
        _say(f"next, with a file: sfumato sketch FILE --plan {output} -o pilot.sketch")


@app.command(
    "refine",
    epilog=list_examples(
        "sfumato plan refine pilot --clusters 5 --epsilon 1 -o main.toml",
        "sfumato plan refine pilot.sketch --plan pilot.toml --same-records --clusters 5 \\",
        "    --epsilon 1 -o main.toml",
    ),
)
def _refine(
    source: Annotated[
        str, typer.Argument(metavar="PILOT", help="A study, or a sketch file with --plan.")
    ],
    clusters: Annotated[int, typer.Option(min=1, help="The least number of clusters wanted.")],
    epsilon: Annotated[str, typer.Option(help='For each record, exact: "1", "0.1" or "1/10".')],
    output: Annotated[Path, typer.Option("--output", "-o", help="File for the specification.")],
    most_clusters: Annotated[
        int | None, typer.Option(min=1, help="The largest number wanted; default: --clusters.")
    ] = None,
    delta: Annotated[str, typer.Option(help="Delta; 0 for pure epsilon only.")] = "0",
    same_records: SameRecords = False,
    target: Annotated[
        float, typer.Option(help="Wanted SSE, relative to k-means on the raw records.")
    ] = TARGET_SSE,
    records: Annotated[
        str | None, typer.Option(help="Expected records of the main study; default: the pilot's.")
    ] = None,
    devices: Annotated[
        int | None, typer.Option(min=1, help="Expected devices; default: the pilot's.")
    ] = None,
    window: Annotated[
        str | None, typer.Option(help="Length of a window, such as 1d; default: the pilot's.")
    ] = None,
    windows: Annotated[
        int | None,
        typer.Option(
            min=1, help="Windows that are decoded together, after which the study ends; default: 1."
        ),
    ] = None,
    unit: Annotated[
        Literal["record", "device"] | None,
        typer.Option(help="What epsilon protects; default: the pilot's."),
    ] = None,
    per_person: PerPerson = None,
    plan_path: Annotated[
        Path | None, typer.Option("--plan", help=f"The pilot's, for a sketch file. {PLAN_HELP}")
    ] = None,
    search_box: Annotated[
        Path | None,
        typer.Option(help="File for the search box; default: the output's name with .box.toml."),
    ] = None,
    plot: Annotated[
        Path | None,
        typer.Option(help="Draw marginals, bounds, search box and scales, .png or .svg."),
    ] = None,
    anyway: Anyway = False,
    key: MaybeKey = "",
    url: Url = DEFAULT_URL,
    as_json: Json = False,
) -> None:
    """Make the plan of a main study from a pilot, with the reason of each choice.

    Bounds, transform, scale and search box come from the pilot's released answer, and cost no
    privacy. Where no answer could be trusted, nothing is written and the exit status is 2.
    """
    main = MainOutline(
        epsilon=parse_epsilon(epsilon, "--epsilon"),
        delta=parse_delta(delta, "--delta"),
        shares_records=same_records,
        target_sse=target,
        n_records=None if records is None else parse_count(records),
        n_sketches=None if devices is None else devices * (windows or 1),
        length_s=None if window is None else parse_length(window),
        n_windows=windows,
        unit=unit,
        max_records_per_person=per_person,
    )
    n_clusters = clusters, most_clusters or clusters
    if plan_path is None:
        with Client(url, key=key or None) as client:
            found = refine_study(
                client, source, main, n_clusters=n_clusters[0], most_clusters=n_clusters[1]
            )
    else:
        pilot = read_plan(plan_path)
        local = LocalSketches(sketches=[read_sketch_file(Path(source))], plan=pilot)
        calibration = local.calibrate(n_clusters=n_clusters)
        found = refine(calibration, local.histogram(bars=MOST_BARS), pilot, main)

    def make() -> Any:
        from sfumato.analyst.statistic_plots import plot_calibration

        return plot_calibration(
            found.histogram,
            found.calibration.columns,
            search_box=found.search_box,
            bounds=found.bounds,
            title=f"What the main study takes from {source}",
        )

    # Before any refusal: a picture shows why.
    draw(plot, make, option="--plot")
    is_refused = found.calibration.refusal is not None or found.doubt is not None
    if as_json:
        print(json.dumps(refinement_to_json(found), ensure_ascii=False))
        if is_refused and not anyway:
            raise typer.Exit(EXIT_REFUSED)
    found.require_hope(anyway=anyway)
    known = _ask_per_person(found.make_plan(seed="0" * 64), may_ask=not as_json)
    found = replace(found, main=replace(main, max_records_per_person=known))
    box = search_box or output.with_suffix(".box.toml")
    # A new plan has a new seed: sketches of the old one could not be decoded any more.
    write_text(output, format_refinement(found), exclusive=True)
    write_text(box, format_search_box(found))
    _say(*found.describe(), f"wrote {output} and {box}")
    if plan_path is None:
        if found.campaign_end is not None:
            _say(f"for the next phase of the campaign: sfumato campaign next {source}")
        _say(f"next: sfumato study create NAME {output} --within {box}")
    else:
        _say(
            f"next: sfumato sketch FILE --plan {output} -o main.sketch",
            f"then: sfumato decode file main.sketch --plan {output} -k {clusters} --within {box}",
        )


@app.command(
    "compare",
    epilog=list_examples(
        "sfumato plan compare pilot-2025 pilot-2026",
        "sfumato plan compare pilot@0:3 pilot@4:7 -o drift.png",
        "sfumato plan compare a.sketch b.sketch --plan pilot.toml --json",
    ),
)
def _compare(
    first: Annotated[str, typer.Argument(metavar="A", help=f"A pilot. {SOURCES}")],
    second: Annotated[
        str, typer.Argument(metavar="B", help="A later one, of the same columns and bins.")
    ],
    plan_path: PlanOfFile = None,
    output: Picture = None,
    key: MaybeKey = "",
    url: Url = DEFAULT_URL,
    as_json: Json = False,
) -> None:
    """Compare two pilots: whether records lie elsewhere than they did. The exit status is 1 then.

    Differences that noise and sampling explain do not count: a column that has not moved is
    reported with probability at most 0.001. Bins are compared in blocks of four, levels and
    missing values each by itself.
    """
    with open_sources([first, second], plan_path, key=key, url=url) as (one, two):
        plans, totals = (one.plan, two.plan), (one.totals, two.totals)
    pairs = [*zip(plans, totals, strict=True)]
    numbers = compare(*(read_study_marginals(*pair) for pair in pairs))
    found = [*numbers, *compare_levels(*(read_study_levels(*pair) for pair in pairs))]
    if not found:
        raise ConfigError(
            "have no column that both carry", field="pilots", fix="compare more sketches of each"
        )

    def make() -> Any:
        from sfumato.analyst.statistic_plots import plot_drift

        return plot_drift(
            found,
            resolutions=find_resolutions(plans[0]),
            units={each.name: each.unit for each in plans[0].dimensions},
            title=f"{first} and {second}",
        )

    draw(output, make)
    print_answer(_drifts_to_json(found), _describe_drifts(found), as_json=as_json)
    if any(drift.has_moved for drift in found):
        raise typer.Exit(1)


def _drifts_to_json(found: Sequence[ColumnDrift]) -> dict[str, Any]:
    return {
        "has_moved": any(drift.has_moved for drift in found),
        "false_alarm_of_a_column": DRIFT_FALSE_ALARM,
        "false_alarm": min(1.0, DRIFT_FALSE_ALARM * len(found)),
        "columns": [
            {
                "name": drift.name,
                "has_moved": drift.has_moved,
                "far_share": drift.far_share,
                "blocks": [asdict(block) for block in drift.blocks],
            }
            for drift in found
        ],
    }


def _describe_drifts(found: Sequence[ColumnDrift]) -> Iterator[object]:
    for drift in found:
        yield f"{drift.name}: {describe_drift(drift)}"
    moved = [
        (drift.name, block)
        for drift in found
        for block in sorted(drift.blocks, key=lambda each: -each.excess)[:_MOST_BLOCKS]
        if block.has_moved
    ]
    if moved:
        figures = ("first", "second", "change", "noise explains")
        table = make_table("column", "records", figures=figures)
        for name, block in moved:
            shares = (f"{share:.1%}" for share in (block.first, block.second))
            change = f"{block.change:+.1%}", f"+-{block.limit:.1%}"
            table.add_row(Text(name), Text(describe_block(block)), *shares, *change)
        yield table
    any_column = f", any of these {len(found)}" if len(found) > 1 else ""
    total = min(1.0, DRIFT_FALSE_ALARM * len(found))
    yield (
        f"A column that has not moved is reported with probability at most {DRIFT_FALSE_ALARM:g}"
        + (f"{any_column} with at most {total:g}." if any_column else ".")
    )


def parse_length(text: str, field: str = "--window") -> int:
    """Read a length of time, such as 6h or 1d, in seconds; raises ``ConfigError``."""
    rule = parse_window(text)
    if rule.kind == "count":
        raise ConfigError("must be a length of time", field=field, fix="write 6h or 1d")
    return rule.length_s


def parse_label(text: str) -> Label:
    """Read a declared label, ``NAME=VALUE|VALUE``; raises ``ConfigError``."""
    name, _, values = (part.strip() for part in text.partition("="))
    if not name or not values:
        raise ConfigError(
            f"cannot be read: {text!r}", field="--label", fix="write site=north|south"
        )
    return Label(name=name, values=tuple(value.strip() for value in values.split("|")))


def parse_count(text: str) -> int:
    """Read a number of records, such as 200000 or 2e5; raises ``ConfigError``."""
    if not re.fullmatch(r"[0-9]+(\.[0-9]+)?(e[0-9]{1,2})?", text.strip()):
        raise ConfigError(
            "must be a whole number", field="--records", fix="write it as 200000 or 2e5"
        )
    return require_count(round(float(text)), "--records")


def _choose_window(
    text: str, start: str | None, *, n_slots: int | None, neighbouring: str
) -> WindowRule:
    """Return the windows of a pilot; with an end after so many slots, if any number is given."""
    rule = parse_window(text)
    if rule.kind == "count":
        return rule
    if start is None and (n_slots is not None or neighbouring == "add-remove-one"):
        start = datetime.now(UTC).date().isoformat()
    origin = 0 if start is None else parse_date(start)
    end = None if n_slots is None else origin + n_slots * rule.length_s
    return WindowRule(kind="time", origin=origin, length_s=rule.length_s, end=end)


def _ask_per_person(plan: SketchPlan, *, may_ask: bool = True) -> int | None:
    """Return the plan's most records of a person, or the answer of whoever sits at a terminal."""
    doubt = find_person_doubt(plan)
    if doubt is None:
        return plan.max_records_per_person
    _say(f"warning: {doubt}: --per-person")
    if not (may_ask and sys.stdin.isatty()):
        return None
    question = "most records of one person in a window (0 if nobody knows)"
    return typer.prompt(question, default=0, type=int, err=True) or None


def _say(*lines: str) -> None:
    for line in lines:
        print(line, file=sys.stderr)
