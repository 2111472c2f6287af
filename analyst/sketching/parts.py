"""Exact sums of the parts of a data set, which add up whatever machine summed them.

A sum of part of the records is not private: it goes from a worker to the process that releases, and
nowhere else. Parts travel as results of pure functions, so that a part which is computed twice, as
engines do after a failure, is counted once.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Annotated

import numpy as np

from sfumato.shared.arrays import Integers
from sfumato.shared.container import decode_container, encode_container
from sfumato.shared.core import SketchAccumulator
from sfumato.shared.errors import MalformedMessageError, PlanMismatchError, RecordError
from sfumato.shared.plan import SketchPlan, compute_plan_digest
from sfumato.shared.structure import Rule, structure

_FORMAT = "sfumato-part"
_VERSION = 1
_FIX = "use one release of Sfumato on every worker"


@dataclass(frozen=True, kw_only=True)
class Part:
    """The exact sum of one part of a data set; not private.

    Parameters
    ----------
    plan_digest
        Digest of the plan that decided everything.
    name
        What tells the part from the others of its data set, such as its number.
    n_records, n_unsketchable
        Its records, and those of them that added zero.
    n_clipped
        Values of each dimension outside the plan's bounds.
    data
        The sums, as signed 64-bit integers, the lowest byte first.
    engine
        Name of the engine that summed.
    """

    plan_digest: Annotated[bytes, Rule(min_length=32, max_length=32)]
    name: str
    n_records: Annotated[int, Rule(ge=0, lt=1 << 63)]
    n_unsketchable: Annotated[int, Rule(ge=0)]
    n_clipped: tuple[int, ...]
    data: bytes
    engine: str

    @property
    def sums(self) -> Integers:
        """The sums: shape ``(D,)``, as the plan's statistic orders them."""
        return np.frombuffer(self.data, dtype="<i8").astype(np.int64)

    def encode(self) -> bytes:
        """Encode the part as deterministic CBOR."""
        return encode_container(
            _FORMAT, _VERSION, {**vars(self), "n_clipped": list(self.n_clipped)}
        )

    @classmethod
    def decode(cls, encoded: bytes) -> Part:
        """Decode a part.

        Raises
        ------
        MalformedMessageError, UnsupportedVersionError
            Damaged, or of another format or version.
        """
        members = decode_container(encoded, _FORMAT, _VERSION, field="part", fix=_FIX)
        return structure(cls, members, error=MalformedMessageError)


@dataclass(frozen=True, kw_only=True, eq=False)
class AddedParts:
    """The sum of some parts, and its counts.

    Parameters
    ----------
    accumulator
        The exact sum and its counts.
    n_clipped
        Shape ``(d,)``: values of each dimension outside the plan's bounds.
    names
        The parts that were added.
    engines
        The engines that summed them; more than one name says that some worker was slower.
    """

    accumulator: SketchAccumulator
    n_clipped: Integers
    names: tuple[str, ...]
    engines: tuple[str, ...]


def add_parts(
    parts: Iterable[Part], plan: SketchPlan, *, expected: Collection[str] | None = None
) -> AddedParts:
    """Add parts of one data set.

    Parameters
    ----------
    expected
        The names of all parts; None where they are not known beforehand.

    Guarantees
    ----------
    The sum is that of one pass over all records, bit for bit, in any order of the parts.

    Raises
    ------
    PlanMismatchError
        A part was summed with another plan.
    RecordError
        A part is there twice, is missing, or is none of those that are expected.
    """
    statistic, digest = plan.statistic_of(b""), compute_plan_digest(plan)
    total = SketchAccumulator(statistic)
    n_clipped = np.zeros(plan.n_dimensions, dtype=np.int64)
    names: set[str] = set()
    engines: set[str] = set()
    for part in parts:
        if part.plan_digest != digest or len(part.n_clipped) != plan.n_dimensions:
            raise PlanMismatchError(
                "was summed with another plan",
                field=f"part {part.name}",
                fix="sum every part with the plan that is released",
            )
        if part.name in names:
            raise _refuse("is there twice", part.name, "give each part a name of its own")
        total.merge(
            SketchAccumulator.restore(
                statistic,
                first_record=0,
                sums=part.sums,
                n_records=part.n_records,
                n_unsketchable=part.n_unsketchable,
            )
        )
        n_clipped += np.array(part.n_clipped, dtype=np.int64)
        names.add(part.name)
        engines.add(part.engine)
    if expected is not None:
        for name in sorted(set(expected) - names):
            raise _refuse("is missing", name, "sum it, and add all parts again")
        for name in sorted(names - set(expected)):
            raise _refuse("is none of the data set's", name, "add the parts of one data set only")
    return AddedParts(
        accumulator=total,
        n_clipped=n_clipped,
        names=tuple(sorted(names)),
        engines=tuple(sorted(engines)),
    )


def _refuse(what: str, name: str, fix: str) -> RecordError:
    return RecordError(what, field=f"part {name}", fix=fix)
