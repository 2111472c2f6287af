"""Synthetic records of a decode: drawn from all densities that agree with the sketch.

A record costs nothing, and neither do a million: the densities were computed from what was
released. Records that noise hides are not among them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from learning.answers.densities import Interval, compute_shares, pool
from learning.decoding.bars import LAWS, choose_word
from learning.decoding.densities import Posterior
from learning.decoding.verdict import UNUSABLE
from learning.generative.columns import Column, LevelColumn, NumberColumn, match_columns
from shared.errors import DecodingError
from shared.plan import SketchPlan, compute_plan_digest
from shared.wire.bodies.results import DimensionBody, PromiseBody
from shared.wire.bodies.synthesis import (
    MOST_SYNTHETIC,
    RangeErrorBody,
    SynthesisRequest,
    SyntheticBody,
)

Floats = NDArray[np.float64]

_DIGITS: Final = 6
"""Significant digits of a column's range, far below what any sketch resolves."""
_N_BOXES: Final = 40
_N_RANGES: Final = 12
_SEED: Final = 0
_N_SAMPLES: Final = 4096
_N_VALUES: Final = 1 << 16
"""Drawn to compare the densities with a histogram of 512 bins, or 4096."""
_MEAN_OF_NORMAL: Final = math.sqrt(2.0 / math.pi)
_MOST_COLUMNS: Final = 3


@dataclass(frozen=True, kw_only=True)
class Origin:
    """The decode that synthetic records are drawn from.

    Parameters
    ----------
    decode_id, study, study_id
        Identity of the decode, and name and identity of its study; empty without a server.
    snapshot_id
        The snapshot that was decoded, or a digest of sums.
    decoder
        Name and version.
    """

    snapshot_id: str
    decoder: str
    decode_id: str = ""
    study: str = ""
    study_id: str = ""


@dataclass(frozen=True, kw_only=True, eq=False)
class Synthesiser:
    """Draws records of one decode.

    Parameters
    ----------
    plan, posterior
        The study's plan, and the densities of the decode.
    verdict
        The decode's: "sound", "rough", "doubtful" or "do not use".
    columns
        Distributions of single columns from a histogram of the same records.
    allow_unusable
        Whether to draw also where the verdict is "do not use".

    Raises
    ------
    DecodingError
        The decode is not to be used, or the histogram knows none of the columns.
    """

    plan: SketchPlan
    posterior: Posterior
    verdict: str
    columns: Sequence[Column] = ()
    allow_unusable: bool = False

    def __post_init__(self) -> None:
        if self.verdict == UNUSABLE and not self.allow_unusable:
            raise DecodingError(
                f"has the verdict {UNUSABLE!r}: its records would be drawn from noise",
                field="decode",
                fix="decode more sketches or fewer clusters (`sfumato plan advise` tells how many "
                "records a study needs), or allow unusable results",
            )
        if self.columns and not self.matched:
            raise DecodingError(
                "has no column of the study: it has "
                + ", ".join(repr(each.name) for each in self.columns),
                field="histogram",
                fix="name a histogram of the same columns",
            )

        for column in self.columns:
            self._require_kind(column)

    def _require_kind(self, column: Column) -> None:
        """Refuse a column of the histogram that is of another kind than the study's."""
        if column.name not in self.names:
            return
        own = self.plan.dimensions[self.names.index(column.name)]
        n_levels = column.shares.size if isinstance(column, LevelColumn) else 0
        if n_levels != len(own.levels):
            raise DecodingError(
                f"has {column.name!r} {_say(n_levels)}, and the study {_say(len(own.levels))}",
                field="histogram",
                fix="name a histogram of the same columns",
            )

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns."""
        return tuple(each.name for each in self.plan.dimensions)

    @property
    def matched(self) -> tuple[str, ...]:
        """Names of the columns that follow a histogram."""
        known = {each.name for each in self.columns}
        return tuple(name for name in self.names if name in known)

    def draw(self, n_records: int, *, seed: int, part: int = 0) -> Floats:
        """Draw records: shape ``(n, d)``, data units; a category is the number of its level.

        Parameters
        ----------
        seed, part
            The same two give the same records; other parts give further ones.

        Raises
        ------
        DecodingError
            More records than one part holds are asked for, or none.
        """
        if not 1 <= n_records <= MOST_SYNTHETIC:
            raise DecodingError(
                f"must be 1 to {MOST_SYNTHETIC}", field="n_records", fix="ask for several parts"
            )
        rng = np.random.default_rng((seed, part))
        points = self.posterior.draw_samples(n_records, rng=rng)
        records = match_columns(self.plan.space.to_records(points), self.names, self._fitted, rng)
        return self._round(records)

    @cached_property
    def _fitted(self) -> tuple[Column, ...]:
        """The columns, with numbers that follow the densities where noise hides the histogram."""
        if not any(isinstance(each, NumberColumn) for each in self.columns):
            return tuple(self.columns)
        rng = np.random.default_rng(_SEED)
        samples = self.posterior.draw_samples(_N_VALUES, rng=rng)
        records = self.plan.space.to_records(samples)
        fitted = []
        for each in self.columns:
            if isinstance(each, NumberColumn) and each.name in self.names:
                values = records[:, self.names.index(each.name)]
                spread = self._measure_spread_of(each.name, samples, rng)
                each = each.blend_with(values, spread)  # noqa: PLW2901 - the same column, fitted
            fitted.append(each)
        return tuple(fitted)

    def _measure_spread_of(self, name: str, samples: Floats, rng: np.random.Generator) -> float:
        """Return the standard error of shares of ranges of one number by the densities."""
        axis = next(
            i
            for i, each in enumerate(self.plan.axes)
            if self.plan.dimensions[each.dimension].name == name
        )
        boxes = [self._draw_box(samples, [axis], 1, rng) for _ in range(_N_RANGES)]
        return math.sqrt(float(np.mean([self._measure_spread(box) ** 2 for box in boxes])))

    def answer(
        self,
        asked: SynthesisRequest,
        *,
        origin: Origin,
        privacy: Sequence[PromiseBody],
    ) -> SyntheticBody:
        """Answer a request.

        Parameters
        ----------
        origin
            What the densities were decoded from.
        privacy
            Promise of the sketches, and of the histogram.

        Raises
        ------
        DecodingError
            More records than one part holds are asked for, or none.
        """
        records = self.draw(asked.n_records, seed=asked.seed, part=asked.part)
        errors = self.estimate_errors()
        return SyntheticBody(
            **asdict(origin),
            plan_digest=compute_plan_digest(self.plan).hex(),
            histogram=asked.histogram,
            seed=asked.seed,
            part=asked.part,
            n_records=len(records),
            dimensions=[
                DimensionBody(name=each.name, unit=each.unit) for each in self.plan.dimensions
            ],
            columns=self.spell(records),
            matched=list(self.matched),
            errors=errors,
            verdict=self.verdict,
            statement=self._describe(errors),
            privacy=list(privacy),
        )

    def _describe(self, errors: Sequence[RangeErrorBody]) -> str:
        doubt = {
            UNUSABLE: "Do not use these records: they are drawn from noise.",
            "doubtful": "Doubt these records: the decode behind them is doubtful.",
        }.get(self.verdict, "")
        if errors:
            listed = ", ".join(
                f"{each.error:.1%} of all records ({_count(each)})" for each in errors
            )
            trust = f"Shares of ranges are usually off by {listed}."
        elif self.columns:
            trust = "How far they are off cannot be stated: decode fewer clusters, or more records."
        else:
            trust = (
                "How far they are off cannot be stated without a histogram of the same records: "
                "name a study or a file of one, such as a pilot, as `histogram` (`--histogram`)."
            )
        matched = (
            f"The columns {', '.join(self.matched)} follow a histogram, where it says more than "
            "noise."
            if self.matched
            else "Spikes and sharp ends of columns are blurred."
        )
        rare = (
            "They are synthetic: no row is a record, groups too rare to be told from noise are not "
            "among them, and any number of rows costs no further privacy."
        )
        return " ".join(filter(None, [doubt, trust, matched, rare]))

    def spell(self, records: Floats) -> list[list[float] | list[str]]:
        """Return records as columns for people and files, with the texts of levels."""
        return [
            [each.levels[int(place)] for place in column] if each.levels else column.tolist()
            for each, column in zip(self.plan.dimensions, records.T, strict=True)
        ]

    def estimate_errors(self) -> list[RangeErrorBody]:
        """Estimate how far shares of random ranges of one, two and three numbers are off.

        Of columns that follow a histogram alone: without one, nothing says how far spikes and sharp
        ends are blurred, and errors of real sets were up to three times those of the densities.
        Ranges of one number are as far off as the histogram says, others as the densities spread,
        in bars as those of questions. There are none where the bars mean nothing.
        """
        found = self.posterior
        word = choose_word(found.held_out, is_trusted=found.is_trusted)
        axes = [
            i
            for i, axis in enumerate(self.plan.axes)
            if not self.plan.dimensions[axis.dimension].is_categorical
            and self.plan.dimensions[axis.dimension].name in self.matched
        ]
        if word == "none" or not axes:
            return []
        rng = np.random.default_rng(_SEED)
        samples = found.draw_samples(_N_SAMPLES, rng=rng)
        return [
            RangeErrorBody(n_columns=n, error=self._estimate(samples, axes, n, rng))
            for n in range(1, min(_MOST_COLUMNS, len(axes)) + 1)
        ]

    def _estimate(
        self, samples: Floats, axes: Sequence[int], n_columns: int, rng: np.random.Generator
    ) -> float:
        errors = []
        for _ in range(_N_BOXES):
            box = self._draw_box(samples, axes, n_columns, rng)
            known = self._find_error(box[0].axis) if n_columns == 1 else None
            errors.append(_MEAN_OF_NORMAL * self._measure_spread(box) if known is None else known)
        return float(np.mean(errors))

    def _draw_box(
        self, samples: Floats, axes: Sequence[int], n_columns: int, rng: np.random.Generator
    ) -> list[Interval]:
        """Draw a box with uniform ends, where there are records."""
        box = []
        for axis in rng.choice(axes, size=n_columns, replace=False):
            ends = samples[:, axis].min(), samples[:, axis].max()
            low, high = np.sort(rng.uniform(*ends, size=2))
            box.append(Interval(axis=int(axis), low=float(low), high=float(high)))
        return box

    def _measure_spread(self, box: Sequence[Interval]) -> float:
        """Return the standard error of a share, as its bar has it."""
        _, spread = pool(self.posterior, compute_shares(self.posterior, box))
        return LAWS["share"].compute_factor(self.posterior.held_out) * float(spread)

    def _find_error(self, axis: int) -> float | None:
        """Find the error of ranges of one number that a histogram states."""
        name = self.plan.dimensions[self.plan.axes[axis].dimension].name
        known = (each for each in self._fitted if isinstance(each, NumberColumn))
        return next((each.error for each in known if each.name == name), None)

    def _round(self, records: Floats) -> Floats:
        """Round numbers to digits that say something, so that files stay small."""
        rounded = records.copy()
        for i, each in enumerate(self.plan.dimensions):
            if each.lower is None or each.upper is None or each.is_categorical:
                continue
            if each.transform is None:
                width = each.upper - each.lower
                rounded[:, i] = np.round(
                    records[:, i], max(0, _DIGITS - 1 - math.floor(math.log10(width)))
                )
        return rounded


def _count(error: RangeErrorBody) -> str:
    return "one column" if error.n_columns == 1 else f"{error.n_columns} columns"


def _say(n_levels: int) -> str:
    return f"with {n_levels} levels" if n_levels else "as a number"
