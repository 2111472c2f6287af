"""JSON objects about second looks: clusters that are measured, not predicted."""

from __future__ import annotations

from sfumato.shared.structure import member
from sfumato.shared.wire.objects.declaring import Hex, body
from sfumato.shared.wire.objects.results import DimensionBody, PromiseBody, VerdictBody


@body
class NumberBody:
    """A measured number."""

    value: float = member("The number, noise included.", 0.003)
    error: float = member("Standard deviation of its noise.", 0.0004)


@body
class MeasuredClusterBody:
    """The records that are nearest to one centre."""

    centre: list[float] = member("The centre that devices were shown.", [1.2])
    n_records: NumberBody = member("The records that are nearest to it.")
    share: NumberBody = member("Their share of all records.")
    mean: list[float] | None = member(
        "Means of the summed columns, of clipped residuals; null where no record may be near.",
        [1.24],
    )
    mean_error: list[float] | None = member(
        "Standard deviations of the noise of the means.", [0.004]
    )
    spread: NumberBody | None = member(
        "Mean squared distance of its records to the centre, over that of all records to theirs; "
        "null where it was not asked for."
    )
    refined: list[float] = member(
        "The centre after one step of k-means on the records, shortened by its noise.", [1.23]
    )
    is_phantom: bool = member("Whether there may be no record near it.", False)
    is_wide: bool = member(
        "Whether its spread is far above the others', as of clusters that are merged.", False
    )


@body
class MeasuredClustersBody:
    """The measurements of a second look: exact sums with noise, and nothing that is fitted.

    The errors are about the records themselves; as a sample of a larger population they err by
    their number besides.
    """

    snapshot_id: Hex = member("The snapshot.", "21" * 32)
    n_sketches: int = member("Sketches in it.", 120)
    n_records: NumberBody = member("Records that were assigned.")
    result: str = member(
        "SHA-256 of the published result that the centres come from; empty if none.", "63" * 32
    )
    verdict: VerdictBody = member("What the measurement says about the centres.")
    doubts: list[str] = member("What a person should know first, a sentence each.", [])
    assigned: list[DimensionBody] = member("Columns of the centres.")
    summed: list[DimensionBody] = member("Columns of the means.")
    clusters: list[MeasuredClusterBody] = member("The clusters, in the order of the result.")
    gain: NumberBody | None = member(
        "Share by which one more step of k-means on these records, with clipped residuals, would "
        "lower the squared distances. Other optima are not excluded. Null where it was not asked "
        "for."
    )
    statement: str = member(
        "The gain in words.",
        "one more k-means step on these records would lower the error by 0.3 % +- 0.1 %; other "
        "optima are not excluded",
    )
    explained: float | None = member(
        "Share of the squared distances between records that the clusters explain; null where "
        "spreads were not asked for.",
        0.91,
    )
    beyond: NumberBody | None = member(
        "Share of the records at the cap of distances, or with a clipped residual; null where it "
        "was not asked for."
    )
    candidates: list[NumberBody] = member(
        "Squared distances to these centres, and to each candidate, over the first.", []
    )
    privacy: PromiseBody = member("Privacy promise of each sketch.")
