"""Outline of a study: the facts known before it starts."""

from __future__ import annotations

from dataclasses import dataclass

from learning.estimate.snr import DEFAULT_SIGNAL_ENERGY, DEVICE_VARIANCE
from shared.errors import PrivacyError
from shared.privacy.sensitivity import require_neighbouring

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
        ``|z|^2``, an assumption: 0.10 to 0.45 was observed.
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
        then less exact, so that each sketch carries more of them.
    smallest_selection
        Sketches in the smallest selection that is to be decoded; None for all of them. A selection
        has to carry every feature.

    Raises
    ------
    PrivacyError
        A count is below 1, the relation is unknown, there are fewer records than sketches, more
        frequencies are needed than a plan may have, the signal energy does not lie between 0 and 1,
        or the smallest selection has more sketches than there are.
    """

    n_records: int
    n_sketches: int
    n_dimensions: int
    n_clusters: int
    signal_energy: float = DEFAULT_SIGNAL_ENERGY
    neighbouring: str = "replace-one"
    bytes_are_scarce: bool = False
    mask_groups: int = 1
    devices_differ: bool = True
    smallest_selection: int | None = None

    def __post_init__(self) -> None:
        for name in ("n_records", "n_sketches", "n_dimensions", "n_clusters", "mask_groups"):
            if getattr(self, name) < 1:
                raise PrivacyError("must be at least 1", field=name, fix="use a whole number")
        if not 1 <= self.selected_sketches <= self.n_sketches:
            raise PrivacyError(
                f"must be from 1 to the number of sketches, {self.n_sketches}",
                field="smallest_selection",
                fix="leave it out to decode all sketches together",
            )
        require_neighbouring(self.neighbouring)
        if self.n_records < self.n_sketches and not self.hides_presence:
            raise PrivacyError(
                f"must be at least the number of sketches, {self.n_sketches}",
                field="n_records",
                fix="count the records of all sketches together",
            )
        if FEATURES_PER_PARAMETER[0] * self.n_clusters * self.n_dimensions > LARGEST_FREQUENCIES:
            raise PrivacyError(
                f"times n_dimensions must be at most {LARGEST_FREQUENCIES // 2}",
                field="n_clusters",
                fix="look for fewer clusters, or in fewer dimensions",
            )
        if not 0.0 < self.signal_energy < 1.0:
            raise PrivacyError(
                "must lie between 0 and 1",
                field="signal_energy",
                fix=f"leave it out for {DEFAULT_SIGNAL_ENERGY}",
            )

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
        """Assumed variance of a feature between devices; 0 where they are alike."""
        return DEVICE_VARIANCE if self.devices_differ else 0.0

    @property
    def most_records(self) -> int:
        """Records that a sketch has room for: a multiple of the mean, rounded up."""
        headroom = SECRET_HEADROOM if self.hides_presence else HEADROOM
        return headroom * -(-self.n_records // self.n_sketches)

    @property
    def frequencies(self) -> tuple[int, ...]:
        """Candidates for m, ascending."""
        parameters = self.n_clusters * self.n_dimensions
        return tuple(
            factor * parameters
            for factor in FEATURES_PER_PARAMETER
            if factor * parameters <= LARGEST_FREQUENCIES
        )
