"""Records of which an operator knows nothing beforehand, for :mod:`benchmarks.calibration`.

Every synthetic set is a mixture of round clusters as in :mod:`benchmarks.datasets`, made awkward in
one way; ``functions`` and ``weather`` are real. SSE is measured on standardised columns, those of
``lognormal``, ``functions`` and ``pareto`` on the logarithmic scale.
"""

from __future__ import annotations

import ast
import sysconfig
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np

from benchmarks.datasets import AIRPORTS, DEMO
from deploy.demo.baseline import read_records
from sfumato.shared.arrays import Floats
from sfumato.shared.core import DimensionEncoding, RecordEncoder

N_RECORDS = 60_000
RESOLUTION = 1e-6
"""Default r of a pilot."""
_SPACING = 1.5
_FASTEST_WIND = 200.0
"""A station's record of 1,049 mph is broken, and would be a cluster of its own."""
_RARE_SHARES = (0.007, 0.003)
_RARE_DISTANCE = 40.0
_MOST_FUNCTIONS = 10_000
_BRANCHES = ast.If | ast.For | ast.While | ast.Try | ast.IfExp | ast.BoolOp


@dataclass(frozen=True, kw_only=True, eq=False)
class UnknownSet:
    """Records, and the distances that count.

    Parameters
    ----------
    name
        Name of the set.
    records
        Shape ``(n, d)``, data units, in random order.
    n_clusters
        k.
    is_logarithmic
        Whether distances are on the logarithmic scale.
    resolution
        r of the pilot's scale: 1 for counts.
    smallest_share
        Share of the rarest far cluster; None if there is none.
    """

    name: str
    records: Floats
    n_clusters: int
    is_logarithmic: bool = False
    resolution: float = RESOLUTION
    smallest_share: float | None = None

    @property
    def encoder(self) -> RecordEncoder:
        """The scale of the distances."""
        resolution = self.resolution if self.is_logarithmic else None
        rule = DimensionEncoding(resolution=resolution)
        return RecordEncoder(dimensions=(rule,) * self.records.shape[1])

    def place(self, points: Floats) -> Floats:
        """Return points on the scale of the distances, of the same shape."""
        columns = zip(self.encoder.dimensions, points.T, strict=True)
        return np.stack([rule.transform(column) for rule, column in columns], axis=1)


def load_set(name: str, seed: int) -> UnknownSet:
    """Return the records of a set; those of weather differ in their order only."""
    number = list(SETS).index(name)
    return SETS[name](np.random.default_rng((seed, number)))


def _draw_clusters(rng: np.random.Generator, d: int, k: int) -> Floats:
    means = rng.normal(0.0, _SPACING * k ** (1.0 / d), (k, d))
    return means[rng.integers(k, size=N_RECORDS)] + rng.normal(size=(N_RECORDS, d))


def _load_weather(rng: np.random.Generator) -> UnknownSet:
    """Load the demo's hourly weather in random order: a first tenth of the year is winter."""
    records = read_records(DEMO / "data", list(AIRPORTS))
    complete = records[np.isfinite(records).all(axis=1)]
    plausible = complete[complete[:, 2] < _FASTEST_WIND]
    return UnknownSet(name="weather", records=rng.permutation(plausible), n_clusters=5)


def _draw_units(rng: np.random.Generator) -> UnknownSet:
    """Draw columns in units that differ by 10^4, offset by up to 20 spreads."""
    d = 10
    records = _draw_clusters(rng, d, 10) + rng.uniform(-20.0, 20.0, d)
    units = np.geomspace(1e-2, 1e2, d)[rng.permutation(d)]
    return UnknownSet(name="units", records=records * units, n_clusters=10)


def _draw_lognormal(rng: np.random.Generator) -> UnknownSet:
    d = 4
    logs = 0.8 * _draw_clusters(rng, d, 6) + rng.uniform(-3.0, 6.0, d)
    return UnknownSet(name="lognormal", records=np.exp(logs), n_clusters=6, is_logarithmic=True)


def _draw_rare(rng: np.random.Generator) -> UnknownSet:
    """Draw five clusters, and two of 0.7 and 0.3 % at 40 spreads."""
    d = 6
    records = _draw_clusters(rng, d, 5)
    places = rng.normal(size=(2, d))
    places *= _RARE_DISTANCE / np.linalg.norm(places, axis=1, keepdims=True)
    start = 0
    for share, place in zip(_RARE_SHARES, places, strict=True):
        stop = start + round(share * N_RECORDS)
        records[start:stop] = place + rng.normal(size=(stop - start, d))
        start = stop
    records = rng.permutation(records) * np.geomspace(0.1, 10.0, d) + 5.0
    return UnknownSet(name="rare", records=records, n_clusters=7, smallest_share=_RARE_SHARES[1])


def _draw_constants(rng: np.random.Generator) -> UnknownSet:
    """Draw six columns, two constant ones and a flag."""
    d = 6
    records = _draw_clusters(rng, d, 6) * np.geomspace(0.1, 10.0, d) + 3.0
    constants = np.tile([7.5, 0.0], (N_RECORDS, 1))
    flag = (rng.random(N_RECORDS) < 0.3).astype(np.float64)
    records = np.column_stack([records, constants, flag])
    return UnknownSet(name="constants", records=records, n_clusters=6)


def _draw_counts(rng: np.random.Generator) -> UnknownSet:
    """Draw Poisson counts, overdispersed in two of five columns."""
    d, k = 5, 5
    rates = np.exp(rng.normal(2.0, 0.9, (k, d)))[rng.integers(k, size=N_RECORDS)]
    rates[:, 3:] *= rng.gamma(3.0, 1.0 / 3.0, (N_RECORDS, 2))
    records = rng.poisson(rates).astype(np.float64)
    return UnknownSet(name="counts", records=records, n_clusters=k, resolution=1.0)


def _load_functions(rng: np.random.Generator) -> UnknownSet:
    """Load the sizes of the functions in Python's standard library: counts with long tails.

    The records differ between versions of Python.
    """
    records = rng.permutation(measure_functions(Path(sysconfig.get_path("stdlib"))))
    return UnknownSet(
        name="functions", records=records, n_clusters=5, is_logarithmic=True, resolution=1.0
    )


@lru_cache(maxsize=1)
def measure_functions(folder: Path) -> Floats:
    """Measure the first 10,000 functions under a folder: lines, arguments, branches, statements."""
    found: list[tuple[int, int, int, int]] = []
    for path in sorted(folder.rglob("*.py")):
        if {"site-packages", "dist-packages", "test", "tests"} & set(path.parts):
            continue
        if len(found) >= _MOST_FUNCTIONS:
            break
        try:
            tree = ast.parse(path.read_bytes())
        except (SyntaxError, ValueError):  # files for the tests of a parser
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                parts = list(ast.walk(node))
                found.append(
                    (
                        (node.end_lineno or node.lineno) - node.lineno + 1,
                        len(node.args.posonlyargs + node.args.args + node.args.kwonlyargs),
                        sum(isinstance(part, _BRANCHES) for part in parts),
                        sum(isinstance(part, ast.stmt) for part in parts),
                    )
                )
    return np.array(found, dtype=np.float64)


def _draw_pareto(rng: np.random.Generator) -> UnknownSet:
    """Draw Pareto columns of exponent 1.5, whose variance is infinite, about five typical sizes."""
    d, k = 3, 5
    sizes = np.exp(rng.normal(0.0, 1.0, (k, d)))[rng.integers(k, size=N_RECORDS)]
    records = (1.0 + rng.pareto(1.5, (N_RECORDS, d))) * sizes * np.geomspace(1.0, 100.0, d)
    return UnknownSet(name="pareto", records=records, n_clusters=k, is_logarithmic=True)


# New sets go last: the number of a set seeds its draws.
SETS: dict[str, Callable[[np.random.Generator], UnknownSet]] = {
    "constants": _draw_constants,
    "counts": _draw_counts,
    "lognormal": _draw_lognormal,
    "rare": _draw_rare,
    "units": _draw_units,
    "weather": _load_weather,
    "functions": _load_functions,
    "pareto": _draw_pareto,
}
