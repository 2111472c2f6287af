"""Decodes of shapes that no decoder was tuned to, each with its quality, verdict and evidence."""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import sfumato.learning.decoding
from benchmarks.datasets import Dataset
from benchmarks.design import choose_design
from benchmarks.reference import compute_sse, describe_clusters, find_reference
from benchmarks.shapes import FAMILIES, REAL_SETS, Shape, draw_shape
from benchmarks.sketches import Noise, Sketcher, Study
from sfumato.learning.decoding.judgement import Evidence
from sfumato.learning.decoding.mixture.decoder import MixtureDecoder
from sfumato.learning.decoding.mixture.round_descent import descend_from
from sfumato.learning.decoding.problem import Box
from sfumato.learning.decoding.solution import Solution

N_RECORDS = 20_000
LEVELS = (None, 100_000, 20_000, 5_000)
"""n epsilon under K-norm noise; None is no noise."""
UNUSABLE = "do not use"
_PHANTOM_DEVIATIONS = 3.0


@dataclass(frozen=True, kw_only=True)
class FarRecords:
    """Records that a pilot has not seen, because a sensor failed after it.

    Parameters
    ----------
    place
        ``edge``: one column at a bound of the plan; ``corner``: all are; ``value``: one has a
        single far value.
    share
        Their share of all records.
    wider
        Width of the plan's bounds over that of the search box, where the pilot saw records.
    """

    place: str
    share: float
    wider: float


@dataclass(frozen=True, kw_only=True)
class Situation:
    """Choices of the operator and the analyst, right or wrong.

    Parameters
    ----------
    name
        Name in words.
    n_epsilon
        n times epsilon, None without noise.
    scale, bounds, clusters
        The stated value over the honest one.
    n_sketches
        The sketches in which the records come.
    far
        Records outside the search box; None for none, and no search box.
    """

    name: str
    n_epsilon: int | None
    scale: float = 1.0
    bounds: float = 1.0
    clusters: float = 1.0
    n_sketches: int = 1
    far: FarRecords | None = None

    @property
    def is_honest(self) -> bool:
        """Whether scale, bounds and number of clusters are as good as guesses can be."""
        return self.scale == self.bounds == self.clusters == 1.0


def list_situations(index: int) -> tuple[Situation, ...]:
    """List the situations of a numbered shape: two noise levels, and two wrong choices, in turn."""
    first, second = LEVELS[index % 4], LEVELS[(index + 1 + index // 4 % 3) % 4]
    honest = [
        Situation(name="no noise" if n is None else f"n eps {n:g}", n_epsilon=n)
        for n in (first, second)
    ]
    wrong = (
        Situation(name="scale / 4", n_epsilon=100_000, scale=0.25),
        Situation(name="scale x 4", n_epsilon=100_000, scale=4.0),
        Situation(name="bounds x 20", n_epsilon=100_000, bounds=20.0),
        Situation(name="k x 1.5", n_epsilon=100_000, clusters=1.5),
        Situation(name="scale x 8", n_epsilon=100_000, scale=8.0),
        Situation(name="n eps 1500", n_epsilon=1_500),
        Situation(name="bounds x 100", n_epsilon=100_000, bounds=100.0),
        Situation(name="scale / 10", n_epsilon=100_000, scale=0.1),
    )
    # Two different ones; 27 families and 8 wrong choices share no factor, so all pairs occur.
    return (*honest, wrong[index % 8], wrong[(index + 1 + index // 8 % 7) % 8])


def list_far_situations(index: int) -> tuple[Situation, ...]:
    """List the situation of a numbered shape with far records: all kinds in turn."""
    far = FarRecords(
        place=("edge", "corner", "value")[index % 3],
        share=(0.02, 0.04, 0.08)[index // 3 % 3],
        wider=(3.0, 10.0, 100.0)[index // 9 % 3],
    )
    n_sketches = (1, 80)[index % 2]
    # As much as one curator has, or a fleet: below it no answer with 80 sketches is usable.
    epsilon = ((1, 5, 20) if n_sketches == 1 else (8, 20, 40))[index % 35 % 3]
    return (
        Situation(
            name=f"{far.share:.0%} at {far.place}, bounds x {far.wider:g}, L = {n_sketches}, "
            f"eps {epsilon}",
            n_epsilon=epsilon * N_RECORDS,
            n_sketches=n_sketches,
            far=far,
        ),
    )


@dataclass(frozen=True, kw_only=True)
class HonestTrial:
    """One decode with its quality, its evidence and its verdict.

    Parameters
    ----------
    family, size, situation
        Family and situation of the records; (d, k, m).
    is_mixture
        Whether the records are clusters of Gaussian records.
    ratio, ideal
        Relative SSE of the answer, and of round clusters by descent from the truth.
    shares, phantoms
        Weight of each centroid, and whether no record lies within three standard deviations of its
        cluster.
    evidence
        Evidence for the verdict.
    word, low, high
        The verdict, and the band.
    """

    family: str
    size: tuple[int, int, int]
    situation: Situation
    is_mixture: bool
    ratio: float
    ideal: float
    shares: NDArray[np.float64]
    phantoms: NDArray[np.bool_]
    evidence: Evidence
    word: str
    low: float
    high: float

    @property
    def is_real(self) -> bool:
        """Whether the records are real rather than synthetic."""
        return self.family in REAL_SETS

    @property
    def shows_phantom(self) -> bool:
        """Whether a centroid without records is presented as a cluster."""
        is_shown = self.word != UNUSABLE
        return is_shown and bool(np.any(self.phantoms & self.evidence.resolved))


def digest_decoder() -> str:
    """Compute a digest of the decoder's code, so that nobody can have seen the shapes it draws.

    Comments and docstrings are left out: rewriting them draws no new shapes.
    """
    folder = Path(sfumato.learning.decoding.__file__).parent
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(
                node
            ):
                del node.body[0]
        digest.update(path.name.encode() + b"\0" + ast.dump(tree).encode())
    return digest.hexdigest()


def list_shapes(text: str, n_shapes: int) -> Iterator[tuple[str, str]]:
    """Yield families in turn, each with the text that determines its parameters."""
    families = [*FAMILIES, *REAL_SETS]
    for i in range(n_shapes):
        yield families[i % len(families)], f"{text} {i // len(families)}"


def run_shape(family: str, text: str, situations: tuple[Situation, ...]) -> Iterator[HonestTrial]:
    """Decode one shape in several situations."""
    shape = draw_shape(family, text, N_RECORDS)
    for situation in situations:
        yield run_trial(shape, situation, text)


def run_trial(shape: Shape, situation: Situation, text: str) -> HonestTrial:
    """Decode a shape in one situation through all steps of a study."""
    seed = int.from_bytes(hashlib.sha256(f"{text} {situation.name}".encode()).digest()[:4], "big")
    k = max(1, round(situation.clusters * shape.dataset.n_clusters))
    dataset = replace(
        shape.dataset,
        name=f"{shape.dataset.name} k={k}",
        n_clusters=k,
    )
    spread = find_reference(dataset).spread
    search_box = None
    if situation.far is not None:
        search_box = Box(
            lower=np.full(dataset.n_dimensions, dataset.lower),
            upper=np.full(dataset.n_dimensions, dataset.upper),
        )
        dataset = move_far(dataset, situation.far, np.random.default_rng(seed))
    reference = find_reference(dataset)
    n = len(dataset.records)
    noise = None
    if situation.n_epsilon is not None:
        noise = Noise(mechanism="discrete-knorm", epsilon=Fraction(situation.n_epsilon, n))
    boxed = replace(
        dataset,
        lower=situation.bounds * dataset.lower,
        upper=situation.bounds * dataset.upper,
    )
    design = choose_design(boxed, noise, n_sketches=situation.n_sketches)
    posed = Sketcher().pose(
        boxed,
        Study(
            n_frequencies=design.n_frequencies,
            scale=spread * shape.guess * situation.scale,
            noise=noise,
            law=design.law,
            n_sketches=situation.n_sketches,
        ),
        seed,
    )
    problem = replace(posed.problem, search_box=search_box)
    solution = MixtureDecoder().solve(problem, rng=np.random.default_rng(seed))
    truth = describe_clusters(dataset.records, np.array(reference.centroids))
    ideal = descend_from(problem, truth)
    if solution.evidence is None or solution.verdict is None:
        raise AssertionError("the mixture decoder judges its answers")
    return HonestTrial(
        family=shape.family,
        size=(dataset.n_dimensions, k, design.n_frequencies),
        situation=situation,
        is_mixture=shape.is_mixture,
        ratio=compute_sse(dataset.records, solution.centroids) / reference.sse,
        ideal=compute_sse(dataset.records, ideal) / reference.sse,
        shares=solution.weights,
        phantoms=find_phantoms(dataset.records, solution),
        evidence=solution.evidence,
        word=solution.verdict.word,
        low=solution.verdict.low,
        high=solution.verdict.high,
    )


def move_far(dataset: Dataset, far: FarRecords, rng: np.random.Generator) -> Dataset:
    """Widen the bounds, and move some records beyond the former ones."""
    records, bound = dataset.records.copy(), far.wider * dataset.upper
    n, d = records.shape
    chosen = rng.permutation(n)[: round(far.share * n)]
    column, side = int(rng.integers(d)), float(rng.choice([-1.0, 1.0]))
    if far.place == "corner":
        records[chosen] = bound * side
    else:
        at = bound if far.place == "edge" else rng.uniform(dataset.upper, bound)
        records[chosen, column] = side * at
    return replace(
        dataset,
        name=f"{dataset.name} {far}",
        records=records,
        lower=-bound,
        upper=bound,
    )


def find_phantoms(records: NDArray[np.float64], solution: Solution) -> NDArray[np.bool_]:
    """Mark the centroids that have no record within three deviations of their cluster."""
    if solution.spreads is None:
        return np.zeros(len(solution.weights), dtype=np.bool_)
    found = []
    for centroid, spread in zip(solution.centroids, solution.spreads, strict=True):
        offsets = (records - centroid) / np.maximum(spread, 1e-9)
        nearest = float(np.sqrt(np.min(np.mean(offsets**2, axis=1))))
        found.append(nearest > _PHANTOM_DEVIATIONS)
    return np.array(found)
