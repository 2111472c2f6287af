"""Phase reports as candidates: noisy phases of the first record of each device and slot.

A report counts as one record, whatever else the device holds. Its noise is far less than that of a
sum that the device noises for itself, but it does not fall with the records of a device. So phase
reports suit devices with one record each.
"""

from __future__ import annotations

import bisect
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from typing import Final

from sfumato.learning.planning.candidates import Candidate, predict_mechanism, require_carried
from sfumato.learning.planning.outline import StudyOutline
from sfumato.shared.errors import PrivacyError
from sfumato.shared.privacy import choose_law
from sfumato.shared.privacy.mechanisms.phase import PHASE_REPORT, PhaseReports

MOST_REPORTS: Final = 8
"""The most features of a record that are tried; each has epsilon / r."""
_PHASE_BYTES = 2
_MOST_DEVICES = 10**15


@lru_cache(maxsize=1024)
def _create_reports(epsilon: Fraction, n_reports: int) -> PhaseReports:
    law = choose_law(epsilon, n_reports)
    return PhaseReports(law=law, n_reports=n_reports, epsilon=epsilon)


def predict_phase_reports(
    outline: StudyOutline, *, n_frequencies: int, n_reports: int, epsilon: Fraction
) -> Candidate:
    """Predict the quality of phase reports: the SNR is ``|z|^2 r L / (m (E - |z|^2))``.

    E is the energy of a report at ``epsilon / r`` (:class:`~sfumato.shared.privacy.CircularLaw`),
    and L the number of sketches. Where m / r does not divide L, the noise is slightly larger.

    Parameters
    ----------
    outline
        The study. Its records do not matter: each sketch reports one.
    n_frequencies, n_reports
        m, and r, the features of a sketch.
    epsilon
        Epsilon of all reports of a sketch together.

    Raises
    ------
    PrivacyError
        The study does not allow phase reports; epsilon / r is out of range; or r does not divide m,
        or leaves features that the smallest selection does not carry.
    """
    if not outline.allows_phases:
        raise PrivacyError(
            "cannot be phase.v1 where presence is secret or windows are by count",
            field="release",
            fix='use "local.v1", or hide values alone and use windows by time',
        )
    require_carried(outline, m=n_frequencies, r=n_reports)
    reports = _create_reports(epsilon, n_reports)
    prediction = predict_mechanism(
        replace(outline, unit="device", mask_groups=1),
        reports,
        n_frequencies=n_frequencies,
        n_blocks=n_frequencies // n_reports,
    )
    return Candidate(
        unit="device",
        mechanism=PHASE_REPORT,
        n_frequencies=n_frequencies,
        frequencies_per_sketch=n_reports,
        measurements_per_record=n_frequencies,
        epsilon=epsilon,
        delta=Fraction(0),
        prediction=prediction,
        sketch_bytes=_PHASE_BYTES * n_reports,
    )


def list_phase_reports(
    outline: StudyOutline, *, n_frequencies: int, epsilon: Fraction
) -> tuple[Candidate, ...]:
    """List the phase reports of one m, by ascending r up to ``MOST_REPORTS``; maybe none."""
    if not outline.allows_phases:
        return ()
    found = []
    for r in range(1, min(MOST_REPORTS, n_frequencies) + 1):
        try:
            candidate = predict_phase_reports(
                outline, n_frequencies=n_frequencies, n_reports=r, epsilon=epsilon
            )
        except PrivacyError:
            continue  # r is no divisor, or epsilon / r or the selection is too small
        found.append(candidate)
    return tuple(found)


def find_least_reports(
    outline: StudyOutline, *, epsilon: Fraction, target_sse: float
) -> int | None:
    """Find the least number of phase reports that reach a target, whatever m and r.

    Bisection: more reports never worsen the prediction.

    Parameters
    ----------
    outline
        The study; its own records and sketches do not matter.
    epsilon, target_sse
        Epsilon of all reports of a sketch together, and the relative SSE, above 1.

    Returns
    -------
    int or None
        None if no number up to 10^15 suffices.
    """

    def suffices(size: int) -> bool:
        study = replace(outline, n_records=size, n_sketches=size, smallest_selection=None)
        return any(
            candidate.band.reaches(target_sse)
            for m in outline.frequencies
            for candidate in list_phase_reports(study, n_frequencies=m, epsilon=epsilon)
        )

    sizes = range(1, _MOST_DEVICES + 1)
    place = bisect.bisect_left(sizes, True, key=suffices)
    return sizes[place] if place < len(sizes) else None
