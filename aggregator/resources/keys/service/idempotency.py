"""Answers by idempotency key: the same request again gets the same answer, and makes nothing.

The database holds the hash of an API key. An answer is sealed by a key that follows from the API
key itself, so that neither the database nor a backup shows the secrets that were answered.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from dataclasses import dataclass

from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from sfumato.aggregator.resources.keys.record import IdempotencyRecord
from sfumato.aggregator.resources.parts import Parts, Service
from sfumato.shared.errors import ConfigError, InProgressError

KEPT_S = 86_400.0
"""Seconds for which an answer is kept at least."""
FIELD = "Idempotency-Key"
_ID_BYTES = 32
_NONCE_BYTES = 12


@dataclass(frozen=True, kw_only=True)
class Claim:
    """A request that is being answered; see :class:`IdempotencyRecord`."""

    request_id: bytes
    sealing_key: bytes
    fingerprint: bytes


class IdempotencyService(Service):
    """Keeps the answers to requests with an idempotency key."""

    def __init__(self, parts: Parts) -> None:
        super().__init__(parts)
        self._claimed: set[bytes] = set()

    def claim(self, secret: str, key: str, request: bytes) -> Claim:
        """Claim an idempotency key until :meth:`release`.

        Parameters
        ----------
        secret
            The API key of the caller.
        request
            What must be the same again: method, address and body.

        Raises
        ------
        InProgressError
            Another request with the key is being answered.
        """
        digest = hmac.digest(secret.encode(), key.encode(), "sha512")
        claim = Claim(
            request_id=digest[:_ID_BYTES],
            sealing_key=digest[_ID_BYTES:],
            fingerprint=hashlib.sha256(request).digest(),
        )
        if claim.request_id in self._claimed:
            raise _in_progress()
        self._claimed.add(claim.request_id)
        return claim

    def release(self, claim: Claim) -> None:
        """End a claim."""
        self._claimed.discard(claim.request_id)

    async def find(self, claim: Claim) -> bytes | None:
        """Return the answer that is kept, if there is one.

        Raises
        ------
        ConfigError
            It is to another request.
        """
        async with self._store.begin() as transaction:
            found = await transaction.get(IdempotencyRecord, claim.request_id)
        if found is None:
            return None
        if found.fingerprint != claim.fingerprint:
            raise ConfigError(
                "was sent with another request before",
                field=FIELD,
                fix="send a new key with each request, and the same one to repeat a request",
            )
        nonce, sealed = found.sealed[:_NONCE_BYTES], found.sealed[_NONCE_BYTES:]
        return AESGCM(claim.sealing_key).decrypt(nonce, sealed, claim.fingerprint)

    async def keep(self, claim: Claim, answer: bytes) -> None:
        """Keep an answer, in the transaction of what was made.

        Raises
        ------
        InProgressError
            Another server has answered the request meanwhile: what this one has made is undone.
        """
        nonce = secrets.token_bytes(_NONCE_BYTES)
        sealed = nonce + AESGCM(claim.sealing_key).encrypt(nonce, answer, claim.fingerprint)
        record = IdempotencyRecord(
            request_id=claim.request_id,
            fingerprint=claim.fingerprint,
            sealed=sealed,
            created=self._clock.now(),
        )
        async with self._store.begin(write=True) as transaction:
            if not await transaction.add(record):
                raise _in_progress()


def _in_progress() -> InProgressError:
    return InProgressError(
        "is that of a request that is being answered",
        field=FIELD,
        fix="send the same again after the seconds in Retry-After",
    )
