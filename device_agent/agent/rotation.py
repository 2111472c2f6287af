"""Changing the key of a device: offered to the server until it is known which key it takes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from device_agent.agent.comparing import note_answer
from device_agent.agent.device import Clock, Device, connect, open_device
from device_agent.agent.presenting import make_device_question, make_key_offer, make_presenting
from device_agent.agent.reading import require_not_suspended
from device_agent.server.transport import ServerClient
from device_agent.settings.agent_settings import Settings
from device_agent.store import (
    abandon_key_change,
    begin_key_change,
    check_folder,
    count_sketches,
    finish_key_change,
    holding,
    key_folder,
    list_signed,
    list_streams,
    load_retired,
    load_stream,
)
from shared.errors import SketchError, StoreError, TransportError


@dataclass(frozen=True, kw_only=True)
class Settled:
    """Which key the server takes: the next one, or the present one, with why ``refusal`` says."""

    refusal: SketchError | None = None

    def describe(self) -> str:
        """Describe how a change of keys that was begun earlier has ended."""
        if self.refusal is None:
            return "a change of keys that was begun is finished; the device signs with its new key"
        return f"the server does not take the new key, so the device keeps its own: {self.refusal}"


@dataclass(frozen=True, kw_only=True)
class RotationReport:
    """A change of keys that the server has taken.

    Parameters
    ----------
    device, key_id, old_key_id
        The identity, which stays; the SHA-256 of the present key, and of the one before.
    was_begun
        Whether an earlier attempt had begun it.
    n_waiting
        Sketches that were not sent yet; the old key has signed them.
    messages
        What else the owner should know.
    """

    device: bytes
    key_id: bytes
    old_key_id: bytes
    was_begun: bool
    n_waiting: int
    messages: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {
            "device_id": self.device.hex(),
            "key_id": self.key_id.hex(),
            "old_key_id": self.old_key_id.hex(),
            "was_begun": self.was_begun,
            "waiting": self.n_waiting,
            "messages": list(self.messages),
        }


def rotate_key(settings: Settings, *, clock: Clock) -> RotationReport:
    """Give the device another key, or finish a change that was begun.

    The next key is on the disk, and noted, before the server hears of it; asking again is harmless.

    Raises
    ------
    TransportError
        The server did not answer. Where a change was begun it waits, and so does the outbox.
    LedgerError
        Another agent is at work, or the server knows more than this ledger.
    SketchError
        The server does not take the key; the device keeps the one it has.
    """
    check_folder(settings.state_dir, create=False)
    with holding(settings.state_dir) as mended, open_device(settings) as before:
        messages, was_begun = [*mended], before.next_key is not None
        device = before if was_begun else _begin(before, clock, messages)
        try:
            settled = _offer(device, clock)
        except TransportError as error:
            raise TransportError(
                f"{error.rule}. The change of keys was begun, and nothing is sent until it is "
                "known which key the server takes",
                field=error.field,
                fix="run `sfumato-agent rotate-key` again; `once` and `run` finish it too",
            ) from error
        device = settle(device, settled)
        if settled.refusal is not None:
            raise settled.refusal
        return RotationReport(
            device=device.identity.device,
            key_id=device.key.key_id,
            old_key_id=before.key.key_id,
            was_begun=was_begun,
            n_waiting=count_sketches(device.connection).waiting,
            messages=tuple(messages),
        )


def finish_rotation(device: Device, clock: Clock, messages: list[str]) -> Device:
    """Finish a change of keys that was begun; the device as it is if the server does not answer.

    Nothing may be sent while it is open: with the wrong key it would be refused for good.

    Raises
    ------
    SketchError
        The server refuses both keys.
    """
    if device.next_key is None:
        return device
    try:
        settled = _offer(device, clock)
    except TransportError as error:
        messages.append(describe_open(error))
        return device
    messages.append(settled.describe())
    return settle(device, settled)


def make_offer(device: Device, clock: Clock) -> Callable[[ServerClient], Settled]:
    """Return what offers the next key; for any thread, while nothing else is signed.

    It raises ``TransportError`` where it cannot be known now which key the server takes, and what
    the server says if it takes neither.
    """
    next_key, identity, settings = device.next_key, device.identity, device.settings
    assert next_key is not None
    offer = make_key_offer(identity.device, next_key, list_signed(device.connection))
    present = make_presenting(device)

    def ask(client: ServerClient) -> Settled:
        is_present = _is_taken(client) or present(client)
        try:
            client.change_key(offer)
        except TransportError:
            raise
        except SketchError as error:
            if is_present and isinstance(error, StoreError) and error.field == "public_key":
                # An earlier request of ours is under way there, and may still succeed.
                raise TransportError(error.rule, field=error.field, fix=error.fix) from error
            if is_present:
                return Settled(refusal=error)
            # It was taken before, and the old key may be revoked since.
            with connect(settings, identity.device, next_key, clock) as successor:
                if not _is_taken(successor):
                    raise
        return Settled()

    return ask


def settle(device: Device, settled: Settled) -> Device:
    """Do what the answer to an offer says; return the device with the key that is taken.

    Raises
    ------
    StoreError
        It cannot be written; the same answer comes again.
    """
    folder, keys = _key_folder(device), device.identity.keys
    assert device.next_key is not None
    is_taken = settled.refusal is None
    change = finish_key_change if is_taken else abandon_key_change
    identity = replace(device.identity, keys=change(device.connection, folder, keys))
    key = device.next_key if is_taken else device.key
    retired = load_retired(folder, identity.keys)
    return replace(device, identity=identity, key=key, next_key=None, retired=retired)


def describe_open(error: TransportError) -> str:
    """Describe a change of keys that is still open."""
    return f"a change of keys is not finished, so nothing is sent: {error}"


def _offer(device: Device, clock: Clock) -> Settled:
    with device.connect(clock) as client:
        return make_offer(device, clock)(client)


def _begin(device: Device, clock: Clock, messages: list[str]) -> Device:
    # A clone must not lock out the device that it was made of.
    for name in list_streams(device.connection):
        require_not_suspended(load_stream(device.connection, name))
    with device.connect(clock) as client:
        answer = make_device_question(device)(client)
        note_answer(device, answer, messages, now=clock())
    folder, identity = _key_folder(device), device.identity
    keys, next_key = begin_key_change(device.connection, folder, identity.keys)
    return replace(device, identity=replace(identity, keys=keys), next_key=next_key)


def _key_folder(device: Device) -> Path:
    return key_folder(device.settings.state_dir, device.identity.study)


def _is_taken(client: ServerClient) -> bool:
    """Return whether the server takes requests of this client's key now."""
    try:
        client.ask_device()
    except TransportError:
        raise
    except SketchError:
        return False
    return True
