"""Candidates of the planner: one choice of noise and frequencies each, with its predicted quality.

A sketch may carry r of the m features, and noise for these alone. Under pure epsilon the noise of L
sketches then falls from L times that of one to ``1 + 1.5 L / m + 0.5 (L / m)^2`` times at
``r = m / L``, and to ``3 L / m`` times at r = 1 where L exceeds m. Gaussian noise gains nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache

from sfumato.learning.estimate.snr import compute_dilution, predict_mechanism_snr, predict_snr
from sfumato.learning.planning.laws import (
    LAW_CHOICES,
    LawChoice,
    choose_radius_law,
    expect_signal_energy,
    widen_law,
)
from sfumato.learning.planning.outline import StudyOutline
from sfumato.learning.planning.quality import QualityBand, predict_relative_sse
from sfumato.shared.core import AMPLITUDE, RadiusLaw
from sfumato.shared.errors import PrivacyError
from sfumato.shared.plan.spec import MOST_SKETCHES
from sfumato.shared.privacy import (
    FourierShape,
    Mechanism,
    PrivacyTarget,
    calibrate_mechanism,
    compute_count_variance,
    get_mechanism,
)
from sfumato.shared.privacy.mechanisms.phase import PHASE_REPORT
from sfumato.shared.sharing.masks import BLIND_BYTES
from sfumato.shared.sharing.ring import Ring

SPLIT_MECHANISM = "discrete-knorm"
"""The one noise that is best in small sketches: the Gaussian gains nothing, Laplace is worse."""
_PAYLOAD_WIDTHS = range(2, 9)
# Predicted qualities this close count as equal: the rule of thumb is not finer.
_ALIKE = 0.005
# Noise does not depend on the number of sketches, so tables over it calibrate once.
_calibrate = lru_cache(maxsize=1024)(calibrate_mechanism)


@dataclass(frozen=True, kw_only=True)
class Prediction:
    """Expected signal and quality of a choice of noise and frequencies.

    Parameters
    ----------
    law_choice
        The radius law that suits the noise.
    signal_energy
        ``|z|^2``, of the outline or as k clusters give it.
    snr
        Signal-to-noise ratio of the global sketch (seed eq. 7).
    band
        Relative SSE.
    """

    law_choice: LawChoice
    signal_energy: float
    snr: float
    band: QualityBand


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """One choice of noise and number of frequencies, with its predicted quality.

    Parameters
    ----------
    unit
        The unit that one sketch protects: ``record``, or all records of a ``device`` in a window.
    mechanism, n_frequencies
        Name, and m.
    frequencies_per_sketch
        r, the features that a sketch carries: m, or a divisor of it.
    measurements_per_record
        The features that a record adds to: m, or fewer with masks.
    epsilon, delta
        The guarantee of one sketch; delta is 0 except for the discrete Gaussian.
    prediction
        Law, signal, SNR and quality to expect.
    sketch_bytes
        Size of the payload of one sketch.
    is_summed
        Whether devices send masked sums, to whose total two servers add the noise.
    """

    unit: str
    mechanism: str
    n_frequencies: int
    frequencies_per_sketch: int
    measurements_per_record: int
    epsilon: Fraction
    delta: Fraction
    prediction: Prediction
    sketch_bytes: int
    is_summed: bool = False

    @property
    def snr(self) -> float:
        """The SNR of the global sketch (seed eq. 7)."""
        return self.prediction.snr

    @property
    def band(self) -> QualityBand:
        """Predicted relative SSE."""
        return self.prediction.band

    @property
    def reports_phases(self) -> bool:
        """True if a sketch holds noisy phases of one record."""
        return self.mechanism == PHASE_REPORT

    @property
    def release(self) -> str:
        """The kind of release in a plan."""
        if self.is_summed:
            return "sum.v1"
        return "phase.v1" if self.reports_phases else "local.v1"

    @property
    def has_masks(self) -> bool:
        """True if a record uses only some of the features."""
        return self.measurements_per_record < self.n_frequencies

    @property
    def is_split(self) -> bool:
        """True if a sketch carries only some of the features."""
        return self.frequencies_per_sketch < self.n_frequencies

    @property
    def shortest_selection(self) -> int:
        """The fewest sketches that together carry every feature, m / r."""
        return self.n_frequencies // self.frequencies_per_sketch

    @property
    def law_choice(self) -> LawChoice:
        """The radius law that suits the noise."""
        return self.prediction.law_choice

    def widen(self) -> Candidate:
        """Return the candidate with a wider law, for scales that are a guess."""
        wider = replace(self.prediction, law_choice=widen_law(self.law_choice))
        return replace(self, prediction=wider)


def predict_candidate(
    outline: StudyOutline,
    *,
    mechanism: str,
    n_frequencies: int,
    epsilon: Fraction,
    delta: Fraction = Fraction(0),
    measurements_per_record: int | None = None,
    frequencies_per_sketch: int | None = None,
) -> Candidate:
    """Predict the quality of one choice.

    Parameters
    ----------
    outline
        The study.
    mechanism, n_frequencies
        One of ``MECHANISMS``, and m.
    epsilon, delta
        The required guarantee of one sketch; mechanisms without a delta ignore it.
    measurements_per_record
        The features that a record adds to; m if not given.
    frequencies_per_sketch
        r; m if not given.

    Raises
    ------
    PrivacyError
        The mechanism cannot be calibrated to this guarantee; or r does not divide m, stands beside
        masks, or leaves features that the smallest selection does not carry.
    """
    m = n_frequencies
    used = m if measurements_per_record is None else measurements_per_record
    r = m if frequencies_per_sketch is None else frequencies_per_sketch
    require_carried(outline, m=m, r=r, has_masks=used < m)
    target = PrivacyTarget(
        mechanism=mechanism,
        shape=FourierShape(n_frequencies=r, measurements_per_record=min(used, r)),
        epsilon=epsilon,
        delta=delta if get_mechanism(mechanism).needs_delta else Fraction(0),
        neighbouring=outline.neighbouring,
    )
    noise = _calibrate(target)
    prediction = predict_mechanism(
        outline,
        noise,
        n_frequencies=m,
        n_blocks=m // r,
        alpha=used / m,
        count_variance=compute_count_variance(target, noise),
    )
    return Candidate(
        unit=outline.unit,
        mechanism=mechanism,
        n_frequencies=m,
        frequencies_per_sketch=r,
        measurements_per_record=used,
        epsilon=epsilon,
        delta=target.delta,
        prediction=prediction,
        sketch_bytes=_measure_payload(outline, noise, 2 * r + int(target.releases_count)),
        is_summed=outline.is_summed,
    )


def predict_mechanism(
    outline: StudyOutline,
    mechanism: Mechanism,
    *,
    n_frequencies: int,
    n_blocks: int = 1,
    alpha: float = 1.0,
    count_variance: float = 0.0,
    law: RadiusLaw | None = None,
) -> Prediction:
    """Predict the SNR of the global sketch, and the quality, under a calibrated mechanism.

    Parameters
    ----------
    outline
        The study.
    mechanism
        Mechanism of one sketch.
    n_frequencies, n_blocks, alpha, count_variance
        m, and as :func:`sfumato.learning.estimate.snr.predict_mechanism_snr` takes them.
    law
        The law of a plan; None for the one that suits the noise.
    """
    k, d = outline.n_clusters, outline.n_dimensions

    def predict(signal_energy: float) -> float:
        return predict_mechanism_snr(
            mechanism,
            n_sketches=outline.noises,
            n_records=outline.n_counted,
            alpha=alpha,
            signal_energy=signal_energy if outline.signal_energy is None else outline.signal_energy,
            count_variance=count_variance,
            n_blocks=n_blocks,
            device_variance=outline.device_variance,
        )

    choice, signal = choose_radius_law(
        lambda energy: predict(energy) * n_frequencies / (k * d),
        features=n_frequencies / (k * d),
        n_clusters=k,
        n_dimensions=d,
    )
    if law is not None:
        signal = expect_signal_energy(law, n_clusters=k, n_dimensions=d)
    snr = predict(signal)
    band = predict_relative_sse(snr=snr, n_frequencies=n_frequencies, n_clusters=k, n_dimensions=d)
    gain = choice.gain if law in (None, choice.law) else 0.0
    return Prediction(
        law_choice=choice,
        signal_energy=signal if outline.signal_energy is None else outline.signal_energy,
        snr=snr,
        band=replace(band, high=max(band.low, band.high - gain)),
    )


def require_carried(outline: StudyOutline, *, m: int, r: int, has_masks: bool = False) -> None:
    """Check that r divides m, and that the smallest selection carries every feature.

    Raises
    ------
    PrivacyError
        It does not, or r < m stands beside masks.
    """
    if r == m:
        return
    rule = None
    if not 1 <= r < m or m % r:
        rule = f"must be a divisor of n_frequencies ({m}) and is {r}"
    elif has_masks:
        rule = f"must equal n_frequencies ({m}) with masks for each record"
    elif outline.selected_sketches * r < m:
        rule = (
            f"must be at least {-(-m // outline.selected_sketches)}, so that the smallest "
            f"selection, {outline.selected_sketches} sketches, carries all {m} frequencies"
        )
    if rule:
        raise PrivacyError(rule, field="frequencies_per_sketch", fix=f"leave it out for {m}")


def _measure_payload(outline: StudyOutline, mechanism: Mechanism, n_coordinates: int) -> int:
    """Return the bytes of a payload by the plan's rule."""
    most = 1 if outline.protects_devices else outline.most_records
    if outline.is_summed:
        bound = MOST_SKETCHES * most * AMPLITUDE + 2 * mechanism.noise_bound
        width = Ring.find_width(bound)
        blind = BLIND_BYTES
    else:
        bound = most * AMPLITUDE + mechanism.noise_bound
        width = next((w for w in _PAYLOAD_WIDTHS if bound < 1 << (8 * w - 1)), None)
        blind = 0
    if width is not None:
        return n_coordinates * width + blind
    raise PrivacyError(
        "gives sums that would not fit 64 bits",
        field="n_records",
        fix="spread the records over more sketches",
    )


def predict_splits(
    outline: StudyOutline,
    *,
    n_frequencies: int,
    epsilon: Fraction,
    least_snr: float = 0.0,
) -> Iterator[Candidate]:
    """Predict small sketches of one m under K-norm noise, by descending r.

    Privacy noise falls with r, but the errors of sampling and of devices that differ grow, whatever
    the noise. So the search ends where these alone leave less than the best SNR so far: no smaller
    r can be better. Where bytes are scarce a smaller sketch may be worth it, so it does not end.

    Parameters
    ----------
    outline
        The study.
    n_frequencies
        m.
    epsilon
        The budget of one sketch.
    least_snr
        That of r = m; what is worse anyway is not searched for.
    """
    best = least_snr
    for r in _list_divisors(n_frequencies):
        if outline.is_summed or outline.selected_sketches * r < n_frequencies:
            return
        if not outline.bytes_are_scarce and _limit_snr(outline, n_frequencies // r) <= best:
            return
        try:
            candidate = predict_candidate(
                outline,
                mechanism=SPLIT_MECHANISM,
                n_frequencies=n_frequencies,
                frequencies_per_sketch=r,
                epsilon=epsilon,
            )
        except PrivacyError:
            continue  # too much noise for 64 bits; a smaller r has less
        best = max(best, candidate.snr)
        yield candidate


def _limit_snr(outline: StudyOutline, n_blocks: int) -> float:
    """Bound the SNR that would be left without privacy noise; it falls with the blocks."""
    dilution = compute_dilution(outline.n_sketches, n_blocks)
    # The widest law has the most signal.
    signal = outline.signal_energy or expect_signal_energy(
        LAW_CHOICES[0].law, n_clusters=outline.n_clusters, n_dimensions=outline.n_dimensions
    )
    return predict_snr(
        signal_energy=signal,
        noise_energy=outline.device_variance * (dilution - 1.0) / outline.n_sketches,
        alpha=1.0,
        n_records=outline.n_counted / dilution,
    )


@lru_cache(maxsize=64)
def _list_divisors(number: int) -> tuple[int, ...]:
    """Return the divisors below a number, descending."""
    small = [i for i in range(1, int(number**0.5) + 1) if number % i == 0]
    return tuple(sorted({*small, *(number // i for i in small)} - {number}, reverse=True))


def choose_candidate(
    candidates: Sequence[Candidate], target_sse: float, *, bytes_are_scarce: bool = False
) -> Candidate:
    """Choose among one or more candidates as :func:`.planner.advise` does."""
    reaching = [candidate for candidate in candidates if candidate.band.reaches(target_sse)]
    if not reaching:
        return min(
            candidates, key=lambda c: (c.band.high, c.band.low, c.delta > 0, *_prefer_few(c))
        )
    if bytes_are_scarce:
        least_delta = min(candidate.delta for candidate in reaching)
        alike = [candidate for candidate in reaching if candidate.delta == least_delta]
        return min(alike, key=lambda c: (c.sketch_bytes, c.n_frequencies, c.band.high))
    # Whoever states a delta has accepted it: a pure mechanism that is worse would make answers
    # worse from some epsilon on, where it first reaches the target.
    best = min(candidate.band.high for candidate in reaching)
    alike = [candidate for candidate in reaching if candidate.band.high <= best + _ALIKE]
    return min(alike, key=lambda c: (c.delta, *_prefer_few(c), c.band.high))


def _prefer_few(candidate: Candidate) -> tuple[int, int]:
    """Order by m, then by the sketches that a selection needs."""
    return candidate.n_frequencies, -candidate.frequencies_per_sketch
