"""Results of decodes, read from the documents of a server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from analyst.requests import ANSWERS
from shared.errors import DecodingError
from shared.wire import error_from_problem
from shared.wire.bodies.results import DecodeBody

FINAL_STATES = ("succeeded", "failed", "cancelled")
UNUSABLE = "do not use"
"""The verdict on a result that is withheld unless ``allow_unusable`` is passed."""


@dataclass(frozen=True, kw_only=True)
class DecodeResult:
    """Centroids recovered from a snapshot, with evidence and statements about their quality.

    Parameters
    ----------
    decode_id, snapshot_id
        Ids of the decode and of the snapshot.
    names, units
        Names and units of the d dimensions.
    centroids
        Shape ``(k, d)``, data units, by falling weight.
    weights
        Shape ``(k,)``, summing to 1.
    snr
        Estimated signal-to-noise ratio of the global sketch.
    quality, privacy
        Statements in words: the expected quality, and the protection of each sketch.
    residual, noise_floor
        Mean squared residual of the fit, and its expected value from noise alone.
    warnings
        Warnings of the decoder.
    decoder, decoder_version
        Name and version of the decoder.
    seconds
        Time for decoding.
    spreads
        Shape ``(k, d)``, data units: standard deviation of each cluster's records about its mean;
        None if the decoder finds none.
    choice
        Residuals for 1, 2, ... clusters and the recommended number, if the decoder chose it.
    verdict, reason
        How far to trust the result: "sound", "rough", "doubtful" or "do not use"; and why.
    evidence
        Figures that the verdict rests on, by name.
    resolved
        Shape ``(k,)``: whether each centroid can be told from noise; None if the decoder cannot
        tell.
    search_box
        Lower and upper bound, by name, of the dimensions where clusters were searched for inside
        narrower bounds than the plan's.
    """

    decode_id: str
    snapshot_id: str
    names: tuple[str, ...]
    units: tuple[str, ...]
    centroids: NDArray[np.float64]
    weights: NDArray[np.float64]
    snr: float
    quality: str
    privacy: str
    residual: float
    noise_floor: float
    warnings: tuple[str, ...]
    decoder: str
    decoder_version: int
    seconds: float
    spreads: NDArray[np.float64] | None = None
    choice: Mapping[str, Any] | None = None
    verdict: str = "doubtful"
    reason: str = "the server gave no verdict"
    evidence: Mapping[str, Any] | None = None
    resolved: NDArray[np.bool_] | None = None
    search_box: Mapping[str, Sequence[float]] = field(default_factory=dict)


def read_result(decode: DecodeBody) -> DecodeResult:
    """Read the result of a decode that has ended.

    Raises
    ------
    SketchError
        It has none; the error says why.
    TransportError
        It is not one that an aggregator gives.
    """
    if decode.state != "succeeded":
        if decode.problem is not None:
            raise error_from_problem(asdict(decode.problem), 500)
        raise DecodingError(f"was {decode.state}", field="decode", fix="ask for it again")
    result = decode.result
    if result is None:
        raise ANSWERS.refuse("result")
    verdict = result.verdict
    # Of the decoder that was used: the paper's rule is for the paper's decoder.
    predicted = result.band or result.quality
    return DecodeResult(
        decode_id=decode.decode_id,
        snapshot_id=decode.snapshot_id,
        names=tuple(dimension.name for dimension in result.dimensions),
        units=tuple(dimension.unit for dimension in result.dimensions),
        centroids=np.array(result.centroids),
        weights=np.array(result.weights),
        snr=result.snr,
        quality="" if predicted is None else predicted.statement,
        privacy=result.privacy.statement,
        residual=result.residual,
        noise_floor=result.noise_floor,
        warnings=tuple(result.warnings),
        decoder=result.decoder,
        decoder_version=result.decoder_version,
        seconds=result.seconds,
        spreads=None if result.spreads is None else np.array(result.spreads),
        choice=None if result.choice is None else asdict(result.choice),
        verdict=verdict.word if verdict else DecodeResult.verdict,
        reason=verdict.sentence if verdict else DecodeResult.reason,
        evidence=None if result.evidence is None else asdict(result.evidence),
        resolved=None if result.resolved is None else np.array(result.resolved),
        search_box=result.search_box,
    )


def require_usable(result: DecodeResult, *, allow_unusable: bool) -> DecodeResult:
    """Return a result whose verdict allows it.

    Raises
    ------
    DecodingError
        The verdict is "do not use", and that is not allowed.
    """
    if result.verdict == UNUSABLE and not allow_unusable:
        raise DecodingError(
            f"gave a result with the verdict {UNUSABLE!r}: {result.reason}",
            field="decode",
            fix="pass allow_unusable=True, or --allow-unusable, to see it",
        )
    return result
