"""``sfumato compare``: whether the records of two selections differ, how surely, and in what."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from sfumato.analyst.cli.analyses import (
    Clusters,
    LookStudy,
    Plot,
    Seed,
    Shift,
    Timeout,
    describe,
    wait,
)
from sfumato.analyst.cli.options import DEFAULT_URL, Json, Url, show
from sfumato.analyst.cli.sources import MaybeKey, PlanOfFile, draw, open_sources
from sfumato.analyst.client import Client
from sfumato.analyst.results.analyses import AnalysisResult
from sfumato.analyst.sketching.answers import LocalSketches
from sfumato.analyst.sketching.comparison import (
    LEVEL,
    SMALLEST_SHIFT,
    ComparisonChoices,
    compare_totals,
)
from sfumato.analyst.sketching.sources import Snapshot, Source, choose_sketches
from sfumato.shared.command import SETTINGS, list_examples
from sfumato.shared.errors import ConfigError
from sfumato.shared.plan import compute_plan_digest
from sfumato.shared.wire.references import is_identity

compare = typer.Typer(**SETTINGS)
Side = Annotated[
    str,
    typer.Argument(
        metavar="SOURCE",
        help="Sketches of a study: STUDY@2013-03 or STUDY@2013-03-01:2013-05-31 for days and "
        "months, STUDY@FIRST:LAST for slots, STUDY@site=north for a label, or several after "
        "commas. Or the id of a snapshot; or with --plan a sketch file.",
    ),
]


@compare.command(
    epilog=list_examples(
        "sfumato compare weather@2013-01:2013-03 weather@2013-07:2013-09 -k 5",
        "sfumato compare weather@airport=JFK weather@airport=LGA -k 5 --json",
        "sfumato compare may.sketch june.sketch --plan plan.toml -k 5",
    )
)
def _compare(
    first: Side,
    second: Side,
    n_clusters: Clusters,
    plan: PlanOfFile = None,
    level: Annotated[
        float, typer.Option(min=1e-4, max=0.5, help="Share of false alarms without a change.")
    ] = LEVEL,
    smallest_shift: Shift = SMALLEST_SHIFT,
    look: LookStudy = None,
    seed: Seed = 0,
    timeout: Timeout = None,
    plot: Plot = None,
    key: MaybeKey = "",
    url: Url = DEFAULT_URL,
    as_json: Json = False,
) -> None:
    """Compare two selections of one study. The exit status is 1 if they differ.

    It tells the size of the difference, how sure it is, and which clusters of both together
    changed. They differ if noise and sampling explain the difference with a probability below the
    level, and if it is as large as a common shift of all records by the smallest shift.

    Selections of a study are compared by the server, which keeps the answer. Files and snapshots
    are compared here.
    """
    options = {
        "n_clusters": n_clusters,
        "seed": seed,
        "level": level,
        "smallest_shift": smallest_shift,
    }
    is_local = any(is_identity(each) or Path(each).is_file() for each in (first, second))
    if look is not None and (plan is not None or is_local):
        raise ConfigError("needs selections of a study", field="--look", fix="leave it out")
    if plan is None and not is_local:
        result = _compare_there(first, second, timeout, key=key, url=url, look=look, **options)
    else:
        result = _compare_here(first, second, plan, key=key, url=url, **options)
    draw(plot, result.plot, option="--plot")
    if as_json:
        print(json.dumps(result.to_json(), ensure_ascii=False))
    else:
        verdict = "they differ" if result.body.is_alarm else "no difference worth an alarm"
        show(Text(f"{first} -> {second}: {verdict}"))
        for part in describe(result):
            show(part)
    if result.body.is_alarm:
        raise typer.Exit(1)


def _compare_there(
    first: str, second: str, timeout: float | None, *, key: str, url: str, **options: Any
) -> AnalysisResult[Any]:
    """Let the server compare two selections of a study."""
    with Client(url, key=key or None) as client:
        study, before = choose_sketches(client, first)
        other, after = choose_sketches(client, second)
        if study != other:
            raise _refuse_plans()
        return wait(client.compare(study, before, after, **options), timeout)


def _compare_here(
    first: str, second: str, plan: Path | None, *, key: str, url: str, **options: Any
) -> AnalysisResult[Any]:
    """Compare the sums of files or snapshots."""
    with open_sources([first, second], plan, key=key, url=url) as (one, two):
        _require_pair(one, two)
        return compare_totals(
            one.plan,
            one.totals,
            two.totals,
            ComparisonChoices(**options),
            digests=_list_digests(one, two),
        )


def _refuse_plans() -> ConfigError:
    return ConfigError(
        "are of two plans, whose features differ",
        field="sources",
        fix="compare sketches of one study",
    )


def _require_pair(one: Source, two: Source) -> None:
    if compute_plan_digest(one.plan) != compute_plan_digest(two.plan):
        raise _refuse_plans()
    if any(isinstance(each, LocalSketches) and not each.is_private for each in (one, two)):
        raise ConfigError(
            "must carry noise: its law is what the answer rests on",
            field="sources",
            fix="compare exact sketches by their records",
        )
    if one.shares_with(two):
        raise ConfigError(
            "must not overlap: sketches that are in both carry the same noise",
            field="sources",
            fix="name slots that follow each other, as STUDY@0:3 and STUDY@4:7",
        )


def _list_digests(*sources: Source) -> list[str]:
    return [source.body.digest for source in sources if isinstance(source, Snapshot)]
