"""Groups of the demo's weather: airports and quarters, against the same records without noise."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping

import numpy as np

from benchmarks.datasets import AIRPORTS, DEMO, Floats
from benchmarks.insight_studies import RandomBytes
from benchmarks.progress import ProgressBar
from benchmarks.rows import Row
from sfumato.learning.estimate.limbs import split_limbs
from sfumato.learning.estimate.sizes import SizeMoments
from sfumato.learning.estimate.totals import Totals
from sfumato.learning.insight.covariance import stack
from sfumato.learning.insight.groups import GroupComparison, compare_groups
from sfumato.learning.insight.selection import Selection
from sfumato.shared.core import SketchAccumulator
from sfumato.shared.plan import SketchPlan, plan_from_spec

_FIRST_SEED = 5000
_QUARTERS = ("Q1", "Q2", "Q3", "Q4")
_N_CLUSTERS = 5
_Cells = Mapping[tuple[str, str], Floats]


def measure_groups(n_runs: int, bar: ProgressBar) -> Iterator[Row]:
    """Yield sizes of airports and quarters at epsilon 1, and how often they are told apart."""
    plan = plan_from_spec(tomllib.loads((DEMO / "plan.toml").read_text(encoding="utf-8")))
    cells = _load_cells(plan)
    for place, label, values in ((0, "airport", AIRPORTS), (1, "quarter", _QUARTERS)):
        found: list[GroupComparison] = []
        for seed in range(_FIRST_SEED, _FIRST_SEED + n_runs):
            bar.report(f"weather by {label}", 0)
            groups = _release(plan, cells, place, values, seed)
            found.append(
                compare_groups(plan, groups, label=label, n_clusters=_N_CLUSTERS, seed=seed)[0]
            )
            bar.report(f"weather by {label}", 1)
        exact = _measure_exact(plan, cells, place, values)
        for i, pair in enumerate(found[0].pairs):
            first, second = values[pair.first], values[pair.second]
            case = f"weather by {label}, {first} and {second}"
            sizes = [run.pairs[i].comparison.size for run in found]
            errors = [run.pairs[i].comparison.size_error for run in found]
            certain = [run.pairs[i].is_certain for run in found]
            named = [bool(run.pairs[i].changes) for run in found]
            truth = f"{exact[pair.first, pair.second]:.2f} without noise"
            yield _row(case, "size", float(np.median(sizes)), n_runs, truth, "plan scale")
            yield _row(case, "size_error", float(np.median(errors)), n_runs, unit="plan scale")
            yield _row(case, "told_apart", float(np.mean(certain)), n_runs)
            yield _row(case, "named", float(np.mean(named)), n_runs)


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
    source = RandomBytes(seed)
    groups: dict[str, list[Totals]] = {value: [] for value in values}
    for key, records in cells.items():
        accumulator = SketchAccumulator(plan.statistic_of(b"", block=0))
        accumulator.add(records)
        sums = plan.mechanism.add_noise(accumulator.sums, source)
        size = len(records)
        groups[key[place]].append(
            Totals(
                sums=sums,
                size_sums=split_limbs([size * total for total in sums.tolist()]),
                moments=SizeMoments.of_sizes([size]),
            )
        )
    selections = []
    for value, parts in groups.items():
        whole = parts[0]
        for part in parts[1:]:
            whole = whole + part
        members = frozenset((value, i) for i in range(len(parts)))
        selections.append(Selection(name=value, totals=whole, members=members))
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


def _row(
    case: str, figure: str, value: float, runs: int, baseline: str = "none", unit: str = "1"
) -> Row:
    return Row("insight", case, figure, value, unit, runs, baseline)
