"""The installer of the device agent, run in a folder of its own in the place of the root.

The packages that the agent needs are lent by this environment, so that nothing is fetched.
"""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from sfumato.device_agent.agent.owners_ledger import locate_ledger
from sfumato.device_agent.cli.sample import SAMPLE
from sfumato.device_agent.settings.agent_settings import load_settings
from sfumato.shared.spending.places import ROOTS_LEDGER
from sfumato.shared.wire import EnrolmentCode, encode_enrolment_code
from tests.architecture.test_wheel import build_wheel, copy_tree

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "deploy" / "install-agent.sh"
ENVIRONMENT = {
    **os.environ,
    "PIP_NO_DEPS": "1",
    "PIP_NO_INDEX": "1",
    "PYTHONPATH": sysconfig.get_path("purelib"),
}

FIRST_CONFIG = "first.toml"
"""The configuration that the first installation wrote."""

OF_DEVICES = re.compile(rb"sfumato/(shared/|device_agent/|[^/]+$|[^/]+,)|sfumato-[^/]*/")

Install = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel of the rooms that a device needs: pip compiles all that it installs."""
    tree = copy_tree(tmp_path_factory.mktemp("source"))
    whole = build_wheel(tree, tree / "dist", CC="/no/compiler")
    small = tree / whole.name
    with zipfile.ZipFile(whole) as source, zipfile.ZipFile(small, "w") as target:
        for name in source.namelist():
            data = source.read(name)
            if name.endswith("/RECORD"):
                data = b"".join(line for line in data.splitlines(True) if OF_DEVICES.match(line))
            if OF_DEVICES.match(name.encode()):
                target.writestr(name, data)
    return small


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "root"
    root.mkdir()
    return root


def make_install(root: Path, wheel: Path) -> Install:
    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [str(SCRIPT), "--root", str(root), "--from", str(wheel)]
        command += ["--python", sys.executable, *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=False, env=ENVIRONMENT)

    return run


@pytest.fixture
def install(root: Path, wheel: Path) -> Install:
    return make_install(root, wheel)


@pytest.fixture(scope="module")
def installed_once(tmp_path_factory: pytest.TempPathFactory, wheel: Path) -> Path:
    root = tmp_path_factory.mktemp("installed")
    done = make_install(root, wheel)()
    assert done.returncode == 0, done.stderr
    shutil.copy2(root / "etc/sfumato/agent.toml", root / FIRST_CONFIG)
    return root


@pytest.fixture
def installed(installed_once: Path) -> Path:
    """Return a root with the program and no configuration: the first installation takes longest."""
    (installed_once / "etc/sfumato/agent.toml").unlink(missing_ok=True)
    return installed_once


def files(root: Path) -> list[Path]:
    return sorted(root.rglob("*"))


def test_a_dry_run_says_what_it_would_do_and_changes_nothing(root: Path, install: Install) -> None:
    done = install("--dry-run")
    assert done.returncode == 0, done.stderr
    assert f"would run: install -d -m 0700 {root}/var/lib/sfumato" in done.stdout
    assert f"would write: {root}/etc/sfumato/agent.toml" in done.stdout
    assert files(root) == []


def test_it_installs_by_debians_layout_and_again_without_harm(installed: Path, wheel: Path) -> None:
    root, state = installed, installed / "var/lib/sfumato"
    config = root / "etc/sfumato/agent.toml"
    shutil.copy2(root / FIRST_CONFIG, config)
    assert config.read_text() == SAMPLE.replace(
        'state_dir = "state" ', 'state_dir = "/var/lib/sfumato/state"'
    ).replace("# ledger = ", "ledger = ")
    assert (config.stat().st_mode & 0o777, state.stat().st_mode & 0o777) == (0o640, 0o700)
    assert os.readlink(root / "usr/bin/sfumato-agent") == "/opt/sfumato/bin/sfumato-agent"
    command = (root / "opt/sfumato/bin/sfumato-agent").read_text()
    assert command.startswith("#!/opt/sfumato/bin/python")
    unit = root / "etc/systemd/system/sfumato-agent.service"
    assert unit.read_text() == (SCRIPT.parent / "systemd" / unit.name).read_text()
    assert list((root / "opt/sfumato").rglob("device_agent/**/*.opt-2.pyc"))

    config.write_text("# mine\n")
    (state / "agent.sqlite").write_text("state")
    done = make_install(root, wheel)()
    assert done.returncode == 0, done.stderr
    assert f"kept: {config}" in done.stdout
    assert (config.read_text(), (state / "agent.sqlite").read_text()) == ("# mine\n", "state")


def test_an_installation_without_a_compiler_works_and_says_so(wheel: Path, tmp_path: Path) -> None:
    target = tmp_path / "target"
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(target), str(wheel)]
    subprocess.run(pip, check=True, env=ENVIRONMENT)
    done = subprocess.run(
        [sys.executable, target / "bin" / "sfumato", "--version"],
        capture_output=True, text=True, check=False, cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(target)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    engine = done.stdout.splitlines()[-1]
    assert engine.startswith(
        "engine: numpy: the kernel was not compiled when Sfumato was installed"
    )
    assert "Debian: gcc, python3-dev" in engine


CODE = EnrolmentCode(server="https://sketches.example.org", study=bytes(range(32)), token="sfe_it")


def test_with_a_code_the_configuration_names_server_and_study_and_no_token(
    installed: Path, wheel: Path
) -> None:
    done = make_install(installed, wheel)("--code", encode_enrolment_code(CODE))
    assert done.returncode == 0, done.stderr
    config = installed / "etc/sfumato/agent.toml"
    settings = load_settings(config, {})
    assert (settings.server, settings.study) == (CODE.server, CODE.study)
    assert settings.state_dir == Path("/var/lib/sfumato/state")
    assert locate_ledger(settings) == ROOTS_LEDGER
    assert CODE.token not in config.read_text()
    # The device enrols as README says, with what the command line knows.
    said = "sfumato-agent init --config /etc/sfumato/agent.toml --code CODE"
    assert said in done.stdout
    assert "--token" not in done.stdout
    deploy = SCRIPT.parent
    assert said in (deploy.parent / "docs" / "how-to" / "agent.md").read_text()
    assert said in (deploy / "systemd/sfumato-agent.service").read_text()


def test_a_code_that_was_not_copied_whole_leaves_no_configuration(
    root: Path, install: Install, installed: Path, wheel: Path
) -> None:
    assert install("--code", "sfe_token").returncode == 2
    assert files(root) == []
    done = make_install(installed, wheel)("--code", encode_enrolment_code(CODE)[:-3])
    assert done.returncode == 2
    assert "--code: there is no configuration yet" in done.stderr
    assert list((installed / "etc/sfumato").iterdir()) == []


def test_what_is_there_and_is_not_its_own_is_never_replaced(root: Path, install: Install) -> None:
    (root / "opt/sfumato").mkdir(parents=True)
    (root / "usr/bin").mkdir(parents=True)
    (root / "usr/bin/sfumato-agent").write_text("mine")
    before = files(root)
    done = install()
    assert done.returncode == 2
    assert "opt/sfumato exists, but not from this script" in done.stderr
    assert "usr/bin/sfumato-agent exists, but not from this script" in done.stderr
    assert "nothing was changed" in done.stderr
    assert files(root) == before


def test_every_problem_is_told_at_once(root: Path, install: Install, tmp_path: Path) -> None:
    old = tmp_path / "python-old"
    old.write_text("#!/bin/sh\nexit 1\n")
    old.chmod(0o755)
    done = install("--python", str(old), "--from", str(tmp_path / "absent.whl"))
    assert done.returncode == 2
    assert "is older than Python 3.11" in done.stderr
    assert "--from: there is no file" in done.stderr
    assert files(root) == []


@pytest.mark.parametrize("arguments", [["--frm", "x"], ["--root"], ["--extra"]])
def test_a_wrong_option_is_named(arguments: list[str]) -> None:
    done = subprocess.run([SCRIPT, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert f"install-agent: error: {arguments[0]}" in done.stderr


@pytest.mark.skipif(shutil.which("shellcheck") is None, reason="shellcheck is not here")
def test_shellcheck_finds_nothing() -> None:
    done = subprocess.run(["shellcheck", SCRIPT], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")
