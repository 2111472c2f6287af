"""API keys: shown once, stored as hashes."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Sequence

from aggregator.ports import Clock, KeyRecord, Store
from aggregator.ports.records import KeyScope
from shared.errors import AccessError, NotFoundError

KEY_PREFIX = "sfk_"
_KEY_BYTES = 32


def hash_secret(secret: str) -> bytes:
    """Return the SHA-256 of a key or token; it is random, so neither salt nor stretching helps."""
    return hashlib.sha256(secret.encode()).digest()


class KeyService:
    """Creates, checks, lists and revokes keys."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    async def create(self, *, name: str, scope: KeyScope) -> tuple[str, KeyRecord]:
        """Create a key; the first part of the answer is the only time that it is seen."""
        secret = KEY_PREFIX + secrets.token_urlsafe(_KEY_BYTES)
        record = KeyRecord(
            key_id=secrets.token_hex(8),
            key_hash=hash_secret(secret),
            name=name,
            scope=scope,
            created=self._clock.now(),
        )
        async with self._store.begin(write=True) as transaction:
            await transaction.add_key(record)
        return secret, record

    async def require(self, secret: str | None, scope: KeyScope) -> KeyRecord:
        """Return the key that a request carries; an operator's may do all that an analyst's may.

        Raises
        ------
        AccessError
            It is missing, unknown or revoked, or its scope does not suffice.
        """
        if not secret:
            raise AccessError(
                "is missing",
                field="Authorization",
                fix="send `Authorization: Bearer sfk_...`; `sfumato key create` makes a key",
            )
        async with self._store.begin() as transaction:
            key = await transaction.find_key(hash_secret(secret))
        if key is None or key.revoked is not None:
            raise AccessError(
                "carries a key that is unknown or revoked",
                field="Authorization",
                fix="ask the operator for a key; `sfumato key create` makes one",
            )
        if key.scope not in (scope, "operator"):
            raise AccessError(
                f"carries a key of scope {key.scope}, and this needs {scope}",
                field="Authorization",
                fix=f"use a key made with `sfumato key create --scope {scope}`",
            )
        return key

    async def list_all(self) -> Sequence[KeyRecord]:
        """Return all keys, revoked ones too."""
        async with self._store.begin() as transaction:
            return await transaction.list_keys()

    async def revoke(self, key_id: str) -> None:
        """Revoke a key.

        Raises
        ------
        NotFoundError
            No key in use has this identity.
        """
        async with self._store.begin(write=True) as transaction:
            if not await transaction.revoke_key(key_id, now=self._clock.now()):
                raise NotFoundError(
                    "is not a key in use", field="key_id", fix="see `sfumato key list`"
                )
