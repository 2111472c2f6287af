"""Signed releases: the owner of the records signs what an estimator released, as COSE_Sign1.

Every release that ``encode()`` writes is signed alike: of clusters, sketches and generative models.
A signature tells whose release it is, and that nobody changed it; it protects no record.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Final, Protocol

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from sfumato.shared.cbor import decode_deterministic, encode_deterministic
from sfumato.shared.durable_files import write_new_file
from sfumato.shared.errors import ConfigError, SignatureError
from sfumato.shared.wire.cose import (
    COSE_SIGN1_TAG,
    encode_signature_input,
    has_protected,
    read_envelope,
    sign_content,
    verify_signature,
)

RELEASE_MEDIA_TYPE: Final = "application/vnd.sfumato.release+cbor"
_FIRST_BYTE: Final = 0xC0 | COSE_SIGN1_TAG
_KEY_BYTES: Final = 32
_OWN_KEY: Final = "pass the public key that the owner gave you, 64 hexadecimal digits"


class Encodable(Protocol):
    """A release."""

    def encode(self) -> bytes:
        """Return the release as deterministic CBOR."""


def create_owner_key(path: str | Path) -> str:
    """Write a new Ed25519 key of an owner to a file, as PEM; return its public key.

    Returns
    -------
    str
        64 hexadecimal digits, for those who read what the owner signs.

    Raises
    ------
    ConfigError
        The file is there already, or cannot be written.
    """
    key = Ed25519PrivateKey.generate()
    content = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    try:
        # On the disk, because others may hold the public half as soon as this returns.
        write_new_file(Path(path), content)
    except OSError as error:
        raise ConfigError(
            f"cannot be written: {error.strerror}", field=str(path), fix="name a new file"
        ) from error
    return key.public_key().public_bytes_raw().hex()


def read_owner_key(path: str | Path) -> Ed25519PrivateKey:
    """Read the private key of an owner.

    Raises
    ------
    ConfigError
        The file cannot be read, or holds no Ed25519 key in PEM.
    """
    try:
        key = load_pem_private_key(Path(path).read_bytes(), password=None)
    except OSError as error:
        raise ConfigError(
            f"cannot be read: {error.strerror}",
            field=str(path),
            fix="make a key with `sfumato cluster key FILE`",
        ) from error
    except (TypeError, ValueError, UnsupportedAlgorithm) as error:
        raise _refuse_key(path) from error
    if not isinstance(key, Ed25519PrivateKey):
        raise _refuse_key(path)
    return key


def sign_release(release: Encodable, key: Ed25519PrivateKey) -> bytes:
    """Return a release with the signature of its owner, for :func:`open_release`."""
    key_id = hashlib.sha256(key.public_key().public_bytes_raw()).digest()
    envelope = sign_content(RELEASE_MEDIA_TYPE, key_id, release.encode(), key.sign)
    return encode_deterministic(envelope)


def is_signed(data: bytes) -> bool:
    """Return whether the bytes of a release claim a signature, which is not checked here."""
    return data[:1] == bytes([_FIRST_BYTE])


def open_release(data: bytes, owner: str | bytes | None = None) -> bytes:
    """Return the bytes of a release, once the signature of its owner is checked.

    Parameters
    ----------
    data
        What :func:`sign_release` returned, or an encoded release without a signature.
    owner
        Public key of the owner, 32 bytes or as hexadecimal digits; None for one that is not signed.

    Raises
    ------
    SignatureError
        The signature is missing, of another key, or does not verify; or there is one, and no owner
        is stated.
    ConfigError
        ``owner`` is no public key.
    MalformedMessageError
        The bytes are no deterministic CBOR.
    """
    if not is_signed(data):
        if owner is not None:
            raise SignatureError(
                "has no signature", field="release", fix="have its owner sign it with sign_release"
            )
        return data
    if owner is None:
        raise SignatureError("is signed, and no owner is stated", field="release", fix=_OWN_KEY)
    identity = _read_identity(owner)
    parts = read_envelope(decode_deterministic(data, what="release"))
    if parts is None:
        raise SignatureError(
            "must be a COSE_Sign1", field="release", fix="read what sign_release returned"
        )
    protected, content, signature = parts
    if not has_protected(protected, RELEASE_MEDIA_TYPE, hashlib.sha256(identity).digest()):
        raise SignatureError("is not signed by this owner", field="release", fix=_OWN_KEY)
    verify_signature(
        identity,
        signature,
        encode_signature_input(protected, content),
        rule="does not verify: the release was changed, or another key signed it",
        fix="ask its owner for the file again",
    )
    return content


def _read_identity(owner: str | bytes) -> bytes:
    try:
        identity = bytes.fromhex(owner) if isinstance(owner, str) else bytes(owner)
    except ValueError:
        identity = b""
    if len(identity) != _KEY_BYTES:
        raise ConfigError("must be an Ed25519 public key", field="owner", fix=_OWN_KEY)
    return identity


def _refuse_key(path: str | Path) -> ConfigError:
    return ConfigError(
        "must hold an Ed25519 private key in PEM",
        field=str(path),
        fix="make one with `sfumato cluster key FILE`",
    )
