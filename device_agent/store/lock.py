"""One agent at a time: two would read, release and spend at once."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from device_agent.store.disk import naming_file
from shared.errors import LedgerError

LOCK_NAME = "lock"


@contextmanager
def lock_folder(folder: Path) -> Iterator[None]:
    """Hold the folder's lock; the system lets go of it when the process ends, however it ends.

    Raises
    ------
    LedgerError
        Another process holds it.
    StoreError
        It cannot be made.
    """
    with naming_file(folder / LOCK_NAME):
        file = os.open(folder / LOCK_NAME, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise LedgerError(
                f"another sfumato-agent is at work in {folder}",
                field="state_dir",
                fix="wait until it has ended, or stop it",
            ) from error
        yield
    finally:
        os.close(file)
