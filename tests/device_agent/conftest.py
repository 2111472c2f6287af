import json
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from sfumato.device_agent.agent.membership import digest_reading
from sfumato.device_agent.cli import main
from sfumato.device_agent.settings.agent_settings import load_settings
from sfumato.device_agent.store.joined import Joined, save_joined
from sfumato.device_agent.store.key import key_folder
from sfumato.shared.plan import (
    Dimension,
    LogTransform,
    PlanSpec,
    SketchPlan,
    WindowRule,
    create_plan,
)
from tests.device_agent.serving import TOKEN, Server, running
from tests.shared.plan.looks import LOOK

HOUR = 3600
BASE = 1_700_000_000 // HOUR * HOUR
"""Long ago, so that every slot is over by the clock."""


@cache
def make_plan(*, window: WindowRule | None = None, **choices: Any) -> SketchPlan:
    settings: dict[str, Any] = {
        "dimensions": tuple(
            Dimension(name=name, unit="1", lower=-10.0, upper=10.0, scale=1.0) for name in "xy"
        ),
        "n_frequencies": 8,
        "seed": bytes(range(32)).hex(),
        "epsilon": Fraction(1),
        "most_records": 1000,
        "least_records": 1,
    }
    return create_plan(
        PlanSpec(
            window=window or WindowRule(kind="time", origin=0, length_s=HOUR),
            **{**settings, **choices},
        )
    )


NUMBERS = tuple(Dimension(name=name, unit="1", lower=-10.0, upper=10.0) for name in "xy")
COLUMNS = (
    Dimension(
        name="x",
        unit="1",
        lower=-10.0,
        upper=10.0,
        transform=LogTransform(resolution=0.5),
        missing=1.5,
    ),
    Dimension(name="y", unit="1", levels=("a", "é", "1, or 2")),
)
"""A number on a logarithmic scale with a value for missing ones, and text."""
_OTHERS: dict[str, dict[str, Any]] = {
    "histogram": {"statistic": "histogram", "dimensions": NUMBERS, "bins_log2": 4},
    "grid": {"statistic": "grid", "dimensions": NUMBERS, "cells": (5, 4)},
    "moments": {"statistic": "moments", "dimensions": NUMBERS, "norm_steps": 2500},
    "clusters": {
        "statistic": "clusters",
        "dimensions": NUMBERS,
        "clusters": replace(LOOK, clusters_per_sketch=1),
    },
    "columns": {"statistic": "grid", "dimensions": COLUMNS, "cells": (5, 2, 2, 2)},
}


def make_other_plan(statistic: str, **choices: Any) -> SketchPlan:
    """Make a plan of another statistic than features; ``columns`` is a grid of all kinds."""
    return make_plan(**{"n_frequencies": None, "seed": None, **_OTHERS[statistic], **choices})


@pytest.fixture
def plan() -> SketchPlan:
    return make_plan()


@pytest.fixture
def server(plan: SketchPlan) -> Iterator[Server]:
    with running(plan) as server:
        yield server


class Files:
    """A configuration, and a file of records."""

    def __init__(self, folder: Path, server: Server) -> None:
        self.folder = folder
        self.server = server
        self.config = folder / "agent.toml"
        self.records = folder / "records.csv"
        self.state = folder / "state"
        self.records.write_text("time,x,y\n")

    def write_config(
        self,
        *,
        per_record: str = "1",
        lifetime: str | None = None,
        delta: str | None = None,
        path: str = "records.csv",
        unseen: bool = True,
        source: str = "",
        **top: str,
    ) -> None:
        settings = {"state_dir": "state", "server": self.server.url, "study": self.study, **top}
        lines = [f'{key} = "{value}"' for key, value in settings.items()]
        # There is no record yet when most of these devices enrol.
        lines += ["[check]", f"unseen = {'true' if unseen else 'false'}"]
        lines += ["[budget]", f'per_record = "{per_record}"']
        lines += [f'lifetime = "{lifetime}"'] if lifetime else []
        lines += [f'delta = "{delta}"'] if delta else []
        lines += ["[[streams]]", 'name = "meter"', "[streams.source]", 'kind = "csv"']
        lines += [f'path = "{path}"', 'timestamp = "time"', 'timestamp_format = "unix"', source]
        self.config.write_text("\n".join(lines))

    @property
    def keys(self) -> Path:
        return key_folder(self.state, self.server.study)

    @property
    def study(self) -> str:
        return self.server.study.hex()

    def append(self, *slots: int, lines: int = 1) -> None:
        with self.records.open("a") as file:
            for slot in slots:
                for i in range(lines):
                    file.write(f"{BASE + slot * HOUR + i},{i % 7 - 3}.5,{slot % 5}\n")


class Agent(Files):
    """A user's agent: its files, and the command."""

    def __init__(self, folder: Path, server: Server, capsys: pytest.CaptureFixture[str]) -> None:
        super().__init__(folder, server)
        self._capsys = capsys
        self.out = ""
        self.err = ""
        self.write_config()

    def run(self, command: str, *arguments: str) -> int:
        status = main([command, "--config", str(self.config), *arguments])
        self.out, self.err = self._capsys.readouterr()
        return status

    def init(self) -> None:
        assert self.run("init", "--token", TOKEN) == 0, self.err

    def rejoin(self) -> None:
        """Let streams join whose settings were changed."""
        assert self.run("init") == 0, self.err

    def join_as_it_stands(self) -> None:
        """Note that all streams have joined, where no source answers a dry run."""
        settings = load_settings(self.config, {})
        joined = {
            stream.name: Joined(digest=digest_reading(stream), is_seen=True)
            for stream in settings.streams
        }
        save_joined(key_folder(self.state, settings.study), joined)

    def once(self, *arguments: str, status: int = 0) -> dict[str, Any]:
        assert self.run("once", "--json", "--value-counts", *arguments) == status, (
            self.out + self.err
        )
        document: dict[str, Any] = json.loads(self.out)
        return document

    def dump(self) -> list[str]:
        """Return the logical content of the database, but for what the server says of itself."""
        connection = sqlite3.connect(self.state / "agent.sqlite")
        try:
            said = ('"study_notice"', '"agreed_time"')
            return [line for line in connection.iterdump() if not any(n in line for n in said)]
        finally:
            connection.close()


@pytest.fixture
def make_agent(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Callable[[Server], Agent]:
    return lambda server: Agent(tmp_path, server, capsys)


AgentFor = Callable[[SketchPlan], Agent]


@pytest.fixture
def agent_for(make_agent: Callable[[Server], Agent]) -> Iterator[AgentFor]:
    """Make agents, each with a server of its own for a study of a plan."""
    with ExitStack() as stack:
        yield lambda plan: make_agent(stack.enter_context(running(plan)))


@pytest.fixture
def agent(server: Server, make_agent: Callable[[Server], Agent]) -> Agent:
    return make_agent(server)


@pytest.fixture
def enrolled(agent: Agent) -> Agent:
    agent.init()
    return agent
