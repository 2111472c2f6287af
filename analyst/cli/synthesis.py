"""``sfumato synthesise``: a file of synthetic records from a decode."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from sfumato.analyst.cli.decodes import AllowUnusable, Seed, Timeout, follow
from sfumato.analyst.cli.options import DEFAULT_URL, Json, Url, show
from sfumato.analyst.cli.search_boxes import Within, read_search_box
from sfumato.analyst.cli.selections import From, Labelled, To, read_labels
from sfumato.analyst.cli.sources import MaybeKey, PlanOfFile
from sfumato.analyst.client import Client, Decode
from sfumato.analyst.planning.files import read_plan
from sfumato.analyst.results import UNUSABLE
from sfumato.analyst.results.synthetic import require_table_file
from sfumato.analyst.sketching.answers import LocalSketches
from sfumato.analyst.sketching.sketch_file import read_sketch_file
from sfumato.shared.command import SETTINGS, list_examples
from sfumato.shared.errors import ConfigError, NotFoundError
from sfumato.shared.wire.references import is_beginning

synthesise = typer.Typer(**SETTINGS)


@synthesise.command(
    epilog=list_examples(
        "sfumato synthesise STUDY -k 5 -n 10000 --out records.csv",
        "sfumato synthesise DECODE --histogram pilot --out records.parquet",
        "sfumato synthesise main.sketch --plan main.toml -k 8 --histogram pilot.sketch "
        "--histogram-plan pilot.toml --out records.csv",
    )
)
def _synthesise(
    references: Annotated[
        list[str],
        typer.Argument(
            metavar="STUDY|DECODE|FILE...",
            help="A study: its last decode that may be used, or with -k a new one; a decode by its "
            "id or 6 or more first digits of it; or with --plan sketch files of different "
            "records.",
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
        int | None, typer.Option("-k", min=1, help="Decode a study or files with so many clusters.")
    ] = None,
    start: From = None,
    end: To = None,
    label: Labelled = None,
    seed: Seed = 0,
    within: Within = None,
    allow_unusable: AllowUnusable = False,
    timeout: Timeout = None,
    key: MaybeKey = "",
    url: Url = DEFAULT_URL,
    as_json: Json = False,
) -> None:
    """Write synthetic records from a decode, at no further cost of privacy.

    No row is a record of anybody. Give -k two to three times the clusters of the data: more
    Gaussians follow its shape better. A histogram mends spikes and sharp ends of columns.
    """
    require_table_file(out)
    if plan is None:
        if histogram_plan is not None:
            raise ConfigError(
                "is missing: --histogram-plan is for sketch files",
                field="--plan",
                fix="name the plan of the sketch files, or leave this option out",
            )
        reference = _require_one(references)
        has_selection = any((start, end, label, within))
        if has_selection and n_clusters is None:
            raise ConfigError(
                "is missing: --from, --to, --label and --within are for a new decode",
                field="-k",
                fix="name a number of clusters, or leave these options out",
            )
        with Client(url, key=key or None) as client:
            if n_clusters is None:
                running = Decode(client, _find_decode(client, reference, allow_unusable))
            else:
                running = client.decode(
                    reference,
                    n_clusters=n_clusters,
                    start=start,
                    end=end,
                    labels=read_labels(label),
                    seed=seed,
                    search_box=read_search_box(within),
                )
            served = follow(running, allow_unusable=allow_unusable, timeout=timeout)
            n_clusters = served.n_clusters
            found = served.synthesise(
                n_records, histogram=histogram, seed=seed, allow_unusable=allow_unusable
            )
    else:
        if any((start, end, label)):
            raise ConfigError(
                "must be left out: --from, --to and --label choose sketches of a study",
                field="--plan",
                fix="name the sketch files that you want",
            )
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
    if plan is None:
        body = found.body
        drawn = f"Drawn from decode {body.decode_id} of {body.study!r}"
        # Left whole, so that the id can be copied.
        show(f"{drawn}: {n_clusters} clusters by {body.decoder}, verdict {body.verdict!r}.")
    show(Text(found.statement))
    show(Text(f"Wrote {len(found):,} records to {' and '.join(map(str, written))}."))


def _require_one(references: list[str]) -> str:
    if len(references) > 1:
        raise ConfigError(
            "must be one study or decode", field="STUDY", fix="draw from one, or give --plan"
        )
    if Path(references[0]).is_file():
        raise ConfigError(
            f"is missing, and {references[0]} is a file", field="--plan", fix="name the file's plan"
        )
    return references[0]


def _find_decode(client: Client, reference: str, allow_unusable: bool) -> str:
    """Return the id of the decode that a reference means, or of a study's last one of use."""
    if is_beginning(reference):
        try:
            return client.find_decode(reference)
        except NotFoundError:
            # Digits of a study, then.
            pass
    for each in client.decodes(client.find_study(reference)):
        verdict = each.result.verdict if each.result else None
        is_unusable = verdict is not None and verdict.word == UNUSABLE
        if each.state == "succeeded" and (allow_unusable or not is_unusable):
            return each.decode_id
    raise NotFoundError(
        f"{reference!r} has none that may be used",
        field="decode",
        fix="name a number of clusters: -k 5",
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
