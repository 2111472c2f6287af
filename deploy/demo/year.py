"""A second study of the demo's weather, in windows of four weeks: the year passes on the page.

A quarter is a season, so that between quarters everything differs. Windows of four weeks show when
a season begins, and in what.
"""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import groupby
from pathlib import Path
from typing import Any

from sfumato.analyst import Client
from sfumato.shared.plan import SketchPlan, plan_from_spec
from sfumato.shared.wire.objects.analyses import WindowBody

WINDOW_DAYS = 28
"""Length of a window: thirteen make a year."""
NAME = "a year of weather, four weeks at a time"
_DAY_S = 86_400


def read_plan(*, days: int | None = None, mechanism: str = "discrete-knorm") -> SketchPlan:
    """Read the demo's plan, with windows of some days rather than its own."""
    spec = read_spec("plan.toml")
    if days is not None:
        spec["window"]["length_s"] = days * _DAY_S
    return plan_from_spec({**spec, "mechanism": mechanism})


def read_spec(name: str) -> dict[str, Any]:
    """Read a plan's file of the demo."""
    return tomllib.loads(Path(__file__).with_name(name).read_text(encoding="utf-8"))


@dataclass(frozen=True, kw_only=True)
class Year:
    """The study, and what a look over its windows found."""

    study_id: str
    analysis_id: str = ""
    windows: Sequence[WindowBody] = ()

    @classmethod
    def publish(cls, client: Client) -> Year:
        """Publish the study."""
        created = client.create_study(NAME, read_plan(days=WINDOW_DAYS))
        return cls(study_id=created.study_id)

    def look(self, client: Client, n_clusters: int) -> Year:
        """Compare each window with those before it, as the page does."""
        analysis = client.timeline(self.study_id, n_clusters=n_clusters)
        found = analysis.wait().body
        return replace(self, analysis_id=analysis.analysis_id, windows=found.windows)

    @property
    def address(self) -> str:
        """Where the page shows it."""
        return f"#studies/{self.study_id}/time/{self.analysis_id}"

    @property
    def alarms(self) -> list[tuple[str, str]]:
        """The first and the last day of each run of windows that are alarms."""
        runs = groupby(self.windows, lambda window: window.is_alarm)
        alarms = [list(run) for is_alarm, run in runs if is_alarm]
        return [(_format_day(run[0].start), _format_day(run[-1].end)) for run in alarms]


def _format_day(time: str) -> str:
    return f"{datetime.fromisoformat(time):%-d %B}"
