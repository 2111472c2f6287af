"""JSON bodies of synthetic records, and of the request for them."""

from __future__ import annotations

from typing import Annotated

from sfumato.shared.structure import Rule, member
from sfumato.shared.wire.objects.answers import DimensionBody, PromiseBody
from sfumato.shared.wire.objects.declaration import SAMPLE_ID, Hex, SmallText, Switch, body, request

MOST_SYNTHETIC = 20_000
"""Most records of one part."""


@request
class SynthesisRequest:
    """Synthetic records to be drawn from the densities of a decode; they cost no privacy."""

    n_records: Annotated[int, Rule(ge=1, le=MOST_SYNTHETIC)] = member(
        "Number of records.", 1000, default=1000
    )
    histogram: Hex | None = member(
        "A snapshot of a histogram of the same records: its columns follow it.",
        None,
        default=None,
    )
    seed: Annotated[int, Rule(ge=0, lt=1 << 63)] = member(
        "Seed of the draw: the same one gives the same records.", 0, default=0
    )
    part: Annotated[int, Rule(ge=0, lt=1 << 32)] = member(
        "Number of the part: other parts of one seed are further records.", 0, default=0
    )
    allow_unusable: Switch = member(
        'Draw also where the verdict on the decode is "do not use".', False, default=False
    )


@body
class RangeErrorBody:
    """How far shares of random ranges are off on average."""

    n_columns: int = member("Number of columns that a range limits.", 2)
    error: float = member("Mean absolute error, as a share of all records.", 0.012)


@body
class CorrelationErrorBody:
    """How far the correlation of two columns is off on average."""

    columns: list[SmallText] = member("Names of the two columns.", ["temperature", "wind"])
    error: float = member("Mean absolute error.", 0.03)


@body
class SyntheticBody:
    """Synthetic records by column, with what they promise and how far to trust them."""

    decode_id: str = member("The decode; empty for sketch files.", SAMPLE_ID)
    snapshot_id: str = member("What was decoded: a snapshot, or a digest of sums.", "33" * 32)
    study: str = member("Name of the study; empty without a server.", "weather")
    study_id: str = member("The study; empty without a server.", SAMPLE_ID)
    plan_digest: str = member("Digest of the plan of the sketches.", "44" * 32)
    decoder: str = member("Name and version of the decoder.", "mixture/1")
    histogram: Hex | None = member("The snapshot of the histogram, if there is one.", None)
    seed: int = member("Seed of the draw.", 0)
    part: int = member("Number of the part.", 0)
    n_records: int = member("Number of records.", 2)
    dimensions: list[DimensionBody] = member("Names and units of the columns.")
    columns: list[list[float] | list[str]] = member(
        "The columns in the order of the dimensions: numbers in data units, or texts of levels.",
        [[2.5, 3.25]],
    )
    matched: list[SmallText] = member("Columns that agree with the histogram.", [])
    errors: list[RangeErrorBody] = member(
        "How far shares of random ranges are off; empty where no error can be stated."
    )
    correlation_errors: list[CorrelationErrorBody] = member(
        "How far correlations of two numbers on linear scales are off; empty where no error can be "
        "stated."
    )
    verdict: str = member("How far the decode is to be trusted.", "sound")
    statement: str = member("What the records are and are not, in words.", "Synthetic records ...")
    privacy: list[PromiseBody] = member("Promise of the sketches, and of the histogram if any.")
