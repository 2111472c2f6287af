"""Sketches of what speaks Arrow: data sets, DuckDB, Polars, pandas, parts on other machines."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from sfumato.analyst.sketching.objects import is_pandas, read_pandas
from sfumato.analyst.sketching.output import require_writable
from sfumato.analyst.sketching.parts import Part, add_parts
from sfumato.analyst.sketching.reader import choose_fields
from sfumato.analyst.sketching.release import (
    release_sketch,
    require_allowed,
    require_few,
    require_readable,
    require_suitable,
)
from sfumato.analyst.sketching.sketch_file import SketchFile, read_sketch_file
from sfumato.analyst.sketching.tally import TallyingStatistic
from sfumato.shared.core import Records, SketchAccumulator
from sfumato.shared.core.engines import choose_engine
from sfumato.shared.core.masks import BLOCK_RECORDS
from sfumato.shared.core.parallel import sketch_batches
from sfumato.shared.errors import ConfigError, PrivacyError, RecordError
from sfumato.shared.plan import SketchPlan, compute_plan_digest, plan_from_json
from sfumato.shared.reading import Fields
from sfumato.shared.reading.arrow import ArrowColumns, require_pyarrow
from sfumato.shared.reading.unreadable import MOST_UNREADABLE, require_few_lost
from sfumato.shared.spending import Account

_WHERE = "data set"


def sketch_dataset(
    source: Any,
    plan: SketchPlan,
    *,
    columns: Mapping[str, str] | None = None,
    output: str | Path | None = None,
    stream: str = "main",
    exact: bool = False,
    n_threads: int | None = None,
    account: Account | None = None,
    max_unreadable: float = MOST_UNREADABLE,
) -> SketchFile:
    """Sketch all records of a data set in one pass, and draw its noise once.

    Parameters
    ----------
    source
        Anything with ``__arrow_c_stream__`` (tables of pyarrow, pandas and Polars, relations of
        DuckDB), a data set of pyarrow, or batches of records, one after the other.
    columns
        The column of each dimension that is named otherwise.
    output
        A file to write. If it is there, the release was made: it is returned as it is.
    stream
        Determines the masks of a plan that has any.
    exact
        Add no noise: not private, for the holder alone.
    n_threads
        Threads that sketch; by default every core. Changes no result.
    account
        Where the owner counts what is released; None leaves the count to the caller.
    max_unreadable
        The largest share of a column that may be unreadable.

    Guarantees
    ----------
    Without ``output``, every call is a new release and costs the plan's epsilon once more.

    Raises
    ------
    ConfigError, RecordError
        The source cannot be read as the plan asks, holds more or fewer records than it allows, or
        too many unreadable values.
    BudgetExceededError
        The account's limit does not allow the release.
    """
    require_suitable(plan, stream)
    tally = TallyingStatistic(plan.statistic_of(f"file/{stream}".encode()), plan)

    def add() -> SketchAccumulator:
        with closing(_read(source, plan, columns)) as batches:
            summed = sketch_batches(
                tally,
                require_few(batches, plan, _WHERE),
                n_threads=n_threads or os.cpu_count() or 1,
                engine=choose_engine(None),
            )
        require_readable(tally, summed, plan, max_unreadable, lambda column: None, where=_WHERE)
        return summed

    return _release(add, plan, output=output, stream=stream, exact=exact, account=account)


def sum_part(
    plan: SketchPlan | bytes,
    source: Any,
    *,
    name: str,
    columns: Mapping[str, str] | None = None,
    n_threads: int = 1,
) -> Part:
    """Sum one part of a data set exactly, wherever it lies.

    Parameters
    ----------
    plan
        The plan, or its JSON.
    source
        As of :func:`sketch_dataset`; it may hold no record.
    name
        What tells the part from all others of its data set.

    Guarantees
    ----------
    A pure function of its arguments: computed twice, it gives the same part.

    Raises
    ------
    ConfigError, RecordError
        As :func:`sketch_dataset`.
    PrivacyError
        The plan has masks, which depend on how many records came before this part.
    """
    if isinstance(plan, bytes):
        plan = _read_plan(plan)
    require_suitable(plan, "main")
    if plan.has_masks:
        raise PrivacyError(
            "is less than the number of frequencies: then a record's features depend on how many "
            "records came before it, which no part knows",
            field="measurements_per_record",
            fix="make a plan without it, or sketch the data set in one process",
        )
    engine = choose_engine(None)
    tally = TallyingStatistic(plan.statistic_of(b""), plan)
    with closing(_read(source, plan, columns)) as batches:
        total = sketch_batches(
            tally, require_few(batches, plan, f"part {name}"), n_threads=n_threads, engine=engine
        )
    return Part(
        plan_digest=compute_plan_digest(plan),
        name=name,
        n_records=total.n_records,
        n_unsketchable=total.n_unsketchable,
        n_clipped=tuple(tally.n_clipped.tolist()),
        data=total.sums.astype("<i8").tobytes(),
        engine=engine.name,
    )


def release_parts(
    parts: Callable[[], Iterable[Part]],
    plan: SketchPlan,
    *,
    expected: Collection[str] | None = None,
    output: str | Path | None = None,
    exact: bool = False,
    account: Account | None = None,
) -> SketchFile:
    """Add the parts of a data set and draw its noise once.

    Parameters
    ----------
    parts
        Computes the parts; it is not called if ``output`` is there.
    expected
        The names of all parts; None where they are not known beforehand.
    output, exact, account
        As of :func:`sketch_dataset`.

    Raises
    ------
    PlanMismatchError, RecordError
        As :func:`add_parts`; or the parts hold more or fewer records than the plan allows.
    BudgetExceededError
        The account's limit does not allow the release.
    """
    require_suitable(plan, "main")

    def add() -> SketchAccumulator:
        summed = add_parts(parts(), plan, expected=expected).accumulator
        require_few_lost(
            summed.n_unsketchable, summed.n_records, most=MOST_UNREADABLE, field=_WHERE
        )
        return summed

    return _release(add, plan, output=output, stream="main", exact=exact, account=account)


def _release(
    add: Callable[[], SketchAccumulator],
    plan: SketchPlan,
    *,
    output: str | Path | None,
    stream: str,
    exact: bool,
    account: Account | None,
) -> SketchFile:
    output = None if output is None else Path(output)
    if output is not None and output.exists():
        return _read_release(output, plan, stream, exact=exact)
    if output is not None:
        require_writable(output)
    accumulator = add()
    require_allowed(accumulator.n_records, plan, _WHERE)
    return release_sketch(accumulator, plan, stream, exact=exact, account=account, output=output)[0]


def _read_release(output: Path, plan: SketchPlan, stream: str, *, exact: bool) -> SketchFile:
    sketch = read_sketch_file(output)
    sketch.require_plan(plan)
    if sketch.stream != stream or sketch.is_private == exact:
        raise ConfigError(
            "holds another release",
            field=str(output),
            fix="name the file of this release, or a new one",
        )
    return sketch


@lru_cache(maxsize=1)
def _read_plan(document: bytes) -> SketchPlan:
    """Read a plan once for all parts of a worker: to verify it takes longer than a small part."""
    return plan_from_json(json.loads(document))


def _read(
    source: Any, plan: SketchPlan, columns: Mapping[str, str] | None
) -> Generator[Records, None, None]:
    """Yield the records of a source; nothing of it is held twice."""
    arrow = require_pyarrow("pyarrow", _WHERE)
    fields = _choose_fields(plan, columns or {})
    found: ArrowColumns | None = None
    schema = None
    with _naming(arrow):
        for batch in _list_batches(source, fields, arrow):
            if found is None or not batch.schema.equals(schema):
                found, schema = ArrowColumns(fields, batch.schema, _WHERE), batch.schema
            for start in range(0, batch.num_rows, BLOCK_RECORDS):
                yield found.make_table(batch.slice(start, BLOCK_RECORDS)).values


def _choose_fields(plan: SketchPlan, columns: Mapping[str, str]) -> Fields:
    names = [dimension.name for dimension in plan.dimensions]
    for name in columns:
        if name not in names:
            raise ConfigError(
                f"names no dimension of the plan by {name!r}",
                field="columns",
                fix=f"the plan's dimensions are {', '.join(names)}",
            )
    options = [f"{dimension}={column}" for dimension, column in columns.items()]
    return replace(
        choose_fields(plan.dimensions, options),
        advice="name the column in `columns`, or rename it",
    )


def _list_batches(source: Any, fields: Fields, arrow: Any) -> Iterator[Any]:
    """Yield the batches of whatever a source is."""
    datasets = require_pyarrow("pyarrow.dataset", _WHERE)
    if isinstance(source, arrow.RecordBatch):
        yield source
    elif isinstance(source, datasets.Dataset):
        known = [name for name in dict.fromkeys(fields.names) if name in source.schema.names]
        _require_typed(source)
        _require_one_schema(source, known, arrow)
        # Read little ahead: the default holds hundreds of megabytes.
        yield from source.to_batches(columns=known, batch_readahead=2, fragment_readahead=1)
    elif is_pandas(source):
        yield from read_pandas(source, fields, arrow, _WHERE).to_batches()
    elif hasattr(source, "__arrow_c_stream__"):
        yield from arrow.RecordBatchReader.from_stream(source)
    elif isinstance(source, Iterable) and not isinstance(source, str | bytes):
        for piece in source:
            yield from _list_batches(piece, fields, arrow)
    else:
        raise ConfigError(
            f"is a {type(source).__name__}, which gives no batches of Arrow",
            field=_WHERE,
            fix="pass a table, a data set of pyarrow, or batches; of a Polars LazyFrame its "
            "`collect_batches()`, of a file's name what `sfumato sketch` reads",
        )


def _require_typed(dataset: Any) -> None:
    """Refuse files of text: their types, and whether they can be read, follow from all values."""
    for child in getattr(dataset, "children", ()):
        _require_typed(child)
    name = getattr(getattr(dataset, "format", None), "default_extname", None)
    if name in ("csv", "json"):
        raise ConfigError(
            f"holds files of {name.upper()}, where one value can have all others read otherwise, "
            "or refused",
            field=_WHERE,
            fix="use `sfumato sketch`, which reads each line by itself, or convert it to Parquet",
        )


def _require_one_schema(dataset: Any, names: Iterable[str], arrow: Any) -> None:
    """Refuse files of another type than the data set's: one value can make its conversion fail."""
    try:
        fragments = list(dataset.get_fragments())
    except ValueError:
        return  # a query of the caller's, which knows no files
    for fragment in fragments:
        types = {field.name: field.type for field in fragment.physical_schema}
        for name in names:
            found, wanted = types.get(name), dataset.schema.field(name).type
            if found is None or found == wanted or _is_always_cast(found, wanted, arrow.types):
                continue
            raise ConfigError(
                f"holds {found} in one file, and {wanted} in the data set",
                field=name,
                fix="write all files with one schema, or sketch them as parts",
            )


def _is_always_cast(found: Any, wanted: Any, types: Any) -> bool:
    if types.is_null(found):
        return True
    is_wider = types.is_floating(found) and types.is_floating(wanted)
    return is_wider and bool(found.bit_width <= wanted.bit_width)


@contextmanager
def _naming(arrow: Any) -> Iterator[None]:
    try:
        yield
    except (arrow.ArrowException, OSError):
        # Without the words of pyarrow, which may quote a record, and which a trace would show.
        raise RecordError(
            "cannot be read", field=_WHERE, fix="read it with pyarrow alone, and correct it"
        ) from None
