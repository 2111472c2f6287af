"""Server processes over one database, inside the test's process: started, used, and gone."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import httpx
from fastapi import FastAPI

from sfumato.aggregator.app import create_app
from sfumato.aggregator.services import Services
from sfumato.aggregator.settings import Settings
from sfumato.shared.plan import Dimension, SketchPlan
from tests.aggregator.fleet import Desk, make_plan
from tests.aggregator.machine.worlds import Fate, KillableStore, Killed, World
from tests.aggregator.serving import SteppedClock

__all__ = ["PAYLOAD_S", "PLANS", "Replica"]

PAYLOAD_S = 86_400.0
# No example may be slowed down by a rate; other tests are about those.
_SETTINGS = Settings(
    n_workers=0,
    payload_days=PAYLOAD_S / 86_400.0,
    device_rate=1e6,
    device_burst=10**6,
    key_rate=1e6,
    key_burst=10**6,
)


def _make_other(statistic: str, n_dimensions: int, **changes: Any) -> SketchPlan:
    """Return a plan with so much noise that a sketch of nearly nothing may be one of records."""
    return make_plan(
        statistic=statistic,
        dimensions=tuple(
            Dimension(name=f"x{i}", unit="1", lower=-10.0, upper=10.0) for i in range(n_dimensions)
        ),
        n_frequencies=None,
        seed=None,
        epsilon=Fraction(1, 20),
        **changes,
    )


PLANS: dict[str, SketchPlan] = {
    "fourier": make_plan(n_frequencies=64),
    "histogram": _make_other("histogram", 2, bins_log2=6),
    "grid": _make_other("grid", 2, cells=(8, 16)),
    "moments": _make_other("moments", 14),
}
"""Of much the same size: each sketch of an example has a coordinate of its own."""
assert min(plan.n_coordinates for plan in PLANS.values()) >= 120


@dataclass
class Replica:
    """One process: an application with its own connections and caches."""

    app: FastAPI
    store: KillableStore
    desk: Desk

    @classmethod
    def start(cls, world: World, clock: SteppedClock, keys: tuple[str, str]) -> Replica:
        """Start one."""
        store = world.connect()
        app = create_app(_SETTINGS, store=store, clock=clock)
        transport = httpx.ASGITransport(app=app, raise_app_exceptions=True)
        http = httpx.AsyncClient(transport=transport, base_url="http://aggregator")
        return cls(app, store, Desk(http, *keys))

    @property
    def services(self) -> Services:
        """Return the services behind the interface."""
        services: Services = self.app.state.services
        return services

    async def put(self, study: bytes, sketch: str, body: bytes, fate: Fate = "none") -> int | None:
        """Upload, and return the status; None if the process was killed meanwhile."""
        self.store.fate = fate
        try:
            return (await self.desk.put(study, sketch, body)).status_code
        except (Killed, asyncio.CancelledError):  # the latter is who waited for a batch
            return None
        finally:
            self.store.fate = "none"

    async def stop(self) -> None:
        """Let go of everything."""
        await self.desk.http.aclose()
        await self.store.close()
