"""JSON objects about second looks: clusters that are measured, not predicted."""

from __future__ import annotations

from sfumato.shared.structure import member
from sfumato.shared.wire.objects.answers import DimensionBody, PromiseBody, VerdictBody
from sfumato.shared.wire.objects.declaration import Hex, body


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
    sse: NumberBody | None = member(
        "Squared distances of records to their centres, capped, over those to the mean of all "
        "records; null where spreads were not asked for."
    )
    beyond: NumberBody | None = member(
        "Share of the records at the cap of distances, or with a clipped residual; null where it "
        "was not asked for."
    )
    candidates: list[NumberBody] = member(
        "Squared distances to these centres, and to each candidate, over the first.", []
    )
    privacy: PromiseBody = member("Privacy promise of each sketch.")


@body
class LooksBody:
    """The second looks that a result has taken over, beside what its sketch alone predicts.

    The result's shares are measured; its centroids are those of the sketch and of the looks,
    combined by precision.
    """

    predicted: VerdictBody | None = member(
        "The verdict on the sketch's centroids alone; null if the decoder gives none."
    )
    centroids: list[list[float]] = member("The sketch's centroids.", [[1.2], [3.4]])
    weights: list[float] = member("The shares that the sketch predicts.", [0.7, 0.3])
    looks: list[MeasuredClustersBody] = member(
        "The looks in their order: the last has the latest centres, and its verdict counts."
    )
    epsilon: str = member("What a record costs that the sketch and all looks read.", "2")
    delta: str = member("Its delta.", "0")
    cost: str = member(
        "The same in words.", "a record that the sketch and 1 look read costs epsilon 2 in all"
    )
