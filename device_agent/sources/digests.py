"""Keyed digests of raw records: without the device's secret they reveal nothing.

An unkeyed digest of a record with few possible values is as good as the record: a thief tries them
all.
"""

from __future__ import annotations

import hmac
from typing import Protocol

_ALGORITHM = "sha256"
_KEY_ID = b"sfumato digest key id"
_CHARACTERS = 16


class RunningDigest(Protocol):
    """A digest of the bytes so far, as ``hmac`` makes it."""

    def update(self, data: bytes, /) -> None:
        """Add bytes."""
        ...

    def copy(self) -> RunningDigest:
        """Return an independent copy."""
        ...

    def hexdigest(self) -> str:
        """Return the digest of the bytes so far."""
        ...


class DigestKey:
    """HMAC-SHA-256 under the secret of a device.

    Parameters
    ----------
    secret
        32 random bytes, which never leave the device; see ``device_agent.store.digest_key``.
    """

    def __init__(self, secret: bytes) -> None:
        self._secret = secret
        self.key_id = self.compute(_KEY_ID)
        """Identity of the secret: digests under an erased one cannot be compared."""

    def begin(self) -> RunningDigest:
        """Return the running digest of no bytes."""
        return hmac.new(self._secret, digestmod=_ALGORITHM)

    def compute(self, data: bytes) -> str:
        """Return a short digest of some bytes."""
        return hmac.new(self._secret, data, _ALGORITHM).hexdigest()[:_CHARACTERS]
