"""Batches of a simulated secure sum: what both servers do, by the code that they run.

The simulation is leader and helper at once, so it protects nothing: it holds the helper's key.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from sfumato.aggregator.base.sums.selection import SketchTotals
from sfumato.learning.estimate.limbs import split_limbs
from sfumato.learning.estimate.sizes import SizeMoments
from sfumato.shared.arrays import Integers
from sfumato.shared.errors import PlanError
from sfumato.shared.plan import (
    Helper,
    LocalRelease,
    SketchPlan,
    SumRelease,
    compute_plan_digest,
    endorse,
)
from sfumato.shared.plan.derivation import derive
from sfumato.shared.privacy import RandomSource
from sfumato.shared.sharing.batches import add_noise_to_masks, choose_part, open_total
from sfumato.shared.sharing.masks import expand_mask, read_masked
from sfumato.shared.sharing.ring import Ring, Words
from sfumato.shared.sharing.seals import open_seal
from sfumato.shared.wire import decode_message

_NAME = "simulated helper"
_KEY_BYTES = 32

BatchName = tuple[int, int]
"""Slot and part; simulated devices have no labels."""


@dataclass(frozen=True, kw_only=True)
class SimulatedHelper:
    """A second server that exists only in a simulation.

    Parameters
    ----------
    plan
        The simulated plan, which names it.
    key
        The private key of the plan, 32 bytes.
    """

    plan: SketchPlan
    key: bytes

    @classmethod
    def of(cls, plan: SketchPlan, source: RandomSource) -> SimulatedHelper:
        """Let a simulated helper accept a plan of a secure sum, or the draft of one."""
        identity = Ed25519PrivateKey.from_private_bytes(source.draw_bytes(_KEY_BYTES))
        key = source.draw_bytes(_KEY_BYTES)
        private = X25519PrivateKey.from_private_bytes(key)
        helper = Helper(
            name=_NAME,
            identity=identity.public_key().public_bytes_raw(),
            key=private.public_key().public_bytes_raw(),
        )
        draft = replace(plan, release=replace(_require_sum(plan), helper=None))
        return cls(plan=endorse(draft, helper, identity.sign), key=key)


@dataclass(frozen=True, kw_only=True, eq=False)
class Halves:
    """Both halves of a batch: sums of masked words and of masks, with the numbers of its reports.

    Parameters
    ----------
    masked, masks
        Shape ``(D,)``.
    n_reports, n_records
        Reports, and their public records; 0 where these are secret.
    """

    masked: Words
    masks: Words
    n_reports: int
    n_records: int

    def join(self, other: Halves, ring: Ring) -> Halves:
        """Return the halves of the reports of both."""
        return Halves(
            masked=ring.add(self.masked, other.masked),
            masks=ring.add(self.masks, other.masks),
            n_reports=self.n_reports + other.n_reports,
            n_records=self.n_records + other.n_records,
        )


@dataclass(kw_only=True)
class BatchSum:
    """Batches that are filled by reports.

    Parameters
    ----------
    helper
        Opens the seals.
    """

    helper: SimulatedHelper
    batches: dict[BatchName, Halves] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._private = X25519PrivateKey.from_private_bytes(self.helper.key)
        self._digest = compute_plan_digest(self.helper.plan)

    def add(self, message: bytes, public_key: bytes) -> int:
        """Check a message and add it to its batch; return the length of its payload.

        Raises
        ------
        SketchError
            A server would refuse it.
        """
        plan, found = self.helper.plan, decode_message(message)
        header, ring, n_words = found.header, plan.ring, plan.n_coordinates
        found.verify(public_key)
        if header.plan_digest != self._digest or header.slots is None:
            raise PlanError("is another", field="plan")
        masked = read_masked(found.payload, ring=ring, n_words=n_words)
        seed = open_seal(header.sealed or b"", self._private, header.seal_context)
        one = Halves(
            masked=masked,
            masks=expand_mask(seed, header.mask_context, ring=ring, n_words=n_words),
            n_reports=1,
            n_records=header.n_records or 0,
        )
        name = header.slots[0], choose_part(header.sketch_id, _require_sum(plan).parts)
        self.batches[name] = self.batches[name].join(one, ring) if name in self.batches else one
        return len(found.payload)


def open_batches(
    plan: SketchPlan,
    parts: Sequence[dict[BatchName, Halves]],
    *,
    leader: RandomSource,
    helper: RandomSource,
) -> tuple[SketchTotals, int, int]:
    """Open all batches that have enough reports, with a noise of each server.

    Parameters
    ----------
    plan
        The plan.
    parts
        Batches whose reports came in several places.
    leader, helper
        The generators of the two servers.

    Returns
    -------
    tuple
        The sums over all opened batches, each as one sketch; the number of batches that were
        opened; and the reports of those that were not.
    """
    release, ring = _require_sum(plan), plan.ring
    joined: dict[BatchName, Halves] = {}
    for part in parts:
        for name, half in part.items():
            joined[name] = joined[name].join(half, ring) if name in joined else half
    totals, sizes, n_void = [], [], 0
    for _, halves in sorted(joined.items()):
        if halves.n_reports < release.least_reports:
            n_void += halves.n_reports
            continue
        # What is beyond the most joins further batches, which have noises of their own.
        n_batches = -(-halves.n_reports // release.most_reports)
        zeros = np.zeros(plan.n_coordinates, dtype=np.int64)
        answer, noise = halves.masks, zeros
        for _ in range(n_batches):
            drawn = plan.mechanism.add_noise(zeros, helper)
            answer = add_noise_to_masks(answer, drawn, ring=ring)
            noise = noise + plan.mechanism.add_noise(zeros, leader)
        totals.append(open_total(halves.masked, answer, noise, ring=ring))
        sizes.append(halves.n_records)
    return _add_up(plan, totals, sizes), len(totals), n_void


def _add_up(plan: SketchPlan, totals: list[Integers], sizes: list[int]) -> SketchTotals:
    sums = np.zeros(plan.n_coordinates, dtype=np.int64)
    weighted = [0] * plan.n_coordinates
    for total, size in zip(totals, sizes, strict=True):
        sums += total
        weighted = [w + size * t for w, t in zip(weighted, total.tolist(), strict=True)]
    return SketchTotals(
        sums=sums,
        size_sums=split_limbs(weighted),
        moments=SizeMoments.of_sizes(sizes),
        n_devices=0,
        members=b"",
    )


def make_local_twin(plan: SketchPlan) -> SketchPlan:
    """Return the plan of a secure sum with noise by each device instead, at the same epsilon."""
    release = _require_sum(plan)
    local = LocalRelease(
        mechanism=release.mechanism,
        neighbouring=release.neighbouring,
        unit=release.unit,
        epsilon=release.epsilon,
        delta=release.delta,
    )
    return derive(replace(plan, release=local))


def list_refusals(n_void: int, plan: SketchPlan) -> Iterator[tuple[str, int]]:
    """Yield why reports were never opened, and how many."""
    if n_void:
        least = _require_sum(plan).least_reports
        yield f"batch: has fewer than least_reports = {least} reports", n_void


def _require_sum(plan: SketchPlan) -> SumRelease:
    release = plan.sum_release
    if release is None:
        raise PlanError("must be sum.v1", field="release", fix="use the plan of a secure sum")
    return release
