"""A device's files, and its use cases without the command: for tests that run them often."""

import shutil
import time
from collections.abc import Callable
from pathlib import Path

from sfumato.device_agent.agent.enrol import enrol_device
from sfumato.device_agent.agent.once import OnceReport, run_once
from sfumato.device_agent.settings.agent_settings import Settings, load_settings
from tests.device_agent.conftest import Files
from tests.device_agent.serving import TOKEN, Server


def put_back(kept: Path, state: Path) -> None:
    """Put a state folder back to what a copy of it holds."""
    shutil.rmtree(state)
    shutil.copytree(kept, state)


class Driver(Files):
    """A device with a clock of its own."""

    def __init__(
        self,
        folder: Path,
        server: Server,
        *,
        clock: Callable[[], float] = time.time,
        **settings: str,
    ) -> None:
        super().__init__(folder, server)
        self.clock = clock
        self.write_config(**settings)  # type: ignore[arg-type]

    @property
    def settings(self) -> Settings:
        return load_settings(self.config, {})

    def enrol(self) -> None:
        enrol_device(self.settings, token=TOKEN, clock=self.clock)

    def once(self, *, send: bool = True) -> OnceReport:
        return run_once(self.settings, send=send, send_for_s=0.0, clock=self.clock)
