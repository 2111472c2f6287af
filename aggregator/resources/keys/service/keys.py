"""API keys: shown once, stored as hashes."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Sequence
from hmac import compare_digest

from sfumato.aggregator.base.rates import RateLimit
from sfumato.aggregator.resources.keys.record import LOCAL_ACTOR, KeyRecord, KeyScope
from sfumato.aggregator.resources.keys.service.audit import write_entry
from sfumato.aggregator.resources.keys.store import drop_signed_in
from sfumato.aggregator.resources.parts import Parts, Service
from sfumato.aggregator.resources.plans import require_study
from sfumato.shared.errors import AccessError, ConfigError, ForbiddenError, NotFoundError
from sfumato.shared.wire import API_KEY
from sfumato.shared.wire.objects.declaration import maybe_rfc3339, to_rfc3339

KEY_PREFIX = "sfk_"
_KEY_BYTES = 32
_ID_BYTES = 8
_USE_PERIOD_S = 60.0
_LONGEST_YEARS = 10
_YEAR_S = 366 * 86400.0
_KEPT_S = 30 * 86400.0
"""Seconds for which the key of a person stays in the list after it has expired."""
_GRANTS: dict[KeyScope, tuple[KeyScope, ...]] = {
    "operator": ("operator", "analyst", "viewer", "enrol"),
    "analyst": ("analyst", "viewer"),
    "viewer": ("viewer",),
    "enrol": ("enrol",),
}


def hash_secret(secret: str) -> bytes:
    """Return the SHA-256 of a key or token; random secrets need neither salt nor stretching."""
    return hashlib.sha256(secret.encode()).digest()


class KeyService(Service):
    """Creates, checks, lists and revokes keys."""

    def __init__(self, parts: Parts) -> None:
        super().__init__(parts)
        self._rate = RateLimit(
            per_second=parts.settings.key_rate,
            burst=parts.settings.key_burst,
            what="Authorization",
        )

    async def create(
        self,
        *,
        name: str,
        scope: KeyScope,
        study_id: bytes | None = None,
        expires: float | None = None,
        subject: str | None = None,
        actor: str = LOCAL_ACTOR,
    ) -> tuple[str, KeyRecord]:
        """Create a key; return its secret, which is shown once, and the key.

        ``subject`` is that of the person who signs in.

        Raises
        ------
        ConfigError
            It would expire in the past, or in more than ten years.
        NotFoundError, StudyWithdrawnError
            There is no such study, or it was withdrawn.
        """
        key_id = secrets.token_hex(_ID_BYTES)
        secret = f"{KEY_PREFIX}{key_id}_{secrets.token_urlsafe(_KEY_BYTES)}"
        now = self._clock.now()
        if expires is not None and not now < expires <= now + _LONGEST_YEARS * _YEAR_S:
            raise ConfigError(
                f"must be in the future, and at most {_LONGEST_YEARS} years from now; it is now "
                f"{to_rfc3339(now)} on the server",
                field="expires",
                fix="choose a time between, or leave it out for a key that does not expire",
            )
        record = KeyRecord(
            key_id=key_id,
            key_hash=hash_secret(secret),
            name=name,
            scope=scope,
            created=now,
            study_id=study_id,
            expires=expires,
            subject=subject,
        )
        about = {
            "name": name,
            "scope": scope,
            "study_id": None if study_id is None else study_id.hex(),
            "expires": maybe_rfc3339(expires),
        }
        if subject is not None:
            about["subject"] = subject
        async with self._store.begin(write=True) as transaction:
            if study_id is not None:
                await require_study(transaction, study_id)
            await transaction.add(record)
            await drop_signed_in(transaction, before=now - _KEPT_S)
            await write_entry(transaction, now, actor, "key.create", key_id, **about)
        return secret, record

    async def require(self, secret: str | None, scope: KeyScope) -> KeyRecord:
        """Return the key of a request; the scope ``operator`` includes all others.

        Raises
        ------
        AccessError
            It is missing, unknown, revoked or expired.
        ForbiddenError
            Its scope is insufficient.
        OverloadedError
            It exceeds its rate.
        """
        if not secret:
            raise AccessError(
                "is missing",
                field="Authorization",
                fix="send `Authorization: Bearer sfk_...`; `sfumato key create` makes a key",
            )
        key = self._require_in_use(await self._find(secret))
        self._rate.spend(key.subject or key.key_id)
        self._note_use(key)
        require_scope(key, scope)
        return key

    async def require_monitor(self, secret: str | None) -> KeyRecord | None:
        """Require the key of metrics, which needs no database, or an operator's, and return this.

        Raises
        ------
        AccessError, ForbiddenError, OverloadedError
            As :meth:`require`.
        """
        own = self._settings.metrics_key
        if own and secret and compare_digest(hash_secret(secret), hash_secret(own)):
            return None
        return await self.require(secret, "operator")

    async def require_still(self, key: KeyRecord) -> None:
        """Check again, during a streamed answer, that a key is in use.

        Raises
        ------
        AccessError
            It was revoked, or has expired.
        """
        async with self._store.begin() as transaction:
            self._require_in_use(await transaction.get(KeyRecord, key.key_id))

    async def _find(self, secret: str) -> KeyRecord | None:
        """Look a key up by the hash of its secret.

        A wrong secret and an unknown key are one case and take equally long, so timing reveals only
        the hash of a guess.
        """
        if API_KEY.fullmatch(secret) is None:
            return None
        async with self._store.begin() as transaction:
            return await transaction.find(KeyRecord, key_hash=hash_secret(secret))

    def _require_in_use(self, key: KeyRecord | None) -> KeyRecord:
        if key is None or key.revoked is not None:
            raise AccessError(
                "carries a key that is unknown or revoked",
                field="Authorization",
                fix="ask the operator for a key; `sfumato key create` makes one",
            )
        if key.expires is not None and key.expires <= self._clock.now():
            raise AccessError(
                f"carries a key that expired at {to_rfc3339(key.expires)}",
                field="Authorization",
                fix="ask the operator for a new key; `sfumato key create` makes one"
                if key.subject is None
                else "sign in again",
            )
        return key

    def _note_use(self, key: KeyRecord) -> None:
        now = self._clock.now()
        if key.last_used is None or now - key.last_used >= _USE_PERIOD_S:
            self._tallies.note_use(key.key_id, now)

    async def list_all(self) -> Sequence[KeyRecord]:
        """Return all keys, including revoked ones."""
        await self._tallies.flush()
        async with self._store.begin() as transaction:
            return await transaction.list_all(KeyRecord)

    async def revoke(self, key_id: str, *, actor: str = LOCAL_ACTOR) -> KeyRecord:
        """Revoke a key, at once and for good.

        Raises
        ------
        NotFoundError
            No key in use has this identity.
        """
        now = self._clock.now()
        async with self._store.begin(write=True) as transaction:
            if not await transaction.revoke(KeyRecord, key_id, now=now):
                raise NotFoundError(
                    "is not a key in use", field="key_id", fix="see `sfumato key list`"
                )
            await write_entry(transaction, now, actor, "key.revoke", key_id)
            revoked = await transaction.get(KeyRecord, key_id)
        assert revoked is not None, "it was revoked in this transaction"
        return revoked


def is_granted(key: KeyRecord, scope: KeyScope) -> bool:
    """Return whether a key may do what a scope may."""
    return scope in _GRANTS[key.scope]


def require_scope(key: KeyRecord, scope: KeyScope) -> None:
    """Refuse a key of an insufficient scope.

    Raises
    ------
    ForbiddenError
        Its scope is insufficient.
    """
    if not is_granted(key, scope):
        raise ForbiddenError(
            f"must carry a key of scope {scope}, and this one has {key.scope}",
            field="Authorization",
            fix=f"use a key made with `sfumato key create --scope {scope}`",
        )
