"""A device written from the documents alone agrees with all vectors, and with a real server."""

from __future__ import annotations

import ast
import json
import os
import re
import struct
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

import cbor2
import pytest

from deploy.demo.cluster import Aggregator
from sfumato.analyst import Client
from sfumato.shared.plan import decode_plan
from sfumato.shared.wire import EnrolmentCode, encode_enrolment_code, problem_types
from tests.system.stranger import plans, sketch, wire
from tests.system.stranger.device import Device, choose_action

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
MODULES = ("sketch.py", "columns.py", "wire.py", "plans.py", "device.py")
FOREIGN = {"cbor2", "cryptography"}


def vectors(name: str) -> Any:
    return json.loads((ROOT / "tests/vectors" / f"{name}.json").read_text(encoding="utf-8"))


def of(document: Any, *names: str) -> list[bytes]:
    return [bytes.fromhex(document[name]) for name in names]


def test_the_stranger_imports_nothing_of_ours() -> None:
    names: set[str] = set()
    for module in MODULES:
        for node in ast.walk(ast.parse((HERE / module).read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                names |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                assert node.level == 0
                names.add(str(node.module))
    foreign = {name for name in names if not name.startswith("tests.system.stranger")}
    tops = {name.partition(".")[0] for name in foreign}
    assert tops <= set(sys.stdlib_module_names) | FOREIGN


# ---- the sketch ----


def test_its_features_are_those_of_the_vectors() -> None:
    vector = vectors("features")
    for phase, cosine, sine in vector["features"]:
        assert sketch.feature_of(phase) == (cosine, sine)
    table = b"".join(struct.pack("<2h", *sketch.feature_of(phase)) for phase in range(65536))
    assert wire.sha256(table).hex() == vector["table_sha256"]


@pytest.mark.parametrize("index", range(len(vectors("frequencies"))))
def test_its_frequencies_are_those_of_the_vectors(index: int) -> None:
    vector = vectors("frequencies")[index]
    turns, bits = sketch.draw_frequencies(
        bytes.fromhex(vector["seed"]),
        vector["n_frequencies"],
        vector["radius_law"],
        vector["lower"],
        vector["upper"],
        vector["scale"],
    )
    assert (turns, bits) == (vector["turns"], vector["bits"])
    assert sketch.digest_of(turns, bits).hex() == vector["digest"]


@pytest.mark.parametrize("index", range(len(vectors("sketches"))))
def test_its_sums_are_those_of_the_vectors(index: int) -> None:
    vector = vectors("sketches")[index]
    (seed, stream_id), m = of(vector, "seed", "stream_id"), vector["n_frequencies"]
    r, first = vector["measurements_per_record"], vector["first_record"]
    box = vector["lower"], vector["upper"]
    masks = sketch.Masks(seed, stream_id, m, r) if r < m else None
    turns, bits = sketch.draw_frequencies(seed, m, vector["radius_law"], *box, vector["scale"])
    assert sketch.digest_of(turns, bits).hex() == vector["frequencies_digest"]
    sums = sketch.add_up(vector["records"], *box, turns, bits, masks=masks, first_record=first)
    assert sums == vector["sums"]
    quantised = [sketch.quantise(record, *box) for record in vector["records"]]
    zero = [0] * len(box[0])
    assert [steps or zero for steps in quantised] == vector["quantised"]
    if masks is not None:
        places = range(first, first + len(vector["records"]))
        assert [masks.group_of(place) for place in places] == vector["groups"]


# ---- the wire ----


def test_it_reads_the_enrolment_code_of_the_vectors() -> None:
    code = vectors("enrolment")["code"]
    server, study, token = wire.read_code(code["line"].lower())
    assert (server, study.hex(), token) == (code["server"], code["study"], code["token"])
    assert wire.to_cbor([1, server, study, token]).hex() == code["body"]


def test_it_enrols_with_the_bytes_of_the_vectors() -> None:
    vector = vectors("enrolment")
    study, code, labels = vector["study"], vector["code"], vector["labels"]
    plan_bytes, study_id, plan_digest = of(study, "plan", "id", "plan_digest")
    assert wire.study_id_input(study["name"], plan_digest).hex() == study["id_input"]
    plan = plans.Plan.read(plan_bytes, study["name"], study_id)
    assert {label["name"] for label in plan["labels"]} == set(labels)
    key = wire.Key(bytes.fromhex(vector["device"]["private_key"]))
    assert (key.public.hex(), key.key_id.hex()) == (
        vector["device"]["public_key"],
        vector["device"]["id"],
    )
    told = wire.proof_input(code["token"], study_id, key.public, labels)
    assert told.hex() == vector["proof_input"]
    assert key.sign(told).hex() == vector["proof"]
    request = vector["request"]
    assert (request["method"], request["path"]) == ("POST", "/v1/enrolments")
    assert request["headers"] == {"Content-Type": "application/json"}
    assert json.loads(request["body"]) == {
        "token": code["token"],
        "study_id": study["id"],
        "public_key": key.public.hex(),
        "labels": labels,
        "proof": vector["proof"],
    }
    assert vector["answer"] == {
        "status": 201,
        "body": {"device_id": key.key_id.hex(), "study_id": study["id"], "labels": labels},
    }


def test_the_json_of_the_plan_has_the_fields_of_its_bytes() -> None:
    study = vectors("enrolment")["study"]

    def to_json(value: Any) -> Any:
        if isinstance(value, bytes):
            return value.hex()
        if isinstance(value, dict):
            return {name: to_json(item) for name, item in value.items()}
        if isinstance(value, list | tuple):
            return [to_json(item) for item in value]
        return value if isinstance(value, int | float | str) else str(value)

    assert to_json(cbor2.loads(bytes.fromhex(study["plan"]))) == study["plan_json"]


def test_it_changes_its_key_with_the_bytes_of_the_vectors() -> None:
    vector = vectors("enrolment")
    rotation = vector["rotation"]
    (device,) = of(vector["device"], "id")
    key = wire.Key(bytes.fromhex(vector["device"]["private_key"]))
    next_key = wire.Key(bytes.fromhex(rotation["next_key"]["private_key"]))
    told = wire.rotation_input(device, next_key.public, rotation["last_sequences"])
    assert told.hex() == rotation["proof_input"]
    assert next_key.sign(told).hex() == rotation["proof"]
    request = rotation["request"]
    body = request["body"].encode("utf-8")
    assert json.loads(body) == {
        "public_key": next_key.public.hex(),
        "last_sequences": rotation["last_sequences"],
        "proof": rotation["proof"],
    }
    created = int(re.findall(r"created=(\d+)", request["headers"]["Signature-Input"])[0])
    signed = wire.sign_headers(key, device, request["method"], request["path"], body, created)
    assert signed | {"Content-Type": "application/json"} == request["headers"]
    assert rotation["answer"]["body"]["key_id"] == next_key.key_id.hex()


@pytest.mark.parametrize("index", range(len(vectors("requests"))))
def test_it_signs_requests_as_the_vectors_do(index: int) -> None:
    vector = vectors("requests")[index]
    request, created = vector["request"], vector["created"]
    (device,) = of(vector, "device")
    body = request["body"].encode("utf-8")
    parameters = wire.signature_parameters(device, created, body)
    base = wire.signature_base(request["method"], request["path"], body, parameters)
    assert base.decode("ascii") == vector["signature_base"]
    key = wire.Key(bytes.fromhex(vector["private_key"]))
    signed = wire.sign_headers(key, device, request["method"], request["path"], body, created)
    if body:
        signed["Content-Type"] = "application/json"
    assert signed == request["headers"]


MESSAGES = vectors("messages")["messages"]


def read_plan(vector: Any) -> plans.Plan:
    data, study = of(vector, "plan", "study")
    return plans.Plan.read(data, vector["study_name"], study)


def compose(
    plan: plans.Plan, vector: Any, *, study: bytes, device: bytes, ordinal: int, report_id: bytes
) -> dict[str, Any]:
    """Sketch the records of a vector with its noise; return every step, by its name there."""
    stream, sequence, slots = vector["stream"], vector["sequence"], vector["slots"]
    block = plan.choose_block(ordinal, stream, sequence, slots)
    records = plan.take(vector["records"])
    sums = plan.add_up(records, device, stream, vector["first_record"], block)
    released, payload = plan.release(records, sums, vector["noise"], block)
    header = wire.encode_header(
        plan,
        study=study,
        device=device,
        stream=stream,
        sequence=sequence,
        slots=slots,
        n_records=plan.count(records),
        report_id=report_id,
        payload=payload,
        block=block,
    )
    return {
        "block": block,
        "sums": sums,
        "n_records": plan.count(records),
        "released": released,
        "payload": payload,
        "header": header,
    }


@pytest.mark.parametrize("vector", MESSAGES, ids=lambda vector: vector["name"])
def test_it_makes_the_messages_of_the_vectors(vector: Any) -> None:
    plan = read_plan(vector)
    study, device, report_id = of(vector, "study", "device", "report_id")
    stream, sequence, slots = vector["stream"], vector["sequence"], vector["slots"]
    made = compose(
        plan, vector, study=study, device=device, ordinal=vector["ordinal"], report_id=report_id
    )
    header, payload, protected = made["header"], made["payload"], wire.encode_protected(device)
    key, told = wire.Key(*of(vector, "private_key")), wire.signature_input(protected, header)
    identity = wire.sketch_id_input(study, device, stream, sequence)
    made |= {
        "stream_id": wire.stream_id(device, stream),
        "n_public": not plan.counts,
        "payload_digest": wire.sha256(payload),
        "protected": protected,
        "signature_input": told,
        "signature": key.sign(told),
        "message": wire.encode_message(key, device, header, payload),
        "sketch_id_input": identity,
        "sketch_id": wire.sha256(identity),
        "request": {
            "method": "PUT",
            "path": wire.sketch_path(study, wire.sha256(identity)),
            "headers": {"Content-Type": "application/vnd.sfumato.sketch+cbor"},
        },
    }
    shown = {name: each.hex() if isinstance(each, bytes) else each for name, each in made.items()}
    assert shown == {name: vector[name] for name in made}
    if slots is not None:
        found = [plan.slot_of(when) for when in vector["times"]]
        assert [min(found), max(found)] == slots


@pytest.mark.parametrize("vector", vectors("messages")["limits"], ids=lambda vector: vector["name"])
def test_it_clamps_as_the_vectors_do(vector: Any) -> None:
    data = bytes.fromhex(vector["plan"])
    plan = plans.Plan(data, cbor2.loads(data))
    released = plan.clamp(vector["noised"], vector["n_records"])
    assert released == vector["released"]
    assert released != vector["noised"]


def test_it_refuses_odds_beyond_epsilon_and_a_plan_that_says_more_of_a_device() -> None:
    (vector,) = (vector for vector in MESSAGES if vector["name"] == "phase reports")
    data = bytes.fromhex(vector["plan"])
    fields = cbor2.loads(data)
    release = fields["release"]
    epsilon, n_reports = Fraction(release["epsilon"]), len(vector["noise"])
    # The plan has the largest odds that epsilon allows.
    assert sketch.keeps_epsilon(release["odds"], epsilon, n_reports)
    assert not sketch.keeps_epsilon(release["odds"] + Fraction(1, 2**52), epsilon, n_reports)
    plans.Plan(data, fields).check_odds()
    for change in ({"odds": release["odds"] + Fraction(1, 2**52)}, {"odds": Fraction(1, 2)}):
        with pytest.raises(wire.RefusedError):
            plans.Plan(data, fields | {"release": release | change}).check_odds()
    plans.Plan(data, fields).check_unit()
    for name, value in (("most_streams_per_device", 2), ("least_records", 2)):
        with pytest.raises(wire.RefusedError, match=name):
            plans.Plan(data, fields | {name: value}).check_unit()


# ---- the table of answers ----


def read_table() -> dict[str, tuple[int, str]]:
    """Return status and action of each slug, as section 11 of the document prints them."""
    text = (ROOT / "shared/wire/README.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `([a-z-]+)` \| (\d{3}) \| ([a-z]+) \|$", text, re.MULTILINE)
    return {slug: (int(status), action) for slug, status, action in rows}


def test_the_documents_table_of_answers_is_that_of_the_code() -> None:
    assert read_table() == {
        problem.slug: (problem.status, problem.action.value) for problem in problem_types()
    }


# ---- a real server ----


def publish(server: Aggregator, vector: Any) -> str:
    """Publish the study of a message vector, and return a code that enrols one device."""
    with Client(server.url, key=server.key) as client:
        plan = decode_plan(bytes.fromhex(vector["plan"]))
        study = client.create_study(vector["study_name"], plan).study_id
        token = client.create_token(study)
    assert study == vector["study"]
    return encode_enrolment_code(
        EnrolmentCode(server=server.url, study=bytes.fromhex(study), token=token)
    )


ACTIONS = {slug: action for slug, (_, action) in read_table().items()}
LABELS = vectors("enrolment")["labels"]
FIRST, SECOND = MESSAGES[:2]


def make_message(device: Device, vector: Any) -> bytes:
    """Sketch the records of a vector, with its noise, as a device that has another key."""
    made = compose(
        device.plan,
        vector,
        study=device.study,
        device=device.device,
        ordinal=device.send_signed("GET", "/v1/devices/me").document["ordinal"],
        report_id=os.urandom(16),
    )
    return wire.encode_message(device.key, device.device, made["header"], made["payload"])


def sketch_id_of(device: Device, vector: Any) -> bytes:
    place = vector["stream"], vector["sequence"]
    return wire.sha256(wire.sketch_id_input(device.study, device.device, *place))


def test_a_stranger_walks_from_the_code_to_a_stored_sketch_and_another_key(
    server: Aggregator,
) -> None:
    device = Device(publish(server, FIRST), wire.Key(os.urandom(32)))
    assert [device.enrol(LABELS).status for _ in range(2)] == [201, 200]
    asked = device.send_signed("GET", "/v1/devices/me")
    assert (asked.status, asked.document["streams"]) == (200, [])
    assert asked.document["device_id"] == device.device.hex()
    message = make_message(device, FIRST)
    answers = [device.upload("weather", 0, message) for _ in range(2)]
    assert [answer.status for answer in answers] == [201, 200]
    sketch_id = sketch_id_of(device, FIRST)
    assert [choose_action(answer, sketch_id, ACTIONS) for answer in answers] == [None, None]
    assert device.change_key(wire.Key(os.urandom(32)), {"weather": 0}).status == 201
    assert device.upload("weather", 1, make_message(device, SECOND)).status == 201
    (stream,) = device.send_signed("GET", "/v1/devices/me").document["streams"]
    assert stream == {
        "stream": "weather",
        "last_sequence": 1,
        "last_slot": 3,
        "missing": [],
        "n_missing": 0,
    }
    notice = device.send_signed("GET", f"/v1/studies/{device.study.hex()}").document
    assert (notice["state"], notice["accept_until"]) == ("open", None)
    beat = {"agent": "1", "engine": "python", "waiting_sketches": 0, "plan_refusals": []}
    assert device.send_signed("PUT", "/v1/devices/me/heartbeat", beat).status == 200


def test_a_stranger_learns_from_a_refusal_what_to_do(server: Aggregator) -> None:
    device = Device(publish(server, FIRST), wire.Key(os.urandom(32)))
    device.enrol(LABELS)
    sketch_id = sketch_id_of(device, FIRST)

    def act(message: bytes) -> str | None:
        return choose_action(device.upload("weather", 0, message), sketch_id, ACTIONS)

    assert act(b"no message") == "shelve"
    assert act(make_message(device, FIRST)) is None
    # With another report id it is another release of the same window.
    assert act(make_message(device, FIRST)) == "suspend"
    last = FIRST | {"slots": [10**6, 10**6]}
    device = Device(publish(server, FIRST), wire.Key(os.urandom(32)))
    device.enrol(LABELS)
    sketch_id = sketch_id_of(device, FIRST)
    assert act(make_message(device, last)) == "hold"


def test_a_server_stores_the_messages_of_the_vectors_as_they_are(server: Aggregator) -> None:
    key = wire.Key(bytes.fromhex(FIRST["private_key"]))
    device = Device(publish(server, FIRST), key)
    assert device.enrol(LABELS).status == 201
    for vector in (FIRST, SECOND):
        request = vector["request"]
        answer = device.send(
            request["method"],
            request["path"],
            request["headers"],
            bytes.fromhex(vector["message"]),
        )
        assert (answer.status, answer.document["sketch_id"]) == (201, vector["sketch_id"])


def test_a_server_stores_what_a_stranger_makes_under_every_kind_of_plan(
    server: Aggregator,
) -> None:
    refused = []
    for vector in MESSAGES[2:]:
        device = Device(publish(server, vector), wire.Key(os.urandom(32)))
        assert device.enrol(LABELS).status == 201
        answer = device.upload(vector["stream"], vector["sequence"], make_message(device, vector))
        action = choose_action(answer, sketch_id_of(device, vector), ACTIONS)
        if (answer.status, action) != (201, None):
            refused.append((vector["name"], answer))
    assert refused == []
