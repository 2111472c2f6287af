"""Output of `sfumato sketch`: a sketch file, and how it was made, in JSON and in words."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sfumato.analyst.results.promises import NOT_PRIVATE
from sfumato.analyst.sketching.release import Summed
from sfumato.analyst.sketching.sketch_file import SketchFile
from sfumato.shared.plan import SketchPlan, make_statement
from sfumato.shared.plan.people import show_level
from sfumato.shared.spending import Spent


@dataclass(frozen=True, kw_only=True)
class Report:
    """A sketch that was made from a file.

    Parameters
    ----------
    source, output
        File of records; file of the sketch.
    sketch, summed, plan
        The sketch, the sum that it was made from, and their plan.
    ledger
        Name of the ledger that counts the release; None if nothing was released.
    counted
        What all releases of these records in it have cost.
    """

    source: Path
    output: Path
    sketch: SketchFile
    summed: Summed
    plan: SketchPlan
    ledger: str | None
    counted: Spent | None

    @property
    def _clipped(self) -> Iterator[tuple[str, int]]:
        counts = self.summed.n_clipped.tolist()
        return zip((d.name for d in self.plan.dimensions), counts, strict=True)

    @property
    def _records_per_second(self) -> float:
        return self.sketch.n_records / max(self.summed.seconds, 1e-9)

    def to_json(self) -> dict[str, Any]:
        """Return the report as JSON values."""
        summed = self.summed
        return {
            "file": str(self.source),
            "bytes": summed.n_bytes,
            "output": str(self.output),
            **sketch_to_json(self.sketch, self.plan),
            "spent": self._describe_spending(),
            "ledger": self.ledger,
            "n_releases": None if self.counted is None else self.counted.n_releases,
            # Exact counts that depend on the records: never part of a private file.
            "for_the_holder_only": {
                "n_unsketchable": summed.accumulator.n_unsketchable,
                "n_clipped": dict(self._clipped),
            },
            "seconds": summed.seconds,
            "records_per_second": self._records_per_second,
            "engine": summed.engine,
            "threads": summed.n_threads,
        }

    def describe(self) -> Iterator[tuple[str, str]]:
        """Yield names and descriptions."""
        summed, sketch = self.summed, self.sketch
        n = sketch.n_records
        outside = ", ".join(f"{name} {count / n:.2%}" for name, count in self._clipped if count)
        yield "sketched", f"{self.source}: {n:,} records, {summed.n_bytes:,} bytes"
        yield "wrote", f"{self.output}: {len(sketch.payload):,} bytes of coordinates"
        yield "plan", sketch.plan_digest.hex()
        yield "speed", f"{summed.seconds:.2f} s, {self._records_per_second:,.0f} records a second"
        yield "engine", f"{summed.engine}, {summed.n_threads} threads"
        n_lost = summed.accumulator.n_unsketchable
        yield "unsketchable", f"{n_lost:,} records (only you see this)"
        yield (
            "clipped",
            f"values outside the plan's bounds: {outside or 'none'} (only you see this)",
        )
        yield "protects", _describe_privacy(sketch, self.plan)
        yield "spent", self._describe_spending()
        yield "next", self._describe_next()

    def _describe_spending(self) -> str:
        if not self.sketch.is_private:
            return "nothing: no noise was drawn"
        release = self.plan.release
        level = show_level(release.epsilon, release.delta)
        cost = f"{level} under {release.neighbouring} for each record"
        total = "" if self.counted is None else f": {self.counted.describe()}"
        return f"{cost}, counted in {self.ledger}{total}"

    def _describe_next(self) -> str:
        if not self.sketch.is_private:
            return f"keep {self.output} with the records; without --exact the sketch is private"
        return (
            f"give {self.output} and the plan to the analyst, who reads it with `sfumato sketch "
            "show`. Do not sketch these records again: each further sketch of them costs the "
            "plan's epsilon once more"
        )


def sketch_to_json(sketch: SketchFile, plan: SketchPlan | None) -> dict[str, Any]:
    """Return the content of a sketch file, except its coordinates, as JSON values."""
    document: dict[str, Any] = {
        "kind": sketch.kind,
        "is_private": sketch.is_private,
        "plan_digest": sketch.plan_digest.hex(),
        "stream": sketch.stream,
        "n_records": sketch.n_records,
        "n_coordinates": len(sketch.payload) // sketch.width,
        "width": sketch.width,
        "payload_bytes": len(sketch.payload),
        "payload_sha256": sketch.payload_digest.hex(),
        "privacy": _describe_privacy(sketch, plan),
    }
    if sketch.n_unsketchable is not None:
        document["for_the_holder_only"] = {"n_unsketchable": sketch.n_unsketchable}
    return document


def describe_sketch(
    path: Path, sketch: SketchFile, plan: SketchPlan | None
) -> Iterator[tuple[str, str]]:
    """Yield names and descriptions of the content of a sketch file."""
    n_coordinates = len(sketch.payload) // sketch.width
    yield "file", f"{path}: undamaged"
    yield "kind", f"{sketch.kind}, {'with' if sketch.is_private else 'WITHOUT'} noise"
    yield "plan", f"{sketch.plan_digest.hex()}{'' if plan is None else ', the one named'}"
    yield "stream", sketch.stream
    yield "records", f"{sketch.n_records:,}"
    if sketch.n_unsketchable is not None:
        yield "unsketchable", f"{sketch.n_unsketchable:,} records"
    yield "payload", f"{n_coordinates:,} coordinates of {sketch.width} bytes"
    yield "SHA-256", sketch.payload_digest.hex()
    yield "protects", _describe_privacy(sketch, plan)


def _describe_privacy(sketch: SketchFile, plan: SketchPlan | None) -> str:
    if not sketch.is_private:
        return NOT_PRIVATE
    return (
        "unknown without the plan: pass --plan" if plan is None else make_statement(plan).describe()
    )
