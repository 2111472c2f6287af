"""The systemd units; what is checked needs systemd's own tool."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

UNITS = Path(__file__).parents[2] / "deploy" / "systemd"
UNIT, RELAY = UNITS / "sfumato-agent.service", UNITS / "sfumato-relay.service"


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not here")
@pytest.mark.parametrize("path", [UNIT, RELAY], ids=lambda path: path.stem)
def test_systemd_accepts_the_unit_without_a_word(tmp_path: Path, path: Path) -> None:
    # It looks for the program too, which is where this interpreter has put it.
    text = path.read_text().replace("/usr/bin/sfumato-agent", sys.executable)
    unit = tmp_path / path.name
    unit.write_text(text)
    done = subprocess.run(
        ["systemd-analyze", "verify", str(unit)], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not here")
def test_a_wrong_unit_is_noticed(tmp_path: Path) -> None:
    unit = tmp_path / UNIT.name
    unit.write_text(UNIT.read_text().replace("Type=notify", "Type=nonsense"))
    done = subprocess.run(
        ["systemd-analyze", "verify", str(unit)], capture_output=True, text=True, check=False
    )
    assert "nonsense" in done.stderr


def test_the_unit_runs_the_daemon_and_hangs_it_up_to_reload() -> None:
    lines = UNIT.read_text().splitlines()
    assert "ExecStart=/usr/bin/sfumato-agent run --config /etc/sfumato/agent.toml" in lines
    assert "ExecReload=/bin/kill -HUP $MAINPID" in lines
    assert "Type=notify" in lines


def test_the_unit_of_a_relay_runs_it_until_it_is_stopped() -> None:
    lines = RELAY.read_text().splitlines()
    assert "ExecStart=/usr/bin/sfumato-agent relay --config /etc/sfumato/relay.toml" in lines
    assert "Type=notify" in lines
