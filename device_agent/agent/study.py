"""The study's life cycle as the device follows it, and what the device says of itself.

Both depend on clocks and settings alone: neither tells anything about records.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime

from device_agent.agent.device import Device
from device_agent.agent.presenting import make_device_question
from device_agent.server.messages import DeviceAnswer, StudyAnswer
from device_agent.server.transport import ServerClient
from device_agent.store import StudyNotice, count_sketches, save_notice
from shared import __version__
from shared.errors import SketchError, StoreError, StudyWithdrawnError, TransportError
from shared.wire.bodies.devices import HeartbeatRequest

WITHDRAWN = StudyNotice(state="withdrawn")


@dataclass(frozen=True, kw_only=True)
class ServerAnswer:
    """The server's knowledge of the device, and news of the study; None if there is none."""

    device: DeviceAnswer
    notice: StudyNotice | None


def make_question(
    device: Device, notice: StudyNotice
) -> Callable[[ServerClient], ServerAnswer | StudyNotice]:
    """Return what asks about device and study and says how the device is; for any thread.

    A study that was withdrawn is an answer; every other refusal is raised.
    """
    study = device.identity.study
    heartbeat, ask_device = make_heartbeat(device), make_device_question(device)

    def ask(client: ServerClient) -> ServerAnswer | StudyNotice:
        try:
            found = ask_device(client)
            new = _ask_study(client, study, notice)
            _tell(client, heartbeat)
        except StudyWithdrawnError:
            return WITHDRAWN
        return ServerAnswer(device=found, notice=new)

    return ask


def make_heartbeat(device: Device) -> HeartbeatRequest:
    """Return what the device says of itself now."""
    return HeartbeatRequest(
        agent=__version__,
        engine=device.settings.engine.name,
        waiting_sketches=count_sketches(device.connection).waiting,
    )


def note_notice(device: Device, notice: StudyNotice | None, before: StudyNotice) -> StudyNotice:
    """Keep what is new of the study, and return what is known of it now."""
    if notice is None or notice == before:
        return before
    # On a full disk it is not kept: the next start asks again with the ETag of before.
    with suppress(StoreError):
        save_notice(device.connection, notice)
    return notice


def _ask_study(client: ServerClient, study: bytes, before: StudyNotice) -> StudyNotice | None:
    try:
        answer = client.ask_study(study, before.etag)
    except (StudyWithdrawnError, TransportError):
        raise
    except SketchError:
        # A server of before says nothing of it to devices.
        return None
    return None if answer is None else _read_notice(answer)


def _read_notice(answer: StudyAnswer) -> StudyNotice:
    until = None
    if answer.accept_until is not None:
        until = datetime.fromisoformat(answer.accept_until).timestamp()
    return StudyNotice(state=answer.state, accept_until=until, etag=answer.etag)


def _tell(client: ServerClient, heartbeat: HeartbeatRequest) -> None:
    """Send the heartbeat; that it was not heard changes nothing."""
    try:
        client.put_heartbeat(heartbeat)
    except StudyWithdrawnError:
        raise
    except SketchError:
        pass
