"""Figures 2 and 3 of the seed paper, by its protocol, with its decoder and with ours.

Run as ``python -m benchmarks.paper [--quick] [--json] [--plot FILE]``. Schellekens, Chatalic,
Houssiau, de Montjoye, Jacques and Gribonval, "Differentially Private Compressive k-Means" (ICASSP
2019), sections 5 and 6: mixtures of k = 10 unit Gaussians in d = 10 dimensions; the SSE relative to
k-means on the records. ``fig2 left`` is over the SNR of equation 6 at m = 10 k d, by masks (alpha)
and additive noise; ``fig2 right`` over SNR and m / (k d). ``fig3`` is over epsilon at n = 10^7:
every method depends on n and epsilon through their product, so 10^5 records at 100 epsilon stand
for it, and ``control`` sketches 10^7 records. ``epsilon_for_1.2`` is where a curve crosses 1.2.

The paper has medians of 20 and 40 trials; runs are fewer here, and stated. Its text does not give
the ends of its grids, nor L, alpha and m of its third figure: those here are from the published
picture's kind. ``cl-ompr`` is the paper's decoder with the frequencies of one scale that it has,
and the best of five replicates: one ends in a local optimum. Other curves are the mixture decoder
with the planner's law of frequencies.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np

from benchmarks.contenders import CONTENDERS
from benchmarks.datasets import Dataset
from benchmarks.design import choose_design
from benchmarks.experiments import Bench, Options, run_experiment
from benchmarks.methods import Shape
from benchmarks.paper_cases import CONTROL, PAPERS_DECODER, D, K, PaperCase, list_cases
from benchmarks.reference import compute_sse, find_reference
from benchmarks.rows import Row, find_crossing
from benchmarks.sketches import Noise, Sketcher, Study, make_plan, total_releases
from sfumato.learning.decoding.problem import DecodingProblem
from sfumato.learning.decoding.registry import create_solver
from sfumato.learning.estimate.counts import count_records
from sfumato.learning.estimate.posing import pose_problem
from sfumato.learning.estimate.utility import estimate_utility, weigh
from sfumato.learning.planning.laws import choose_radius_law
from sfumato.shared.core import RadiusLaw, SketchAccumulator
from sfumato.shared.errors import SketchError
from sfumato.shared.privacy.testing import SeededSource

NAME = "paper"
_RECORDS = 10**5
_PAPERS_RECORDS = 10**7
SIGNAL = 0.35
"""|z|^2 as the paper takes it, to set a wanted SNR by equation 6."""
_PAPERS_LAW = RadiusLaw(sigma_low=1.0, sigma_high=1.0)
_TARGET = 1.2
_CHUNK = 10**6
_BOX = 10.0
SOURCE = Shape(n_dimensions=D, n_clusters=K, n_records=_RECORDS)


def measure(quick: bool) -> Iterator[Row]:
    """Yield every row; few seeds and cases if ``quick``."""
    yield from measure_cases(Bench(options=Options(quick=quick)))


def measure_cases(bench: Bench) -> Iterator[Row]:
    """Yield the rows of the requested points, and where curves cross 1.2."""
    curve: list[tuple[float, float]] = []
    before = ""
    for case in _select(bench.options):
        if case.curve_name != before:
            yield from _find_crossing(before, curve)
            before, curve = case.curve_name, []
        found = _run(bench, case)
        if found:
            curve.append((case.place, float(np.median(found))))
            yield from _summarise(case, found)
    yield from _find_crossing(before, curve)


def _run(bench: Bench, case: PaperCase) -> list[float]:
    """Return the relative SSE of each seed; none where the plan cannot be made."""
    found = []
    for seed in bench.options.list_seeds(case.runs, case.quick_runs):
        bench.report(case.name, 0)
        try:
            found.append(_run_seed(bench, case, seed))
        except SketchError as error:
            print(f"benchmarks.{NAME}: without {case.name}: {error}", file=sys.stderr)
            return []
        finally:
            bench.report(case.name, 1)
    return found


def _run_seed(bench: Bench, case: PaperCase, seed: int) -> float:
    if case == CONTROL:
        return measure_control(case, seed)
    dataset = SOURCE.load(seed)
    reference = find_reference(dataset)
    if case.method:
        epsilon = Fraction(str(case.place)) * (_PAPERS_RECORDS // _RECORDS)
        centroids = CONTENDERS[case.method](dataset, epsilon, seed, reference.spread).centroids
    else:
        problem = (
            pose_private(bench.sketcher, case, dataset, seed)
            if case.mechanism
            else pose_noisy(bench.sketcher, case, dataset, seed)
        )
        if case.n_sketches > 1:
            bench.sketcher.forget()
        solver = create_solver(case.decoder)
        centroids = solver.solve(problem, rng=np.random.default_rng(seed)).centroids
    return compute_sse(dataset.records, centroids) / reference.sse


def pose_private(
    sketcher: Sketcher, case: PaperCase, dataset: Dataset, seed: int
) -> DecodingProblem:
    """Pose the problem of a point of Figure 3: exact noise, as a study has it."""
    noise = make_noise(case, len(dataset.records))
    return sketcher.pose(dataset, _make_study(case, dataset, noise), seed).problem


def make_noise(case: PaperCase, n_records: int) -> Noise:
    """Make the noise that so many records have where 10^7 have the case's epsilon."""
    epsilon = Fraction(str(case.place)) * Fraction(_PAPERS_RECORDS, n_records)
    return Noise(mechanism=f"discrete-{case.mechanism}", epsilon=epsilon)


def _make_study(case: PaperCase, dataset: Dataset, noise: Noise) -> Study:
    law = _PAPERS_LAW
    if case.decoder != PAPERS_DECODER:
        law = choose_design(
            dataset,
            noise,
            n_sketches=case.n_sketches,
            mask_groups=case.mask_groups,
            features=round(case.features),
        ).law
    return Study(
        n_frequencies=case.n_frequencies,
        scale=1.0,
        noise=noise,
        n_sketches=case.n_sketches,
        blocks=case.blocks,
        mask_groups=case.mask_groups,
        law=law,
    )


def pose_noisy(sketcher: Sketcher, case: PaperCase, dataset: Dataset, seed: int) -> DecodingProblem:
    """Pose the problem of a point of Figure 2: an exact sketch, and noise for a wanted SNR.

    Equation 6 with L = 1 gives ``|z|^2 / SNR`` as the variance of a feature, of which records and
    masks have ``(1 / alpha - |z|^2) / n``; Laplace noise has the rest.
    """
    choice, _ = choose_radius_law(
        lambda signal: case.features * case.place * signal / SIGNAL,
        features=case.features,
        n_clusters=K,
        n_dimensions=D,
    )
    law = _PAPERS_LAW if case.decoder == PAPERS_DECODER else choice.law
    study = Study(
        n_frequencies=case.n_frequencies, scale=1.0, mask_groups=case.mask_groups, law=law
    )
    exact = sketcher.pose(dataset, study, seed).problem
    sampled = (case.mask_groups - SIGNAL) / len(dataset.records)
    added = max(0.0, SIGNAL / case.place - sampled)
    scale = math.sqrt(added / 4.0)
    rng = np.random.default_rng((seed, case.n_frequencies))
    real, imaginary = rng.laplace(scale=scale, size=(2, case.n_frequencies))
    return replace(
        exact,
        sketch=exact.sketch + real + 1j * imaginary,
        noise_variance=exact.noise_variance + added,
    )


def measure_control(case: PaperCase, seed: int) -> float:
    """Sketch 10^7 records of one mixture in chunks, decode, and compare on all of them."""
    parts = [draw_part(seed, i) for i in range(_PAPERS_RECORDS // _CHUNK)]
    first = parts[0]
    noise = make_noise(case, _PAPERS_RECORDS)
    sizes = np.array([_PAPERS_RECORDS])
    plan = make_plan(first, _make_study(case, first, noise), sizes, seed)
    accumulator = SketchAccumulator(plan.statistic_of(b""))
    for part in parts:
        accumulator.add(part.records)
    released = plan.mechanism.add_noise(accumulator.sums, SeededSource(seed))
    totals = total_releases(plan, released[None], sizes)
    weights = weigh(plan, totals, "size")
    signal = estimate_utility(plan, totals, count_records(plan, totals), weights).signal_energy
    problem = pose_problem(plan, totals, weights, signal_energy=signal, n_clusters=K)
    centroids = create_solver().solve(problem, rng=np.random.default_rng(seed)).centroids
    best = np.array(find_reference(first).centroids)
    sums = [[compute_sse(part.records, c) for part in parts] for c in (centroids, best)]
    return float(np.sum(sums[0]) / np.sum(sums[1]))


def draw_part(seed: int, part: int) -> Dataset:
    """Draw a million records of the mixture of a seed."""
    means = np.random.default_rng((seed, D, K)).normal(scale=1.5 * K ** (1.0 / D), size=(K, D))
    rng = np.random.default_rng((seed, D, K, part))
    records = rng.normal(size=(_CHUNK, D))
    records += means[rng.integers(K, size=_CHUNK)]
    return Dataset(
        name=f"paper seed={seed} part={part}",
        records=np.clip(records, -_BOX, _BOX),
        lower=-_BOX,
        upper=_BOX,
        n_clusters=K,
        true_means=means,
        spread=1.0,
    )


def _find_crossing(name: str, curve: Sequence[tuple[float, float]]) -> Iterator[Row]:
    """Yield where the medians of a curve fall below 1.2 for good, on logarithms."""
    if not name.startswith("fig3") or len(curve) < 2:
        return
    crossing = find_crossing(curve, _TARGET)
    if crossing is None:
        return
    yield Row(NAME, name, "epsilon_for_1.2", crossing, "1", len(curve), "paper, L=1: 1e-2")


def _summarise(case: PaperCase, found: Sequence[float]) -> Iterator[Row]:
    for figure, value in (
        ("median_relative_sse", np.median(found)),
        ("mean_relative_sse", np.mean(found)),
        ("p90_relative_sse", np.quantile(found, 0.9)),
    ):
        yield Row(NAME, case.name, figure, float(value), "1", len(found), "k-means on the records")


def _select(options: Options) -> list[PaperCase]:
    return [
        case
        for case in (*list_cases(), CONTROL)
        if options.includes(case.name, in_quick=case.quick_runs > 0)
    ]


def _list_names() -> list[str]:
    return [case.name for case in (*list_cases(), CONTROL)]


def _count(options: Options) -> int:
    return sum(len(options.list_seeds(case.runs, case.quick_runs)) for case in _select(options))


def _draw(rows: Sequence[Row], path: Path) -> None:
    # Imported here, because matplotlib takes a second to load.
    from benchmarks.paper_pictures import draw_paper  # noqa: PLC0415

    draw_paper(rows, path)


if __name__ == "__main__":
    sys.exit(
        run_experiment(NAME, __doc__.splitlines()[0], _list_names, measure_cases, _count, _draw)
    )
