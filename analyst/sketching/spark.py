"""Sketches of data frames of Spark; see ``clusters`` for whom to trust, and for repeated tasks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow
from pyspark import TaskContext

from sfumato.analyst.sketching.clusters import (
    encode_plan_for_workers,
    list_columns,
    sum_encoded,
    watch,
)
from sfumato.analyst.sketching.datasets import release_parts
from sfumato.analyst.sketching.parts import Part
from sfumato.analyst.sketching.sketch_file import SketchFile
from sfumato.shared.errors import RecordError
from sfumato.shared.plan import SketchPlan
from sfumato.shared.spending import Account


def sketch_spark(
    frame: Any,
    plan: SketchPlan,
    *,
    columns: Mapping[str, str] | None = None,
    output: str | Path | None = None,
    exact: bool = False,
    account: Account | None = None,
) -> SketchFile:
    """Sketch a data frame of Spark, a partition a task, and draw its noise once.

    Every worker needs Sfumato and pyarrow, of the caller's versions.

    Parameters
    ----------
    frame
        A data frame of Spark. A source that gives other records when it is read again, such as a
        sample without a seed, gives other sums, and never a part twice. But a record that it puts
        in two partitions spends twice.
    columns, output, exact, account
        As of :func:`sketch_dataset`.

    Raises
    ------
    ConfigError, PlanMismatchError, PrivacyError, RecordError, BudgetExceededError
        As :func:`sum_part` and :func:`release_parts`.
    """

    def compute() -> Iterator[Part]:
        document = encode_plan_for_workers(plan)

        def work(batches: Iterable[Any]) -> Iterator[Any]:
            context = TaskContext.get()
            assert context is not None
            part = sum_encoded(document, batches, str(context.partitionId()), columns)
            yield pyarrow.RecordBatch.from_pydict({"part": [part]})

        chosen = frame.select(*list_columns(plan, columns))
        for row in chosen.mapInArrow(work, "part binary").collect():
            yield Part.decode(bytes(row.part))

    def add() -> Iterator[Part]:
        return _require_no_gap(watch(compute()))

    return release_parts(add, plan, output=output, exact=exact, account=account)


def _require_no_gap(parts: Iterable[Part]) -> Iterator[Part]:
    """Let the parts of Spark pass; their numbers must be 0, 1, 2, ... without a gap."""
    names: set[str] = set()
    for part in parts:
        names.add(part.name)
        yield part
    for number in range(len(names)):
        if str(number) not in names:
            raise RecordError("is missing", field=f"part {number}", fix="run the job again")
