"""Statistics in a plan: one part for each kind, and their registry."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated

from sfumato.shared.errors import UnsupportedVersionError
from sfumato.shared.plan.statistics.clusters import ClustersPart
from sfumato.shared.plan.statistics.counts import GridPart, HistogramPart
from sfumato.shared.plan.statistics.fourier import FourierPart
from sfumato.shared.plan.statistics.interface import StatisticPart
from sfumato.shared.plan.statistics.moments import MomentsPart
from sfumato.shared.structure import Tagged

__all__ = [
    "STATISTICS",
    "AnyStatisticPart",
    "ClustersPart",
    "FourierPart",
    "GridPart",
    "HistogramPart",
    "MomentsPart",
    "StatisticPart",
]

_Part = FourierPart | HistogramPart | GridPart | MomentsPart | ClustersPart

STATISTICS: Mapping[str, type[_Part]] = MappingProxyType(
    {
        "fourier": FourierPart,
        "histogram": HistogramPart,
        "grid": GridPart,
        "moments": MomentsPart,
        "clusters": ClustersPart,
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
