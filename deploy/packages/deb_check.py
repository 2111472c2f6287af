"""Try the Debian package out: install, upgrade, remove and purge it in a clean Debian.

The agent in it enrols with a real aggregator on the loopback address, and releases. The bytes of
its ledger are compared before and after each step: no step may change or lose them.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from deploy.packages.deb import CONFIG, NAME, PROGRAM, Debian, build_once, depends_of
from deploy.packages.steps import BuildError, run

STATE = Path("var/lib/sfumato")
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
        prefix = [] if user == "root" else ["runuser", "-u", user, "--"]
        return subprocess.run(
            ["chroot", self.root, *prefix, *command],
            capture_output=True,
            text=True,
            check=False,
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

    def digest_state(self) -> dict[str, str]:
        """Return the digest of each file of the agent's state."""
        files = sorted(path for path in (self.root / STATE).rglob("*") if path.is_file())
        return {
            str(path.relative_to(self.root / STATE)): hashlib.sha256(path.read_bytes()).hexdigest()
            for path in files
        }

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
    from analyst import Client
    from deploy.demo.cluster import Aggregator
    from shared.plan import plan_from_spec

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
            first = json.loads(machine.agent("once", "--json"))
            holds["released and sent two windows"] = (first["released"], first["sent"]) == (2, 2)
            before = machine.digest_state()
            holds["has a ledger"] = {"state/agent.sqlite", "state/spent.journal"} <= before.keys()

            machine.install(later)
            installed = machine.require("dpkg-query", "-W", "-f", "${Version}", NAME)
            holds["upgraded to the later build"] = f"_{installed}_" in later.name
            holds["upgrade kept every byte of the state"] = machine.digest_state() == before
            holds["upgrade kept the configuration"] = config.read_bytes() == written
            again = json.loads(machine.agent("once", "--json"))
            holds["the upgraded agent releases nothing again"] = again["released"] == 0
            holds["the server has both sketches"] = client.study(study.study_id).n_sketches == 2

            before = machine.digest_state()
            machine.require("dpkg", "--remove", NAME)
            holds["removed the program"] = machine.list_files() == set()
            holds["removal kept every byte of the state"] = machine.digest_state() == before
            holds["removal kept the configuration"] = config.read_bytes() == written

            machine.install(later)
            back = json.loads(machine.agent("once", "--json"))
            holds["the agent that is back releases nothing again"] = back["released"] == 0
            before = machine.digest_state()
            said = machine.require("dpkg", "--purge", NAME)
            holds["purge kept every byte of the state"] = machine.digest_state() == before
            holds["purge says what it kept and why"] = (
                f"kept /{STATE}" in said and "could be released again" in said
            )
            holds["purge removed the configuration"] = not config.exists()
            machine.require("rm", "-r", f"/{STATE}")
            machine.install(later)
            machine.require("dpkg", "--purge", NAME)
            gone = machine.run("getent", "passwd", "sfumato").returncode != 0
            holds["purge without a ledger removes folder and user"] = gone and not state.exists()
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
