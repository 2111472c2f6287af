"""All kinds of analyses, by name."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from aggregator.services.analyses.comparison import ComparisonKind
from aggregator.services.analyses.kind import Kind

KINDS: Final[Mapping[str, Kind[Any]]] = MappingProxyType({"comparison": ComparisonKind()})
