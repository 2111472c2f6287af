"""``sfumato drift``: whether the records of two selections differ, how surely, and in what."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from typing import Annotated, Any

import numpy as np
import typer
from rich.table import Table
from rich.text import Text

from analyst.cli.options import DEFAULT_URL, Json, Url, show
from analyst.cli.sources import MaybeKey, PlanOfFile, Reference, open_sources
from analyst.sketching.answers import LocalSketches
from analyst.sketching.sources import Source
from learning.insight.comparing import LEVEL, SMALLEST_SHIFT, Comparison
from learning.insight.model import StudyModel
from learning.insight.pairs import compare_selections
from learning.insight.selection import Selection
from shared.command import SETTINGS, list_examples
from shared.errors import ConfigError
from shared.plan import SketchPlan, compute_plan_digest

drift = typer.Typer(**SETTINGS)


@drift.command(
    epilog=list_examples(
        "sfumato drift weather@0:3 weather@4:7 -k 5",
        "sfumato drift may.sketch june.sketch --plan plan.toml -k 5 --json",
    )
)
def _drift(
    first: Reference,
    second: Reference,
    n_clusters: Annotated[
        int, typer.Option("-k", min=1, help="Clusters whose changes are estimated.")
    ],
    plan: PlanOfFile = None,
    level: Annotated[
        float, typer.Option(min=1e-4, max=0.5, help="Share of false alarms without a change.")
    ] = LEVEL,
    smallest_shift: Annotated[
        float, typer.Option(min=0.0, help="Smallest size of an alarm, in the plan's scales.")
    ] = SMALLEST_SHIFT,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the fit and the draws.")] = 0,
    key: MaybeKey = "",
    url: Url = DEFAULT_URL,
    as_json: Json = False,
) -> None:
    """Compare two selections of one study. The exit status is 1 if they differ.

    It tells the size of the difference, how sure it is, and which clusters of both together
    changed. They differ if noise and sampling explain the difference with a probability below the
    level, and if it is as large as a common shift of all records by the smallest shift.
    """
    with open_sources([first, second], plan, key=key, url=url) as (one, two):
        _require_pair(one, two)
        found, model = compare_selections(
            one.plan,
            _select(first, one),
            _select(second, two),
            n_clusters=n_clusters,
            seed=seed,
            level=level,
            smallest_shift=smallest_shift,
        )
        axes = one.plan.axes
    if as_json:
        print(json.dumps(_to_json(found, model, one.plan), ensure_ascii=False))
    else:
        verdict = "they differ" if found.is_alarm else "no difference worth an alarm"
        show(Text(f"{first} -> {second}: {verdict}"))
        for line in found.describe():
            show(Text(line))
        for part in _tabulate(found, model, [f"{axis.name} ({axis.unit})" for axis in axes]):
            show(part)
    if found.is_alarm:
        raise typer.Exit(1)


def _require_pair(one: Source, two: Source) -> None:
    if compute_plan_digest(one.plan) != compute_plan_digest(two.plan):
        raise ConfigError(
            "are of two plans, whose features differ",
            field="sources",
            fix="compare sketches of one study",
        )
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


def _select(name: str, source: Source) -> Selection:
    # That none is in both has been checked, so a name for each is enough.
    return Selection(name=name, totals=source.totals, members=frozenset({name}))


def _list_clusters(found: Comparison, model: StudyModel) -> Iterator[dict[str, Any]]:
    for number in range(model.n_clusters):
        changes = [change for change in found.changes if change.cluster == number]
        yield {
            "weight": float(model.fit.weights[number]),
            "centre": np.asarray(model.fit.means[number]).tolist(),
            "changes": [{**asdict(change), "is_named": change.is_named} for change in changes],
        }


def _to_json(found: Comparison, model: StudyModel, plan: SketchPlan) -> dict[str, Any]:
    known = {name: value for name, value in asdict(found).items() if name != "changes"}
    return {
        **known,
        "is_alarm": found.is_alarm,
        "words": found.describe(),
        "axes": [{"name": axis.name, "unit": axis.unit} for axis in plan.axes],
        "clusters": [*_list_clusters(found, model)],
    }


def _tabulate(found: Comparison, model: StudyModel, axes: list[str]) -> Iterator[object]:
    """Show the clusters that the changes speak of, and what is estimated of each."""
    table = Table("cluster", box=None, padding=(0, 2, 0, 0))
    for heading in ("share", *axes):
        table.add_column(heading, justify="right")
    for number, cluster in enumerate(_list_clusters(found, model)):
        *moves, _, weight = cluster["changes"]
        share = np.expm1(weight["estimate"])
        cells = [
            _mark(f"{cluster['weight']:.1%}\n({share:+.0%})", weight["is_named"]),
            *(
                _mark(f"{centre:.4g}\n({move['estimate']:+.2f} sd)", move["is_named"])
                for centre, move in zip(cluster["centre"], moves, strict=True)
            ),
        ]
        table.add_row(str(number + 1), *cells)
    yield table
    yield "In brackets the estimated change; what noise may have made is dim."


def _mark(words: str, is_named: bool) -> Text:
    return Text(words, style="" if is_named else "dim")
