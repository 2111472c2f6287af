"""All kinds of analyses, by name."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from aggregator.services.analyses.comparison import ComparisonKind
from aggregator.services.analyses.devices import DevicesKind
from aggregator.services.analyses.groups import GroupsKind
from aggregator.services.analyses.kind import Kind
from aggregator.services.analyses.timeline import TimelineKind

KINDS: Final[Mapping[str, Kind[Any]]] = MappingProxyType(
    {
        "comparison": ComparisonKind(),
        "timeline": TimelineKind(),
        "groups": GroupsKind(),
        "devices": DevicesKind(),
    }
)
