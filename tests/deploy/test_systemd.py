"""The units of servers and devices: what they close, and that systemd accepts them."""

import shutil
import subprocess
from pathlib import Path

import pytest

UNITS = Path(__file__).parents[2] / "deploy/systemd"
SERVERS = ("sfumato-server", "sfumato-worker", "sfumato-helper")


def read_hardening(name: str) -> set[str]:
    lines = (UNITS / f"{name}.service").read_text().splitlines()
    return set(lines[lines.index("ProtectSystem=strict") :])


@pytest.mark.parametrize("name", SERVERS)
def test_a_server_is_closed_as_the_agent_is_and_its_files_are_its_own(name: str) -> None:
    missing = read_hardening("sfumato-agent") - read_hardening(name)
    assert missing == {"ProtectHome=read-only"}
    text = (UNITS / f"{name}.service").read_text()
    assert "\nUMask=0077\n" in text
    assert "\nStateDirectoryMode=0700\n" in text
    assert "\nProtectHome=yes\n" in text


@pytest.mark.parametrize("name", SERVERS)
@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
def test_systemd_accepts_the_unit(name: str, tmp_path: Path) -> None:
    copy = tmp_path / f"{name}.service"
    text = (UNITS / copy.name).read_text()
    copy.write_text(text.replace("/usr/bin/sfumato", "/bin/true"))
    done = subprocess.run(
        ["systemd-analyze", "verify", copy], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
