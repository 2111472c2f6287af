"""Pull the study's published result, and trust it by the server's pinned key.

The request is the same from every device and at times that no record decides, so the server learns
nothing by it. A server that lies can give wrong labels; it cannot learn a record.

The key is pinned when the device enrols: then its owner decides to trust this server. A setting of
the owner takes precedence, and a device that enrolled before pins at its first pull.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

from sfumato.device_agent.agent.device import Clock, connect
from sfumato.device_agent.agent.exchange.network import Link, catch
from sfumato.device_agent.agent.policy import require_server_allowed
from sfumato.device_agent.agent.trusted import TrustedResult, require_ours
from sfumato.device_agent.server.messages import IdentityAnswer
from sfumato.device_agent.server.transport import ServerClient
from sfumato.device_agent.settings.agent_settings import Settings
from sfumato.device_agent.store.database import check_folder, open_database
from sfumato.device_agent.store.identity import Identity, require_identity
from sfumato.device_agent.store.key import key_folder
from sfumato.device_agent.store.key_change import load_keys
from sfumato.device_agent.store.published import (
    StoredResult,
    load_stored,
    locking_result,
    save_stored,
)
from sfumato.shared.errors import (
    ConfigError,
    NotFoundError,
    SignatureError,
    SketchError,
    StaleVersionError,
    TransportError,
)
from sfumato.shared.wire import (
    SignedResult,
    compute_key_id,
    decode_published,
    require_public_key,
    verify_endorsement,
)

_PULL_S = 3600.0
_RETRY_S = 300.0


@dataclass(frozen=True, kw_only=True)
class PullReport:
    """Result of a pull.

    Parameters
    ----------
    is_new
        Whether another result was stored.
    public_key
        The key that is trusted from now on.
    pinned
        ``first`` if it was pinned now for want of another, ``followed`` if the key before it named
        it, ``told`` if the owner gave it; empty if it was trusted before.
    """

    trusted: TrustedResult
    is_new: bool
    public_key: bytes
    pinned: str


def pull_result(settings: Settings, *, clock: Clock, trust: bytes | None = None) -> PullReport:
    """Pull the published result and store it.

    Parameters
    ----------
    trust
        A public key that the owner pins from now on, whatever was pinned before.

    Raises
    ------
    ConfigError
        The device has not enrolled, or the key is none.
    NotFoundError
        The study has no published result.
    SignatureError, PlanMismatchError, MalformedMessageError
        It is not signed by the trusted key, of another study or plan, or damaged.
    StaleVersionError
        It is older than the stored one.
    TransportError
        The server did not answer.
    """
    require_server_allowed(settings)
    check_folder(settings.state_dir, create=False)
    with closing(open_database(settings.state_dir, settings.study)) as connection:
        identity = require_identity(connection, settings.state_dir)
        key, _ = load_keys(key_folder(settings.state_dir, settings.study), identity)
    if trust is not None:
        _pin(settings, trust)
    with connect(settings, identity.device, key, clock) as client:
        return _pull(client, settings, identity, now=clock(), told=trust is not None)


def pin_at_enrolment(client: ServerClient, settings: Settings) -> None:
    """Pin the server's result key, if none is pinned; a server without one changes nothing."""
    folder = key_folder(settings.state_dir, settings.study)
    if settings.results.key is not None or load_stored(folder).public_key is not None:
        return
    try:
        present = client.fetch_identity().present
    except SketchError:
        return  # the first pull pins it
    with locking_result(folder):
        stored = load_stored(folder)
        if stored.public_key is None:
            save_stored(folder, replace(stored, public_key=present))


def carry_pin(before: Settings, settings: Settings) -> None:
    """Trust the key of the phase before in the next one: its owner decided that once.

    Raises
    ------
    StoreError
        It cannot be written.
    """
    pinned = load_stored(key_folder(before.state_dir, before.study)).public_key
    folder = key_folder(settings.state_dir, settings.study)
    with locking_result(folder):
        stored = load_stored(folder)
        if stored.public_key is None and pinned is not None:
            save_stored(folder, replace(stored, public_key=pinned))


class ResultPuller:
    """Pulls now and then, at times that no record decides; a failure is reported once."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._pulls_at = 0.0
        self._problem = ""

    def step(self) -> None:
        """Pull if it is time, the owner wants it, and nothing else is asked."""
        device = self._link.device
        is_due = device.settings.results.pull and self._link.timer() >= self._pulls_at
        if not is_due or self._link.network.is_busy:
            return
        self._pulls_at = self._link.timer() + _PULL_S
        self._link.network.submit(
            catch(_make_pull(device.settings, device.identity, self._link.clock)), self._note
        )

    def _note(self, answer: PullReport | SketchError) -> None:
        if isinstance(answer, PullReport):
            self._problem = ""
            if answer.is_new:
                text = f"pulled published result {answer.trusted.result.sequence}"
                self._link.report(logging.INFO, text, "")
            return
        self._pulls_at = self._link.timer() + _RETRY_S
        # A study without a publication, and a server that is away, are nobody's fault.
        if isinstance(answer, NotFoundError | TransportError) or str(answer) == self._problem:
            return
        self._problem = str(answer)
        self._link.report(logging.WARNING, f"the published result is not used: {answer}", "")


def _make_pull(
    settings: Settings, identity: Identity, clock: Clock
) -> Callable[[ServerClient], PullReport]:
    return lambda client: _pull(client, settings, identity, now=clock(), told=False)


def _pull(
    client: ServerClient, settings: Settings, identity: Identity, *, now: float, told: bool
) -> PullReport:
    folder = key_folder(settings.state_dir, settings.study)
    try:
        document = client.fetch_published(settings.study)
    except TransportError as error:
        if load_stored(folder).document is not None:
            error.fix = f"{error.fix or 'try again later'}; the stored result goes on being used"
        raise
    signed = decode_published(document)
    require_ours(signed.result, identity)
    pinned = settings.results.key or load_stored(folder).public_key
    how = "told" if told else ""
    if pinned is None:
        pinned, how = client.fetch_identity().present, "first"
    if compute_key_id(pinned) != signed.key_id:
        successor = _follow(pinned, signed, client.fetch_identity())
        pinned, how = successor, "followed"
    signed.verify(pinned)
    is_new = _store(folder, signed, document, public_key=pinned, now=now)
    trusted = TrustedResult(result=signed.result, pulled_at=now)
    return PullReport(trusted=trusted, is_new=is_new, public_key=pinned, pinned=how)


def _store(
    folder: Path, signed: SignedResult, document: bytes, *, public_key: bytes, now: float
) -> bool:
    """Store a document that was verified; return whether it is another one."""
    with locking_result(folder):
        before = load_stored(folder).document
        if before is not None and before != document:
            last = decode_published(before).result.sequence
            if signed.result.sequence <= last:
                raise StaleVersionError(
                    f"has number {signed.result.sequence}, and this device has {last} already",
                    field="published result",
                    fix="ask the study's operator to publish again; the stored result goes on "
                    "being used",
                )
        save_stored(
            folder,
            StoredResult(
                public_key=public_key, document=document, signed_by=public_key, pulled_at=now
            ),
        )
    return before != document


def _follow(pinned: bytes, signed: SignedResult, answer: IdentityAnswer) -> bytes:
    """Return the key that signed, if a chain of endorsements leads to it from the pinned one."""
    present = pinned
    for public_key, endorsement in answer.find_after(pinned):
        if endorsement is None:
            break
        verify_endorsement(present, successor=public_key, signature=endorsement)
        present = public_key
        if compute_key_id(present) == signed.key_id:
            return present
    raise SignatureError(
        f"of the published result is that of key {signed.key_id.hex()[:16]}..., and this device "
        f"trusts {compute_key_id(pinned).hex()[:16]}..., which does not name it as its successor",
        field="signature",
        fix="ask the study's operator for the key that `sfumato identity show` shows, and run "
        "`sfumato-agent pull --trust KEY` if it is right",
    )


def _pin(settings: Settings, public_key: bytes) -> None:
    require_public_key(public_key)
    if settings.results.key not in (None, public_key):
        raise ConfigError(
            "cannot differ from the key in the configuration",
            field="--trust",
            fix="change or remove [results] key",
        )
    folder = key_folder(settings.state_dir, settings.study)
    with locking_result(folder):
        save_stored(folder, replace(load_stored(folder), public_key=public_key))
