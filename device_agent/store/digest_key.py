"""Secret of the digests of raw records, in a file of mode 0600.

Without it nobody who finds a position can try out which records it was made from. It is erased when
the device is forgotten, and then nobody can check a digest.
"""

from __future__ import annotations

import os
import secrets
import stat
from pathlib import Path

from device_agent.store.disk import replace_file
from shared.errors import ConfigError, StoreError

DIGEST_KEY_NAME = "digest.key"
_KEY_BYTES = 32


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
    try:
        found = _read(path)
        return found if found is not None else _create(path)
    except OSError as error:
        raise StoreError(
            f"cannot be read or written ({error.strerror})",
            field=str(path),
            fix="free space on the disk, or make the folder writable for this user",
        ) from error


def _read(path: Path) -> bytes | None:
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        if os.fstat(file).st_mode & (stat.S_IRWXG | stat.S_IRWXO):
            raise ConfigError(
                "can be read by others", field=str(path), fix=f"run `chmod 600 {path}`"
            )
        data = os.read(file, _KEY_BYTES + 1)
    finally:
        os.close(file)
    return data if len(data) == _KEY_BYTES else None


def _create(path: Path) -> bytes:
    path.parent.mkdir(mode=0o700, exist_ok=True)
    # Where two make it at the same moment the last one stays: digests under the other are believed
    # by nobody, which harms nothing.
    replace_file(path, secrets.token_bytes(_KEY_BYTES), part=f"{os.getpid()}.part")
    found = _read(path)
    assert found is not None
    return found
