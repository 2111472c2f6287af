"""JSON bodies about plans, snapshots, decodes, privacy and utility."""

from __future__ import annotations

from typing import Annotated, Literal

from sfumato.shared.structure import Rule, member
from sfumato.shared.wire.objects.answers import DimensionBody, PromiseBody, VerdictBody
from sfumato.shared.wire.objects.declaration import (
    SAMPLE_BOX,
    SAMPLE_ID,
    SAMPLE_TIME,
    Hex,
    Labels,
    SearchBox,
    SmallText,
    Time,
    body,
    request,
)
from sfumato.shared.wire.objects.looks import LooksBody
from sfumato.shared.wire.problems import Problem

Slot = Annotated[int, Rule(gt=-(1 << 53), lt=1 << 53)]


@body
class FrequenciesBody:
    """The frequencies of a plan: a row of m columns for each dimension."""

    dimensions: list[str] = member("Names of the dimensions.", ["pressure", "flow"])
    bits: int = member("`turns` are in 2^-bits turns a quantisation step.", 24)
    digest: Hex = member("SHA-256 of `turns`, which stands in the plan.", "c3" * 32)
    turns: list[list[int]] = member("The frequencies, exact.", [[112, -40, 7], [-3, 250, 61]])
    angular: list[list[float]] = member(
        "The same frequencies in radians per unit of the data.",
        [[0.27, -0.096, 0.017], [-0.007, 0.6, 0.15]],
    )


@request
class SnapshotRequest:
    """A selection of sketches to be frozen, and how they are weighted."""

    first_slot: Slot | None = member("The first slot; null for no lower bound.", 480, default=None)
    last_slot: Slot | None = member("The last slot; null for no upper bound.", 491, default=None)
    labels: Labels = member(
        "Labels that a device must have.", {"site": "north"}, default_factory=dict
    )
    weighting: Literal["size", "noise-optimal"] = member(
        "How sketches are weighted.", "noise-optimal", default="size"
    )


@body
class SelectionBody:
    """A selection of sketches."""

    first_slot: int | None = member("The first slot; null for no lower bound.", None)
    last_slot: int | None = member("The last slot; null for no upper bound.", None)
    labels: dict[str, str] = member("Labels that a device must have.", {})


@body
class MomentsBody:
    """Exact moments of the numbers of records n of the sketches; they may exceed 64 bits.

    One number for each block of features, and so a single one where a sketch carries all features.
    """

    n_sketches: list[int] = member("Number of sketches.", [120])
    first: list[int] = member("Sum of n.", [240000])
    second: list[int] = member("Sum of n^2.", [816000000])
    third: list[int] = member("Sum of n^3.", [3840000000000])
    energy: list[int] = member(
        "Sum of the squared features of the sketches; 0 where a sketch carries all features.", [0]
    )


@body
class WeightsBody:
    """Weights of sketches: a sketch of n records counts `a n + b n^2`."""

    a: float = member("Weight of n.", 1.0)
    b: float = member("Weight of n^2.", 0.0021)


@body
class SnapshotBody:
    """A frozen global sketch."""

    snapshot_id: Hex = member("The snapshot's identity.", "21" * 32)
    study_id: Hex = member("The study that it was made of.", SAMPLE_ID)
    weighting: str = member("How sketches are weighted.", "noise-optimal")
    n_sketches: int = member("Number of sketches in it.", 120)
    n_devices: int = member("Number of their devices.", 40)
    n_records: int = member(
        "Number of their records; where it is secret, an estimate from their noised sum.", 240000
    )
    n_records_error: float = member("Standard error of `n_records`; 0 where it is exact.", 0.0)
    weights: WeightsBody = member("Weights of the sketches.")
    snr: float = member("Signal energy over noise energy.", 152.0)
    signal_energy: float = member("Estimated mean squared magnitude of the signal.", 0.081)
    noise_energy: float = member("Mean squared magnitude of the noise.", 0.00053)
    n_covered: int = member(
        "Features that some sketch carries. With fewer than the plan has, too few sketches are "
        "selected for a plan whose sketches carry only some.",
        400,
    )
    digest: Hex = member("SHA-256 of the sums.", "44" * 32)
    selection: SelectionBody = member("The selection that was asked for.")
    n_excluded_devices: int = member(
        "Number of devices in it that were excluded since. If there are any, make another "
        "snapshot.",
        0,
    )
    excluded_devices: list[Hex] = member("These devices; a viewer's key shows none.", [])
    n_batches: int | None = member(
        "With a secure sum: number of opened batches in it, each of which counts as one sketch.",
        None,
    )
    n_waiting: int | None = member(
        "With a secure sum: batches of the selection that were not opened, or were flagged.", None
    )
    left_batches: list[Hex] = member(
        "Batches in it that were set aside or flagged since. If there are any, make another "
        "snapshot.",
        [],
    )
    created: Time = member("When the snapshot was made.", SAMPLE_TIME)


@body
class SnapshotSumsBody(SnapshotBody):
    """A frozen global sketch with its exact sums: real parts, then imaginary parts."""

    moments: MomentsBody = member("Moments of the numbers of records.")
    batches: list[Hex] = member("With a secure sum: the batches in it.", [])
    sums: list[int] = member(
        "Sum of the sketch sums S. Where numbers of records are secret, the last ones are the sums "
        "of the noised numbers by block, times the plan's count scale.",
        [1812233, -90211, 77, 40012],
    )
    size_sums: list[int] = member(
        "Sum of n S, n being a sketch's number of records; it may exceed 64 bits. 0 where n is "
        "secret.",
        [6161592200, -306717400, 261800, 136040800],
    )


@request
class DecodeRequest:
    """A decode to be queued: of a snapshot, of a selection, or with neither of everything."""

    snapshot_id: Hex | None = member("The snapshot to decode.", None, default=None)
    selection: SnapshotRequest | None = member(
        "The selection to freeze and decode.",
        {"first_slot": 480, "labels": {"site": "north"}},
        default=None,
    )
    n_clusters: Annotated[int, Rule(lt=1 << 63)] = member("Number of clusters.", 5)
    decoder: SmallText | None = member(
        "The decoder; null for the default.", "mixture", default=None
    )
    settings: dict[SmallText, bool | int | float | str] = member(
        "Settings of the decoder.", {"n_replicates": 12}, default_factory=dict
    )
    seed: Annotated[int, Rule(ge=0, lt=1 << 63)] = member(
        "Seed of the decoder's randomness.", 0, default=0
    )
    search_box: SearchBox | None = member(
        "Where to search for clusters: lower and upper bound by dimension; null for the study's "
        "search box, `{}` for the plan's bounds.",
        SAMPLE_BOX,
        default=None,
    )
    looks: Annotated[list[Hex], Rule(max_length=16)] = member(
        "Snapshots of second looks at earlier results of these columns, in their order, each of "
        "its own study: what they measured is taken over.",
        [],
        default_factory=list,
    )


@body
class QualityBody:
    """Prediction by the rule of thumb."""

    features_per_parameter: float = member("m / (k d).", 10.0)
    snr_per_parameter: float = member("SNR m / (k d).", 152.0)
    largest_relative_sse: float | None = member(
        "Largest expected relative SSE; null if the rule predicts none.", 1.2
    )
    statement: str = member("The prediction in words.", "relative SSE of at most 1.2 is expected")


@body
class BandBody:
    """The expected range of the relative SSE."""

    low: float = member("The low end.", 1.01)
    high: float | None = member("The high end; null if none is known.", 1.07)
    statement: str = member("The range in words.", "relative SSE between 1.01 and 1.07 is expected")


@body
class MixtureBody:
    """A density of Gaussians with diagonal covariances."""

    weights: list[float] = member("Weights of the Gaussians.", [0.7, 0.3])
    means: list[list[float]] = member("Means, a row for each Gaussian.", [[1.2], [3.4]])
    variances: list[list[float]] = member("Variances, a row for each Gaussian.", [[0.1], [0.2]])


@body
class ChoiceBody:
    """The choice of the number of clusters."""

    residuals: list[float] = member("Residual of 1, 2, ... clusters.", [0.02, 0.001])
    noise_floors: list[float] = member("Residual that noise alone leaves.", [0.001, 0.001])
    recommended: int = member("Recommended number of clusters.", 2)
    least: int | None = member("Least number that fits the sketch.", 2, default=None)
    most: int | None = member("Largest number that fits the sketch.", 2, default=None)
    reaches_floor: bool = member("Whether the residual reaches the noise floor.", True)
    statement: str = member("The recommendation in words.", "2 clusters explain the sketch")


@body
class EvidenceBody:
    """Evidence behind the verdict."""

    residual_deviations: float = member(
        "Distance of the residual above the noise floor, in standard deviations of the floor.", 0.4
    )
    held_out: float = member(
        "Misfit on equations that were held out, over the misfit that noise causes; about 1 where "
        "the model is true.",
        1.1,
    )
    disagreement: float = member(
        "Mean excess of the result's SSE if single candidates were the truth.", 0.02
    )
    worst_disagreement: float = member("Largest such excess.", 0.05)
    agreement: float = member("Share of the starts that reached the lowest residual.", 1.0)
    snr_per_parameter: float = member("SNR m / (k d).", 152.0)
    features_per_parameter: float = member("m / (k d).", 10.0)
    spread_over_scale: float = member(
        "Median standard deviation inside a cluster, over the plan's scale.", 0.3
    )
    far_share: float = member(
        "Smallest share of a cluster that would have been seen far from all others in one column, "
        "or at a corner of the plan's bounds.",
        0.004,
    )
    hidden_share: float = member(
        "Largest share of a cluster, wherever it is, that the misfit leaves room for.", 0.006
    )
    slow_deviations: float = member(
        "Distance of the misfit of the slow frequencies above the noise, in standard deviations; "
        "far clusters cause it.",
        0.3,
    )
    edge_share: float = member("Share of the fitted density beyond the box.", 0.0)
    kurtosis: float = member(
        "Largest fourth moment of the fitted density along an axis, over its squared variance; 0 "
        "where isolated clusters cause it.",
        2.9,
    )
    tail_axis: int = member("The axis of it, from 0 on.", 0)
    model: str = member("The chosen model in words.", "Gaussians of their own widths")
    stabilities: list[float] = member(
        "Share of the candidates that have each centroid.", [1.0, 0.9]
    )
    resolutions: list[float] = member(
        "Least weight at which each centroid could be told from noise.", [0.02, 0.02]
    )


@body
class InfluenceBody:
    """Influence on a result of the device, part of a secure sum, or file that matters most."""

    source: Literal["device", "part", "file"] = member("What it is.", "device")
    n_sources: int = member("How many of them there are.", 20)
    ratio: float = member(
        "SSE of the centroids without it, over that of the best ones near them.", 1.01
    )
    cluster: int = member("The cluster that loses most of its share without it, from 0 on.", 1)
    share: float = member("Share of the records in that cluster.", 0.3)
    share_without: float = member("The same without it.", 0.29)


@body
class BarsBody:
    """Whether error bars are shown, and what they mean."""

    word: Literal["stated", "rough", "none"] = member("Kind of the error bars.", "stated")
    sentence: str = member("What they mean, or why there are none.", "nine in ten bars hold ...")


@body
class StabilityBody:
    """How far two halves of the densities agree on a number of clusters."""

    n_clusters: int = member("Number of clusters.", 5)
    agreement: float = member("Mean adjusted Rand index between halves; 1 is the same.", 0.9)


@body
class SseBody:
    """Expected SSE of a number of clusters."""

    n_clusters: int = member("Number of clusters.", 5)
    sse: float = member(
        "Mean squared distance of a record to its centroid, in the plan's scales, over that to the "
        "mean of all records.",
        0.4,
    )


@body
class ResultBody:
    """Centroids with weights, and how far they can be trusted.

    A member that the decoder does not give is null.
    """

    verdict: VerdictBody | None = member("The trust that the result deserves.", default=None)
    dimensions: list[DimensionBody] = member("Columns of the centroids.")
    search_box: SearchBox = member(
        "Where clusters were searched for: lower and upper bound of the dimensions where that was "
        "narrower than the plan's bounds.",
        SAMPLE_BOX,
        default_factory=dict,
    )
    centroids: list[list[float]] = member(
        "Centroids, by the falling weight that the sketch gives them.", [[1.2], [3.4]]
    )
    weights: list[float] = member("Share of the records at each centroid.", [0.7, 0.3])
    words: list[str] = member(
        "Where each centroid lies, compared with the others; empty in results of earlier programs.",
        ["low pressure", "high pressure"],
        default_factory=list,
    )
    spreads: list[list[float]] | None = member(
        "Standard deviation of each cluster's records, by dimension.", None, default=None
    )
    centroid_errors: list[list[float]] | None = member(
        "Standard errors of the centroids: 1.645 of them either way are a 90 % bar. Null where "
        "none are shown.",
        [[0.02], [0.05]],
        default=None,
    )
    weight_errors: list[float] | None = member(
        "Standard errors of the weights.", [0.01, 0.01], default=None
    )
    bars: BarsBody | None = member("What the errors mean.", default=None)
    stability: list[StabilityBody] | None = member(
        "Caution on the number of clusters, if the decoder chose it; it chooses nothing.",
        None,
        default=None,
    )
    sse_curve: list[SseBody] | None = member(
        "Expected SSE by number of clusters, if the decoder chose it.", None, default=None
    )
    mixture: MixtureBody | None = member("The fitted density.", default=None)
    choice: ChoiceBody | None = member("The choice of the number of clusters.", default=None)
    residual: float = member("Mean squared residual of the fit.", 0.001)
    noise_floor: float = member("Mean squared residual that noise alone leaves.", 0.001)
    at_noise_floor: bool | None = member(
        "Whether the residual reaches the noise floor.", True, default=None
    )
    decoder: str = member("Name of the decoder.", "mixture")
    decoder_version: int = member("Version of the decoder.", 2)
    n_replicates: int = member("Number of runs from other starts.", 12)
    agreement: float | None = member(
        "Share of the starts that reached the lowest residual.", 1.0, default=None
    )
    warnings: list[str] = member("Warnings of the decoder.", [])
    snr: float = member(
        "Signal-to-noise ratio of the global sketch; 0 for statistics other than Fourier features.",
        152.0,
    )
    quality: QualityBody | None = member(
        "Predicted quality by the rule of thumb; null for a grid.", default=None
    )
    band: BandBody | None = member(
        "Expected range of this result's relative SSE, derived from its evidence.", default=None
    )
    evidence: EvidenceBody | None = member("Evidence behind the verdict.", default=None)
    influence: InfluenceBody | None = member(
        "What it owes to the single device, or part of a secure sum, that it owes most; null where "
        "their sums are not known, or they are few.",
        default=None,
    )
    resolved: list[bool] | None = member(
        "Whether each centroid can be told from noise.", [True, True], default=None
    )
    looks: LooksBody | None = member(
        "The second looks that measured these centroids, if any; null for none.",
        None,
        default=None,
    )
    privacy: PromiseBody = member("Privacy promise of each sketch.")
    seconds: float = member("Time that decoding took, in seconds.", 3.1)


N_WORKERS = (
    "While it is queued, the workers that are there: with 0 it waits until somebody starts "
    "`sfumato worker`."
)


@body
class DecodeBody:
    """A decode: its state, progress, and result or problem."""

    decode_id: Hex = member("The decode's identity.", "63" * 32)
    study_id: Hex = member("The study that it decodes.", SAMPLE_ID)
    state: Literal["queued", "running", "succeeded", "failed", "cancelled"] = member(
        "The decode's state; the last three are final.", "running"
    )
    progress: float = member("Share of the work that is done, 0 to 1.", 0.4)
    n_workers: int | None = member(N_WORKERS, None, default=None)
    snapshot_id: Hex = member("The snapshot that is decoded.", "21" * 32)
    n_clusters: int = member("Number of clusters.", 5)
    decoder: str = member("Name of the decoder.", "mixture")
    decoder_version: int = member("Version of the decoder.", 2)
    seed: int = member("Seed of the decoder's randomness.", 0)
    search_box: SearchBox = member(
        "The search box, its own or the study's at the time of the request; empty for the plan's "
        "bounds.",
        SAMPLE_BOX,
        default_factory=dict,
    )
    looks: list[Hex] = member(
        "Snapshots of the second looks that it takes over.", [], default_factory=list
    )
    created: Time = member("When the decode was queued.", SAMPLE_TIME)
    started: Time | None = member("When the decode began.", SAMPLE_TIME)
    finished: Time | None = member("When the decode ended.", None)
    result: ResultBody | None = member("The result, if the decode succeeded.", None)
    problem: Problem | None = member("The problem, if the decode failed.", None)


@body
class UtilityBody:
    """The utility of all sketches of a study together."""

    n_sketches: int = member("Number of stored sketches.", 120)
    n_records: int = member("Number of their records, or an estimate where it is secret.", 240000)
    n_records_error: float = member("Standard error of `n_records`; 0 where it is exact.", 0.0)
    snr: float = member("Signal energy over noise energy.", 152.0)
    signal_energy: float = member("Estimated mean squared magnitude of the signal.", 0.081)
    noise_energy: float | None = member(
        "Mean squared magnitude of the noise; null if there is no record to tell it by.", 0.00053
    )
    n_covered: int = member(
        "Features that some sketch carries; fewer than the plan has where a sketch carries only "
        "some, and few have come.",
        400,
    )
    band: BandBody | None = member(
        "Expected range of the relative SSE; null unless a number of clusters is given.",
        default=None,
    )


@body
class ProgressBody:
    """An event of a decode: its state and progress."""

    state: str = member("The decode's state.", "running")
    progress: float = member("Share of the work that is done, 0 to 1.", 0.4)
    n_workers: int | None = member(N_WORKERS, None, default=None)


@body
class HealthBody:
    """A server in good health."""

    status: str = member("Always `ok`.", "ok", default="ok")


@body
class ReadinessBody:
    """A server that can be used."""

    status: str = member("Always `ok`.", "ok", default="ok")
    n_workers: int = member(
        "Workers that are there; without one, decodes wait for `sfumato worker`.", 1
    )
