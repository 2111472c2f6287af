"""A study with many devices and their signed messages, prepared before any measurement."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from sfumato.aggregator.base.sums.layout import Layout
from sfumato.shared.arrays import Integers
from sfumato.shared.core import SketchAccumulator
from sfumato.shared.plan import (
    Dimension,
    Label,
    PlanSpec,
    SketchPlan,
    WindowRule,
    compute_plan_digest,
    create_plan,
)
from sfumato.shared.privacy.testing import SeededSource
from sfumato.shared.wire import (
    SketchHeader,
    compute_study_id,
    decode_message,
    device_id_of,
    encode_message,
)

STUDY_NAME = "benchmark"
STREAM = "main"
N_RECORDS = 200
N_RELEASES = 64
"""Distinct releases that the messages share: drawing noise is not measured here."""

SITES = ("north", "east", "south", "west")
MODELS = ("a", "b")
LABEL_SETS = tuple({"site": site, "model": model} for site in SITES for model in MODELS)


def make_plan(n_frequencies: int = 1000, **more: Any) -> SketchPlan:
    """Return the plan: windows by time, eight label sets, room for a million sketches."""
    chosen = more or {"most_records": 1000, "most_sketches": 1 << 20}
    return create_plan(
        PlanSpec(
            dimensions=tuple(
                Dimension(name=name, unit="1", lower=-10.0, upper=10.0, scale=0.7) for name in "xy"
            ),
            n_frequencies=n_frequencies,
            seed=hashlib.sha256(b"benchmark of the service").hexdigest(),
            epsilon=Fraction(1),
            window=WindowRule(kind="time", origin=0, length_s=3600),
            labels=(Label(name="site", values=SITES), Label(name="model", values=MODELS)),
            **chosen,
        )
    )


def make_phone_plan() -> SketchPlan:
    """Return the plan of phones: one report each, of one of the frequencies."""
    return make_plan(500, release="phase.v1")


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
    def releases(self) -> Integers:
        """Noised sums: shape ``(N_RELEASES, D)``, int64."""
        return np.stack([self._release(seed) for seed in range(N_RELEASES)])

    def _release(self, seed: int) -> Integers:
        rng = np.random.default_rng(seed)
        accumulator = SketchAccumulator(self.plan.statistic_of(b"benchmark"))
        accumulator.add(rng.normal(size=(self.n_records, 2)))
        return self.plan.mechanism.add_noise(accumulator.sums, SeededSource(seed))

    @property
    def n_records(self) -> int:
        """Records of a sketch."""
        return 1 if self.plan.protects_devices else N_RECORDS

    @cached_property
    def layout(self) -> Layout:
        """The layout of its payloads."""
        return Layout.of(self.plan)

    @cached_property
    def payloads(self) -> list[bytes]:
        """The encoded releases."""
        return [self.layout.form.encode(released) for released in self.releases]

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
            n_records=self.n_records,
            n_public=True,
            report_id=hashlib.sha256(b"%d %d" % (device.number, sequence)).digest()[:16],
            payload_length=len(payload),
            payload_digest=self.payload_digests[release],
            block=self._choose_block(device, sequence),
            kind=self.plan.release.kind,
        )
        message = encode_message(header, payload, device.key.sign)
        return Signed(header, message[: -len(payload)], release, decode_message(message).signature)

    def _choose_block(self, device: BenchDevice, sequence: int) -> int | None:
        if not self.plan.is_split:
            return None
        return self.plan.blocks.choose(ordinal=device.number, stream=STREAM, turn=sequence)

    def sign_windows(self, sequences: Iterable[int]) -> Iterator[Signed]:
        """Yield the messages of all devices, window by window."""
        for sequence in sequences:
            for device in self.devices:
                yield self.sign(device, sequence)

    def sum_exactly(self, messages: Iterable[Signed]) -> Integers:
        """Return the exact sum of messages: shape ``(n_totals,)``, int64."""
        counts = Counter((message.header.block or 0, message.release) for message in messages)
        whole = np.zeros(self.layout.n_totals, dtype=np.int64)
        for (block, release), count in counts.items():
            whole[self.layout.places[block]] += count * self.releases[release]
        return whole
