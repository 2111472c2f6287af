"""COSE_Sign1 (RFC 9052) in the profile of this protocol: Ed25519, no unprotected header.

Everything is deterministic CBOR, and no external data is signed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import cbor2
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from sfumato.shared.cbor import decode_deterministic, encode_deterministic
from sfumato.shared.errors import SignatureError

COSE_SIGN1_TAG = 18
_EDDSA = -8
_ALGORITHM, _CONTENT_TYPE, _KEY_ID = 1, 3, 4


def encode_protected(media_type: str, key_id: bytes) -> bytes:
    """Return the protected header: the algorithm, the content's type and the key's identity."""
    return encode_deterministic(_list_protected(media_type, key_id))


def has_protected(protected: bytes, media_type: str, key_id: bytes) -> bool:
    """Return whether a protected header names EdDSA, this type and this key, and nothing else.

    Raises
    ------
    MalformedMessageError
        It is not deterministic CBOR.
    """
    stated = decode_deterministic(protected, what="protected")
    return bool(stated == _list_protected(media_type, key_id))


def encode_signature_input(protected: bytes, content: bytes) -> bytes:
    """Return the Sig_structure of RFC 9052, section 4.4, without external data."""
    return encode_deterministic(["Signature1", protected, b"", content])


def sign_content(
    media_type: str, key_id: bytes, content: bytes, sign: Callable[[bytes], bytes]
) -> cbor2.CBORTag:
    """Return the envelope of signed content; ``sign`` is the Ed25519 signature of given bytes."""
    protected = encode_protected(media_type, key_id)
    signature = sign(encode_signature_input(protected, content))
    return cbor2.CBORTag(COSE_SIGN1_TAG, [protected, {}, content, signature])


def read_envelope(item: object) -> tuple[bytes, bytes, bytes] | None:
    """Return header, content and signature of a decoded envelope; None for anything else.

    Nothing is verified here.
    """
    match item:
        case cbor2.CBORTag(
            tag=tag, value=[bytes(protected), unprotected, bytes(content), bytes(signature)]
        ) if tag == COSE_SIGN1_TAG and isinstance(unprotected, Mapping) and not unprotected:
            return protected, content, signature
    return None


def verify_signature(
    public_key: bytes, signature: bytes, data: bytes, *, rule: str, fix: str
) -> None:
    """Check an Ed25519 signature.

    Raises
    ------
    SignatureError
        It does not verify; ``rule`` and ``fix`` are the error's.
    """
    try:
        Ed25519PublicKey.from_public_bytes(public_key).verify(signature, data)
    except (InvalidSignature, ValueError) as error:
        raise SignatureError(rule, field="signature", fix=fix) from error


def _list_protected(media_type: str, key_id: bytes) -> dict[int, Any]:
    return {_ALGORITHM: _EDDSA, _CONTENT_TYPE: media_type, _KEY_ID: key_id}
