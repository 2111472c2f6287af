"""Sources of answers: a study, some of its slots, a snapshot, or a sketch file."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np

from sfumato.analyst.client import Client
from sfumato.analyst.periods import Choice
from sfumato.analyst.requests import ANSWERS
from sfumato.learning.estimate.limbs import split_limbs
from sfumato.learning.estimate.sizes import SizeMoments
from sfumato.learning.estimate.totals import Totals
from sfumato.shared.errors import NotFoundError
from sfumato.shared.plan import SketchPlan
from sfumato.shared.wire.objects.looks import MeasuredClustersBody
from sfumato.shared.wire.objects.results import SelectionBody, SnapshotSumsBody
from sfumato.shared.wire.objects.statistics import CalibrationBody, HistogramBody, MomentsAnswerBody
from sfumato.shared.wire.references import is_identity

_CHOSEN = re.compile(r"(?P<study>.+?)@(?P<parts>[^@]+)")
_SLOTS = re.compile(r"(?P<first>-?[0-9]{1,15})(:(?P<last>-?[0-9]{1,15}))?")
_DAY = r"[0-9]{4}-[0-9]{2}(-[0-9]{2})?"
_DAYS = re.compile(rf"(?P<first>{_DAY})(:(?P<last>{_DAY}))?")
_LABEL = re.compile(r"(?P<name>[^=]+)=(?P<value>.+)")


class Source(Protocol):
    """Sketches that were added up, and all that can be asked of them."""

    @property
    def plan(self) -> SketchPlan:
        """The plan."""

    @property
    def totals(self) -> Totals:
        """The exact sums."""

    def shares_with(self, other: Source) -> bool:
        """Return whether another source of the same plan may hold a sketch of this one."""

    def histogram(self, *, bars: int) -> HistogramBody:
        """Return the marginals of a histogram."""

    def moments(self) -> MomentsAnswerBody:
        """Return the answer of moments."""

    def clusters(self) -> MeasuredClustersBody:
        """Return what a second look measures."""

    def calibrate(self, *, n_clusters: tuple[int, int]) -> CalibrationBody:
        """Return what a pilot says about a main study."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Snapshot:
    """A snapshot on a server.

    Parameters
    ----------
    client
        Client of the server.
    snapshot_id, plan
        The snapshot, and the plan of its study.
    """

    client: Client
    snapshot_id: str
    plan: SketchPlan

    @cached_property
    def body(self) -> SnapshotSumsBody:
        """The snapshot, as the server tells it."""
        return self.client.snapshot_sums(self.snapshot_id)

    @cached_property
    def totals(self) -> Totals:
        """The exact sums.

        Raises
        ------
        TransportError
            They are not what the plan gives.
        """
        return read_totals(self.body, self.plan)

    def shares_with(self, other: Source) -> bool:
        """See ``Source``."""
        return not isinstance(other, Snapshot) or not _are_apart(
            self.body.selection, other.body.selection
        )

    def histogram(self, *, bars: int) -> HistogramBody:
        """Return the marginals; raises as ``Client.histogram``."""
        return self.client.histogram(self.snapshot_id, bars=bars)

    def moments(self) -> MomentsAnswerBody:
        """Return the answer of moments; raises as ``Client.moments``."""
        return self.client.moments(self.snapshot_id)

    def clusters(self) -> MeasuredClustersBody:
        """Return what a second look measures; raises as ``Client.clusters``."""
        return self.client.clusters(self.snapshot_id)

    def calibrate(self, *, n_clusters: tuple[int, int]) -> CalibrationBody:
        """Return what a pilot says about a main study; raises as ``Client.calibration``."""
        least, most = n_clusters
        return self.client.calibration(self.snapshot_id, n_clusters=least, most_clusters=most)


def find_snapshot(client: Client, reference: str) -> Snapshot:
    """Return the snapshot that a reference means, and freeze it where it is a study.

    Parameters
    ----------
    reference
        A study by name, id or first digits: all its sketches. ``STUDY@2013-03-01:2013-05-31`` or
        ``STUDY@2013-03``: those of some days or months in UTC. ``STUDY@FIRST:LAST``: those of some
        slots. ``STUDY@site=north``, alone or after a comma: those of devices with a label. Or the
        id of a snapshot.

    Raises
    ------
    NotFoundError, ConfigError
        Neither fits, or no sketch is selected.
    """
    study, chosen = choose_sketches(client, reference)
    try:
        plan = client.plan(study)
    except NotFoundError:
        if not is_identity(reference):
            raise
        plan = client.plan(client.snapshot_sums(reference).study_id)
        return Snapshot(client=client, snapshot_id=reference, plan=plan)
    made = client.snapshot(study, **chosen)
    return Snapshot(client=client, snapshot_id=made.snapshot_id, plan=plan)


def choose_sketches(client: Client, reference: str) -> tuple[str, Choice]:
    """Return the id of a study, and the sketches of it that a reference states.

    Raises
    ------
    NotFoundError, ConfigError
        As :func:`find_snapshot`.
    """
    try:
        # Before what follows an @: a study may have it in its name.
        return client.find_study(reference), {}
    except NotFoundError:
        chosen = _CHOSEN.fullmatch(reference)
        choice = None if chosen is None else _read_choice(chosen["parts"])
        if chosen is None or choice is None:
            raise
    return client.find_study(chosen["study"]), choice


def _read_choice(text: str) -> Choice | None:
    """Return what stands after the @; None if it is no selection."""
    choice: Choice = {}
    labels: dict[str, str] = {}
    for part in text.split(","):
        if days := _DAYS.fullmatch(part):
            choice |= {"start": days["first"], "end": days["last"] or days["first"]}
        elif slots := _SLOTS.fullmatch(part):
            choice |= {
                "first_slot": int(slots["first"]),
                "last_slot": int(slots["last"] or slots["first"]),
            }
        elif label := _LABEL.fullmatch(part):
            labels[label["name"]] = label["value"]
        else:
            return None
    return choice | {"labels": labels} if labels else choice


def _are_apart(one: SelectionBody, other: SelectionBody) -> bool:
    """Return whether no sketch is in both: other slots, or another value of one label."""
    if any(one.labels[name] != other.labels[name] for name in {*one.labels} & {*other.labels}):
        return True
    return any(
        a.last_slot is not None and b.first_slot is not None and a.last_slot < b.first_slot
        for a, b in ((one, other), (other, one))
    )


def read_totals(body: SnapshotSumsBody, plan: SketchPlan) -> Totals:
    """Read the exact sums of a snapshot.

    Raises
    ------
    TransportError
        They are not what the plan gives.
    """
    n_blocks = plan.blocks.n_blocks
    n_totals = plan.places.size + n_blocks * int(plan.releases_count)
    moments = body.moments
    rows = [moments.n_sketches, moments.first, moments.second, moments.third, moments.energy]
    if len(body.sums) != n_totals or {len(row) for row in rows} != {n_blocks}:
        raise ANSWERS.refuse("sums")
    try:
        return Totals(
            sums=np.array(body.sums, dtype=np.int64),
            size_sums=split_limbs(body.size_sums),
            moments=SizeMoments.of_rows(rows),
        )
    except OverflowError as error:
        raise ANSWERS.refuse("sums") from error
