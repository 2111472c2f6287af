"""The sketch of one file, in a file: deterministic CBOR, written once and never replaced.

One map: ``format``, ``version``; ``kind``, ``plan_digest``, ``stream``, ``n_records``, ``width``
and ``payload`` as :class:`SketchFile` has them; ``payload_digest``, the SHA-256 of the payload;
``n_unsketchable`` of an exact file; and ``digest``, the SHA-256 of the deterministic encoding of
the map without it.

A private file carries nothing that depends on records but the noised payload. How many records
could not be sketched does depend on them, so only an exact file, for its holder alone, tells it.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

import numpy as np

from sfumato.shared.arrays import Integers
from sfumato.shared.container import decode_container, encode_container
from sfumato.shared.errors import (
    ConfigError,
    MalformedMessageError,
    PlanMismatchError,
    UnsupportedVersionError,
)
from sfumato.shared.plan import SketchPlan, compute_plan_digest
from sfumato.shared.structure import Rule, structure
from sfumato.shared.wire import STREAM_NAME_RULE, decode_payload, is_stream_name

FORMAT = "sfumato-sketch-file"
VERSION = 1
MAX_FILE_BYTES = 1 << 25
"""More than the largest plan's payload; a longer file is not read."""

SketchKind = Literal["local.v1", "exact.v1"]
_KINDS = ("local.v1", "exact.v1")


@dataclass(frozen=True, kw_only=True)
class SketchFile:
    """The content of a sketch's file.

    Parameters
    ----------
    kind
        ``local.v1``: noise was added, as a device adds it. ``exact.v1``: the sum itself, which is
        not private.
    plan_digest
        Digest of the plan that decided everything.
    stream
        The name that decided the masks.
    n_records
        Records in the sum; public.
    width
        Bytes of one coordinate.
    payload
        The coordinates, as :func:`sfumato.shared.wire.encode_payload` writes them.
    n_unsketchable
        Records that added zero: of an exact file only, None in a private one.
    """

    kind: SketchKind
    plan_digest: Annotated[bytes, Rule(min_length=32, max_length=32)]
    stream: Annotated[str, Rule(is_stream_name, STREAM_NAME_RULE)]
    n_records: Annotated[int, Rule(ge=1, lt=1 << 63)]
    width: Annotated[int, Rule(ge=1, le=8)]
    payload: bytes = field(repr=False)
    n_unsketchable: Annotated[int, Rule(ge=0)] | None = None

    @property
    def is_private(self) -> bool:
        """True if noise was added."""
        return self.kind == "local.v1"

    @property
    def payload_digest(self) -> bytes:
        """SHA-256 of the payload."""
        return hashlib.sha256(self.payload).digest()

    @property
    def sums(self) -> Integers:
        """The coordinates: shape ``(D,)``, as the plan's statistic orders them."""
        n_coordinates = len(self.payload) // self.width
        return decode_payload(self.payload, width=self.width, n_coordinates=n_coordinates)

    def require_plan(self, plan: SketchPlan) -> None:
        """Refuse to take the sketch for one of another plan, or one that its plan cannot give.

        Raises
        ------
        PlanMismatchError
            Digest, length, number of records or size of a coordinate is not the plan's.
        """
        largest = plan.largest_coordinate(self.n_records)
        for name, fits in (
            ("plan_digest", self.plan_digest == compute_plan_digest(plan)),
            ("width", self.width == plan.payload_width),
            ("payload", len(self.payload) == plan.payload_bytes),
            ("n_records", plan.least_records <= self.n_records <= plan.most_records),
            ("payload", int(np.abs(self.sums).max(initial=0)) <= largest),
        ):
            if not fits:
                raise PlanMismatchError(
                    "is not what a sketch of this plan has",
                    field=name,
                    fix="name the plan that the file was sketched with",
                )


def encode_sketch_file(sketch: SketchFile) -> bytes:
    """Encode a sketch; the digest covers every other byte."""
    stated = {name: value for name, value in vars(sketch).items() if value is not None}
    return encode_container(FORMAT, VERSION, stated | {"payload_digest": sketch.payload_digest})


def decode_sketch_file(data: bytes) -> SketchFile:
    """Decode a sketch and check it all.

    Raises
    ------
    MalformedMessageError, UnsupportedVersionError
        Damaged, cut short, or of another format or version.
    """
    members = decode_container(
        data,
        FORMAT,
        VERSION,
        field="sketch file",
        fix="copy it again, or make one with `sfumato sketch FILE`",
    )
    members.pop("payload_digest", None)
    sketch = structure(SketchFile, members, error=MalformedMessageError)
    _require(len(sketch.payload) % sketch.width == 0, "payload")
    _require(sketch.is_private == (sketch.n_unsketchable is None), "n_unsketchable")
    _require((sketch.n_unsketchable or 0) <= sketch.n_records, "n_unsketchable")
    _require(encode_sketch_file(sketch) == data, "sketch file")
    return sketch


def _require(holds: bool, name: str) -> None:
    if not holds:
        raise MalformedMessageError(
            "is not what this format allows", field=name, fix="report this with both versions"
        )


def read_sketch_file(path: Path) -> SketchFile:
    """Read the sketch of a file; raises as :func:`decode_sketch_file`.

    Raises
    ------
    ConfigError
        It cannot be read.
    """
    try:
        with path.open("rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise ConfigError(f"cannot be read: {error.strerror}", field=str(path)) from error
    try:
        if len(data) > MAX_FILE_BYTES:
            raise MalformedMessageError("is longer than any sketch", field="sketch file")
        return decode_sketch_file(data)
    except (MalformedMessageError, UnsupportedVersionError) as error:
        # The class tells damage from a later version; the path tells which file.
        raise type(error)(error.rule, field=f"{path}, {error.field}", fix=error.fix) from error
