"""A fault in any part of the device in C is caught by the vectors."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from tests.clients.c import test_noise, test_vectors
from tests.clients.c.building import (
    DEVICE,
    HAS_COMPILER,
    NO_COMPILER,
    ON_MACHINE,
    Driver,
    compile_c,
    compile_objects,
    render_plans,
)
from tests.clients.c.conftest import HERE, Compile, require

MASKED = partial(
    test_vectors.test_sums_and_steps_of_records_are_those_of_the_vectors, name="masked"
)
MESSAGE = partial(
    test_vectors.test_messages_are_those_of_the_vectors, vector=test_vectors.MESSAGES[0]
)
Check = Callable[[Driver], None]
FAULTS: list[tuple[str, str, str, Check]] = [
    (
        "shake.c",
        "0x1f",
        "0x06",
        test_vectors.test_shake_and_sha_are_those_of_python_at_every_length_around_a_block,
    ),
    (
        "sha256.c",
        "% 64 != 56",
        "% 64 < 56",
        test_vectors.test_shake_and_sha_are_those_of_python_at_every_length_around_a_block,
    ),
    (
        "wide.c",
        "a.high >> 63",
        "a.high >> 62",
        test_vectors.test_wide_numbers_divide_and_multiply_as_those_of_python,
    ),
    (
        "cbor.c",
        "argument < 24",
        "argument <= 24",
        test_vectors.test_heads_are_those_of_deterministic_cbor,
    ),
    (
        "frequencies.c",
        "if (q >= 4.0)",
        "if (q > 4.5)",
        test_vectors.test_frequencies_are_drawn_from_the_seed_bit_for_bit,
    ),
    (
        "frequencies.c",
        "k = 9",
        "k = 8",
        test_vectors.test_the_logarithm_has_the_bits_of_the_definition,
    ),
    (
        "sums.c",
        "+ 0x4000",
        "+ 0x3fff",
        test_vectors.test_features_are_those_of_the_vectors_at_every_phase,
    ),
    ("sums.c", "x < y ||", "x > y ||", MASKED),
    ("sums.c", "round_half_even(t)", "t", MASKED),
    (
        "exponential.c",
        "word < limit",
        "word <= limit + 1",
        test_vectors.test_exponential_variates_are_those_of_the_vectors_from_the_same_bytes,
    ),
    (
        "noise.c",
        "make_wide(1)));\n    for",
        "make_wide(0)));\n    for",
        test_vectors.test_bounded_draws_are_exact_beyond_the_largest_multiple_they_draw_again,
    ),
    (
        "noise.c",
        "{2, 1, 27}",
        "{2, 1, 28}",
        test_noise.test_no_point_lies_outside_the_polygon_and_some_lie_at_each_corner,
    ),
    (
        "noise.c",
        "i <= 2 * m",
        "i < m",
        test_noise.test_knorm_noise_has_the_variance_of_its_law_in_both_parts,
    ),
    (
        "noise.c",
        "|| !is_zero ||",
        "|| is_zero ||",
        test_noise.test_laplace_noise_has_its_variance_and_as_many_zeros_as_its_law_says,
    ),
    (
        "noise.c",
        "n_records * SFUMATO_AMPLITUDE +",
        "n_records +",
        test_vectors.test_limits_of_coordinates_are_those_of_the_vectors,
    ),
    (
        "source.c",
        "sizeof source->last);\n}\n\nstatic void refill",
        "sizeof source->last + 16);\n}\n\nstatic void refill",
        partial(test_noise.test_a_generator_that_fails_or_stands_still_is_an_error, plan="laplace"),
    ),
    ("message.c", "3 + i", "4 + i", MESSAGE),
    (
        "request.c",
        "i + k > size",
        "i + k >= size",
        test_vectors.test_signed_requests_are_those_of_the_vectors,
    ),
]


@pytest.fixture(scope="session")
def driver_object(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The driver's own part, compiled."""
    require(HAS_COMPILER, NO_COMPILER)
    folder = tmp_path_factory.mktemp("driver")
    (folder / "plans.h").write_text(render_plans(from_seed=False))
    (compiled,) = compile_objects(folder, ON_MACHINE, [HERE / "driver.c"])
    return compiled


@pytest.mark.parametrize(
    "fault", FAULTS, ids=lambda fault: f"{fault[0]}: {fault[2].split(chr(10))[0]}"
)
def test_a_fault_is_caught(
    tmp_path: Path, library: Compile, driver_object: Path, fault: tuple[str, str, str, Check]
) -> None:
    name, right, wrong, check = fault
    text = (DEVICE / "src" / name).read_text("utf-8")
    assert text.count(right) == 1
    (tmp_path / name).write_text(text.replace(right, wrong))
    (changed,) = compile_objects(tmp_path, ON_MACHINE, [tmp_path / name])
    others = [each for each in library(ON_MACHINE) if each.name != changed.name]
    objects = [changed, driver_object, *others]
    mutant = Driver((str(compile_c(tmp_path, ON_MACHINE, objects, "mutant")),))
    # A program that crashes is caught too.
    with pytest.raises(AssertionError):
        check(mutant)
