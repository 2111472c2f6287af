"""The state of a compressive estimator: an exact sum of records, or its releases."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from sfumato.analyst.estimators.contract import STREAM, Release, read_release
from sfumato.analyst.estimators.pilots import PilotFindings
from sfumato.analyst.planning.files import read_plan
from sfumato.analyst.sketching.answers import LocalSketches
from sfumato.analyst.sketching.sketch_file import SketchFile, read_sketch_file
from sfumato.analyst.sketching.solution import sum_parts
from sfumato.analyst.sketching.sources import Snapshot, read_totals
from sfumato.learning.estimate.counts import count_records
from sfumato.learning.estimate.totals import Totals
from sfumato.shared.arrays import Integers
from sfumato.shared.core import SketchAccumulator
from sfumato.shared.errors import (
    ConfigError,
    MalformedMessageError,
    PlanMismatchError,
    PrivacyError,
)
from sfumato.shared.plan import (
    SketchPlan,
    compute_plan_digest,
    decode_plan,
    encode_plan,
    make_event,
)
from sfumato.shared.privacy import PrivacyEvent
from sfumato.shared.wire import encode_payload
from sfumato.shared.wire.objects.results import SnapshotSumsBody


@dataclass(kw_only=True, eq=False)
class Held:
    """Sums of one plan.

    Parameters
    ----------
    plan
        The plan.
    is_exact
        Whether no noise is added, ever.
    pilot
        What a pilot found, if there was one: the plan follows from it.
    design
        Digest of the public choices behind the plan, by which events name it; empty for the plan's.
    unreleased
        The exact sum, of all records or of those after the last release; None if there is none.
    releases
        The sums that were released, in order.
    snapshot
        Sums that a server has added up, in place of releases.
    is_foreign
        Whether others made the sketches, whose plan then says what they protect.
    process
        The process that summed what is not released.
    """

    plan: SketchPlan
    is_exact: bool
    pilot: PilotFindings | None = None
    design: bytes = b""
    unreleased: SketchAccumulator | None = None
    releases: tuple[Release, ...] = ()
    snapshot: Totals | None = None
    is_foreign: bool = False
    process: int = 0

    def add(self, summed: SketchAccumulator) -> None:
        """Add the exact sum of further records."""
        if self.unreleased is None:
            self.unreleased, self.process = summed, os.getpid()
        else:
            self.unreleased.merge(summed)

    def require_here(self) -> None:
        """Refuse to release in a child process: its parent can release the same sum.

        Raises
        ------
        PrivacyError
            The sum is a copy that a fork made.
        """
        if self.process != os.getpid():
            raise PrivacyError(
                "holds an exact sum that another process summed, and may release too",
                field="release",
                fix="call release() before the process forks",
            )

    def require_own(self, field: str) -> None:
        """Refuse what needs single sketches, where a server has added them up.

        Raises
        ------
        ConfigError
            The sums are a snapshot's.
        """
        if self.snapshot is not None:
            raise ConfigError(
                "holds a snapshot, whose sketches a server has added up",
                field=field,
                fix="make a snapshot of all the sketches that belong together",
            )

    def put(self, sums: Integers, n_records: int | None) -> None:
        """Put a release in place of the exact sum."""
        self.unreleased = None
        self.releases = (*self.releases, make_release(self.plan, sums, n_records, self.pilot))

    def make_event(self, *, stream: str = STREAM, sequence: int = 0) -> PrivacyEvent:
        """Return the event of one release of the sum."""
        return name_event(self.plan, self.design, stream=stream, sequence=sequence)

    def list_costs(self) -> tuple[PrivacyEvent, ...]:
        """Return the events behind one release: its own, after that of a pilot if there was one."""
        pilot = () if self.pilot is None else (make_event(self.pilot.plan, stream=STREAM),)
        return (*pilot, self.make_event())

    def merge(self, other: Held) -> None:
        """Add what another holds of other records.

        Raises
        ------
        PlanMismatchError
            Its plan is another.
        ConfigError
            It is this one, or one has released what the other has not, or both the same.
        """
        for held in (self, other):
            held.require_own("merge")
        if compute_plan_digest(self.plan) != compute_plan_digest(other.plan):
            raise PlanMismatchError(
                "is of another plan",
                field="merge",
                fix="give both the same public_seed, bounds, scale and max_records",
            )
        if self is other:
            raise ConfigError("is this one itself", field="merge", fix="pass another estimator")
        mine, others = self._find_state(), other._find_state()
        if mine != others:
            raise ConfigError(
                f"has {others}, and this one {mine}",
                field="merge",
                fix="call release() of both before, or of none",
            )
        known = {release.digest for release in self.releases}
        if any(release.digest in known for release in other.releases):
            raise ConfigError(
                "has a release that is part of this one: it would count twice",
                field="merge",
                fix="merge each release once",
            )
        if other.unreleased is not None:
            if not self.is_exact:
                other.require_here()
            copied = SketchAccumulator(other.unreleased.statistic)
            copied.merge(other.unreleased)
            self.add(copied)
        self.releases = (*self.releases, *other.releases)
        if self.pilot is None:
            # An event of the other's tells what a release of this plan costs, those of others too.
            self.is_foreign = self.is_foreign and other.is_foreign

    def _find_state(self) -> str:
        if self.is_exact:
            return "an exact sum"
        if self.unreleased is None:
            return "released its sum"
        return "a part that is not released" if self.releases else "not released its sum"

    @property
    def totals(self) -> Totals:
        """The sums of all sketches."""
        if self.snapshot is not None:
            return self.snapshot
        if self.is_exact:
            summed = self.unreleased
            if summed is None or summed.n_records == summed.n_unsketchable:
                raise ConfigError(
                    "has no record without a missing value",
                    field="X",
                    fix="fill in missing values, or drop the columns that have them",
                )
            # Exact sums may say how many records they leave out.
            parts = [(summed.sums, summed.n_records - summed.n_unsketchable)]
        else:
            parts = [(release.sums, release.n_records or 0) for release in self.releases]
        return sum_parts(parts)

    def count_records(self) -> int:
        """Return the number of records, or an estimate where it is secret."""
        if self.is_exact:
            return 0 if self.unreleased is None else self.unreleased.n_records
        return count_records(self.plan, self.totals).n_records

    def write(self) -> SketchFile:
        """Return the content of a sketch file.

        Raises
        ------
        ConfigError
            There are several releases, or a snapshot, or the number of records is secret.
        """
        plan = self.plan
        self.require_own("release")
        if not self.is_exact and len(self.releases) != 1:
            raise ConfigError(
                f"has {len(self.releases)} releases, and a sketch file has one",
                field="release",
                fix="use releases_, or release each part of the records by an estimator of its own",
            )
        if plan.releases_count:
            raise ConfigError(
                "keeps the number of records secret, and a sketch file states it",
                field="relation",
                fix="use release_.encode(), or replace-one",
            )
        if self.is_exact:
            assert self.unreleased is not None
            return make_sketch_file(
                plan,
                self.unreleased.sums,
                self.unreleased.n_records,
                is_exact=True,
                n_unsketchable=self.unreleased.n_unsketchable,
            )
        release = self.releases[0]
        return make_sketch_file(plan, release.sums, release.n_records or 0, is_exact=False)


def name_event(plan: SketchPlan, design: bytes, *, stream: str, sequence: int = 0) -> PrivacyEvent:
    """Return the event of a release under a plan, named by the public choices behind it.

    The plan itself may follow from a fresh seed, or from a pilot, which no choice knows.

    Parameters
    ----------
    design
        Digest of the choices; empty for the plan's own.
    """
    event = make_event(plan, stream=stream, sequence=sequence)
    return replace(event, plan_digest=design) if design else event


def make_release(
    plan: SketchPlan, sums: Integers, n_records: int | None, pilot: PilotFindings | None = None
) -> Release:
    """Return a release under a plan, which may follow from a pilot."""
    found = {} if pilot is None else {"pilot": pilot.describe()}
    return Release(
        design={"statistic": plan.kind, "plan": encode_plan(plan), **found},
        n_records=n_records,
        sums=sums,
        noise_variance=plan.mechanism.variance,
    )


def decode_release(data: bytes) -> Release:
    """Read what ``Release.encode`` wrote of a sketch.

    Raises
    ------
    MalformedMessageError
        The bytes are none, or are damaged, or their sums do not fit their plan.
    """
    document = read_release(data)
    try:
        plan = decode_plan(document["design"]["plan"])
        pilot = PilotFindings.of(document["design"])
        sums, n_records = np.array(document["sums"], dtype=np.int64), document["n_records"]
        is_counted = isinstance(n_records, int) and n_records > 0
        if (
            sums.shape != (plan.n_coordinates,)
            or (n_records is None) != plan.releases_count
            or not (is_counted or plan.releases_count)
        ):
            raise ValueError
    except (AttributeError, KeyError, OverflowError, TypeError, ValueError) as error:
        raise MalformedMessageError(
            "must be a release of a sketch",
            field="release",
            fix="read the file that this program wrote",
        ) from error
    return make_release(plan, sums, n_records, pilot)


Sketch = SketchFile | str | Path | tuple[ArrayLike, int]
"""A sketch, the path of its file, or its sums and its number of records."""
Sketches = Sketch | Sequence[Sketch] | Snapshot | SnapshotSumsBody | Release


def read_sketches(
    source: Sketches, plan: SketchPlan | str | Path | None, *, is_exact: bool
) -> Held:
    """Read sketches of one plan, or a snapshot.

    Parameters
    ----------
    is_exact
        Whether plain sums are without noise; sketch files say so themselves.

    Raises
    ------
    PlanMismatchError, WrongStatisticError
        A sketch is of another plan, or the plan has no Fourier features.
    ConfigError, MalformedMessageError
        The plan is missing, a file cannot be read, is there twice, or some are exact and others
        private; or the plan is one for fleets.
    TransportError
        A snapshot's sums do not fit its plan.
    """
    if isinstance(source, Snapshot):
        _ = source.plan.fourier
        return Held(plan=source.plan, is_exact=False, snapshot=source.totals, is_foreign=True)
    if isinstance(source, Release):
        held = Held(
            plan=decode_plan(source.design["plan"]),
            is_exact=False,
            is_foreign=True,
            pilot=PilotFindings.of(source.design),
        )
        held.put(source.sums, source.n_records)
        return held
    if plan is None:
        raise ConfigError("is missing", field="plan", fix="pass the plan, or its file")
    chosen = plan if isinstance(plan, SketchPlan) else read_plan(Path(plan))
    if isinstance(source, SnapshotSumsBody):
        _ = chosen.fourier
        totals = read_totals(source, chosen)
        return Held(plan=chosen, is_exact=False, snapshot=totals, is_foreign=True)
    _require_one_part(chosen)
    is_one = isinstance(source, SketchFile | str | Path) or _is_sums(source)
    given: Sequence[Sketch] = [source] if is_one else list(source)  # type: ignore[list-item,arg-type]
    sketches = [_read_sketch(each, chosen, is_exact=is_exact) for each in given]
    local = LocalSketches(sketches=sketches, plan=chosen)
    held = Held(plan=chosen, is_exact=not local.is_private, is_foreign=True)
    for sketch in sketches:
        if held.is_exact:
            held.add(
                SketchAccumulator.restore(
                    chosen.statistic_of(f"file/{STREAM}".encode()),
                    first_record=0,
                    sums=sketch.sums,
                    n_records=sketch.n_records,
                    n_unsketchable=sketch.n_unsketchable or 0,
                )
            )
        else:
            held.put(sketch.sums, sketch.n_records)
    return held


def _is_sums(source: object) -> bool:
    return (
        isinstance(source, tuple)
        and len(source) == 2
        and isinstance(source[1], int | np.integer)
        and np.ndim(source[0]) == 1
    )


def _read_sketch(given: Sketch, plan: SketchPlan, *, is_exact: bool) -> SketchFile:
    if isinstance(given, SketchFile):
        return given
    if not isinstance(given, tuple):
        return read_sketch_file(Path(given))
    sums = np.asarray(given[0])
    n_sums = plan.statistic_of(b"").n_coordinates
    if sums.dtype.kind not in "iu" or sums.shape != (n_sums,) or int(given[1]) < 1:
        raise ConfigError(
            f"must be {n_sums} whole numbers with a number of records, and are of shape "
            f"{sums.shape} and type {sums.dtype}",
            field="source",
            fix="pass (sums, n_records) of a sketch under this plan",
        )
    return make_sketch_file(plan, sums.astype(np.int64), int(given[1]), is_exact=is_exact)


def make_sketch_file(
    plan: SketchPlan, sums: Integers, n_records: int, *, is_exact: bool, n_unsketchable: int = 0
) -> SketchFile:
    """Return sums as the content of a sketch file."""
    return SketchFile(
        kind="exact.v1" if is_exact else "local.v1",
        plan_digest=compute_plan_digest(plan),
        stream=STREAM,
        n_records=n_records,
        width=plan.payload_width,
        payload=encode_payload(sums, plan.payload_width),
        n_unsketchable=n_unsketchable if is_exact else None,
    )


def _require_one_part(plan: SketchPlan) -> None:
    """Refuse plans whose sketches carry parts, or do not state their number of records."""
    _ = plan.fourier
    plan.require_single_sketches()
    if plan.is_split or plan.has_masks or plan.reports_phases or plan.hides_counts:
        raise ConfigError(
            "is for fleets of devices",
            field="plan",
            fix="pass a snapshot of such sketches, or use `sfumato decode file`",
        )
