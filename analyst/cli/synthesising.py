"""``sfumato synthesise``: a file of synthetic records from a decode."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from analyst.cli.decodes import AllowUnusable, Seed
from analyst.cli.options import DEFAULT_URL, Json, Url, show
from analyst.cli.search_boxes import Within, read_search_box
from analyst.cli.sources import MaybeKey, PlanOfFile
from analyst.client import Client
from analyst.planning.files import read_plan
from analyst.results.synthetic import SyntheticRecords
from analyst.sketching.answers import LocalSketches
from analyst.sketching.sketch_file import read_sketch_file
from shared.command import SETTINGS, list_examples
from shared.errors import ConfigError

synthesise = typer.Typer(**SETTINGS)


@synthesise.command(
    epilog=list_examples(
        "sfumato synthesise DECODE -n 10000 --out records.csv",
        "sfumato synthesise DECODE --histogram pilot --out records.parquet",
        "sfumato synthesise main.sketch --plan main.toml -k 8 --histogram pilot.sketch "
        "--histogram-plan pilot.toml --out records.csv",
    )
)
def _synthesise(
    references: Annotated[
        list[str],
        typer.Argument(
            metavar="DECODE|FILE...",
            help="The id of a decode, or with --plan sketch files of different records.",
        ),
    ],
    out: Annotated[
        Path, typer.Option("--out", "-o", help="File to write: .csv, .parquet or .json.")
    ],
    n_records: Annotated[int, typer.Option("-n", min=1, help="Number of records.")] = 1000,
    histogram: Annotated[
        str | None,
        typer.Option(
            metavar="STUDY|FILE",
            help="A study with a histogram of the same records, or with --histogram-plan a sketch "
            "file of one: columns follow it.",
        ),
    ] = None,
    histogram_plan: Annotated[
        Path | None, typer.Option(help="Plan of the histogram's sketch file.")
    ] = None,
    plan: PlanOfFile = None,
    n_clusters: Annotated[
        int | None, typer.Option("-k", min=1, help="Clusters to decode sketch files with.")
    ] = None,
    seed: Seed = 0,
    within: Within = None,
    allow_unusable: AllowUnusable = False,
    key: MaybeKey = "",
    url: Url = DEFAULT_URL,
    as_json: Json = False,
) -> None:
    """Write synthetic records from a decode, at no further cost of privacy.

    No row is a record of anybody. Give -k two to three times the clusters of the data: more
    Gaussians follow its shape better. A histogram mends spikes and sharp ends of columns.
    """
    if plan is None:
        if histogram_plan is not None or n_clusters is not None:
            raise ConfigError(
                "is missing: --histogram-plan and -k are for sketch files",
                field="--plan",
                fix="name the plan of the sketch files, or leave these options out",
            )
        found = _ask_server(
            references, n_records, histogram, seed, key=key, url=url, allow_unusable=allow_unusable
        )
    else:
        if n_clusters is None:
            raise ConfigError(
                "is missing", field="-k", fix="name a number of clusters, as for decode"
            )
        local = LocalSketches(
            sketches=[read_sketch_file(Path(each)) for each in references], plan=read_plan(plan)
        )
        beside = _read_histogram(histogram, histogram_plan)
        result = local.decode(n_clusters=n_clusters, seed=seed, search_box=read_search_box(within))
        found = result.synthesise(
            n_records, histogram=beside, seed=seed, allow_unusable=allow_unusable
        )
    written = found.save(out)
    if as_json:
        files = [str(each) for each in written]
        print(json.dumps({**found.about, "files": files}, ensure_ascii=False))
        return
    show(Text(found.statement))
    show(Text(f"Wrote {len(found):,} records to {' and '.join(map(str, written))}."))


def _ask_server(
    references: list[str],
    n_records: int,
    histogram: str | None,
    seed: int,
    *,
    key: str,
    url: str,
    allow_unusable: bool,
) -> SyntheticRecords:
    if len(references) > 1:
        raise ConfigError(
            "must be one decode", field="DECODE", fix="draw from one decode, or give --plan"
        )
    if Path(references[0]).is_file():
        raise ConfigError(
            f"is missing, and {references[0]} is a file", field="--plan", fix="name the file's plan"
        )
    with Client(url, key=key or None) as client:
        return client.synthesise(
            references[0],
            n_records,
            histogram=histogram,
            seed=seed,
            allow_unusable=allow_unusable,
        )


def _read_histogram(histogram: str | None, plan: Path | None) -> LocalSketches | None:
    if histogram is None:
        return None
    if plan is None:
        raise ConfigError(
            "is missing",
            field="--histogram-plan",
            fix="name the plan of the histogram's sketch file",
        )
    return LocalSketches(sketches=[read_sketch_file(Path(histogram))], plan=read_plan(plan))
