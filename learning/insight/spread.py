"""The devices that a change is seen in: each device's own change along that of all together.

With D the difference of the mean features of all records, after minus before, d that of one device,
and G = Sw^-1 J' (J Sw^-1 J' + I / s^2)^-1 J Sw^-1 as in :mod:`sfumato.learning.insight.statistics`:

    x = d' G D - tr G C,    C = a Sigma_a + b Sigma_b
    Var x = g' (Sigma_a + Sigma_b) g + tr (G C)^2,    g = G D

``Sigma_a`` and ``Sigma_b`` are the covariances of the device's means after and before, and a and b
its shares of the records: its own errors are in D too, and C is what both have in common. Where
nothing in the device has changed, x has mean 0, and is nearly Gaussian, as a sum of many features.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import add
from typing import Final

import numpy as np

from sfumato.learning.estimate.totals import Totals
from sfumato.learning.insight.covariance import Floats
from sfumato.learning.insight.model import StudyModel
from sfumato.learning.insight.selection import Errors, Selection, SelectionMean, average
from sfumato.learning.insight.statistics import Statistics, compute_sigma
from sfumato.shared.errors import DecodingError

__all__ = ["Spread", "measure_spread"]

_LEVEL: Final = 0.01
"""Largest probability of counting a device that has not changed."""
_FALSE: Final = 0.05
"""Largest mean share of such devices among those counted, by Benjamini and Hochberg."""
_MISSED: Final = 2.326
"""In standard deviations of x: a change so far beyond the limit is missed with probability 1 %."""
_LEAST_DEVICES: Final = 2
_LEAST_PART: Final = 0.3
"""Least part of the changes seen; a smaller change is a device's own drift."""

Sides = tuple[Totals, Totals]
"""The sums of a device before and after a change."""


@dataclass(frozen=True, kw_only=True)
class Spread:
    """The numbers of devices that a change is seen in, is not in, or that cannot tell.

    Parameters
    ----------
    n_changed
        Devices whose own records changed the same way. Where the change is real, 1 % of those that
        did not are among them, and they are 5 % of these, at most.
    n_unchanged
        Devices in which a change as in the others would be seen with probability 99 %, and is not.
    n_unclear
        Devices whose noise hides it.
    n_alone
        Devices that sent records on one side of the change alone.
    """

    n_changed: int
    n_unchanged: int
    n_unclear: int
    n_alone: int = 0

    @property
    def words(self) -> str:
        """The words that end a sentence about the change; none where no device can tell."""
        n_devices = self.n_changed + self.n_unchanged + self.n_unclear
        unclear = f", {self.n_unclear} cannot tell" if self.n_unclear else ""
        alone = f", {self.n_alone} sent only before or after" if self.n_alone else ""
        if self.n_changed:
            return f"in {self.n_changed} of {n_devices} devices{unclear}{alone}"
        if self.n_unclear:
            return ""
        return f"in none of {n_devices} devices{alone or ': their shares changed'}"


def measure_spread(
    model: StudyModel, devices: Sequence[Sides], *, n_unread: int = 0, n_alone: int = 0
) -> Spread | None:
    """Count the devices that a change is seen in.

    Parameters
    ----------
    model
        Model of the study.
    devices
        The sums of each device before and after.
    n_unread
        Devices with records on both sides whose sums are no longer kept.
    n_alone
        Devices that sent records on one side alone.

    Returns
    -------
    Spread or None
        None for a single device, where nothing can be read on a side, or where the frequencies of
        the plan are split among devices.
    """
    if model.plan.is_split or not devices or len(devices) + n_unread + n_alone < _LEAST_DEVICES:
        return None
    try:
        whole = [_average(model, reduce(add, [sides[i] for sides in devices])) for i in range(2)]
    except DecodingError:
        return None
    statistics = Statistics(
        model=model, sigma=compute_sigma(model, whole[0].errors + whole[1].errors)
    )
    difference = whole[1].features - whole[0].features
    law = _Law.of(statistics, difference)
    total = float(difference @ law.direction) - law.trace(_join(whole, (1.0, 1.0)))
    changes, errors, shares = [], [], []
    for sides in devices:
        try:
            own = [_average(model, each) for each in sides]
        except DecodingError:
            continue
        parts = [
            mean.n_records / max(1, all_.n_records) for mean, all_ in zip(own, whole, strict=True)
        ]
        common = _join(own, (parts[0], parts[1]))
        changes.append(
            float((own[1].features - own[0].features) @ law.direction) - law.trace(common)
        )
        errors.append(law.measure_deviation(_join(own, (1.0, 1.0)), common))
        shares.append(sum(parts) / 2.0)
    judged = _judge(np.array(changes), np.array(errors), np.array(shares), total)
    n_unclear = len(devices) + n_unread - judged.n_changed - judged.n_unchanged
    return replace(judged, n_unclear=n_unclear, n_alone=n_alone)


def _judge(changes: Floats, errors: Floats, shares: Floats, total: float) -> Spread:
    """Judge devices by their changes; what others show tells which change a device would show."""
    limit = _find_limit(changes / errors) * errors
    is_changed = changes > limit
    expected = total
    if np.any(is_changed):
        seen = changes[is_changed]
        is_changed &= changes > _LEAST_PART * float(seen @ seen / np.sum(seen))
        # Those seen are too large in the mean, because they were chosen; or all carry the change.
        part = max(1e-9, float(np.sum(shares[is_changed])))
        expected = min(float(np.mean(changes[is_changed])), total / part)
    is_plain = expected > limit + _MISSED * errors
    is_unchanged = ~is_changed & (changes > -limit) & is_plain
    n_changed, n_unchanged = int(np.sum(is_changed)), int(np.sum(is_unchanged))
    return Spread(
        n_changed=n_changed,
        n_unchanged=n_unchanged,
        n_unclear=len(changes) - n_changed - n_unchanged,
    )


def _find_limit(scores: Floats) -> float:
    """Find the limit of scores that count as changed, by Benjamini and Hochberg."""
    from scipy.special import ndtr, ndtri  # noqa: PLC0415 - a server never needs it

    n = max(1, len(scores))
    steps = _FALSE * np.arange(1, len(scores) + 1) / n
    found = np.flatnonzero(np.sort(ndtr(-scores)) <= steps)
    n_found = int(found[-1]) + 1 if found.size else 1
    return -float(ndtri(min(_LEVEL, _FALSE * n_found / n)))


def _average(model: StudyModel, totals: Totals) -> SelectionMean:
    return average(model.plan, Selection(name="", totals=totals, members=frozenset()))


_Scales = tuple[float, float, float]
"""The factors of a covariance: of that of a record, of the identity, and of the features'."""


def _join(means: Sequence[SelectionMean], weights: tuple[float, float]) -> _Scales:
    """Return the scales of the errors of a weighted sum; frequencies are in one block."""
    scales = np.array([_scale(mean.errors) for mean in means])
    sampling, noise, counting = (np.array(weights) @ scales).tolist()
    return sampling, noise, counting


def _scale(errors: Errors) -> tuple[float, float, float]:
    return float(errors.sampling[0]), float(errors.noise[0]), float(errors.counting[0])


@dataclass(frozen=True, kw_only=True, eq=False)
class _Law:
    """Quadratic forms that give the mean and variance of x for covariances of any scales.

    Parameters
    ----------
    direction
        g: shape ``(2 m,)``.
    squares
        ``g' S g`` of the three covariances of scale 1.
    products
        ``J Sw^-1 S (...)'``, whose traces are those of ``G S``: shapes ``(p, p)``.
    """

    direction: Floats
    squares: Floats
    products: tuple[Floats, Floats, Floats]

    @classmethod
    def of(cls, statistics: Statistics, difference: Floats) -> _Law:
        model, gain, projection = statistics.model, statistics.gain, statistics.projection
        direction = projection.T @ (gain @ difference)
        features = model.features if model.plan.releases_count else np.zeros_like(direction)
        return cls(
            direction=direction,
            squares=np.array(
                [
                    direction @ model.covariance @ direction,
                    direction @ direction,
                    (direction @ features) ** 2,
                ]
            ),
            products=(
                gain @ model.covariance @ projection.T,
                gain @ projection.T,
                np.outer(gain @ features, projection @ features),
            ),
        )

    def trace(self, scales: _Scales) -> float:
        """Compute ``tr G S``."""
        return float(np.trace(self._product(scales)))

    def measure_deviation(self, own: _Scales, common: _Scales) -> float:
        """Compute the standard deviation of x."""
        product = self._product(common)
        return float(np.sqrt(self.squares @ np.array(own) + np.sum(product * product.T)))

    def _product(self, scales: _Scales) -> Floats:
        product: Floats = np.tensordot(np.array(scales), np.array(self.products), axes=1)
        return product
