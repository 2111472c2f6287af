"""Records of devices, of their keys, and of the tokens that enrol them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from sfumato.aggregator.base.columns import KEY, DeviceId, Name, StudyId

TokenState = Literal["usable", "used-up", "expired", "revoked"]


@dataclass(frozen=True, kw_only=True)
class TokenRecord:
    """An enrolment token; ``labels`` are those that its devices must have.

    Its identity is the SHA-256 of the secret, so that a found token can be found in the list.
    """

    token_hash: Annotated[bytes, KEY]
    study_id: StudyId
    max_uses: int
    created: float
    expires: float
    labels: Mapping[str, str] | None = None
    uses: int = 0
    revoked: float | None = None

    def state_at(self, now: float) -> TokenState:
        """Return whether it can enrol another device now, or why not."""
        if self.revoked is not None:
            return "revoked"
        if self.uses >= self.max_uses:
            return "used-up"
        return "expired" if self.expires <= now else "usable"


@dataclass(frozen=True, kw_only=True)
class DeviceRecord:
    """An enrolled key.

    Parameters
    ----------
    ordinal
        Its number in the study: 0, 1, 2, ... in the order of enrolment; given when it is stored.
    last_seen
        The time of its last accepted request.
    public_key
        The present key; the identity comes from the key that it enrolled with.
    excluded, reason
        When an operator excluded it, and why.
    revoked
        When an operator revoked it: its sketches stay, and no more are accepted.
    heartbeat, heartbeat_at
        The latest heartbeat, and when it arrived by the server's clock.
    continues
        The same device in the phase before of a campaign.
    name
        The owner's name of it, by the latest heartbeat. Several devices may share one.
    replaces, begins
        The device whose place it took, and the first slot that is taken of it.
    """

    device_id: Annotated[bytes, KEY]
    study_id: StudyId
    public_key: bytes
    labels: Mapping[str, str]
    enrolled: float
    ordinal: int = -1
    last_seen: float | None = None
    n_sketches: int = 0
    excluded: float | None = None
    reason: str | None = None
    revoked: float | None = None
    heartbeat: Mapping[str, Any] | None = None
    heartbeat_at: float | None = None
    continues: bytes | None = None
    name: Name | None = None
    replaces: bytes | None = None
    begins: int = 0


@dataclass(frozen=True, kw_only=True)
class RetiredKeyRecord:
    """A retired key of a device, and the sketches that it still verifies.

    Parameters
    ----------
    key_id
        SHA-256 of the public key.
    successor
        The ``key_id`` of the key that replaced it.
    last_sequences
        The last sketch of each stream that it signed; it verifies no later one.
    revoked
        When an operator revoked it; it then verifies only stored sketches.
    """

    key_id: Annotated[bytes, KEY]
    device_id: DeviceId
    public_key: bytes
    retired: float
    successor: bytes
    last_sequences: Mapping[str, int] = field(default_factory=dict)
    revoked: float | None = None
