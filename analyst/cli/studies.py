"""``sfumato study``."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

import typer

from analyst.cli.options import DEFAULT_URL, SETTINGS, Json, Key, Study, Url, make_table, show
from analyst.client import Client
from analyst.planning.files import read_plan
from shared.errors import ConfigError
from shared.plan import compute_plan_digest, find_cautions, make_statement
from shared.wire import EnrolmentCode, compute_study_id, encode_enrolment_code

app = typer.Typer(help="Publish and look at studies.", **SETTINGS)


@app.command("create")
def _study_create(
    name: Annotated[str, typer.Argument(help="A name for people.")],
    path: Annotated[Path, typer.Argument(help="A plan (JSON) or a specification (TOML).")],
    key: Key,
    url: Url = DEFAULT_URL,
    again: Annotated[
        bool, typer.Option("--again", help="Also where a study of another name has this plan.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Publish a study. The same name and plan again are the same study.

    A plan that another study has already is refused without --again: people whose records are in
    both pay for both.

    Example: sfumato study create weather deploy/demo/plan.toml
    """
    plan = read_plan(path)
    for caution in find_cautions(plan):
        print(f"warning: {caution}", file=sys.stderr)
    study_id = compute_study_id(name, plan).hex()
    with Client(url, key=key) as client:
        before = list(client.studies())
        is_there = any(study["study_id"] == study_id for study in before)
        if not (again or is_there):
            _require_new(compute_plan_digest(plan).hex(), before)
        created = client.create_study(name, plan, allow_same_plan=again)
    if as_json:
        print(json.dumps(created))
        return
    if is_there:
        print("there was a study with this name and plan; nothing has changed")
    elif any(study["name"] == name for study in before):
        print(f"note: another study is called {name} too; name them by their ids", file=sys.stderr)
    print(f"study {created['study_id']} is {created['state']}")
    print(f"next: let a device enrol: sfumato study token {created['study_id']} --code")


@app.command("list")
def _study_list(key: Key, url: Url = DEFAULT_URL, as_json: Json = False) -> None:
    """List the studies.

    Example: sfumato study list --json
    """
    with Client(url, key=key) as client:
        studies = list(client.studies())
    if as_json:
        print(json.dumps(studies))
        return
    table = make_table("name", "state", "devices", "sketches", "records", identity="study")
    for item in studies:
        counts = (_count(item[f"n_{what}"]) for what in ("devices", "sketches", "records"))
        table.add_row(item["name"], item["state"], *counts, item["study_id"])
    show(table)


@app.command("show")
def _study_show(study: Study, key: Key, url: Url = DEFAULT_URL, as_json: Json = False) -> None:
    """Show a study: state, counts, plan and what was refused.

    Example: sfumato study show STUDY
    """
    with Client(url, key=key) as client:
        study_id = client.find_study(study)
        found, plan = client.study(study_id), client.plan(study_id)
        refusals = client.refusals(study_id)
    if as_json:
        print(json.dumps({**found, "refusals": refusals}))
        return
    until = f", takes what was on its way until {found['accept_until']}"
    print(f"study {found['study_id']}: {found['name']}")
    print(f"  {found['state']}{until if found['accept_until'] else ''}; since {found['created']}")
    counts = [f"{_count(found[f'n_{what}'])} {what}" for what in ("devices", "sketches", "records")]
    print(f"  {', '.join(counts)}")
    print(f"  plan {found['plan_digest']}")
    statement = make_statement(plan)
    print(f"  {statement.describe()}")
    for caution in statement.cautions:
        print(f"  warning: {caution}")
    for refusal in refusals["items"]:
        print(f"  refused {refusal['count']} sketch(es): {refusal['problem']}")
    for refusal in refusals["plan_refusals"]:
        print(f"  refused by the owners of {refusal['n_devices']} device(s): {refusal['rule']}")


@app.command("open")
def _study_open(study: Study, key: Key, url: Url = DEFAULT_URL, as_json: Json = False) -> None:
    """Open a study again that was closed; devices notice within minutes.

    Example: sfumato study open STUDY
    """
    with Client(url, key=key) as client:
        _show_state(client.set_state(study, "open"), as_json)


@app.command("close")
def _study_close(
    study: Study,
    key: Key,
    url: Url = DEFAULT_URL,
    accept_for: Annotated[
        float, typer.Option(min=0, help="Hours to take what was on its way still.")
    ] = 0.0,
    as_json: Json = False,
) -> None:
    """Close a study: devices pause, and spend nothing, until it is opened again.

    Example: sfumato study close STUDY --accept-for 24
    """
    until = datetime.now(UTC) + timedelta(hours=accept_for) if accept_for else None
    with Client(url, key=key) as client:
        _show_state(client.set_state(study, "closed", accept_until=until), as_json)


@app.command("delete")
def _study_delete(
    study: Study,
    key: Key,
    confirm: Annotated[str, typer.Option(help="The study's name: nothing brings it back.")],
    url: Url = DEFAULT_URL,
    as_json: Json = False,
) -> None:
    """Withdraw a study for good, with all that it holds.

    Example: sfumato study delete STUDY --confirm weather
    """
    with Client(url, key=key) as client:
        _show_state(client.withdraw_study(study, name=confirm), as_json)


@app.command("token")
def _study_token(
    study: Study,
    key: Key,
    url: Url = DEFAULT_URL,
    uses: Annotated[int, typer.Option(help="Devices that it may enrol.")] = 1,
    as_code: Annotated[
        bool, typer.Option("--code", help="Print one line with address, study and token.")
    ] = False,
) -> None:
    """Make an enrolment token and print it; it is shown this once.

    With --code the line also holds the study and --url, which must be the address that devices
    reach. It has a checksum, and only characters that fit a small QR code.

    Example: sfumato study token STUDY --code --url https://sketches.example.org
    """
    with Client(url, key=key) as client:
        study_id = client.find_study(study)
        token = client.create_token(study_id, max_uses=uses)
    if not as_code:
        print(token)
        return
    if urlsplit(url).hostname in ("localhost", "127.0.0.1", "::1"):
        print(f"note: devices elsewhere cannot reach {url}; state --url", file=sys.stderr)
    code = EnrolmentCode(server=url, study=bytes.fromhex(study_id), token=token)
    print(encode_enrolment_code(code))


@app.command("tokens")
def _study_tokens(study: Study, key: Key, url: Url = DEFAULT_URL, as_json: Json = False) -> None:
    """List the enrolment tokens of a study, revoked ones too; none is shown itself.

    Example: sfumato study tokens STUDY --json
    """
    with Client(url, key=key) as client:
        tokens = list(client.tokens(study))
    if as_json:
        print(json.dumps(tokens))
        return
    table = make_table("state", "created", "expires", "uses", "left", identity="token")
    for item in tokens:
        table.add_row(
            item["state"],
            item["created"],
            item["expires"],
            f"{item['max_uses']:,}",
            f"{item['uses_left']:,}",
            item["token_id"],
        )
    show(table)


@app.command("revoke-token")
def _study_revoke_token(
    token_id: Annotated[
        str, typer.Argument(metavar="TOKEN", help="Its identity: the SHA-256 of the token.")
    ],
    key: Key,
    url: Url = DEFAULT_URL,
    as_json: Json = False,
) -> None:
    """Revoke an enrolment token, at once and for good; the devices that it enrolled stay.

    Example: sfumato study revoke-token TOKEN
    """
    with Client(url, key=key) as client:
        token = client.revoke_token(token_id)
    if as_json:
        print(json.dumps(token))
        return
    n_used = token["max_uses"] - token["uses_left"]
    print(f"token {token['token_id']} is revoked; it enrolled {n_used} device(s)")


def _require_new(plan_digest: str, studies: Iterable[Mapping[str, Any]]) -> None:
    for study in studies:
        if study["plan_digest"] == plan_digest:
            raise ConfigError(
                f"an equal plan is published as study {study['study_id']} ({study['name']})",
                field="plan",
                fix="use that study, or add --again for a second one",
            )


def _show_state(study: Mapping[str, Any], as_json: bool) -> None:
    if as_json:
        print(json.dumps(study))
        return
    until = study.get("accept_until")
    takes = f" and takes until {until} what was on its way" if until else ""
    print(f"study {study['study_id']} is {study['state']}{takes}")


def _count(number: int | None) -> str:
    return "secret" if number is None else f"{number:,}"
