"""Sketches of data frames of Dask; see ``clusters`` for whom to trust, and for repeated tasks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import dask

from sfumato.analyst.sketching.clusters import (
    encode_plan_for_workers,
    list_columns,
    sum_encoded,
    watch,
)
from sfumato.analyst.sketching.datasets import release_parts
from sfumato.analyst.sketching.parts import Part
from sfumato.analyst.sketching.sketch_file import SketchFile
from sfumato.shared.plan import SketchPlan
from sfumato.shared.spending import Account

_MOST_AT_ONCE = 1000


def sketch_dask(
    frame: Any,
    plan: SketchPlan,
    *,
    columns: Mapping[str, str] | None = None,
    output: str | Path | None = None,
    exact: bool = False,
    account: Account | None = None,
) -> SketchFile:
    """Sketch a data frame of Dask, a partition a task, and draw its noise once.

    With worker processes the script needs ``if __name__ == "__main__":``, as Dask says.

    Parameters
    ----------
    frame
        A data frame of Dask. Its partitions must be the same whenever they are computed: a record
        in two of them would spend twice.
    columns, output, exact, account
        As of :func:`sketch_dataset`.

    Raises
    ------
    ConfigError, PlanMismatchError, PrivacyError, RecordError, BudgetExceededError
        As :func:`sum_part` and :func:`release_parts`.
    """

    def compute() -> Iterator[Part]:
        document = encode_plan_for_workers(plan)
        found = frame[list_columns(plan, columns)].to_delayed()
        sums = [
            dask.delayed(sum_encoded, pure=True)(document, partition, str(number), columns)
            for number, partition in enumerate(found)
        ]
        for start in range(0, len(sums), _MOST_AT_ONCE):
            yield from map(Part.decode, dask.compute(*sums[start : start + _MOST_AT_ONCE]))

    names = [str(number) for number in range(frame.npartitions)]
    return release_parts(
        lambda: watch(compute()),
        plan,
        expected=names,
        output=output,
        exact=exact,
        account=account,
    )
