"""Selections of sketches to compare: their mean features, and the scales of the errors of these."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sfumato.learning.estimate.counts import RecordCount, count_records, put_count
from sfumato.learning.estimate.devices import find_difference
from sfumato.learning.estimate.totals import Totals
from sfumato.learning.estimate.utility import estimate_utility, form_sketch
from sfumato.learning.estimate.weights import SIZE_WEIGHTS, Weights
from sfumato.learning.insight.covariance import Floats, stack
from sfumato.shared.errors import DecodingError
from sfumato.shared.plan import SketchPlan

__all__ = ["MOST_EXACT", "Errors", "Selection", "SelectionMean", "average", "require_supported"]

MOST_EXACT: Final = 20
"""Noise of more sketches than this is Gaussian: the excess of its energy falls as 1 / L."""
_LEAST_SAMPLING = 1e-3


@dataclass(frozen=True, kw_only=True, eq=False)
class Selection:
    """Sketches to compare with others.

    Parameters
    ----------
    name
        In the words of a report.
    totals
        Their exact sums.
    members
        Identities of the parts that were added up, such as sketches or cells of them: two
        selections with a common member share noise and cannot be compared.
    weights
        Weights of the sketches.
    sizes
        Number of records and block of each sketch: shape ``(L, 2)``. Only needed for weights other
        than by size, with few sketches.
    """

    name: str
    totals: Totals
    members: frozenset[object]
    weights: Weights = SIZE_WEIGHTS
    sizes: NDArray[np.int64] | None = None


@dataclass(frozen=True, kw_only=True, eq=False)
class Errors:
    """Scales of the errors of a mean of features, or of a difference, by block: shapes ``(B,)``.

    Parameters
    ----------
    noise
        Variance of one real coordinate by privacy noise alone.
    sampling
        Factor of the covariance of one record: 1 / n, and more where devices differ.
    counting
        Relative variance of a secret number of records.
    factors
        For each block, the factors of the noise of its sketches, where these are few; otherwise
        none.
    gaussian
        The part of ``noise`` from many sketches, whose sum is Gaussian.
    """

    noise: Floats
    sampling: Floats
    counting: Floats
    factors: tuple[Floats, ...]
    gaussian: Floats

    def __add__(self, other: Errors) -> Errors:
        """Return the errors of a sum or a difference: all errors are symmetric."""
        pairs = zip(self.factors, other.factors, strict=True)
        return Errors(
            noise=self.noise + other.noise,
            sampling=self.sampling + other.sampling,
            counting=self.counting + other.counting,
            factors=tuple(np.concatenate(pair) for pair in pairs),
            gaussian=self.gaussian + other.gaussian,
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class SelectionMean:
    """Mean features of a selection, stacked: shape ``(2 m,)``; and the scales of their errors."""

    name: str
    features: Floats
    errors: Errors
    n_records: int
    n_sketches: int

    @property
    def is_known(self) -> NDArray[np.bool_]:
        """Whether a block has records: shape ``(B,)``."""
        known: NDArray[np.bool_] = self.errors.noise > 0.0
        return known

    def restrict(self, blocks: NDArray[np.bool_], block_of: NDArray[np.int64]) -> SelectionMean:
        """Return the same without the features and errors of other blocks."""
        errors = self.errors
        return replace(
            self,
            features=np.where(np.tile(blocks[block_of], 2), self.features, 0.0),
            errors=Errors(
                noise=errors.noise * blocks,
                sampling=errors.sampling * blocks,
                counting=errors.counting * blocks,
                factors=tuple(
                    factors if kept else np.empty(0)
                    for factors, kept in zip(errors.factors, blocks, strict=True)
                ),
                gaussian=errors.gaussian * blocks,
            ),
        )


def require_supported(plan: SketchPlan) -> None:
    """Refuse a plan whose sketches have other errors than those known here.

    Raises
    ------
    WrongStatisticError
        The plan has no Fourier features.
    DecodingError
        Its records have masks, its devices report phases, or a sketch counts as one record.
    """
    _ = plan.fourier
    for is_met, field, rule in (
        (plan.has_masks, "measurements_per_record", "must be n_frequencies for this: masks add"),
        (plan.reports_phases, "release", "must be local.v1 for this: phase reports have"),
        (plan.protects_devices, "unit", "must be record for this: means of devices have"),
    ):
        if is_met:
            raise DecodingError(
                f"{rule} errors of their own",
                field=field,
                fix="compare the results of two decodes instead",
            )


def average(
    plan: SketchPlan,
    selection: Selection,
    *,
    most_exact: int = MOST_EXACT,
    may_lack_blocks: bool = False,
) -> SelectionMean:
    """Average the features of a selection, and measure the scales of their errors.

    Parameters
    ----------
    plan, selection
        The plan of the sketches, and the sketches.
    most_exact
        Sketches of a block up to which the law of their noise is exact, rather than Gaussian.
    may_lack_blocks
        Whether records in one block suffice. The features and errors of the other blocks are 0.

    Raises
    ------
    WrongStatisticError, DecodingError
        The plan is not supported, see :func:`require_supported`; some block has no sketch, or no
        record distinct from noise; or sizes are missing that the weights need.
    """
    require_supported(plan)
    count = count_records(plan, selection.totals)
    totals = put_count(selection.totals, count)
    moments, weights = totals.moments, selection.weights
    is_known = (moments.floats[0] > 0) & count.is_known
    if not (np.any(is_known) if may_lack_blocks else np.all(is_known)):
        extent = "some block" if may_lack_blocks else f"each of the {plan.blocks.n_blocks} blocks"
        raise DecodingError(
            f"must hold records in {extent} of frequencies; {selection.name} does not",
            field="selection",
            fix="widen its slots or labels, or wait for more sketches",
        )
    unit = plan.mean_amplitude
    energy = weights.compute_noise_energy(
        moments, noise_variance=plan.released_variance, amplitude=unit, alpha=1.0
    )
    sketch = form_sketch(plan, weights, moments, sums=totals.sums, size_sums=totals.size_sums)
    is_exact = is_known & (moments.floats[0] <= most_exact)
    noise = np.where(is_known, energy / 2.0, 0.0)
    return SelectionMean(
        name=selection.name,
        features=np.where(np.tile(is_known[plan.blocks.block_of], 2), stack(sketch), 0.0),
        errors=Errors(
            noise=noise,
            sampling=_measure_sampling(plan, totals, count, weights, is_known),
            counting=np.where(is_known, count.relative_variance, 0.0),
            factors=_find_factors(plan, selection, totals, is_exact),
            gaussian=np.where(is_exact, 0.0, noise),
        ),
        n_records=count.n_records,
        n_sketches=moments.n_sketches,
    )


def _measure_sampling(
    plan: SketchPlan,
    totals: Totals,
    count: RecordCount,
    weights: Weights,
    is_known: NDArray[np.bool_],
) -> Floats:
    """Return 1 / n of each block, plus what the difference between devices adds.

    Devices that hold other kinds of records count as fewer records: D (1 / L_b - 1 / L) over the
    variance ``1 - |z|^2`` of one record.
    """
    effective = weights.compute_effective_records(totals.moments)
    sampling: Floats = np.zeros(effective.size)
    np.divide(1.0, effective, out=sampling, where=is_known)
    # The difference between devices is seen where every block has sketches.
    if plan.is_split and np.all(is_known):
        signal = estimate_utility(plan, totals, count, weights).signal_energy
        extra = find_difference(plan, totals.moments, count.is_known, signal_energy=signal)
        sampling = sampling + extra / max(_LEAST_SAMPLING, 1.0 - signal)
    return sampling


def _find_factors(
    plan: SketchPlan, selection: Selection, totals: Totals, is_exact: NDArray[np.bool_]
) -> tuple[Floats, ...]:
    """Return what the noise of each sketch is multiplied by in the mean of its block."""
    weights = selection.weights
    wholes = (plan.mean_amplitude * weights.total(totals.moments)).tolist()
    factors = []
    for block, (n_sketches, whole) in enumerate(zip(totals.moments.rows[0], wholes, strict=True)):
        if not is_exact[block]:
            factors.append(np.empty(0))
        elif weights.b == 0.0:
            factors.append(np.full(n_sketches, weights.a / whole))
        else:
            sizes = _require_sizes(selection, block, n_sketches)
            factors.append((weights.a + weights.b * sizes) / whole)
    return tuple(factors)


def _require_sizes(selection: Selection, block: int, n_sketches: int) -> Floats:
    listed = selection.sizes if selection.sizes is not None else np.empty((0, 2), dtype=np.int64)
    sizes: Floats = listed[listed[:, 1] == block, 0].astype(np.float64)
    if sizes.size != n_sketches:
        raise DecodingError(
            f"must list the {n_sketches} sketches of block {block} and lists {sizes.size}",
            field="sizes",
            fix="give them, or weigh by size",
        )
    return sizes
