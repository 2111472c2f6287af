"""Radius laws times numbers of frequencies, on real records by one curator: what law suits what m.

Run as ``python -m benchmarks.law_grid [--quick] [--json]``. K-norm noise, one sketch, scales and
bounds as :mod:`benchmarks.shapes` guesses them. Rows are medians of the relative SSE over seeds;
``chosen`` is the same for the law and the m that the planner chooses, by epsilon.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

import numpy as np

from benchmarks.datasets import Dataset
from benchmarks.designs import Design, choose_design
from benchmarks.reference import Reference, compute_sse, find_reference
from benchmarks.runner import Bench, Row, run
from benchmarks.shapes import REAL_SETS, draw_shape
from benchmarks.sketches import Noise, Sketcher, Study
from sfumato.learning.decoding.mixture.decoder import MixtureDecoder
from sfumato.learning.planning.laws import LAW_CHOICES

NAME = "law_grid"
BASELINE = "kmeans++ n_init=10 on the records"
N_RECORDS = 26_000
EPSILONS = tuple(Fraction(2) ** power for power in range(-2, 4))
FEATURES = (5, 10)
LAWS = tuple(choice.law for choice in LAW_CHOICES[:2])
_SEEDS, _QUICK_SEEDS = 6, 1


def measure(bench: Bench) -> Iterator[Row]:
    """Yield the rows, set by set; one set and one seed in the quick form."""
    n_seeds = bench.count_runs(_SEEDS, _QUICK_SEEDS)
    for i, name in enumerate(REAL_SETS):
        if not bench.includes(name, in_quick=i == 0):
            continue
        dataset = draw_shape(name, "laws", N_RECORDS).dataset
        reference = find_reference(dataset)
        parameters = dataset.n_clusters * dataset.n_dimensions
        sketcher = Sketcher()
        for epsilon in EPSILONS:
            noise = Noise(mechanism="discrete-knorm", epsilon=epsilon)
            for features in FEATURES:
                for law in LAWS:
                    design = Design(n_frequencies=features * parameters, law=law)
                    ratio = _decode(sketcher, dataset, reference, noise, design, n_seeds)
                    case = f"{name}, eps {float(epsilon):g}, m = {features} k d, {law}"
                    yield Row(NAME, case, "median_relative_sse", ratio, "1", n_seeds, BASELINE)
            chosen = choose_design(dataset, noise)
            ratio = _decode(sketcher, dataset, reference, noise, chosen, n_seeds)
            case = f"{name}, eps {float(epsilon):g}, chosen"
            yield Row(NAME, case, "median_relative_sse", ratio, "1", n_seeds, BASELINE)


def _decode(
    sketcher: Sketcher,
    dataset: Dataset,
    reference: Reference,
    noise: Noise,
    design: Design,
    n_seeds: int,
) -> float:
    study = Study(
        n_frequencies=design.n_frequencies, scale=reference.spread, noise=noise, law=design.law
    )
    ratios = []
    for seed in range(n_seeds):
        problem = sketcher.pose(dataset, study, seed).problem
        found = MixtureDecoder().solve(problem, rng=np.random.default_rng(seed))
        ratios.append(compute_sse(dataset.records, found.centroids) / reference.sse)
    return float(np.median(ratios))


if __name__ == "__main__":
    run(NAME, __doc__, measure)
