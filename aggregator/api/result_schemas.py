"""JSON bodies about snapshots, decodes, privacy and utility."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictFloat, StrictInt, StrictStr

from aggregator.api.schemas import Hex, Labels, Request, Slot, SmallText

_ID = "5f" * 32
_TIME = "2026-03-01T12:00:00.000000Z"
_SNAPSHOT: dict[str, Any] = {
    "snapshot_id": "21" * 32,
    "study_id": _ID,
    "weighting": "noise-optimal",
    "n_sketches": 120,
    "n_devices": 40,
    "n_records": 240000,
    "n_records_error": 0.0,
    "moments": {"first": 240000, "second": 816000000, "third": 3840000000000},
    "weights": {"a": 1.0, "b": 0.0021},
    "snr": 152.0,
    "signal_energy": 0.081,
    "noise_energy": 0.00053,
    "digest": "44" * 32,
    "selection": {"first_slot": None, "last_slot": None, "labels": {}},
    "excluded_devices": [],
    "created": _TIME,
}
_PROMISE: dict[str, Any] = {
    "epsilon": "1",
    "delta": "0",
    "neighbouring": "replace-one",
    "mechanism": "discrete-knorm",
    "scale": "4503599627370496/1518500",
    "statement": "Each sketch is epsilon = 1 differentially private under replace-one ...",
    "max_records_per_person": "unknown",
    "people": [
        {
            "n_records": 20,
            "n_windows": 10,
            "epsilon": "200",
            "delta": "0",
            "multiple_epsilon": "200",
            "multiple_delta": "0",
        }
    ],
}
_PRIVACY: dict[str, Any] = {
    **_PROMISE,
    "public": [
        {
            "what": "sequence numbers",
            "detail": "How many sketches each stream has released so far, and their order.",
            "seen_by": "analysts, and whoever is given a sketch",
        }
    ],
    "unprotected": ["that and when a device takes part, and how many records it has"],
    "warnings": [],
}


class SnapshotRequest(Request):
    """A selection to be frozen, and how sketches count; null bounds do not restrict."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "example": {
                "first_slot": 480,
                "last_slot": 491,
                "labels": {"site": "north"},
                "weighting": "noise-optimal",
            }
        },
    )

    first_slot: Slot | None = None
    last_slot: Slot | None = None
    labels: Labels = Field(default_factory=dict)
    weighting: Literal["size", "noise-optimal"] = "size"


class SelectionBody(BaseModel):
    """A selection as it was asked for."""

    first_slot: int | None
    last_slot: int | None
    labels: dict[str, str]


class MomentsBody(BaseModel):
    """Sums over sketches of n, n^2 and n^3, exact; they may need more than 64 bits."""

    first: int
    second: int
    third: int


class WeightsBody(BaseModel):
    """A sketch of n records counts ``a n + b n^2``."""

    a: float
    b: float


class SnapshotBody(BaseModel):
    """A frozen global sketch; the energies and their ratio are those under its weights.

    Where numbers of records are secret, `n_records` is estimated from their noised sum, with the
    standard error `n_records_error`; else it is exact and the error 0. Where devices in it were
    excluded since, `excluded_devices` names them: do not rely on it, make another.
    """

    model_config = ConfigDict(json_schema_extra={"example": _SNAPSHOT})

    snapshot_id: str
    study_id: str
    weighting: str
    n_sketches: int
    n_devices: int
    n_records: int
    n_records_error: float
    moments: MomentsBody
    weights: WeightsBody
    snr: float
    signal_energy: float
    noise_energy: float
    digest: str
    selection: SelectionBody
    excluded_devices: list[str]
    created: str


class SnapshotSumsBody(SnapshotBody):
    """A frozen global sketch with its exact sums: real parts, then imaginary parts.

    ``sums`` add up S, the sum that a sketch carries, and ``size_sums`` n S, n being its number of
    records; n S may need more than 64 bits. Where n is secret, ``sums`` end with the sum of the
    noised n, times the plan's count scale, and ``size_sums`` are 0.
    """

    model_config = ConfigDict(
        json_schema_extra={
            "example": _SNAPSHOT
            | {
                "sums": [1812233, -90211, 77, 40012],
                "size_sums": [6161592200, -306717400, 261800, 136040800],
            }
        }
    )

    sums: list[int]
    size_sums: list[int]


class DecodeRequest(Request):
    """A decode to be queued, of a snapshot or of a selection, which is frozen first.

    With neither, of everything that is there now.
    """

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "example": {
                "snapshot_id": None,
                "selection": {"first_slot": 480, "labels": {"site": "north"}},
                "n_clusters": 5,
                "decoder": "mixture",
                "settings": {"n_replicates": 12},
                "seed": 0,
            }
        },
    )

    snapshot_id: Hex | None = None
    selection: SnapshotRequest | None = None
    n_clusters: StrictInt
    decoder: SmallText | None = None
    settings: dict[SmallText, StrictBool | StrictInt | StrictFloat | StrictStr] = Field(
        default_factory=dict
    )
    seed: Annotated[StrictInt, Field(ge=0, lt=1 << 63)] = 0


class DimensionBody(BaseModel):
    """One column of the centroids."""

    name: str
    unit: str


class QualityBody(BaseModel):
    """The prediction of the rule of thumb."""

    features_per_parameter: float
    snr_per_parameter: float
    largest_relative_sse: float | None
    statement: str


class BandBody(BaseModel):
    """Where the relative SSE is expected with the default decoder; no high end if none is known."""

    low: float
    high: float | None
    statement: str


class MixtureBody(BaseModel):
    """A density of Gaussians with diagonal covariances: weights, means and variances by atom."""

    weights: list[float]
    means: list[list[float]]
    variances: list[list[float]]


class ChoiceBody(BaseModel):
    """Choice of the number of clusters: residual of 1, 2, ... clusters, noise floor, advice.

    From `least` to `most` clusters any number is a fair reading of the sketch.
    """

    residuals: list[float]
    noise_floors: list[float]
    recommended: int
    least: int | None = None
    most: int | None = None
    reaches_floor: bool
    statement: str


class PersonBody(BaseModel):
    """Privacy loss of a person with several records, in one window or several.

    `epsilon` is at `delta`, that of one sketch; `multiple_delta` holds at `multiple_epsilon`, the
    epsilon of one sketch times records and windows. Decimals, rounded up.
    """

    n_records: int
    n_windows: int
    epsilon: str
    delta: str
    multiple_epsilon: str
    multiple_delta: str


class PublicFactBody(BaseModel):
    """Something that devices and sketches show, and no noise hides."""

    what: str
    detail: str
    seen_by: str


class PromiseBody(BaseModel):
    """Privacy promise of a study: for one record, and for people with several."""

    model_config = ConfigDict(json_schema_extra={"example": _PROMISE})

    epsilon: str
    delta: str
    neighbouring: str
    mechanism: str
    scale: str
    statement: str
    max_records_per_person: int | Literal["unknown"]
    people: list[PersonBody]


class PrivacyBody(PromiseBody):
    """Privacy statement of a study: promise, public facts, exclusions, warnings."""

    model_config = ConfigDict(json_schema_extra={"example": _PRIVACY})

    public: list[PublicFactBody]
    unprotected: list[str]
    warnings: list[str]


class VerdictBody(BaseModel):
    """The trust that an answer deserves, in one of four words and a sentence."""

    word: Literal["sound", "rough", "doubtful", "do not use"]
    sentence: str


class EvidenceBody(BaseModel):
    """Evidence behind the verdict; `stabilities` and `resolutions` are by centroid."""

    residual_deviations: float
    held_out: float
    disagreement: float
    worst_disagreement: float
    agreement: float
    snr_per_parameter: float
    features_per_parameter: float
    spread_over_scale: float
    edge_share: float
    model: str
    stabilities: list[float]
    resolutions: list[float]


class ResultBody(BaseModel):
    """Centroids with weights, and how far they can be trusted.

    The verdict comes first. `band` is this result's own, derived from its evidence. A centroid that
    is not `resolved` cannot be told from noise. What a decoder does not give is null.
    """

    verdict: VerdictBody | None = None
    dimensions: list[DimensionBody]
    centroids: list[list[float]]
    weights: list[float]
    spreads: list[list[float]] | None = None
    mixture: MixtureBody | None = None
    choice: ChoiceBody | None = None
    residual: float
    noise_floor: float
    at_noise_floor: bool | None = None
    decoder: str
    decoder_version: int
    n_replicates: int
    agreement: float | None = None
    warnings: list[str]
    snr: float
    quality: QualityBody
    band: BandBody | None = None
    evidence: EvidenceBody | None = None
    resolved: list[bool] | None = None
    privacy: PromiseBody
    seconds: float


class DecodeBody(BaseModel):
    """A decode, how far it is, and what came of it."""

    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "decode_id": "63" * 32,
                "state": "running",
                "progress": 0.4,
                "snapshot_id": "21" * 32,
                "n_clusters": 5,
                "decoder": "mixture",
                "decoder_version": 2,
                "seed": 0,
                "created": _TIME,
                "started": _TIME,
                "finished": None,
                "result": None,
                "problem": None,
            }
        }
    )

    decode_id: str
    state: Literal["queued", "running", "succeeded", "failed", "cancelled"]
    progress: float
    snapshot_id: str
    n_clusters: int
    decoder: str
    decoder_version: int
    seed: int
    created: str
    started: str | None
    finished: str | None
    result: ResultBody | None
    problem: dict[str, Any] | None


class UtilityBody(BaseModel):
    """The utility of the sketches of a study together.

    No noise energy where no record is, or none that can be told from the noise of their number; no
    band where no number of clusters was asked about.
    """

    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "n_sketches": 120,
                "n_records": 240000,
                "n_records_error": 0.0,
                "snr": 152.0,
                "signal_energy": 0.081,
                "noise_energy": 0.00053,
                "band": {
                    "low": 1.01,
                    "high": 1.07,
                    "statement": "relative SSE between 1.01 and 1.07 is expected",
                },
            }
        }
    )

    n_sketches: int
    n_records: int
    n_records_error: float
    snr: float
    signal_energy: float
    noise_energy: float | None
    band: BandBody | None = None
