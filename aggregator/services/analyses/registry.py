"""All kinds of analyses, by name."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from sfumato.aggregator.services.analyses.comparison import ComparisonKind
from sfumato.aggregator.services.analyses.devices import DevicesKind
from sfumato.aggregator.services.analyses.groups import GroupsKind
from sfumato.aggregator.services.analyses.kind import Kind
from sfumato.aggregator.services.analyses.timeline import TimelineKind

KINDS: Final[Mapping[str, Kind[Any]]] = MappingProxyType(
    {
        "comparison": ComparisonKind(),
        "timeline": TimelineKind(),
        "groups": GroupsKind(),
        "devices": DevicesKind(),
    }
)
