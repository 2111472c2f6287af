"""HPKE by sections 4 and 5 of RFC 9180, without the library's: a second reading, for comparison."""

from __future__ import annotations

import hmac

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

_KEM = b"KEM" + (0x0020).to_bytes(2, "big")
_HPKE = b"HPKE" + b"".join(n.to_bytes(2, "big") for n in (0x0020, 0x0001, 0x0003))


def _extract(suite: bytes, salt: bytes, label: bytes, secret: bytes) -> bytes:
    return hmac.digest(salt or bytes(32), b"HPKE-v1" + suite + label + secret, "sha256")


def _expand(suite: bytes, secret: bytes, label: bytes, info: bytes, length: int) -> bytes:
    labelled = length.to_bytes(2, "big") + b"HPKE-v1" + suite + label + info
    return hmac.digest(secret, labelled + b"\x01", "sha256")[:length]


def _schedule(
    shared: bytes, enc: bytes, public: bytes, info: bytes
) -> tuple[ChaCha20Poly1305, bytes]:
    prk = _extract(_KEM, b"", b"eae_prk", shared)
    secret = _expand(_KEM, prk, b"shared_secret", enc + public, 32)
    context = b"\x00" + _extract(_HPKE, b"", b"psk_id_hash", b"")
    context += _extract(_HPKE, b"", b"info_hash", info)
    scheduled = _extract(_HPKE, secret, b"secret", b"")
    key = _expand(_HPKE, scheduled, b"key", context, 32)
    return ChaCha20Poly1305(key), _expand(_HPKE, scheduled, b"base_nonce", context, 12)


def open_by_the_rfc(
    private: X25519PrivateKey, enc: bytes, text: bytes, info: bytes, aad: bytes
) -> bytes:
    """Open a message."""
    shared = private.exchange(X25519PublicKey.from_public_bytes(enc))
    public = private.public_key().public_bytes_raw()
    aead, nonce = _schedule(shared, enc, public, info)
    return aead.decrypt(nonce, text, aad)


def seal_by_the_rfc(
    public: bytes, ephemeral: X25519PrivateKey, text: bytes, info: bytes, aad: bytes
) -> bytes:
    """Seal a message with a given ephemeral key: only for vectors."""
    shared = ephemeral.exchange(X25519PublicKey.from_public_bytes(public))
    enc = ephemeral.public_key().public_bytes_raw()
    aead, nonce = _schedule(shared, enc, public, info)
    return enc + aead.encrypt(nonce, text, aad)
