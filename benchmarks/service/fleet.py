"""A study with many devices and their signed messages, prepared before any measurement."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from numpy.typing import NDArray

from shared.core import SketchAccumulator
from shared.plan import PlanSpec, SketchPlan, compute_plan_digest, create_plan
from shared.plan.parts import Dimension, Label, WindowRule
from shared.privacy.testing import SeededSource
from shared.wire import (
    SketchHeader,
    compute_study_id,
    decode_message,
    device_id_of,
    encode_message,
    encode_payload,
)

STUDY_NAME = "benchmark"
STREAM = "main"
N_RECORDS = 200
N_RELEASES = 64
"""Distinct releases that the messages share: drawing noise is not measured here."""

SITES = ("north", "east", "south", "west")
MODELS = ("a", "b")
LABEL_SETS = tuple({"site": site, "model": model} for site in SITES for model in MODELS)


def make_plan(n_frequencies: int = 1000) -> SketchPlan:
    """Return the plan: windows by time, eight label sets, room for a million sketches."""
    return create_plan(
        PlanSpec(
            dimensions=tuple(
                Dimension(name=name, unit="1", lower=-10.0, upper=10.0, scale=0.7) for name in "xy"
            ),
            n_frequencies=n_frequencies,
            seed=hashlib.sha256(b"benchmark of the service").hexdigest(),
            epsilon=Fraction(1),
            window=WindowRule(kind="time", origin=0, length_s=3600),
            most_records=1000,
            most_sketches=1 << 20,
            labels=(Label(name="site", values=SITES), Label(name="model", values=MODELS)),
        )
    )


@dataclass(frozen=True)
class BenchDevice:
    """A device; equal numbers have equal keys."""

    number: int

    @cached_property
    def key(self) -> Ed25519PrivateKey:
        """Its private key."""
        secret = hashlib.sha256(b"benchmark device %d" % self.number).digest()
        return Ed25519PrivateKey.from_private_bytes(secret)

    @cached_property
    def public_key(self) -> bytes:
        """Its public key."""
        return self.key.public_key().public_bytes_raw()

    @cached_property
    def device_id(self) -> bytes:
        """Its identity."""
        return device_id_of(self.public_key)

    @property
    def labels(self) -> dict[str, str]:
        """Its labels."""
        return LABEL_SETS[self.number % len(LABEL_SETS)]


@dataclass(frozen=True)
class Signed:
    """A message in the pieces that are sent, so that many messages can share their payloads.

    Parameters
    ----------
    head
        Everything before the payload.
    release
        The number of the payload in :attr:`Fleet.payloads`.
    """

    header: SketchHeader
    head: bytes
    release: int
    header_bytes: bytes
    signature: bytes


@dataclass(frozen=True)
class Fleet:
    """The devices of one study."""

    n_devices: int
    plan: SketchPlan = field(default_factory=make_plan)

    @cached_property
    def study_id(self) -> bytes:
        """The identity of the study."""
        return compute_study_id(STUDY_NAME, self.plan)

    @cached_property
    def plan_digest(self) -> bytes:
        """The digest of the plan."""
        return compute_plan_digest(self.plan)

    @cached_property
    def devices(self) -> list[BenchDevice]:
        """All devices."""
        return [BenchDevice(number) for number in range(self.n_devices)]

    @cached_property
    def releases(self) -> NDArray[np.int64]:
        """Noised sums: shape ``(N_RELEASES, D)``, int64."""
        return np.stack([self._release(seed) for seed in range(N_RELEASES)])

    def _release(self, seed: int) -> NDArray[np.int64]:
        rng = np.random.default_rng(seed)
        accumulator = SketchAccumulator(self.plan.statistic_of(b"benchmark"))
        accumulator.add(rng.normal(size=(N_RECORDS, 2)))
        return self.plan.mechanism.add_noise(accumulator.sums, SeededSource(seed))

    @cached_property
    def payloads(self) -> list[bytes]:
        """The encoded releases."""
        return [encode_payload(sums, self.plan.payload_width) for sums in self.releases]

    @cached_property
    def payload_digests(self) -> list[bytes]:
        """The SHA-256 of each payload."""
        return [hashlib.sha256(payload).digest() for payload in self.payloads]

    def sign(self, device: BenchDevice, sequence: int) -> Signed:
        """Return the message of a device for one slot."""
        release = (31 * device.number + sequence) % N_RELEASES
        payload = self.payloads[release]
        header = SketchHeader(
            study=self.study_id,
            plan_digest=self.plan_digest,
            device=device.device_id,
            stream=STREAM,
            sequence=sequence,
            slots=(sequence, sequence),
            n_records=N_RECORDS,
            n_public=True,
            report_id=hashlib.sha256(b"%d %d" % (device.number, sequence)).digest()[:16],
            payload_length=len(payload),
            payload_digest=self.payload_digests[release],
        )
        message = encode_message(header, payload, device.key.sign)
        decoded = decode_message(message)
        return Signed(
            header,
            message[: -len(payload)],
            release,
            decoded.header_bytes,
            decoded.signature,
        )

    def sign_windows(self, sequences: Iterable[int]) -> Iterator[Signed]:
        """Yield the messages of all devices, window by window."""
        for sequence in sequences:
            for device in self.devices:
                yield self.sign(device, sequence)

    def sum_exactly(self, messages: Iterable[Signed]) -> NDArray[np.int64]:
        """Return the exact sum of messages: shape ``(D,)``, int64."""
        counts = np.bincount([message.release for message in messages], minlength=N_RELEASES)
        return np.asarray(counts @ self.releases, dtype=np.int64)
