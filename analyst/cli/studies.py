"""``sfumato study``."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

import typer

from analyst.cli.options import DEFAULT_URL, Json, Key, Study, Url, print_items
from analyst.client import Client
from analyst.planning.files import read_plan
from shared.command import SETTINGS, list_examples
from shared.errors import StoreError
from shared.plan import find_cautions, make_statement
from shared.wire import EnrolmentCode, compute_study_id, encode_enrolment_code

app = typer.Typer(
    help="Publish, list, open, close and delete studies; make, list and revoke enrolment tokens.",
    **SETTINGS,
)


@app.command("create", epilog=list_examples("sfumato study create weather deploy/demo/plan.toml"))
def _create(
    name: Annotated[str, typer.Argument(help="A name for people.")],
    path: Annotated[Path, typer.Argument(help="A plan (JSON) or a specification (TOML).")],
    key: Key,
    url: Url = DEFAULT_URL,
    again: Annotated[
        bool, typer.Option("--again", help="Publish even if a study of another name has this plan.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Publish a study. The same name and plan again give the same study.

    A plan that another study has is refused without --again: people whose records are in both
    spend twice.
    """
    plan = read_plan(path)
    for caution in find_cautions(plan):
        print(f"warning: {caution}", file=sys.stderr)
    study_id = compute_study_id(name, plan).hex()
    with Client(url, key=key) as client:
        before = list(client.studies())
        is_there = any(study["study_id"] == study_id for study in before)
        try:
            created = client.create_study(name, plan, allow_same_plan=again)
        except StoreError as error:
            if error.field == "plan":
                error.fix = "use that study, or add --again for a second one"
            raise
    if as_json:
        print(json.dumps(created))
        return
    if is_there:
        print("there was a study with this name and plan; nothing has changed")
    elif any(study["name"] == name for study in before):
        print(f"note: another study is called {name} too; name them by their ids", file=sys.stderr)
    print(f"study {created['study_id']} is {created['state']}")
    print(f"next: let a device enrol: sfumato study token {created['study_id']} --code")


@app.command("list", epilog=list_examples("sfumato study list --json"))
def _list(key: Key, url: Url = DEFAULT_URL, as_json: Json = False) -> None:
    """List the studies."""
    with Client(url, key=key) as client:
        print_items(
            client.studies(),
            *("name", "state", "devices", "sketches", "records"),
            identity="study",
            row=lambda study: (study["name"], study["state"], *_counts(study), study["study_id"]),
            as_json=as_json,
        )


@app.command("show", epilog=list_examples("sfumato study show STUDY"))
def _show(study: Study, key: Key, url: Url = DEFAULT_URL, as_json: Json = False) -> None:
    """Show a study: state, counts, plan and what was refused."""
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
    print("  {} devices, {} sketches, {} records".format(*_counts(found)))
    print(f"  plan {found['plan_digest']}")
    statement = make_statement(plan)
    print(f"  {statement.describe()}")
    for caution in statement.cautions:
        print(f"  warning: {caution}")
    for refusal in refusals["items"]:
        print(f"  refused {refusal['count']} sketch(es): {refusal['problem']}")
    for refusal in refusals["plan_refusals"]:
        print(f"  refused by the owners of {refusal['n_devices']} device(s): {refusal['rule']}")


@app.command("open", epilog=list_examples("sfumato study open STUDY"))
def _open(study: Study, key: Key, url: Url = DEFAULT_URL, as_json: Json = False) -> None:
    """Open a closed study again. Devices notice within minutes."""
    with Client(url, key=key) as client:
        _show_state(client.set_state(study, "open"), as_json)


@app.command("close", epilog=list_examples("sfumato study close STUDY --accept-for 24"))
def _close(
    study: Study,
    key: Key,
    url: Url = DEFAULT_URL,
    accept_for: Annotated[
        float, typer.Option(min=0, help="Hours in which sketches on their way are still taken.")
    ] = 0.0,
    as_json: Json = False,
) -> None:
    """Close a study. Devices pause, and spend nothing, until it is opened again."""
    until = datetime.now(UTC) + timedelta(hours=accept_for) if accept_for else None
    with Client(url, key=key) as client:
        _show_state(client.set_state(study, "closed", accept_until=until), as_json)


@app.command("delete", epilog=list_examples("sfumato study delete STUDY --confirm weather"))
def _delete(
    study: Study,
    key: Key,
    confirm: Annotated[str, typer.Option(help="The study's name: nothing brings it back.")],
    url: Url = DEFAULT_URL,
    as_json: Json = False,
) -> None:
    """Withdraw a study for good, with all that it holds."""
    with Client(url, key=key) as client:
        _show_state(client.withdraw_study(study, name=confirm), as_json)


@app.command(
    "token",
    epilog=list_examples("sfumato study token STUDY --code --url https://sketches.example.org"),
)
def _token(
    study: Study,
    key: Key,
    url: Url = DEFAULT_URL,
    max_uses: Annotated[int, typer.Option("--uses", help="Devices that it may enrol.")] = 1,
    as_code: Annotated[
        bool, typer.Option("--code", help="Print one line with address, study and token.")
    ] = False,
) -> None:
    """Make an enrolment token and print it. It is shown this once.

    With --code the line also holds the study and --url, which must be the address that devices
    reach. It has a checksum, and only characters that fit a small QR code.
    """
    with Client(url, key=key) as client:
        study_id = client.find_study(study)
        token = client.create_token(study_id, max_uses=max_uses)
    if not as_code:
        print(token)
        return
    if urlsplit(url).hostname in ("localhost", "127.0.0.1", "::1"):
        print(f"note: devices elsewhere cannot reach {url}; state --url", file=sys.stderr)
    code = EnrolmentCode(server=url, study=bytes.fromhex(study_id), token=token)
    print(encode_enrolment_code(code))


@app.command("tokens", epilog=list_examples("sfumato study tokens STUDY --json"))
def _tokens(study: Study, key: Key, url: Url = DEFAULT_URL, as_json: Json = False) -> None:
    """List the enrolment tokens of a study, without their secrets."""
    with Client(url, key=key) as client:
        print_items(
            client.tokens(study),
            *("state", "created", "expires", "uses", "left"),
            identity="token",
            row=lambda token: (
                *(token[name] for name in ("state", "created", "expires")),
                *(f"{token[name]:,}" for name in ("max_uses", "uses_left")),
                token["token_id"],
            ),
            as_json=as_json,
        )


@app.command("revoke-token", epilog=list_examples("sfumato study revoke-token TOKEN"))
def _revoke_token(
    token_id: Annotated[
        str, typer.Argument(metavar="TOKEN", help="Its identity: the SHA-256 of the token.")
    ],
    key: Key,
    url: Url = DEFAULT_URL,
    as_json: Json = False,
) -> None:
    """Revoke an enrolment token for good. The devices that it enrolled stay."""
    with Client(url, key=key) as client:
        token = client.revoke_token(token_id)
    if as_json:
        print(json.dumps(token))
        return
    n_used = token["max_uses"] - token["uses_left"]
    print(f"token {token['token_id']} is revoked; it enrolled {n_used} device(s)")


def _show_state(study: Mapping[str, Any], as_json: bool) -> None:
    if as_json:
        print(json.dumps(study))
        return
    until = study.get("accept_until")
    takes = f" and takes until {until} what was on its way" if until else ""
    print(f"study {study['study_id']} is {study['state']}{takes}")


def _counts(study: Mapping[str, Any]) -> list[str]:
    numbers = (study[f"n_{what}"] for what in ("devices", "sketches", "records"))
    return ["secret" if number is None else f"{number:,}" for number in numbers]
