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
from numpy.typing import NDArray
from sklearn.cluster import KMeans

from benchmarks.reference import compute_sse
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
from sfumato.shared.core import (
    AMPLITUDE,
    FourierStatistic,
    Quantiser,
    RadiusLaw,
    SketchAccumulator,
    draw_frequencies,
)

Floats = NDArray[np.float64]

N_CLUSTERS: Final = 6
N_FREQUENCIES: Final = 120
HALF_WIDTH: Final = 10.0
_BLUE, _ORANGE, _GREY = "#0072B2", "#D55E00", "#9AA0A6"


def draw_records(rng: np.random.Generator) -> Floats:
    """Draw four round clusters and an arc: shape ``(20000, 2)``."""
    centres = np.array([[-6.0, 4.0], [-5.0, -5.0], [0.5, 6.0], [-1.0, -1.0]])
    round_ones = [centre + rng.normal(scale=0.8, size=(3000, 2)) for centre in centres]
    angle = rng.uniform(-0.4 * np.pi, 0.4 * np.pi, size=8000)
    arc = np.stack([2.0 + 5.0 * np.cos(angle), 5.0 * np.sin(angle)], axis=1)
    return np.concatenate([*round_ones, arc + rng.normal(scale=0.5, size=arc.shape)])


def pose_problem(records: Floats) -> DecodingProblem:
    """Sketch records without noise, and pose the aggregator's problem."""
    quantiser = Quantiser.from_bounds([-HALF_WIDTH] * 2, [HALF_WIDTH] * 2)
    frequencies = draw_frequencies(
        bytes(32),
        n_frequencies=N_FREQUENCIES,
        law=RadiusLaw(),
        quantiser=quantiser,
        scale=np.full(2, 0.8),
    )
    accumulator = SketchAccumulator(FourierStatistic(quantiser=quantiser, frequencies=frequencies))
    accumulator.add(records)
    parts = accumulator.sums.reshape(2, -1) / (AMPLITUDE * len(records))
    return DecodingProblem(
        sketch=parts[0] + 1j * parts[1],
        frequencies=frequencies.to_angular(quantiser),
        lower=np.full(2, -HALF_WIDTH),
        upper=np.full(2, HALF_WIDTH),
        centre=quantiser.centre,
        unit=np.full(2, 0.8),
        noise_variance=1.0 / len(records),
        sampling_variance=1.0 / len(records),
        n_clusters=N_CLUSTERS,
    )


def draw_pictures(path: Path) -> float:
    """Draw all steps into one PNG and return the relative SSE of the answer."""
    rng = np.random.default_rng(3)
    records = draw_records(rng)
    problem = pose_problem(records)
    scaled = measure_in_wavelengths(problem)
    target, monitor = prepare_target(scaled), Monitor()
    fits = fit_clusters(target, N_CLUSTERS, n_replicates=3, rng=rng, monitor=monitor)
    candidates = climb(target, fits, rng=rng, monitor=monitor)
    members = choose_members(target, candidates, rng)
    pool = draw_pool(members, 4000, rng) * scaled.unit + scaled.centre
    solution = create_solver("mixture").solve(problem, rng=np.random.default_rng(0))
    baseline = create_reference(records)
    relative = compute_sse(records, solution.centroids) / compute_sse(records, baseline)

    figure = Figure(figsize=(13.5, 9.0), layout="constrained", facecolor="white")
    panels = figure.subplots(2, 3, sharex=True, sharey=True)
    _draw_points(panels[0, 0], records[::8], "1. the records, which stay on the devices")
    _draw_objective(panels[0, 1], scaled, target)
    _draw_growth(panels[0, 2], scaled, target, rng)
    best = min(fits, key=lambda fit: fit.objective)
    panels[1, 0].set_title(f"4. after the cycles: the best {N_CLUSTERS} round clusters")
    _draw_atoms(panels[1, 0], scaled, widen(best.atoms), _BLUE)
    panels[1, 1].set_title("5. richer models, and samples pooled from them")
    _draw_points(panels[1, 1], pool, panels[1, 1].get_title())
    for candidate, colour in zip(candidates[:3], (_BLUE, _ORANGE, "#009E73"), strict=False):
        _draw_atoms(panels[1, 1], scaled, candidate.fitted.atoms, colour, alpha=0.35)
    _draw_points(panels[1, 2], records[::8], f"6. the centroids: SSE {relative:.3f} times k-means'")
    panels[1, 2].plot(
        *solution.centroids.T, "o", color=_BLUE, markersize=9, label="from the sketch"
    )
    panels[1, 2].plot(*baseline.T, "x", color="black", markersize=9, label="k-means on the records")
    panels[1, 2].legend(loc="lower left", fontsize=9)
    figure.savefig(path, dpi=80)
    return relative


def create_reference(records: Floats) -> Floats:
    """Run k-means on the records themselves."""
    found = KMeans(N_CLUSTERS, n_init=10, random_state=0).fit(records)
    centres: Floats = found.cluster_centers_
    return centres


def _draw_points(axes: Axes, points: Floats, title: str) -> None:
    axes.plot(*points.T, ".", color=_GREY, markersize=2, alpha=0.5)
    axes.set_title(title, fontsize=11)
    axes.set_xlim(-HALF_WIDTH, HALF_WIDTH)
    axes.set_ylim(-HALF_WIDTH, HALF_WIDTH)
    axes.set_aspect("equal")


def _draw_objective(axes: Axes, problem: DecodingProblem, target: Target) -> None:
    """Shade by place the energy that one atom of a cluster's width explains."""
    side = np.linspace(-HALF_WIDTH, HALF_WIDTH, 140)
    grid = np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2)
    log_variances = np.full(len(grid), 2.0 * np.log(0.8 / problem.unit[0]))
    rows = compute_gaussians(target, (grid - problem.centre) / problem.unit, log_variances)
    along = np.maximum(rows @ target.sketch, 0.0)
    explained = (along**2 / np.einsum("km,km->k", rows, rows)).reshape(140, 140)
    bounds = (-HALF_WIDTH, HALF_WIDTH, -HALF_WIDTH, HALF_WIDTH)
    axes.imshow(explained, origin="lower", extent=bounds, cmap="Blues")
    axes.set_title("2. what one atom explains of the sketch, by its place", fontsize=11)


def _draw_growth(
    axes: Axes, problem: DecodingProblem, target: Target, rng: np.random.Generator
) -> None:
    """Draw the atoms after each round of growth; later ones are darker."""
    fitted = find_first_atom(target, rng, Monitor())
    for n_atoms in range(1, N_CLUSTERS + 1):
        if n_atoms > 1:
            fitted, _ = expand(target, fitted, 1, jitter=0.0, rng=rng)
            fitted = refine(target, fitted, n_iterations=15, tolerance=1e-3, monitor=Monitor())
        _draw_atoms(axes, problem, widen(fitted.atoms), _BLUE, alpha=n_atoms / N_CLUSTERS)
    axes.set_title(f"3. growth from 1 to {N_CLUSTERS} atoms (the later the darker)", fontsize=11)


def _draw_atoms(
    axes: Axes, problem: DecodingProblem, atoms: Ellipsoids, colour: str, alpha: float = 1.0
) -> None:
    """Draw each atom as an ellipse of one standard deviation."""
    for centre, root in zip(atoms.centres, atoms.roots, strict=True):
        axis, lengths, _ = np.linalg.svd(problem.unit[:, None] * root)
        width, height = 2.0 * lengths
        angle = float(np.degrees(np.arctan2(axis[1, 0], axis[0, 0])))
        place = problem.centre + problem.unit * centre
        ellipse = Ellipse((place[0], place[1]), width, height, angle=angle, fill=False)
        ellipse.set(color=colour, alpha=alpha)
        axes.add_patch(ellipse)


def main() -> None:
    """Read the file name, draw, and print the quality of the answer."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.decoding_pictures", description="Draw the decoder at work."
    )
    parser.add_argument("file", type=Path, help="PNG file to write")
    path = parser.parse_args().file
    print(f"{path}: relative SSE {draw_pictures(path):.4f}")


if __name__ == "__main__":
    main()
