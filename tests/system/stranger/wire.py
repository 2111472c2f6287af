"""A device of its own, written from ``shared/wire/README.md``; the numbers are its sections.

It draws no noise: the caller gives it.
"""

from __future__ import annotations

import base64
import hashlib
import http.client
import json
import time
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any
from urllib.parse import urlsplit

import cbor2
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from tests.system.stranger import sketch

RETRY = "retry"


class RefusedError(Exception):
    """Something is not what the document says."""


def require(holds: bool, what: str) -> None:
    if not holds:
        raise RefusedError(what)


def sha256(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()


def to_cbor(value: Any) -> bytes:
    return cbor2.dumps(value, canonical=True)


def to_base64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


@dataclass(frozen=True)
class Key:
    """An Ed25519 key."""

    private: bytes

    @property
    def public(self) -> bytes:
        return Ed25519PrivateKey.from_private_bytes(self.private).public_key().public_bytes_raw()

    @property
    def key_id(self) -> bytes:
        return sha256(self.public)

    def sign(self, data: bytes) -> bytes:
        return Ed25519PrivateKey.from_private_bytes(self.private).sign(data)


def read_code(text: str) -> tuple[str, bytes, str]:
    """3. Return server, study and token of an enrolment code."""
    line = "".join(text.split()).upper()
    require(line.startswith("SFUMATO:"), "prefix")
    encoded = line.removeprefix("SFUMATO:")
    data = base64.b32decode(encoded + "=" * (-len(encoded) % 8))
    require(base64.b32encode(data).decode("ascii").rstrip("=") == encoded, "bits at the end")
    body, crc = data[:-4], data[-4:]
    require(zlib.crc32(body).to_bytes(4, "little") == crc, "checksum")
    version, server, study, token = cbor2.loads(body)
    require(version == 1, "version")
    return server, study, token


def study_id_input(name: str, plan_digest: bytes) -> bytes:
    return to_cbor([name, plan_digest])


@dataclass(frozen=True)
class Plan:
    """4. A plan as it came, checked."""

    data: bytes
    fields: Mapping[str, Any]

    @classmethod
    def read(cls, data: bytes, name: str, study: bytes) -> Plan:
        require(sha256(study_id_input(name, sha256(data))) == study, "study")
        plan = cls(data, cbor2.loads(data))
        fields = plan.fields
        require(to_cbor(fields) == data, "deterministic")
        statistic, release = fields["statistic"], fields["release"]
        require(fields["format_version"] == 1 and statistic["amplitude"] == 16380, "version")
        require(statistic["kind"] == "fourier", "kind")
        require(release["kind"] in ("local.v1", "phase.v1"), "kind")
        require(release["noise_by"] == "device", "noise_by")
        require(fields["late_rule"] in ("open-window", "leave-out-outside"), "late_rule")
        require(sketch.digest_of(*plan.frequencies) == statistic["frequencies_digest"], "W")
        plan.check_unit()
        if plan.reports_phases:
            plan.check_odds()
        else:
            plan.check_noise()
        return plan

    def __getitem__(self, name: str) -> Any:
        return self.fields[name]

    @property
    def statistic(self) -> Mapping[str, Any]:
        fields: Mapping[str, Any] = self["statistic"]
        return fields

    @property
    def digest(self) -> bytes:
        return sha256(self.data)

    @property
    def counts(self) -> bool:
        return bool(self["release"]["neighbouring"] == "add-remove-one")

    @property
    def reports_phases(self) -> bool:
        return bool(self["release"]["kind"] == "phase.v1")

    @property
    def of_devices(self) -> bool:
        """Whether all records of a window are protected together."""
        return bool(self["release"]["unit"] == "device")

    @property
    def features_per_sketch(self) -> int:
        fewer = ("measurements_per_record", "frequencies_per_sketch")
        return int(min(self.statistic[name] for name in fewer))

    def column(self, name: str) -> list[float]:
        return [dimension[name] for dimension in self["dimensions"]]

    @property
    def box(self) -> tuple[list[float], list[float]]:
        return self.column("lower"), self.column("upper")

    @property
    def frequencies(self) -> tuple[list[list[int]], int]:
        return sketch.draw_frequencies(
            self.statistic["seed"],
            self.statistic["n_frequencies"],
            self.statistic["radius_law"],
            *(self.column(name) for name in ("lower", "upper", "scale")),
        )

    def check_unit(self) -> None:
        require(self["release"]["unit"] in ("record", "device"), "unit")
        if not self.of_devices:
            return
        require(self["release"]["neighbouring"] == "replace-one", "neighbouring")
        require(self["window"]["kind"] == "time", "window")
        require(self["least_records"] == 1, "least_records")
        require(self["most_streams_per_device"] == 1, "most_streams_per_device")
        features = self.statistic["n_frequencies"], self.statistic["measurements_per_record"]
        require(features[0] == features[1], "measurements_per_record")

    def check_odds(self) -> None:
        release = self["release"]
        require(release["mechanism"] == "phase-report", "mechanism")
        require((self.of_devices, self["most_records"]) == (True, 1), "unit")
        require(self["payload_width"] == 2, "payload_width")
        arc, odds, epsilon = release["arc"], Fraction(release["odds"]), Fraction(release["epsilon"])
        require(arc >= 0 and 2 * arc + 1 < 65536, "arc")
        require(1 <= odds < 2048 and (odds * 2**52).denominator == 1, "odds")
        require(epsilon > 0 and sketch.keeps_epsilon(odds, epsilon, self.features_per_sketch), "e")

    def check_noise(self) -> None:
        release, counts, r = self["release"], self.counts, self.features_per_sketch
        count, stated = release["count_scale"], release["sensitivity"]
        require(counts or count == 0, "count_scale")
        scale, epsilon = Fraction(release["scale"]), Fraction(release["epsilon"])
        if release["mechanism"] == "discrete-laplace":
            require(not counts or count == 16380, "count_scale")
            l1 = (23162 if counts else 46324) * r + count
            require(stated == {"norm": "l1", "value": l1}, "sensitivity")
            require(scale * epsilon >= l1, "scale")
        elif release["mechanism"] == "discrete-knorm":
            norm = 1365 if counts else 2730
            require(stated == {"norm": "gon24", "value": norm}, "sensitivity")
            require(count == (1365 if counts else 0), "count_scale")
            require(scale * epsilon >= norm, "scale")
        else:
            require(not counts or count == 16380, "count_scale")
            l2_squared = (268304164 if counts else 1073216656) * r + count**2
            require(stated == {"norm": "l2-squared", "value": l2_squared}, "sensitivity")
            # Sigma itself takes the curve of PROOFS, section 4, in long decimals.

    @property
    def noise_bound(self) -> int:
        most = 1 if self.of_devices else self["most_records"]
        return int(self["coordinate_bound"] - most * self.statistic["amplitude"])

    def take(self, records: Sequence[sketch.Record]) -> Sequence[sketch.Record]:
        """8. Return the records of a slot that are in its sketch."""
        return records[: self["most_records"]] if self.of_devices else records

    def count(self, records: Sequence[sketch.Record]) -> int | None:
        """9. Return the number of records that a header states."""
        if self.counts:
            return None
        return 1 if self.of_devices else len(records)

    def clamp(self, noised: Sequence[int], n_records: int | None) -> list[int]:
        """8. Bring each coordinate into its limits."""
        bound, noise = self["coordinate_bound"], self.noise_bound
        if not self.counts:
            require(n_records is not None, "n")
            most = min(bound, (n_records or 0) * self.statistic["amplitude"] + noise)
            return [min(max(value, -most), most) for value in noised]
        features = [min(max(value, -bound), bound) for value in noised[:-1]]
        most = self["most_records"] * self["release"]["count_scale"] + noise
        return [*features, min(max(noised[-1], -noise), most)]

    def encode_payload(self, released: Sequence[int]) -> bytes:
        width = self["payload_width"]
        return b"".join(value.to_bytes(width, "little", signed=True) for value in released)

    def release(
        self,
        records: Sequence[sketch.Record],
        sums: Sequence[int],
        noise: Sequence[int],
        block: int | None,
    ) -> tuple[list[int], bytes]:
        """8. Return what is released of some records, and the payload.

        ``noise`` has an offset of each phase, or the phases themselves of an unusable record.
        """
        if not self.reports_phases:
            noised = [a + b for a, b in zip(sums, noise, strict=True)]
            released = self.clamp(noised, self.count(records))
            return released, self.encode_payload(released)
        phases = sketch.find_phases(records[0], *self.box, *self.frequencies_of(block))
        reports = list(noise)
        if phases is not None:
            reports = [(p + t) % 65536 for p, t in zip(phases, noise, strict=True)]
        rows = [sketch.feature_of(report) for report in reports]
        released = [cosine for cosine, _ in rows] + [sine for _, sine in rows]
        return released, b"".join(report.to_bytes(2, "little") for report in reports)

    def slot_of(self, when: float) -> int:
        window = self["window"]
        return int((when - window["origin"]) // window["length_s"])

    def frequencies_of(self, block: int | None) -> tuple[list[list[int]], int]:
        """Return W of the features of a block, row by row, and b."""
        turns, bits = self.frequencies
        if self.blocks is not None and block is not None:
            turns = [[row[j] for j in self.blocks.members[block]] for row in turns]
        return turns, bits

    @property
    def blocks(self) -> sketch.Blocks | None:
        m, r = self.statistic["n_frequencies"], self.statistic["frequencies_per_sketch"]
        return sketch.Blocks(self.statistic["seed"], m, r) if r < m else None

    def choose_block(
        self, ordinal: int, stream: str, sequence: int, slots: Sequence[int] | None
    ) -> int | None:
        """8. Return the block of a sketch; None without blocks."""
        turn = sequence if slots is None else slots[0]
        return None if self.blocks is None else self.blocks.choose(ordinal, stream, turn)

    def add_up(
        self,
        records: Sequence[sketch.Record],
        device: bytes,
        stream: str,
        first_record: int,
        block: int | None = None,
    ) -> list[int]:
        """8. Return the exact sums of some records, and their number where it is secret.

        Where the unit is a device, their mean.
        """
        m, r = self.statistic["n_frequencies"], self.statistic["measurements_per_record"]
        masks = None
        if r < m:
            masks = sketch.Masks(self.statistic["seed"], stream_id(device, stream), m, r)
        sums = sketch.add_up(
            records,
            *self.box,
            *self.frequencies_of(block),
            masks=masks,
            first_record=first_record,
        )
        if self.of_devices:
            return sketch.average(sums, len(records))
        return [*sums, len(records) * self["release"]["count_scale"]] if self.counts else sums


def stream_id(device: bytes, stream: str) -> bytes:
    return device + b"/" + stream.encode("utf-8")


def proof_input(token: str, study: bytes, public_key: bytes, labels: Mapping[str, str]) -> bytes:
    """5."""
    return to_cbor(["sfumato/v1/enrolment", token, study, public_key, dict(labels)])


def rotation_input(device: bytes, public_key: bytes, last_sequences: Mapping[str, int]) -> bytes:
    """12."""
    return to_cbor(["sfumato/v1/rotation", device, public_key, dict(last_sequences)])


def signature_base(method: str, path: str, body: bytes, parameters: str) -> bytes:
    """6."""
    lines = [f'"@method": {method}', f'"@path": {path}']
    if body:
        lines.append(f'"content-digest": {content_digest(body)}')
    return "\n".join([*lines, f'"@signature-params": {parameters}']).encode("ascii")


def signature_parameters(device: bytes, created: int, body: bytes) -> str:
    components = '("@method" "@path" "content-digest")' if body else '("@method" "@path")'
    return f'{components};created={created};keyid="{device.hex()}";alg="ed25519"'


def content_digest(body: bytes) -> str:
    return f"sha-256=:{to_base64(sha256(body))}:"


def sign_headers(
    key: Key, device: bytes, method: str, path: str, body: bytes, created: int
) -> dict[str, str]:
    parameters = signature_parameters(device, created, body)
    signature = key.sign(signature_base(method, path, body, parameters))
    headers = {
        "Signature-Input": f"sfumato={parameters}",
        "Signature": f"sfumato=:{to_base64(signature)}:",
    }
    return headers | ({"Content-Digest": content_digest(body)} if body else {})


def encode_header(
    plan: Plan,
    *,
    study: bytes,
    device: bytes,
    stream: str,
    sequence: int,
    slots: Sequence[int] | None,
    n_records: int | None,
    report_id: bytes,
    payload: bytes,
    block: int | None = None,
) -> bytes:
    """9."""
    values = [
        1,
        plan["release"]["kind"],
        study,
        plan.digest,
        device,
        stream,
        sequence,
        None if slots is None else list(slots),
        n_records,
        not plan.counts,
        report_id,
        [],
        len(payload),
        sha256(payload),
    ] + ([] if block is None else [block])
    return to_cbor(dict(enumerate(values, start=1)))


def encode_protected(device: bytes) -> bytes:
    return to_cbor({1: -8, 3: "application/vnd.sfumato.sketch-header+cbor", 4: device})


def signature_input(protected: bytes, header: bytes) -> bytes:
    return to_cbor(["Signature1", protected, b"", header])


def encode_message(key: Key, device: bytes, header: bytes, payload: bytes) -> bytes:
    protected = encode_protected(device)
    signature = key.sign(signature_input(protected, header))
    return to_cbor([cbor2.CBORTag(18, [protected, {}, header, signature]), payload])


def sketch_id_input(study: bytes, device: bytes, stream: str, sequence: int) -> bytes:
    """10."""
    return to_cbor([study, device, stream, sequence])


def sketch_path(study: bytes, sketch_id: bytes) -> str:
    return f"/v1/studies/{study.hex()}/sketches/{sketch_id.hex()}"


@dataclass(frozen=True)
class Answer:
    """Answer of the server; headers by their lower-case names."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def document(self) -> dict[str, Any]:
        found = json.loads(self.body)
        require(isinstance(found, dict), "object")
        return dict(found)


class Device:
    """The walk of section 2."""

    def __init__(self, code: str, key: Key) -> None:
        self.server, self.study, self.token = read_code(code)
        self.key, self.device = key, key.key_id
        parts = urlsplit(self.server)
        require((parts.scheme, parts.hostname) == ("http", "127.0.0.1"), "loopback")
        self._address = ("127.0.0.1", parts.port or 80)
        self.plan = self._fetch_plan()

    def send(self, method: str, path: str, headers: Mapping[str, str], body: bytes = b"") -> Answer:
        connection = http.client.HTTPConnection(*self._address)
        try:
            connection.request(method, path, body=body or None, headers=dict(headers))
            answer = connection.getresponse()
            headers_in = {name.lower(): value for name, value in answer.getheaders()}
            return Answer(answer.status, headers_in, answer.read())
        finally:
            connection.close()

    def send_signed(self, method: str, path: str, document: Any = None) -> Answer:
        body = b"" if document is None else json.dumps(document).encode("utf-8")
        headers = sign_headers(self.key, self.device, method, path, body, int(time.time()))
        return self.send(
            method, path, headers | ({"Content-Type": "application/json"} if body else {}), body
        )

    def _fetch_plan(self) -> Plan:
        path = f"/v1/studies/{self.study.hex()}/plan"
        exact = self.send("GET", path, {"Accept": "application/cbor"})
        stated = self.send("GET", path, {"Accept": "application/json"})
        require((exact.status, stated.status) == (200, 200), "plan")
        return Plan.read(exact.body, stated.document["name"], self.study)

    def enrol(self, labels: Mapping[str, str]) -> Answer:
        told = proof_input(self.token, self.study, self.key.public, labels)
        document = {
            "token": self.token,
            "study_id": self.study.hex(),
            "public_key": self.key.public.hex(),
            "labels": dict(labels),
            "proof": self.key.sign(told).hex(),
        }
        body = json.dumps(document).encode("utf-8")
        answer = self.send("POST", "/v1/enrolments", {"Content-Type": "application/json"}, body)
        if answer.status in (200, 201):
            require(answer.document["device_id"] == self.device.hex(), "device_id")
        return answer

    def change_key(self, next_key: Key, last_sequences: Mapping[str, int]) -> Answer:
        told = rotation_input(self.device, next_key.public, last_sequences)
        answer = self.send_signed(
            "POST",
            "/v1/devices/me/keys",
            {
                "public_key": next_key.public.hex(),
                "last_sequences": dict(last_sequences),
                "proof": next_key.sign(told).hex(),
            },
        )
        if answer.status in (200, 201):
            require(answer.document["key_id"] == next_key.key_id.hex(), "key_id")
            self.key = next_key
        return answer

    def upload(self, stream: str, sequence: int, message: bytes) -> Answer:
        sketch_id = sha256(sketch_id_input(self.study, self.device, stream, sequence))
        return self.send(
            "PUT",
            sketch_path(self.study, sketch_id),
            {"Content-Type": "application/vnd.sfumato.sketch+cbor"},
            message,
        )


def choose_action(answer: Answer, sketch_id: bytes, actions: Mapping[str, str]) -> str | None:
    """11. Return what to do with a sketch; None if it is stored.

    ``actions`` is the table, by slug.
    """
    try:
        document = answer.document
    except (ValueError, RefusedError):
        return RETRY
    if answer.status in (200, 201):
        return None if document.get("sketch_id") == sketch_id.hex() else RETRY
    if answer.headers.get("content-type", "").partition(";")[0] != "application/problem+json":
        return RETRY
    slug = str(document.get("type", "")).removeprefix("/problems/")
    return actions.get(slug, RETRY)
