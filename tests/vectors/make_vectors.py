"""Write the JSON test vectors: what a port of the sketch and of the wire has to reproduce.

Run ``python -m tests.vectors.make_vectors`` after a deliberate change of the format, which also
changes its version. Records are given in data units as exact doubles.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from sfumato.shared.core import (
    FourierStatistic,
    FrequencyBlocks,
    MaskSchedule,
    Quantiser,
    RadiusLaw,
    SketchAccumulator,
    draw_frequencies,
    feature_table,
)
from sfumato.shared.core.masks import BLOCK_RECORDS
from sfumato.shared.privacy.circle import CircularLaw, choose_bin_law, choose_law
from tests.vectors.kind_vectors import make_kind_vectors
from tests.vectors.noise_vectors import make_noise_vectors
from tests.vectors.result_vectors import make_result_vectors
from tests.vectors.sum_vectors import make_sum_vectors
from tests.vectors.wire_vectors import (
    make_enrolment_vector,
    make_message_vectors,
    make_request_vectors,
)

HERE = Path(__file__).parent
SEED = hashlib.sha256(b"sfumato test vectors, version 1").digest()
LOWER, UPPER, SCALE = [-10.0, 0.0, 980.0], [110.0, 1.0, 1050.0], [8.0, 0.15, 5.0]
RECORDS: list[list[float | None]] = [
    [39.02, 0.5937, 1012.0],
    [39.92, 0.6221, 1012.2],
    [110.0, 1.0, 1050.0],
    [-10.0, 0.0, 980.0],
    [50.0, 0.5, 1015.0],
    [999.0, -3.0, 1015.0],
    [None, 0.5, 1015.0],
    [72.3, 0.31, 1021.7],
]


def as_array(records: list[list[float | None]]) -> np.ndarray:
    """Turn records into doubles; null stands for a value that is not a number."""
    return np.array(
        [[np.nan if value is None else value for value in record] for record in records]
    )


def make_frequency_vectors() -> list[dict[str, Any]]:
    """Seed to W, for each radius law."""
    quantiser = Quantiser.from_bounds(LOWER, UPPER)
    vectors = []
    for law in (
        RadiusLaw(),
        RadiusLaw(sigma_low=1.0, sigma_high=1.0, tail_share=0.0, tail_high=1.0),
        RadiusLaw(kind="folded-gaussian", sigma_low=0.5, sigma_high=2.0, tail_share=0.0),
        RadiusLaw(kind="gaussian", sigma_low=1.0, sigma_high=4.0, tail_share=0.5, tail_high=40.0),
        RadiusLaw(sigma_low=0.5, sigma_high=2.0, tail_share=1.0, tail_high=8.0),
    ):
        matrix = draw_frequencies(
            SEED, n_frequencies=12, law=law, quantiser=quantiser, scale=np.array(SCALE)
        )
        vectors.append(
            {
                "seed": SEED.hex(),
                "lower": LOWER,
                "upper": UPPER,
                "scale": SCALE,
                "n_frequencies": 12,
                "radius_law": asdict(law),
                "bits": matrix.bits,
                "turns": matrix.turns.tolist(),
                "digest": matrix.digest.hex(),
            }
        )
    return vectors


def make_sketch_vectors() -> list[dict[str, Any]]:
    """Records to sums, without masks and with."""
    quantiser = Quantiser.from_bounds(LOWER, UPPER)
    matrix = draw_frequencies(
        SEED, n_frequencies=12, law=RadiusLaw(), quantiser=quantiser, scale=np.array(SCALE)
    )
    records = as_array(RECORDS)
    vectors = []
    for name, r, first in (("every feature", 12, 0), ("masked", 3, BLOCK_RECORDS - 3)):
        masks = None
        if r < 12:
            masks = MaskSchedule.from_seed(
                SEED, b"device/stream", n_frequencies=12, measurements_per_record=r
            )
        accumulator = SketchAccumulator(
            FourierStatistic(quantiser=quantiser, frequencies=matrix, masks=masks),
            first_record=first,
        )
        accumulator.add(records)
        vectors.append(
            {
                "name": name,
                "radius_law": asdict(RadiusLaw()),
                "seed": SEED.hex(),
                "lower": LOWER,
                "upper": UPPER,
                "scale": SCALE,
                "n_frequencies": 12,
                "frequencies_digest": matrix.digest.hex(),
                "measurements_per_record": r,
                "stream_id": b"device/stream".hex(),
                "first_record": first,
                "records": RECORDS,
                "quantised": quantiser.quantise(records)[0].tolist(),
                "groups": None if masks is None else masks.assign_groups(first, 8).tolist(),
                "n_records": accumulator.n_records,
                "n_unsketchable": accumulator.n_unsketchable,
                "sums": accumulator.sums.tolist(),
            }
        )
    return vectors


def make_feature_vectors() -> dict[str, Any]:
    """Phase to feature: a few, and the digest of all."""
    table = feature_table()
    some = [0, 1, 8191, 8192, 16383, 16384, 32767, 32768, 49151, 49152, 65535]
    return {
        "features": [[phase, *table[phase].tolist()] for phase in some],
        "table_sha256": hashlib.sha256(table.astype("<i2").tobytes()).hexdigest(),
    }


def make_block_vectors() -> list[dict[str, Any]]:
    """Blocks of features, and the block of a device's sketch."""
    vectors = []
    for m, r in ((12, 12), (12, 4), (15, 1)):
        blocks = FrequencyBlocks(seed=SEED, n_frequencies=m, frequencies_per_sketch=r)
        vectors.append(
            {
                "seed": SEED.hex(),
                "n_frequencies": m,
                "frequencies_per_sketch": r,
                "members": blocks.members.tolist(),
                "chosen": [
                    {
                        "ordinal": ordinal,
                        "stream": stream,
                        "turn": turn,
                        "block": blocks.choose(ordinal=ordinal, stream=stream, turn=turn),
                    }
                    for ordinal, stream, turn in (
                        (0, "weather", 0),
                        (1, "weather", 0),
                        (7, "weather", 0),
                        (7, "weather", 20_400),
                        (1_000_000, "süd/1 ☀", 300),
                    )
                ],
            }
        )
    return vectors


class _GivenNumber:
    """A source of one number: vectors state what a draw means, and no way to draw it."""

    def __init__(self, number: int) -> None:
        self._number = number

    def draw_bytes(self, count: int) -> bytes:
        return self._number.to_bytes(count, "little")


def _list_draws(law: CircularLaw) -> list[dict[str, Any]]:
    """Return draws at both ends of some offsets; numbers beyond 2^53 are text."""
    inner, turn = (2 * law.arc + 1) * law.weight, law.circle
    numbers = [0, law.weight * turn, inner * turn - 1, inner * turn + 5, law.mass * turn - 1]
    return [
        {
            "number": str(number),
            "offset": law.draw_offset(_GivenNumber(number)),
            "report_of_phase_1000": law.report(1000, _GivenNumber(number)),
            "uniform_report": law.uniform_report(_GivenNumber(number)),
        }
        for number in numbers
    ]


def make_report_vectors() -> dict[str, Any]:
    """Epsilon to the law of reports, and numbers to reports."""
    laws = []
    for epsilon, n_reports in (("3/10", 1), ("1", 1), ("3", 1), ("6", 2), ("10", 3)):
        law = choose_law(Fraction(epsilon), n_reports)
        laws.append(
            {
                "epsilon": epsilon,
                "n_reports": n_reports,
                "arc": law.arc,
                "weight": str(law.weight),
                "bits": law.bits,
                "draws_below": str(law.circle * law.mass),
                "draws": _list_draws(law),
            }
        )
    bins = []
    for epsilon, n_reports, circle, is_ordered in (
        ("1", 1, 259, True),
        ("3", 1, 259, True),
        ("2", 2, 19, True),
        ("1", 1, 4, False),
    ):
        law = choose_bin_law(Fraction(epsilon), n_reports, circle=circle, is_ordered=is_ordered)
        bins.append(
            {
                "epsilon": epsilon,
                "n_reports": n_reports,
                "n_bins": circle,
                "are_levels": not is_ordered,
                "arc": law.arc,
                "weight": str(law.weight),
                "bits": law.bits,
                "draws_below": str(law.circle * law.mass),
                "draws": _list_draws(law),
            }
        )
    return {"laws": laws, "bins": bins}


def make_public_key_vectors() -> list[dict[str, Any]]:
    """Encodings of points, and whether a device may have them as its key."""
    prime = (1 << 255) - 19
    order_8 = bytes.fromhex("26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05")
    small = {
        "order 1": 1,
        "order 2": prime - 1,
        "order 4": 0,
        "order 8": int.from_bytes(order_8, "little"),
        "order 8, negative": prime - int.from_bytes(order_8, "little"),
        "order 4, not canonical": prime,
        "order 1, not canonical": prime + 1,
        "not canonical": prime + 3,
        "the largest of all": (1 << 255) - 1,
        "no point": 2,
    }
    vectors = [
        {"what": what, "key": (y | sign << 255).to_bytes(32, "little").hex(), "valid": False}
        for what, y in small.items()
        for sign in (0, 1)
    ]
    for seed in (b"a", b"b", b"c"):
        key = Ed25519PrivateKey.from_private_bytes(hashlib.sha256(seed).digest())
        vectors.append(
            {"what": "a key", "key": key.public_key().public_bytes_raw().hex(), "valid": True}
        )
    return vectors


def main() -> None:
    """Write every file."""
    for name, vectors in (
        ("features", make_feature_vectors()),
        ("frequencies", make_frequency_vectors()),
        ("sketches", make_sketch_vectors()),
        ("blocks", make_block_vectors()),
        ("kinds", make_kind_vectors()),
        ("reports", make_report_vectors()),
        ("noise", make_noise_vectors()),
        ("enrolment", make_enrolment_vector()),
        ("messages", make_message_vectors()),
        ("requests", make_request_vectors()),
        ("public_keys", make_public_key_vectors()),
        ("results", make_result_vectors()),
        ("sum", make_sum_vectors()),
    ):
        text = json.dumps(vectors, indent=1, ensure_ascii=False)
        (HERE / f"{name}.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
