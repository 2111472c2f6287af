"""Try the Debian package out: install, upgrade, remove and purge it in a clean Debian.

The agent in it enrols with a real aggregator on the loopback address, and releases; the relay in
it forwards the agent's first sketch. The bytes of ledger, queue and spool are compared before and
after each step: no step may change or lose them, except that a purge removes queue and spool.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from deploy.packages.deb import (
    CONFIG,
    NAME,
    PROGRAM,
    RELAY,
    RELAY_CONFIG,
    Debian,
    build_once,
    depends_of,
)
from deploy.packages.steps import BuildError, run

STATE = Path("var/lib/sfumato")
QUEUE = Path("var/lib/sfumato-relay")
SPOOL = Path("var/spool/sfumato")
_PATIENCE_S = 60.0
SLOT_S = 1000
PLAN = {
    "dimensions": [
        {"name": name, "unit": "m", "lower": -10.0, "upper": 10.0, "scale": 1.0} for name in "xy"
    ],
    "n_frequencies": 20,
    "epsilon": "1",
    "seed": "a package in a clean Debian",
    "least_records": 2,
    "most_records": 100,
}
MIRROR = "http://deb.debian.org/debian"


class Machine:
    """A clean Debian in a folder, which shares the network of this machine."""

    def __init__(self, root: Path, debian: Debian) -> None:
        self.root = root
        names = sorted({each.partition(" ")[0] for each in depends_of(debian)})
        include = f"--include={','.join(names)}"
        # dpkg refuses our package where one of its dependencies is missing.
        run(["mmdebstrap", "--quiet", "--variant=minbase", include, debian.name, root, MIRROR])

    def run(self, *command: str, user: str = "root") -> subprocess.CompletedProcess[str]:
        """Run a command in it."""
        with self.start(*command, user=user) as process:
            output, complaints = process.communicate()
        return subprocess.CompletedProcess(command, process.returncode, output, complaints)

    def start(self, *command: str, user: str = "root") -> subprocess.Popen[str]:
        """Start a command in it."""
        prefix = [] if user == "root" else ["setpriv", *_become(user)]
        return subprocess.Popen(
            ["chroot", self.root, *prefix, *command],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "DEBIAN_FRONTEND": "noninteractive"},
        )

    def require(self, *command: str, user: str = "root") -> str:
        """Run a command that must succeed; return what it printed."""
        done = self.run(*command, user=user)
        if done.returncode:
            raise BuildError(
                f"in the clean Debian: {' '.join(command)}\n{done.stdout}{done.stderr}"
            )
        return done.stdout + done.stderr

    def install(self, package: Path) -> str:
        """Install a package."""
        shutil.copy(package, self.root / "tmp")
        return self.require("dpkg", "--install", f"/tmp/{package.name}")

    def agent(self, *arguments: str) -> str:
        """Run the agent as its user."""
        command = ("/usr/bin/sfumato-agent", *arguments, "--config", f"/{CONFIG}")
        return self.require(*command, user="sfumato")

    def digest(self, *folders: Path) -> dict[str, str]:
        """Return the digest of each file of some folders."""
        places = [self.root / folder for folder in folders]
        files = sorted(path for place in places for path in place.rglob("*") if path.is_file())
        return {
            str(path.relative_to(self.root)): hashlib.sha256(path.read_bytes()).hexdigest()
            for path in files
        }

    def mode_of(self, path: Path) -> int:
        """Return the permissions of a file or folder."""
        return (self.root / path).stat().st_mode & 0o7777

    def has_user(self, name: str) -> bool:
        """Return whether there is a user of this name."""
        return self.run("getent", "passwd", name).returncode == 0

    def list_files(self) -> set[str]:
        """Return what lies in the folders of the program."""
        places = [self.root / PROGRAM, self.root / "usr/bin" / NAME]
        found = [path for place in places for path in (place, *place.rglob("*")) if path.exists()]
        return {str(path.relative_to(self.root)) for path in found}


def check(debian: Debian, package: Path, commit: str, revision: int) -> dict[str, Any]:
    """Try a package of this machine's architecture out; return what was found.

    Raises
    ------
    BuildError
        A step failed, or this machine cannot make a clean Debian.
    """
    if os.geteuid() != 0:
        raise BuildError("--check: must run as root, to change into a clean Debian")
    if shutil.which("mmdebstrap") is None:
        raise BuildError("--check: mmdebstrap is missing. Debian: apt install mmdebstrap")
    with tempfile.TemporaryDirectory(prefix="sfumato-deb-check-") as name:
        folder = Path(name)
        architecture = package.stem.rpartition("_")[2]
        later = build_once(debian, architecture, commit, folder / "later", revision + 1)
        machine = Machine(folder / "root", debian)
        found = _try_out(machine, folder, package, later)
    found["lintian"] = find_lintian_errors(package)
    found["ok"] = all(value for value in found["holds"].values()) and not found["lintian"]
    return found


def _try_out(machine: Machine, folder: Path, package: Path, later: Path) -> dict[str, Any]:
    from deploy.demo.cluster import Aggregator
    from sfumato.analyst import Client
    from sfumato.shared.plan import plan_from_spec

    holds: dict[str, bool] = {}
    started = time.monotonic()
    machine.install(package)
    config = machine.root / CONFIG
    state = machine.root / STATE
    holds["installed closed to others"] = (
        config.stat().st_mode & 0o777 == 0o640 and state.stat().st_mode & 0o777 == 0o700
    )
    version = machine.require("/usr/bin/sfumato-agent", "--version")
    holds["runs the compiled kernel"] = "engine: native" in version
    unit = machine.root / f"usr/lib/systemd/system/{NAME}.service"
    holds["has the unit"] = unit.read_bytes().count(b"ExecStart=/usr/bin/sfumato-agent") == 1
    _look_at_relay(machine, folder, holds)

    origin = int(time.time()) - 2 * SLOT_S - SLOT_S // 2
    (folder / "server").mkdir()
    server = Aggregator.start(folder / "server", worker=False)
    try:
        with Client(server.url, key=server.key) as client:
            window = {"kind": "time", "origin": origin, "length_s": SLOT_S}
            study = client.create_study("packages", plan_from_spec({**PLAN, "window": window}))
            _write_records(machine.root / "srv/records.csv", origin)
            config.write_text(_make_config(server.url, study.study_id), encoding="utf-8")
            written = config.read_bytes()
            token = client.create_token(study.study_id)
            machine.agent("init", "--token", token)
            machine.agent("once", "--no-send")
            _try_relay(machine, server.url, study.study_id, holds)
            holds["the relay's server has the sketch"] = (
                client.study(study.study_id).n_sketches == 1
            )
            first = json.loads(machine.agent("once", "--json"))
            # One of them the server had already: the same bytes count once.
            holds["released and sent two windows"] = first["sent"] == 2
            relayed = (machine.root / RELAY_CONFIG).read_bytes()
            before = machine.digest(STATE, QUEUE, SPOOL)
            names = ("state/agent.sqlite", "state/spent.journal", "owner.ledger")
            ledger = {f"{STATE}/{name}" for name in names}
            holds["has a ledger"] = ledger <= before.keys()
            holds["has a queue and a spool"] = f"{SPOOL}/out/first.answer" in before and any(
                name.startswith(f"{QUEUE}/") for name in before
            )

            machine.install(later)
            installed = machine.require("dpkg-query", "-W", "-f", "${Version}", NAME)
            holds["upgraded to the later build"] = f"_{installed}_" in later.name
            holds["upgrade kept every byte of state, queue and spool"] = (
                machine.digest(STATE, QUEUE, SPOOL) == before
            )
            holds["upgrade kept the configurations"] = (
                config.read_bytes() == written
                and (machine.root / RELAY_CONFIG).read_bytes() == relayed
            )
            again = json.loads(machine.agent("once", "--json"))
            holds["the upgraded agent releases nothing again"] = again["released"] == 0
            holds["the server has both sketches"] = client.study(study.study_id).n_sketches == 2

            before = machine.digest(STATE, QUEUE, SPOOL)
            machine.require("dpkg", "--remove", NAME)
            holds["removed the program"] = machine.list_files() == set()
            holds["removal kept every byte of state, queue and spool"] = (
                machine.digest(STATE, QUEUE, SPOOL) == before
            )
            holds["removal kept the configurations"] = (
                config.read_bytes() == written
                and (machine.root / RELAY_CONFIG).read_bytes() == relayed
            )

            machine.install(later)
            back = json.loads(machine.agent("once", "--json"))
            holds["the agent that is back releases nothing again"] = back["released"] == 0
            before = machine.digest(STATE)
            said = machine.require("dpkg", "--purge", NAME)
            holds["purge kept every byte of the state"] = machine.digest(STATE) == before
            holds["purge removed the relay's queue, spool, user and configuration"] = not (
                any((machine.root / path).exists() for path in (QUEUE, SPOOL, RELAY_CONFIG))
                or machine.has_user(RELAY)
            )
            holds["purge says what it kept and why"] = (
                f"kept /{STATE}" in said and "could be released again" in said
            )
            holds["purge removed the configuration"] = not config.exists()
            machine.require("rm", "-r", f"/{STATE}")
            machine.install(later)
            machine.require("dpkg", "--purge", NAME)
            holds["purge without a ledger removes folder and user"] = not (
                machine.has_user("sfumato") or state.exists()
            )
    finally:
        server.stop()
    return {
        "package": package.name,
        "upgraded_to": later.name,
        "agent": version.splitlines(),
        "sent_bytes": first["bytes_sent"],
        "seconds": round(time.monotonic() - started, 1),
        "holds": holds,
    }


def _look_at_relay(machine: Machine, folder: Path, holds: dict[str, bool]) -> None:
    """Look at the relay's unit and folders, before anybody has configured it."""
    unit = machine.root / f"usr/lib/systemd/system/{RELAY}.service"
    text = unit.read_text(encoding="utf-8")
    start = "ExecStart=/usr/bin/sfumato-agent relay --config /etc/sfumato/relay.toml\n"
    holds["has the relay's unit"] = start in text and f"User={RELAY}\n" in text
    holds["the relay is not enabled"] = not list(
        machine.root.glob(f"etc/systemd/**/{RELAY}.service")
    )
    holds["the relay's folders are closed to others"] = [
        machine.mode_of(path) for path in (RELAY_CONFIG, QUEUE, SPOOL, SPOOL / "in", SPOOL / "out")
    ] == [0o640, 0o700, 0o750, 0o2770, 0o2770]
    if shutil.which("systemd-analyze") is not None:
        # It looks for the program, which lies in the clean Debian.
        copy = folder / unit.name
        copy.write_text(text.replace("/usr/bin/", f"{machine.root}/usr/bin/"), encoding="utf-8")
        done = subprocess.run(
            ["systemd-analyze", "verify", copy], capture_output=True, text=True, check=False
        )
        holds["systemd accepts the relay's unit"] = (done.returncode, done.stderr) == (0, "")
    refused = machine.run(*_RELAYING, user=RELAY)
    holds["the relay asks for the server that its configuration lacks"] = (
        refused.returncode == 2 and "server: is missing" in refused.stderr
    )


_RELAYING = ("/usr/bin/sfumato-agent", "relay", "--config", f"/{RELAY_CONFIG}")


def _try_relay(machine: Machine, server: str, study: str, holds: dict[str, bool]) -> None:
    """Start the relay by hand; bring it a sketch by its spool, and ask it for the plan by HTTP."""
    from deploy.demo.cluster import find_port

    port = find_port()
    config = machine.root / RELAY_CONFIG
    text = config.read_text(encoding="utf-8")
    text = text.replace('# server = "https://sketches.example.org"', f'server = "{server}"')
    config.write_text(text.replace("127.0.0.1:8760", f"127.0.0.1:{port}"), encoding="utf-8")
    machine.require("adduser", "--quiet", "sfumato", RELAY)
    machine.agent("export", "--to", f"/{SPOOL}/in/first.part", "meter", "0")
    # A program that brings messages lets the group read them, and renames what is whole.
    machine.require("chmod", "0640", f"/{SPOOL}/in/first.part", user="sfumato")
    machine.require("mv", f"/{SPOOL}/in/first.part", f"/{SPOOL}/in/first.sketch", user="sfumato")
    answer = machine.root / SPOOL / "out/first.answer"
    with _running_relay(machine) as process:
        _wait_until(lambda: answer.exists() or process.poll() is not None, "the relay to answer")
        path = f"http://127.0.0.1:{port}/v1/studies/{study}/plan"
        with urllib.request.urlopen(path, timeout=_PATIENCE_S) as found:
            holds["the relay answers by HTTP"] = found.status == 200
    holds["the relay stops when it is told to"] = process.returncode == 0
    holds["the relay forwarded a sketch and brought the receipt"] = (
        " 201 " in answer.read_text(encoding="utf-8").splitlines()[0]
    )
    shown = machine.require("cat", f"/{SPOOL}/out/first.answer", user="sfumato")
    holds["a member of its group reads the answer"] = " 201 " in shown


@contextmanager
def _running_relay(machine: Machine) -> Iterator[subprocess.Popen[str]]:
    process = machine.start(*_RELAYING, user=RELAY)
    try:
        yield process
    finally:
        process.terminate()
        _, complaints = process.communicate(timeout=_PATIENCE_S)
    if process.returncode:
        raise BuildError(f"in the clean Debian: {' '.join(_RELAYING)}\n{complaints}")


def _wait_until(holds: Callable[[], bool], what: str) -> None:
    ends_at = time.monotonic() + _PATIENCE_S
    while not holds():
        if time.monotonic() > ends_at:
            raise BuildError(f"in the clean Debian: waited {_PATIENCE_S:.0f} s for {what}")
        time.sleep(0.1)


def _become(user: str) -> list[str]:
    """Return the options that make a process that of a user; signals then reach it directly."""
    return [f"--reuid={user}", f"--regid={user}", "--init-groups", "--"]


def _write_records(path: Path, origin: int) -> None:
    """Write eight records in each of two slots that are over, and two in the open one."""
    lines = ["time,x,y"]
    for i in range(18):
        slot, place = divmod(i, 8)
        lines.append(f"{origin + slot * SLOT_S + place},{i / 4 - 2},{2 - i / 4}")
    path.write_text("\n".join([*lines, ""]), encoding="utf-8")


def _make_config(server: str, study: str) -> str:
    return f"""\
state_dir = "/{STATE}/state"
server = "{server}"
study = "{study}"
[budget]
per_record = "1"
ledger = "/{STATE}/owner.ledger"
[[streams]]
name = "meter"
[streams.source]
kind = "csv"
path = "/srv/records.csv"
timestamp = "time"
timestamp_format = "unix"
"""


def find_lintian_errors(package: Path) -> list[str] | None:
    """Return the errors that lintian finds; None where it is not installed."""
    if shutil.which("lintian") is None:
        return None
    command: Sequence[str | Path] = ["lintian", "--allow-root", "--fail-on", "none", package]
    lines = run(command).stdout.splitlines()
    return [line for line in lines if line.startswith("E:")]
