"""A server inside the test's process, and the clock that it goes by."""

from __future__ import annotations

from dataclasses import dataclass

from fastapi import FastAPI

from aggregator.ports import Store
from aggregator.services import Services
from aggregator.settings import Settings
from tests.aggregator.fleet import Desk


class SteppedClock:
    """A clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.seconds = 1_772_366_400.0

    def now(self) -> float:
        """Return the time."""
        return self.seconds


@dataclass
class Server:
    """The application with its parts."""

    app: FastAPI
    store: Store
    settings: Settings
    clock: SteppedClock
    desk: Desk

    @property
    def services(self) -> Services:
        """Return the services behind the interface."""
        services: Services = self.app.state.services
        return services
