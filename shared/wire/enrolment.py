"""Enrolment and rotation: how a device shows that it holds the private half of a key."""

from __future__ import annotations

from collections.abc import Mapping

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from sfumato.shared.cbor import encode_deterministic
from sfumato.shared.errors import SignatureError
from sfumato.shared.wire.identities import require_public_key

_DOMAIN = "sfumato/v1/enrolment"
_ROTATION_DOMAIN = "sfumato/v1/rotation"


def encode_proof_input(
    *, token: str, study: bytes, public_key: bytes, labels: Mapping[str, str]
) -> bytes:
    """Return the bytes that a device signs to enrol; they bind key, study, labels and token."""
    return encode_deterministic([_DOMAIN, token, study, public_key, dict(labels)])


def encode_rotation_input(
    *, device: bytes, public_key: bytes, last_sequences: Mapping[str, int]
) -> bytes:
    """Return the bytes that the new key of a device signs; they bind it to the device.

    Parameters
    ----------
    device
        The device's identity, which stays what it was.
    public_key
        The new key.
    last_sequences
        The last sketch of each stream that the old key has signed.
    """
    return encode_deterministic([_ROTATION_DOMAIN, device, public_key, dict(last_sequences)])


def verify_proof(proof_input: bytes, *, public_key: bytes, proof: bytes) -> None:
    """Check a proof of possession.

    Raises
    ------
    ConfigError
        No key can be behind the public key: see :func:`require_public_key`.
    SignatureError
        The signature is not the key's over these bytes.
    """
    require_public_key(public_key)
    try:
        Ed25519PublicKey.from_public_bytes(public_key).verify(proof, proof_input)
    except (InvalidSignature, ValueError) as error:
        raise SignatureError(
            "does not prove possession of the key",
            field="proof",
            fix="sign what is sent with the key that is to be used from now on",
        ) from error
