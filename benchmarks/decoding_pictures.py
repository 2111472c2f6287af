"""Pictures of the decoder at work: ``python -m benchmarks.decoding_pictures FILE.png``.

Two-dimensional records, some of them on an arc that no round cluster fits, are sketched, and each
step of the decoder is drawn as it happens. Everything is seeded.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Final

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Ellipse

from benchmarks.datasets import Dataset, Floats
from benchmarks.reference import find_reference, measure_ratio
from benchmarks.runner import read_output
from benchmarks.sketches import Sketcher, Study
from sfumato.learning.decoding.mixture.ellipsoids import Ellipsoids, widen
from sfumato.learning.decoding.mixture.ensemble import fit_clusters
from sfumato.learning.decoding.mixture.gaussians import (
    Target,
    compute_gaussians,
    measure_in_wavelengths,
    prepare_target,
)
from sfumato.learning.decoding.mixture.growth import expand, find_first_atom
from sfumato.learning.decoding.mixture.ladder import climb
from sfumato.learning.decoding.mixture.pool import choose_members, draw_pool
from sfumato.learning.decoding.mixture.round_descent import refine
from sfumato.learning.decoding.problem import DecodingProblem
from sfumato.learning.decoding.registry import create_solver
from sfumato.learning.decoding.solver import Monitor

_K: Final = 6
_STUDY: Final = Study(n_frequencies=120, scale=0.8)
_HALF: Final = 10.0
_BLUE, _ORANGE, _GREEN, _GREY = "#0072B2", "#D55E00", "#009E73", "#9AA0A6"


def draw_records(rng: np.random.Generator) -> Dataset:
    """Draw four round clusters and an arc: 20,000 records."""
    centres = np.array([[-6.0, 4.0], [-5.0, -5.0], [0.5, 6.0], [-1.0, -1.0]])
    round_ones = [centre + rng.normal(scale=0.8, size=(3000, 2)) for centre in centres]
    angle = rng.uniform(-0.4 * np.pi, 0.4 * np.pi, size=8000)
    arc = np.stack([2.0 + 5.0 * np.cos(angle), 5.0 * np.sin(angle)], axis=1)
    records = np.concatenate([*round_ones, arc + rng.normal(scale=0.5, size=arc.shape)])
    return Dataset(name="arc", records=records, lower=-_HALF, upper=_HALF, n_clusters=_K)


def draw_pictures(path: Path) -> float:
    """Draw all steps into one PNG and return the relative SSE of the answer."""
    rng = np.random.default_rng(3)
    dataset = draw_records(rng)
    problem = Sketcher().pose(dataset, _STUDY, 0).problem
    scaled = measure_in_wavelengths(problem)
    target, monitor = prepare_target(scaled), Monitor()
    fits = fit_clusters(target, _K, n_replicates=3, rng=rng, monitor=monitor)
    candidates = climb(target, fits, rng=rng, monitor=monitor)
    pool = draw_pool(choose_members(target, candidates, rng), 4000, rng)
    solution = create_solver("mixture").solve(problem, rng=np.random.default_rng(0))
    relative = measure_ratio(dataset, solution.centroids)
    figure = Figure(figsize=(13.5, 9.0), layout="constrained", facecolor="white")
    (first, second, third), (fourth, fifth, sixth) = figure.subplots(2, 3, sharex=True, sharey=True)
    _draw_points(first, dataset.records[::8], "1. the records, which stay on the devices")
    _draw_objective(second, scaled, target)
    _draw_growth(third, scaled, target, rng)
    best = min(fits, key=lambda fit: fit.objective)
    fourth.set_title(f"4. after the cycles: the best {_K} round clusters")
    _draw_atoms(fourth, scaled, widen(best.atoms), _BLUE)
    pooled = pool * scaled.unit + scaled.centre
    _draw_points(fifth, pooled, "5. richer models, and samples pooled from them")
    for candidate, colour in zip(candidates[:3], (_BLUE, _ORANGE, _GREEN), strict=False):
        _draw_atoms(fifth, scaled, candidate.fitted.atoms, colour, alpha=0.35)
    title = f"6. the centroids: SSE {relative:.3f} times k-means'"
    _draw_points(sixth, dataset.records[::8], title)
    baseline = np.array(find_reference(dataset).centroids)
    for points, look, label in (
        (solution.centroids, {"marker": "o", "color": _BLUE}, "from the sketch"),
        (baseline, {"marker": "x", "color": "black"}, "k-means on the records"),
    ):
        sixth.plot(*points.T, linestyle="", markersize=9, label=label, **look)
    sixth.legend(loc="lower left", fontsize=9)
    figure.savefig(path, dpi=80)
    return relative


def _draw_points(axes: Axes, points: Floats, title: str) -> None:
    axes.plot(*points.T, ".", color=_GREY, markersize=2, alpha=0.5)
    axes.set_title(title, fontsize=11)
    axes.set(xlim=(-_HALF, _HALF), ylim=(-_HALF, _HALF), aspect="equal")


def _draw_objective(axes: Axes, problem: DecodingProblem, target: Target) -> None:
    """Shade by place the energy that one atom of a cluster's width explains."""
    side = np.linspace(-_HALF, _HALF, 140)
    grid = np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2)
    log_variances = np.full(len(grid), 2.0 * np.log(_STUDY.scale / problem.unit[0]))
    rows = compute_gaussians(target, (grid - problem.centre) / problem.unit, log_variances)
    along = np.maximum(rows @ target.sketch, 0.0)
    explained = (along**2 / np.einsum("km,km->k", rows, rows)).reshape(140, 140)
    axes.imshow(explained, origin="lower", extent=(-_HALF, _HALF, -_HALF, _HALF), cmap="Blues")
    axes.set_title("2. what one atom explains of the sketch, by its place", fontsize=11)


def _draw_growth(
    axes: Axes, problem: DecodingProblem, target: Target, rng: np.random.Generator
) -> None:
    """Draw the atoms after each round of growth; later ones are darker."""
    fitted = find_first_atom(target, rng, Monitor())
    for n_atoms in range(1, _K + 1):
        if n_atoms > 1:
            fitted, _ = expand(target, fitted, 1, jitter=0.0, rng=rng)
            fitted = refine(target, fitted, n_iterations=15, tolerance=1e-3, monitor=Monitor())
        _draw_atoms(axes, problem, widen(fitted.atoms), _BLUE, alpha=n_atoms / _K)
    axes.set_title(f"3. growth from 1 to {_K} atoms (the later the darker)", fontsize=11)


def _draw_atoms(
    axes: Axes, problem: DecodingProblem, atoms: Ellipsoids, colour: str, alpha: float = 1.0
) -> None:
    """Draw each atom as an ellipse of one standard deviation."""
    for centre, root in zip(atoms.centres, atoms.roots, strict=True):
        axis, lengths, _ = np.linalg.svd(problem.unit[:, None] * root)
        width, height = 2.0 * lengths
        angle = float(np.degrees(np.arctan2(axis[1, 0], axis[0, 0])))
        x, y = problem.centre + problem.unit * centre
        look = {"fill": False, "color": colour, "alpha": alpha}
        axes.add_patch(Ellipse((x, y), width, height, angle=angle, **look))


def main() -> None:
    """Read the file name, draw, and print the quality of the answer."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.decoding_pictures")
    parser.add_argument("file", type=read_output, help="PNG file to write")
    path = parser.parse_args().file
    print(f"{path}: relative SSE {draw_pictures(path):.4f}")


if __name__ == "__main__":
    main()
