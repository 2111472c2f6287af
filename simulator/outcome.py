"""The outcome of a simulation: what an analyst would get, beside k-means on the same records."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sfumato.aggregator.base.sums.selection import SketchTotals
from sfumato.analyst.results import DecodeResult
from sfumato.learning.decoding.kmeans import cluster, measure_inertia
from sfumato.learning.decoding.registry import create_solver, default_solver
from sfumato.learning.decoding.solution import Solution
from sfumato.learning.decoding.solver import Monitor
from sfumato.learning.estimate.counts import count_records, put_count, require_clear
from sfumato.learning.estimate.problem import pose_problem
from sfumato.learning.estimate.utility import Utility, estimate_utility
from sfumato.learning.estimate.weights import SIZE_WEIGHTS
from sfumato.shared.arrays import Floats
from sfumato.shared.core import Columns
from sfumato.shared.plan import SketchPlan, make_statement
from sfumato.simulator.fleet import Tally
from sfumato.simulator.records import FleetRecords

_COMPARED = 200_000
"""Records that the result is compared on; more would not change the figure."""
_RESTARTS = 10


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What a fleet sent, what was recovered from it, and how good that is.

    Parameters
    ----------
    plan, tally, utility, solution
        The plan; what the server received; the global sketch; and the decoder's answer.
    relative_sse
        SSE of the centroids over that of k-means on the raw records, in units of the scales.
    n_records, compared
        Records of all devices; and those that the SSE was computed on, shape ``(n, d)``, data
        units, clipped to the plan's box.
    sketch_seconds, decode_seconds
        Wall time of all devices and checks, and of the decoder.
    """

    plan: SketchPlan
    tally: Tally
    utility: Utility
    solution: Solution
    relative_sse: float
    n_records: int
    compared: Floats
    sketch_seconds: float
    decode_seconds: float

    @property
    def centroids(self) -> Floats:
        """Centroids in data units: shape ``(k, d')``; shares of the levels of a category."""
        return self.plan.space.encoder.decode(self.solution.centroids)

    @property
    def result(self) -> DecodeResult:
        """The answer as an analyst reads it, without the identities that a server gives."""
        return DecodeResult.of_solution(
            self.plan, self.solution, snr=self.utility.snr, seconds=self.decode_seconds
        )

    def to_json(self) -> dict[str, Any]:
        """Return JSON values."""
        tally, utility, verdict = self.tally, self.utility, self.solution.verdict
        return {
            "verdict": None if verdict is None else verdict.word,
            "reason": None if verdict is None else verdict.sentence,
            "relative_sse": self.relative_sse,
            "devices": tally.n_devices,
            "records": self.n_records,
            "records_compared": len(self.compared),
            "sketches": tally.n_sketches,
            "refused": tally.refusals,
            "payload_bytes": tally.payload_bytes,
            "message_bytes": tally.message_bytes,
            "batches": tally.n_batches,
            "noises": self.plan.n_noises * (tally.n_batches or tally.n_sketches),
            "epsilon": str(self.plan.release.epsilon),
            "delta": str(self.plan.release.delta),
            "snr": utility.snr,
            "signal_energy": utility.signal_energy,
            "frequencies_covered": utility.n_covered,
            "weights": self.solution.weights.tolist(),
            "centroids": self.centroids.tolist(),
            "warnings": list(self.solution.warnings),
            "sketch_seconds": self.sketch_seconds,
            "decode_seconds": self.decode_seconds,
        }

    def describe(self) -> Iterator[tuple[str, str]]:
        """Yield names and descriptions; doubt comes first."""
        tally, verdict, n = self.tally, self.solution.verdict, max(1, self.tally.n_sketches)
        if verdict is not None:
            yield "verdict", f"{verdict.word}: {verdict.sentence}"
        yield from (("warning", warning) for warning in self.solution.warnings)
        yield from (("refused", f"{count:,} x {what}") for what, count in tally.refusals.items())
        yield (
            "quality",
            f"SSE {self.relative_sse:.3f} times that of k-means on the raw records "
            f"({len(self.compared):,} of them, in units of the scales); only a simulation can "
            "know this",
        )
        yield (
            "devices",
            f"{tally.n_devices:,} with {self.n_records:,} records; {tally.n_sketches:,} sketches "
            f"accepted, of {tally.payload_bytes / n:.6g} bytes, {tally.message_bytes / n:.0f} with "
            "header and signature",
        )
        if tally.n_batches:
            yield (
                "batches",
                f"{tally.n_batches:,} opened, each with a noise of both servers: "
                f"{self.plan.n_noises * tally.n_batches:,} draws for {tally.n_sketches:,} masked "
                "sums",
            )
        yield (
            "global sketch",
            f"SNR {self.utility.snr:.3g}; {self.utility.n_covered:,} of "
            f"{self.plan.n_frequencies:,} frequencies carried",
        )
        yield "guarantee", make_statement(self.plan).guarantee
        rate = tally.n_sketches / max(self.sketch_seconds, 1e-9)
        yield (
            "time",
            f"{self.sketch_seconds:.1f} s for devices and checks ({rate:,.0f} sketches a second), "
            f"{self.decode_seconds:.1f} s for the decoder",
        )


def decode_fleet(
    plan: SketchPlan,
    records: FleetRecords,
    tally: Tally,
    totals: SketchTotals,
    *,
    n_clusters: int,
    seed: int,
    sketch_seconds: float,
    progress: Callable[[float], None] | None = None,
) -> Outcome:
    """Decode what a fleet sent, as the server does, and compare it with the raw records.

    Raises
    ------
    ConfigError, DecodingError
        Too few records, or the number of clusters does not suit the sketch.
    """
    start = time.monotonic()
    utility, solution = recover_centroids(
        plan, totals, n_clusters=n_clusters, seed=seed, progress=progress
    )
    seconds = time.monotonic() - start
    shown: Floats = np.clip(take_sample(plan, records, tally.n_devices), *find_box(plan))
    points, centroids = shown / plan.scale, solution.centroids / plan.scale
    reference = find_reference(points, [centroids], seed)
    return Outcome(
        plan=plan,
        tally=tally,
        utility=utility,
        solution=solution,
        relative_sse=measure_inertia(points, centroids) / reference if reference else math.inf,
        n_records=tally.n_devices * records.n_records,
        compared=plan.space.encoder.decode(shown),
        sketch_seconds=sketch_seconds,
        decode_seconds=seconds,
    )


def recover_centroids(
    plan: SketchPlan,
    totals: SketchTotals,
    *,
    n_clusters: int,
    seed: int,
    progress: Callable[[float], None] | None = None,
) -> tuple[Utility, Solution]:
    """Decode the sums of a fleet, as the server does; raises as :func:`decode_fleet`."""
    count = count_records(plan, totals)
    require_clear(count)
    utility = estimate_utility(plan, totals, count, SIZE_WEIGHTS)
    problem = pose_problem(
        plan,
        put_count(totals, count),
        SIZE_WEIGHTS,
        signal_energy=utility.signal_energy,
        n_clusters=n_clusters,
    )
    solver = create_solver(default_solver)
    return utility, solver.solve(problem, rng=np.random.default_rng(seed), progress=progress)


def find_box(plan: SketchPlan) -> tuple[Floats, Floats]:
    """Return the lower and the upper bounds of a plan on its axes: shapes ``(d',)``."""
    lower, upper = zip(*((axis.lower, axis.upper) for axis in plan.axes), strict=True)
    return np.array(lower), np.array(upper)


def take_sample(plan: SketchPlan, records: FleetRecords, n_devices: int) -> Floats:
    """Return complete records to compare on: those of devices spread over the fleet.

    Returns
    -------
    NDArray
        Shape ``(n, d')``, on the axes of the plan, not clipped.
    """
    wanted = max(1, min(n_devices, _COMPARED // records.n_records))
    step = max(1, n_devices // wanted)
    found = np.concatenate([records.load(i, i + 1)[0] for i in range(0, n_devices, step)])
    encoded = plan.space.encoder.encode(found)
    points = encoded.to_array() if isinstance(encoded, Columns) else encoded.astype(np.float64)
    complete: Floats = points[np.isfinite(points).all(axis=1)]
    return complete


def find_reference(points: Floats, starts: Sequence[Floats], seed: int) -> float:
    """Return the SSE of the best k-means, also started from other centroids; in their units."""
    found = cluster(
        points,
        starts,
        n_restarts=_RESTARTS,
        rng=np.random.default_rng(seed),
        monitor=Monitor(),
    )
    return measure_inertia(points, found.centroids)
