"""Fleets of 100 devices with liars among them: lamps lit on liars, and on honest devices."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

import numpy as np

from benchmarks.datasets import Floats
from benchmarks.insight_studies import Setting, Workshop, make_setting, sum_totals
from benchmarks.runner import Bench, Row, make_rows
from sfumato.learning.insight.devices import DeviceExamination, examine_means

_FIRST_SEED = 4000
N_DEVICES = 100
_SCALE_FACTOR, _NOISE_FACTOR = 1.8, 9
_UNEVEN = 10.0
"""Concentration of the Dirichlet law that draws cluster weights of devices that differ."""
_LEVELS = (0.05, 0.01)
Liars = Mapping[str, tuple[Floats, int]]
"""Records of a liar, and the number of noises that it adds, by its name."""


def list_fleets() -> tuple[Setting, ...]:
    """List the settings: 1,000 records a device, one sketch each."""
    return tuple(
        make_setting(f"{noise} eps={epsilon}", noise, epsilon, 200, 1000)
        for noise, epsilon in (("knorm", 1), ("gaussian", 1), ("knorm", 10), ("gaussian", 4))
    )


class _Fleet:
    """Makes devices of one study."""

    def __init__(self, setting: Setting, seed: int) -> None:
        self._workshop = Workshop(setting=setting, seed=seed)
        self._n = setting.n_records

    def draw_honest(self, weights: Floats | None = None) -> Floats:
        population = self._workshop.population
        if weights is not None:
            population = replace(population, weights=weights)
        return population.draw(self._n, self._workshop.rng)

    def draw_uneven(self) -> Floats:
        n_clusters = self._workshop.population.dataset.n_clusters
        return self.draw_honest(self._workshop.rng.dirichlet(np.full(n_clusters, _UNEVEN)))

    def list_liars(self) -> Liars:
        """List the liars by name."""
        dataset, honest = self._workshop.population.dataset, self.draw_honest()
        point = np.full(dataset.n_dimensions, 0.5 * dataset.upper)
        alone = np.eye(dataset.n_clusters)[0]
        scaled = np.clip(honest * _SCALE_FACTOR, dataset.lower, dataset.upper)
        return {
            "all records in a corner": (np.full_like(honest, dataset.upper), 1),
            "all records of one cluster": (self.draw_honest(alone), 1),
            "units wrong by 1.8": (scaled, 1),
            "30 % of records at one point": (self._replace(0.3, point), 1),
            "10 % of records at one point": (self._replace(0.1, point), 1),
            "3 times the noise": (self.draw_honest(), _NOISE_FACTOR),
            "no noise": (self.draw_honest(), 0),
        }

    def _replace(self, share: float, point: Floats) -> Floats:
        records = self.draw_honest()
        records[: round(share * self._n)] = point
        return records

    def examine(self, draw: Callable[[], Floats], liars: Liars) -> tuple[DeviceExamination, ...]:
        """Examine a fleet of which some are liars."""
        workshop = self._workshop
        devices = [
            workshop.select(records, n_noises=n_noises, name=name)
            for name, (records, n_noises) in liars.items()
        ]
        devices += [
            workshop.select(draw(), name=f"honest {i}") for i in range(N_DEVICES - len(devices))
        ]
        model, whole = workshop.model(*devices), sum_totals([each.totals for each in devices])
        return tuple(examine_means(model, devices, whole=whole, rng=workshop.rng).devices)


def measure_fleets(bench: Bench, setting: Setting, n_studies: int) -> Iterator[Row]:
    """Yield how often liars and honest devices light lamps."""
    alike: list[DeviceExamination] = []
    uneven: list[DeviceExamination] = []
    caught: dict[str, list[DeviceExamination]] = {}
    bench.expect(n_studies)
    for seed in range(_FIRST_SEED, _FIRST_SEED + n_studies):
        fleet = _Fleet(setting, seed)
        alike += fleet.examine(fleet.draw_honest, {})
        for each in fleet.examine(fleet.draw_honest, fleet.list_liars()):
            if not each.device.startswith("honest"):
                caught.setdefault(each.device, []).append(each)
        uneven += fleet.examine(fleet.draw_uneven, {})
        bench.report(setting.name)
    name, figures = f"devices, {setting.name}", []
    figures.append(("snr", np.median([each.snr for each in alike])))
    figures.append(("least_lie", np.median([each.least_lie for each in alike])))
    for level in _LEVELS:
        ratio = np.mean([each.p_content < level for each in alike]) / level
        figures.append((f"false_alarms_{100 * level:.0f}_content", ratio))
    yield from make_rows("insight", name, figures, runs=len(alike))
    groups = {"honest": alike, "honest, uneven": uneven, **caught}
    for words, found in groups.items():
        lamps = (
            ("content", np.mean([each.differs for each in found])),
            ("silence", np.mean([each.is_silent for each in found])),
            ("unusual", np.mean([each.is_unusual for each in found])),
        )
        yield from make_rows("insight", f"{name}, {words}", lamps, runs=len(found))
