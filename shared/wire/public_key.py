"""Which 32 bytes may be a device's public key: Ed25519 (RFC 8032), one spelling of each point.

A library verifies with whatever it is given. With a point of small order anyone finds signatures
that verify, without any private key; and bytes of another spelling would be a second device.
"""

from __future__ import annotations

from shared.errors import ConfigError

PUBLIC_KEY_BYTES = 32
_PRIME = (1 << 255) - 19
_D = -121665 * pow(121666, -1, _PRIME) % _PRIME
_ORDER_8 = 2707385501144840649318225287225658788936804267575313519463743609750303402022
_SMALL_ORDER = frozenset({0, 1, _PRIME - 1, _ORDER_8, _PRIME - _ORDER_8})
"""The y of the eight points whose order divides 8; each with the x of either sign."""


def require_public_key(key: bytes) -> None:
    """Check that a key is a point of Ed25519, in the one spelling it has, and of large order.

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
