"""Doubt about a study before it spends any epsilon: why not to run it, and what would do."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any

from sfumato.analyst.planning.files import show_exact
from sfumato.analyst.planning.fleets import describe_size
from sfumato.analyst.planning.phases import round_up
from sfumato.learning.planning.outline import StudyOutline
from sfumato.learning.planning.quality import QualityBand
from sfumato.learning.planning.remedies import Remedies, find_remedies
from sfumato.shared.errors import PlanError


@dataclass(frozen=True, kw_only=True)
class Doubt:
    """A study whose answers would be withheld, whatever its records are.

    Parameters
    ----------
    outline, epsilon
        The study.
    band
        Its predicted quality, without an upper end.
    remedies
        The least changes that reach a target.
    """

    outline: StudyOutline
    epsilon: Fraction
    band: QualityBand
    remedies: Remedies

    def describe(self) -> str:
        """Describe the doubt, its figure, and what would do."""
        return f"Do not run this: {self.describe_reason()}. {self.describe_remedies()}"

    def describe_reason(self) -> str:
        """Describe the prediction that forbids it."""
        outline = self.outline
        records = describe_size(outline.unit, outline.n_records, outline.n_sketches)
        return (
            f"at epsilon {show_exact(self.epsilon)}, with {records}, the decoder's verdict on "
            f'every answer of {_count(outline.n_clusters, "cluster")} would be "do not use", '
            f"because {self.band.describe_limit()}"
        )

    def describe_remedies(self) -> str:
        """Describe the changes that would do, each alone."""
        ways = list(_list_remedies(self.remedies, is_summed=self.outline.is_summed))
        target = f"relative SSE {self.remedies.target_sse:g}"
        if not ways:
            return f"No epsilon and no number of records reaches {target}: change several of them."
        return f"Any one of these would reach {target}: {'; '.join(ways)}."

    def to_json(self) -> dict[str, Any]:
        """Return JSON values; an epsilon is exact text."""
        would_do = asdict(self.remedies)
        if self.remedies.epsilon is not None:
            would_do["epsilon"] = str(self.remedies.epsilon)
        return {
            "reason": self.describe_reason(),
            "snr_per_parameter": self.band.snr_per_parameter,
            "features_per_parameter": self.band.features_per_parameter,
            "would_do": would_do,
            "statement": self.describe(),
        }


def find_doubt(
    outline: StudyOutline,
    band: QualityBand,
    *,
    epsilon: Fraction,
    delta: Fraction,
    target_sse: float,
) -> Doubt | None:
    """Find out whether a study is hopeless; None where it is not.

    Parameters
    ----------
    outline, band
        The study, and its predicted quality.
    epsilon, delta, target_sse
        The budget of one sketch, and the relative SSE that the remedies reach.
    """
    if not band.is_hopeless:
        return None
    return Doubt(
        outline=outline,
        epsilon=epsilon,
        band=band,
        remedies=find_remedies(outline, epsilon=epsilon, delta=delta, target_sse=target_sse),
    )


def require_hope(doubt: Doubt | None, *, anyway: bool) -> None:
    """Refuse a hopeless study, unless ``anyway``.

    Raises
    ------
    PlanError
        The study is hopeless.
    """
    if doubt is not None and not anyway:
        raise PlanError(
            doubt.describe().removesuffix("."), fix="add --anyway to go on all the same"
        )


def _list_remedies(remedies: Remedies, *, is_summed: bool) -> Iterator[str]:
    if remedies.epsilon is not None:
        yield f"epsilon {show_exact(remedies.epsilon)}"
    if remedies.n_records is not None:
        yield f"{round_up(remedies.n_records):,} records in as many sketches"
    if remedies.n_sketches is not None:
        where = "in as many batches, from more devices"
        if not is_summed:
            where = "from more devices or from more windows that are decoded together"
        yield f"{round_up(remedies.n_sketches):,} sketches of as many records each, {where}"
    if remedies.n_clusters is not None:
        yield f"at most {_count(remedies.n_clusters, 'cluster')}"


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
