"""The published vectors of the wire are what the code makes, takes, and describes in CDDL."""

import json
from typing import Any

import pycddl
import pytest

from sfumato.shared.plan import decode_plan, plan_from_json
from sfumato.shared.wire import (
    compute_study_id,
    decode_enrolment_code,
    decode_message,
    device_id_of,
    parse_request_signature,
    verify_proof,
    verify_request,
)
from tests.shared.wire.samples import cddl_rule
from tests.vectors import make_vectors, result_vectors, wire_vectors

ENROLMENT = json.loads((make_vectors.HERE / "enrolment.json").read_text(encoding="utf-8"))
MESSAGES = json.loads((make_vectors.HERE / "messages.json").read_text(encoding="utf-8"))
REQUESTS = json.loads((make_vectors.HERE / "requests.json").read_text(encoding="utf-8"))


def test_the_vectors_are_those_that_the_command_makes() -> None:
    assert wire_vectors.make_enrolment_vector() == ENROLMENT
    assert wire_vectors.make_message_vectors() == MESSAGES
    assert wire_vectors.make_request_vectors() == REQUESTS
    kept = json.loads((make_vectors.HERE / "results.json").read_text(encoding="utf-8"))
    assert json.loads(json.dumps(result_vectors.make_result_vectors())) == kept


def test_the_enrolment_of_the_vectors_is_accepted() -> None:
    code = decode_enrolment_code(ENROLMENT["code"]["line"])
    plan = decode_plan(bytes.fromhex(ENROLMENT["study"]["plan"]))
    assert plan == plan_from_json(ENROLMENT["study"]["plan_json"])
    assert code.study == compute_study_id(ENROLMENT["study"]["name"], plan)
    body = json.loads(ENROLMENT["request"]["body"])
    public_key = bytes.fromhex(body["public_key"])
    verify_proof(
        bytes.fromhex(ENROLMENT["proof_input"]),
        public_key=public_key,
        proof=bytes.fromhex(body["proof"]),
    )
    assert device_id_of(public_key).hex() == ENROLMENT["answer"]["body"]["device_id"]


def test_both_keys_of_a_continuation_sign_the_same_input() -> None:
    vector = ENROLMENT["continuation"]
    body = json.loads(vector["request"]["body"])
    for key, proof in (
        (bytes.fromhex(body["public_key"]), body["proof"]),
        (wire_vectors.KEY.public, body["continues"]["proof"]),
    ):
        verify_proof(
            bytes.fromhex(vector["proof_input"]), public_key=key, proof=bytes.fromhex(proof)
        )
    assert body["continues"]["device_id"] == ENROLMENT["device"]["id"]


def test_the_messages_of_the_vectors_verify() -> None:
    for vector in MESSAGES["messages"]:
        message = decode_message(bytes.fromhex(vector["message"]))
        message.verify(wire_vectors.KEY.public)
        assert message.header.sketch_id.hex() == vector["sketch_id"], vector["name"]


def test_the_signed_requests_of_the_vectors_verify() -> None:
    for vector in REQUESTS:
        request = vector["request"]
        headers = {name.lower(): value for name, value in request["headers"].items()}
        verify_request(
            parse_request_signature(headers),
            method=request["method"],
            path=request["path"],
            body=request["body"].encode("utf-8"),
            public_key=wire_vectors.KEY.public,
            now=vector["created"],
        )


OF_ENROLMENT = {
    "enrolment-code": ENROLMENT["code"]["body"],
    "study-id-input": ENROLMENT["study"]["id_input"],
    "enrolment-proof-input": ENROLMENT["proof_input"],
    "rotation-proof-input": ENROLMENT["rotation"]["proof_input"],
}
OF_MESSAGES = {
    "sketch-message": "message",
    "protected-header": "protected",
    "sketch-header": "header",
    "sig-structure": "signature_input",
    "sketch-id-input": "sketch_id_input",
}


def test_the_cddl_files_describe_the_bytes_of_the_vectors() -> None:
    described = [("enrolment.cddl", name, value) for name, value in OF_ENROLMENT.items()]
    for vector in MESSAGES["messages"]:
        described.append(("enrolment.cddl", "plan", vector["plan"]))
        described += [("sketch.cddl", name, vector[own]) for name, own in OF_MESSAGES.items()]
    for file, name, value in described:
        cddl_rule(file, name).validate_cbor(bytes.fromhex(value))


@pytest.mark.parametrize(
    ("name", "broken"),
    [
        ("plan", {"format_version": 1}),
        ("enrolment-proof-input", ["sfumato/v1/rotation", "t", b"s" * 32, b"k" * 32, {}]),
        ("rotation-proof-input", ["sfumato/v1/rotation", b"d" * 32, b"k" * 32, {"a": -1}]),
        ("study-id-input", ["name", b"short"]),
    ],
)
def test_the_cddl_files_refuse_what_has_another_form(name: str, broken: Any) -> None:
    from sfumato.shared.cbor import encode_deterministic

    with pytest.raises(pycddl.ValidationError):
        cddl_rule("enrolment.cddl", name).validate_cbor(encode_deterministic(broken))
