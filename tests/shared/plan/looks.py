"""A small second look, of two columns x and y and two centres."""

from sfumato.shared.core.statistics.clusters import Units
from sfumato.shared.plan import ClustersPart

LOOK = ClustersPart(
    assigned=("x",),
    summed=("x", "y"),
    centres=((-9000,), (9000,)),
    weights=(1,),
    cap=10**9,
    origins=((-9000, 0), (9000, 0)),
    radii=((20000, 40000), (20000, 40000)),
    units=Units(residual=4096, count=512, square=512, beyond=64, presence=64),
    clusters_per_sketch=2,
)
