"""Parts of a plan: labels, windows, release."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from types import MappingProxyType
from typing import Annotated, Literal

from sfumato.shared.arrays import Bools, Floats
from sfumato.shared.core.features import PHASES
from sfumato.shared.errors import UnsupportedVersionError
from sfumato.shared.privacy import CircularLaw
from sfumato.shared.privacy.mechanisms.phase import PHASE_REPORT
from sfumato.shared.privacy.samplers import UNIT_BITS
from sfumato.shared.structure import Tagged, declared, member

ReleaseName = Literal["local.v1", "phase.v1", "sum.v1"]
NeighbouringName = Literal["replace-one", "add-remove-one"]
UnitName = Literal["record", "device"]
LateRule = Literal["open-window", "leave-out-outside"]
MOST_LATE_S = 30 * 86400
"""Agents keep the bytes that they have sent for so long, in seconds."""


@declared
class Label:
    """A declared attribute of devices, for selecting sketches."""

    name: str = member("The label's name.")
    values: tuple[str, ...] = member("The values that a device may choose from.")


@declared
class WindowRule:
    """Rule that cuts a stream into windows: each record falls in exactly one."""

    kind: Literal["time", "count"] = member(
        "`time`: slots `[origin + i length_s, origin + (i + 1) length_s)`, seconds since "
        "1970-01-01 UTC, i = 0, 1, 2, ...; `count`: every `length` records."
    )
    origin: int = member(
        "For `time`; zero otherwise. Under `add-remove-one` streams begin with slot 0, at "
        "`origin`: sketch i of every stream covers slot i.",
        default=0,
    )
    length_s: int = member("For `time`, seconds; zero otherwise.", default=0)
    length: int = member("For `count`, records; zero otherwise.", default=0)
    end: int | None = member(
        'For `time` with `late_rule = "leave-out-outside"`, seconds since 1970-01-01 UTC: a whole '
        "number of slots after `origin`. The study has no slot after it, and reads no record of "
        "that time or later. Default: the study has no end.",
        default=None,
        optional=True,
    )

    @property
    def n_slots(self) -> int | None:
        """The number of slots; None without an end."""
        return None if self.end is None else (self.end - self.origin) // self.length_s

    def is_apart(self, other: WindowRule) -> bool:
        """Return whether one rule by time ends before the other begins."""
        first, last = sorted((self, other), key=lambda rule: rule.origin)
        return first.end is not None and last.kind == "time" and first.end <= last.origin

    def find_inside(self, timestamps: Floats) -> Bools:
        """Return which records have a readable time from the origin on, and before the end."""
        inside: Bools = timestamps >= self.origin
        return inside if self.end is None else inside & (timestamps < self.end)

    def slot_of(self, timestamp: float) -> int:
        """Return the slot of a time in seconds since 1970-01-01 UTC; 0 before the origin.

        There are no slots before the origin: older records join the first.
        """
        return max(0, math.floor((timestamp - self.origin) / self.length_s))

    def slot_bounds(self, slot: int) -> tuple[int, int]:
        """Return the first second of a slot and the first second after it."""
        start = self.origin + slot * self.length_s
        return start, start + self.length_s


@dataclass(frozen=True, kw_only=True)
class StatedSensitivity:
    """Largest change of a released vector that one record can cause.

    Parameters
    ----------
    norm
        The mechanism's norm: ``gon24`` (of the lattice 24-gon, for any one feature), ``l1``, or
        ``l2-squared``.
    value
        An integer in units of the sum; it includes the count where that is released.
    """

    norm: str = ""
    value: int = 0


@dataclass(frozen=True, kw_only=True)
class NoiseRelease:
    """The noise that a sum gets before it is seen, and the guarantee that it gives.

    Parameters
    ----------
    kind, noise_by
        As the kinds of release say.
    mechanism
        ``discrete-knorm`` (pure epsilon, with the least variance), ``discrete-laplace`` (the seed
        paper's; allows masks), or ``discrete-gaussian`` (needs a delta).
    neighbouring
        ``replace-one``: the values of one record are protected; the number of records is public.
        ``add-remove-one``: the presence of one record is protected; the number of records is
        released with noise, and every slot has a sketch.
    unit
        ``record``, or ``device``: the sketch holds the mean of the window's records, so that all of
        them together are protected as one record is.
    epsilon, delta
        The guarantee for one unit, exact.
    sensitivity
        Enumerated, in the mechanism's norm.
    count_scale
        Multiplies the number of records where it is released; 0 where it is public.
    scale
        Exact scale of the noise, at least what epsilon needs.
    """

    # First, so that they stand first where a plan is printed.
    kind: str
    noise_by: str
    mechanism: str
    neighbouring: NeighbouringName = "replace-one"
    unit: UnitName = "record"
    epsilon: Fraction
    delta: Fraction = Fraction(0)
    sensitivity: StatedSensitivity = StatedSensitivity()
    count_scale: int = 0
    scale: Fraction = Fraction(0)


@dataclass(frozen=True, kw_only=True)
class LocalRelease(NoiseRelease):
    """The step from a sum to a sketch: the device adds noise, so each sketch is private by itself.

    Parameters
    ----------
    kind, noise_by
        ``local.v1`` and ``device``.
    """

    kind: Literal["local.v1"] = "local.v1"
    noise_by: Literal["device"] = "device"


@dataclass(frozen=True, kw_only=True)
class Helper:
    """The second server of a secure sum, as the plan names it.

    Parameters
    ----------
    name
        Its operator, for people: 1 to 64 plain characters.
    identity
        Its lasting Ed25519 key, 32 bytes; owners allow a helper by the SHA-256 of it.
    key
        An X25519 key made for this plan alone, 32 bytes.
    endorsement
        Its signature over the plan with 64 zero bytes here: it has accepted this plan.
    """

    name: str
    identity: bytes
    key: bytes
    endorsement: bytes = bytes(64)

    @property
    def fingerprint(self) -> bytes:
        """The SHA-256 of its identity, by which owners allow it."""
        return hashlib.sha256(self.identity).digest()


@dataclass(frozen=True, kw_only=True)
class SumRelease(NoiseRelease):
    """A secure sum: devices send masked sums, and two servers each add a full noise to a batch.

    Epsilon is that of one record in one sum against each server by itself, if the other is honest.

    Parameters
    ----------
    kind, noise_by
        ``sum.v1`` and ``both-servers``.
    suite
        ``x25519``: how the seeds of masks are sealed to the helper.
    helper
        The second server; None in a draft that no helper has accepted yet.
    least_reports, most_reports
        Reports in a batch: fewer are never opened, and no more join it. No promise of privacy
        rests on the least.
    parts
        Batches of a slot and label set, among which its reports are divided: a broken report spoils
        one of them.
    grace_s
        Seconds after a slot's end for which its batch waits.
    late_s
        Seconds after a slot's end from which on both servers refuse its reports.
    """

    kind: Literal["sum.v1"] = "sum.v1"
    noise_by: Literal["both-servers"] = "both-servers"
    suite: Literal["x25519"] = "x25519"
    helper: Helper | None = field(default=None, metadata={"optional": True})
    least_reports: int = 100
    most_reports: int
    parts: int = 1
    grace_s: int = 3600
    late_s: int = MOST_LATE_S


@dataclass(frozen=True, kw_only=True)
class PhaseRelease:
    """Phase reports: a noisy phase of one record, for each feature that a sketch carries.

    With a histogram the bins of a dimension take the place of phases.

    Parameters
    ----------
    kind, noise_by
        ``phase.v1`` and ``device``: every device's reports are private by themselves.
    mechanism, neighbouring, unit
        ``phase-report``, ``replace-one`` and ``device``: a slot reports its first record alone, so
        that all records of a slot together are protected as one record is.
    epsilon
        The guarantee of the reports of one slot together, exact.
    arc, odds
        The law of the offset of a phase: each offset up to the arc is ``odds`` times as likely as
        each other. The odds are the largest multiple of 2^-52 with ``odds^r <= exp(epsilon)``.
    """

    kind: Literal["phase.v1"] = "phase.v1"
    noise_by: Literal["device"] = "device"
    mechanism: Literal["phase-report"] = PHASE_REPORT
    neighbouring: Literal["replace-one"] = "replace-one"
    unit: Literal["device"] = "device"
    epsilon: Fraction
    arc: int = 0
    odds: Fraction = Fraction(1)

    @property
    def delta(self) -> Fraction:
        """0: the guarantee is pure."""
        return Fraction(0)

    @property
    def scale(self) -> Fraction:
        """The odds of a report between two phases, exact."""
        return self.odds

    def make_law(self, circle: int = PHASES) -> CircularLaw:
        """Return the law of an offset on a circle with so many places.

        Raises
        ------
        PrivacyError
            A number is out of its range.
        """
        weight = math.floor(self.odds * (1 << UNIT_BITS))
        return CircularLaw(arc=self.arc, weight=weight, bits=UNIT_BITS, circle=circle)


AnyRelease = LocalRelease | PhaseRelease | SumRelease
RELEASES: Mapping[str, type[AnyRelease]] = MappingProxyType(
    {"local.v1": LocalRelease, "phase.v1": PhaseRelease, "sum.v1": SumRelease}
)


def _find_release(kind: str) -> type[AnyRelease]:
    if kind not in RELEASES:
        raise UnsupportedVersionError(
            f"this release knows {', '.join(RELEASES)}", fix="update this software"
        )
    return RELEASES[kind]


Release = Annotated[AnyRelease, Tagged("kind", _find_release)]
"""The release of a plan; its ``kind`` says which."""
