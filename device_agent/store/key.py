"""The device's Ed25519 key, in a file of mode 0600."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from shared.errors import ConfigError
from shared.wire import device_id_of

KEY_NAME = "device.key"


class DeviceKey:
    """The key that a device enrols and signs with; it never shows its private half."""

    def __init__(self, private: Ed25519PrivateKey) -> None:
        self._private = private
        self.public_bytes = private.public_key().public_bytes_raw()
        self.device_id = device_id_of(self.public_bytes)

    def sign(self, data: bytes) -> bytes:
        """Return the Ed25519 signature of ``data``, 64 bytes."""
        return self._private.sign(data)


def load_key(folder: Path) -> DeviceKey | None:
    """Load the key of a folder; None if there is none yet.

    Raises
    ------
    ConfigError
        It cannot be read, others may read it, or it is no Ed25519 key.
    """
    path = folder / KEY_NAME
    try:
        if path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO):
            raise _refuse(path, "can be read by others", f"chmod 600 {path}")
        private = load_pem_private_key(path.read_bytes(), password=None)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError) as error:
        raise _refuse(path, "cannot be read", "restore it from where you keep it") from error
    if not isinstance(private, Ed25519PrivateKey):
        raise _refuse(path, "is not an Ed25519 key", "restore it from where you keep it")
    return DeviceKey(private)


def create_key(folder: Path) -> DeviceKey:
    """Make a key and save it; the file appears whole or not at all."""
    private = Ed25519PrivateKey.generate()
    data = private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    part = folder / f"{KEY_NAME}.part"
    file = os.open(part, os.O_CREAT | os.O_TRUNC | os.O_WRONLY | os.O_CLOEXEC, 0o600)
    try:
        os.write(file, data)
        os.fsync(file)
    finally:
        os.close(file)
    part.rename(folder / KEY_NAME)
    # The name too must survive a power cut, or an enrolled key would be gone.
    directory = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
    return DeviceKey(private)


def _refuse(path: Path, rule: str, fix: str) -> ConfigError:
    return ConfigError(rule, field=str(path), fix=fix)
