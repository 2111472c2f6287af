"""``sfumato device``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import typer

from sfumato.analyst.cli.analyses import show_health
from sfumato.analyst.cli.options import Answer, command, identified, list_items, show_time, tabulate
from sfumato.analyst.client import Client
from sfumato.shared.command import SETTINGS
from sfumato.shared.wire.objects.studies import DeviceBody, DeviceDetailsBody

app = typer.Typer(help="List devices, and exclude or revoke one.", **SETTINGS)
Device = Annotated[str, identified("device")]
Reason = Annotated[str, typer.Option(help="Kept with the device and in the audit log.")]


@command(app, "list", "sfumato device list", "sfumato device list STUDY --json")
def _list(
    client: Client,
    study: Annotated[
        str | None, typer.Argument(metavar="STUDY", help="Only the devices of this study.")
    ] = None,
) -> Answer:
    """List devices with name, labels, state, time last seen and waiting sketches."""
    columns = ("name", "labels", "state", "last seen", "sketches", "waiting", "agent")
    return list_items(client.devices(study), *columns, identity="device", row=_describe)


command(app, "health", "sfumato device health STUDY -k 5")(show_health)


@command(app, "show", "sfumato device show DEVICE")
def _show(client: Client, device_id: Device) -> Answer:
    """Show a device with its streams, its keys and its last report."""
    device = client.device(device_id)
    yield device
    yield tabulate(_describe_all(device))


@command(app, "exclude", 'sfumato device exclude DEVICE --reason "sensor was tampered with"')
def _exclude(client: Client, device_id: Device, reason: Reason) -> Answer:
    """Subtract all sketches of a device from every sum, in later phases too; refuse new ones."""
    done = client.exclude_device(device_id, reason=reason)
    yield done
    yield f"device {done.device_id} is excluded; {done.n_subtracted} sketch(es) were subtracted"
    if done.later:
        yield f"so it is in {len(done.later)} later phase(s) of its campaign"
    if done.n_kept:
        yield f"{done.n_kept} stay in the sums: their bytes were dropped before"


@command(app, "revoke", "sfumato device revoke DEVICE --reason stolen")
def _revoke(
    client: Client,
    device_id: Device,
    reason: Reason,
    key_id: Annotated[
        str | None, typer.Option(help="Revoke only this key, which the device has replaced.")
    ] = None,
) -> Answer:
    """Revoke a device, or one of its keys, for good. Its sketches stay in the sums."""
    device = client.revoke_device(device_id, reason=reason, key_id=key_id)
    yield device
    yield tabulate(_describe_all(device))


def _describe(device: DeviceBody) -> tuple[str, ...]:
    beat = device.heartbeat
    waiting, agent = ("", "") if beat is None else (str(beat.waiting_sketches), beat.agent)
    seen, n_sketches = show_time(device.last_seen), str(device.n_sketches)
    state = f"{device.state}, may repeat others" if device.may_repeat else device.state
    labels = ", ".join(f"{name}={value}" for name, value in device.labels.items())
    return device.name or "", labels, state, seen, n_sketches, waiting, agent, device.device_id


def _describe_all(device: DeviceDetailsBody) -> Iterator[tuple[str, str]]:
    yield "device", device.device_id
    if device.name:
        yield "name", device.name
    yield "state", device.state
    if device.reason:
        yield "because", device.reason
    if device.replaces:
        yield "replaces", device.replaces
    for other in device.may_repeat:
        yield (
            "warning",
            f"may hold the same records as {other}, which was silent before it enrolled",
        )
    yield "study", device.study_id
    yield "enrolled", show_time(device.enrolled)
    yield "last seen", show_time(device.last_seen)
    for name, value in device.labels.items():
        yield "label", f"{name} = {value}"
    for stream in device.streams:
        yield "stream", f"{stream.stream}; last sequence number {stream.last_sequence}"
    if beat := device.heartbeat:
        yield "agent", f"version {beat.agent}, engine {beat.engine}"
        waiting, time = beat.waiting_sketches, show_time(beat.received)
        yield "waiting", f"{waiting} sketch(es) at {time}"
        for refusal in beat.plan_refusals:
            yield "refused", f"the owner refuses the plan: {refusal.rule} {refusal.detail}"
    for key in device.keys:
        yield "key", f"{key.key_id} ({key.state})"
