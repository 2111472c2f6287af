"""JSON objects about second looks: clusters that are measured, not predicted."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from sfumato.shared.plan import Dimension
from sfumato.shared.structure import Rule, member
from sfumato.shared.wire.objects.answers import DimensionBody, PromiseBody, VerdictBody
from sfumato.shared.wire.objects.declaration import Hex, Switch, body, request

Level = Annotated[str, Rule(min_length=1, max_length=50)]


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


@request
class PlanLookRequest:
    """A second look at the clusters of a decode, before it exists."""

    aim: Literal["measure", "refine", "profile"] = member(
        "`measure`: numbers and spreads, with the least noise; `refine`: means of the columns too; "
        "`profile`: means of further columns besides.",
        "refine",
        default="refine",
    )
    epsilon: Level = member(
        "The epsilon of each record and sketch of the look, exact: `1`, `0.5` or `1/2`.",
        "1",
        default="1",
    )
    delta: Level = member("Its delta; 0 for pure epsilon.", "0", default="0")
    same_records: Switch = member(
        "Whether the look reads the records that the decode is of: its epsilon is added.",
        False,
        default=False,
    )
    columns: Annotated[list[Dimension], Rule(max_length=64)] = member(
        "Further columns of a `profile`, which the decode did not read.", [], default_factory=list
    )
    n_records: Annotated[int, Rule(ge=1, le=1 << 49)] | None = member(
        "Expected records; null for those of the decode.", None, default=None
    )
    n_sketches: Annotated[int, Rule(ge=1, le=1 << 49)] | None = member(
        "Expected sketches; null for those of the decode.", None, default=None
    )
    clusters_per_sketch: Annotated[int, Rule(ge=1, le=1 << 20)] | None = member(
        "Clusters that a sketch carries, a divisor of all; null for all.", None, default=None
    )


@body
class PlannedLookBody:
    """The plan of a second look, and how accurate its answers will be: standard deviations."""

    statements: list[str] = member(
        "What it will give and cost, a sentence each.", ["one record costs epsilon 2 in all."]
    )
    pays: bool | None = member(
        "Whether refined centroids are expected to be better than the first; null where that "
        "cannot be told.",
        True,
    )
    shares_error: list[float] = member("Error of the share of each cluster.", [0.002, 0.002])
    summed: list[str] = member("Axes whose means are asked for.", ["pressure"])
    means_error: list[list[float]] = member(
        "Error of each mean: a row for each cluster, in the units of the columns.", [[0.03], [0.04]]
    )
    spread_error: float | None = member(
        "Relative error of the mean squared distance; null where it is not asked for.", 0.004
    )
    gain_error: float | None = member(
        "Error of what one more k-means step would gain, where it would gain nothing; null where "
        "it is not asked for.",
        0.0004,
    )
    excess: float | None = member(
        "What noise adds to the squared distances of refined centroids, over them; null where "
        "not all means are asked for.",
        0.001,
    )
    least_share: float = member("The smallest share that is told from an empty cluster.", 0.004)
    plan: dict[str, Any] = member("The plan.", {"see": "`POST /v1/studies`"})
