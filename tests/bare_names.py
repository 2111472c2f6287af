"""Refusal of the rooms' bare names: ``import shared`` would load a second copy of the room."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

ROOMS = (
    "shared",
    "learning",
    "device_agent",
    "aggregator",
    "analyst",
    "helper",
    "simulator",
    "lab",
)


class BareNames(MetaPathFinder):
    """Fail every import of a room that does not begin with ``sfumato``."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name.partition(".")[0] in ROOMS:
            raise ImportError(f"{name}: import sfumato.{name}")
        return None


def refuse_bare_names() -> None:
    """Refuse them in this process, and in those forked from it."""
    assert not [name for name in sys.modules if name.partition(".")[0] in ROOMS]
    sys.meta_path.insert(0, BareNames())
