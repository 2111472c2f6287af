"""``sfumato lab``: the methods of the literature on a file of records."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Literal

import typer

from sfumato.analyst.cli.clustering import (
    Bounds,
    Clusters,
    Epsilon,
    MostRecords,
    Output,
    PlanPath,
    Records,
    Relation,
    fit_file,
    read_dimensions,
    show_clusters,
)
from sfumato.analyst.cli.options import Json, Ledger, Limit, MaxUnreadable, Read
from sfumato.analyst.levels import parse_delta, parse_epsilon
from sfumato.analyst.sketching.reader import read_settings
from sfumato.lab import ReferenceKMeans
from sfumato.shared.command import SETTINGS, list_examples
from sfumato.shared.reading.unreadable import MOST_UNREADABLE

app = typer.Typer(
    help="Cluster a file of records by a method of the literature, for comparison.", **SETTINGS
)
app.command("show", epilog=list_examples("sfumato lab show found.cbor -k 3"))(show_clusters)


@app.command(
    "cluster",
    epilog=list_examples(
        "sfumato lab cluster records.csv --method privgene -k 5 --epsilon 1 --plan plan.toml",
        "sfumato lab cluster records.csv --method cover -k 5 --epsilon 1 --delta 1e-7 "
        "--relation add-remove-one --max-records 100000 --bounds temp=-40:60 -o found.cbor",
    ),
)
def _cluster(
    path: Records,
    n_clusters: Clusters,
    epsilon: Epsilon,
    method: Annotated[
        Literal["privgene", "sample-aggregate", "k-variates", "local-search", "cover"],
        typer.Option(help="The paper, as the class ReferenceKMeans names it."),
    ],
    spread: Annotated[
        str | None, typer.Option(help="Public knowledge of the records, for k-variates alone.")
    ] = None,
    bounds: Bounds = None,
    plan_path: PlanPath = None,
    delta: Annotated[str, typer.Option(help="Above 0 for cover.")] = "0",
    relation: Relation = "replace-one",
    max_records: MostRecords = None,
    output: Output = None,
    ledger: Ledger = None,
    budget: Limit = None,
    max_unreadable: MaxUnreadable = MOST_UNREADABLE,
    read: Read = None,
    as_json: Json = False,
) -> None:
    """Find centroids as a paper does, under the same exact noise and accounting."""
    make = partial(
        ReferenceKMeans,
        n_clusters,
        epsilon=parse_epsilon(epsilon, "--epsilon"),
        delta=parse_delta(delta, "--delta"),
        method=method,
        spread=spread,
        relation=relation,
        max_records=max_records,
        ledger=ledger,
        budget=budget,
        max_unreadable=max_unreadable,
    )
    dimensions = read_dimensions(bounds or (), plan_path)
    settings = read_settings(read or ())
    fit_file(make, path, dimensions, settings, output=output, as_json=as_json)
