"""Alternatives to a plan: other ways of adding noise, and other numbers of sketches.

Noise is added by each device itself, by two servers that each add it to the sum of a fleet, or by
one curator who has all records. The second is a secure sum, ``sum.v1``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Final

from sfumato.learning.planning.candidates import SPLIT_MECHANISM, Candidate, choose_candidate
from sfumato.learning.planning.outline import StudyOutline
from sfumato.learning.planning.planner import Advice, advise
from sfumato.shared.errors import PrivacyError

FEW_SKETCHES: Final = 20
"""Sketches of a slot and label set below which a secure sum wins little."""
LEAST_REPORTS: Final = 100
"""Reports that a batch needs by default."""
PARTS: Final = 5
"""Parts by default: enough to find the one in which a device lies, and to answer without it."""
_DEARER: Final = 1.1
FLEET_SIZES: Final = tuple(10**power for power in range(7))
"""Numbers of sketches that the records are divided into."""


@dataclass(frozen=True, kw_only=True)
class Fleet:
    """The batches of a secure sum.

    Parameters
    ----------
    n_groups
        Slots times label sets that are decoded together.
    parts
        Batches of each of them.
    """

    n_groups: int
    parts: int = 1

    @property
    def n_batches(self) -> int:
        """Batches that are opened."""
        return self.n_groups * self.parts

    @property
    def n_noises(self) -> int:
        """Draws of the mechanism in the total of all batches: both servers add one to each."""
        return 2 * self.n_batches

    def count_reports(self, outline: StudyOutline) -> int:
        """Return the mean number of reports in a batch."""
        return outline.n_sketches // self.n_batches

    def choose_least_reports(self, outline: StudyOutline) -> int | None:
        """Return the reports that a batch must have; None for the default."""
        mean = self.count_reports(outline)
        return None if mean >= 2 * LEAST_REPORTS else max(2, mean // 2)


@dataclass(frozen=True, kw_only=True)
class Ways:
    """Three ways of adding noise, side by side.

    Parameters
    ----------
    outline
        The study, with a secure sum.
    fleet
        Its batches.
    candidates
        The best candidate of ``local``, ``sum`` and ``curator``; None where no noise can be
        calibrated.
    target_sse
        The wanted relative SSE.
    """

    outline: StudyOutline
    fleet: Fleet
    candidates: dict[str, Candidate | None]
    target_sse: float

    @property
    def preferred(self) -> str | None:
        """``local`` or ``sum``; None where not even a curator has a usable answer."""
        local, summed = self.candidates["local"], self.candidates["sum"]
        curator = self.candidates["curator"]
        if _is_hopeless(curator) or (_is_hopeless(summed) and _is_hopeless(local)):
            return None
        if summed is None or (local is not None and self._is_local_enough(local, summed)):
            return "local"
        return "sum"

    def _is_local_enough(self, local: Candidate, summed: Candidate) -> bool:
        return (
            local.band.reaches(self.target_sse)
            or local.band.high <= summed.band.high < float("inf")
            or (self.sketches_per_group < FEW_SKETCHES and not _is_hopeless(local))
        )

    @property
    def sketches_per_group(self) -> int:
        """Sketches of a slot and label set."""
        return self.outline.n_sketches // self.fleet.n_groups


def sum_outline(outline: StudyOutline, fleet: Fleet) -> StudyOutline:
    """Return a study whose devices send masked sums.

    Raises
    ------
    PrivacyError
        Windows are by count, or a smallest selection is stated.
    """
    return replace(outline, n_noises=fleet.n_noises)


def choose_parts(
    outline: StudyOutline,
    n_groups: int,
    *,
    epsilon: Fraction,
    delta: Fraction,
    target_sse: float,
) -> int:
    """Choose the parts of a batch where nobody states them: several, unless they cost too much.

    With one part a single device may decide a cluster, and nobody can tell. Each part has a noise
    of its own, so that many are for large fleets.

    Parameters
    ----------
    outline
        The study.
    n_groups
        Slots times label sets that are decoded together.
    epsilon, delta, target_sse
        As :func:`sfumato.learning.planning.planner.advise` takes them.
    """
    if outline.n_sketches < n_groups * PARTS * LEAST_REPORTS:
        return 1
    one, several = (
        advise(
            sum_outline(outline, Fleet(n_groups=n_groups, parts=parts)),
            epsilon=epsilon,
            delta=delta,
            target_sse=target_sse,
        ).recommended.band
        for parts in (1, PARTS)
    )
    is_affordable = several.reaches(target_sse) or several.high <= _DEARER * one.high
    return PARTS if is_affordable else 1


def compare_ways(advice: Advice, fleet: Fleet) -> Ways:
    """Predict the quality of the same records with each way of adding noise.

    Parameters
    ----------
    advice
        Advice for the study, with or without a secure sum.
    fleet
        The batches of a secure sum.
    """
    candidates: dict[str, Candidate | None] = {}
    for way, n_noises in {"local": None, "sum": fleet.n_noises, "curator": 1}.items():
        try:
            study = replace(advice.outline, n_noises=n_noises)
            candidates[way] = advice.advise_alike(study).recommended
        except PrivacyError:
            candidates[way] = None
    return Ways(
        outline=sum_outline(advice.outline, fleet),
        fleet=fleet,
        candidates=candidates,
        target_sse=advice.target_sse,
    )


def find_ways(advice: Advice, fleet: Fleet) -> Ways | None:
    """Compare the ways where a secure sum is wanted, or would help to reach the target.

    Parameters
    ----------
    advice
        Advice for the study, with or without a secure sum.
    fleet
        The batches of a secure sum.
    """
    outline = advice.outline
    is_possible = outline.by_time and outline.smallest_selection is None
    many = FEW_SKETCHES * fleet.n_groups
    if not outline.is_summed and (
        advice.meets_target or not is_possible or outline.n_sketches < many
    ):
        return None
    ways = compare_ways(advice, fleet)
    return ways if outline.is_summed or ways.preferred == "sum" else None


def _is_hopeless(candidate: Candidate | None) -> bool:
    return candidate is None or candidate.band.is_hopeless


@dataclass(frozen=True, kw_only=True)
class FleetForecast:
    """The planner's choice for a number of sketches, with and without small sketches.

    Parameters
    ----------
    n_sketches
        L.
    chosen
        The recommended candidate.
    whole
        The best candidate of the same mechanism, or of K-norm noise where phase reports are chosen,
        whose sketches carry all frequencies; None where none can be calibrated.
    """

    n_sketches: int
    chosen: Candidate
    whole: Candidate | None


def forecast_fleets(advice: Advice) -> tuple[FleetForecast, ...]:
    """Forecast the quality of the advised study's records in each of ``FLEET_SIZES`` sketches.

    Left out are numbers of sketches above the number of records, and those for which no candidate
    can be calibrated. The smallest selection has at most all sketches.
    """
    outline = advice.outline
    forecasts = []
    for size in FLEET_SIZES:
        if size > outline.n_records:
            break
        try:
            resized = advice.advise_alike(_resize(outline, size))
        except PrivacyError:
            continue
        whole = _choose_whole(resized, bytes_are_scarce=outline.bytes_are_scarce)
        forecasts.append(FleetForecast(n_sketches=size, chosen=resized.recommended, whole=whole))
    return tuple(forecasts)


def _resize(outline: StudyOutline, n_sketches: int) -> StudyOutline:
    smallest = outline.smallest_selection
    return replace(
        outline,
        n_sketches=n_sketches,
        smallest_selection=None if smallest is None else min(smallest, n_sketches),
    )


def _choose_whole(advice: Advice, *, bytes_are_scarce: bool) -> Candidate | None:
    best = advice.recommended
    mechanism = SPLIT_MECHANISM if best.reports_phases else best.mechanism
    whole = [
        candidate
        for candidate in advice.candidates
        if candidate.mechanism == mechanism and not (candidate.is_split or candidate.has_masks)
    ]
    if not whole:
        return None
    return choose_candidate(whole, advice.target_sse, bytes_are_scarce=bytes_are_scarce)
