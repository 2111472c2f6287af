"""The device in C is held to the vectors of every other device: compiled, sanitised, and on ARM."""

from __future__ import annotations

import base64
import hashlib
import random
import re
from typing import Any

import cbor2
import numpy as np
import pytest

from clients.c.make_digits import render_digits
from clients.c.make_plan import compile_plan
from sfumato.shared.core.logarithm import compute_log
from tests.clients.c.building import (
    DEVICE,
    Driver,
    list_plans,
    make_fourier_plan,
    number_of,
    read_vectors,
)

MESSAGES = [
    each
    for each in read_vectors("messages")["messages"]
    if bytes.fromhex(each["header"])[4:13] == b"hlocal.v1"
]


def test_shake_and_sha_are_those_of_python_at_every_length_around_a_block(driver: Driver) -> None:
    rng = random.Random(1)
    messages = [rng.randbytes(n) for n in (0, 1, 3, 55, 56, 63, 64, 65, 135, 136, 137, 272, 300)]
    commands = [
        *(f"shake {n} {data.hex() or '-'}" for data in messages for n in (32, 300)),
        *(f"sha256 {data.hex() or '-'}" for data in messages),
    ]
    expected = [
        *(hashlib.shake_256(data).hexdigest(n) for data in messages for n in (32, 300)),
        *(hashlib.sha256(data).hexdigest() for data in messages),
    ]
    assert driver.run(*commands) == expected


def test_wide_numbers_divide_and_multiply_as_those_of_python(driver: Driver) -> None:
    rng = random.Random(2)
    pairs = [(2**128 - 1, 2**127), (0, 1), (2**64, 2**64), (2**64 - 1, 2**64), (2**122, 1024)]
    pairs += [(rng.getrandbits(128), 1 + rng.getrandbits(rng.randint(1, 126))) for _ in range(200)]
    answers = driver.run(*(f"divide {a:032x} {b:032x}" for a, b in pairs))
    for (a, b), answer in zip(pairs, answers, strict=True):
        quotient, rest, product = (int(word, 16) for word in answer.split())
        assert (quotient, rest, product) == (*divmod(a, b), a * 38 % 2**128)


def test_heads_are_those_of_deterministic_cbor(driver: Driver) -> None:
    numbers = [0, 23, 24, 255, 256, 65535, 65536, 2**32 - 1, 2**32, 2**64 - 1]
    answers = driver.run(*(f"head {major} {n}" for n in numbers for major in (0, 1)))
    assert answers == [cbor2.dumps(value).hex() for n in numbers for value in (n, -1 - n)]


def test_features_are_those_of_the_vectors_at_every_phase(driver: Driver) -> None:
    assert driver.run("table") == [read_vectors("features")["table_sha256"]]


def test_the_logarithm_has_the_bits_of_the_definition(driver: Driver) -> None:
    rng = random.Random(3)
    numbers = np.array([rng.random() ** k for k in (1, 4, 16) for _ in range(100)] + [1.0, 0.5])
    answers = driver.run(*(f"log {x.hex()}" for x in numbers.tolist()))
    assert [float.fromhex(answer) for answer in answers] == compute_log(numbers).tolist()


def test_frequencies_are_drawn_from_the_seed_bit_for_bit(driver: Driver) -> None:
    vectors = read_vectors("frequencies")
    answers = driver.run(*(f"turns {number_of(f'frequencies {i}')}" for i in range(len(vectors))))
    for vector, answer in zip(vectors, answers, strict=True):
        status, *turns = map(int, answer.split())
        assert status == 0
        assert turns == np.array(vector["turns"]).T.ravel().tolist()


def test_frequencies_of_a_large_plan_have_the_digest_of_the_plan(driver: Driver) -> None:
    (answer,) = driver.run(f"turns {number_of('m 200')}")
    status, *turns = map(int, answer.split())
    assert status == 0
    assert turns == list_plans()["m 200"].frequencies.turns.T.ravel().tolist()


def order_sum(plan: str, vector: Any) -> str:
    values = [float(x).hex() if x is not None else "nan" for row in vector["records"] for x in row]
    head = [number_of(plan), vector["stream_id"], vector["first_record"], len(vector["records"])]
    return " ".join(["sum", *map(str, head), *values])


@pytest.mark.parametrize("name", ["every feature", "masked"])
def test_sums_and_steps_of_records_are_those_of_the_vectors(driver: Driver, name: str) -> None:
    (vector,) = (each for each in read_vectors("sketches") if each["name"] == name)
    (answer,) = driver.run(order_sum(name, vector))
    steps, n_records, sums = answer.split("|")
    assert [*map(int, steps.split())] == np.array(vector["quantised"]).ravel().tolist()
    assert int(n_records) == vector["n_records"]
    assert [*map(int, sums.split())] == vector["sums"]


def test_sums_of_whole_messages_are_those_of_the_vectors(driver: Driver) -> None:
    plans = {
        "masks, windows by time": "wire masked",
        "masks, a later sketch over two slots": "wire masked",
        "a study with an end": "wire bounded",
        "windows by count": "wire by count",
    }
    for vector in MESSAGES:
        if vector["name"] not in plans:
            continue
        (answer,) = driver.run(order_sum(plans.pop(vector["name"]), vector))
        assert [*map(int, answer.split("|")[2].split())] == vector["sums"], vector["name"]
    assert not plans


def test_a_window_that_is_full_refuses_the_record_and_adds_nothing(driver: Driver) -> None:
    number, values = number_of("every feature"), "10 0.5 1000 "
    full, beyond = driver.run(
        f"sum {number} - 0 100 {values * 100}", f"sum {number} - 0 101 {values * 101}"
    )
    assert "refused" in beyond
    assert beyond.split("|")[1:] == full.split("|")[1:]


def test_exponential_variates_are_those_of_the_vectors_from_the_same_bytes(driver: Driver) -> None:
    vectors = read_vectors("noise")["exponents"]
    for vector in vectors:
        count, behind = len(vector["x"]), len(vector["bytes"]) // 2 - 472 * len(vector["x"])
        (answer,) = driver.run(f"exponents {count} {vector['bytes']}")
        *drawn, n_bytes, has_failed = answer.split()
        assert [int(x, 16) for x in drawn] == [*map(int, vector["x"])]
        assert (int(n_bytes), has_failed) == (behind, "0")
    plain = vectors[0]
    (answer,) = driver.run(f"drawn {len(plain['x'])} {plain['bytes']}")
    *drawn, n_bytes = answer.split()
    assert [int(x, 16) for x in drawn] == [*map(int, plain["x"])]
    assert int(n_bytes) == len(plain["bytes"]) // 2


def test_the_digits_in_the_source_are_those_of_the_vectors_and_of_python() -> None:
    source = (DEVICE / "src/digits.c").read_text("utf-8")
    assert source == render_digits()
    rows = [line for line in source.splitlines() if line.startswith("    {")]
    words = [re.findall(r"0x([0-9a-f]{16})", row) for row in rows]
    found = [first + second for first, second in words]
    assert found == read_vectors("noise")["digits"]


def test_a_comparison_that_256_bits_leave_open_is_a_failure_of_the_generator(
    driver: Driver,
) -> None:
    words = (DEVICE / "src/digits.c").read_text("utf-8").split("UINT64_C(0x")[1:5]
    first, *others = (bytes.fromhex(word[:16])[::-1].hex() for word in words)
    rest = "ff" * 8 * 58
    (undecided, below) = driver.run(
        f"exponents 1 {first}{rest}{''.join(others)}",
        f"exponents 1 {first}{rest}{''.join(others[:2])}{'00' * 8}",
    )
    assert undecided.split()[-1] == "1"
    assert below.split() == [f"{1:032x}", "24", "0"]


def test_bounded_draws_are_exact_beyond_the_largest_multiple_they_draw_again(
    driver: Driver,
) -> None:
    n = 3 * 2**120 + 1
    limit = 2**128 // n * n
    first, second = ((value).to_bytes(16, "little").hex() for value in (limit, limit - 1))
    answer, power, one = driver.run(
        f"below {n:032x} {first}{second}",
        f"below {2**64:032x} {'ff' * 16}",
        f"below {1:032x} {'fe' * 16}",
    )
    assert answer.split() == [f"{n - 1:032x}", "32"]
    assert power.split() == ["00" * 8 + "ff" * 8, "16"]
    assert one.split() == ["00" * 16, "16"]


def write_message(vector: Any, *, stream: str | None = None, capacity: int = 16384) -> str:
    # A value that is secret, or not there, is a dash.
    count, block = ("-" if x is None else x for x in (vector["n_records"], vector["block"]))
    released = vector["released"]
    width = len(vector["payload"]) // 2 // len(released)
    words = [
        *("message", vector["study"], vector["plan_digest"], vector["device"]),
        *((stream or vector["stream"]).encode().hex(), vector["sequence"]),
        *(*(vector["slots"] or ["-"]), count, vector["report_id"], block),
        *(width, len(released), capacity, *released),
    ]
    return " ".join(map(str, words))


@pytest.mark.parametrize("vector", MESSAGES, ids=lambda vector: vector["name"])
def test_messages_are_those_of_the_vectors(driver: Driver, vector: Any) -> None:
    signed: list[bytes] = []

    def sign(data: bytes) -> bytes:
        signed.append(data)
        return bytes.fromhex(vector["signature"])

    (answer,) = driver.run(write_message(vector), sign=sign)
    assert answer.split() == ["0", vector["sketch_id"], vector["message"]]
    assert [data.hex() for data in signed] == [vector["signature_input"]]


def test_a_message_that_cannot_be_right_is_refused(driver: Driver) -> None:
    vector = MESSAGES[0]
    size = len(vector["message"]) // 2
    answers = driver.run(
        write_message(vector, stream="a" * 64),
        write_message(vector, stream="a" * 65),
        write_message(vector, stream="a\x1f"),
        write_message(vector, capacity=size),
        write_message(vector, capacity=size - 1),
        write_message(vector | {"released": [2**23, *vector["released"][1:]]}),
    )
    capacity, stream, plan = "4", "5", "6"
    assert [answer.split()[0] for answer in answers] == ["0", stream, stream, "0", capacity, plan]


def test_signed_requests_are_those_of_the_vectors(driver: Driver) -> None:
    for vector in read_vectors("requests"):
        request = vector["request"]
        signed: list[bytes] = []
        headers = request["headers"]
        signature = base64.b64decode(headers["Signature"].removeprefix("sfumato=:")[:-1])

        def sign(data: bytes, signed: list[bytes] = signed, given: bytes = signature) -> bytes:
            signed.append(data)
            return given

        body = request["body"].encode().hex() or "-"
        words = ["request", request["method"], request["path"], body, vector["device"]]
        (answer,) = driver.run(" ".join([*words, str(vector["created"])]), sign=sign)
        names = ("Content-Digest", "Signature-Input", "Signature")
        assert answer.split("\t") == ["0", *(headers.get(name, "") for name in names)]
        assert signed == [vector["signature_base"].encode()]


def test_least_radii_of_the_compiled_plans_are_those_of_the_vectors() -> None:
    first = read_vectors("frequencies")[0]
    for vector in read_vectors("noise")["least_radii"]:
        if vector["n_counts"] == 0:
            plan = make_fourier_plan(first | {"n_frequencies": vector["n_frequencies"]})
            assert f".least_radius = {vector['least']},\n" in compile_plan(plan, bytes(32))


def test_limits_of_coordinates_are_those_of_the_vectors(driver: Driver) -> None:
    # The noise of no seed is zero here, so only coordinates beyond every limit tell it.
    plan = list_plans()["wire masked"]
    for n in (2, 5, 50):
        limit = min(plan.coordinate_bound, n * 16380 + plan.mechanism.noise_bound)
        sums = [2**52, -(2**52)] * 12
        (answer,) = driver.run(
            " ".join(map(str, ["noise", number_of("wire masked"), n, 0, "aa", *sums]))
        )
        assert [*map(int, answer.split())] == [0, *[limit, -limit] * 12]
