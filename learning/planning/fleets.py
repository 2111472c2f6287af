"""Expected quality of the same records in one sketch, in ten, and so on up to a million."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Final

from sfumato.learning.planning.candidates import SPLIT_MECHANISM, Candidate, choose_candidate
from sfumato.learning.planning.outline import StudyOutline
from sfumato.learning.planning.planner import Advice, advise
from sfumato.shared.errors import PrivacyError

FLEET_SIZES: Final = tuple(10**power for power in range(7))
"""Numbers of sketches that the records are divided into."""


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


def forecast_fleets(
    outline: StudyOutline, *, epsilon: Fraction, delta: Fraction = Fraction(0), target_sse: float
) -> tuple[FleetForecast, ...]:
    """Forecast the quality of the outline's records in each of ``FLEET_SIZES`` sketches.

    Left out are numbers of sketches above the number of records, and those for which no candidate
    can be calibrated. The smallest selection has at most all sketches.

    Parameters
    ----------
    outline
        The study; its own number of sketches does not matter.
    epsilon, delta, target_sse
        As :func:`sfumato.learning.planning.planner.advise` takes them, which chooses.
    """
    forecasts = []
    for size in FLEET_SIZES:
        if size > outline.n_records:
            break
        try:
            advice = advise(
                _resize(outline, size), epsilon=epsilon, delta=delta, target_sse=target_sse
            )
        except PrivacyError:
            continue
        forecasts.append(
            FleetForecast(
                n_sketches=size,
                chosen=advice.recommended,
                whole=_choose_whole(advice, bytes_are_scarce=outline.bytes_are_scarce),
            )
        )
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
