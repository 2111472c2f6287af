"""Identities of studies, devices and streams; the forms of API keys and of public keys."""

from __future__ import annotations

import hashlib
import re

from sfumato.shared.cbor import encode_deterministic
from sfumato.shared.errors import ConfigError
from sfumato.shared.plan import SketchPlan, compute_plan_digest

API_KEY = re.compile(r"sfk_([0-9a-f]{16})_[A-Za-z0-9_-]{43}")
"""The form of an API key; its group is the key's public identity."""
PUBLIC_KEY_BYTES = 32
_PRIME = (1 << 255) - 19
_D = -121665 * pow(121666, -1, _PRIME) % _PRIME
_ORDER_8 = 2707385501144840649318225287225658788936804267575313519463743609750303402022
_SMALL_ORDER = frozenset({0, 1, _PRIME - 1, _ORDER_8, _PRIME - _ORDER_8})
"""The y of the eight points whose order divides 8; each with the x of either sign."""


def is_api_key(text: str) -> bool:
    """Return whether text has the form of an API key."""
    return API_KEY.fullmatch(text) is not None


def compute_study_id(name: str, plan: SketchPlan) -> bytes:
    """Return the SHA-256 of the deterministic encoding of ``[name, plan digest]``."""
    return hashlib.sha256(encode_deterministic([name, compute_plan_digest(plan)])).digest()


def device_id_of(public_key: bytes) -> bytes:
    """Return the identity of a device: SHA-256 of the 32-byte Ed25519 key it enrolled with."""
    return hashlib.sha256(public_key).digest()


def encode_stream_id(device: bytes, stream: str) -> bytes:
    """Return the bytes that key the masks of a device's stream: ``device || "/" || stream``.

    The device has 32 bytes, so that no two pairs of device and stream give the same bytes.
    """
    return device + b"/" + stream.encode("utf-8")


def require_public_key(key: bytes) -> None:
    """Check that a device's public key is an Ed25519 point of large order in its one spelling.

    A library verifies with whatever it is given. With a point of small order anyone finds
    signatures that verify, without any private key; another spelling would be a second device.

    Raises
    ------
    ConfigError
        It is not; the field is ``public_key``.
    """
    _require(len(key) == PUBLIC_KEY_BYTES, f"must have {PUBLIC_KEY_BYTES} bytes")
    y = int.from_bytes(key, "little") & ((1 << 255) - 1)
    _require(y < _PRIME, "must have a coordinate below 2^255 - 19 (RFC 8032, section 5.1.3)")
    _require(y not in _SMALL_ORDER, "must not be a point of small order: no private key is behind")
    # x^2 = (y^2 - 1) / (d y^2 + 1); the inverse leaves a square a square, so no division.
    squared = (y * y - 1) * (_D * y * y + 1) % _PRIME
    _require(pow(squared, (_PRIME - 1) // 2, _PRIME) == 1, "must be a point of Ed25519")


def _require(holds: bool, rule: str) -> None:
    if not holds:
        raise ConfigError(
            rule, field="public_key", fix="make a new Ed25519 key, and send its 32 bytes unaltered"
        )
