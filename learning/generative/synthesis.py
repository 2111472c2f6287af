"""Synthetic records of a decode: drawn from all densities that agree with the sketch.

A record costs nothing, and neither do a million: the densities were computed from what was
released. Records that noise hides are not among them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sfumato.learning.decoding.density import Posterior
from sfumato.learning.decoding.verdict import TRUSTED, UNUSABLE
from sfumato.learning.generative.columns import Column, LevelColumn, NumberColumn, match_columns
from sfumato.learning.generative.table_errors import TableErrors, measure_spread
from sfumato.shared.errors import DecodingError
from sfumato.shared.plan import Dimension, SketchPlan, compute_plan_digest
from sfumato.shared.wire.objects.answers import DimensionBody, PromiseBody
from sfumato.shared.wire.objects.synthesis import (
    MOST_SYNTHETIC,
    CorrelationErrorBody,
    RangeErrorBody,
    SynthesisRequest,
    SyntheticBody,
)

Floats = NDArray[np.float64]

_DIGITS: Final = 6
"""Significant digits of a column's range, far below what any sketch resolves."""
_SEED: Final = 0
_N_VALUES: Final = 1 << 16
"""Drawn to compare the densities with a histogram of 512 bins, or 4096."""


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

        require_same_columns(self.plan, self.columns)

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
                spread = measure_spread(self.plan, self.posterior, each.name, samples, rng)
                each = each.blend_with(values, spread)  # noqa: PLW2901 - the same column, fitted
            fitted.append(each)
        return tuple(fitted)

    def estimate_errors(self, n_records: int) -> TableErrors:
        """Estimate how far a table of so many records is off."""
        return TableErrors(
            plan=self.plan,
            posterior=self.posterior,
            columns=[each for each in self._fitted if isinstance(each, NumberColumn)],
            n_records=n_records,
        )

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
        errors: list[RangeErrorBody] = []
        correlation_errors: list[CorrelationErrorBody] = []
        found = self.estimate_errors(len(records))
        # A verdict knows of more than the densities, such as bounds that are a guess.
        has_errors = found.has_bars and self.verdict in TRUSTED
        if has_errors:
            errors, correlation_errors = found.estimate_ranges(), found.estimate_correlations()
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
            correlation_errors=correlation_errors,
            verdict=self.verdict,
            statement=self._describe(errors, correlation_errors, privacy, has_errors=has_errors),
            privacy=list(privacy),
        )

    def _describe(
        self,
        errors: Sequence[RangeErrorBody],
        correlation_errors: Sequence[CorrelationErrorBody],
        privacy: Sequence[PromiseBody],
        *,
        has_errors: bool,
    ) -> str:
        doubt = {
            UNUSABLE: "Do not use these records: they are drawn from noise.",
            "doubtful": "Doubt these records: the decode behind them is doubtful.",
        }.get(self.verdict, "")
        parts = [doubt]
        if errors:
            listed = ", ".join(
                f"{each.error:.1%} of all records ({_count(each)})" for each in errors
            )
            parts.append(f"Shares of ranges are usually off by {listed}.")
        if correlation_errors:
            least, most = (f(each.error for each in correlation_errors) for f in (min, max))
            sizes = dict.fromkeys((f"{least:.2f}", f"{most:.2f}"))
            known = {name for each in correlation_errors for name in each.columns}
            among = [name for name in self.names if name in known]
            which = "columns" if len(among) == len(self.names) else f"of {', '.join(among)}"
            parts.append(f"Correlations of two {which} are usually off by {' to '.join(sizes)}.")
        if not has_errors and self._numbers:
            parts.append(
                "How far they are off cannot be stated: decode fewer clusters, or more records."
            )
        elif not errors and self._numbers:
            parts.append(
                "How far shares of ranges are off cannot be stated without a histogram of the same "
                "records: name a study or a file of one, such as a pilot, as `histogram` "
                "(`--histogram`)."
            )
        unstated = [each for each in self.names if each not in self._stated]
        if errors and unstated:
            parts.append(f"No error is stated for shares of {', '.join(unstated)}.")
        parts.append(
            f"The columns {', '.join(self.matched)} follow a histogram, where it says more than "
            "noise."
            if self.matched
            else "Spikes and sharp ends of columns are blurred."
        )
        parts.append(
            "What is beyond a bound of the plan stands on it. They are synthetic: no row is a "
            "record, groups too rare to be told from noise are not among them, and any number of "
            "rows costs no further privacy."
        )
        parts.append(_describe_cost(privacy))
        return " ".join(filter(None, parts))

    @property
    def _numbers(self) -> tuple[str, ...]:
        return tuple(each.name for each in self.plan.dimensions if not each.is_categorical)

    @property
    def _stated(self) -> tuple[str, ...]:
        """Names of the columns whose ranges have an error."""
        return tuple(name for name in self._numbers if name in self.matched)

    def spell(self, records: Floats) -> list[list[float] | list[str]]:
        """Return records as columns for people and files, with the texts of levels."""
        return [
            [each.levels[int(place)] for place in column] if each.levels else column.tolist()
            for each, column in zip(self.plan.dimensions, records.T, strict=True)
        ]

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


def _describe_cost(privacy: Sequence[PromiseBody]) -> str:
    """Describe what a record that is in every study loses; nothing without a promise."""
    costs = [
        f"epsilon = {each.epsilon}" + (f" and delta = {each.delta}" if each.delta != "0" else "")
        for each in privacy
    ]
    if not costs:
        return ""
    if "inf" in {each.epsilon for each in privacy}:
        return "NOT PRIVATE: they were made from exact sums, without noise."
    said = f"The sketches cost each record {costs[0]} under {privacy[0].neighbouring}"
    if len(costs) == 1:
        return f"{said}."
    said = f"{said}, and the histogram {costs[1]} under {privacy[1].neighbouring}"
    if len({each.neighbouring for each in privacy}) > 1:
        return f"{said}."
    epsilon, delta = (
        sum(map(Fraction, each))
        for each in ([each.epsilon for each in privacy], [each.delta for each in privacy])
    )
    total = f"epsilon = {epsilon}" + (f" and delta = {delta}" if delta else "")
    return f"{said}: {total} in all, if it is in both."


def _count(error: RangeErrorBody) -> str:
    return "one column" if error.n_columns == 1 else f"{error.n_columns} columns"


def _say(n_levels: int) -> str:
    return f"with {n_levels} levels" if n_levels else "as a number"


def require_same_columns(plan: SketchPlan, columns: Sequence[Column]) -> None:
    """Refuse columns of a histogram that are of another kind or unit than those of a study.

    Raises
    ------
    DecodingError
        One is.
    """
    own_by_name = {each.name: each for each in plan.dimensions}
    for column in columns:
        own = own_by_name.get(column.name)
        if own is not None:
            _require_kind(column, own)


def _require_kind(column: Column, own: Dimension) -> None:
    n_levels = column.shares.size if isinstance(column, LevelColumn) else 0
    if n_levels != len(own.levels):
        raise DecodingError(
            f"has {column.name!r} {_say(n_levels)}, and the study {_say(len(own.levels))}",
            field="histogram",
            fix="name a histogram of the same columns",
        )
    if isinstance(column, LevelColumn) and column.levels not in ((), tuple(own.levels)):
        raise DecodingError(
            f"has {column.name!r} with the levels {', '.join(column.levels)}, and the study "
            f"with {', '.join(own.levels)}",
            field="histogram",
            fix="name a histogram with the same levels in the same order",
        )
    if isinstance(column, NumberColumn) and column.unit not in (None, own.unit):
        raise DecodingError(
            f"has {column.name!r} in {column.unit}, and the study in {own.unit}",
            field="histogram",
            fix="name a histogram in the same units",
        )
