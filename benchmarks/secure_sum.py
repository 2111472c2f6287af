"""Secure sums: sizes, times, exactness, and quality beside noise by each device and by one curator.

Run as ``python -m benchmarks.secure_sum [--quick] [--json]``. *Quality*: 10,000
devices with one record each at epsilon 1, on round mixtures (d = 4, k = 5, another for each seed)
and on the demo's hourly weather. All ways of adding noise see the same records, each with the m and
the law that the planner chooses for it; the noise of a way is so many independent draws of the
mechanism. *Device*: the agent's code from the exact sum of one record to the signed message, at m =
1000. *Helper*: its code and database, from 1,024 signed headers a request to the answer; CPU time,
so that other load does not matter. *Opened*: batches through leader's and helper's real processes
over HTTP, with enrolment and signatures of every device, compared with the sum of all records that
the fleet knows.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks.datasets import Dataset, Mixture, RealData
from benchmarks.designs import TARGET_SSE, recover
from benchmarks.reference import KMEANS, measure_ratio
from benchmarks.runner import Bench, Case, Figure, Row, measure_cases, run
from benchmarks.secure_sum_servers import (
    NAME,
    measure_device,
    measure_helper,
    measure_opened,
)
from sfumato.learning.planning.candidates import Candidate, choose_candidate
from sfumato.learning.planning.outline import StudyOutline
from sfumato.learning.planning.planner import advise

_DEVICES = 10_000
_EPSILON = Fraction(1)
_WAYS = {"sum.v1": 2, "one curator": 1, "local.v1": _DEVICES}
"""Ways of adding noise, with their draws of the mechanism."""


def measure(bench: Bench) -> Iterator[Row]:
    """Yield the rows of the requested parts; fewer seeds and reports if ``bench.quick``."""
    for part, each in (
        ("device", measure_device),
        ("helper", measure_helper),
    ):
        if bench.includes(part):
            yield from each(bench.quick)
    yield from measure_cases(NAME, bench, list_cases())
    if bench.includes("opened"):
        with tempfile.TemporaryDirectory(prefix="sfumato-secure-sum-") as folder:
            n_reports = 1000 if bench.quick else 100_000
            yield from measure_opened(Path(folder), n_reports=n_reports)


Judged = tuple[float, Candidate, int]


def list_cases() -> Iterator[Case[Dataset, Judged]]:
    """List the records, each with every way of adding noise."""
    mixture = Mixture(n_dimensions=4, n_clusters=5, n_records=_DEVICES)
    for case, source in (("round mixtures", mixture), ("weather", RealData(name="weather"))):
        yield Case(
            name=f"quality: {case}, {_DEVICES:,} devices, eps {_EPSILON},",
            load=lambda seed, source=source: deal(source.load(seed), seed),  # type: ignore[misc]
            methods={way: partial(_judge, n, choose_design(n)) for way, n in _WAYS.items()},
            summarise=_summarise,
            runs=5,
            quick_runs=2,
        )


def _judge(n_noises: int, chosen: Candidate, dataset: Dataset, seed: int) -> Judged:
    found = recover(dataset, chosen, seed, n_sketches=n_noises)
    return measure_ratio(dataset, found.centroids), chosen, n_noises


def _summarise(found: Sequence[Judged]) -> Iterator[Figure]:
    ratios = [ratio for ratio, _, _ in found]
    yield "median_relative_sse", np.median(ratios), "1", KMEANS
    yield "worst_relative_sse", max(ratios), "1", KMEANS
    yield "n_frequencies", found[0][1].n_frequencies
    yield "noises", found[0][2]


def choose_design(n_noises: int, epsilon: Fraction = _EPSILON) -> Candidate:
    """Choose m and the law for so many draws of noise, where each report carries all features."""
    outline = StudyOutline(
        n_records=_DEVICES,
        n_sketches=_DEVICES,
        n_dimensions=4,
        n_clusters=5,
        n_noises=n_noises,
    )
    advice = advise(outline, epsilon=epsilon, target_sse=TARGET_SSE)
    knorm = [each for each in advice.candidates if each.mechanism == "discrete-knorm"]
    return choose_candidate(knorm, TARGET_SSE)


def deal(dataset: Dataset, seed: int) -> Dataset:
    """Give each device one of the records."""
    if len(dataset.records) == _DEVICES:
        return dataset
    chosen = np.random.default_rng(seed).permutation(len(dataset.records))[:_DEVICES]
    return replace(
        dataset,
        records=np.ascontiguousarray(dataset.records[chosen]),
        name=f"{dataset.name} of {_DEVICES} devices, seed={seed}",
    )


if __name__ == "__main__":
    run(NAME, __doc__, measure)
