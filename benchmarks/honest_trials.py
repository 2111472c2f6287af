"""Decodes of shapes that no decoder was tuned to: situations, problems, and runs of many."""

from __future__ import annotations

import ast
import hashlib
import os
import pickle
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fractions import Fraction
from multiprocessing import get_context
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

import sfumato.learning.decoding
from benchmarks.datasets import Dataset
from benchmarks.designs import choose_design, resize
from benchmarks.packages import PackageUnavailableError
from benchmarks.reference import find_reference
from benchmarks.runner import Bench, Option, read_count
from benchmarks.shapes import FAMILIES, REAL_SETS, Shape, draw_shape
from benchmarks.sketches import Noise, Sketcher, Study
from sfumato.learning.decoding.problem import Box, DecodingProblem

N_RECORDS = 20_000
LEVELS = (None, 100_000, 20_000, 5_000)
"""n epsilon under K-norm noise; None is no noise."""
OPTIONS: tuple[Option, ...] = (
    ("--shapes", {"type": read_count, "help": "shapes, in place of the usual number"}),
    ("--processes", {"type": read_count, "default": 1, "help": "at a time (default: 1)"}),
    ("--keep", {"type": Path, "help": "go on from this file, and keep decodes in it"}),
)
"""Options of benchmarks that decode many shapes."""
T = TypeVar("T")


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


def list_large_situations(index: int) -> tuple[Situation, ...]:
    """List the situation of a numbered shape of many clusters: five noise levels in turn."""
    n_epsilon = (200_000, 400_000, 800_000, 2_000_000, 4_000_000)[index % 5]
    return (Situation(name=f"n eps {n_epsilon:,}", n_epsilon=n_epsilon),)


@dataclass(frozen=True, kw_only=True)
class PosedShape:
    """A shape in a situation: its records, with k as stated; the plan's scale; and the problem."""

    shape: Shape
    situation: Situation
    dataset: Dataset
    scale: float
    problem: DecodingProblem

    @property
    def size(self) -> tuple[int, int, int]:
        """Return (d, k, m)."""
        return self.dataset.n_dimensions, self.dataset.n_clusters, self.problem.n_frequencies

    @property
    def kind(self) -> str:
        """Kind of its records."""
        if self.shape.is_mixture:
            return "mixtures"
        return "real" if self.shape.family in REAL_SETS else "other shapes"


def pose_shape(shape: Shape, situation: Situation, seed: int) -> PosedShape:
    """Take a shape in one situation through all steps of a study."""
    k = max(1, round(situation.clusters * shape.dataset.n_clusters))
    dataset = replace(shape.dataset, name=f"{shape.dataset.name} k={k}", n_clusters=k)
    scale = find_reference(dataset).spread * shape.guess * situation.scale
    search_box = None
    if situation.far is not None:
        d = dataset.n_dimensions
        search_box = Box(lower=np.full(d, dataset.lower), upper=np.full(d, dataset.upper))
        dataset = move_far(dataset, situation.far, np.random.default_rng(seed))
    noise = None
    if situation.n_epsilon is not None:
        epsilon = Fraction(situation.n_epsilon, len(dataset.records))
        noise = Noise(mechanism="discrete-knorm", epsilon=epsilon)
    boxed = resize(dataset, situation.bounds)
    design = choose_design(boxed, noise, n_sketches=situation.n_sketches)
    study = Study(
        n_frequencies=design.n_frequencies,
        scale=scale,
        noise=noise,
        law=design.law,
        n_sketches=situation.n_sketches,
    )
    problem = replace(Sketcher().pose(boxed, study, seed).problem, search_box=search_box)
    return PosedShape(
        shape=shape, situation=situation, dataset=dataset, scale=scale, problem=problem
    )


def derive_seed(text: str) -> int:
    """Return the seed that a text determines."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big")


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


def list_shapes(text: str, n_shapes: int, *, is_large: bool) -> Iterator[tuple[str, str]]:
    """Yield families in turn, each with the text that determines its parameters."""
    mixtures = [name for name, family in FAMILIES.items() if family.is_mixture]
    families = mixtures if is_large else [*FAMILIES, *REAL_SETS]
    for i in range(n_shapes):
        yield families[i % len(families)], f"{text} {i // len(families)}"


Task = tuple[int, str, str]
"""Number, family and text of a shape."""


def collect_tasks(
    bench: Bench,
    text: str,
    n_shapes: int,
    run_task: Callable[[Shape, Task], list[T]],
    *,
    is_large: bool = False,
) -> list[T]:
    """Run a task for each shape that a text determines, except those kept by an earlier run.

    Shapes whose wheels cannot be fetched are left out.
    """
    shapes = list_shapes(text, n_shapes, is_large=is_large)
    tasks = [(i, family, own) for i, (family, own) in enumerate(shapes)]
    kept: Path | None = bench.own.get("keep")
    found: dict[Task, list[T]] = {}
    if kept is not None and kept.exists():
        found = pickle.loads(kept.read_bytes())
    left = [task for task in tasks if task not in found]
    bench.expect(len(left))
    run = _Draw(run_task, is_large)
    with _open_pool(bench.own.get("processes", 1)) as apply:
        for task, trials in zip(left, apply(run, left), strict=True):
            bench.report(task[1])
            found[task] = trials
            if kept is not None:
                kept.write_bytes(pickle.dumps(found))
    return [trial for task in tasks for trial in found[task]]


@dataclass(frozen=True)
class _Draw:
    """Draw the shape of a task, and run it; other processes get it by name."""

    run: Callable[[Shape, Task], list[Any]]
    is_large: bool

    def __call__(self, task: Task) -> list[Any]:
        _, family, own = task
        try:
            return self.run(draw_shape(family, own, N_RECORDS, is_large=self.is_large), task)
        except PackageUnavailableError as error:
            print(f"left out: {family}: {error}", file=sys.stderr)
            return []


@contextmanager
def _open_pool(n_processes: int) -> Iterator[Callable[..., Iterator[Any]]]:
    """Yield a ``map`` over processes of one thread each; the built-in one for one process."""
    if n_processes == 1:
        yield map
        return
    # Read by the libraries of the child processes, which would compete for the cores.
    os.environ.update(dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1"))
    with ProcessPoolExecutor(n_processes, mp_context=get_context("spawn")) as pool:
        yield pool.map
