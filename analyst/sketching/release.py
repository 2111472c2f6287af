"""The sketch of a file of records: read, sum, draw noise once."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from sfumato.analyst.sketching.output import write_once
from sfumato.analyst.sketching.reader import RecordReader, spell_unreadable
from sfumato.analyst.sketching.sketch_file import SketchFile, encode_sketch_file
from sfumato.analyst.sketching.tally import TallyingStatistic
from sfumato.shared.arrays import Integers
from sfumato.shared.core import Records, SketchAccumulator
from sfumato.shared.core.engines import SketchEngine
from sfumato.shared.core.parallel import sketch_batches
from sfumato.shared.errors import ConfigError, PrivacyError, RecordError
from sfumato.shared.plan import SketchPlan, compute_plan_digest, make_event
from sfumato.shared.reading import Fields, FileLayout, WatchedFile
from sfumato.shared.reading.layout import PLAIN_TEXT
from sfumato.shared.reading.unreadable import MOST_UNREADABLE, UnreadableError, find_unreadable
from sfumato.shared.spending import Account, Spent, Turn, take_turn
from sfumato.shared.system import SystemSource
from sfumato.shared.wire import STREAM_NAME_RULE, encode_payload, is_stream_name

Progress = Callable[[int, RecordReader], None]
_UNCOUNTED = Turn()


@dataclass(frozen=True, kw_only=True, eq=False)
class Summed:
    """The exact sum of a file, with counts that only its holder may know.

    Parameters
    ----------
    accumulator
        The sum and its counts.
    n_clipped
        Shape ``(d,)``: values of each dimension outside the plan's bounds.
    n_bytes, seconds
        Size of the file; time for reading and summing.
    engine, n_threads
        Name of the engine; number of threads.
    """

    accumulator: SketchAccumulator
    n_clipped: Integers
    n_bytes: int
    seconds: float
    engine: str
    n_threads: int


def sum_file(
    path: Path,
    plan: SketchPlan,
    fields: Fields,
    *,
    layout: FileLayout = PLAIN_TEXT,
    stream: str,
    engine: SketchEngine,
    n_threads: int,
    most_unreadable: float = MOST_UNREADABLE,
    on_progress: Progress | None = None,
    on_open: Callable[[RecordReader, int], None] | None = None,
) -> Summed:
    """Sum the features of all records of a file, in memory that does not grow with it.

    Parameters
    ----------
    fields
        Which field holds each dimension.
    layout
        How the lines of a text file are laid out.
    stream
        Name that determines the masks, if the plan has any.
    most_unreadable
        The largest share of a column that may be unreadable; see ``find_unreadable``.
    on_progress
        Called with the number of records summed and the reader.
    on_open
        Called once with the reader and the size of the file.

    Raises
    ------
    ConfigError, RecordError
        The file cannot be read as the plan asks, changes meanwhile, holds fewer or more records
        than one sketch of the plan may, or too many unreadable values.
    """
    require_suitable(plan, stream)
    tally = TallyingStatistic(plan.statistic_of(f"file/{stream}".encode()), plan)
    with WatchedFile(path) as file:
        start = time.monotonic()
        reader = RecordReader(file, fields, layout)
        if reader.n_records is not None:
            require_allowed(reader.n_records, plan, str(path))
        if on_open is not None:
            on_open(reader, file.size)
        with closing(reader.batches(n_threads)) as batches:
            accumulator = sketch_batches(
                tally,
                require_few(batches, plan, str(path)),
                n_threads=n_threads,
                engine=engine,
                on_progress=(lambda n: on_progress(n, reader)) if on_progress else None,
            )
        file.require_unchanged()
        require_allowed(accumulator.n_records, plan, str(path))
        require_readable(
            tally,
            accumulator,
            plan,
            most_unreadable,
            lambda column: spell_unreadable(path, fields, column, layout),
            where=str(path),
        )
        return Summed(
            accumulator=accumulator,
            n_clipped=tally.n_clipped,
            n_bytes=file.size,
            seconds=time.monotonic() - start,
            engine=engine.name,
            n_threads=n_threads,
        )


def require_readable(
    tally: TallyingStatistic,
    accumulator: SketchAccumulator,
    plan: SketchPlan,
    most: float,
    spell: Callable[[int], str | None],
    *,
    where: str,
) -> None:
    """Refuse records of which too many values cannot be read, before anything is spent.

    The refusal tells of the records, and is for their owner alone.

    Parameters
    ----------
    tally, accumulator
        What was counted and summed.
    most
        As of ``find_unreadable``.
    spell
        Gives an unreadable text of a column, if it is known.

    Raises
    ------
    RecordError
        They are too many.
    """
    # Where a public value stands for missing ones, many may be missing.
    filled = [dimension.missing is not None for dimension in plan.dimensions]
    found = find_unreadable(
        np.where(filled, 0, tally.n_unreadable).tolist(),
        accumulator.n_records,
        n_lost=accumulator.n_unsketchable,
        most=most,
    )
    if found is not None:
        names = [dimension.name for dimension in plan.dimensions]
        raise UnreadableError(found, names, text=spell(found.column), field=where)


def draw_sums(plan: SketchPlan, summed: SketchAccumulator) -> Integers:
    """Return the sum with noise of the system's randomness: shape ``(D,)``, int64."""
    return plan.draw_release(summed.sums, summed.n_records, SystemSource())


def release_sketch(
    accumulator: SketchAccumulator,
    plan: SketchPlan,
    stream: str,
    *,
    exact: bool,
    account: Account | None,
    output: Path | None,
) -> tuple[SketchFile, Spent | None]:
    """Count a sketch, draw its noise, and write its file, once however the program ends.

    Parameters
    ----------
    accumulator, plan, stream, exact
        As of :func:`make_sketch`.
    account
        Where the owner counts what is released; None leaves the count to the caller.
    output
        A file to write.

    Returns
    -------
    tuple
        The sketch; and what all counted releases of these records have cost, if they are counted.

    Raises
    ------
    BudgetExceededError
        The account's limit does not allow the release.
    ConfigError, StoreError
        The ledger or the file cannot be written; a release that was drawn is kept beside the ledger
        until the same call succeeds.
    """
    named = {
        "sketch": compute_plan_digest(plan),
        "stream": stream,
        "n_records": accumulator.n_records,
    }
    with take_turn(named, None if exact else account) as turn:
        sketch = make_sketch(accumulator, plan, stream, exact=exact, turn=turn)
        if output is not None:
            write_once(output, encode_sketch_file(sketch))
        turn.show()
        return sketch, turn.sum_up()


def make_sketch(
    accumulator: SketchAccumulator,
    plan: SketchPlan,
    stream: str,
    *,
    exact: bool,
    turn: Turn = _UNCOUNTED,
) -> SketchFile:
    """Draw the noise of the plan's mechanism and return the private sketch.

    Parameters
    ----------
    accumulator
        The exact sum of a number of records that the plan allows.
    exact
        Add no noise: the sum itself, for the holder of the records alone.
    turn
        Counts the release, and gives it anew if an earlier program was cut off.

    Guarantees
    ----------
    Unless ``exact`` or resumed, every call is a new release and costs the plan's epsilon once more.

    Raises
    ------
    BudgetExceededError
        The owner's ledger does not allow it; nothing was drawn.
    """
    sums = accumulator.sums
    if not exact:
        turn.reserve(make_event(plan, stream=stream, study=compute_plan_digest(plan)))
        sums = turn.draw(lambda: draw_sums(plan, accumulator))
    return SketchFile(
        kind="exact.v1" if exact else "local.v1",
        plan_digest=compute_plan_digest(plan),
        stream=stream,
        n_records=accumulator.n_records,
        width=plan.payload_width,
        payload=encode_payload(sums, plan.payload_width),
        n_unsketchable=accumulator.n_unsketchable if exact else None,
    )


def require_suitable(plan: SketchPlan, stream: str) -> None:
    """Refuse a plan or a stream name that does not suit the sketch of a file.

    Raises
    ------
    ConfigError, PlanError, PrivacyError
        The name breaks its rule; the plan has a secure sum, keeps the number of records secret,
        protects all records of a device together, or leaves records out by their times; or its
        sketches carry only some of what is summed.
    """
    if not is_stream_name(stream):
        raise ConfigError(STREAM_NAME_RULE, field="--stream", fix='such as "main"')
    plan.require_single_sketches()
    if plan.protects_devices:
        raise PrivacyError(
            "is a device: the records of a file belong to many people, or to many windows",
            field="unit",
            fix='make a plan with unit = "record" for a file, or let a device read it',
        )
    if plan.releases_count:
        raise PrivacyError(
            "keeps the number of records secret, but the sketch of a file reveals it",
            field="neighbouring",
            fix="use a plan under replace-one, or a device",
        )
    if plan.is_bounded:
        raise PrivacyError(
            f"is {plan.late_rule}, but no times of a file are read here",
            field="late_rule",
            fix="let a device read the file, or make a plan without it (`sfumato plan pilot "
            "--same-records`)",
        )
    if plan.is_split:
        carried, of = plan.blocks.frequencies_per_sketch, plan.blocks.n_frequencies
        parts = "dimensions" if plan.kind == "histogram" else "frequencies"
        raise ConfigError(
            f"is {carried}: a single sketch would hold so many of {of} {parts}, which is for "
            "fleets of devices",
            field=f"{parts}_per_sketch",
            fix="make a plan without it for a file",
        )


def require_few(
    batches: Iterable[Records], plan: SketchPlan, where: str
) -> Generator[Records, None, None]:
    """Pass batches on; refuse a source that is too long before all of it is read."""
    n_records = 0
    for batch in batches:
        n_records += len(batch)
        if n_records > plan.most_records:
            raise _refuse_many(plan, where)
        yield batch


def require_allowed(n_records: int, plan: SketchPlan, where: str) -> None:
    """Refuse more or fewer records than one sketch of the plan may hold."""
    if n_records > plan.most_records:
        raise _refuse_many(plan, where)
    if n_records < plan.least_records:
        raise RecordError(
            f"holds {n_records} records, fewer than the plan's least_records = "
            f"{plan.least_records}",
            field=where,
            fix="sketch more records together, or use a plan that allows fewer",
        )


def _refuse_many(plan: SketchPlan, where: str) -> RecordError:
    return RecordError(
        f"holds more records than the plan's most_records = {plan.most_records}",
        field=where,
        fix="use a plan that allows more, or split the source: each record may be in one part only",
    )
