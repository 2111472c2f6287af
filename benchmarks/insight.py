"""Comparisons of sketches: false alarms against the stated rate, and power.

Run as ``python -m benchmarks.insight [--quick] [--json]``. Pairs of selections of the same records'
population are compared under one fit, of the first pair together. ``false_alarms_5`` is the share
of pairs with p below 5 %, over 5 %: 1 is right. ``all`` and ``moved`` are the omnibus and the
directed statistic, ``single`` the surest change of one parameter, and ``smallest`` the calibrated
p-value of the three. Power is at 1 %; ``found`` is how often the cluster that changed has the
surest change, and ``estimate`` the median estimate of it. Years have 52 windows; changes are at
window 30. ``--case`` chooses parts and settings: names begin with the part. ``directed`` is the
share of pairs whose p-value rests on the directed statistics too. Of six devices none, one, three
or all change, and ``changed``, ``unchanged`` and ``unclear`` are how many are counted so, in the
mean.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain

import numpy as np

from benchmarks.datasets import RealData
from benchmarks.insight_studies import Population, Setting, Workshop, make_setting
from benchmarks.runner import Bench, Row, make_rows, run
from sfumato.learning.insight.changes import compute_levels, find_change_points, watch
from sfumato.learning.insight.comparison import Comparison, compare_means, draw_null
from sfumato.learning.insight.spread import Spread, measure_spread
from sfumato.learning.insight.timeline import follow

NAME = "insight"
_FIRST_SEED = 3000
_CHANGED = 0
"""The true cluster that changes."""
_CHANGE_AT, _N_WINDOWS = 30, 52
_LEVELS = (0.05, 0.01)
_N_STUDIES, _QUICK_STUDIES = 10, 2
_N_PAIRS, _QUICK_PAIRS = 150, 100
_N_TRIES = 10
_N_YEARS = 3
_N_DEVICES, _N_CHANGED, _N_FLEETS = 6, (0, 1, 3, 6), 3
_N_YEARS_DRAWN = 999
_QUICK_SETTINGS = ("mixture knorm eps=4 L=1", "weather knorm eps=1 L=20")
_WEATHER = RealData(name="weather")
_rows = partial(make_rows, NAME)


def list_settings() -> Iterator[Setting]:
    """List the settings of pairs without a change: noise-dominated, then by sampling."""
    for noise in ("knorm", "laplace", "gaussian"):
        for size in (1, 20):
            words = f"{noise} eps=4 L={size}"
            yield make_setting(f"mixture {words}", noise, 4, 200, 5000, size)
    for noise in ("knorm", "laplace", "gaussian"):
        for size in (1, 20):
            words = f"weather {noise} eps=1 L={size}"
            yield make_setting(words, noise, 1, 100, 2000, size, _WEATHER)
    yield make_setting("mixture knorm eps=100 L=1", "knorm", 100, 200, 5000)
    for epsilon in (3, 10, 30):
        words = f"weather knorm eps={epsilon} L=1"
        yield make_setting(words, "knorm", epsilon, 100, 2000, 1, _WEATHER)


def list_powers() -> Iterator[Setting]:
    """List the settings of pairs with a change: 20,000 records a side."""
    for noise, epsilon, size, m in (
        ("knorm", 10, 1, 200),
        ("knorm", 1, 1, 200),
        ("gaussian", 1, 1, 300),
        ("gaussian", 1, 20, 300),
    ):
        yield make_setting(
            f"mixture {noise} eps={epsilon} L={size}", noise, epsilon, m, 20_000, size
        )


def list_years() -> Iterator[Setting]:
    """List the settings of years: 5,000 records a window, or 500 real ones of 26,000."""
    for noise, epsilon, size in (("knorm", 1, 1), ("knorm", 10, 1), ("gaussian", 1, 10)):
        name = f"year of mixture {noise} eps={epsilon} L={size}"
        yield make_setting(name, noise, epsilon, 200, 5000, size)
    yield make_setting("year of weather knorm eps=20 L=1", "knorm", 20, 100, 500, 1, _WEATHER)


def list_fleets() -> Iterator[Setting]:
    """List the settings of devices: the records of one before a change, and after it."""
    for epsilon in (4, 1, 20):
        yield make_setting(f"mixture knorm eps={epsilon}", "knorm", epsilon, 200, 5000)
        words = f"weather knorm eps={epsilon}"
        yield make_setting(words, "knorm", epsilon, 100, 1000, 1, _WEATHER)


def list_changes(population: Population) -> dict[str, tuple[Population, float | None]]:
    """List the changes by name, each with the true size of the parameter that changes."""
    moved, grown = population.move, population.grow
    return {
        "moves 0.3 sd": (moved(_CHANGED, 0.3), 0.3),
        "moves 1 sd": (moved(_CHANGED, 1.0), 1.0),
        "grows 10 to 13 %": (grown(_CHANGED, 0.13), float(np.log(1.3))),
        "grows 10 to 20 %": (grown(_CHANGED, 0.2), float(np.log(2.0))),
        "new cluster of 1 %": (population.join(0.01), None),
        "new cluster of 3 %": (population.join(0.03), None),
    }


def measure(bench: Bench) -> Iterator[Row]:
    """Yield the rows of the requested parts and settings."""
    parts: tuple[tuple[str, Iterator[Setting], Callable[[Bench, Setting], Iterator[Row]]], ...] = (
        ("pairs", list_settings(), measure_false_alarms),
        ("power", list_powers(), measure_power),
        ("years", list_years(), measure_years),
        ("devices", list_fleets(), measure_devices),
    )
    for part, settings, measure_one in parts:
        for i, setting in enumerate(settings):
            is_quick = setting.name in _QUICK_SETTINGS if part == "pairs" else i == 0
            if bench.includes(f"{part} {setting.name}", in_quick=is_quick):
                yield from measure_one(bench, setting)


def _open_workshops(bench: Bench, setting: Setting) -> Iterator[Workshop]:
    seeds = bench.list_seeds(_N_STUDIES, _QUICK_STUDIES, first=_FIRST_SEED)
    bench.expect(len(seeds))
    for seed in seeds:
        bench.report(setting.name, 0)
        yield Workshop(setting=setting, seed=seed)
        bench.report(setting.name)


def _list_p_values(found: Sequence[Comparison]) -> dict[str, list[float]]:
    return {
        "smallest": [comparison.p for comparison in found],
        "all": [comparison.p_all for comparison in found],
        "moved": [comparison.p_moved for comparison in found],
        "single": [comparison.p_single for comparison in found],
    }


def measure_false_alarms(bench: Bench, setting: Setting) -> Iterator[Row]:
    """Yield the shares of pairs without a change that are told apart, over the stated rate."""
    found: list[Comparison] = []
    directed: list[bool] = []
    for workshop in _open_workshops(bench, setting):
        model = workshop.model(*workshop.select_pair())
        n_pairs = _QUICK_PAIRS if bench.quick else _N_PAIRS
        pairs = [workshop.average_pair() for _ in range(n_pairs)]
        # The law depends on numbers of records and sketches alone, equal for all pairs.
        law = draw_null(model, *pairs[0], rng=workshop.rng)
        directed.append(law.is_directed)
        found += [compare_means(model, *pair, law) for pair in pairs]
    scores = [[change.estimate / change.error for change in each.changes] for each in found]
    figures = [
        (f"false_alarms_{100 * level:.0f}_{name}", np.mean(np.array(values) < level) / level)
        for level in _LEVELS
        for name, values in _list_p_values(found).items()
    ]
    figures.append(("directed", np.mean(directed)))
    figures.append(("rms_score", np.sqrt(np.mean(np.square(scores)))))
    case = f"no change, {setting.name}"
    yield from _rows(case, figures, runs=len(found), baseline="the stated rate")


def measure_power(bench: Bench, setting: Setting) -> Iterator[Row]:
    """Yield how often changes are found at 1 %, and named."""
    found: dict[str, list[Comparison]] = {}
    named: dict[str, list[tuple[bool, float]]] = {}
    truths: dict[str, float] = {}
    for workshop in _open_workshops(bench, setting):
        for name, (changed, truth) in list_changes(workshop.population).items():
            model, law = workshop.model(*workshop.select_pair(changed)), None
            for _ in range(_N_TRIES):
                pair = workshop.average_pair(changed)
                law = law or draw_null(model, *pair, rng=workshop.rng)
                comparison = compare_means(model, *pair, law)
                found.setdefault(name, []).append(comparison)
                if truth is not None:
                    truths[name] = truth
                    own, quantity = workshop.find_cluster(model, _CHANGED), name.split()[0]
                    named.setdefault(name, []).append(_name_change(comparison, own, quantity))
    for name, comparisons in found.items():
        figures: list[tuple[str, float, str, str]] = [
            (f"power_{each}", float(np.mean(np.array(values) < _LEVELS[1])), "1", "1")
            for each, values in _list_p_values(comparisons).items()
        ]
        size = float(np.median([comparison.size for comparison in comparisons]))
        figures.append(("size", size, "plan scale", "none"))
        if name in named:
            right, estimates = np.array(named[name], dtype=np.float64).T
            figures.append(("found", float(np.mean(right)), "1", "1"))
            true = f"true {truths[name]:.2f}"
            figures.append(("estimate", float(np.median(estimates)), "1", true))
        yield from _rows(f"{name}, {setting.name}", figures, runs=len(comparisons))


def _name_change(comparison: Comparison, cluster: int, verb: str) -> tuple[bool, float]:
    """Return whether the surest change is of a cluster, and the estimate of its own change."""
    quantity = "centre" if verb == "moves" else "weight"
    surest = max(comparison.changes, key=lambda c: abs(c.estimate) / c.error)
    own = (c.estimate for c in comparison.changes if (c.cluster, c.quantity) == (cluster, quantity))
    return surest.cluster == cluster, next(own)


def measure_years(bench: Bench, setting: Setting) -> Iterator[Row]:
    """Yield false alarms of the monitor and of the scan, and the places of found changes."""
    p_values: list[float] = []
    misses: dict[str, list[int]] = {}
    for workshop in _open_workshops(bench, setting):
        for name, changed in _list_yearly_changes(workshop).items():
            is_still = name == "no change"
            for _ in range(1 if bench.quick or not is_still else _N_YEARS):
                windows = [
                    workshop.select(
                        (changed if t >= _CHANGE_AT else workshop.population).draw(
                            setting.n_records, workshop.rng
                        )
                    )
                    for t in range(_N_WINDOWS)
                ]
                timeline = follow(workshop.model(*windows), windows)
                points = find_change_points(timeline, rng=workshop.rng, n_years=_N_YEARS_DRAWN)
                away = (abs(point.place - _CHANGE_AT) for point in points)
                misses.setdefault(name, []).append(min(away, default=_N_WINDOWS))
                if is_still:
                    levels = compute_levels(_N_WINDOWS - 1, windows_per_year=_N_WINDOWS)
                    readings = watch(timeline, levels, rng=workshop.rng, n_years=_N_YEARS_DRAWN)
                    p_values += [reading.p for reading in readings]
    rates = [
        (f"monitor_false_alarms_{100 * level:.2g}", np.mean(np.array(p_values) < level) / level)
        for level in (0.05, 1.0 / _N_WINDOWS)
    ]
    yield from _rows(setting.name, rates, runs=len(p_values), baseline="1")
    for name, each in misses.items():
        # Without a change point the place of the change is missed by a year.
        share = np.mean(np.array(each) < _N_WINDOWS)
        figures = [("scan_finds", share, "1", "5 % without")]
        if name != "no change":
            figures.append(("median_miss", np.median(each), "windows", "0"))
        yield from _rows(f"{name}, {setting.name}", figures, runs=len(each))


def measure_devices(bench: Bench, setting: Setting) -> Iterator[Row]:
    """Yield in how many devices a change is seen, of those that change and those that do not."""
    found: dict[int, list[Spread]] = {n_changed: [] for n_changed in _N_CHANGED}
    for workshop in _open_workshops(bench, setting):
        *_, changed = _list_yearly_changes(workshop).values()
        for n_changed, spreads in found.items():
            for _ in range(_N_FLEETS):
                pairs = [
                    workshop.select_pair(changed if i < n_changed else None)
                    for i in range(_N_DEVICES)
                ]
                sides = [(before.totals, after.totals) for before, after in pairs]
                spread = measure_spread(workshop.model(*chain(*pairs)), sides)
                if spread is not None:
                    spreads.append(spread)
    for n_changed, spreads in found.items():
        figures = [
            (name, np.mean([getattr(each, f"n_{name}") for each in spreads]))
            for name in ("changed", "unchanged", "unclear")
        ]
        case = f"{n_changed} of {_N_DEVICES} devices change, {setting.name}"
        yield from _rows(case, figures, runs=len(spreads), baseline=f"{n_changed} change")


def _list_yearly_changes(workshop: Workshop) -> dict[str, Population]:
    population = workshop.population
    if population.means is None:
        moved = replace(population, shift=0.3 * float(workshop.plan.scale[0]))
        return {"no change": population, "all move 0.3 scales": moved}
    changes = list_changes(population)
    names = ("grows 10 to 13 %", "moves 0.3 sd", "moves 1 sd")
    return {"no change": population, **{name: changes[name][0] for name in names}}


if __name__ == "__main__":
    run(NAME, __doc__, measure)
