"""Checks of opened totals: what no honest fleet can add up to, and parts that differ.

They read what is released already, so they cost no privacy; and they are never made before.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add

import numpy as np
from numpy.typing import NDArray

from sfumato.aggregator.resources.batches.record import BatchRecord
from sfumato.shared.plan import SketchPlan
from sfumato.shared.wire import decode_payload

LEAST_PARTS = 3
"""Of two parts that differ, nothing says which one is wrong."""
_X = 9.0
"""A part of an honest fleet is flagged with a chance below exp(-9), up to the forms assumed."""
_CLEAR = 4.0
"""Standard errors that a secret number of records must be above zero."""
_SAMPLING_DEGREES = 10.0
"""Fourier features of the same records vary together: as at least so many independent ones."""


def read_total(plan: SketchPlan, batch: BatchRecord) -> NDArray[np.int64]:
    """Return the total of an opened batch: shape ``(n_coordinates,)``."""
    return decode_payload(
        batch.sums or b"", width=plan.payload_width, n_coordinates=plan.n_coordinates
    )


def is_plausible(plan: SketchPlan, batch: BatchRecord) -> bool:
    """Return whether honest devices and both noises can add up to a total.

    A random vector passes a coordinate with probability at most 1/16, by the spare bits of its
    words; a small shift is not found.
    """
    total = read_total(plan, batch)
    low, high = plan.value_range
    noise = plan.n_noises * plan.mechanism.noise_bound
    n_most = batch.n_records
    if n_most is None:
        n_most = batch.n_reports * plan.size_limits[1]
    features = total[: plan.n_features]
    if int(features.min(initial=0)) < n_most * low - noise:
        return False
    if int(features.max(initial=0)) > n_most * high + noise:
        return False
    return not plan.releases_count or (
        -noise <= int(total[-1]) <= n_most * plan.count_scale + noise
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class _Part:
    """A part as sums: ``sums`` of shape ``(n_features,)``, records, reports and noised sums."""

    sums: NDArray[np.float64]
    n_records: float
    n_reports: float
    n_noises: float

    def __add__(self, other: _Part) -> _Part:
        return _Part(
            sums=self.sums + other.sums,
            n_records=self.n_records + other.n_records,
            n_reports=self.n_reports + other.n_reports,
            n_noises=self.n_noises + other.n_noises,
        )


def find_inconsistent(plan: SketchPlan, parts: Sequence[BatchRecord]) -> Sequence[BatchRecord]:
    """Return the counted parts of a slot and label set that differ from the rest.

    Part p and the rest r have the means z_p and z_r of the features. Their squared distance is
    compared with what noise and sampling explain,
    ``sum_j v_p + v_r + s_j (1/c_p + 1/c_r)``, c being numbers of reports, v variances of the noise
    of a mean, and s_j a bound of the variance of feature j of one device. Where numbers of records
    are secret, only the directions of the means are compared. The part that differs
    most is taken out first, because it is in the rest of all others. Parts that an operator
    admitted are compared with, and never returned.

    Parameters
    ----------
    parts
        Acknowledged, of one slot, label set and number.
    """
    held = {
        part.batch_id: (part, made)
        for part in parts
        if part.standing == "counted" and (made := _make_part(plan, part)) is not None
    }
    found: list[BatchRecord] = []
    while len(held) >= LEAST_PARTS:
        ratios = {
            name: _compare(
                plan, made, _join(each for key, (_, each) in held.items() if key != name)
            )
            for name, (part, made) in held.items()
            if not part.flags
        }
        worst = max(ratios, key=lambda name: ratios[name], default=b"")
        if not ratios or ratios[worst] <= 1.0:
            break
        found.append(held.pop(worst)[0])
    return found


def _make_part(plan: SketchPlan, batch: BatchRecord) -> _Part | None:
    total = read_total(plan, batch)
    n_records = float(batch.n_records or 0)
    if plan.releases_count:
        n_records = float(total[-1]) / plan.count_scale
    if n_records < max(1.0, _CLEAR * math.sqrt(plan.count_variance)):
        return None
    return _Part(
        sums=total[: plan.n_features].astype(np.float64),
        n_records=n_records,
        n_reports=float(batch.n_reports),
        n_noises=1.0,
    )


def _join(parts: Iterable[_Part]) -> _Part:
    return reduce(add, parts)


def _compare(plan: SketchPlan, part: _Part, rest: _Part) -> float:
    """Return the squared distance of two means over the largest that an honest fleet has."""
    low, high = plan.value_range
    unit = plan.mean_amplitude if plan.kind == "fourier" else float(high)
    alpha = plan.alpha if plan.kind == "fourier" else 1.0
    means = [each.sums / (unit * alpha * each.n_records) for each in (part, rest)]
    whole = part + rest
    mean = whole.sums / (unit * alpha * whole.n_records)
    if plan.kind == "fourier":
        m = plan.n_frequencies
        energy = np.tile(mean[:m] ** 2 + mean[m : 2 * m] ** 2, 2)
        spread = np.clip(1.0 / alpha - energy, 0.0, None) / 2.0
    else:
        # Of all laws on [low, high] with this mean, the two ends have the largest variance.
        spread = np.clip((1.0 - mean) * (mean - low / high), 0.0, None)
    sampling = spread * (1.0 / part.n_reports + 1.0 / rest.n_reports)
    noise = sum(
        each.n_noises * plan.released_variance / (unit * alpha * each.n_records) ** 2
        for each in (part, rest)
    )
    largest = mean.size * noise * _widen(mean.size / 2.0)
    total = float(np.sum(sampling))
    if total > 0.0:
        degrees = total**2 / float(np.sum(sampling**2))
        largest += total * _widen(min(degrees, _SAMPLING_DEGREES))
    difference = means[0] - means[1]
    distance = float(np.sum(difference**2))
    if plan.releases_count:
        # An error of the secret number of records scales the whole mean.
        distance -= float(difference @ mean) ** 2 / max(float(mean @ mean), 1e-300)
    return distance / max(largest, 1e-300)


def _widen(degrees: float) -> float:
    """Return a bound of chi-square over its mean: Laurent and Massart (2000), lemma 1."""
    return 1.0 + 2.0 * math.sqrt(_X / degrees) + 2.0 * _X / degrees
