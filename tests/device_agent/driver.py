"""The use cases without the command: for tests that run them thousands of times."""

import time
from collections.abc import Callable
from pathlib import Path

from sfumato.device_agent.agent.enrol import enrol_device
from sfumato.device_agent.agent.once import OnceReport, run_once
from sfumato.device_agent.settings.agent_settings import Settings, load_settings
from sfumato.device_agent.store.key import key_folder
from tests.device_agent.serving import TOKEN, Server

HOUR = 3600
BASE = 1_700_000_000 // HOUR * HOUR


class Driver:
    """A configuration, a file of records, and a clock of one's own."""

    def __init__(
        self,
        folder: Path,
        server: Server,
        *,
        budget: str = 'per_record = "1"',
        source: str = "",
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.folder = folder
        self.server = server
        self.clock = clock
        self.records = folder / "records.csv"
        self.state = folder / "state"
        self.config = folder / "agent.toml"
        self.config.write_text(
            f'state_dir = "state"\nserver = "{server.url}"\nstudy = "{server.study.hex()}"\n'
            f"[check]\nunseen = true\n[budget]\n{budget}\n"
            '[[streams]]\nname = "meter"\n[streams.source]\n'
            f'kind = "csv"\npath = "records.csv"\ntimestamp = "time"\n'
            f'timestamp_format = "unix"\n{source}\n'
        )
        self.records.write_text("time,x,y\n")

    @property
    def keys(self) -> Path:
        return key_folder(self.state, self.server.study)

    @property
    def settings(self) -> Settings:
        return load_settings(self.config, {})

    def enrol(self) -> None:
        enrol_device(self.settings, token=TOKEN, clock=self.clock)

    def append(self, *slots: int, lines: int = 1) -> None:
        with self.records.open("a") as file:
            for slot in slots:
                for i in range(lines):
                    file.write(f"{BASE + slot * HOUR + i},{i % 7 - 3}.5,{slot % 5}\n")

    def once(self, *, send: bool = True) -> OnceReport:
        return run_once(self.settings, send=send, send_for_s=0.0, clock=self.clock)
