"""How far statistics of a synthetic table are off: shares of ranges, and correlations.

A density of the ensemble that follows the histograms of the columns is one table that may be the
true one; what such tables disagree on is what nobody knows.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sfumato.learning.answers.densities import (
    Interval,
    compute_all_quantiles,
    compute_blur,
    compute_correlations,
    compute_own_shares,
    compute_shares,
    pool,
    spread_points,
)
from sfumato.learning.decoding.bars import LAWS, choose_word
from sfumato.learning.decoding.density import Posterior
from sfumato.learning.generative.columns import NumberColumn, match_columns
from sfumato.shared.core.logarithm import compress
from sfumato.shared.plan import SketchPlan
from sfumato.shared.wire.objects.synthesis import CorrelationErrorBody, RangeErrorBody

Floats = NDArray[np.float64]
_N_BOXES: Final = 40
_N_RANGES: Final = 12
_SEED: Final = 0
_N_SAMPLES: Final = 4096
_MEAN_OF_NORMAL: Final = math.sqrt(2.0 / math.pi)
_MOST_COLUMNS: Final = 3
_A_PAIR: Final = 2


def measure_spread(
    plan: SketchPlan, posterior: Posterior, name: str, samples: Floats, rng: np.random.Generator
) -> float:
    """Measure the standard error of shares of random ranges of one number by the densities.

    Parameters
    ----------
    name
        Name of the number.
    samples
        Shape ``(n, d)``: of the densities, the plan's coordinates.
    """
    axis = next(
        i for i, each in enumerate(plan.axes) if plan.dimensions[each.dimension].name == name
    )
    ends = samples[:, axis].min(), samples[:, axis].max()
    factor, squares = LAWS["share"].compute_factor(posterior.held_out), []
    for _ in range(_N_RANGES):
        low, high = np.sort(rng.uniform(*ends, size=2))
        box = [Interval(axis=axis, low=float(low), high=float(high))]
        squares.append((factor * float(pool(posterior, compute_shares(posterior, box))[1])) ** 2)
    return math.sqrt(float(np.mean(squares)))


@dataclass(frozen=True, kw_only=True, eq=False)
class _Range:
    """A range of one column: the samples below it, and those inside."""

    column: int
    below: NDArray[np.bool_]
    inside: NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True, eq=False)
class TableErrors:
    """Errors of a table that is drawn from densities, some columns by histograms.

    Parameters
    ----------
    plan, posterior
        The study's plan, and the densities of the decode.
    columns
        Distributions of the numbers that follow a histogram.
    n_records
        Records of the table.
    """

    plan: SketchPlan
    posterior: Posterior
    columns: Sequence[NumberColumn]
    n_records: int

    def estimate_ranges(self) -> list[RangeErrorBody]:
        """Estimate how far shares of random ranges of one, two and three numbers are off.

        Only columns that follow a histogram are included: without one, nothing says how far spikes
        and sharp ends are blurred, and errors of real sets were up to three times those of the
        densities.
        Ranges of one number are as far off as the histogram says. Ranges of several are off by what
        the densities disagree on once each follows the histogram, in bars as those of questions,
        and by what their ranges of one number are. There are none where the bars mean nothing.
        """
        numbers = [i for i in range(len(self._names)) if self._names[i] in self._by_name]
        if not self.has_bars or not numbers:
            return []
        rng = np.random.default_rng(_SEED)
        samples = self.posterior.draw_samples(_N_SAMPLES, rng=rng)
        records = match_columns(self.plan.space.to_records(samples), self._names, self.columns, rng)
        errors = [float(np.mean([self._find_error(i) for i in numbers]))]
        for n_columns in range(2, min(_MOST_COLUMNS, len(numbers)) + 1):
            boxes = [
                [
                    self._draw_range(records, column, rng)
                    for column in rng.choice(numbers, size=n_columns, replace=False).tolist()
                ]
                for _ in range(_N_BOXES)
            ]
            errors.append(float(np.mean(self._estimate_boxes(boxes))))
        return [RangeErrorBody(n_columns=n, error=error) for n, error in enumerate(errors, start=1)]

    def estimate_correlations(self) -> list[CorrelationErrorBody]:
        """Estimate how far correlations of two numbers on linear scales are off.

        They are the spread over the densities, each of which follows the histogram if there is one,
        and what correlations shrink by if the sketch blurs columns by half of the plan's scale, in
        bars fitted to correlations; there are none where the bars mean nothing.
        """
        chosen = [
            i
            for i, each in enumerate(self.plan.dimensions)
            if not each.is_categorical and each.transform is None
        ]
        if not self.has_bars or len(chosen) < _A_PAIR:
            return []
        rng, found = np.random.default_rng(_SEED), []
        for draw in range(self.posterior.n_draws):
            points, shares = spread_points(self.posterior, draw)
            records = self.plan.space.to_records(points)
            for i in chosen:
                known = self._by_name.get(self._names[i])
                if known is not None:
                    records[:, i] = known.place(records[:, i], rng, shares)
            found.append(compute_correlations(records[:, chosen], shares))
        means, spreads = pool(self.posterior, np.array([each for each, _ in found]))
        deviations, _ = pool(self.posterior, np.array([each for _, each in found]))
        scales = np.array([self.plan.scale[self._find_axis(i)] for i in chosen])
        law = LAWS["correlation"]
        parts = (
            law.compute_factor(self.posterior.held_out) * spreads,
            law.sampling * compute_blur(means, deviations, scales),
            (1.0 - means**2) / math.sqrt(self.n_records),
        )
        errors = np.minimum(_MEAN_OF_NORMAL * np.linalg.norm(parts, axis=0), 1.0)
        return [
            CorrelationErrorBody(
                columns=[self._names[chosen[i]], self._names[chosen[j]]], error=float(errors[i, j])
            )
            for i, j in combinations(range(len(chosen)), 2)
        ]

    @cached_property
    def _by_name(self) -> dict[str, NumberColumn]:
        return {each.name: each for each in self.columns}

    @cached_property
    def _names(self) -> tuple[str, ...]:
        return tuple(each.name for each in self.plan.dimensions)

    @property
    def has_bars(self) -> bool:
        """Whether the densities say how far they are off."""
        found = self.posterior
        return choose_word(found.held_out, is_trusted=found.is_trusted) != "none"

    def _find_axis(self, column: int) -> int:
        return next(i for i, each in enumerate(self.plan.axes) if each.dimension == column)

    def _find_error(self, column: int) -> float:
        """Find the mean error of ranges of one number that its histogram states."""
        return self._by_name[self._names[column]].error or 0.0

    def _draw_range(self, records: Floats, column: int, rng: np.random.Generator) -> _Range:
        """Draw a range with uniform ends, where a column has records; on its axis's scale."""
        values, resolution = records[:, column], self.plan.axes[self._find_axis(column)].resolution
        scaled = values if resolution is None else compress(values, resolution)
        low, high = np.sort(rng.uniform(scaled.min(), scaled.max(), size=2))
        return _Range(column=column, below=scaled < low, inside=(scaled >= low) & (scaled <= high))

    def _estimate_boxes(self, boxes: Sequence[Sequence[_Range]]) -> list[float]:
        """Estimate the mean errors of the shares of boxes of columns that follow a histogram."""
        ends = self._find_ends([each for box in boxes for each in box])
        errors, factor = [], LAWS["share"].compute_factor(self.posterior.held_out)
        for box in boxes:
            axes = [self._find_axis(each.column) for each in box]
            own = np.array([next(ends) for _ in box])
            _, spread = pool(self.posterior, compute_own_shares(self.posterior, axes, own))
            inside = np.array([each.inside for each in box])
            share = float(np.mean(np.all(inside, axis=0)))
            variance = (factor * float(spread)) ** 2 + share * (1.0 - share) / self.n_records
            for i, each in enumerate(box):
                # What a column's histogram is off by counts for the records that the others hold.
                others = float(np.mean(np.all(np.delete(inside, i, axis=0), axis=0)))
                variance += (self._find_error(each.column) * others / _MEAN_OF_NORMAL) ** 2
            errors.append(_MEAN_OF_NORMAL * math.sqrt(variance))
        return errors

    def _find_ends(self, ranges: Sequence[_Range]) -> Iterator[Floats]:
        """Find where ranges begin and end under each draw, if each follows the histogram.

        Yields
        ------
        float64
            Shape ``(2, n)``, one for each range in order.
        """
        found: dict[int, Iterator[Floats]] = {}
        for column in {each.column for each in ranges}:
            own = [each for each in ranges if each.column == column]
            heights = np.array(
                [(np.mean(each.below), np.mean(each.below | each.inside)) for each in own]
            )
            ends = compute_all_quantiles(
                self.posterior, self._find_axis(column), heights.ravel(), reach=1.0
            ).reshape(-1, *heights.shape)
            ends = np.where(heights <= 0.0, -np.inf, np.where(heights >= 1.0, np.inf, ends))
            found[column] = iter(ends.transpose(1, 2, 0))
        return (next(found[each.column]) for each in ranges)
