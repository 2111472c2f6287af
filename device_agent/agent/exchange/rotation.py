"""Key change: offer the next key to the server until it is known which key it takes."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from sfumato.device_agent.agent.device import Clock, Device, connect, open_device
from sfumato.device_agent.agent.exchange.comparison import note_answer
from sfumato.device_agent.agent.exchange.earlier_keys import (
    make_device_question,
    make_key_offer,
    make_presenting,
)
from sfumato.device_agent.agent.exchange.network import Link, catch
from sfumato.device_agent.agent.exchange.polling import draw_pause
from sfumato.device_agent.server.transport import ServerClient
from sfumato.device_agent.settings.agent_settings import Settings
from sfumato.device_agent.store.database import check_folder
from sfumato.device_agent.store.key import key_folder
from sfumato.device_agent.store.key_change import (
    abandon_key_change,
    begin_key_change,
    finish_key_change,
    list_signed,
    load_retired,
)
from sfumato.device_agent.store.outbox import count_sketches
from sfumato.device_agent.store.repair import holding
from sfumato.device_agent.store.streams import list_streams, load_stream
from sfumato.shared.errors import SketchError, StoreError, TransportError

_CAP_S = 300.0
_REFUSED_S = 60.0


@dataclass(frozen=True, kw_only=True)
class Settled:
    """The key that the server takes: the next one, or the present one because of ``refusal``."""

    refusal: SketchError | None = None

    def describe(self) -> str:
        """Describe the end of a key change that was begun earlier."""
        if self.refusal is None:
            return "a change of keys that was begun is finished; the device signs with its new key"
        return f"the server does not take the new key, so the device keeps its own: {self.refusal}"


@dataclass(frozen=True, kw_only=True)
class RotationReport:
    """A key change that the server has taken.

    Parameters
    ----------
    device, key_id, old_key_id
        The identity, which stays; the SHA-256 of the present key and of its predecessor.
    was_begun
        Whether an earlier attempt had begun it.
    n_waiting
        Unsent sketches, which the old key has signed.
    messages
        Further messages for the owner.
    """

    device: bytes
    key_id: bytes
    old_key_id: bytes
    was_begun: bool
    n_waiting: int
    messages: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """Return JSON values."""
        return {
            "device_id": self.device.hex(),
            "key_id": self.key_id.hex(),
            "old_key_id": self.old_key_id.hex(),
            "was_begun": self.was_begun,
            "waiting": self.n_waiting,
            "messages": list(self.messages),
        }


class KeyChanger:
    """Offers the next key until the server says which key it takes.

    Nothing may be sent while a change is open: with the wrong key it would be refused for good.

    Parameters
    ----------
    on_settled
        Called with the device and its new key.
    on_silence
        Called when the server does not answer.
    """

    def __init__(
        self,
        link: Link,
        *,
        on_settled: Callable[[Device], None],
        on_silence: Callable[[TransportError], None],
    ) -> None:
        self.is_offering = False
        """True if an answer is outstanding: what was signed meanwhile would be refused."""
        self._link = link
        self._on_settled = on_settled
        self._on_silence = on_silence
        self._n_failures = 0
        self._offers_at = 0.0

    def step(self) -> bool:
        """Offer the key if it is time; return whether the change is still open."""
        link = self._link
        if link.device.next_key is None:
            return False
        if link.timer() >= self._offers_at and not link.network.is_busy:
            self.is_offering = True
            link.network.submit(catch(_make_offer(link.device, link.clock)), self._note)
        return link.device.next_key is not None

    def _note(self, answer: Settled | SketchError) -> None:
        self.is_offering = False
        match answer:
            case Settled():
                self._settle(answer)
            case TransportError():
                self._wait(
                    f"a change of keys is not finished, so nothing is sent: {answer}",
                    draw_pause(self._n_failures, _CAP_S),
                )
                self._on_silence(answer)
            case _:
                if not self._link.is_patient:
                    raise answer
                self._wait(f"the server refuses this device with either key: {answer}", _REFUSED_S)

    def _settle(self, settled: Settled) -> None:
        try:
            device = _settle(self._link.device, settled)
        except StoreError as error:
            if not self._link.is_patient:
                raise
            self._wait(str(error), draw_pause(self._n_failures, _CAP_S))
            return
        self._link.report(logging.WARNING, settled.describe(), "")
        self._on_settled(device)

    def _wait(self, problem: str, pause: float) -> None:
        if self._n_failures == 0:
            self._link.report(logging.WARNING, problem, "")
        self._n_failures += 1
        self._offers_at = self._link.timer() + 1.0 + pause


def rotate_key(settings: Settings, *, clock: Clock) -> RotationReport:
    """Give the device another key, or finish a change that was begun.

    The next key is on the disk, and noted, before it is offered; offering it again is harmless.

    Raises
    ------
    TransportError
        The server did not answer. A change that was begun waits, and so does the outbox.
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
        device = _settle(device, settled)
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


def _make_offer(device: Device, clock: Clock) -> Callable[[ServerClient], Settled]:
    """Return a request that offers the next key; for any thread, while nothing else is signed.

    It raises ``TransportError`` if it cannot be known now which key the server takes, and the
    server's error if it takes neither.
    """
    next_key, identity, settings = device.next_key, device.identity, device.settings
    assert next_key is not None
    offer = make_key_offer(identity.device, next_key, list_signed(device.connection))
    present = make_presenting(device)

    def request(client: ServerClient) -> Settled:
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

    return request


def _settle(device: Device, settled: Settled) -> Device:
    """Apply the answer to an offer; return the device with the key that is taken."""
    folder, keys = _key_folder(device), device.identity.keys
    assert device.next_key is not None
    is_taken = settled.refusal is None
    change = finish_key_change if is_taken else abandon_key_change
    identity = replace(device.identity, keys=change(device.connection, folder, keys))
    key = device.next_key if is_taken else device.key
    retired = load_retired(folder, identity.keys)
    return replace(device, identity=identity, key=key, next_key=None, retired=retired)


def _offer(device: Device, clock: Clock) -> Settled:
    with device.connect(clock) as client:
        return _make_offer(device, clock)(client)


def _begin(device: Device, clock: Clock, messages: list[str]) -> Device:
    # A clone must not lock out the device that it was made of.
    for name in list_streams(device.connection):
        load_stream(device.connection, name).require_not_suspended()
    with device.connect(clock) as client:
        answer = make_device_question(device)(client)
        note_answer(device, answer, messages, now=clock())
    folder, identity = _key_folder(device), device.identity
    keys, next_key = begin_key_change(device.connection, folder, identity.keys)
    return replace(device, identity=replace(identity, keys=keys), next_key=next_key)


def _key_folder(device: Device) -> Path:
    return key_folder(device.settings.state_dir, device.identity.study)


def _is_taken(client: ServerClient) -> bool:
    try:
        client.fetch_device()
    except TransportError:
        raise
    except SketchError:
        return False
    return True
