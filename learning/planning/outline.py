"""Outline of a study: the facts known before it starts."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from sfumato.learning.calibration.calibration import share_spread
from sfumato.learning.estimate.snr import DEVICE_VARIANCE
from sfumato.shared.errors import PrivacyError
from sfumato.shared.privacy.sensitivity import require_neighbouring

FEATURES_PER_PARAMETER = (2, 3, 5, 7, 10)
"""Candidates for m / (k d): below 2 there are too few equations, above 10 no gain was measured."""
POSSIBLE_CLUSTERS = (50, 20, 10, 5)
"""Largest numbers of clusters to plan for if the wanted number is unknown."""
LARGEST_FREQUENCIES = 1 << 20
"""The most frequencies that a plan may have."""
HEADROOM = 4
"""Room in a sketch, as a multiple of the mean number of records."""
SECRET_HEADROOM = 64
"""The same where the number is secret: no device checks it, so much more must fit."""
UNITS: Final = ("record", "device")
"""The units that a plan may protect."""
TARGET_SSE: Final = 1.1
"""Relative SSE that plans aim at, unless somebody states another."""
ROUGH_SSE: Final = 1.2
"""Relative SSE up to which answers are called rough."""


@dataclass(frozen=True, kw_only=True)
class StudyOutline:
    """The facts of a study that are known before it starts.

    Parameters
    ----------
    n_records, n_sketches
        n, the records of all sketches together; and L, devices times windows.
    n_dimensions, n_clusters
        d, and the largest number k of clusters that may be wanted.
    signal_energy
        ``|z|^2``, if it is known; None for what k clusters give under the law that is chosen.
    neighbouring
        ``replace-one``, or ``add-remove-one`` where presence is secret: some sketches may then
        hold no record, and masks are refused.
    bytes_are_scarce
        Whether to take the smallest sketch that reaches the target, rather than the best quality.
    mask_groups
        m over the features of a record. Above 1, Laplace noise with masks is a candidate; it is
        never recommended, because masks save computing time but add variance.
    devices_differ
        Whether devices may hold different kinds of records. A feature that few devices carry is
        then less exact, so that each sketch carries more of them. Without effect where the unit is
        a device: the error of sampling L records then contains the difference of L devices.
    smallest_selection
        Sketches in the smallest selection that is to be decoded; None for all of them. A selection
        has to carry every feature.
    unit
        ``record``, or ``device``: all records of a window are protected together, and a sketch is
        the mean of its window, so that it counts as one record.
    by_time
        Whether windows are by time, which phase reports, secure sums and ``unit = "device"`` need.
    n_noises
        Draws of the mechanism in the total of all records: two for each batch of a secure sum, one
        for a curator who has all records. None where each sketch has one of its own.
    mechanism, stated_frequencies
        The only noise, and the only m, to plan with; None for those that suit best.

    Raises
    ------
    PrivacyError
        A count is below 1, the relation or the unit is unknown, there are fewer records than
        sketches, more frequencies are needed than a plan may have, the signal energy does not lie
        between 0 and 1, or the smallest selection has more sketches than there are. Where the unit
        is a device: the relation is not ``replace-one``, windows are by count, or there are masks.
    """

    n_records: int
    n_sketches: int
    n_dimensions: int
    n_clusters: int
    signal_energy: float | None = None
    neighbouring: str = "replace-one"
    bytes_are_scarce: bool = False
    mask_groups: int = 1
    devices_differ: bool = True
    smallest_selection: int | None = None
    unit: str = "record"
    by_time: bool = True
    n_noises: int | None = None
    mechanism: str | None = None
    stated_frequencies: int | None = None

    def __post_init__(self) -> None:
        for name in ("n_records", "n_sketches", "n_dimensions", "n_clusters", "mask_groups"):
            _require(getattr(self, name) >= 1, name, "must be at least 1", "use a whole number")
        _require(
            1 <= self.selected_sketches <= self.n_sketches,
            "smallest_selection",
            f"must be from 1 to the number of sketches, {self.n_sketches}",
            "leave it out to decode all sketches together",
        )
        require_neighbouring(self.neighbouring)
        self._require_unit()
        self._require_summable()
        _require(
            self.n_records >= self.n_sketches or self.hides_presence,
            "n_records",
            f"must be at least the number of sketches, {self.n_sketches}",
            "count the records of all sketches together",
        )
        _require(
            FEATURES_PER_PARAMETER[0] * self.n_clusters * self.n_dimensions <= LARGEST_FREQUENCIES,
            "n_clusters",
            f"times n_dimensions must be at most {LARGEST_FREQUENCIES // 2}",
            "look for fewer clusters, or in fewer dimensions",
        )
        _require(
            self.signal_energy is None or 0.0 < self.signal_energy < 1.0,
            "signal_energy",
            "must lie between 0 and 1",
            "leave it out for what so many clusters give",
        )

    def _require_unit(self) -> None:
        _require(
            self.unit in UNITS,
            "unit",
            f"must be one of {', '.join(UNITS)}",
            "leave it out for a record",
        )
        if not self.protects_devices:
            return
        where = "where the unit is a device"
        _require(
            not self.hides_presence,
            "neighbouring",
            f"must be replace-one {where}: that a device has records in a window is public",
            "leave it out, or choose the unit record",
        )
        _require(
            self.by_time,
            "by_time",
            f"must be true {where}: windows by count come as often as there are records",
            "use windows by time, or choose the unit record",
        )
        _require(
            self.mask_groups == 1,
            "mask_groups",
            f"must be 1 {where}: the records of a window would have different masks",
            "leave it out",
        )

    def _require_summable(self) -> None:
        if self.n_noises is None:
            return
        where = "where the noise is added to the sum of many sketches"
        _require(self.n_noises >= 1, "n_noises", "must be at least 1", "use two for each batch")
        _require(
            self.by_time,
            "by_time",
            f"must be true {where}: a batch is of one slot",
            "use windows by time, or let each device add noise",
        )
        _require(
            self.smallest_selection is None,
            "smallest_selection",
            f"must be left out {where}: nothing smaller than a batch is ever seen",
            "leave it out, or let each device add noise",
        )

    @property
    def is_summed(self) -> bool:
        """True if noise is added to the sum of many sketches, not to each."""
        return self.n_noises is not None

    @property
    def noises(self) -> int:
        """Draws of the mechanism in the total of all records."""
        return self.n_sketches if self.n_noises is None else self.n_noises

    @property
    def protects_devices(self) -> bool:
        """True if all records of a device's window are protected together."""
        return self.unit == "device"

    @property
    def allows_phases(self) -> bool:
        """True if devices may send phase reports."""
        return self.by_time and not self.hides_presence and not self.is_summed

    @property
    def n_counted(self) -> int:
        """The number of records that sketches count as: n, or L where the unit is a device."""
        return self.n_sketches if self.protects_devices else self.n_records

    @property
    def hides_presence(self) -> bool:
        """True if a record's presence is secret."""
        return self.neighbouring == "add-remove-one"

    @property
    def selected_sketches(self) -> int:
        """Sketches in the smallest selection that is to be decoded."""
        return self.n_sketches if self.smallest_selection is None else self.smallest_selection

    @property
    def device_variance(self) -> float:
        """Assumed variance of a feature between devices, apart from that of sampling."""
        return DEVICE_VARIANCE if self.devices_differ and not self.protects_devices else 0.0

    @property
    def most_records(self) -> int:
        """Records that a sketch has room for: a multiple of the mean, rounded up."""
        headroom = SECRET_HEADROOM if self.hides_presence else HEADROOM
        return headroom * -(-self.n_records // self.n_sketches)

    @property
    def frequencies(self) -> tuple[int, ...]:
        """Candidates for m, ascending."""
        if self.stated_frequencies is not None:
            return (self.stated_frequencies,)
        parameters = self.n_clusters * self.n_dimensions
        return tuple(
            factor * parameters
            for factor in FEATURES_PER_PARAMETER
            if factor * parameters <= LARGEST_FREQUENCIES
        )


def _require(holds: bool, field: str, rule: str, fix: str) -> None:
    if not holds:
        raise PrivacyError(rule, field=field, fix=fix)


def guess_scale(spread: float, *, n_clusters: float, n_dimensions: int) -> float:
    """Return the spread inside one cluster: ``0.7 k^(-1/d)`` of that of all records.

    Parameters
    ----------
    spread
        Standard deviation of all records, in any unit.
    n_clusters, n_dimensions
        k, not always whole, and d.
    """
    return spread * share_spread(n_clusters, n_dimensions)


def guess_clusters() -> float:
    """Return the number of clusters that a scale suits where k is unknown.

    The geometric mean of the least and the largest of ``POSSIBLE_CLUSTERS``: a factor of 2 in k
    changes the scale by 1.19 in four dimensions, which the law of frequencies forgives.
    """
    return math.sqrt(min(POSSIBLE_CLUSTERS) * max(POSSIBLE_CLUSTERS))


def describe_size(unit: str, n_records: int, n_sketches: int) -> str:
    """Describe how many records a study has; where the unit is a device, how many sketches."""
    if unit == "device":
        return f"{n_sketches:,} sketches, each of which counts as one record"
    return f"{n_records:,} records in {n_sketches:,} sketch{'' if n_sketches == 1 else 'es'}"


def round_up(number: int) -> int:
    """Round a positive whole number up to two digits."""
    step: int = 10 ** max(0, math.floor(math.log10(number)) - 1)
    return -(-number // step) * step
