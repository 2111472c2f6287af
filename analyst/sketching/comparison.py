"""Comparisons of sums that lie on this machine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from sfumato.analyst.results.analyses import Comparison
from sfumato.learning.answers.comparisons import describe_comparison
from sfumato.learning.estimate.totals import Totals
from sfumato.learning.insight.pairs import compare_selections
from sfumato.learning.insight.selection import Selection
from sfumato.shared.plan import SketchPlan

LEVEL: Final = 0.05
SMALLEST_SHIFT: Final = 0.1


@dataclass(frozen=True, kw_only=True)
class ComparisonChoices:
    """Choices of a comparison.

    Parameters
    ----------
    n_clusters
        Number of clusters of one fit to both sides.
    seed
        Seed of the random starts and of the draws behind the probabilities.
    level
        Share of false alarms where nothing has changed.
    smallest_shift
        Smaller differences are no alarm; in units of the plan's scales.
    """

    n_clusters: int
    seed: int = 0
    level: float = LEVEL
    smallest_shift: float = SMALLEST_SHIFT


def compare_totals(
    plan: SketchPlan,
    first: Totals,
    second: Totals,
    choices: ComparisonChoices,
    *,
    digests: Sequence[str] = (),
) -> Comparison:
    """Compare two sums of private sketches; the caller knows that no sketch is in both.

    Raises
    ------
    WrongStatisticError, DecodingError
        The plan is not supported; the sums hold nothing but noise; or k does not suit them.
    """
    found, model = compare_selections(
        plan,
        _select("first", first),
        _select("second", second),
        n_clusters=choices.n_clusters,
        seed=choices.seed,
        level=choices.level,
        smallest_shift=choices.smallest_shift,
    )
    body = describe_comparison(plan, found, model, [first, second], digests=digests)
    return Comparison(body=body, analysis_id="")


def _select(name: str, totals: Totals) -> Selection:
    # The caller has checked that none is in both, so a name for each is enough.
    return Selection(name=name, totals=totals, members=frozenset({name}))
