"""A fault in the device in C is caught: by the vectors, the laws of its noise, or its ledger."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from tests.clients.c import test_clusters, test_noise, test_power, test_vectors
from tests.clients.c.building import (
    DEVICE,
    ON_MACHINE,
    Driver,
    compile_c,
    compile_objects,
    render_plans,
)
from tests.clients.c.conftest import HERE, Compile

MASKED = partial(
    test_vectors.test_sums_and_steps_of_records_are_those_of_the_vectors, name="masked"
)
REQUESTS = test_vectors.test_signed_requests_are_those_of_the_vectors
EXPONENTS = test_vectors.test_exponential_variates_are_those_of_the_vectors_from_the_same_bytes
EDGES = test_clusters.test_records_at_the_cap_the_clip_and_a_tie_are_those_of_the_definition
LIMITS = test_clusters.test_released_sums_lie_within_the_limits_of_the_plan
VARIANCE = test_noise.test_knorm_noise_has_the_variance_of_its_law_in_both_parts


def check_power(driver: Driver) -> None:
    for kind in test_power.KINDS:
        test_power.test_after_any_two_cuts_the_same_bytes_are_sent_or_none_and_what_was_spent_stays(
            Path(driver.command[0]), kind, test_power.PLANS[0]
        )


FAULTS: list[tuple[str, str, str, Callable[[Driver], None]]] = [
    ("sums.c", "x < y ||", "x > y ||", MASKED),
    ("exponential.c", "word < limit", "word <= limit + 1", EXPONENTS),
    ("noise.c", "i <= 2 * m", "i < m", VARIANCE),
    ("request.c", "i + k > size", "i + k >= size", REQUESTS),
    ("clusters.c", "own >= *distance", "own > *distance", EDGES),
    ("clusters.c", "|| distance >= clusters->cap", "|| distance > clusters->cap", EDGES),
    ("clusters.c", "* (below + bit) < square", "* (below + bit) <= square", EDGES),
    ("noise.c", "clusters && !clusters->residual", "false", LIMITS),
    # The second sector is not written.
    ("storage.c", " || !write_sector(device, second, head)", "", check_power),
]


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: f"{fault[0]}: {fault[1]}")
def test_a_fault_is_caught(
    tmp_path: Path, library: Compile, fault: tuple[str, str, str, Callable[[Driver], None]]
) -> None:
    name, right, wrong, check = fault
    text = (DEVICE / "src" / name).read_text("utf-8")
    assert text.count(right) == 1
    (tmp_path / name).write_text(text.replace(right, wrong))
    (tmp_path / "plans.h").write_text(render_plans(from_seed=False))
    compiler = (*ON_MACHINE, "-Wno-unused-variable")
    (changed,) = compile_objects(tmp_path, compiler, [tmp_path / name])
    others = [each for each in library(ON_MACHINE) if each.name != changed.name]
    main = HERE / ("power.c" if check is check_power else "driver.c")
    mutant = Driver((str(compile_c(tmp_path, ON_MACHINE, [main, changed, *others], "mutant")),))
    # A program that crashes is caught too.
    with pytest.raises(AssertionError):
        check(mutant)
