"""The same study with three ways of adding noise, and whom each asks to trust.

Each device by itself, two servers that each add a noise to the sum of a fleet, or one curator who
has all records. The second is a secure sum, ``sum.v1``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Final

from rich.table import Table

from sfumato.analyst.planning.bands import candidate_to_json, show_band, show_snr
from sfumato.learning.planning.candidates import Candidate
from sfumato.learning.planning.outline import StudyOutline
from sfumato.learning.planning.planner import advise
from sfumato.shared.errors import ConfigError, PrivacyError

FEW_SKETCHES: Final = 20
"""Sketches of a slot and label set below which a secure sum wins little."""
LEAST_REPORTS: Final = 100
"""Reports that a batch needs by default."""
PARTS: Final = 5
"""Parts by default: enough to find the one in which a device lies, and to answer without it."""
_DEARER: Final = 1.1
_TRUST: Final = {
    "local": "nobody",
    "sum": "that two servers do not work together; encryption",
    "curator": "the curator, who sees every sum",
}
_NAMES: Final = {"local": "each device", "sum": "two servers", "curator": "one curator"}


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

    def require_reports(self, outline: StudyOutline) -> None:
        """Check that batches have reports to add up.

        Raises
        ------
        ConfigError
            They have fewer than two.
        """
        if self.count_reports(outline) < 2:
            raise ConfigError(
                f"gives {self.n_batches:,} batches for {outline.n_sketches:,} sketches, and a "
                "batch needs two at least",
                field="--parts",
                fix="lower it, or --label-sets, or let each device add noise",
            )


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

    def describe(self) -> Iterator[str]:
        """Describe which way to prefer, and why."""
        yield self._describe_preferred()
        mean, least = self.fleet.count_reports(self.outline), LEAST_REPORTS
        if mean < 2 * least:
            chosen = self.fleet.choose_least_reports(self.outline)
            yield (
                f"A batch has about {mean:,} reports, and by default fewer than {least} are never "
                f"opened: state least_reports = {chosen}. No promise of privacy rests on it."
            )

    def _describe_preferred(self) -> str:
        local, summed = self.candidates["local"], self.candidates["sum"]
        curator = self.candidates["curator"]
        if _is_hopeless(curator):
            return (
                "Even one curator, who has all records and adds one noise, would have no usable "
                "answer: no way of adding noise helps here. More records or more epsilon would."
            )
        if self.preferred is None:
            return (
                "One curator, whom everybody would have to trust, would have an answer; neither "
                "each device nor two servers would: the second noise, or the batches, cost too "
                "much. Fewer parts or label sets help, or more records."
            )
        if self.preferred == "sum":
            return (
                f"Prefer sum.v1: {self.fleet.n_noises:,} draws of noise stand in the place of "
                f"{self.outline.n_sketches:,}. It asks every owner to trust that the two servers "
                "do not work together; if they do, both can read every sum exactly."
            )
        if local is not None and local.band.reaches(self.target_sse):
            return (
                f"Prefer {local.release}: it reaches the target, and nobody has to trust anybody."
            )
        if summed is None:
            return "Prefer local.v1: the noise of a secure sum cannot be calibrated."
        if self.sketches_per_group < FEW_SKETCHES:
            return (
                f"Prefer local.v1: with {self.sketches_per_group:,} sketches in a slot and label "
                f"set, below {FEW_SKETCHES}, a secure sum wins little, and it asks owners to trust "
                "that two servers do not work together."
            )
        return "Prefer local.v1: a secure sum would be no better."

    def tabulate(self) -> Table:
        """Tabulate the ways."""
        table = Table(
            "",
            "noise by",
            "trust in",
            title="Ways of adding noise, at the same epsilon",
            title_justify="left",
        )
        for heading in ("draws", "m", "SNR", "relative SSE", "bytes"):
            table.add_column(heading, justify="right")
        for way, candidate in self.candidates.items():
            row = ["", "", "none can be calibrated", ""]
            if candidate is not None:
                row = [
                    str(candidate.n_frequencies),
                    show_snr(candidate.snr),
                    show_band(candidate.band),
                    "" if way == "curator" else f"{candidate.sketch_bytes:,}",
                ]
            table.add_row(
                "->" if way == self.preferred else "",
                self._name(way),
                _TRUST[way],
                f"{self._count_draws(way):,}",
                *row,
            )
        return table

    def _name(self, way: str) -> str:
        candidate = self.candidates[way]
        if way == "curator" or candidate is None:
            return _NAMES[way]
        return f"{_NAMES[way]} ({candidate.release})"

    def _count_draws(self, way: str) -> int:
        return {"local": self.outline.n_sketches, "sum": self.fleet.n_noises, "curator": 1}[way]

    def to_json(self) -> dict[str, Any]:
        """Return JSON values."""
        return {
            "preferred": self.preferred,
            "statement": " ".join(self.describe()),
            "batches": self.fleet.n_batches,
            "reports_per_batch": self.fleet.count_reports(self.outline),
            "ways": [
                {
                    "noise_by": _NAMES[way],
                    "trust": _TRUST[way],
                    "draws": self._count_draws(way),
                    "candidate": None if candidate is None else candidate_to_json(candidate),
                }
                for way, candidate in self.candidates.items()
            ],
        }


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


def compare_ways(
    outline: StudyOutline,
    fleet: Fleet,
    *,
    epsilon: Fraction,
    delta: Fraction,
    target_sse: float,
) -> Ways:
    """Predict the quality of the same records with each way of adding noise.

    Parameters
    ----------
    outline
        The study, with or without a secure sum.
    fleet
        The batches of a secure sum.
    epsilon, delta, target_sse
        As :func:`sfumato.learning.planning.planner.advise` takes them.
    """
    noises = {"local": None, "sum": fleet.n_noises, "curator": 1}
    candidates: dict[str, Candidate | None] = {}
    for way, n_noises in noises.items():
        try:
            study = replace(outline, n_noises=n_noises)
            advice = advise(study, epsilon=epsilon, delta=delta, target_sse=target_sse)
            candidates[way] = advice.recommended
        except PrivacyError:
            candidates[way] = None
    return Ways(
        outline=sum_outline(outline, fleet),
        fleet=fleet,
        candidates=candidates,
        target_sse=target_sse,
    )


def _is_hopeless(candidate: Candidate | None) -> bool:
    return candidate is None or candidate.band.is_hopeless
