"""Surroundings of sensors in C: a secure element with the key of each, and a relay."""

from __future__ import annotations

import socket
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from deploy.cluster_test.engine import ClusterError
from deploy.demo.cluster import find_port

_START_S = 60.0


class Element:
    """A secure element: it signs what comes over a socket, two bytes of length before it."""

    def __init__(self, key: Ed25519PrivateKey) -> None:
        self._key, self._folder = key, tempfile.TemporaryDirectory()
        # A socket's path is short, and a folder of the trial may not be.
        self.path = str(Path(self._folder.name) / "element")
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.bind(self.path)
        self._socket.listen()
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._folder.cleanup()
        self._thread.join()

    def _serve(self) -> None:
        while True:
            try:
                line, _ = self._socket.accept()
            except OSError:
                return
            with line, line.makefile("rwb") as stream:
                size = int.from_bytes(stream.read(2), "big")
                stream.write(self._key.sign(stream.read(size)))


@dataclass(kw_only=True)
class Relay:
    """A running ``sfumato-agent relay``, which forwards over HTTPS what sensors send over HTTP."""

    process: subprocess.Popen[bytes]
    port: int

    @classmethod
    def start(cls, folder: Path, url: str) -> Relay:
        """Start a relay on the loopback address.

        Raises
        ------
        ClusterError
            It does not listen.
        """
        port, log = find_port(), folder / "relay.log"
        config = folder / "relay.toml"
        config.write_text(
            f'state_dir = "{folder}/queue"\nserver = "{url}"\n\n'
            f'[http]\nlisten = "127.0.0.1:{port}"\n'
        )
        agent = Path(sys.executable).with_name("sfumato-agent")
        with log.open("wb") as output:
            process = subprocess.Popen(
                [agent, "relay", "--config", config], stdout=output, stderr=subprocess.STDOUT
            )
        end = time.monotonic() + _START_S
        while process.poll() is None and time.monotonic() < end:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    return cls(process=process, port=port)
            time.sleep(0.1)
        process.kill()
        raise ClusterError(f"the relay does not listen: {log.read_text()[-1000:]}")

    def stop(self) -> None:
        """End it."""
        self.process.terminate()
        self.process.wait()
