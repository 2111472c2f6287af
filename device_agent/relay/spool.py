"""A folder through which other programs bring messages and fetch answers.

``in/NAME.sketch`` is a message, ``in/NAME.request`` a device's GET request as HTTP writes it, and
``out/NAME.answer`` the answer as HTTP writes it. What can never be right is moved to ``refused/``.
"""

from __future__ import annotations

import errno
import logging
import os
from pathlib import Path

from sfumato.device_agent.agent.monitoring import report_event
from sfumato.device_agent.relay.answers import answer_problem
from sfumato.device_agent.relay.intake import MOST_REQUEST_BYTES, Intake
from sfumato.device_agent.relay.queue import Queue
from sfumato.device_agent.store.disk import naming_file
from sfumato.shared.durable_files import replace_file, sync_folder
from sfumato.shared.errors import DiskError, SketchError, TransportError

MESSAGE, REQUEST, ANSWER = ".sketch", ".request", ".answer"
_FOLDERS = ("in", "out", "refused")
_FIX = "make the folder writable for this user"
_NOT_OURS = (errno.EACCES, errno.ELOOP, errno.ENOENT)


class Spool:
    """The folder of messages and answers.

    Parameters
    ----------
    folder
        Made if it is missing, with its three folders.

    Raises
    ------
    StoreError
        It cannot be made.
    """

    def __init__(self, folder: Path, intake: Intake, queue: Queue, *, most_bytes: int) -> None:
        self._intake = intake
        self._queue = queue
        self._most_bytes = most_bytes
        self._in, self._out, self._refused = (folder / name for name in _FOLDERS)
        self._reported: set[str] = set()
        for path in (self._in, self._out, self._refused):
            with naming_file(path, fix=_FIX):
                path.mkdir(parents=True, exist_ok=True)

    def step(self) -> None:
        """Take every file that has come, and write every answer that has come.

        Raises
        ------
        StoreError
            A file cannot be written or moved; the next step repeats it.
        """
        for path in sorted(self._in.iterdir()):
            is_ours = path.suffix in (MESSAGE, REQUEST) and path.name.isprintable()
            if is_ours and path.is_file():
                self._take(path)
        self.write_answers()

    def write_answers(self) -> None:
        """Write the answers to messages that came this way. Raises as :meth:`step`."""
        for name, answer in self._queue.list_spooled():
            self._write(name, answer.to_http())
            self._queue.forget_spooled(name)

    def _take(self, path: Path) -> None:
        is_message = path.suffix == MESSAGE
        limit = self._most_bytes if is_message else MOST_REQUEST_BYTES
        with naming_file(path, fix=_FIX):
            data = self._read(path, limit)
        if data is None:
            return
        try:
            if is_message:
                self._intake.keep(data, source="spool", name=path.stem)
            else:
                self._write(path.stem, self._intake.answer_request(data).to_http())
        except TransportError as error:
            # The file stays, and is tried again at every step.
            self._report(path, f"stays where it is: {error}")
            return
        except DiskError:
            raise
        except SketchError as error:
            self._report(path, f"was refused and moved to refused/: {error}")
            self._write(path.stem, answer_problem(error).to_http())
            with naming_file(path, fix=_FIX):
                path.replace(self._refused / path.name)
                sync_folder(self._refused)
            return
        self._reported.discard(path.name)
        with naming_file(path, fix=_FIX):
            path.unlink()

    def _read(self, path: Path, limit: int) -> bytes | None:
        """Return the first bytes of a file; None, reported, if it is not for this user to read."""
        # Others write to this folder: follow no link for them, and wait for no pipe.
        flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
        try:
            with os.fdopen(os.open(path, flags), "rb") as file:
                return file.read(limit + 1)
        except OSError as error:
            # It stops no other file.
            if error.errno not in _NOT_OURS:
                raise
            self._report(
                path,
                f"stays where it is: cannot be read ({error.strerror}). Bring a file, not a link, "
                "that the relay's group may read",
            )
            return None

    def _write(self, name: str, answer: bytes) -> None:
        path = self._out / f"{name}{ANSWER}"
        with naming_file(path, fix=_FIX):
            # Whoever brings messages is another user of this machine.
            replace_file(path, answer, mode=0o644)

    def _report(self, path: Path, message: str) -> None:
        if path.name not in self._reported:
            self._reported.add(path.name)
            report_event(logging.WARNING, f"spool: {path.name} {message}")
