"""Groups of the demo's weather: airports and quarters, against the same records without noise."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping

import numpy as np

from benchmarks.datasets import AIRPORTS, DEMO, Floats
from benchmarks.insight_studies import release, sum_totals
from benchmarks.runner import Bench, Row, make_rows
from benchmarks.sketches import GeneratorSource
from sfumato.learning.insight.covariance import stack
from sfumato.learning.insight.groups import compare_groups
from sfumato.learning.insight.selection import Selection
from sfumato.shared.plan import SketchPlan, plan_from_spec

_FIRST_SEED = 5000
_QUARTERS = ("Q1", "Q2", "Q3", "Q4")
_N_CLUSTERS = 5
_Cells = Mapping[tuple[str, str], Floats]


def measure_groups(bench: Bench, n_runs: int) -> Iterator[Row]:
    """Yield sizes of airports and quarters at epsilon 1, and how often they are told apart."""
    plan = plan_from_spec(tomllib.loads((DEMO / "plan.toml").read_text(encoding="utf-8")))
    cells = _load_cells(plan)
    bench.expect(2 * n_runs)
    for place, label, values in ((0, "airport", AIRPORTS), (1, "quarter", _QUARTERS)):
        found = []
        for seed in range(_FIRST_SEED, _FIRST_SEED + n_runs):
            groups = _release(plan, cells, place, values, seed)
            found.append(
                compare_groups(plan, groups, label=label, n_clusters=_N_CLUSTERS, seed=seed)[0]
            )
            bench.report(f"weather by {label}")
        exact = _measure_exact(plan, cells, place, values)
        for i, pair in enumerate(found[0].pairs):
            pairs = [run.pairs[i] for run in found]
            truth = f"{exact[pair.first, pair.second]:.2f} without noise"
            figures = (
                ("size", np.median([p.comparison.size for p in pairs]), "plan scale", truth),
                ("size_error", np.median([p.comparison.size_error for p in pairs]), "plan scale"),
                ("told_apart", np.mean([p.is_certain for p in pairs])),
                ("named", np.mean([bool(p.changes) for p in pairs])),
            )
            names = f"{values[pair.first]} and {values[pair.second]}"
            yield from make_rows("insight", f"weather by {label}, {names}", figures, runs=n_runs)


def _load_cells(plan: SketchPlan) -> _Cells:
    """Load the records of each airport and quarter: shapes ``(n, d)``, data units."""
    # Imported here, because it loads scikit-learn.
    from deploy.demo.baseline import read_records, read_times  # noqa: PLC0415

    assert plan.window.origin is not None
    assert plan.window.length_s is not None
    cells = {}
    for airport in AIRPORTS:
        records = read_records(DEMO / "data", [airport])
        quarters = (read_times(DEMO / "data", airport) - plan.window.origin) // plan.window.length_s
        complete = np.isfinite(records).all(axis=1)
        for number, quarter in enumerate(_QUARTERS):
            cells[airport, quarter] = records[complete & (quarters == number)]
    return cells


def _release(
    plan: SketchPlan, cells: _Cells, place: int, values: tuple[str, ...], seed: int
) -> list[Selection]:
    """Release one sketch of each cell, and add up those of each value."""
    source = GeneratorSource(seed)
    released = {key: release(plan, records, source) for key, records in cells.items()}
    selections = []
    for value in values:
        parts = [own for key, own in released.items() if key[place] == value]
        members = frozenset((value, i) for i in range(len(parts)))
        selections.append(Selection(name=value, totals=sum_totals(parts), members=members))
    return selections


def _measure_exact(plan: SketchPlan, cells: _Cells, place: int, values: tuple[str, ...]) -> Floats:
    """Return the sizes of the records themselves, without noise: shape ``(g, g)``."""
    centre, frequencies = plan.quantiser.centre, plan.frequencies.to_angular(plan.quantiser)
    lower = np.array([dimension.lower for dimension in plan.dimensions])
    upper = np.array([dimension.upper for dimension in plan.dimensions])
    means = []
    every = []
    for value in values:
        records = np.concatenate([own for key, own in cells.items() if key[place] == value])
        features = stack(np.exp(1j * (np.clip(records, lower, upper) - centre) @ frequencies))
        means.append(features.mean(axis=0))
        every.append(features)
    pooled = np.concatenate(every).mean(axis=0)
    m = plan.n_frequencies
    lengths = np.sum((frequencies * plan.scale[:, None]) ** 2, axis=0)
    per_shift = float((pooled[:m] ** 2 + pooled[m:] ** 2) @ lengths) / plan.n_axes
    differences = np.array(means)[:, None] - np.array(means)
    sizes: Floats = np.sqrt(np.sum(differences**2, axis=2) / per_shift)
    return sizes
