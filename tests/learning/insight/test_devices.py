"""Devices: lamps at the stated rates on honest fleets, and lit where devices lie."""

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from sfumato.learning.estimate.totals import Totals
from sfumato.learning.insight.devices import (
    DeviceExamination,
    DeviceReport,
    examine_devices,
    examine_means,
)
from sfumato.learning.insight.selection import Selection, average
from sfumato.shared.core import SketchAccumulator
from sfumato.shared.errors import DecodingError
from sfumato.shared.plan import SketchPlan, WindowRule
from tests.learning.insight.drawing import (
    MIXTURE,
    Fleet,
    make_examination,
    make_model,
    make_plan,
)

LIE = replace(MIXTURE, means=np.full((3, 2), 15.0))


def add(devices: list[Selection]) -> Totals:
    whole = devices[0].totals
    for device in devices[1:]:
        whole = whole + device.totals
    return whole


def examine(plan: SketchPlan, devices: list[Selection], **options: Any) -> DeviceReport:
    whole = options.pop("whole", None) or add(devices)
    rng = np.random.default_rng(5)
    return examine_means(make_model(plan), devices, whole=whole, rng=rng, **options)


def draw_fleet(plan: SketchPlan, n: int, seed: int = 1, **options: Any) -> list[Selection]:
    fleet = Fleet(plan, seed)
    return [fleet.draw(500, name=f"device {i}", **options) for i in range(n)]


def find(report: DeviceReport, name: str) -> DeviceExamination:
    return next(each for each in report.devices if each.device == name)


@pytest.mark.parametrize(
    ("mechanism", "changes", "n_sketches"),
    [
        ("discrete-knorm", {"epsilon": Fraction(50)}, 1),
        ("discrete-gaussian", {"epsilon": Fraction(1)}, 1),
        ("discrete-knorm", {"frequencies_per_sketch": 20, "epsilon": Fraction(5)}, 2),
        (
            "discrete-knorm",
            {
                "epsilon": Fraction(5),
                "neighbouring": "add-remove-one",
                "window": WindowRule(kind="time", origin=60, length_s=60),
            },
            1,
        ),
    ],
)
def test_honest_devices_light_lamps_at_the_stated_rate(
    mechanism: str, changes: dict[str, Any], n_sketches: int
) -> None:
    plan = make_plan(40, mechanism, **changes)
    report = examine(plan, draw_fleet(plan, 200, n_sketches=n_sketches), n_draws=1999)
    p_values = np.array([each.p_content for each in report.devices])
    # Seeded. A standard error of 1.5 % at 5 % and 2.8 % at 20 %, of 200 devices.
    assert np.mean(p_values < 0.05) == pytest.approx(0.05, abs=0.04)
    assert np.mean(p_values < 0.2) == pytest.approx(0.2, abs=0.07)
    # Of all devices together, 1 % of fleets have any; silence is rarer, and so are peers beyond 4.
    assert not any(each.differs or each.is_silent or each.is_unusual for each in report.devices)
    assert np.mean([each.p_silence < 0.05 for each in report.devices]) < 0.09
    assert sum(each.share for each in report.devices) == pytest.approx(1.0, abs=0.02)
    assert np.median([each.z for each in report.devices]) == pytest.approx(0.0, abs=0.01)


def test_a_device_that_lies_differs_and_is_unusual() -> None:
    plan = make_plan(40, epsilon=Fraction(5))
    fleet = Fleet(plan, 2)
    devices = [fleet.draw(500, name=f"device {i}") for i in range(30)]
    devices.append(fleet.draw(500, name="liar", mixture=LIE))
    report = examine(plan, devices)
    lit = [each.device for each in report.devices if each.differs and each.is_unusual]
    assert lit == ["liar"]
    assert report.devices[0].device == "liar"
    assert report.devices[0].size > 1.0
    assert any("unusual among their peers: liar" in line for line in report.describe())


def test_a_device_that_adds_no_noise_is_silent() -> None:
    plan = make_plan(40)
    devices = draw_fleet(plan, 20)
    records = MIXTURE.draw_samples(500, rng=np.random.default_rng(8))
    accumulator = SketchAccumulator(plan.statistic_of(b"", block=0))
    accumulator.add(records)
    quiet = replace(devices[0].totals, sums=accumulator.sums)
    devices[0] = replace(devices[0], totals=quiet, name="quiet")
    report = examine(plan, devices)
    assert [each.device for each in report.devices if each.is_silent] == ["quiet"]
    assert find(report, "quiet").p_silence < 1e-4
    assert any("too little noise" in line and "quiet" in line for line in report.describe())


def test_where_most_differ_no_rest_is_called_alike_and_the_furthest_is_named() -> None:
    def make(name: str, size: float, *, differs: bool) -> DeviceExamination:
        return make_examination(name, size, 0.1, differs=differs)

    def describe(*devices: DeviceExamination) -> str:
        report = DeviceReport(
            devices=devices, unexamined=(), level=0.05, n_draws=999, assumptions=()
        )
        return report.describe()[-1]

    few = [make("a", 0.0, differs=False), make("b", 0.0, differs=False)]
    odd = make("odd", 2.0, differs=True)
    assert describe(*few, odd) == "1 of 3 devices are different from the rest: odd"
    pulled = [make(name, 0.3, differs=True) for name in "cd"]
    text = describe(*few, *pulled, odd)
    assert text.startswith("3 of 5 devices are different from the rest, so that no rest is alike")
    assert text.endswith("Look first at odd, which is furthest from it (more than 1 scale)")
    assert describe(*few) == "none of 2 devices stands out"


def test_where_honest_devices_differ_only_the_odd_one_is_unusual() -> None:
    plan, rng = make_plan(40, epsilon=Fraction(50)), np.random.default_rng(4)
    fleet = Fleet(plan, 4)
    devices = [
        fleet.draw(
            500,
            name=f"device {i}",
            mixture=replace(MIXTURE, weights=rng.dirichlet(30.0 * MIXTURE.weights)),
        )
        for i in range(40)
    ]
    devices.append(fleet.draw(500, name="liar", mixture=LIE))
    report = examine(plan, devices)
    assert np.mean([each.differs for each in report.devices]) > 0.3
    # P-values of liars are far below the least float; their places are still told.
    assert [each.device for each in report.devices if each.is_unusual] == ["liar"]
    z = find(report, "liar").z
    assert z is not None
    assert np.isfinite(z)


def test_a_lie_of_the_stated_share_is_found_about_half_of_the_time() -> None:
    plan = make_plan(40, epsilon=Fraction(5))
    honest = draw_fleet(plan, 40)
    share = examine(plan, honest).devices[0].least_lie
    assert 0.02 < share < 0.5
    found = []
    for factor in (0.5, 1.6):
        mixture = replace(
            MIXTURE,
            weights=np.append(MIXTURE.weights * (1 - factor * share), factor * share),
            means=np.append(MIXTURE.means, [[15.0, -15.0]], axis=0),
            variances=np.append(MIXTURE.variances, [[1e-6, 1e-6]], axis=0),
        )
        fleet = Fleet(plan, 9)
        # Each liar in an honest fleet: four fleets.
        found.append(
            np.mean(
                [
                    find(
                        examine(
                            plan,
                            [*honest, fleet.draw(500, name="liar", mixture=mixture)],
                            n_draws=999,
                        ),
                        "liar",
                    ).differs
                    for _ in range(4)
                ]
            )
        )
    assert found[0] <= 0.25
    assert found[1] >= 0.75


def test_the_ratio_of_signal_to_noise_is_that_of_sketches() -> None:
    plan = make_plan(40, epsilon=Fraction(5))
    model, devices = make_model(plan), draw_fleet(plan, 40)
    features = np.array([average(plan, device).features for device in devices])
    noise = np.mean(np.sum((features - model.features) ** 2, axis=1))
    stated = examine(plan, devices, n_draws=999).devices[0].snr
    # Seeded; energies of 40 sketches, known to 4 %.
    assert stated == pytest.approx(np.sum(model.features**2) / noise, rel=0.15)


def test_a_device_whose_block_nobody_shares_is_listed_as_unexamined() -> None:
    plan = make_plan(40, epsilon=Fraction(5), frequencies_per_sketch=10)
    fleet = Fleet(plan, 1)
    devices = [fleet.draw(500, name=f"device {i}") for i in range(5)]
    report = examine(plan, devices)
    # Four blocks: the fifth device has that of the first.
    assert [each.device for each in report.devices] in (
        ["device 0", "device 4"],
        ["device 4", "device 0"],
    )
    assert set(report.unexamined) == {"device 1", "device 2", "device 3"}


def test_fleets_that_cannot_be_examined_are_refused_by_name() -> None:
    plan = make_plan(20)
    devices = draw_fleet(plan, 3)
    for given, text in (
        (devices[:1], "devices: must be at least 2 and are 1"),
        ([devices[0], replace(devices[1], name="device 0")], "must not repeat a name"),
        ([devices[0], replace(devices[0], name="b")], "must not share sketches"),
    ):
        with pytest.raises(DecodingError, match=text):
            examine_devices(plan, given, n_clusters=3)
    masked = make_plan(40, "discrete-laplace", measurements_per_record=10)
    with pytest.raises(DecodingError, match="measurements_per_record"):
        examine_devices(masked, devices, n_clusters=3)


def test_the_report_states_what_cannot_show_first() -> None:
    plan = make_plan(40, epsilon=Fraction(5))
    lines = examine(plan, draw_fleet(plan, 5, seed=3)).describe()
    assert "signal-to-noise ratio" in lines[0]
    assert "of a device's records does not show" in lines[0]
    assert "not a proof" in lines[1]
    assert "fewer than 20 devices" in lines[2]
    assert lines[-2:] == ("none of 5 devices stands out", "assumes independent records")


def test_other_sketches_of_the_study_count_as_the_rest() -> None:
    plan = make_plan(40, epsilon=Fraction(5))
    fleet = Fleet(plan, 1)
    devices = [fleet.draw(500, name=f"device {i}") for i in range(3)]
    others = fleet.draw(500, 30)
    report = examine(plan, devices, whole=add([*devices, others]))
    assert report.devices[0].share == pytest.approx(500 / (33 * 500))


def test_a_fleet_is_examined_from_its_sums_alike_each_time() -> None:
    plan = make_plan(30, epsilon=Fraction(50))
    devices = draw_fleet(plan, 6)
    runs = [examine_devices(plan, devices, n_clusters=3, seed=2, n_draws=999)[0] for _ in range(2)]
    assert runs[0] == runs[1]
