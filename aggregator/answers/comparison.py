"""Comparisons of two selections."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sfumato.aggregator.answers.kind import Inputs, Slots, intersect, name_selection
from sfumato.aggregator.base.sums.selection import Selection
from sfumato.aggregator.resources.keys.record import KeyScope
from sfumato.learning.answers.comparisons import describe_comparison
from sfumato.learning.insight.comparison import Comparison
from sfumato.learning.insight.model import StudyModel
from sfumato.learning.insight.pairs import compare_selections
from sfumato.shared.plan import SketchPlan
from sfumato.shared.wire.objects.analyses import ComparisonBody, ComparisonRequest, SelectionRequest


class ComparisonKind:
    """Whether the records of two selections differ, how surely, and in what."""

    request = ComparisonRequest
    result = ComparisonBody
    version = 1
    scope: KeyScope = "viewer"
    needs_devices = False

    def select(
        self, plan: SketchPlan, request: ComparisonRequest, slots: Slots | None
    ) -> Sequence[Selection]:
        """Return both selections."""
        return [to_selection(request.first), to_selection(request.second)]

    def find_shared(self, request: ComparisonRequest) -> Selection | None:
        """Return the sketches in both selections."""
        return intersect(to_selection(request.first), to_selection(request.second))

    def name_parts(
        self, plan: SketchPlan, request: ComparisonRequest, selections: Sequence[Selection]
    ) -> list[str]:
        """Name both selections."""
        return [name_selection(selection) for selection in selections]

    def require(self, inputs: Inputs, request: ComparisonRequest) -> None:
        """Refuse an empty selection, and sums that k clusters cannot be fitted to."""
        for field, part in zip(("first", "second"), inputs.parts, strict=True):
            part.require(field)
        inputs.require_clusters(request.n_clusters)

    def compute(
        self,
        inputs: Inputs,
        request: ComparisonRequest,
        *,
        progress: Callable[[float], None],
        cancelled: Callable[[], bool],
    ) -> tuple[Comparison, StudyModel]:
        """Compare the selections."""
        first, second = (part.require() for part in inputs.parts)
        return compare_selections(
            inputs.plan,
            first,
            second,
            n_clusters=request.n_clusters,
            seed=request.seed,
            level=request.level,
            smallest_shift=request.smallest_shift,
            cancelled=cancelled,
        )

    def describe(
        self,
        inputs: Inputs,
        request: ComparisonRequest,
        answer: tuple[Comparison, StudyModel],
    ) -> ComparisonBody:
        """Return the comparison as a body."""
        sides = [part.require().totals for part in inputs.parts]
        measured = inputs.measure(answer[1].fit.means)
        return describe_comparison(
            inputs.plan, *answer, sides, digests=inputs.digests, measured=measured
        )


def to_selection(request: SelectionRequest) -> Selection:
    """Return the selection that a request names."""
    return Selection(
        first_slot=request.first_slot, last_slot=request.last_slot, labels=request.labels
    )
