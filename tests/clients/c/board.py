"""A microcontroller as a process, with its flash in a file and its key outside."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from sfumato.shared.wire import device_id_of


class PowerCutError(Exception):
    """The process ended in the middle of a command."""


@dataclass(kw_only=True)
class Board:
    """The process of `device.c`.

    Parameters
    ----------
    folder
        Of the flash.
    command
        The program, after its emulator if it has one.
    public_key, sign
        Of the secure element.
    power
        Operations of the flash until the power fails, in the middle of the last; 0: never.
    """

    folder: Path
    command: Sequence[str]
    public_key: bytes
    sign: Callable[[bytes], bytes]
    power: int = 0
    process: subprocess.Popen[str] | None = None

    @property
    def device_id(self) -> bytes:
        return device_id_of(self.public_key)

    @property
    def flash(self) -> Path:
        return self.folder / "flash"

    def switch_on(self) -> None:
        if not self.flash.exists():
            self.flash.write_bytes(b"\xff" * 65536)
        words = [*self.command, str(self.flash), self.device_id.hex(), "points", str(self.power)]
        self.process = subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def switch_off(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.communicate()

    def call(self, *words: object) -> list[str]:
        """Give a command, serve what it needs, and return its answer."""
        self._write(" ".join(map(str, words)))
        while True:
            name, *rest = self._read().split()
            if name == "sign":
                self._write(self.sign(bytes.fromhex(rest[0])).hex())
            elif name == "random":
                self._write(os.urandom(int(rest[0])).hex())
            else:
                return [name, *rest]

    def _write(self, line: str) -> None:
        assert self.process is not None
        assert self.process.stdin is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def _read(self) -> str:
        assert self.process is not None
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise PowerCutError
        return line
