"""Seals: a seed encrypted to the helper's key of one plan, bound to one header.

HPKE of RFC 9180 in base mode with DHKEM(X25519, HKDF-SHA256), HKDF-SHA256 and ChaCha20-Poly1305.
The header is bound through ``info``: section 8.1 of the RFC recommends it for single messages.
"""

from __future__ import annotations

import hashlib
from functools import cache
from typing import TYPE_CHECKING

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey

from sfumato.shared.errors import SealError
from sfumato.shared.sharing.masks import SEED_BYTES

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.hpke import Suite

KEY_BYTES = 32
BOX_BYTES = KEY_BYTES + SEED_BYTES + 16
"""An ephemeral key, the encrypted seed, and its tag."""
_DOMAIN = b"sfumato/v1/sum/seal"
_PROBE = bytes(range(KEY_BYTES))


@cache
def _get_suite() -> Suite:
    # Not at the top: agents of other plans need no HPKE.
    from cryptography.hazmat.primitives.hpke import AEAD, KDF, KEM, Suite  # noqa: PLC0415

    return Suite(KEM.X25519, KDF.HKDF_SHA256, AEAD.CHACHA20_POLY1305)


def compute_context(header: bytes) -> bytes:
    """Return the context of a seal: the SHA-256 of the header's encoding with no seal in it."""
    return hashlib.sha256(header).digest()


def seal_seed(seed: bytes, helper_key: bytes, context: bytes) -> bytes:
    """Encrypt a seed to the helper.

    Parameters
    ----------
    seed
        32 bytes.
    helper_key
        The X25519 key of the plan, 32 bytes.
    context
        Context of the header that will carry the box, 32 bytes: it opens with no other.

    Returns
    -------
    bytes
        The box: 80 bytes.

    Raises
    ------
    SealError
        The key is of small order.
    """
    try:
        public = X25519PublicKey.from_public_bytes(helper_key)
        return _get_suite().encrypt(seed, public, _DOMAIN + context)
    except ValueError as error:
        raise SealError(
            "cannot be used: it is not an X25519 key that hides anything",
            field="helper_key",
            fix="ask the helper's operator to accept the plan again, with a new key",
        ) from error


def open_seal(box: bytes, private_key: X25519PrivateKey, context: bytes) -> bytes:
    """Decrypt a seed.

    Raises
    ------
    SealError
        The box was altered, or was made for another key or header.
    """
    seed = b""
    if len(box) == BOX_BYTES:
        try:
            seed = _get_suite().decrypt(box, private_key, _DOMAIN + context)
        except (InvalidTag, ValueError):
            seed = b""
    if len(seed) != SEED_BYTES:
        raise SealError(
            "does not open with this key and header",
            field="sealed",
            fix="send the report as the device made it",
        )
    return seed


def is_usable_key(helper_key: bytes) -> bool:
    """Return whether bytes are an X25519 key that is not of small order."""
    try:
        public = X25519PublicKey.from_public_bytes(helper_key)
        # A key of small order gives zeros with every private key, which the library refuses.
        X25519PrivateKey.from_private_bytes(_PROBE).exchange(public)
    except ValueError:
        return False
    return True
