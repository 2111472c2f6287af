"""Secrets of a study's folder, in files of mode 0600: the signing key, and that of digests.

Without the secret of digests nobody who finds a position can try out which records it was made
from. It is erased when the device is forgotten, and then nobody can check a digest.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import os
import secrets
import stat
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from sfumato.device_agent.store.disk import naming_file
from sfumato.shared.durable_files import replace_file, sync_folder
from sfumato.shared.errors import ConfigError

KEY_NAME = "device.key"
KEY_FOLDERS = "study-"
"""Prefix of the names of the folders of keys, one for each study."""
NEXT_KEY_NAME = "device.key.next"
"""The key that the server is asked to take in the place of the other."""
DIGEST_KEY_NAME = "digest.key"
_SECRET_BYTES = 32

# PKCS #8 of an Ed25519 key is these octets and the 32 of the key (RFC 8410, section 7). The library
# would load all that it knows of other keys to read them, a megabyte.
_PKCS8_HEAD = bytes.fromhex("302e020100300506032b657004220420")
_KEY_BYTES = 32
_BEGIN, _END = b"-----BEGIN PRIVATE KEY-----", b"-----END PRIVATE KEY-----"


class DeviceKey:
    """A key that a device signs with; it never shows its private half."""

    def __init__(self, private: Ed25519PrivateKey) -> None:
        self._private = private
        self.public_bytes = private.public_key().public_bytes_raw()
        self.key_id = key_id_of(self.public_bytes)
        """Its SHA-256; that of the first key is the device's identity."""

    def sign(self, data: bytes) -> bytes:
        """Return the Ed25519 signature of ``data``, 64 bytes."""
        return self._private.sign(data)


def key_folder(state: Path, study: bytes) -> Path:
    """Return the folder of a study's keys: each study knows the device under a key of its own."""
    return state / f"{KEY_FOLDERS}{study.hex()[:16]}"


def key_id_of(public_key: bytes) -> bytes:
    """Return the identity of a key, the SHA-256 of its public half."""
    return hashlib.sha256(public_key).digest()


def load_key(folder: Path, name: str = KEY_NAME) -> DeviceKey | None:
    """Load a key of a folder; None if it is missing.

    Raises
    ------
    ConfigError
        It cannot be read, others may read it, or it is no Ed25519 key.
    """
    path = folder / name
    try:
        data = _read_private(path)
    except OSError as error:
        raise _refuse(path, "cannot be read", "restore it from where you keep it") from error
    if data is None:
        return None
    key = _decode_pem(data)
    if key is None:
        raise _refuse(path, "must be an Ed25519 key", "restore it from where you keep it")
    return DeviceKey(Ed25519PrivateKey.from_private_bytes(key))


def create_key(folder: Path, name: str = KEY_NAME) -> DeviceKey:
    """Make and save a key; after a failure nothing of it stays.

    Raises
    ------
    StoreError
        It cannot be written.
    """
    private = Ed25519PrivateKey.generate()
    with naming_file(folder / name):
        folder.mkdir(mode=0o700, exist_ok=True)
        _save(folder, name, _encode_pem(private.private_bytes_raw()))
    return DeviceKey(private)


def keep_key(folder: Path, key_id: bytes) -> None:
    """Copy the present key before another replaces it; repeating is harmless."""
    _save(folder, retired_name(key_id), (folder / KEY_NAME).read_bytes())


def retired_name(key_id: bytes) -> str:
    """Return the name of the file of a key that was replaced."""
    return f"{KEY_NAME}.retired-{key_id.hex()[:16]}"


def _save(folder: Path, name: str, data: bytes) -> None:
    replace_file(folder / name, data)
    sync_folder(folder.parent)


def move_next_key(folder: Path) -> None:
    """Replace the present key by the next one, atomically and durably."""
    os.replace(folder / NEXT_KEY_NAME, folder / KEY_NAME)
    # The name too must survive a power cut, or an enrolled key would be gone.
    sync_folder(folder)


def _encode_pem(key: bytes) -> bytes:
    return b"\n".join((_BEGIN, base64.b64encode(_PKCS8_HEAD + key), _END, b""))


def _decode_pem(data: bytes) -> bytes | None:
    """Return the 32 octets of a key, or None if it is anything else."""
    text = b" ".join(data.split())
    if not (text.startswith(_BEGIN + b" ") and text.endswith(b" " + _END)):
        return None
    try:
        body = text.removeprefix(_BEGIN).removesuffix(_END).replace(b" ", b"")
        decoded = base64.b64decode(body, validate=True)
    except binascii.Error:
        return None
    is_key = decoded.startswith(_PKCS8_HEAD) and len(decoded) == len(_PKCS8_HEAD) + _KEY_BYTES
    return decoded[len(_PKCS8_HEAD) :] if is_key else None


def _refuse(path: Path, rule: str, fix: str) -> ConfigError:
    return ConfigError(rule, field=str(path), fix=fix)


def load_digest_key(folder: Path) -> bytes:
    """Return the secret of a study's folder, 32 bytes; make it if it is missing.

    A damaged one is made anew: files are known by their identity then, and no old digest is
    believed.

    Raises
    ------
    ConfigError
        Others may read it.
    StoreError
        It cannot be read or made.
    """
    path = folder / DIGEST_KEY_NAME
    with naming_file(path):
        found = _read_private(path)
        if found is None or len(found) != _SECRET_BYTES:
            folder.mkdir(mode=0o700, exist_ok=True)
            # Where two make it at the same moment the last one stays: digests under the other are
            # believed by nobody, which harms nothing.
            replace_file(path, secrets.token_bytes(_SECRET_BYTES), part=f"{os.getpid()}.part")
            found = _read_private(path)
            assert found is not None
        return found


def _read_private(path: Path) -> bytes | None:
    """Return the bytes of a file that nobody else may read; None if it is missing."""
    try:
        if path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO):
            raise _refuse(path, "must not be readable by others", f"run `chmod 600 {path}`")
        return path.read_bytes()
    except FileNotFoundError:
        return None
