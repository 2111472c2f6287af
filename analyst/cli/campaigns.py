"""``sfumato campaign``: studies that follow each other, which devices join once."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Annotated

import typer
from rich.table import Table

from sfumato.analyst.cli.decodes import describe_decoded
from sfumato.analyst.cli.options import (
    Answer,
    Anyway,
    Neighbouring,
    Study,
    command,
    make_table,
    show_time,
)
from sfumato.analyst.cli.pilots import PerPerson, parse_count, parse_label, parse_length
from sfumato.analyst.client import Client, Decode
from sfumato.analyst.levels import parse_delta, parse_epsilon
from sfumato.analyst.planning.campaigns import CampaignOutline, plan_campaign
from sfumato.analyst.planning.pilots import parse_columns, require_strength
from sfumato.analyst.planning.questions import parse_date
from sfumato.shared.command import SETTINGS
from sfumato.shared.errors import ConfigError
from sfumato.shared.plan import find_cautions, make_statement
from sfumato.shared.wire import EnrolmentCode, encode_enrolment_code
from sfumato.shared.wire.objects.campaigns import CampaignBody, PhaseBody

_PAUSE_S = 2.0

app = typer.Typer(help="Run studies that follow each other, which devices join once.", **SETTINGS)


@command(
    app,
    "create",
    'sfumato campaign create heating --dimensions "room:degC:-30..60,load:kW" --clusters 5 \\',
    "    --devices 6 --records 8640 --epsilon 1 --window 1d --windows 1,7,7 --start 2026-03-02",
)
def _create(
    client: Client,
    name: Annotated[str, typer.Argument(metavar="NAME", help="A name for people.")],
    dimensions: Annotated[
        list[str],
        typer.Option(
            metavar="COLUMNS", help="All columns, between commas, as `sfumato plan pilot` has them."
        ),
    ],
    records: Annotated[str, typer.Option(help="Records of all devices in one window together.")],
    devices: Annotated[int, typer.Option(min=1, help="Devices that take part.")],
    clusters: Annotated[int, typer.Option(min=1, help="The number of clusters that is wanted.")],
    epsilon: Annotated[
        str, typer.Option(help="For each record, in the one phase that it is in; exact.")
    ],
    delta: Annotated[str, typer.Option(help="Delta; 0 for pure epsilon only.")] = "0",
    window: Annotated[str, typer.Option(help="Length of a window, such as 6h or 1d.")] = "1d",
    windows: Annotated[
        str, typer.Option(help="Windows of pilot, sketch, and each look, between commas.")
    ] = "1,7,7",
    gap: Annotated[
        int, typer.Option(min=0, help="Windows between two phases, which nobody reads.")
    ] = 0,
    start: Annotated[
        str | None, typer.Option(help="Day in UTC on which the pilot begins; default: today.")
    ] = None,
    choose: Annotated[
        bool, typer.Option("--choose", help="Choose the number of clusters, up to --clusters.")
    ] = False,
    ask: Annotated[
        bool,
        typer.Option("--ask", help="Wait for `sfumato campaign next` before each later phase."),
    ] = False,
    drawn: Annotated[
        bool,
        typer.Option(
            "--drawn", help="Each device takes part in one phase: for devices with one record."
        ),
    ] = False,
    neighbouring: Neighbouring = "replace-one",
    label: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE|...", help="A label of devices. Repeatable."),
    ] = None,
    per_person: PerPerson = None,
    anyway: Anyway = False,
) -> Answer:
    """Publish a campaign, and print the line with which each device joins it once.

    A pilot finds the scale of each column, a sketch the clusters, and looks measure and refine
    them. Each phase reads records of its own time, so that a record is in one phase and has the
    whole epsilon there. The server makes each later plan from the answer before, and devices check
    that it keeps the terms that they joined.
    """
    outline = CampaignOutline(
        dimensions=parse_columns(dimensions),
        n_records=parse_count(records),
        n_devices=devices,
        most_clusters=clusters,
        epsilon=parse_epsilon(epsilon, "--epsilon"),
        delta=parse_delta(delta, "--delta"),
        origin=parse_date(start or datetime.now(UTC).date().isoformat()),
        length_s=parse_length(window),
        n_windows=_parse_windows(windows),
        gap=gap,
        devices="drawn" if drawn else "all",
        neighbouring=neighbouring,
        labels=tuple(map(parse_label, label or [])),
        max_records_per_person=per_person,
    )
    pilot, plan = plan_campaign(outline)
    require_strength(pilot, anyway=anyway)
    for caution in find_cautions(plan):
        print(f"warning: {caution}", file=sys.stderr)
    study = client.create_study(name, plan)
    begun = client.begin_campaign(
        study.study_id, n_devices=devices, is_automatic=not ask, chooses=choose
    )
    token = client.create_token(study.study_id, max_uses=devices)
    code = encode_enrolment_code(
        EnrolmentCode(server=client.url, study=bytes.fromhex(study.study_id), token=token)
    )
    yield {"campaign": begun, "code": code}
    yield _tabulate(begun)
    yield make_statement(plan).describe()
    yield "next, on each device: sfumato-agent init --code with this line; then sfumato-agent run"
    yield code
    yield f"then: sfumato campaign show {study.study_id[:12]} --wait"


@command(app, "status", "sfumato campaign status heating")
def _status(client: Client, study: Study) -> Answer:
    """Show the phases of a campaign: when, how many devices, and what is awaited."""
    found = client.campaign(client.find_study(study))
    yield found
    yield _tabulate(found)
    yield from _describe_rest(found)


@command(app, "show", "sfumato campaign show heating --wait")
def _show(
    client: Client,
    study: Study,
    wait: Annotated[
        bool, typer.Option("--wait", help="Wait until the last phase is over.")
    ] = False,
) -> Answer:
    """Show the answer of a campaign: its clusters, with what looks have measured so far."""
    study_id = client.find_study(study)
    found = client.campaign(study_id)
    while wait and not _is_over(found):
        for phase in found.phases:
            if phase.problem is not None:
                raise ConfigError(
                    f"halts after its {phase.name}: {phase.problem['detail']}",
                    field="campaign",
                    fix="see `sfumato campaign status`, and `sfumato campaign next --anyway`",
                )
        time.sleep(_PAUSE_S)
        found = client.campaign(study_id)
    if found.answer is None:
        raise ConfigError(
            "has no answer yet",
            field="campaign",
            fix="see `sfumato campaign status`, or add --wait",
        )
    yield client.decode_state(found.answer)
    result = Decode(client, found.answer).wait()
    yield from describe_decoded(result)
    if result.outdated:
        yield f"next: {_propose_decode(found, result.n_clusters)}"


@command(app, "next", "sfumato campaign next heating")
def _next(client: Client, study: Study, anyway: Anyway = False) -> Answer:
    """Publish the next phase now, without waiting for devices that are silent."""
    found = client.next_phase(client.find_study(study), anyway=anyway)
    yield found
    yield _tabulate(found)
    yield from _describe_rest(found)


def _describe_rest(found: CampaignBody) -> Iterator[str]:
    for phase in found.phases:
        if phase.problem is not None:
            yield f"{phase.name}: {phase.problem['detail']}"
    if found.answer is None:
        return
    what = "answer" if _is_over(found) else "answer so far"
    yield f"{what}: sfumato campaign show {found.study_id[:12]}"


def _propose_decode(found: CampaignBody, n_clusters: int) -> str:
    """Write the command that makes the answer anew, of what the sums hold now."""
    studies = [each.study_id[:12] for each in found.phases[1:] if each.study_id and each.n_sketches]
    looks = "".join(f" --look {study}" for study in studies[1:])
    return f"sfumato decode {studies[0]} -k {n_clusters}{looks}"


def _is_over(found: CampaignBody) -> bool:
    return all(each.study_id and each.waits is None for each in found.phases)


def _tabulate(found: CampaignBody) -> Table:
    table = make_table("phase", "epsilon", "from", "until", "devices", "sketches", "state")
    for each in found.phases:
        devices = "" if each.study_id is None else f"{each.n_finished} of {found.n_devices} done"
        table.add_row(
            each.name,
            each.epsilon,
            *(show_time(at).removesuffix(" 00:00:00 UTC") for at in (each.begins, each.ends)),
            devices,
            f"{each.n_sketches:,}",
            _describe_state(each),
        )
    return table


def _describe_state(phase: PhaseBody) -> str:
    if phase.study_id is None:
        return "to come"
    return "over" if phase.waits is None else f"waits: {phase.waits}"


def _parse_windows(text: str) -> list[int]:
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() for part in parts):
        raise ConfigError(
            "must be whole numbers between commas", field="--windows", fix="write 1,7,7"
        )
    return [int(part) for part in parts]
