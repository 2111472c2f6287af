"""Groups: all pairs of the values of one label."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sfumato.aggregator.answers.kind import Inputs, Part, Slots
from sfumato.aggregator.base.sums.selection import Selection
from sfumato.aggregator.resources.keys.record import KeyScope
from sfumato.learning.answers.comparisons import describe_change, describe_common
from sfumato.learning.insight.groups import GroupComparison, compare_groups
from sfumato.learning.insight.model import StudyModel
from sfumato.learning.insight.selection import average
from sfumato.shared.errors import ConfigError, DecodingError
from sfumato.shared.plan import SketchPlan
from sfumato.shared.wire.objects.analyses import (
    GroupsBody,
    GroupsRequest,
    JoinBody,
    PairBody,
    PlaceBody,
)
from sfumato.shared.wire.objects.declaration import make_body

_LEAST_GROUPS = 2


class GroupsKind:
    """Which values of a label have records alike, and how the others differ."""

    request = GroupsRequest
    result = GroupsBody
    version = 1
    scope: KeyScope = "viewer"
    needs_devices = False

    def select(
        self, plan: SketchPlan, request: GroupsRequest, slots: Slots | None
    ) -> Sequence[Selection]:
        """Return a selection for each declared value of the label."""
        declared = {label.name: label.values for label in plan.labels}
        if request.label not in declared:
            known = ", ".join(declared) or "none"
            raise ConfigError(
                "must be a label that the plan declares",
                field="label",
                fix=f"use one of its labels: {known}",
            )
        return [
            Selection(
                first_slot=request.first_slot,
                last_slot=request.last_slot,
                labels={request.label: value},
            )
            for value in declared[request.label]
        ]

    def find_shared(self, request: GroupsRequest) -> Selection | None:
        """Return None: a device has one value of a label."""
        return None

    def name_parts(
        self, plan: SketchPlan, request: GroupsRequest, selections: Sequence[Selection]
    ) -> list[str]:
        """Name groups by their values."""
        return [selection.labels[request.label] for selection in selections]

    def require(self, inputs: Inputs, request: GroupsRequest) -> None:
        """Refuse fewer than two groups, and sums that k clusters cannot be fitted to."""
        inputs.require_clusters(request.n_clusters)
        readable, doubts = _sort_out(inputs)
        if len(readable) < _LEAST_GROUPS:
            raise DecodingError(
                f"must have at least {_LEAST_GROUPS} values whose sketches can be read, and has "
                f"{len(readable)}; {'; '.join(doubts)}",
                field="label",
                fix="widen the slots, or wait for more sketches",
            )

    def compute(
        self,
        inputs: Inputs,
        request: GroupsRequest,
        *,
        progress: Callable[[float], None],
        cancelled: Callable[[], bool],
    ) -> tuple[GroupComparison, StudyModel]:
        """Compare all pairs of the groups that can be read."""
        readable, _ = _sort_out(inputs)
        return compare_groups(
            inputs.plan,
            [part.require() for part in readable],
            label=request.label,
            n_clusters=request.n_clusters,
            seed=request.seed,
            cancelled=cancelled,
        )

    def describe(
        self,
        inputs: Inputs,
        request: GroupsRequest,
        answer: tuple[GroupComparison, StudyModel],
    ) -> GroupsBody:
        """Return the groups as a body."""
        found, model = answer
        _, doubts = _sort_out(inputs)
        pairs = sorted(found.pairs, key=lambda pair: (pair.p, -pair.comparison.size))
        return GroupsBody(
            kind="groups",
            **describe_common(
                inputs.plan,
                model,
                [*doubts, *found.describe()],
                found.assumptions,
                digests=inputs.digests,
            ),
            values=list(found.values),
            n_records=list(found.n_records),
            sizes=found.sizes.tolist(),
            errors=found.errors.tolist(),
            p=found.p_values.tolist(),
            pairs=[
                make_body(
                    PairBody,
                    pair,
                    size=pair.comparison.size,
                    size_error=pair.comparison.size_error,
                    changes=[describe_change(change) for change in pair.changes],
                )
                for pair in pairs
            ],
            map=[
                PlaceBody(value=value, x=float(x), y=float(y))
                for value, (x, y) in zip(found.values, found.places, strict=True)
            ],
            tree=[make_body(JoinBody, join) for join in found.tree],
        )


def _sort_out(inputs: Inputs) -> tuple[list[Part], list[str]]:
    """Return the groups that can be read, and sentences about the others."""
    readable, doubts = [], []
    for part in inputs.parts:
        try:
            average(inputs.plan, part.require())
        except DecodingError as error:
            doubts.append(f"{part.name} is left out: it {part.doubt or error.rule}")
        else:
            readable.append(part)
    return readable, doubts
