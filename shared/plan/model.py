"""The plan, and the values derived from its fields."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from sfumato.shared.arrays import Bools, Floats, Integers
from sfumato.shared.core import FrequencyBlocks, FrequencyMatrix, Quantiser, RadiusLaw, Statistic
from sfumato.shared.errors import PlanError, WrongStatisticError
from sfumato.shared.plan.campaign import Campaign
from sfumato.shared.plan.dimensions import Axis, Dimension, RecordSpace
from sfumato.shared.plan.parts import (
    Helper,
    Label,
    LateRule,
    PhaseRelease,
    Release,
    StatedSensitivity,
    SumRelease,
    WindowRule,
)
from sfumato.shared.plan.rules import FORMAT_VERSION, RING_BITS
from sfumato.shared.plan.statistics import AnyStatisticPart, FourierPart, HistogramPart
from sfumato.shared.privacy import (
    Mechanism,
    PrivacyTarget,
    RandomSource,
    calibrate_mechanism,
    compute_count_variance,
)
from sfumato.shared.privacy.mechanisms.bins import BinCircle, BinReports
from sfumato.shared.privacy.mechanisms.phase import PhaseReports
from sfumato.shared.privacy.plausibility import bound_squared_norm, compute_influence
from sfumato.shared.sharing.ring import Ring


@dataclass(frozen=True, kw_only=True)
class SketchPlan:
    """A study's computation and promise; immutable, identified by the digest of its encoding.

    Create one with :func:`create_plan`, which derives the dependent fields;
    :func:`sfumato.shared.plan.derivation.verify` checks those of a plan from elsewhere.

    Parameters
    ----------
    format_version
        1.
    dimensions
        The columns of a record, in order.
    statistic
        The integers that a record adds.
    release
        The noise and its guarantee; its kind decides how a payload is read.
    window
        How streams are cut.
    least_records, most_records
        Records in one sketch. Fewer are carried over into the next window; a full window closes
        early, or, where the unit is a device, leaves out the records that follow in its slot. Under
        ``add-remove-one`` the least is 0, and the most only sizes the payload: no device ever
        compares its records with it.
    max_records_per_person
        Records that one person can have in a window; None if unknown.
    most_clusters
        The largest number of clusters that the frequencies were chosen for; None if unknown. A
        decode may ask for more, at lower quality.
    coordinate_bound
        Largest magnitude of a released coordinate; larger values saturate.
    payload_width
        Bytes of one released coordinate, or of one reported phase.
    ring_bits
        Width of the sums, 64.
    most_sketches
        Sketches that the study accepts, so that its sums cannot overflow.
    most_sketches_per_device, most_streams_per_device
        The share of one device, so that no lying device can lock out the others.
    labels
        Declared labels of devices.
    late_rule
        ``open-window``: late records join the window that is open. ``leave-out-outside``: so do
        they, but a record whose time lies before the origin, or at the end or later, or cannot be
        read, joins no window of this study. So no record is in two such studies whose times do not
        overlap.
    campaign
        The terms of the campaign that the study is a phase of; None for a study by itself.
    """

    format_version: int = FORMAT_VERSION
    dimensions: tuple[Dimension, ...]
    statistic: AnyStatisticPart
    release: Release
    window: WindowRule
    least_records: int
    most_records: int
    max_records_per_person: int | None = None
    most_clusters: int | None = None
    coordinate_bound: int = 0
    payload_width: int = 0
    ring_bits: int = RING_BITS
    most_sketches: int
    most_sketches_per_device: int
    most_streams_per_device: int
    labels: tuple[Label, ...] = ()
    late_rule: LateRule = "open-window"
    campaign: Campaign | None = field(default=None, metadata={"optional": True})

    # Derived values.

    @property
    def n_dimensions(self) -> int:
        """The number of dimensions d."""
        return len(self.dimensions)

    @cached_property
    def space(self) -> RecordSpace:
        """The space of records."""
        return RecordSpace(dimensions=self.dimensions)

    @property
    def axes(self) -> tuple[Axis, ...]:
        """The coordinates of sketched records: d' of them, d where no dimension has levels."""
        return self.space.axes

    @property
    def n_axes(self) -> int:
        """The number of axes d'."""
        return len(self.axes)

    @property
    def kind(self) -> str:
        """The kind of the statistic."""
        return self.statistic.kind

    @cached_property
    def blocks(self) -> FrequencyBlocks:
        """The blocks of what is summed, of which a sketch carries one; by default one has all."""
        return self.statistic.get_blocks(self.space)

    @property
    def is_split(self) -> bool:
        """True if a sketch carries only some of what is summed."""
        return self.blocks.n_blocks > 1

    @cached_property
    def places(self) -> Integers:
        """The coordinates of a sum that a sketch of each block carries: shape ``(B, n)``."""
        return self.statistic.find_places(self.space)

    @property
    def n_features(self) -> int:
        """Coordinates of a sketch without a secret number of records."""
        return int(self.places.shape[1])

    @cached_property
    def value_range(self) -> tuple[int, int]:
        """The least and the largest integer that a record adds to a coordinate."""
        return self.statistic.bound_values(self.space)

    def find_sketchable(self, values: Floats) -> Bools:
        """Return which records add to a sum; a histogram counts what is missing too.

        A value that is no level of a category is missing there.

        Parameters
        ----------
        values
            Shape ``(n, d)``, data units, as devices read them.
        """
        sketchable = np.ones(len(values), dtype=np.bool_)
        for i in self.statistic.list_needed(self.space):
            each = self.dimensions[i]
            if each.missing is None:
                column = values[:, i]
                present = each.encoding.transform(column) if each.is_categorical else column
                sketchable &= np.isfinite(present)
        return sketchable

    def find_counted(self, *, block: int) -> tuple[slice, ...]:
        """Return the stretches of a sketch whose counts add up to its number of records.

        Those of each dimension of a histogram, and all cells of a grid; none elsewhere.
        """
        return self.statistic.find_counted(self.space, block=block)

    # Values of plans with Fourier features; WrongStatisticError elsewhere.

    @property
    def fourier(self) -> FourierPart:
        """The features of the plan.

        Raises
        ------
        WrongStatisticError
            The plan has another statistic.
        """
        if not isinstance(self.statistic, FourierPart):
            raise WrongStatisticError(
                f"must be fourier for this and is {self.kind}",
                field="statistic.kind",
                fix="use a study whose plan has Fourier features",
            )
        return self.statistic

    @property
    def n_frequencies(self) -> int:
        """The number of frequencies m."""
        return self.fourier.n_frequencies

    @property
    def seed(self) -> bytes:
        """The published seed of the frequency matrix."""
        return self.fourier.seed

    @property
    def radius_law(self) -> RadiusLaw:
        """The law of the frequencies' radii."""
        return self.fourier.radius_law

    @property
    def measurements_per_record(self) -> int:
        """The number r of features that a record adds to."""
        return self.fourier.measurements_per_record

    @property
    def frequencies_per_sketch(self) -> int:
        """The number of features that a sketch carries: m, or fewer."""
        return self.fourier.frequencies_per_sketch

    @property
    def amplitude(self) -> int:
        """The largest modulus A of an integer feature."""
        return self.fourier.amplitude

    @property
    def has_masks(self) -> bool:
        """True if a record adds to only some of the features, by a mask of its stream."""
        return self.privacy_target.shape.is_masked

    @property
    def alpha(self) -> float:
        """The share of features that a record adds to, r / m."""
        return self.measurements_per_record / self.n_frequencies

    @property
    def frequencies(self) -> FrequencyMatrix:
        """The integer frequencies, regenerated from the seed."""
        return self.fourier.draw(self.space)

    @property
    def releases_count(self) -> bool:
        """True if the number of records is secret, and released with noise after the features."""
        return self.release.neighbouring == "add-remove-one"

    @property
    def reports_phases(self) -> bool:
        """True if a payload holds phases: rows of the feature table, or bins on a circle."""
        return self.release.kind == "phase.v1"

    @property
    def sum_release(self) -> SumRelease | None:
        """The release of a plan whose devices send masked sums; None of other plans."""
        return self.release if isinstance(self.release, SumRelease) else None

    @property
    def ring(self) -> Ring:
        """The ring of masked sums."""
        return Ring(width=self.payload_width)

    @property
    def helper(self) -> Helper:
        """The second server of a secure sum.

        Raises
        ------
        PlanError
            The plan has no secure sum, or is a draft.
        """
        release = self.sum_release
        if release is None or release.helper is None:
            raise PlanError(
                "is missing: this is the draft of a secure sum, or another release",
                field="release.helper",
                fix="let the helper's operator accept the draft with `sfumato helper accept`",
            )
        return release.helper

    def require_single_sketches(self) -> None:
        """Refuse a plan whose sums get their noise from two servers, where one sketch is a release.

        Raises
        ------
        PlanError
            The plan has a secure sum: nothing here may draw its noise, or read its masked sums.
        """
        if self.sum_release is not None:
            raise PlanError(
                "cannot be sum.v1 here: only two servers can open the total of masked sums, and "
                "each adds its noise then",
                field="release",
                fix='use a plan with release = "local.v1"',
            )

    @property
    def n_noises(self) -> int:
        """The number of draws of the mechanism in a released sum: 2 of a batch, 1 of a sketch."""
        return 1 if self.sum_release is None else 2

    @property
    def released_variance(self) -> float:
        """Noise variance of one real coordinate of what is stored: a sketch, or a batch."""
        return self.n_noises * self.mechanism.variance

    @property
    def most_released(self) -> int:
        """The most records in a released sum."""
        batch = self.sum_release
        return self.size_limits[1] * (1 if batch is None else batch.most_reports)

    @property
    def n_reports(self) -> int:
        """The number of features, or of dimensions, that a sketch carries."""
        return self.blocks.frequencies_per_sketch

    @cached_property
    def bin_circle(self) -> BinCircle | None:
        """Where the bins of a dimension lie that is reported; None if features are."""
        if isinstance(self.statistic, HistogramPart):
            return self.statistic.arrange_bins(self.space)[0]
        return None

    @property
    def protects_devices(self) -> bool:
        """True if all records of a device's window are protected together: a sketch counts as 1."""
        return self.release.unit == "device"

    @property
    def is_bounded(self) -> bool:
        """True if a record outside the study's times joins no window."""
        return self.late_rule == "leave-out-outside"

    def shares_no_record(self, other: SketchPlan) -> bool:
        """Return whether no record joins windows of both, where its time is read in one way."""
        return self.is_bounded and other.is_bounded and self.window.is_apart(other.window)

    @property
    def hides_counts(self) -> bool:
        """True if nobody is to learn how many records a sketch holds."""
        return self.releases_count or self.protects_devices

    @property
    def size_limits(self) -> tuple[int, int]:
        """The least and the largest number of records that a sketch may state."""
        return (1, 1) if self.protects_devices else (self.least_records, self.most_records)

    @property
    def n_coordinates(self) -> int:
        """Released coordinates of a sketch, with one for a secret number of records."""
        return self.n_features + int(self.releases_count)

    @property
    def payload_bytes(self) -> int:
        """Length of a sketch's payload."""
        n = self.n_reports if self.reports_phases else self.n_coordinates
        return n * self.payload_width

    @property
    def quantiser(self) -> Quantiser:
        """The quantiser of the axes."""
        return self.space.quantiser

    @property
    def scale(self) -> Floats:
        """The public spread guess along each axis: shape ``(d',)``, on its scale."""
        return self.space.scale

    @cached_property
    def privacy_target(self) -> PrivacyTarget:
        """The guarantee that a release must have."""
        return PrivacyTarget(
            mechanism=self.release.mechanism,
            shape=self.statistic.measure_shape(self.space),
            epsilon=self.release.epsilon,
            delta=self.release.delta,
            neighbouring=self.release.neighbouring,
        )

    @cached_property
    def mechanism(self) -> Mechanism:
        """The mechanism by which a device releases its sum."""
        release = self.release
        if isinstance(release, PhaseRelease):
            n, epsilon, circle = self.n_reports, release.epsilon, self.bin_circle
            if circle is None:
                return PhaseReports(law=release.make_law(), n_reports=n, epsilon=epsilon)
            law = release.make_law(circle.n_bins)
            return BinReports(law=law, n_reports=n, epsilon=epsilon, circle=circle)
        return calibrate_mechanism(self.privacy_target)

    @property
    def mean_amplitude(self) -> float:
        """The modulus that one record's feature has in the mean of a release: A times the gain."""
        return self.amplitude * self.mechanism.gain

    def statistic_of(self, stream_id: bytes, *, block: int = 0) -> Statistic:
        """Return the statistic of one window.

        Parameters
        ----------
        stream_id
            Names device and stream; it decides masks.
        block
            The block of features that the sketch carries.
        """
        return self.statistic.build(self.space, stream_id=stream_id, block=block)

    @property
    def count_variance(self) -> float:
        """Noise variance of a released number of records; 0 where it is public."""
        if not self.releases_count:
            return 0.0
        return self.n_noises * compute_count_variance(self.privacy_target, self.mechanism)

    def finish_sum(self, sums: Integers, n_records: int) -> Integers:
        """Return the vector that is released with noise.

        The sum, and the scaled number of records where that is secret. Where the unit is a device,
        its mean, rounded towards 0: it lies within the hull of the features of single records, so
        two of them differ no more than two records do. Counts are of one record there.

        Parameters
        ----------
        sums
            Shape ``(n_features,)``.
        n_records
            The records in it.

        Returns
        -------
        NDArray
            Shape ``(n_coordinates,)``, int64.
        """
        if self.protects_devices:
            mean: Integers = np.sign(sums) * (np.abs(sums) // max(1, n_records))
            return mean
        if not self.releases_count:
            return sums
        return np.append(sums, np.int64(n_records * self.count_scale))

    def state_size(self, n_records: int) -> int | None:
        """Return the records that a sketch states: 1 for a device, None where it is secret."""
        if self.releases_count:
            return None
        return 1 if self.protects_devices else n_records

    def draw_release(self, sums: Integers, n_records: int, source: RandomSource) -> Integers:
        """Return ``clip(S + noise)`` of an exact sum.

        Clipping to what a sketch of n records can hold is post-processing, and spares an honest
        device the refusal of an improbable draw.

        Parameters
        ----------
        sums
            Shape ``(n_features,)``.
        n_records
            The records in it.
        source
            Where the noise comes from.

        Returns
        -------
        NDArray
            Shape ``(n_coordinates,)``, int64.

        Guarantees
        ----------
        Every call is a new release, and costs the plan's epsilon once more.
        """
        noisy = self.mechanism.add_noise(self.finish_sum(sums, n_records), source)
        return np.clip(noisy, *self.coordinate_limits(self.state_size(n_records)))

    def saturate_sum(self, finished: Integers) -> Integers:
        """Clip a finished sum to what ``most_records`` records can add up to, before it is masked.

        It binds under add-remove-one alone, where a device never compares its records with the
        most. Each coordinate of neighbours moves by no more than before, so sensitivities hold; and
        one busy device cannot make the total of a batch wrap.
        """
        low, high = self.value_range
        most = self.size_limits[1]
        upper = np.full(finished.size, most * high, dtype=np.int64)
        lower = np.full(finished.size, most * low, dtype=np.int64)
        if self.releases_count:
            lower[-1], upper[-1] = 0, most * self.count_scale
        return np.clip(finished, lower, upper)

    @property
    def sensitivity(self) -> StatedSensitivity:
        """The enumerated sensitivity of a sum; without norm and 0 for phase reports."""
        if isinstance(self.release, PhaseRelease):
            return StatedSensitivity()
        return self.release.sensitivity

    @property
    def count_scale(self) -> int:
        """The factor of a released number of records; 0 where it is public."""
        return 0 if isinstance(self.release, PhaseRelease) else self.release.count_scale

    def bound_squared_norm(self, n_records: int) -> float:
        """Bound ``|S + Y|_2^2`` of the features of an honest release of at most so many records.

        In squared units of the sum; an honest release exceeds it with probability below 2^-40.
        """
        if self.reports_phases:
            return float(self.n_reports * self.value_range[1] ** 2)
        return bound_squared_norm(self.privacy_target, self.mechanism, n_records=n_records)

    def compute_influence(self, n_records: int) -> float:
        """Compute how many equal records move a sum as far as one sketch that claims so many.

        This limits what a lying device can do. One phase report moves the sum as far as 1 / gain
        records that are reported truly do in the mean.
        """
        if self.reports_phases:
            return 1.0 / self.mechanism.gain
        return compute_influence(self.privacy_target, self.mechanism, n_records=n_records)

    def largest_coordinate(self, n_records: int | None) -> int:
        """Return the largest magnitude that a sketch of ``n_records`` may hold.

        Guarantees
        ----------
        Where the number of records is secret (``n_records`` None) it follows from the plan alone.

        Raises
        ------
        PlanError
            A number is given where it is secret, or missing where it is public.
        """
        if (n_records is None) != self.releases_count:
            raise PlanError(
                "must be given where the number of records is public, and only there",
                field="n_records",
                fix="report this: a secret number of records was about to be used",
            )
        if n_records is None:
            return self.coordinate_bound
        low, high = self.value_range
        largest = n_records * max(high, -low) + self.mechanism.noise_bound
        return min(self.coordinate_bound, largest)

    def coordinate_limits(self, n_records: int | None) -> tuple[Integers, Integers]:
        """Return the least and the largest value of each released coordinate: shapes ``(D,)``.

        Clipping to them is post-processing of the noised sum. Raises as
        :meth:`largest_coordinate`.
        """
        largest = self.largest_coordinate(n_records)
        high = np.full(self.n_coordinates, largest, dtype=np.int64)
        low = -high
        if not self.value_range[0]:
            low[:] = -min(largest, self.mechanism.noise_bound)
        if self.releases_count:
            noise = self.mechanism.noise_bound
            low[-1], high[-1] = -noise, self.most_records * self.count_scale + noise
        return low, high
