"""Writing a file once: whole or not at all, and never over another."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from sfumato.shared.durable_files import place_file, sync_folder
from sfumato.shared.errors import ConfigError


def require_writable(path: Path) -> None:
    """Refuse, before any work, an output that could not be written.

    Raises
    ------
    ConfigError
        It exists, or its folder cannot be written to.
    """
    if os.path.lexists(path):
        raise _refuse_existing(path)
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise ConfigError(
            "is in a folder that is not there or cannot be written to",
            field=str(path),
            fix="choose another with -o",
        )


def write_once(path: Path, data: bytes) -> None:
    """Write a new file, whole or not at all, readable by its owner alone.

    Guarantees
    ----------
    Whatever fails, ``path`` does not exist afterwards unless it holds all of ``data`` on disk; a
    file that is there already stays.

    Raises
    ------
    ConfigError
        It exists, or cannot be written.
    """
    try:
        place_file(path, data)
    except FileExistsError as error:
        raise _refuse_existing(path) from error
    except OSError as error:
        raise ConfigError(
            f"cannot be written ({error.strerror}); nothing was released",
            field=str(path),
            fix="make room, or choose another with -o",
        ) from error
    # Not every file system can; the file is whole without.
    with suppress(OSError):
        sync_folder(path.parent)


def _refuse_existing(path: Path) -> ConfigError:
    return ConfigError(
        "exists already and is not replaced: the noise of a second sketch of the same records is "
        "new, and costs the plan's epsilon once more",
        field=str(path),
        fix="use the sketch that is there; if that was of other records, choose another with -o",
    )
