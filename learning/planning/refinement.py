"""The plan of a main study from a pilot's calibration, with its reasons."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

from sfumato.learning.calibration.strength import CLEAR_STRENGTH, bound_excess
from sfumato.learning.planning.candidates import Candidate
from sfumato.learning.planning.main_columns import (
    MUCH_MISSING,
    MainColumn,
    choose_columns,
    count_complete,
)
from sfumato.learning.planning.outline import TARGET_SSE, StudyOutline
from sfumato.learning.planning.pilots import describe_overlap
from sfumato.learning.planning.planner import Advice, advise
from sfumato.learning.planning.plans import list_decided
from sfumato.learning.planning.quality import QualityBand
from sfumato.learning.planning.remedies import Doubt, doubt_advice, require_hope
from sfumato.shared.errors import ConfigError, PlanError, PrivacyError
from sfumato.shared.plan import LateRule, SketchPlan, WindowRule, plan_from_spec
from sfumato.shared.plan.statement import show_exact, show_time
from sfumato.shared.wire.objects.statistics import CalibrationBody, HistogramBody


@dataclass(frozen=True, kw_only=True)
class MainOutline:
    """The facts of a main study that its pilot does not decide.

    Parameters
    ----------
    epsilon, delta
        Budget of one record: of the main study, or of pilot and main study together.
    shares_records
        Whether the main study reads the records that the pilot read, and has the rest of epsilon.
    target_sse
        Wanted SSE, relative to k-means on the records.
    n_records, n_sketches
        Expected records of all sketches together, and the sketches: devices times windows; None
        for the pilot's.
    origin
        For windows by time and other records, the second from which records belong to the main
        study; None for the end of the pilot, or if it has none, for the pilot's. A campaign's end
        goes before.
    window
        The windows, instead of those that follow from the pilot's.
    unit, max_records_per_person
        As in a plan; None for the pilot's.
    length_s, n_windows
        By time and for other records: the length of a window, None for the pilot's; and the windows
        after which the study ends, None for no end.
    """

    epsilon: Fraction
    delta: Fraction = Fraction(0)
    shares_records: bool = False
    target_sse: float = TARGET_SSE
    n_records: int | None = None
    n_sketches: int | None = None
    origin: int | None = None
    window: WindowRule | None = None
    length_s: int | None = None
    n_windows: int | None = None
    unit: str | None = None
    max_records_per_person: int | None = None


@dataclass(frozen=True, kw_only=True, eq=False)
class Refinement:
    """A main study that follows from a pilot: post-processing, which costs no privacy.

    Parameters
    ----------
    pilot, histogram, calibration
        The pilot's plan, its answer, and what that says.
    main
        The facts that were given.
    columns
        The pilot's columns as the plan has them, or why it has them not.
    advice
        The planner's, for the kept dimensions.
    doubt
        Why not to run it; None where there is hope.
    """

    pilot: SketchPlan
    histogram: HistogramBody
    calibration: CalibrationBody
    main: MainOutline
    columns: tuple[MainColumn, ...]
    outline: StudyOutline
    advice: Advice
    doubt: Doubt | None

    @property
    def kept(self) -> tuple[MainColumn, ...]:
        """The columns of the plan."""
        return tuple(column for column in self.columns if column.is_kept)

    @property
    def n_complete(self) -> int:
        """Expected records with all values."""
        return count_complete(self.columns, self.outline)

    @property
    def epsilon(self) -> Fraction:
        """The epsilon of the main study."""
        return self.advice.recommended.epsilon

    @property
    def search_box(self) -> dict[str, list[float]]:
        """Lower and upper bound by dimension, for decodes of the main study."""
        return {each.dimension.name: [*each.search] for each in self.kept if each.search}

    @property
    def bounds(self) -> dict[str, tuple[float, float]]:
        """Lower and upper bound of each number of the plan, by name."""
        return {each.dimension.name: each.dimension.bounds for each in self.kept if each.search}

    @property
    def window(self) -> WindowRule:
        """The pilot's rule; for other records it begins where the pilot or its campaign ends."""
        if self.main.window is not None:
            return self.main.window
        rule = self.pilot.window
        if rule.kind == "count" or self.main.shares_records:
            return rule
        origins = (self.campaign_end, self.main.origin, rule.end, rule.origin)
        begins = next(x for x in origins if x is not None)
        length_s = self.main.length_s or rule.length_s
        n_windows = self.main.n_windows if begins else None  # only a bounded plan may have an end
        end = None if n_windows is None else begins + n_windows * length_s
        return replace(rule, origin=begins, length_s=length_s, end=end)

    @property
    def campaign_end(self) -> int | None:
        """When the last phase of the pilot's campaign ends; None without one."""
        campaign = self.pilot.campaign
        return None if campaign is None else campaign.phases[-1].window.end

    @property
    def late_rule(self) -> LateRule:
        """The pilot's for the same records; else times before the main study are left out."""
        if self.main.shares_records:
            return self.pilot.late_rule
        return "leave-out-outside" if self.window.origin else "open-window"

    @property
    def shares_no_record(self) -> bool:
        """True if no record can be in both studies, where both read times in one way."""
        is_bounded = self.pilot.is_bounded and self.late_rule == "leave-out-outside"
        return is_bounded and self.pilot.window.is_apart(self.window)

    @cached_property
    def candidate(self) -> Candidate:
        """The recommended candidate; with a wider law where some spread is a guess."""
        best = self.advice.recommended
        return best.widen() if self.calibration.needs_wider_law else best

    @property
    def band(self) -> QualityBand:
        """The expected quality; wider than with known bounds, for a pilot errs."""
        band = self.candidate.band
        has_tail = bool(self.tails or self.hidden_tails or self.guesses)
        excess = bound_excess(self.calibration.strength, has_tail=has_tail)
        return replace(band, high=band.high * excess)

    @property
    def tails(self) -> tuple[str, ...]:
        """The kept numbers of which few far values hold much of the variance."""
        return self._list_found("tail")

    @property
    def hidden_tails(self) -> tuple[str, ...]:
        """The kept numbers of which the pilot cannot exclude harmful far values."""
        return self._list_found("hidden", "unplaced")

    @property
    def guesses(self) -> tuple[str, ...]:
        """The kept numbers whose spread the pilot does not show."""
        return self._list_found("narrow", "weak")

    def _list_found(self, *codes: str) -> tuple[str, ...]:
        return tuple(
            each.name
            for each in self.calibration.columns
            if each.is_kept and not set(codes).isdisjoint(each.codes)
        )

    @property
    def meets_target(self) -> bool:
        """True if the whole band lies within the target."""
        return self.band.reaches(self.main.target_sse)

    @property
    def sizes(self) -> dict[str, Any]:
        """The fields of a specification that say how many records a sketch and a person have."""
        if self.candidate.reports_phases:
            return {}
        least = {} if self.pilot.releases_count else {"least_records": 1}
        most = max(self.outline.most_records, self.window.length)
        person = self.main.max_records_per_person
        if self.outline.unit == "record":
            person = person or self.pilot.max_records_per_person
        return least | {"max_records_per_person": person or "unknown", "most_records": most}

    def make_plan(self, *, seed: str, **sizes: Any) -> SketchPlan:
        """Make the plan.

        Parameters
        ----------
        seed
            64 hexadecimal digits, published, from which the plan's frequencies are drawn.
        sizes
            Fields to take the place of those in :attr:`sizes`.

        Raises
        ------
        PlanError, PrivacyError
            A field breaks its rule.
        """
        window = {name: value for name, value in asdict(self.window).items() if value}
        document = {
            "seed": seed,
            **list_decided(self.outline, self.candidate),
            **(self.sizes and self.sizes | sizes),
            "late_rule": self.late_rule,
            "labels": [asdict(each) for each in self.pilot.labels],
            "window": window,
            "dimensions": [
                {name: value for name, value in asdict(each.dimension).items() if value is not None}
                for each in self.kept
            ],
        }
        return plan_from_spec(document)

    def require_hope(self, *, anyway: bool) -> None:
        """Refuse a pilot that is too weak, or a main study that is hopeless.

        Raises
        ------
        PlanError
            Nothing should be built on it.
        """
        if self.calibration.refusal is not None and not anyway:
            raise PlanError(
                f"Do not run this: {self.calibration.refusal}",
                fix="run a stronger pilot, or add --anyway to go on all the same",
            )
        require_hope(self.doubt, anyway=anyway)

    def describe_cost(self) -> str:
        """State what the two studies cost a person together."""
        spent, rest = self.pilot.release.epsilon, self.epsilon
        deltas = self.pilot.release.delta, self.advice.recommended.delta
        largest = _show_level(max(spent, rest), max(deltas))
        total = _show_level(spent + rest, sum(deltas, Fraction(0)))
        if self.main.shares_records:
            alone = f"The two studies read the same records: one record costs {total}"
        elif self.shares_no_record:
            alone = (
                "No record is in both studies, because each leaves out the times of the other: "
                f"one record costs {largest}, where devices read its time in the same way for both"
            )
        else:
            alone = (
                f"A record that only one of the two studies reads costs {largest}, one that both "
                f"read {total.removeprefix('epsilon ')}. The pilot may have read some of the main "
                f"study, because {describe_overlap(self.pilot.window)}; the owner's ledger counts "
                "the sum for all"
            )
        return (
            f"{alone}. Someone with q1 records in the pilot and q2 in the main study is "
            f"protected at {show_exact(spent)} q1 + {show_exact(rest)} q2."
        )

    def describe(self) -> Iterator[str]:
        """Yield the answer in sentences: expected quality, limits, cost."""
        best = self.candidate
        yield (
            f"{best.mechanism} with {best.n_frequencies} frequencies at epsilon "
            f"{show_exact(best.epsilon)}, for {self.n_complete:,} records in "
            f"{_count(self.outline.n_sketches, 'sketch')}: {self.band.describe()}, which "
            "allows for the errors of the pilot."
        )
        if not (self.meets_target or self.tails or self.hidden_tails or self.guesses):
            yield (
                f"Doubt: relative SSE {self.main.target_sse:g} is not assured; more records, a "
                "larger epsilon or fewer clusters would do."
            )
        yield from self._describe_tails()
        yield from self._describe_scales()
        for limit in self.calibration.limits:
            yield limit[0].upper() + limit[1:] + "."
        for each in self.columns:
            if not each.is_kept:
                yield f"{each.dimension.name} is {each.comments[0]}."
        for column in self.calibration.columns:
            if column.is_kept and "beyond" in column.codes:
                yield (
                    f"Warning: in {column.name} {column.findings[column.codes.index('beyond')]}, "
                    "and no cluster is searched for there: to see them, run a pilot with "
                    "NAME:UNIT:count, if they are whole numbers, or with bounds that hold them, "
                    "NAME:UNIT:LOWER..UPPER."
                )
            if column.is_kept and "apart" in column.codes:
                yield (
                    f"Warning: in {column.name} {column.findings[column.codes.index('apart')]}. If "
                    "they stand for missing values, or a device has made them up, the main study "
                    "needs another scale: clean the records, exclude the device, or run a pilot "
                    "with bounds that leave them out, NAME:UNIT:LOWER..UPPER."
                )
        yield from self._describe_missing()
        if self.campaign_end is not None and not self.main.shares_records:
            yield (
                "The later phases of the pilot's campaign read the records until "
                f"{show_time(self.campaign_end)}: this study begins then, because a record that "
                "both read would lose twice."
            )
        yield self.describe_cost()

    def _describe_tails(self) -> Iterator[str]:
        transforms = {each.name: each.transform for each in self.pilot.dimensions}
        for column in self.calibration.columns:
            if column.name not in self.tails:
                continue
            fix = (
                f"narrow the bounds of {column.name} in the plan, so that they are clipped, or "
                "leave it out"
                if transforms[column.name] is not None
                else f"run a pilot without its bounds, {column.name}:{column.unit}, so that a "
                "logarithmic scale can be chosen"
            )
            yield (
                f"Doubt: relative SSE {self.main.target_sse:g} cannot be had with {column.name} as "
                f"it is: {column.findings[column.codes.index('tail')]}, and the sketch sees little "
                f"of them. To have it, {fix}."
            )

        for column in self.calibration.columns:
            if column.name in self.guesses:
                code = "narrow" if "narrow" in column.codes else "weak"
                yield (
                    f"Doubt: relative SSE {self.main.target_sse:g} is not assured, because the "
                    f"scale of {column.name} is a guess: "
                    f"{column.findings[column.codes.index(code)]}."
                )
        if self.hidden_tails:
            factor = CLEAR_STRENGTH / self.calibration.strength
            yield (
                f"Doubt: relative SSE {self.main.target_sse:g} is not assured, because far values "
                f"of {', '.join(self.hidden_tails)} may hide in the pilot's noise, and the sketch "
                f"would see little of them. A pilot with {factor:.2g} times the records or the "
                "epsilon would show them; so would public bounds, NAME:UNIT:LOWER..UPPER, if all "
                "values are known to lie near each other."
            )

    def _describe_scales(self) -> Iterator[str]:
        bent = [each.dimension.name for each in self.kept if each.dimension.transform is not None]
        if bent:
            yield (
                f"On the logarithmic scale: {', '.join(bent)}. The relative SSE is meant on that "
                "scale; distances in the units of the records would give another, often larger "
                "one. To cluster such a column in its own unit, delete its line `transform`, and "
                "change its `scale` from octaves to that unit."
            )

    def _describe_missing(self) -> Iterator[str]:
        losing = [each for each in self.kept if each.loses_records]
        if not losing:
            return
        shares = ", ".join(f"{each.dimension.name} {each.missing_share:.0%}" for each in losing)
        total = min(1.0, sum(each.missing_share for each in losing))
        yield (
            f"Warning: more than {MUCH_MISSING:.0%} of the values are missing in {shares}. Up to "
            f"{total:.0%} of the records are left out for it. To keep them, uncomment `missing` "
            "and choose the public value that stands for a missing one."
        )


def refine(
    calibration: CalibrationBody, histogram: HistogramBody, pilot: SketchPlan, main: MainOutline
) -> Refinement:
    """Make the plan of a main study from what a pilot says; deterministic up to the seed.

    Parameters
    ----------
    calibration, histogram
        From ``Client.calibration`` and ``Client.histogram``.
    pilot
        The pilot's plan.
    main
        Facts of the main study.

    Raises
    ------
    ConfigError
        The pilot has spent epsilon already, or no column varies.
    PrivacyError
        The budget or the sizes break a rule of plans.
    """
    columns = choose_columns(pilot, calibration, histogram)
    if not any(column.is_kept for column in calibration.columns):
        raise ConfigError(
            "found no column whose values differ",
            field="pilot",
            fix="run a pilot with other columns",
        )
    spent = pilot.release.epsilon if main.shares_records else Fraction(0)
    if main.epsilon <= spent:
        raise ConfigError(
            f"must be above {show_exact(spent)}, which the pilot has spent of the same records",
            field="--epsilon",
            fix="give the budget of pilot and main study together",
        )
    delta = main.delta - pilot.release.delta if main.shares_records else main.delta
    if delta < 0:
        raise PrivacyError(
            f"must be at least {show_exact(pilot.release.delta)}, which the pilot has spent",
            field="--delta",
            fix="give the budget of pilot and main study together",
        )
    epsilon = main.epsilon - spent
    outline = StudyOutline(
        n_records=main.n_records or calibration.n_records,
        n_sketches=main.n_sketches or histogram.n_sketches,
        n_dimensions=sum(column.n_axes for column in columns if column.is_kept),
        n_clusters=calibration.n_clusters[1],
        neighbouring=pilot.release.neighbouring,
        by_time=pilot.window.kind == "time",
        unit=main.unit or pilot.release.unit,
    )
    # Only the signal is of the complete records; limits on sizes are of all.
    complete = replace(outline, n_records=count_complete(columns, outline))
    advice = advise(complete, epsilon=epsilon, delta=delta, target_sse=main.target_sse)
    return Refinement(
        pilot=pilot,
        histogram=histogram,
        calibration=calibration,
        main=main,
        columns=columns,
        outline=outline,
        advice=advice,
        doubt=doubt_advice(advice),
    )


def _show_level(epsilon: Fraction, delta: Fraction) -> str:
    return f"epsilon {show_exact(epsilon)}" + (f" and delta {show_exact(delta)}" if delta else "")


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 'es'}"
