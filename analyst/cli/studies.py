"""``sfumato study``."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

import typer

from sfumato.analyst.cli.options import (
    PLAN_HELP,
    Answer,
    Anyway,
    Study,
    command,
    list_items,
    show_time,
    tabulate,
)
from sfumato.analyst.cli.search_boxes import Within, describe_search_box, read_search_box
from sfumato.analyst.client import Client
from sfumato.analyst.planning.explanation import find_limit_doubt, predict_study
from sfumato.analyst.planning.files import read_plan
from sfumato.analyst.report import collect_dossier, render_dossier
from sfumato.analyst.report.dossier import QUESTIONS
from sfumato.analyst.results.files import write_file
from sfumato.learning.planning.remedies import Doubt, require_hope
from sfumato.shared.command import SETTINGS
from sfumato.shared.errors import ConfigError, NotFoundError, StoreError
from sfumato.shared.hosts import is_loopback
from sfumato.shared.plan import SketchPlan, find_cautions, make_statement
from sfumato.shared.wire import (
    EnrolmentCode,
    compute_study_id,
    encode_enrolment_code,
    make_page_address,
)
from sfumato.shared.wire.objects.studies import RefusalsBody, StudyBody

app = typer.Typer(help="Publish and manage studies and their enrolment tokens.", **SETTINGS)


@command(app, "create", "sfumato study create weather deploy/demo/plan.toml")
def _create(
    client: Client,
    name: Annotated[str, typer.Argument(metavar="NAME", help="A name for people.")],
    path: Annotated[Path, typer.Argument(metavar="PLAN", help=PLAN_HELP)],
    again: Annotated[
        bool, typer.Option("--again", help="Publish even if a study of another name has this plan.")
    ] = False,
    n_records: Annotated[
        int | None,
        typer.Option("--records", min=1, help="Expected records of all devices and windows."),
    ] = None,
    devices: Annotated[
        int | None, typer.Option(min=1, help="Expected devices; default with --records: 1.")
    ] = None,
    windows: Annotated[
        int | None,
        typer.Option(min=1, help="Windows that are decoded together; default with --records: 1."),
    ] = None,
    anyway: Anyway = False,
    within: Within = None,
) -> Answer:
    """Publish a study. The same name and plan again give the same study.

    A plan that another study has is refused without --again, because a person whose records are in
    both studies would spend the budget twice. A plan whose answers could not be trusted is refused
    without --anyway: with the expected records, or without them with the most that it accepts.
    """
    plan = read_plan(path)
    require_hope(_find_doubt(plan, n_records, devices, windows), anyway=anyway)
    for caution in find_cautions(plan):
        print(f"warning: {caution}", file=sys.stderr)
    is_known = _is_known(client, compute_study_id(name, plan).hex())
    try:
        created = client.create_study(
            name, plan, allow_same_plan=again, search_box=read_search_box(within)
        )
    except StoreError as error:
        if error.field == "plan":
            error.fix = "use that study, or add --again for a second one"
        raise
    yield created
    if is_known:
        yield "a study with this name and plan exists already; nothing has changed"
    elif any(study.name == name for study in _list_others(client, created)):
        print(f"note: another study is called {name} too; use their ids", file=sys.stderr)
    yield f"study {created.study_id} is {created.state}"
    yield f"next: let a device enrol: sfumato study token {created.study_id[:12]} --code"


def _is_known(client: Client, study_id: str) -> bool:
    try:
        client.study(study_id)
    except NotFoundError:
        return False
    return True


def _list_others(client: Client, study: StudyBody) -> Iterator[StudyBody]:
    """Yield the other studies whose names begin with its name."""
    return (each for each in client.studies(study.name) if each.study_id != study.study_id)


def _find_doubt(
    plan: SketchPlan, n_records: int | None, devices: int | None, windows: int | None
) -> Doubt | None:
    if n_records is None:
        for name, value in (("--devices", devices), ("--windows", windows)):
            if value is not None:
                raise ConfigError("needs --records", field=name, fix="give the expected records")
        return find_limit_doubt(plan)
    return predict_study(
        plan,
        n_records=n_records,
        n_sketches=(devices or 1) * (windows or 1),
        n_clusters=plan.most_clusters or 1,
        n_windows=windows or 1,
    ).doubt


@command(app, "list", "sfumato study list", "sfumato study list pumps --json")
def _list(
    client: Client,
    beginning: Annotated[
        str | None, typer.Argument(metavar="NAME", help="Only studies whose names begin so.")
    ] = None,
) -> Answer:
    """List the studies, the oldest first."""
    return list_items(
        client.studies(beginning or ""),
        *("name", "state", "devices", "sketches", "records"),
        identity="study",
        row=lambda study: (study.name, study.state, *_counts(study), study.study_id),
    )


@command(app, "show", "sfumato study show STUDY")
def _show(client: Client, study: Study) -> Answer:
    """Show a study: state, counts, privacy and refusals."""
    study_id = client.find_study(study)
    found, refusals = client.study(study_id), client.refusals(study_id)
    yield {**asdict(found), "refusals": asdict(refusals)}
    yield tabulate(_describe(found, refusals, client.plan(study_id)))


@command(app, "open", "sfumato study open STUDY")
def _open(client: Client, study: Study) -> Answer:
    """Open a closed study again. Devices notice within minutes."""
    return _report_state(client.set_state(study, "open"))


@command(app, "close", "sfumato study close STUDY --accept-for 24")
def _close(
    client: Client,
    study: Study,
    accept_for: Annotated[
        float, typer.Option(min=0, help="Hours in which sketches on their way are still accepted.")
    ] = 0.0,
) -> Answer:
    """Close a study. Devices pause, and spend nothing, until it is opened again.

    With a secure sum, batches that have too few reports by then are dropped unread, for good.
    """
    until = datetime.now(UTC) + timedelta(hours=accept_for) if accept_for else None
    return _report_state(client.set_state(study, "closed", accept_until=until))


@command(app, "search-box", 'sfumato study search-box STUDY --within "temperature=-10:40"')
def _set_search_box(client: Client, study: Study, within: Within = None) -> Answer:
    """Change where later decodes search for clusters. Devices notice nothing.

    Narrower bounds than the plan's make the search better where those had to be wide. Decodes that
    exist keep theirs.
    """
    box = read_search_box(within)
    if box is None:
        raise ConfigError(
            "is missing", field="--within", fix="give bounds, or --within plan for the plan's"
        )
    changed = client.set_search_box(study, box)
    yield changed
    yield f"decodes search within {describe_search_box(changed.search_box)}"


@command(app, "delete", "sfumato study delete weather --confirm weather")
def _delete(
    client: Client,
    study: Study,
    confirm: Annotated[str, typer.Option(help="The study's name. This cannot be undone.")],
) -> Answer:
    """Withdraw a study for good, with all its data.

    What decodes of other studies have taken over from a second look stays in them.
    """
    gone = client.withdraw_study(study, name=confirm)
    yield gone
    yield f"study {gone.study_id} is {gone.state}"


def _stating(name: str) -> Any:
    return typer.Option(help=f"Stated in it. {QUESTIONS[name]}.")


@command(app, "dossier", "sfumato study dossier STUDY -o dossier.html --controller 'City of Graz'")
def _dossier(
    client: Client,
    study: Study,
    output: Annotated[Path, typer.Option("--output", "-o", help="The page.")] = Path(
        "dossier.html"
    ),
    controller: Annotated[str | None, _stating("controller")] = None,
    purpose: Annotated[str | None, _stating("purpose")] = None,
    contact: Annotated[str | None, _stating("contact")] = None,
) -> Answer:
    """Write all that a data protection impact assessment asks about a study, as one HTML page.

    Promise, public facts, keys and who can see what, retention, devices that left, audit log,
    versions. What no program knows is stated by options, or left as a marked blank. It needs an
    operator's key. --json prints all of it, and writes no page.
    """
    stated = {"controller": controller, "purpose": purpose, "contact": contact}
    made = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    found = collect_dossier(client, study, made=made, stated=stated)
    yield found
    write_file(output, render_dossier(found))
    yield f"wrote {output}; {len(found.open_questions)} blanks are left for you to fill in"


@command(app, "token", "sfumato study token STUDY --code --url https://sketches.example.org")
def _token(
    client: Client,
    study: Study,
    max_uses: Annotated[int, typer.Option("--uses", min=1, help="Devices that it may enrol.")] = 1,
    as_code: Annotated[
        bool, typer.Option("--code", help="Print one line with address, study and token.")
    ] = False,
) -> Answer:
    """Create an enrolment token and print it once.

    With --code the line also holds the study and --url, which must be the address that devices
    use. It has a checksum, and its characters suit a small QR code.
    """
    study_id = client.find_study(study)
    token = client.create_token(study_id, max_uses=max_uses)
    if as_code:
        if is_loopback(urlsplit(client.url).hostname or ""):
            print(
                f"note: only devices on this machine reach {client.url}; pass --url for others",
                file=sys.stderr,
            )
        code = EnrolmentCode(server=client.url, study=bytes.fromhex(study_id), token=token)
        yield {"code": encode_enrolment_code(code), "page": make_page_address(code)}
        yield encode_enrolment_code(code)
        print(f"or take part with a browser: {make_page_address(code)}", file=sys.stderr)
        return
    yield {"token": token}
    yield token


@command(app, "tokens", "sfumato study tokens STUDY --json")
def _tokens(client: Client, study: Study) -> Answer:
    """List the enrolment tokens of a study, without their secrets."""
    return list_items(
        client.tokens(study),
        *("state", "created", "expires", "uses", "left"),
        identity="token",
        row=lambda token: (
            token.state,
            *map(show_time, (token.created, token.expires)),
            *(f"{n:,}" for n in (token.max_uses, token.uses_left)),
            token.token_id,
        ),
    )


@command(app, "revoke-token", "sfumato study revoke-token TOKEN")
def _revoke_token(
    client: Client,
    token_id: Annotated[
        str, typer.Argument(metavar="TOKEN", help="Its id (`sfumato study tokens`).")
    ],
) -> Answer:
    """Revoke an enrolment token for good. The devices that it enrolled stay."""
    token = client.revoke_token(token_id)
    yield token
    n_used = token.max_uses - token.uses_left
    yield f"token {token.token_id} is revoked; it enrolled {n_used} device(s)"


def _report_state(study: StudyBody) -> Answer:
    yield study
    yield f"study {study.study_id} is {_describe_state(study)}"


def _describe_state(study: StudyBody) -> str:
    until = study.accept_until
    accepts = f"; accepts sketches on their way until {show_time(until)}" if until else ""
    return f"{study.state}{accepts}"


def _describe(
    study: StudyBody, refusals: RefusalsBody, plan: SketchPlan
) -> Iterator[tuple[str, str]]:
    yield "study", study.study_id
    yield "name", study.name
    yield "state", _describe_state(study)
    yield "created", show_time(study.created)
    yield "counts", "devices {}, sketches {}, records {}".format(*_counts(study))
    yield "plan", study.plan_digest
    yield "searched", describe_search_box(study.search_box)
    statement = make_statement(plan)
    yield "protects", statement.describe()
    yield from (("warning", caution) for caution in statement.cautions)
    yield from (("refused", text) for text in describe_refusals(refusals))


def describe_refusals(refusals: RefusalsBody) -> Iterator[str]:
    """Describe each reason for refusals, with its count."""
    for item in refusals.items:
        yield f"{item.count} sketch(es): {item.problem}"
    for each in refusals.plan_refusals:
        yield f"the plan, by the owners of {each.n_devices} device(s): {each.rule}"


def _counts(study: StudyBody) -> list[str]:
    numbers = (study.n_devices, study.n_sketches, study.n_records)
    return ["secret" if number is None else f"{number:,}" for number in numbers]
