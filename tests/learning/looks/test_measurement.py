"""Measurements of a look, compared with the records themselves."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
import pytest
from numpy.typing import NDArray

from sfumato.learning.looks.design import FirstLook, design_look
from sfumato.learning.looks.measurement import measure
from sfumato.learning.looks.noise import LookNoise
from sfumato.shared.core import ClustersStatistic, SketchAccumulator
from sfumato.shared.core.quantise import STEPS
from sfumato.shared.plan import Dimension, RecordSpace

Floats = NDArray[np.float64]
EDGE = 20.0
CENTRES = np.array([[-9.0, 0.0, 3.0], [0.0, 9.0, -3.0], [9.0, -4.0, 0.0], [2.0, -9.0, 9.0]])
UNIT = STEPS / EDGE
NO_NOISE = LookNoise(deviation=np.array(1e-300))


@dataclass(frozen=True, kw_only=True, eq=False)
class Scene:
    """Records, the centres that they are shown, and what they add up to."""

    records: Floats
    shown: Floats
    statistic: ClustersStatistic
    sums: NDArray[np.int64]

    @property
    def nearest(self) -> NDArray[np.intp]:
        away = self.records[:, None] - np.rint(self.shown * UNIT) / UNIT
        return np.asarray((away**2).sum(axis=2).argmin(axis=1))

    def average(self) -> Floats:
        return np.array([self.records[self.nearest == j].mean(axis=0) for j in range(4)])


def make_scene(
    shift: float = 0.0, *, n: int = 20_000, shown: Floats | None = None, norm: str = "l1"
) -> Scene:
    rng = np.random.default_rng(7)
    records = CENTRES[rng.choice(4, n, p=[0.4, 0.3, 0.2, 0.1])] + rng.normal(size=(n, 3))
    if shown is None:
        shown = CENTRES + shift
    space = RecordSpace(
        dimensions=tuple(
            Dimension(name=name, unit="1", lower=-EDGE, upper=EDGE) for name in ("x", "y", "z")
        )
    )
    part = design_look(
        space,
        FirstLook(centres=shown, spreads=np.ones(shown.shape), scale=np.ones(3)),
        assigned=("x", "y", "z"),
        aim="refine",
        norm="l2" if norm == "l2" else "l1",
        neighbouring="replace-one",
    ).derive(space, norm="l2-squared" if norm == "l2" else "l1")
    statistic = part.build_whole(space)
    accumulator = SketchAccumulator(statistic)
    accumulator.add(records)
    return Scene(records=records, shown=shown, statistic=statistic, sums=accumulator.sums)


def sum_squares(records: Floats, centres: Floats) -> float:
    return float(((records[:, None] - centres) ** 2).sum(axis=2).min(axis=1).sum())


@pytest.mark.parametrize("norm", ["l1", "l2"])
def test_exact_sums_give_numbers_means_and_spreads_of_the_records(norm: str) -> None:
    scene = make_scene(0.2, norm=norm)
    found = measure(scene.sums, scene.statistic, NO_NOISE)
    counts = np.bincount(scene.nearest, minlength=4)
    assert found.counts.tolist() == counts.tolist()
    assert np.allclose(found.shares, counts / counts.sum())
    # Clipped at some three spreads, the mean residual of 0.2 loses a thousandth of a spread.
    assert np.allclose(found.means / UNIT, scene.average(), atol=0.01)
    weights = scene.statistic.weights / UNIT**2
    spread = (weights * (scene.records - scene.shown[scene.nearest]) ** 2).sum(axis=1)
    expected = [spread[scene.nearest == j].mean() * UNIT**4 for j in range(4)]
    assert found.squares is not None
    assert np.allclose(found.squares, expected, rtol=0.01)
    assert found.beyond is not None
    assert found.beyond.value < 0.02
    assert not found.is_phantom.any()
    assert not found.is_wide.any()


def test_the_gain_is_that_of_a_step_of_k_means() -> None:
    scene = make_scene(0.2)
    found = measure(scene.sums, scene.statistic, NO_NOISE)
    before = sum_squares(scene.records, scene.shown)
    after = float(((scene.records - scene.average()[scene.nearest]) ** 2).sum())
    assert found.gain is not None
    assert found.gain.value == pytest.approx(1.0 - after / before, rel=0.03)
    assert np.allclose(found.moved / UNIT, scene.average(), atol=0.01)


def test_a_merged_pair_beside_a_split_cluster_gains_nothing_and_is_called_wide() -> None:
    # The best step from here is none: only the spread of the merged pair tells.
    middle = (0.4 * CENTRES[0] + 0.3 * CENTRES[1]) / 0.7
    half = np.array([0.0, 0.8, 0.0])
    shown = np.array([middle, CENTRES[2] - half, CENTRES[2] + half, CENTRES[3]])
    scene = make_scene(shown=shown)
    found = measure(scene.sums, scene.statistic, NO_NOISE)
    again = make_scene(shown=found.moved / UNIT)
    settled = measure(again.sums, again.statistic, NO_NOISE)
    assert settled.gain is not None
    assert settled.gain.value < 0.02
    assert settled.is_wide.tolist() == [True, False, False, False]
    # A cap that is chosen for single clusters, too, tells.
    assert settled.beyond is not None
    assert settled.beyond.value > 0.02


def test_a_far_cluster_beyond_the_clip_gains_little_and_is_counted_as_beyond() -> None:
    scene = make_scene()
    records = scene.records.copy()
    records[:1000] = [19.0, 19.0, 19.0]
    accumulator = SketchAccumulator(scene.statistic)
    accumulator.add(records)
    found = measure(accumulator.sums, scene.statistic, NO_NOISE)
    assert found.beyond is not None
    assert found.beyond.value == pytest.approx(0.05, abs=0.01)


def test_an_empty_cluster_is_a_phantom() -> None:
    shown = CENTRES.copy()
    shown[3] = [-19.0, -19.0, -19.0]
    scene = make_scene(shown=shown)
    noise = LookNoise(deviation=np.array(1e5))
    found = measure(scene.sums, scene.statistic, noise)
    assert found.is_phantom.tolist() == [False, False, False, True]
    assert np.isnan(found.means[3]).all()
    assert found.moved[3].tolist() == np.rint(shown[3] * UNIT).tolist()


LAWS = {
    "one Laplace": LookNoise(deviation=np.array(1.0)),
    "forty Laplace": LookNoise(deviation=np.array(1.0), n_draws=40),
    "Gaussian": LookNoise(deviation=np.array(1.0), is_gaussian=True),
}


def draw(law: LookNoise, size: tuple[int, int], rng: np.random.Generator) -> Floats:
    if law.is_gaussian:
        return rng.normal(size=size)
    total = np.zeros(size)
    for _ in range(law.n_draws):
        total += rng.laplace(size=size)
    return np.asarray(total / np.sqrt(2.0 * law.n_draws))


@pytest.mark.parametrize(
    ("name", "shift"), [("one Laplace", 0.0), ("forty Laplace", 0.2), ("Gaussian", 0.2)]
)
def test_measured_numbers_lie_within_their_bars_at_the_stated_rate(name: str, shift: float) -> None:
    # 1,000 releases of the same records: 90 % bars hold 900 of them, give or take 9 each. Bounds
    # of 85 and 95 % are exceeded by chance in less than one of a million runs.
    scene, law, n = make_scene(shift), LAWS[name], 1000
    exact = measure(scene.sums, scene.statistic, NO_NOISE)
    noise = LookNoise(deviation=np.array(4e4), n_draws=law.n_draws, is_gaussian=law.is_gaussian)
    rng = np.random.default_rng(11)
    drawn = 4e4 * draw(law, (n, len(scene.sums)), rng)
    found = [measure(scene.sums + each, scene.statistic, noise) for each in drawn]
    bar = NormalDist().inv_cdf(0.95)

    def cover(values: Floats, errors: Floats, truth: Floats) -> float:
        return float(np.mean(np.abs(values - truth) <= bar * errors))

    def read(member: str) -> tuple[Floats, Floats]:
        each = [getattr(one, member) for one in found]
        return np.array([x.value for x in each]), np.array([x.error for x in each])

    assert exact.gain is not None
    assert exact.beyond is not None
    assert 0.85 < cover(*read("gain"), np.array(exact.gain.value)) < 0.95
    assert 0.85 < cover(*read("beyond"), np.array(exact.beyond.value)) < 0.95
    for member in ("shares", "means", "squares"):
        values = np.array([getattr(one, member) for one in found])
        errors = np.array([getattr(one, f"{member}_error") for one in found])
        assert 0.85 < cover(values, errors, getattr(exact, member)) < 0.95, member


def test_tails_of_the_noise_hold_their_rate() -> None:
    # A bound; for sums of many draws that of Chernoff, which is some nine times too wide.
    rng = np.random.default_rng(3)
    for law in LAWS.values():
        drawn = draw(law, (200_000, 1), rng)
        rate = float(np.mean(drawn > law.find_quantile(0.01)))
        assert 0.001 < rate < 0.0108
