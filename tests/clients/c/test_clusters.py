"""Clusters in C add up what the definition says, in either norm, and are compiled where needed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from clients.c.make_plan import compile_plan
from sfumato.shared.core import SketchAccumulator
from sfumato.shared.core.encoder import RecordEncoder
from sfumato.shared.core.engines import NumpyEngine
from sfumato.shared.core.records import Columns
from sfumato.shared.plan import ClustersPart, SketchPlan
from tests.clients.c.building import (
    CORTEX_M4,
    DEVICE,
    EXAMPLES,
    HAS_ARM,
    LOOKS,
    NO_ARM,
    ON_MACHINE,
    Driver,
    compile_c,
    compile_objects,
    list_plans,
    number_of,
    read_vectors,
)
from tests.clients.c.conftest import HERE, Compile, require
from tests.clients.c.looks import IN_VECTORS, N_SEEDED, NORMS, STEPS
from tests.clients.c.test_size import measure_sections
from tests.vectors.kind_vectors import ENCODINGS

N_RECORDS = 150


def order_sums(plan: str, records: np.ndarray) -> str:
    values = [float(x).hex() for x in records.ravel()]
    return " ".join(["sum", str(number_of(plan)), "-", "0", str(len(records)), *values])


def read_sums(answer: str) -> list[int]:
    return [*map(int, answer.split("|")[2].split())]


def sum_up(plan: SketchPlan, records: np.ndarray) -> list[int]:
    accumulator = SketchAccumulator(plan.statistic_of(b""), engine=NumpyEngine())
    accumulator.add(records)
    sums: list[int] = accumulator.sums.tolist()
    return sums


@pytest.mark.parametrize("norm", NORMS)
def test_sums_in_clusters_are_those_of_the_vectors(driver: Driver, norm: str) -> None:
    name = f"clusters, {norm}"
    vectors = read_vectors("kinds")
    (vector,) = (each for each in vectors["sums"] if each["statistic"] == name)
    given = [[np.nan if x is None else x for x in record] for record in vectors["records"]]
    encoded = RecordEncoder(dimensions=ENCODINGS).encode(np.array(given))
    assert isinstance(encoded, Columns)
    (answer,) = driver.run(order_sums(name, encoded.to_array()[:, IN_VECTORS]))
    assert read_sums(answer) == vector["sums"]


def draw_records(n: int, d: int, seed: int) -> np.ndarray:
    """Draw values of few steps, of all, beyond the box, and missing ones."""
    rng = np.random.default_rng(seed)
    few = rng.choice([-STEPS, -1, 0, 0.5, 1, 9000, STEPS, 1e300, -np.inf, np.nan], size=(n, d))
    records = np.where(rng.random((n, d)) < 0.2, few, rng.uniform(-STEPS, STEPS, size=(n, d)))
    return np.where(rng.random((n, 1)) < 0.2, np.round(records / 16384) * 16384, records)


def test_sums_of_seeded_records_in_seeded_clusters_are_those_of_the_definition(
    driver: Driver,
) -> None:
    names = [f"look {i}" for i in range(N_SEEDED)]
    plans = [list_plans()[name] for name in names]
    given = [draw_records(N_RECORDS, plan.n_dimensions, i) for i, plan in enumerate(plans)]
    answers = driver.run(*map(order_sums, names, given))
    for plan, records, answer in zip(plans, given, answers, strict=True):
        assert read_sums(answer) == sum_up(plan, records)


def test_records_at_the_cap_the_clip_and_a_tie_are_those_of_the_definition(
    driver: Driver,
) -> None:
    steps = [each * sign for each in (0, 99, 100, 300, 400, 500) for sign in (1, -1)]
    records = [(x, float(y)) for x in steps for y in (*steps, 401, np.nan)]
    names = [f"edges, {norm}" for norm in NORMS]
    sums = [sum_up(list_plans()[name], np.array(records)) for name in names]
    assert sums[0] != sums[1]
    answers = driver.run(*(order_sums(name, np.array(records)) for name in names))
    assert [*map(read_sums, answers)] == sums


def test_the_seeded_clusters_have_every_part() -> None:
    statistics = [list_plans()[f"look {i}"].statistic for i in range(N_SEEDED)]
    parts = [each for each in statistics if isinstance(each, ClustersPart)]
    for unit in ("square", "beyond", "presence", "total"):
        assert {vars(each.units)[unit] > 0 for each in parts} == {True, False}, unit
    assert {len(each.candidates) > 0 for each in parts} == {True, False}
    assert {(each.norm, len(each.summed) > 1) for each in parts} >= {("l1", True), ("l2", True)}


def test_released_sums_lie_within_the_limits_of_the_plan(driver: Driver) -> None:
    # Noise of no seed is zero, so only coordinates beyond every limit tell the limits.
    for name, n in (("measured", 3), ("look by count", 5)):
        plan = list_plans()[name]
        low, high = plan.coordinate_limits(n)
        far = [2**52, -(2**52)] * (plan.n_coordinates // 2 + 1)
        sums = far[: plan.n_coordinates]
        (answer,) = driver.run(" ".join(map(str, ["noise", number_of(name), n, 0, "aa", *sums])))
        limits = [(high, low)[i % 2][i] for i in range(plan.n_coordinates)]
        assert [*map(int, answer.split())] == [0, *limits], name


def test_a_plan_with_clusters_needs_sources_that_were_compiled_for_it(
    tmp_path: Path, library: Compile
) -> None:
    whole = library(ON_MACHINE)
    plain = tuple(option for option in ON_MACHINE if option != LOOKS)
    (tmp_path / "plan.h").write_text(compile_plan(list_plans()["measured"], bytes(32)))
    with pytest.raises(AssertionError, match=f"compile all sources with {LOOKS}"):
        compile_c(tmp_path, plain, [HERE / "device.c"], "device")
    (other,) = compile_objects(tmp_path, plain, [DEVICE / "src/device.c"])
    mixed = [other, *(each for each in whole if each.name != other.name)]
    with pytest.raises(AssertionError, match="sfumato_start_with_clusters"):
        compile_c(
            tmp_path, ON_MACHINE, [HERE / "device.c", EXAMPLES / "file_board.c", *mixed], "device"
        )


def test_code_for_clusters_is_small_and_not_in_a_build_of_features_alone(tmp_path: Path) -> None:
    require(HAS_ARM, NO_ARM)

    def measure(*options: str) -> int:
        objects = compile_objects(tmp_path, [*CORTEX_M4, *options], [DEVICE / "src/clusters.c"])
        return measure_sections(objects)[0]

    assert measure() == 0
    assert 512 < measure(LOOKS) < 1536
