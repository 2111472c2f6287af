"""A study and devices with real keys, for tests that speak to a server."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache
from typing import Any

import httpx
import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from numpy.typing import NDArray

from sfumato.shared.core import SketchAccumulator
from sfumato.shared.plan import (
    Dimension,
    Label,
    PlanSpec,
    SketchPlan,
    WindowRule,
    compute_plan_digest,
    create_plan,
    plan_to_json,
)
from sfumato.shared.privacy.testing import SeededSource
from sfumato.shared.wire import (
    SKETCH_MEDIA_TYPE,
    PayloadForm,
    SketchHeader,
    device_id_of,
    encode_message,
    encode_proof_input,
    encode_rotation_input,
    sign_request,
)

SLOT = 480
BEAT = "/v1/devices/me/heartbeat"
SKETCH = {"Content-Type": SKETCH_MEDIA_TYPE}
CLUSTERS = np.array([[-5.0, -5.0], [0.0, 5.0], [5.0, -2.0]])


@cache
def make_plan(**changes: Any) -> SketchPlan:
    """Return a small plan; ``changes`` replace its choices."""
    choices: dict[str, Any] = {
        "dimensions": (
            Dimension(name="pressure", unit="bar", lower=-10.0, upper=10.0, scale=0.7),
            Dimension(name="flow", unit="l/s", lower=-10.0, upper=10.0, scale=0.7),
        ),
        "n_frequencies": 60,
        "seed": hashlib.sha256(b"fleet").hexdigest(),
        "epsilon": Fraction(10),
        "window": WindowRule(kind="time", origin=0, length_s=3600),
        "most_records": 2000,
        "most_sketches": 1000,
        "labels": (Label(name="site", values=("north", "south")),),
    }
    return create_plan(PlanSpec(**(choices | changes)))


def draw_records(seed: int, count: int = 500) -> NDArray[np.float64]:
    """Draw records around three clusters."""
    rng = np.random.default_rng(seed)
    return CLUSTERS[rng.integers(3, size=count)] + 0.5 * rng.standard_normal((count, 2))


def change_bytes(data: bytes, position: int, flip: int = 1) -> bytes:
    """Return the bytes with bits flipped in one of them."""
    changed = bytearray(data)
    changed[position] ^= flip
    return bytes(changed)


@dataclass
class Device:
    """A device with its key; the same seed gives the same device."""

    seed: int
    labels: dict[str, str] = field(default_factory=lambda: {"site": "north"})

    def __post_init__(self) -> None:
        secret = hashlib.sha256(b"device %d" % self.seed).digest()
        self.key = Ed25519PrivateKey.from_private_bytes(secret)
        self.public_key = self.key.public_key().public_bytes_raw()
        self.device_id = device_id_of(self.public_key)

    def with_key(self, seed: int) -> Device:
        """Return the same device with another key; its identity stays."""
        other = Device(seed, self.labels)
        other.seed, other.device_id = self.seed, self.device_id
        return other

    def rotation(self, successor: Device, **last_sequences: int) -> bytes:
        """Return the body of a change to the key of ``successor``."""
        told = encode_rotation_input(
            device=self.device_id,
            public_key=successor.public_key,
            last_sequences=last_sequences,
        )
        body = {
            "public_key": successor.public_key.hex(),
            "last_sequences": last_sequences,
            "proof": successor.key.sign(told).hex(),
        }
        return json.dumps(body).encode()

    def enrolment(self, token: str, study: bytes) -> dict[str, Any]:
        """Return the body of an enrolment."""
        proof_input = encode_proof_input(
            token=token, study=study, public_key=self.public_key, labels=self.labels
        )
        return {
            "token": token,
            "study_id": study.hex(),
            "public_key": self.public_key.hex(),
            "labels": self.labels,
            "proof": self.key.sign(proof_input).hex(),
        }

    def sign(
        self, method: str, path: str, *, now: float, body: bytes = b"", **more: str
    ) -> dict[str, str]:
        """Return the headers of a request that this device signs; ``more`` are others."""
        headers = sign_request(
            method=method,
            path=path,
            body=body,
            device=self.device_id,
            created=int(now),
            sign=self.key.sign,
        )
        return headers | more

    def beat(self, *, now: float, **more: Any) -> dict[str, Any]:
        """Return the content and headers of a heartbeat."""
        told = {"agent": "0.1.0", "engine": "numpy", "waiting_sketches": 0, **more}
        body = json.dumps(told).encode()
        kind = {"Content-Type": "application/json"}
        return {"content": body, "headers": self.sign("PUT", BEAT, now=now, body=body) | kind}

    def release(
        self, plan: SketchPlan, *, noise_seed: int, count: int = 500, block: int = 0
    ) -> NDArray[np.int64]:
        """Sketch records of this device and add noise: shape ``(plan.n_coordinates,)``."""
        accumulator = SketchAccumulator(plan.statistic_of(self.device_id + b"main", block=block))
        accumulator.add(draw_records(self.seed, count))
        exact = plan.finish_sum(accumulator.sums, count)
        return plan.mechanism.add_noise(exact, SeededSource(noise_seed))

    def message(
        self,
        study: bytes,
        plan: SketchPlan,
        sums: NDArray[np.int64] | None = None,
        **changes: Any,
    ) -> tuple[str, bytes]:
        """Return a sketch's identity and message; ``changes`` replace fields of the header.

        Its slot follows from its number.
        """
        n_records = changes.get("n_records", _usual_size(plan))
        slot = SLOT + changes.get("sequence", 0)
        payload: bytes | None = changes.pop("payload", None)
        if payload is None:
            if sums is None:
                block, count = changes.get("block") or 0, n_records or 500
                sums = self.release(plan, noise_seed=self.seed, count=count, block=block)
            payload = PayloadForm.of(plan).encode(sums)
        fields: dict[str, Any] = {
            "study": study,
            "plan_digest": compute_plan_digest(plan),
            "device": self.device_id,
            "stream": "main",
            "sequence": 0,
            "slots": (slot, slot) if plan.window.kind == "time" else None,
            "n_records": n_records,
            "n_public": not plan.releases_count,
            "report_id": hashlib.sha256(b"report").digest()[:16],
            "payload_length": len(payload),
            "payload_digest": hashlib.sha256(payload).digest(),
            "kind": plan.release.kind,
        }
        header = SketchHeader(**(fields | changes))
        return header.sketch_id.hex(), encode_message(header, payload, self.key.sign)


def _usual_size(plan: SketchPlan) -> int | None:
    if plan.releases_count:
        return None
    return 1 if plan.protects_devices else 500


@dataclass
class Desk:
    """An operator at a server: makes studies, enrols devices, uploads and reads."""

    http: httpx.AsyncClient
    operator_key: str
    analyst_key: str

    @property
    def operator(self) -> dict[str, str]:
        """Return the headers of an operator."""
        return {"Authorization": f"Bearer {self.operator_key}"}

    @property
    def analyst(self) -> dict[str, str]:
        """Return the headers of an analyst."""
        return {"Authorization": f"Bearer {self.analyst_key}"}

    async def publish(self, plan: SketchPlan, name: str = "pumps") -> bytes:
        """Create a study and return its identity."""
        body = {"name": name, "plan": plan_to_json(plan), "allow_same_plan": True}
        answer = await self.http.post("/v1/studies", json=body, headers=self.operator)
        assert answer.status_code == 201, answer.text
        return bytes.fromhex(answer.json()["study_id"])

    async def open(
        self, *devices: Device, plan: SketchPlan | None = None, name: str = "pumps"
    ) -> bytes:
        """Create a study with enrolled devices, and return its identity."""
        study = await self.publish(plan or make_plan(), name)
        if devices:
            await self.enrol(study, *devices)
        return study

    async def make_token(self, study: bytes, **body: Any) -> str:
        """Create an enrolment token."""
        url = f"/v1/studies/{study.hex()}/tokens"
        answer = await self.http.post(url, json=body, headers=self.operator)
        assert answer.status_code == 201, answer.text
        return str(answer.json()["token"])

    async def enrol(self, study: bytes, *devices: Device) -> None:
        """Enrol devices with one token."""
        token = await self.make_token(study, max_uses=len(devices))
        for device in devices:
            answer = await self.http.post("/v1/enrolments", json=device.enrolment(token, study))
            assert answer.status_code == 201, answer.text

    async def put(self, study: bytes, sketch: str, body: bytes) -> httpx.Response:
        """Upload a message."""
        return await self.http.put(
            f"/v1/studies/{study.hex()}/sketches/{sketch}", content=body, headers=SKETCH
        )

    async def send(
        self, study: bytes, device: Device, plan: SketchPlan | None = None, *sums: Any, **more: Any
    ) -> str:
        """Upload a sketch of a device, which must be stored; return its identity."""
        message = device.message(study, plan or make_plan(), *sums, **more)
        answer = await self.put(study, *message)
        assert answer.status_code == 201, answer.text
        return message[0]

    async def change(
        self, study: bytes, state: str | None, *, if_match: str = "*", **body: Any
    ) -> httpx.Response:
        """Change a study, as it is now or as it was read."""
        headers = self.operator | {"If-Match": if_match}
        url = f"/v1/studies/{study.hex()}"
        return await self.http.patch(url, json={"state": state} | body, headers=headers)

    async def withdraw(self, study: bytes, name: str = "pumps") -> httpx.Response:
        """Withdraw a study."""
        return await self.http.delete(
            f"/v1/studies/{study.hex()}", params={"confirm": name}, headers=self.operator
        )

    async def read(self, url: str, **options: Any) -> Any:
        """Read as an analyst."""
        answer = await self.http.get(url, headers=self.analyst, **options)
        assert answer.status_code == 200, answer.text
        return answer.json()

    async def read_pages(self, url: str, limit: int = 2) -> list[Any]:
        """Read a list as an operator, page by page; each but the last is full."""
        seen: list[Any] = []
        page: dict[str, Any] = {}
        while True:
            params = {"limit": limit} | page
            answer = await self.http.get(url, params=params, headers=self.operator)
            assert answer.status_code == 200, answer.text
            seen += answer.json()["items"]
            page = {"page": answer.json()["next_page"]}
            if page["page"] is None:
                return seen
            assert len(answer.json()["items"]) == limit

    async def read_audit(self, *actions: str) -> list[dict[str, Any]]:
        """Return the entries of the audit log, of some actions if they are named."""
        entries = await self.read_pages("/v1/audit", limit=100)
        return [each for each in entries if not actions or each["action"] in actions]

    async def post(self, url: str, body: Any) -> httpx.Response:
        """Post as an analyst."""
        return await self.http.post(url, json=body, headers=self.analyst)

    async def operate(self, method: str, url: str, body: Any = None) -> httpx.Response:
        """Call as an operator."""
        return await self.http.request(method, url, json=body, headers=self.operator)


def assert_problem(
    answer: httpx.Response, slug: str, status: int, field_name: str | None = None
) -> None:
    """Check that an answer is a problem document of a type, naming a field."""
    assert answer.headers["content-type"] == "application/problem+json", answer.text
    document = answer.json()
    assert (document["type"], answer.status_code) == (f"/problems/{slug}", status), document
    assert document["status"] == status
    assert document.get("field") == field_name, document


def describe_gaps(held: Collection[int], last: int) -> dict[str, Any]:
    """Return what a server says of the numbers up to the last that it does not hold."""
    absent = [number for number in range(last + 1) if number not in held]
    starts = [number for number in absent if number - 1 not in absent]
    ends = [number for number in absent if number + 1 not in absent]
    ranges = [{"first": a, "last": b} for a, b in zip(starts, ends, strict=True)]
    return {"n_missing": len(absent), "missing": ranges}
