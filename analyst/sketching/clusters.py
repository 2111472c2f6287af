"""Sketches of tables on a cluster: the plan for the workers, the sums that they return.

Each task sums one partition exactly and hands the sum back as its result: the engine keeps one
result for each task, so a task that runs twice is counted once. Noise is drawn once, by the caller.

The caller and the workers see exact sums. Trust them as you trust the cluster that holds the
records.
"""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from sfumato.analyst.sketching.datasets import sum_part
from sfumato.analyst.sketching.parts import Part
from sfumato.shared.plan import SketchPlan, plan_to_json

TRUST = (
    "The process that asks for the sketch and the workers of the cluster see exact sums; trust "
    "them as you trust the cluster that holds the records."
)


def encode_plan_for_workers(plan: SketchPlan) -> bytes:
    """Return the plan as what :func:`sum_part` takes."""
    return json.dumps(plan_to_json(plan)).encode()


def list_columns(plan: SketchPlan, columns: Mapping[str, str] | None) -> list[str]:
    """Return the columns that the plan needs, each once."""
    names = [(columns or {}).get(each.name, each.name) for each in plan.dimensions]
    return list(dict.fromkeys(names))


def sum_encoded(
    document: bytes, source: Any, name: str, columns: Mapping[str, str] | None
) -> bytes:
    """Sum a partition on a worker."""
    return sum_part(document, source, name=name, columns=columns).encode()


def watch(parts: Iterable[Part]) -> Iterator[Part]:
    """Pass parts on; print the statement of trust, and warn of workers without the kernel."""
    sys.stderr.write(f"{TRUST}\n")
    slow = 0
    for part in parts:
        slow += part.engine == "numpy"
        yield part
    if slow:
        warnings.warn(
            f"{slow} part(s) were summed without the compiled kernel, which is much slower; "
            "install a wheel of Sfumato on every worker",
            stacklevel=2,
        )
