import hashlib
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from sfumato.analyst.sketching.output import write_once
from sfumato.analyst.sketching.release import make_sketch
from sfumato.analyst.sketching.sketch_file import (
    SketchFile,
    decode_sketch_file,
    encode_sketch_file,
    read_sketch_file,
)
from sfumato.shared.cbor import decode_deterministic, encode_deterministic
from sfumato.shared.errors import PlanMismatchError, WireError
from sfumato.shared.plan import compute_plan_digest
from tests.analyst.sketching.samples import make_plan, make_records, sum_of

PLAN = make_plan()


@pytest.fixture(scope="module")
def sketches(tmp_path_factory: pytest.TempPathFactory) -> tuple[SketchFile, SketchFile]:
    path = tmp_path_factory.mktemp("records") / "x.npy"
    np.save(path, make_records(500))
    summed = sum_of(path, PLAN)
    return make_sketch(summed.accumulator, PLAN, "main", exact=False), make_sketch(
        summed.accumulator, PLAN, "main", exact=True
    )


def test_reading_gives_what_was_written(
    sketches: tuple[SketchFile, SketchFile], tmp_path: Path
) -> None:
    for i, sketch in enumerate(sketches):
        path = tmp_path / f"{i}.sketch"
        write_once(path, encode_sketch_file(sketch))
        assert read_sketch_file(path) == sketch
        sketch.require_plan(PLAN)
        assert path.stat().st_mode & 0o777 == 0o600
    assert sorted(os.listdir(tmp_path)) == ["0.sketch", "1.sketch"]


def test_every_flipped_bit_is_noticed(sketches: tuple[SketchFile, SketchFile]) -> None:
    for sketch in sketches:
        data = encode_sketch_file(sketch)
        for place in range(8 * len(data)):
            damaged = bytearray(data)
            damaged[place // 8] ^= 1 << place % 8
            with pytest.raises(WireError):
                decode_sketch_file(bytes(damaged))


def test_every_cut_and_every_longer_file_is_noticed(
    sketches: tuple[SketchFile, SketchFile], tmp_path: Path
) -> None:
    data = encode_sketch_file(sketches[0])
    for length in range(len(data)):
        with pytest.raises(WireError):
            decode_sketch_file(data[:length])
    path = tmp_path / "long.sketch"
    path.write_bytes(data + b"\0")
    with pytest.raises(WireError, match=r"long\.sketch, sketch file: "):
        read_sketch_file(path)


@pytest.mark.parametrize(
    "change",
    [
        {"version": 2},
        {"kind": "other"},
        {"n_records": 0},
        {"n_records": True},
        {"width": 9},
        {"width": 7},
        {"plan_digest": b"short"},
        {"stream": ""},
        {"payload_digest": bytes(32)},
        {"n_unsketchable": 3},
        {"more": 1},
    ],
)
def test_a_document_that_breaks_a_rule_is_refused_though_its_digest_is_right(
    change: dict[str, object], sketches: tuple[SketchFile, SketchFile]
) -> None:
    document = decode_deterministic(encode_sketch_file(sketches[0]), what="sketch")
    del document["digest"]
    document |= change
    document["digest"] = hashlib.sha256(encode_deterministic(document)).digest()
    with pytest.raises(WireError):
        decode_sketch_file(encode_deterministic(document))


def test_a_private_file_tells_nothing_of_records_but_its_noised_payload(
    sketches: tuple[SketchFile, SketchFile],
) -> None:
    private, exact = sketches
    document = decode_deterministic(encode_sketch_file(private), what="sketch")
    assert set(document) == {
        *("format", "version", "kind", "plan_digest", "stream", "n_records", "width"),
        *("payload", "payload_digest", "digest"),
    }
    assert exact.n_unsketchable is not None
    assert exact.n_unsketchable > 0


def test_noise_is_fresh_and_within_what_the_plan_allows(tmp_path: Path) -> None:
    path = tmp_path / "x.npy"
    np.save(path, make_records(500))
    summed = sum_of(path, PLAN)
    first, second = (make_sketch(summed.accumulator, PLAN, "main", exact=False) for _ in range(2))
    noises = [sketch.sums - summed.accumulator.sums for sketch in (first, second)]
    # 24 coordinates of a scale of thousands: equal by chance in none of 2^64 runs.
    assert noises[0].tolist() != noises[1].tolist()
    for noise in noises:
        assert np.abs(noise).max() <= PLAN.mechanism.noise_bound
    assert (
        make_sketch(summed.accumulator, PLAN, "main", exact=True).sums.tolist()
        == summed.accumulator.sums.tolist()
    )


def test_a_sketch_is_not_taken_for_one_of_another_plan(
    sketches: tuple[SketchFile, SketchFile],
) -> None:
    with pytest.raises(PlanMismatchError, match="plan_digest"):
        sketches[0].require_plan(make_plan(masked=True))
    digest = compute_plan_digest(PLAN)
    huge = b"\xff" * (PLAN.payload_width - 1) + b"\x7f"
    wrong = replace(sketches[0], plan_digest=digest, payload=huge * 24)
    with pytest.raises(PlanMismatchError, match="payload"):
        wrong.require_plan(PLAN)
