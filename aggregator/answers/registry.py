"""All kinds of analyses, by name."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from sfumato.aggregator.answers.comparison import ComparisonKind
from sfumato.aggregator.answers.devices import DevicesKind
from sfumato.aggregator.answers.groups import GroupsKind
from sfumato.aggregator.answers.kind import Kind
from sfumato.aggregator.answers.timeline import TimelineKind

KINDS: Final[Mapping[str, Kind[Any]]] = MappingProxyType(
    {
        "comparison": ComparisonKind(),
        "timeline": TimelineKind(),
        "groups": GroupsKind(),
        "devices": DevicesKind(),
    }
)
