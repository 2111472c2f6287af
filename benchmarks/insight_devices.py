"""Fleets of 100 devices with liars among them: lamps lit on liars, and on honest devices."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction

import numpy as np

from benchmarks.cases import TEN, make_noise
from benchmarks.datasets import Floats
from benchmarks.insight_studies import Setting, Workshop
from benchmarks.progress import ProgressBar
from benchmarks.rows import Row
from sfumato.learning.estimate.totals import Totals
from sfumato.learning.insight.devices import DeviceExamination, DeviceReport, examine_means
from sfumato.learning.insight.selection import Selection

_FIRST_SEED = 4000
N_DEVICES = 100
_SCALE_FACTOR, _NOISE_FACTOR = 1.8, 9
_UNEVEN = 10.0
"""Concentration of the Dirichlet law that draws cluster weights of devices that differ."""
_LEVELS = (0.05, 0.01)


def list_fleets() -> tuple[Setting, ...]:
    """List the settings: 1,000 records a device, one sketch each."""
    return tuple(
        Setting(
            name=f"{noise} eps={epsilon}",
            source=TEN,
            n_frequencies=200,
            noise=make_noise(noise, Fraction(epsilon)),
            n_records=1000,
            n_sketches=1,
        )
        for noise, epsilon in (("knorm", 1), ("gaussian", 1), ("knorm", 10), ("gaussian", 4))
    )


class _Fleet:
    """Makes devices of one study."""

    def __init__(self, setting: Setting, seed: int) -> None:
        self._workshop = Workshop(setting=setting, seed=seed)
        self._n = setting.n_records

    def draw_honest(self) -> Floats:
        return self._workshop.population.draw(self._n, self._workshop.rng)

    def draw_uneven(self) -> Floats:
        workshop = self._workshop
        assert workshop.population.weights is not None
        weights = workshop.rng.dirichlet(np.full(workshop.population.weights.size, _UNEVEN))
        return workshop.population.weigh(weights).draw(self._n, workshop.rng)

    def list_liars(self) -> dict[str, tuple[Floats, int]]:
        """List the liars by name: their records, and the number of noises that they add."""
        population = self._workshop.population
        dataset, honest = population.dataset, self.draw_honest()
        point = np.full(dataset.n_dimensions, 0.5 * dataset.upper)
        assert population.weights is not None
        alone = population.weigh(np.eye(population.weights.size)[0])
        return {
            "all records in a corner": (np.full_like(honest, dataset.upper), 1),
            "all records of one cluster": (alone.draw(self._n, self._workshop.rng), 1),
            "units wrong by 1.8": (
                np.clip(honest * _SCALE_FACTOR, dataset.lower, dataset.upper),
                1,
            ),
            "30 % of records at one point": (self._replace(0.3, point), 1),
            "10 % of records at one point": (self._replace(0.1, point), 1),
            "3 times the noise": (self.draw_honest(), _NOISE_FACTOR),
            "no noise": (self.draw_honest(), 0),
        }

    def _replace(self, share: float, point: Floats) -> Floats:
        records = self.draw_honest()
        records[: round(share * self._n)] = point
        return records

    def examine(
        self, draw: Callable[[], Floats], liars: dict[str, tuple[Floats, int]]
    ) -> DeviceReport:
        """Examine a fleet of which some are liars."""
        workshop = self._workshop
        devices = [
            workshop.select(records, n_noises=n_noises, name=name)
            for name, (records, n_noises) in liars.items()
        ]
        devices += [
            workshop.select(draw(), name=f"honest {i}") for i in range(N_DEVICES - len(devices))
        ]
        model = workshop.model(*devices)
        return examine_means(model, devices, whole=_add(devices), rng=workshop.rng)


def _add(devices: list[Selection]) -> Totals:
    whole = devices[0].totals
    for device in devices[1:]:
        whole = whole + device.totals
    return whole


def measure_fleets(setting: Setting, n_studies: int, bar: ProgressBar) -> Iterator[Row]:
    """Yield how often liars and honest devices light lamps."""
    alike: list[DeviceExamination] = []
    uneven: list[DeviceExamination] = []
    caught: dict[str, list[DeviceExamination]] = {}
    for seed in range(_FIRST_SEED, _FIRST_SEED + n_studies):
        bar.report(setting.name, 0)
        fleet = _Fleet(setting, seed)
        alike += fleet.examine(fleet.draw_honest, {}).devices
        for each in fleet.examine(fleet.draw_honest, fleet.list_liars()).devices:
            if not each.device.startswith("honest"):
                caught.setdefault(each.device, []).append(each)
        uneven += fleet.examine(fleet.draw_uneven, {}).devices
        bar.report(setting.name, 1)
    name = f"devices, {setting.name}"
    yield _row(name, "snr", float(np.median([each.snr for each in alike])), len(alike))
    yield _row(name, "least_lie", float(np.median([each.least_lie for each in alike])), len(alike))
    for level in _LEVELS:
        found = np.mean([each.p_content < level for each in alike])
        figure = f"false_alarms_{level:.0%}_content".replace("%", "")
        yield _row(name, figure, float(found) / level, len(alike), "the stated rate")
    for case, fleet_found in ((f"{name}, honest", alike), (f"{name}, honest, uneven", uneven)):
        yield from _count_lamps(case, fleet_found)
    for liar, times in caught.items():
        yield from _count_lamps(f"{name}, {liar}", times)


def _count_lamps(case: str, found: list[DeviceExamination]) -> Iterator[Row]:
    for figure, lit in (
        ("content", [each.differs for each in found]),
        ("silence", [each.is_silent for each in found]),
        ("unusual", [each.is_unusual for each in found]),
    ):
        yield _row(case, figure, float(np.mean(lit)), len(lit))


def _row(case: str, figure: str, value: float, runs: int, baseline: str = "none") -> Row:
    return Row("insight", case, figure, value, "1", runs, baseline)
