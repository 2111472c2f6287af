"""The device agent by the command that its owner runs."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sfumato.analyst import Client
from sfumato.device_agent.cli import main
from tests.commands import run_inside

CONFIG = """\
state_dir = "{state}"
server = "{url}"
study = "{study_id}"

[labels]
site = "{site}"

[budget]
per_record = "1000000000"

[[streams]]
name = "points"

[streams.source]
kind = "csv"
path = "{data}"
timestamp = "time"
timestamp_format = "unix"
"""


@dataclass(frozen=True, kw_only=True)
class Agent:
    """An enrolled agent with its configuration file."""

    config: Path

    def run(self, verb: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run one command of the agent."""
        return run_inside(main, [verb, "--config", str(self.config), *arguments])

    def once(self) -> dict[str, Any]:
        """Run ``once`` and return its report."""
        done = self.run("once", "--json")
        assert done.returncode == 0, done.stderr
        report: dict[str, Any] = json.loads(done.stdout)
        return report


def make_agent(
    folder: Path, client: Client, study_id: str, *, data: Path, site: str = "north"
) -> Agent:
    """Write the configuration of an agent and enrol it."""
    folder.mkdir(parents=True)
    agent = Agent(config=folder / "agent.toml")
    state = folder / "state"
    agent.config.write_text(
        CONFIG.format(state=state, url=client.url, study_id=study_id, site=site, data=data),
        encoding="utf-8",
    )
    done = agent.run("init", "--token", client.create_token(study_id))
    assert done.returncode == 0, done.stderr
    return agent
