"""From nothing to a first accepted sketch, with the four commands that a new user types."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

from analyst import Client
from analyst.planning.files import read_plan
from deploy.demo.cluster import BIN, Aggregator, run_command

ROOT = Path(__file__).parents[2]
COMMANDS = """\
sfumato-agent init --print-config --code "$CODE" --csv jfk.csv --timestamp time_hour \
 --label airport=JFK --column temperature=temp --column "dew point=dewp" \
 --column "wind speed=wind_speed" --column visibility=visib > agent.toml
sfumato-agent init --code "$CODE"
sfumato-agent check
sfumato-agent once
"""


def type_in(command: str, folder: Path, code: str) -> str:
    """Run a line in a shell as it stands, in a folder."""
    path = f"{BIN}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["sh", "-euc", command],
        cwd=folder,
        env={**os.environ, "PATH": path, "CODE": code},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{command}: {done.stderr}{done.stdout}"
    return done.stdout


def test_four_commands_lead_from_nothing_to_a_first_accepted_sketch(tmp_path: Path) -> None:
    device = tmp_path / "device"
    device.mkdir()
    (device / "jfk.csv").write_bytes((ROOT / "deploy/demo/data/jfk.csv").read_bytes())
    commands = COMMANDS.splitlines()
    assert len(commands) == 4
    server = Aggregator.start(tmp_path)
    try:
        with Client(server.url, key=server.key) as client:
            plan = read_plan(ROOT / "deploy/demo/plan.toml")
            study = str(client.create_study("weather", plan)["study_id"])
            token = ["sfumato", "study", "token", study, "--code", "--url", server.url]
            code = run_command(*token, "--key", server.key).strip()
            assert re.fullmatch(r"[0-9A-Z $%*+\-./:]+", code)
            said = [type_in(command, device, code) for command in commands]
            assert "is enrolled in study" in said[1]
            assert "FAIL" not in said[2]
            assert client.study(study)["n_sketches"] == 4
            assert client.study(study)["n_records"] > 8000
            # The second time they say so, and nothing is sent or spent again.
            assert "was enrolled already" in type_in(commands[1], device, code)
            type_in(commands[3], device, code)
            assert client.study(study)["n_sketches"] == 4
    finally:
        server.stop()
