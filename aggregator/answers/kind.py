"""Kinds of analyses: their selections, computation and description."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from sfumato.aggregator.base.sums.selection import Selection
from sfumato.aggregator.resources.keys.record import KeyScope
from sfumato.aggregator.resources.sketches.record import DeviceSums
from sfumato.aggregator.resources.snapshots.record import SnapshotRecord
from sfumato.learning.answers.looks import TakenLook, measure_look, require_looks
from sfumato.learning.estimate.totals import Totals
from sfumato.learning.insight.pairs import pose_pooled
from sfumato.learning.insight.selection import Selection as Sketches
from sfumato.learning.looks.measurement import Measurement
from sfumato.shared.errors import ConfigError, DecodingError
from sfumato.shared.plan import SketchPlan
from sfumato.shared.wire.objects.analyses import AnswerBody

Floats = NDArray[np.float64]
R_contra = TypeVar("R_contra", contravariant=True)


@dataclass(frozen=True, kw_only=True, eq=False)
class Part:
    """A selection of an analysis, frozen.

    Parameters
    ----------
    name
        In the words of a report.
    selection, n_sketches
        The selection, and the number of its sketches.
    snapshot, doubt
        The snapshot; or why there is none.
    look
        The snapshot of the same slots and labels of a second look, if there is one.
    """

    name: str
    selection: Selection
    n_sketches: int
    snapshot: SnapshotRecord | None
    doubt: str | None
    look: SnapshotRecord | None = None

    @property
    def totals(self) -> Totals | None:
        """The exact sums."""
        return None if self.snapshot is None else self.snapshot.totals

    def require(self, field: str = "selection") -> Sketches:
        """Return the sketches, as the mathematics takes them.

        Parameters
        ----------
        field
            The part of the request that an error names.

        Raises
        ------
        DecodingError
            Nothing can be read from them.
        """
        if self.totals is None:
            raise DecodingError(
                f"{self.doubt or 'contains no sketch'} ({self.name})",
                field=field,
                fix="widen its slots or labels, or wait for more sketches",
            )
        # Two parts never share a sketch, so a name for each is enough.
        return Sketches(name=self.name, totals=self.totals, members=frozenset({self.name}))


@dataclass(frozen=True, kw_only=True, eq=False)
class Inputs:
    """The inputs of an analysis.

    Parameters
    ----------
    plan
        Plan of the study.
    parts
        Its selections.
    devices
        For kinds that look at devices.
    look_plan
        The plan of the second look that measures shares, if one does.
    """

    plan: SketchPlan
    parts: Sequence[Part]
    devices: Sequence[DeviceSums] = ()
    look_plan: SketchPlan | None = None

    @property
    def digests(self) -> list[str]:
        """The digests of the sums that the answer rests on."""
        return [part.snapshot.digest.hex() for part in self.parts if part.snapshot is not None]

    def measure(self, means: Floats) -> list[Measurement | None]:
        """Measure clusters with these means in each selection that a look has read."""
        return [
            None if each is None else measure_look(self.plan, means, each) for each in self._looks
        ]

    @property
    def _looks(self) -> list[TakenLook | None]:
        return [_take(self.look_plan, part.look) for part in self.parts]

    def require_clusters(self, n_clusters: int) -> None:
        """Refuse sums that k clusters cannot be fitted to, before a worker tries.

        Raises
        ------
        WrongStatisticError, DecodingError, ConfigError
            As :func:`sfumato.learning.insight.pairs.pose_pooled`, and ``require_looks``.
        """
        looks = [each for each in self._looks if each is not None]
        require_looks(self.plan, looks, n_clusters, field="look")
        held = [part.totals for part in self.parts if part.totals is not None]
        if not held:
            raise DecodingError(
                "contains no sketch that can be read",
                field="selection",
                fix="widen the slots or labels, or wait for more sketches",
            )
        whole = held[0]
        for totals in held[1:]:
            whole = whole + totals
        pose_pooled(self.plan, whole, n_clusters=n_clusters)


def _take(plan: SketchPlan | None, look: SnapshotRecord | None) -> TakenLook | None:
    if plan is None or look is None:
        return None
    return TakenLook(plan=plan, totals=look.totals, snapshot_id=look.snapshot_id.hex())


Slots = tuple[int, int]
"""The first and the last slot of a study that hold a sketch."""


class Kind(Protocol[R_contra]):
    """A kind of analysis."""

    @property
    def request(self) -> type[Any]:
        """Class of its requests."""

    @property
    def result(self) -> type[AnswerBody]:
        """Class of its answers."""

    @property
    def version(self) -> int:
        """Version of its algorithm: another version is another analysis."""

    @property
    def scope(self) -> KeyScope:
        """Least scope of an API key that reads its answers."""

    @property
    def needs_devices(self) -> bool:
        """Whether it reads the sketches of single devices."""

    def select(
        self, plan: SketchPlan, request: R_contra, slots: Slots | None
    ) -> Sequence[Selection]:
        """Return the selections to freeze.

        Raises
        ------
        ConfigError, DecodingError
            The request does not suit the plan.
        """

    def find_shared(self, request: R_contra) -> Selection | None:
        """Return the sketches that two selections have in common, of which there must be none."""

    def name_parts(
        self, plan: SketchPlan, request: R_contra, selections: Sequence[Selection]
    ) -> list[str]:
        """Name the selections for a report."""

    def require(self, inputs: Inputs, request: R_contra) -> None:
        """Refuse what cannot be computed, before it is queued.

        Raises
        ------
        SketchError
            It cannot.
        """

    def compute(
        self,
        inputs: Inputs,
        request: R_contra,
        *,
        progress: Callable[[float], None],
        cancelled: Callable[[], bool],
    ) -> Any:
        """Compute the answer."""

    def describe(self, inputs: Inputs, request: R_contra, answer: Any) -> AnswerBody:
        """Return the answer as a body."""


def intersect(first: Selection, second: Selection) -> Selection | None:
    """Return the selection of the sketches that are in both; None where none can be."""
    if any(second.labels.get(name, value) != value for name, value in first.labels.items()):
        return None
    starts = [s for s in (first.first_slot, second.first_slot) if s is not None]
    ends = [s for s in (first.last_slot, second.last_slot) if s is not None]
    start, end = max(starts, default=None), min(ends, default=None)
    if start is not None and end is not None and start > end:
        return None
    return Selection(first_slot=start, last_slot=end, labels={**first.labels, **second.labels})


def name_selection(selection: Selection) -> str:
    """Name a selection in a few words."""
    first, last = selection.first_slot, selection.last_slot
    words = [f"{name} {value}" for name, value in sorted(selection.labels.items())]
    if first is not None and last is not None:
        words.append(f"slot {first}" if first == last else f"slots {first} to {last}")
    elif first is not None:
        words.append(f"slots from {first}")
    elif last is not None:
        words.append(f"slots to {last}")
    return ", ".join(words) or "all sketches"


def require_slots(plan: SketchPlan) -> None:
    """Refuse windows by count, which have no order in time.

    Raises
    ------
    ConfigError
        The plan has them.
    """
    if plan.window.kind == "count":
        raise ConfigError(
            "needs windows by time; those of this study are by count, and have no slots",
            field="kind",
            fix="compare selections by label, or publish a study with windows by time",
        )
