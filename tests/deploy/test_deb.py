"""Parts of building the Debian package; ``make deb ARGS=--check`` installs what it builds."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from deploy.packages.deb import (
    DEBIANS,
    HERE,
    NAME,
    PROGRAM,
    SCRIPTS,
    leave_out,
    make_config,
    pack,
    read_lock,
    read_version,
    require_machine,
    write_control,
)
from deploy.packages.steps import ROOT, BuildError
from deploy.packages.wheels import TARGETS
from sfumato.device_agent.agent.owners_ledger import locate_ledger
from sfumato.device_agent.settings.agent_settings import load_settings
from sfumato.device_agent.settings.relay_settings import load_relay_settings
from sfumato.shared import __version__
from sfumato.shared.errors import ConfigError
from sfumato.shared.spending.places import ROOTS_LEDGER

AMD64 = next(target for target in TARGETS if target.machine == "x86_64")
BOOKWORM = DEBIANS["bookworm"]


@pytest.mark.parametrize("debian", DEBIANS)
def test_each_library_is_pinned_with_the_digest_of_its_wheels(debian: str) -> None:
    found = read_lock(DEBIANS[debian].lock)
    assert {"numpy", "cbor2", "cryptography", "httpx"} <= found.keys()
    # Compiled for each architecture.
    assert len(found["numpy"][1]) == len(found["cryptography"][1]) == 2


def test_a_library_without_a_digest_is_refused(tmp_path: Path) -> None:
    lock = tmp_path / "bookworm.lock"
    lock.write_text("# a comment\nnumpy==2.4.6\n")
    with pytest.raises(BuildError, match=r"bookworm\.lock: 'numpy==2\.4\.6' is no pinned library"):
        read_lock(lock)


def make_library(path: Path, machine: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"\x7fELF".ljust(18, b"\0") + machine.to_bytes(2, "little"))


def test_a_library_of_another_machine_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BuildError, match="the kernel was not compiled"):
        require_machine(tmp_path, AMD64)
    make_library(tmp_path / "shared/core/engines/_native.abi3.so", 62)
    make_library(tmp_path / "numpy.libs/libgfortran.so.5", 62)
    require_machine(tmp_path, AMD64)
    make_library(tmp_path / "cbor2/_cbor2.so", 183)
    with pytest.raises(BuildError, match=r"cbor2/_cbor2\.so: is not of x86_64"):
        require_machine(tmp_path, AMD64)


def test_tests_and_headers_are_left_out_and_what_runs_stays(tmp_path: Path) -> None:
    kept = ("numpy/typing/__init__.py", "numpy/__init__.py", "httpx-0.28.1.dist-info/METADATA")
    left = (
        *("numpy/ma/tests/test_core.py", "numpy/f2py/rules.py", "numpy/_core/include/numpy.h"),
        *("numpy/random/_generator.pyi", "bin/httpx", "httpx-0.28.1.dist-info/RECORD"),
    )
    for name in (*kept, *left):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    leave_out(tmp_path)
    files = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()}
    assert files == set(kept)


def test_the_configuration_of_the_package_names_the_folder_of_its_state_and_a_ledger_outside(
    tmp_path: Path,
) -> None:
    config = tmp_path / "agent.toml"
    study = f'server = "https://sketches.example.org"\nstudy = "{"0" * 64}"\n'
    config.write_text(study + make_config(ROOT))
    settings = load_settings(config, {})
    assert settings.state_dir == Path("/var/lib/sfumato/state")
    assert locate_ledger(settings) == ROOTS_LEDGER
    assert read_version(ROOT) == __version__


def test_the_configuration_of_the_relay_lacks_a_server_and_nothing_else(tmp_path: Path) -> None:
    text = (HERE / "debian/relay.toml").read_text()
    config = tmp_path / "relay.toml"
    config.write_text(text)
    with pytest.raises(ConfigError, match=r"^server: is missing"):
        load_relay_settings(config)
    # What stands behind # is right too.
    examples = re.sub(r"(?m)^# (?=\w+ = |\[)", "", text).replace("64 hexadecimal digits", "5" * 64)
    config.write_text(examples)
    settings = load_relay_settings(config)
    assert settings.state_dir == Path("/var/lib/sfumato-relay")
    assert settings.server == "https://sketches.example.org"
    assert settings.spool is not None
    assert settings.mqtt is not None


@pytest.mark.skipif(shutil.which("dpkg-deb") is None, reason="dpkg is not here")
def test_the_same_files_are_the_same_package_whenever_and_by_whomever(tmp_path: Path) -> None:
    packages = []
    for name, umask in (("first", 0o022), ("second", 0o077)):
        before = os.umask(umask)
        try:
            root = tmp_path / name
            for path in (PROGRAM / "sfumato/__init__.py", Path("usr/bin", NAME)):
                (root / path).parent.mkdir(parents=True, exist_ok=True)
                (root / path).write_text("text\n")
            (root / "usr/bin" / NAME).chmod(0o755)
            (root / "DEBIAN").mkdir()
            write_control(root, BOOKWORM, "arm64", "0.1.0-1~deb12")
            (root / "DEBIAN/control").chmod(0o644)
            (root / "DEBIAN/md5sums").chmod(0o644)
            packages.append(pack(root, tmp_path / f"{name}.deb", 1_800_000_000))
        finally:
            os.umask(before)
    first, second = (package.read_bytes() for package in packages)
    assert first == second
    shown = subprocess.run(
        ["dpkg-deb", "--field", packages[0]], capture_output=True, text=True, check=True
    ).stdout
    assert "Architecture: arm64\n" in shown
    assert "Depends: python3 (>= 3.11), python3 (<< 3.12), " in shown


def test_removing_and_purging_say_and_do_nothing_to_a_ledger() -> None:
    for script in SCRIPTS:
        lines = (HERE / "debian" / script).read_text().splitlines()
        # The only lines with `rm -r` are what a person is told; the first spares the ledger.
        doing = [line for line in lines if "$state" in line and "rm " in line]
        assert [line.strip() for line in doing] in (
            [],
            ["rm -r $state/state", "rm -r $state && deluser --system sfumato"],
        )


@pytest.mark.skipif(shutil.which("shellcheck") is None, reason="shellcheck is not here")
def test_shellcheck_finds_nothing_in_the_scripts() -> None:
    scripts = [HERE / "debian" / script for script in SCRIPTS]
    done = subprocess.run(["shellcheck", *scripts], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")
