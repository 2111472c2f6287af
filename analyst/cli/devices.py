"""``sfumato device``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any

import typer

from analyst.cli.options import DEFAULT_URL, Json, Key, Url, print_items
from analyst.client import Client
from shared.command import SETTINGS, list_examples

app = typer.Typer(help="List devices, and exclude or revoke one.", **SETTINGS)
Device = Annotated[str, typer.Argument(metavar="DEVICE", help="Its identity.")]
Reason = Annotated[str, typer.Option(help="Why; kept with the device and in the audit log.")]


@app.command(
    "list", epilog=list_examples("sfumato device list", "sfumato device list STUDY --json")
)
def _list(
    key: Key,
    study: Annotated[
        str | None,
        typer.Argument(metavar="[STUDY]", help="Of this study alone: its name, id, or digits."),
    ] = None,
    url: Url = DEFAULT_URL,
    as_json: Json = False,
) -> None:
    """List devices with state, time last seen and waiting sketches."""
    with Client(url, key=key) as client:
        print_items(
            client.devices(study),
            *("state", "last seen", "sketches", "waiting", "agent"),
            identity="device",
            row=_describe,
            as_json=as_json,
        )


@app.command("show", epilog=list_examples("sfumato device show DEVICE"))
def _show(device_id: Device, key: Key, url: Url = DEFAULT_URL, as_json: Json = False) -> None:
    """Show a device with its streams, its keys and its last report."""
    with Client(url, key=key) as client:
        _print(client.device(device_id), as_json)


@app.command(
    "exclude",
    epilog=list_examples('sfumato device exclude DEVICE --reason "sensor was tampered with"'),
)
def _exclude(
    device_id: Device, key: Key, reason: Reason, url: Url = DEFAULT_URL, as_json: Json = False
) -> None:
    """Subtract all sketches of a device from every sum. Later ones are refused."""
    with Client(url, key=key) as client:
        done = client.exclude_device(device_id, reason=reason)
    if as_json:
        print(json.dumps(done))
        return
    print(f"device {device_id} is excluded; {done['n_subtracted']} sketch(es) were subtracted")
    if done["n_kept"]:
        print(f"{done['n_kept']} stay in the sums: their bytes were dropped before")


@app.command("revoke", epilog=list_examples("sfumato device revoke DEVICE --reason stolen"))
def _revoke(
    device_id: Device,
    key: Key,
    reason: Reason,
    key_id: Annotated[
        str | None, typer.Option(help="Only this key, which the device has replaced.")
    ] = None,
    url: Url = DEFAULT_URL,
    as_json: Json = False,
) -> None:
    """Revoke a device, or one of its keys, for good. Its sketches stay in the sums."""
    with Client(url, key=key) as client:
        _print(client.revoke_device(device_id, reason=reason, key_id=key_id), as_json)


def _describe(device: Mapping[str, Any]) -> tuple[str, ...]:
    beat = device["heartbeat"] or {}
    waiting, agent = str(beat.get("waiting_sketches", "")), beat.get("agent", "")
    seen, n_sketches = device["last_seen"] or "never", str(device["n_sketches"])
    return device["state"], seen, n_sketches, waiting, agent, device["device_id"]


def _print(device: Mapping[str, Any], as_json: bool) -> None:
    if as_json:
        print(json.dumps(device))
        return
    print(f"device {device['device_id']} is {device['state']}; study {device['study_id']}")
    if device["reason"]:
        print(f"  because: {device['reason']}")
    print(f"  enrolled {device['enrolled']}, last seen {device['last_seen'] or 'never'}")
    for name, value in device["labels"].items():
        print(f"  {name} = {value}")
    for stream in device["streams"]:
        print(f"  stream {stream['stream']}: sketch {stream['last_sequence']} was the last")
    if beat := device["heartbeat"]:
        print(
            f"  agent {beat['agent']}, engine {beat['engine']}, "
            f"{beat['waiting_sketches']} sketch(es) waited at {beat['received']}"
        )
        for refusal in beat["plan_refusals"]:
            print(f"  its owner refuses the plan: {refusal['rule']} {refusal['detail']}")
    for item in device["keys"]:
        print(f"  key {item['key_id']} is {item['state']}")
