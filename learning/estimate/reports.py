"""From phase reports to the global sketch: unbiased features, and the noise of each.

A report of phase q counts as row q of the feature table, so a sum over reports is exact. Its mean
is eta times the feature of the record, with eta the gain of the law of the reports.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from shared.core import AMPLITUDE, feature_table
from shared.core.features import PHASES
from shared.errors import PlanError
from shared.privacy.circle import CircularLaw

Integers = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True, eq=False)
class ReportedSketch:
    """A global sketch from phase reports.

    Parameters
    ----------
    sketch
        z, shape ``(m,)``, complex; features of modulus 1 in the mean of one record, 0 where there
        is no report.
    noise_energy
        ``E |z_j - its mean|^2``, shape ``(m,)``, privacy noise and sampling together; infinite
        where there is no report. It depends on the reports: to weight features, use their numbers
        of reports instead.
    n_reports
        n_j, shape ``(m,)``, int64.
    """

    sketch: NDArray[np.complex128]
    noise_energy: NDArray[np.float64]
    n_reports: Integers

    @property
    def is_reported(self) -> NDArray[np.bool_]:
        """The features that have a report: bool, shape ``(m,)``."""
        reported: NDArray[np.bool_] = self.n_reports > 0
        return reported

    @property
    def mean_noise_energy(self) -> float:
        """The mean noise energy of the reported features; infinite if there is none."""
        reported = self.noise_energy[self.is_reported]
        return float(np.mean(reported)) if reported.size else np.inf

    @property
    def signal_energy(self) -> float:
        """An estimate of ``|z|^2``, the mean of ``|z_j|^2``, from 0 to 1.

        ``|z_j|^2 - V_j`` is unbiased where there are two reports; the clipping is not.
        """
        several = self.n_reports > 1
        if not several.any():
            return 0.0
        raw = np.abs(self.sketch[several]) ** 2 - self.noise_energy[several]
        return float(np.clip(np.mean(raw), 0.0, 1.0))


def tally_reports(
    features: ArrayLike, reports: ArrayLike, *, n_frequencies: int
) -> tuple[Integers, Integers]:
    """Sum the table rows of reports by feature; exact, in any order.

    Parameters
    ----------
    features, reports
        Equal shapes: the feature and the phase of each report, below m and below 2^16.
    n_frequencies
        m.

    Returns
    -------
    n_reports, sums
        Shapes ``(m,)`` and ``(2 m,)``, int64: the number of reports; real parts, then imaginary.
    """
    index = np.ravel(np.asarray(features, dtype=np.int64))
    rows = feature_table()[np.ravel(np.asarray(reports, dtype=np.int64))].astype(np.int64)
    n_reports = np.bincount(index, minlength=n_frequencies).astype(np.int64)
    sums = np.zeros((2, n_frequencies), dtype=np.int64)
    for part, column in zip(sums, rows.T, strict=True):
        np.add.at(part, index, column)
    return n_reports, sums.ravel()


def estimate_from_reports(n_reports: Integers, sums: Integers, law: CircularLaw) -> ReportedSketch:
    """Estimate the global sketch from exact sums of reports; post-processing, costs no privacy.

    ``z_j = sums_j / (A eta n_j)``. A report divided by eta has squared modulus ``E = 1 / eta^2``
    whatever it is, and those of a feature are independent. So the error has energy
    ``(E - |z_j|^2) / n_j``, of which ``(E - 1) / n_j`` is privacy noise. With the estimate in place
    of z_j, ``(E - |z_j|^2) / (n_j - 1)`` is unbiased. A single report leaves E as the bound.

    Parameters
    ----------
    n_reports
        n_j, shape ``(m,)``.
    sums
        Shape ``(2 m,)``: sums of rows of the feature table over the reports of each feature, real
        parts, then imaginary parts.
    law
        The law of the reports, with a gain above zero, on the circle of 2^16 phases.

    Guarantees
    ----------
    The mean of z_j is within 2e-4 of the mean feature of the records, which the tests enumerate. A
    record that cannot be sketched counts in n_j and adds zero in the mean.

    Raises
    ------
    PlanError
        The law has no gain or another circle, or the shapes disagree.
    """
    _require_law(law)
    m = n_reports.size
    if sums.shape != (2 * m,):
        raise PlanError(
            f"must have two parts for each of {m} features, not shape {sums.shape}",
            field="sums",
            fix="sum the reports by feature",
        )
    several = np.maximum(n_reports, 1).astype(np.float64)
    scaled = sums.reshape(2, m) / (AMPLITUDE * law.gain * several)
    sketch = scaled[0] + 1j * scaled[1]
    spread = np.maximum(law.energy - np.abs(sketch) ** 2, 0.0) / np.maximum(several - 1, 1)
    noise_energy = np.where(n_reports > 1, spread, np.where(n_reports == 1, law.energy, np.inf))
    return ReportedSketch(sketch=sketch, noise_energy=noise_energy, n_reports=n_reports)


def predict_report_snr(
    law: CircularLaw,
    *,
    n_reports: int,
    n_frequencies: int,
    n_records: int,
    signal_energy: float,
) -> float:
    """Predict the SNR of a global sketch from phase reports, before any data exist.

    ``SNR = |z|^2 / ((E - |z|^2) m / (r n))``: a feature has ``r n / m`` reports.

    Parameters
    ----------
    law
        The law of the reports.
    n_reports, n_frequencies, n_records
        r of one record, m, and n.
    signal_energy
        ``|z|^2``, an assumption: 0.10 to 0.45 was observed.
    """
    noise = (law.energy - signal_energy) * n_frequencies / (n_reports * n_records)
    return signal_energy / noise


def _require_law(law: CircularLaw) -> None:
    if law.circle != PHASES:
        raise PlanError(
            f"must be {PHASES}, the phases of the feature table",
            field="circle",
            fix="take the law from the plan",
        )
    if law.gain == 0.0:
        raise PlanError(
            "must be greater than 2^bits, or a report says nothing",
            field="weight",
            fix="take the law from the plan",
        )
