"""Statistics in a plan: one part for each kind, and their registry."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated

from shared.errors import UnsupportedVersionError
from shared.plan.statistics.counts import GridPart, HistogramPart
from shared.plan.statistics.fourier import FourierPart
from shared.plan.statistics.interface import StatisticPart
from shared.plan.statistics.moments import MomentsPart
from shared.structure import Tagged

__all__ = [
    "STATISTICS",
    "AnyStatisticPart",
    "FourierPart",
    "GridPart",
    "HistogramPart",
    "MomentsPart",
    "StatisticPart",
]

_Part = FourierPart | HistogramPart | GridPart | MomentsPart

STATISTICS: Mapping[str, type[_Part]] = MappingProxyType(
    {
        "fourier": FourierPart,
        "histogram": HistogramPart,
        "grid": GridPart,
        "moments": MomentsPart,
    }
)


def _find_part(kind: str) -> type[_Part]:
    if kind not in STATISTICS:
        raise UnsupportedVersionError(
            f"this release knows {', '.join(STATISTICS)}", fix="update this software"
        )
    return STATISTICS[kind]


AnyStatisticPart = Annotated[_Part, Tagged("kind", _find_part)]
"""The statistic of a plan; its ``kind`` says which."""
