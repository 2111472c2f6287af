"""Secure sums: sizes, times, exactness, and quality beside noise by each device and by one curator.

Run as ``python -m benchmarks.secure_sum [--quick] [--json] [--part PART]``. *Quality*: 10,000
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
from pathlib import Path

import numpy as np

from benchmarks.datasets import Dataset, Mixture, RealData
from benchmarks.experiments import FIRST_SEED
from benchmarks.reference import compute_sse, find_reference
from benchmarks.rows import Row, create_parser, print_rows
from benchmarks.secure_sum_servers import (
    measure_device,
    measure_helper,
    measure_noise,
    measure_opened,
)
from benchmarks.sketches import Noise, Sketcher, Study
from sfumato.learning.decoding.registry import create_solver
from sfumato.learning.planning.candidates import Candidate, choose_candidate
from sfumato.learning.planning.outline import StudyOutline
from sfumato.learning.planning.planner import advise

NAME = "secure_sum"
TARGET_SSE = 1.1
_DEVICES = 10_000
_EPSILON = Fraction(1)
_RUNS, _QUICK_RUNS = 5, 2
_WAYS = {"sum.v1": 2, "one curator": 1, "local.v1": _DEVICES}
"""Ways of adding noise, with their draws of the mechanism."""
PARTS = ("device", "helper", "noise", "quality", "opened")


def measure(quick: bool, parts: Sequence[str] = PARTS) -> Iterator[Row]:
    """Yield the rows of some parts; fewer seeds and reports if ``quick``."""
    measured = (measure_device, measure_helper, measure_noise, measure_quality, _open)
    for part, each in zip(PARTS, measured, strict=True):
        if part in parts:
            yield from each(quick)


def _open(quick: bool) -> Iterator[Row]:
    with tempfile.TemporaryDirectory(prefix="sfumato-secure-sum-") as folder:
        yield from measure_opened(Path(folder), n_reports=1000 if quick else 100_000)


def measure_quality(quick: bool) -> Iterator[Row]:
    """Yield relative SSE by the way of adding noise."""
    mixture = Mixture(n_dimensions=4, n_clusters=5, n_records=_DEVICES)
    for case, source in (("round mixtures", mixture), ("weather", RealData(name="weather"))):
        designs = {way: choose_design(way, n) for way, n in _WAYS.items()}
        found: dict[str, list[float]] = {way: [] for way in _WAYS}
        seeds = range(FIRST_SEED, FIRST_SEED + (_QUICK_RUNS if quick else _RUNS))
        for seed in seeds:
            dataset = deal(source.load(seed), seed)
            for way in _WAYS:
                found[way].append(recover(dataset, way, designs[way], seed))
        for way, values in found.items():
            name = f"{case}, {_DEVICES:,} devices, eps {_EPSILON}, {way}"
            rows = (
                ("median_relative_sse", float(np.median(values)), "k-means on the records"),
                ("worst_relative_sse", max(values), "k-means on the records"),
                ("n_frequencies", float(designs[way].n_frequencies), "none"),
                ("noises", float(_WAYS[way]), "none"),
            )
            for figure, value, baseline in rows:
                yield make_row(name, figure, value, "1", len(values), baseline)


def choose_design(way: str, n_noises: int) -> Candidate:
    """Choose m and the law for so many draws of noise, where each report carries all features."""
    outline = StudyOutline(
        n_records=_DEVICES,
        n_sketches=_DEVICES,
        n_dimensions=4,
        n_clusters=5,
        n_noises=n_noises,
    )
    advice = advise(outline, epsilon=_EPSILON, target_sse=TARGET_SSE)
    whole = [each for each in advice.candidates if each.mechanism == "discrete-knorm"]
    return choose_candidate(whole, TARGET_SSE)


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


def recover(dataset: Dataset, way: str, design: Candidate, seed: int) -> float:
    """Return the relative SSE of one way of adding noise."""
    reference = find_reference(dataset)
    sketcher = Sketcher()
    study = Study(
        n_frequencies=design.n_frequencies,
        scale=dataset.spread or reference.spread,
        noise=Noise(mechanism=design.mechanism, epsilon=_EPSILON),
        n_sketches=_WAYS[way],
        law=design.law_choice.law,
    )
    problem = sketcher.pose(dataset, study, seed).problem
    solution = create_solver().solve(problem, rng=np.random.default_rng(seed))
    return compute_sse(dataset.records, solution.centroids) / reference.sse


def make_row(case: str, figure: str, value: float, unit: str, runs: int, baseline: str) -> Row:
    """Return a row of this benchmark."""
    return Row(
        benchmark=NAME,
        case=case,
        figure=figure,
        value=value,
        unit=unit,
        runs=runs,
        baseline=baseline,
    )


if __name__ == "__main__":
    parser = create_parser(NAME, (__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--part", action="append", choices=PARTS, help="one part; may be repeated (default: all)"
    )
    options = parser.parse_args()
    print_rows(measure(options.quick, options.part or PARTS), as_json=options.json)
