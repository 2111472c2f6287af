"""A device's files, and its use cases without the command: for tests that run them often."""

import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

from sfumato.device_agent.agent.enrol import enrol_device
from sfumato.device_agent.agent.once import OnceReport, run_once
from sfumato.device_agent.settings.agent_settings import Settings, load_settings
from sfumato.shared.spending.places import LEDGER_VARIABLE
from tests.device_agent.conftest import Files
from tests.device_agent.serving import TOKEN, Server
from tests.ledgers import use_new_ledger


def keep(state: Path, kept: Path) -> None:
    """Copy a state folder, and the owner's ledger beside the copy."""
    shutil.copytree(state, kept)
    shutil.copy(os.environ[LEDGER_VARIABLE], f"{kept}.ledger")


def put_back(kept: Path, state: Path) -> None:
    """Put a state folder back to what a copy of it holds, where no owner's ledger could tell.

    The ledger is put back too if it was kept; otherwise it is as on another machine.
    """
    shutil.rmtree(state)
    shutil.copytree(kept, state)
    saved = Path(f"{kept}.ledger")
    if not saved.exists():
        use_new_ledger()
        return
    ledger = Path(os.environ[LEDGER_VARIABLE])
    ledger.write_bytes(saved.read_bytes())
    Path(f"{ledger}-journal").unlink(missing_ok=True)


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
