"""Vectors of the wire protocol: what ``shared/wire/README.md`` describes, with all inputs.

Everything in them follows from constants here, the noise too: it stands for a draw, and is none.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import cbor2
import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from numpy.typing import NDArray

from sfumato.shared.cbor import encode_deterministic
from sfumato.shared.core import SketchAccumulator
from sfumato.shared.plan import SketchPlan, compute_plan_digest, encode_plan, plan_to_json
from sfumato.shared.privacy.testing import SeededSource
from sfumato.shared.reading.records import read_levels, read_values
from sfumato.shared.wire import (
    SKETCH_MEDIA_TYPE,
    EnrolmentCode,
    PayloadForm,
    SketchHeader,
    compute_sketch_id,
    compute_study_id,
    device_id_of,
    encode_enrolment_code,
    encode_message,
    encode_proof_input,
    encode_rotation_input,
    encode_stream_id,
    sign_request,
)
from tests.vectors.wire_plans import (
    BIN_REPORTS,
    BOUNDED,
    BY_COUNT,
    CAMPAIGN,
    GRID,
    HISTOGRAM,
    LOOK,
    MASKED,
    MIXED,
    MIXED_FEATURES,
    MOMENTS,
    OF_DEVICES,
    ONE_CLUSTER,
    ONE_DIMENSION,
    ONE_RECORD,
    ORIGIN,
    PHASE_OF_CAMPAIGN,
    PHASES,
    RECORDS,
    SECRET_COUNT,
    SECRET_HISTOGRAM,
    SECRET_LOOK,
    SECRET_MOMENTS,
    SPLIT,
    Record,
)

SEED = b"sfumato wire vectors, version 1"
STUDY_NAME = "weather in °F"
SERVER = "https://sketches.example.org"
TOKEN = "sfe_" + "0123456789-ABCDEFGHIJKLMNOPQRSTUVWXYZabcdef"
LABELS = {"site": "north", "größe": "klein"}
CREATED = 1_700_014_400
"""When the vectors' requests are signed."""
_JSON = {"Content-Type": "application/json"}


def derive(label: str, count: int) -> bytes:
    """Return bytes that stand for random ones."""
    return hashlib.shake_256(SEED + b"/" + label.encode()).digest(count)


@dataclass(frozen=True)
class Key:
    """An Ed25519 key that everybody knows."""

    private: bytes

    @property
    def public(self) -> bytes:
        return Ed25519PrivateKey.from_private_bytes(self.private).public_key().public_bytes_raw()

    def sign(self, data: bytes) -> bytes:
        return Ed25519PrivateKey.from_private_bytes(self.private).sign(data)

    def to_json(self) -> dict[str, str]:
        return {"private_key": self.private.hex(), "public_key": self.public.hex()}


KEY, NEXT_KEY = Key(derive("device key", 32)), Key(derive("next key", 32))
DEVICE = device_id_of(KEY.public)


def make_enrolment_vector() -> dict[str, Any]:
    """From the line that a device is given to the request that enrols it."""
    study = compute_study_id(STUDY_NAME, MASKED)
    code = EnrolmentCode(server=SERVER, study=study, token=TOKEN)
    proof_input = encode_proof_input(token=TOKEN, study=study, public_key=KEY.public, labels=LABELS)
    proof = KEY.sign(proof_input)
    body = {
        "token": TOKEN,
        "study_id": study.hex(),
        "public_key": KEY.public.hex(),
        "labels": LABELS,
        "proof": proof.hex(),
    }
    return {
        "code": {
            "line": encode_enrolment_code(code),
            "body": encode_deterministic([1, SERVER, study, TOKEN]).hex(),
            "server": SERVER,
            "study": study.hex(),
            "token": TOKEN,
        },
        "study": {
            "name": STUDY_NAME,
            "plan": encode_plan(MASKED).hex(),
            "plan_json": plan_to_json(MASKED),
            "plan_digest": compute_plan_digest(MASKED).hex(),
            "id_input": encode_deterministic([STUDY_NAME, compute_plan_digest(MASKED)]).hex(),
            "id": study.hex(),
        },
        "device": KEY.to_json() | {"id": DEVICE.hex()},
        "labels": LABELS,
        "proof_input": proof_input.hex(),
        "proof": proof.hex(),
        "request": _request("POST", "/v1/enrolments", _JSON, _to_body(body)),
        "answer": {
            "status": 201,
            "body": {"device_id": DEVICE.hex(), "study_id": study.hex(), "labels": LABELS},
        },
        "rotation": _make_rotation(),
        "continuation": _make_continuation(),
    }


def _make_rotation() -> dict[str, Any]:
    last_sequences = {"weather": 41, "süd/b": 0, "aa": 7}
    proof_input = encode_rotation_input(
        device=DEVICE, public_key=NEXT_KEY.public, last_sequences=last_sequences
    )
    proof = NEXT_KEY.sign(proof_input)
    body = {
        "public_key": NEXT_KEY.public.hex(),
        "last_sequences": last_sequences,
        "proof": proof.hex(),
    }
    return {
        "next_key": NEXT_KEY.to_json(),
        "last_sequences": last_sequences,
        "proof_input": proof_input.hex(),
        "proof": proof.hex(),
        "request": make_signed("POST", "/v1/devices/me/keys", _to_body(body))["request"],
        "answer": {
            "status": 201,
            "body": {"device_id": DEVICE.hex(), "key_id": device_id_of(NEXT_KEY.public).hex()},
        },
    }


def _make_continuation() -> dict[str, Any]:
    study = compute_study_id(STUDY_NAME, PHASE_OF_CAMPAIGN)
    proof_input = encode_proof_input(
        token="", study=study, public_key=NEXT_KEY.public, labels=LABELS
    )
    body = {
        "study_id": study.hex(),
        "public_key": NEXT_KEY.public.hex(),
        "labels": LABELS,
        "proof": NEXT_KEY.sign(proof_input).hex(),
        "continues": {"device_id": DEVICE.hex(), "proof": KEY.sign(proof_input).hex()},
    }
    return {
        "proof_input": proof_input.hex(),
        "draw": CAMPAIGN.draw(DEVICE),
        "request": _request("POST", "/v1/enrolments", _JSON, _to_body(body)),
    }


def make_message_vectors() -> dict[str, Any]:
    """Whole signed sketches, and limits of coordinates."""
    return {
        "messages": [
            _make_message("masks, windows by time", MASKED, "weather", sequence=0, slots=(1, 1)),
            _make_message(
                "masks, a later sketch over two slots",
                MASKED,
                "weather",
                sequence=1,
                slots=(2, 3),
                first_record=len(RECORDS),
            ),
            _make_message("a study with an end", BOUNDED, "weather", sequence=1, slots=(22, 23)),
            _make_message(
                "a phase of a campaign", PHASE_OF_CAMPAIGN, "weather", sequence=0, slots=(0, 0)
            ),
            _make_message("windows by count", BY_COUNT, "süd/1 ☀", sequence=300, slots=None),
            _make_message(
                "some of the features", SPLIT, "weather", sequence=7, slots=(9, 9), ordinal=5
            ),
            _make_message(
                "all records of a device together", OF_DEVICES, "weather", sequence=3, slots=(4, 4)
            ),
            _make_message("phase reports", PHASES, "weather", sequence=0, slots=(2, 2), ordinal=1),
            _make_message(
                "phase reports of an unusable record",
                PHASES,
                "weather",
                sequence=1,
                slots=(3, 3),
                records=RECORDS[3:],
            ),
            _make_message(
                "a secret number of records", SECRET_COUNT, "weather", sequence=0, slots=(0, 0)
            ),
            *_make_other_messages(),
        ],
        "limits": [
            _make_limits("few records", MASKED, 5),
            _make_limits("the most records", MASKED, MASKED.most_records),
            _make_limits("a secret number of records", SECRET_COUNT, None),
            _make_limits("few records of a histogram", HISTOGRAM, 5),
            _make_limits("a secret number of records of a histogram", SECRET_HISTOGRAM, None),
            _make_limits("few records of moments", MOMENTS, 5),
            _make_limits("a secret number of records of moments", SECRET_MOMENTS, None),
            _make_limits("few records of clusters", LOOK, 5),
        ],
    }


def _make_other_messages() -> list[dict[str, Any]]:
    """Sketches of other statistics than features of numbers."""
    cases: list[tuple[str, SketchPlan, list[Record]]] = [
        ("features of columns of every kind", MIXED_FEATURES, MIXED),
        ("a histogram", HISTOGRAM, MIXED),
        ("a histogram, a secret number of records", SECRET_HISTOGRAM, MIXED),
        ("some of the dimensions of a histogram", ONE_DIMENSION, RECORDS),
        ("a grid", GRID, [[temperature, sky] for temperature, _, sky in MIXED]),
        ("moments", MOMENTS, MIXED),
        ("moments, a secret number of records", SECRET_MOMENTS, MIXED),
        ("clusters", LOOK, MIXED),
        ("one cluster, and candidates", ONE_CLUSTER, MIXED),
        ("one cluster, a secret number of records", SECRET_LOOK, MIXED),
        ("the first record of a device", ONE_RECORD, MIXED),
        ("reports of bins", BIN_REPORTS, RECORDS[3:]),
    ]
    return [
        _make_message(name, plan, "weather", sequence=0, slots=(0, 0), records=records)
        for name, plan, records in cases
    ]


def _make_message(
    name: str,
    plan: SketchPlan,
    stream: str,
    *,
    sequence: int,
    slots: tuple[int, int] | None,
    first_record: int = 0,
    ordinal: int = 0,
    records: list[Record] = RECORDS,
) -> dict[str, Any]:
    study, digest = compute_study_id(STUDY_NAME, plan), compute_plan_digest(plan)
    stream_id = encode_stream_id(DEVICE, stream)
    turn = sequence if slots is None else slots[0]
    block = plan.blocks.choose(ordinal=ordinal, stream=stream, turn=turn)
    statistic = plan.statistic_of(stream_id, block=block)
    accumulator = SketchAccumulator(statistic, first_record=first_record)
    # Where all records of a device are protected together, the first ones of a slot are taken.
    taken = records[: plan.most_records] if plan.protects_devices else records
    accumulator.add(_read_records(plan, taken))
    exact = plan.finish_sum(accumulator.sums, accumulator.n_records)
    n_records = None if plan.releases_count else accumulator.n_records
    if plan.protects_devices:
        n_records = 1
    if plan.reports_phases:
        noise, released = _draw_reports(plan, exact)
    else:
        noise = _make_noise(plan, f"{name}/noise")
        released = np.clip(exact + noise, *plan.coordinate_limits(n_records))
    payload = PayloadForm.of(plan).encode(released)
    header = SketchHeader(
        study=study,
        plan_digest=digest,
        device=DEVICE,
        stream=stream,
        sequence=sequence,
        slots=slots,
        n_records=n_records,
        n_public=not plan.releases_count,
        report_id=derive(f"{name}/report id", 16),
        payload_length=len(payload),
        payload_digest=hashlib.sha256(payload).digest(),
        block=block if plan.is_split else None,
        kind=plan.release.kind,
    )
    message = encode_message(header, payload, KEY.sign)
    protected, _, header_bytes, signature = cbor2.loads(message)[0].value
    path = f"/v1/studies/{study.hex()}/sketches/{header.sketch_id.hex()}"
    assert header.sketch_id == compute_sketch_id(study, DEVICE, stream, sequence)
    return {
        "name": name,
        "study_name": STUDY_NAME,
        "plan": encode_plan(plan).hex(),
        "plan_digest": digest.hex(),
        "study": study.hex(),
        "device": DEVICE.hex(),
        "private_key": KEY.private.hex(),
        "stream": stream,
        "stream_id": stream_id.hex(),
        "first_record": first_record,
        "ordinal": ordinal,
        "block": header.block,
        "records": records,
        "times": None if slots is None else _make_times(slots),
        "sums": exact.tolist(),
        "noise": noise.tolist(),
        "released": released.tolist(),
        "payload": payload.hex(),
        "sequence": sequence,
        "slots": slots if slots is None else list(slots),
        "n_records": n_records,
        "n_public": header.n_public,
        "report_id": header.report_id.hex(),
        "payload_digest": header.payload_digest.hex(),
        "header": header_bytes.hex(),
        "protected": protected.hex(),
        "signature_input": encode_deterministic(["Signature1", protected, b"", header_bytes]).hex(),
        "signature": signature.hex(),
        "message": message.hex(),
        "sketch_id_input": encode_deterministic([study, DEVICE, stream, sequence]).hex(),
        "sketch_id": header.sketch_id.hex(),
        "request": {
            "method": "PUT",
            "path": path,
            "headers": {"Content-Type": SKETCH_MEDIA_TYPE},
        },
    }


def _read_records(plan: SketchPlan, records: list[Record]) -> NDArray[np.float64]:
    """Return records as a device reads them: text as the numbers of levels."""
    columns = [
        read_levels(column, dimension.levels) if dimension.is_categorical else read_values(column)
        for column, dimension in zip(zip(*records, strict=True), plan.dimensions, strict=True)
    ]
    return np.column_stack(columns)


def _make_times(slots: tuple[int, int]) -> list[float]:
    """Times of the records, at both ends of the slots and between."""
    start, end = ORIGIN + slots[0] * 3600, ORIGIN + (slots[1] + 1) * 3600
    return [float(start), start + 0.25, start + 1799.5, end - 1.0, end - 0.125]


def _make_noise(plan: SketchPlan, label: str) -> NDArray[np.int64]:
    """Numbers spread evenly, with the variance of the plan's noise: what a server finds likely."""
    half_width = math.isqrt(int(3 * plan.mechanism.variance))
    words = np.frombuffer(derive(label, 8 * plan.n_coordinates), dtype="<u8")
    drawn = [int(word) % (2 * half_width + 1) - half_width for word in words]
    return np.array(drawn, dtype=np.int64)


def _draw_reports(
    plan: SketchPlan, exact: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return what is added to each phase, or the phases themselves of an unusable record."""
    released = plan.mechanism.add_noise(exact, SeededSource(1))
    form, circle = PayloadForm.of(plan), plan.bin_circle
    phases = np.frombuffer(form.encode(released), dtype="<u2").astype(np.int64)
    if exact.any():
        own = np.frombuffer(form.encode(exact), dtype="<u2")
        return (phases - own) % (circle.n_bins if circle else 1 << 16), released
    return phases, released


def _make_limits(name: str, plan: SketchPlan, n_records: int | None) -> dict[str, Any]:
    low, high = plan.coordinate_limits(n_records)
    noised = np.where(np.arange(low.size) % 2, low - 1, high + 1)
    noised[:3] = low[0], high[0], 0
    return {
        "name": name,
        "plan": encode_plan(plan).hex(),
        "n_records": n_records,
        "noised": noised.tolist(),
        "released": np.clip(noised, low, high).tolist(),
    }


def make_request_vectors() -> list[dict[str, Any]]:
    """Signed requests, with a body and without."""
    study = compute_study_id(STUDY_NAME, MASKED)
    heartbeat = {
        "agent": "0.1.0",
        "engine": "numpy",
        "waiting_sketches": 2,
        "plan_refusals": [],
    }
    return [
        make_signed("GET", "/v1/devices/me"),
        make_signed("GET", f"/v1/studies/{study.hex()}"),
        make_signed("PUT", "/v1/devices/me/heartbeat", _to_body(heartbeat)),
    ]


def make_signed(method: str, path: str, body: bytes = b"") -> dict[str, Any]:
    """Return a request that the vectors' device signs."""
    bases: list[bytes] = []

    def sign(base: bytes) -> bytes:
        bases.append(base)
        return KEY.sign(base)

    headers = sign_request(
        method=method, path=path, body=body, device=DEVICE, created=CREATED, sign=sign
    )
    return {
        "device": DEVICE.hex(),
        "private_key": KEY.private.hex(),
        "created": CREATED,
        "signature_base": bases[0].decode("ascii"),
        "request": _request(method, path, headers | (_JSON if body else {}), body),
    }


def _to_body(document: Mapping[str, Any]) -> bytes:
    return json.dumps(document, ensure_ascii=False).encode("utf-8")


def _request(method: str, path: str, headers: Mapping[str, str], body: bytes) -> dict[str, Any]:
    return {
        "method": method,
        "path": path,
        "headers": dict(headers),
        "body": body.decode("utf-8"),
    }
