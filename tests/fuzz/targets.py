"""What is fuzzed: each target takes bytes, and raises nothing but the errors of its own rules."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import cbor2
from pydantic import TypeAdapter, ValidationError

from sfumato.shared.cbor import encode_deterministic
from sfumato.shared.core.statistics.clusters import Units
from sfumato.shared.errors import ConfigError, PlanError, PrivacyError, WireError
from sfumato.shared.plan import (
    ClustersPart,
    Dimension,
    LogTransform,
    decode_plan,
    encode_plan,
    plan_from_json,
    plan_to_json,
)
from sfumato.shared.structure import structure
from sfumato.shared.wire import decode_header, decode_message, device_id_of
from sfumato.shared.wire.objects.devices import EnrolmentRequest, HeartbeatRequest, RotationRequest
from sfumato.shared.wire.objects.studies import ExclusionRequest, RevocationRequest, TokenRequest
from tests.aggregator.fleet import Device, make_plan
from tests.shared.wire.samples import PUBLIC_KEY, make_message

REQUESTS: dict[type, TypeAdapter[Any]] = {
    request: TypeAdapter(request)
    for request in (
        EnrolmentRequest,
        ExclusionRequest,
        HeartbeatRequest,
        RevocationRequest,
        RotationRequest,
        TokenRequest,
    )
}
_MIXED = (
    Dimension(
        name="load", unit="kW", lower=-1e6, upper=1e6, transform=LogTransform(resolution=0.01)
    ),
    Dimension(name="site", unit="1", levels=("north", "south"), missing="north"),
)
_OTHERS: Mapping[str, Any] = {
    "histogram": {"bins_log2": (3, 0)},
    "grid": {"cells": (40, 2, 2)},
    "moments": {},
    "clusters": {
        "clusters": ClustersPart(
            assigned=("site",),
            summed=("load", "site"),
            centres=((-32767, 32767), (32767, -32767)),
            weights=(1, 2),
            cap=10**9,
            origins=((0, 1, 2), (-9000, 0, 0)),
            radii=((1, 20000, 65534), (9, 8, 7)),
            units=Units(residual=9, count=8, square=7, beyond=6, presence=5, total=4),
            clusters_per_sketch=2,
        )
    },
}
_PLANS = (
    make_plan(),
    *(
        make_plan(statistic=name, dimensions=_MIXED, n_frequencies=None, seed=None, **choices)
        for name, choices in _OTHERS.items()
    ),
)
_DOCUMENTS = [plan_to_json(plan) for plan in _PLANS]


@dataclass(frozen=True)
class Target:
    """A parser, and valid inputs to begin from."""

    parse: Callable[[bytes], object]
    seeds: Callable[[], Iterable[bytes]]


def parse_message(data: bytes) -> None:
    """Read and verify an upload; what verifies is what its device signed, byte by byte."""
    for candidate in both_forms(data):
        _parse_one_message(candidate)


def both_forms(data: bytes) -> Iterator[bytes]:
    """Yield bytes, and their deterministic form where there is one: few changes leave them so."""
    yield data
    try:
        yield encode_deterministic(cbor2.loads(data, max_depth=16))
    except (cbor2.CBORError, ValueError, TypeError, OverflowError, RecursionError):
        return


def _parse_one_message(data: bytes) -> None:
    try:
        message = decode_message(data)
        message.verify(PUBLIC_KEY)
    except WireError:
        return
    assert message.header.device == device_id_of(PUBLIC_KEY)
    assert data in make_messages()


def make_messages() -> list[bytes]:
    """Return messages of every form."""
    return [
        make_message(),
        make_message(slots=None),
        make_message(n_records=None, n_public=False),
        make_message(sequence=(1 << 63) - 1, stream="é" * 64, slots=(5, 1 << 40)),
    ]


def parse_header(data: bytes) -> None:
    """Read the part of a message that is signed, which most changes of a message never reach."""
    for candidate in both_forms(data):
        try:
            decode_header(candidate)
        except WireError:
            continue


def make_headers() -> list[bytes]:
    """Return the headers of messages."""
    return [decode_message(message).header_bytes for message in make_messages()]


def parse_plan(data: bytes) -> None:
    """Read a plan from its hashed bytes; it is what those bytes encode."""
    for candidate in both_forms(data):
        try:
            plan = decode_plan(candidate)
        except (WireError, PlanError, PrivacyError):
            continue
        assert encode_plan(plan) == candidate


def parse_plan_json(data: bytes) -> None:
    """Read a plan from JSON, as an operator sends one: whole, or some fields of a valid one."""
    try:
        document: Any = json.loads(data)
    except (ValueError, RecursionError):  # of the JSON parser, which the framework answers for
        return
    for candidate in (document, *_overlay(document)):
        try:
            plan_from_json(candidate)
        except (WireError, PlanError, PrivacyError):
            continue


def _overlay(document: Any) -> list[Any]:
    """Return valid plans with the fields of a document in place of theirs."""
    if not isinstance(document, dict):
        return [[document]]
    return [valid | document for valid in _DOCUMENTS]


def make_plan_documents() -> list[bytes]:
    """Return plans as JSON, and each of their fields alone."""
    fields = [{name: value} for valid in _DOCUMENTS for name, value in valid.items()]
    return [json.dumps(document).encode() for document in [*_DOCUMENTS, *fields]]


def parse_requests(data: bytes) -> None:
    """Read the JSON of requests that need no key, or come from far away.

    What the server takes the reader of the clients takes too.
    """
    for request, adapter in REQUESTS.items():
        try:
            adapter.validate_json(data)
        except ValidationError:
            continue
        try:
            structure(request, json.loads(data))
        except ConfigError as error:
            raise AssertionError(data) from error


def make_requests() -> list[bytes]:
    """Return one of each request."""
    bodies = [
        Device(1).enrolment("sfe_token", b"s" * 32),
        {"reason": "tampered with"},
        {"max_uses": 10, "labels": {"site": "north"}},
        {"reason": "stolen", "key_id": "5f" * 32},
        *_make_heartbeats(),
    ]
    rotation = Device(1).rotation(Device(1).with_key(101), main=41, night=0)
    return [*(json.dumps(body).encode() for body in bodies), rotation]


def _make_heartbeats() -> list[dict[str, Any]]:
    """Return what a device says that takes the plan, and one whose owner refuses it."""
    refusal = {"study": "5f" * 32, "rule": "policy.max_epsilon", "detail": "is 10, 4 is allowed"}
    said = {"agent": "0.1.0", "engine": "avx2", "waiting_sketches": 2}
    return [said, said | {"plan_refusals": [refusal, refusal | {"rule": "policy.mechanisms"}]}]


def parse_badly(data: bytes) -> None:
    """Break on two bytes in a row: the fuzzer must find them, or it finds nothing."""
    if data[:1] == b"\xd2" and data[1:2] == b"\x84":
        raise RuntimeError("found")


TARGETS: Mapping[str, Target] = {
    "message": Target(parse_message, make_messages),
    "header": Target(parse_header, make_headers),
    "plan": Target(parse_plan, lambda: [encode_plan(plan) for plan in _PLANS]),
    "plan-json": Target(parse_plan_json, make_plan_documents),
    "requests": Target(parse_requests, make_requests),
    "planted": Target(parse_badly, lambda: [b"\x00\x00\x00"]),
}
