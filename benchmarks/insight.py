"""Comparisons of sketches: false alarms against the stated rate, and power.

Run as ``python -m benchmarks.insight [--quick] [--json]``. Pairs of selections of the same records'
population are compared under one fit, of the first pair together. ``false_alarms_5`` is the share
of pairs with p below 5 %, over 5 %: 1 is right. ``all`` and ``moved`` are the omnibus and the
directed statistic, ``single`` the surest change of one parameter, and ``smallest`` the calibrated
p-value of the three. Power is at 1 %; ``found`` is how often the cluster that changed has the
surest change, and ``estimate`` the median estimate of it. Years have 52 windows; changes are at
window 30.
Fleets have 100 devices; ``content``, ``silence`` and ``unusual`` are the shares of devices whose
lamps are lit. ``--part`` measures one part alone, and ``--setting`` the settings whose names hold
a text. ``directed`` is the share of pairs whose p-value rests on the directed statistics too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from benchmarks.cases import TEN, make_noise
from benchmarks.datasets import RealData
from benchmarks.insight_devices import list_fleets, measure_fleets
from benchmarks.insight_groups import measure_groups
from benchmarks.insight_studies import Population, Setting, Workshop
from benchmarks.progress import ProgressBar, show_progress
from benchmarks.rows import Row, create_parser, print_rows, read_count
from sfumato.learning.insight.changes import compute_levels, find_change_points, watch
from sfumato.learning.insight.comparing import Comparison, compare_means, draw_null
from sfumato.learning.insight.timeline import follow

NAME = "insight"
_FIRST_SEED = 3000
_CHANGED = 0
"""The true cluster that changes."""
_CHANGE_AT, _N_WINDOWS = 30, 52
_LEVELS = (0.05, 0.01)
PARTS = ("pairs", "power", "years", "devices", "groups")
_N_YEARS_DRAWN = 999
_QUICK_SETTINGS = ("mixture knorm eps=4 L=1", "weather knorm eps=1 L=20")


@dataclass(frozen=True, kw_only=True)
class Scope:
    """Numbers of runs: studies with a fit each, pairs and tries in each, years, and fleets."""

    n_studies: int
    n_pairs: int
    n_tries: int
    n_years: int
    n_fleets: int
    first_seed: int = _FIRST_SEED


QUICK = Scope(n_studies=2, n_pairs=100, n_tries=10, n_years=1, n_fleets=1)
FULL = Scope(n_studies=10, n_pairs=150, n_tries=10, n_years=3, n_fleets=5)


def list_settings() -> tuple[Setting, ...]:
    """List the settings of pairs without a change: noise-dominated, then by sampling."""
    mixture, weather = TEN, RealData(name="weather")
    strong = [
        Setting(
            name=f"{name} {noise} eps={epsilon} L={n_sketches}",
            source=source,
            n_frequencies=m,
            noise=make_noise(noise, Fraction(epsilon)),
            n_records=n,
            n_sketches=n_sketches,
        )
        for name, source, m, n, epsilon in (
            ("mixture", mixture, 200, 5000, 4),
            ("weather", weather, 100, 2000, 1),
        )
        for noise in ("knorm", "laplace", "gaussian")
        for n_sketches in (1, 20)
    ]
    weak = [
        Setting(
            name=f"{name} knorm eps={epsilon} L=1",
            source=source,
            n_frequencies=m,
            noise=make_noise("knorm", Fraction(epsilon)),
            n_records=n,
            n_sketches=1,
        )
        for name, source, m, n, epsilon in (
            ("mixture", mixture, 200, 5000, 100),
            ("weather", weather, 100, 2000, 3),
            ("weather", weather, 100, 2000, 10),
            ("weather", weather, 100, 2000, 30),
        )
    ]
    return (*strong, *weak)


def list_powers() -> tuple[Setting, ...]:
    """List the settings of pairs with a change: 20,000 records a side."""
    return tuple(
        Setting(
            name=f"mixture {noise} eps={epsilon} L={n_sketches}",
            source=TEN,
            n_frequencies=m,
            noise=make_noise(noise, Fraction(epsilon)),
            n_records=20_000,
            n_sketches=n_sketches,
        )
        for noise, epsilon, n_sketches, m in (
            ("knorm", 10, 1, 200),
            ("knorm", 1, 1, 200),
            ("gaussian", 1, 1, 300),
            ("gaussian", 1, 20, 300),
        )
    )


def list_years() -> tuple[Setting, ...]:
    """List the settings of years: 5,000 records a window, or 500 real ones of 26,000."""
    real = Setting(
        name="year of weather knorm eps=20 L=1",
        source=RealData(name="weather"),
        n_frequencies=100,
        noise=make_noise("knorm", Fraction(20)),
        n_records=500,
        n_sketches=1,
    )
    mixtures = tuple(
        Setting(
            name=f"year of mixture {noise} eps={epsilon} L={n_sketches}",
            source=TEN,
            n_frequencies=200,
            noise=make_noise(noise, Fraction(epsilon)),
            n_records=5000,
            n_sketches=n_sketches,
        )
        for noise, epsilon, n_sketches in (("knorm", 1, 1), ("knorm", 10, 1), ("gaussian", 1, 10))
    )
    return (*mixtures, real)


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


def measure(
    quick: bool,
    parts: Sequence[str] = PARTS,
    *,
    n_studies: int | None = None,
    text: str = "",
    first_seed: int = _FIRST_SEED,
) -> Iterator[Row]:
    """Yield every row of some parts; few studies and settings if ``quick``.

    Of the settings whose names hold ``text``; groups have none.
    """
    scope = QUICK if quick else FULL
    scope = replace(scope, n_studies=n_studies or scope.n_studies, first_seed=first_seed)
    only = 1 if quick else None
    settings = {
        "pairs": [s for s in list_settings() if not quick or s.name in _QUICK_SETTINGS],
        "power": list_powers()[:only],
        "years": list_years()[:only],
        "devices": list_fleets()[:only],
        "groups": [None],
    }
    for part, listed in settings.items():
        settings[part] = [each for each in listed if each is None or text in each.name]
    runs = {"devices": scope.n_fleets, "groups": 2 * scope.n_fleets}
    total = sum(len(settings[part]) * runs.get(part, scope.n_studies) for part in parts)
    measures = {"pairs": measure_false_alarms, "power": measure_power, "years": measure_years}
    with show_progress(total) as bar:
        for part in parts:
            for setting in settings[part]:
                if setting is None:
                    yield from measure_groups(scope.n_fleets, bar)
                elif part == "devices":
                    yield from measure_fleets(setting, scope.n_fleets, bar)
                else:
                    yield from measures[part](setting, scope, bar)


def measure_false_alarms(setting: Setting, scope: Scope, bar: ProgressBar) -> Iterator[Row]:
    """Yield the shares of pairs without a change that are told apart, over the stated rate."""
    found: list[Comparison] = []
    directed_laws: list[bool] = []
    for seed in range(scope.first_seed, scope.first_seed + scope.n_studies):
        bar.report(setting.name, 0)
        workshop = Workshop(setting=setting, seed=seed)
        model = workshop.model(*workshop.select_pair())
        pairs = [workshop.average_pair() for _ in range(scope.n_pairs)]
        # The law depends on numbers of records and sketches alone, equal for all pairs.
        law = draw_null(model, *pairs[0], rng=workshop.rng)
        directed_laws.append(law.is_directed)
        found += [compare_means(model, *pair, law) for pair in pairs]
        bar.report(setting.name, 1)
    p_values = {
        "smallest": [comparison.p for comparison in found],
        "all": [comparison.p_all for comparison in found],
        "moved": [comparison.p_moved for comparison in found],
        "single": [comparison.p_single for comparison in found],
    }
    for level in _LEVELS:
        for name, values in p_values.items():
            ratio = float(np.mean(np.array(values) < level)) / level
            figure = f"false_alarms_{level:.0%}_{name}".replace("%", "")
            yield _row(f"no change, {setting.name}", figure, ratio, len(found), "the stated rate")
    directed = float(np.mean(directed_laws))
    yield _row(f"no change, {setting.name}", "directed", directed, len(found), "none")
    scores = [[change.estimate / change.error for change in each.changes] for each in found]
    yield _row(
        f"no change, {setting.name}",
        "rms_score",
        float(np.sqrt(np.mean(np.square(scores)))),
        len(found),
        "1",
    )


def measure_power(setting: Setting, scope: Scope, bar: ProgressBar) -> Iterator[Row]:
    """Yield how often changes are found at 1 %, and named."""
    found: dict[str, list[Comparison]] = {}
    estimates: dict[str, list[float]] = {}
    named: dict[str, list[bool]] = {}
    for seed in range(scope.first_seed, scope.first_seed + scope.n_studies):
        bar.report(setting.name, 0)
        workshop = Workshop(setting=setting, seed=seed)
        law = None
        for name, (changed, truth) in list_changes(workshop.population).items():
            model = workshop.model(*workshop.select_pair(changed))
            law = None
            for _ in range(scope.n_tries):
                pair = workshop.average_pair(changed)
                law = law or draw_null(model, *pair, rng=workshop.rng)
                comparison = compare_means(model, *pair, law)
                found.setdefault(name, []).append(comparison)
                if truth is None:
                    continue
                own = workshop.find_cluster(model, _CHANGED)
                surest = max(comparison.changes, key=lambda c: abs(c.estimate) / c.error)
                named.setdefault(name, []).append(surest.cluster == own)
                quantity = "centre" if "moves" in name else "weight"
                estimates.setdefault(name, []).append(
                    next(
                        c.estimate
                        for c in comparison.changes
                        if c.cluster == own and c.quantity == quantity
                    )
                )
        bar.report(setting.name, 1)
    for name, comparisons in found.items():
        yield from _summarise_power(f"{name}, {setting.name}", comparisons)
        if name in named:
            case, n = f"{name}, {setting.name}", len(named[name])
            yield _row(case, "found", float(np.mean(named[name])), n, "1")
            truth = list_changes(workshop.population)[name][1]
            yield _row(case, "estimate", float(np.median(estimates[name])), n, f"true {truth:.2f}")


def _summarise_power(case: str, comparisons: Sequence[Comparison]) -> Iterator[Row]:
    for figure, p_values in (
        ("power_smallest", [c.p for c in comparisons]),
        ("power_all", [c.p_all for c in comparisons]),
        ("power_moved", [c.p_moved for c in comparisons]),
        ("power_single", [c.p_single for c in comparisons]),
    ):
        power = float(np.mean(np.array(p_values) < 0.01))
        yield _row(case, figure, power, len(comparisons), "1")
    size = float(np.median([comparison.size for comparison in comparisons]))
    yield _row(case, "size", size, len(comparisons), "none", "plan scale")


def measure_years(setting: Setting, scope: Scope, bar: ProgressBar) -> Iterator[Row]:
    """Yield false alarms of the monitor and of the scan, and the places of found changes."""
    p_values: list[float] = []
    scans: dict[str, list[bool]] = {}
    misses: dict[str, list[int]] = {}
    for seed in range(scope.first_seed, scope.first_seed + scope.n_studies):
        bar.report(setting.name, 0)
        workshop = Workshop(setting=setting, seed=seed)
        for name, changed in _list_yearly_changes(workshop).items():
            rejected = scans.setdefault(name, [])
            for _ in range(scope.n_years if name == "no change" else 1):
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
                rejected.append(bool(points))
                misses.setdefault(name, []).append(
                    min((abs(point.place - _CHANGE_AT) for point in points), default=_N_WINDOWS)
                )
                if name == "no change":
                    levels = compute_levels(_N_WINDOWS - 1, windows_per_year=_N_WINDOWS)
                    readings = watch(timeline, levels, rng=workshop.rng, n_years=_N_YEARS_DRAWN)
                    p_values += [reading.p for reading in readings]
        bar.report(setting.name, 1)
    for level in (0.05, 1.0 / _N_WINDOWS):
        ratio = float(np.mean(np.array(p_values) < level)) / level
        yield _row(
            setting.name, f"monitor_false_alarms_{100 * level:.2g}", ratio, len(p_values), "1"
        )
    for name, rejected in scans.items():
        case = f"{name}, {setting.name}"
        yield _row(case, "scan_finds", float(np.mean(rejected)), len(rejected), "5 % without")
        if name != "no change":
            yield _row(
                case, "median_miss", float(np.median(misses[name])), len(rejected), "0", "windows"
            )


def _list_yearly_changes(workshop: Workshop) -> dict[str, Population]:
    population = workshop.population
    if population.means is None:
        moved = replace(population, shift=0.3 * float(workshop.plan.scale[0]))
        return {"no change": population, "all move 0.3 scales": moved}
    changes = list_changes(population)
    names = ("grows 10 to 13 %", "moves 0.3 sd", "moves 1 sd")
    return {"no change": population, **{name: changes[name][0] for name in names}}


def _row(case: str, figure: str, value: float, runs: int, baseline: str, unit: str = "1") -> Row:
    return Row(NAME, case, figure, value, unit, runs, baseline)


def main() -> None:
    """Read the options and print the rows."""
    parser = create_parser(NAME, (__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--part", choices=PARTS, action="append", help="measure this part; repeat for more"
    )
    parser.add_argument(
        "--studies", type=read_count, help="studies of each setting, with a fit each"
    )
    parser.add_argument(
        "--setting", default="", help="measure the settings whose names hold this text"
    )
    parser.add_argument(
        "--first-seed", type=read_count, default=_FIRST_SEED, help="seed of the first study"
    )
    options = parser.parse_args()
    rows = measure(
        options.quick,
        options.part or PARTS,
        n_studies=options.studies,
        text=options.setting,
        first_seed=options.first_seed,
    )
    print_rows(rows, as_json=options.json)


if __name__ == "__main__":
    main()
