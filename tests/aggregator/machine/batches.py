"""Uploads of many devices that meet in one commit, good and bad ones, and an end in its midst."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Sequence
from typing import Literal

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from sfumato.shared.wire import decode_message
from tests.aggregator.machine.harness import STREAMS, fates, replicas, which
from tests.aggregator.machine.model import N_DEVICES, Release
from tests.aggregator.machine.uploads import UploadRules
from tests.aggregator.machine.worlds import Fate
from tests.aggregator.storage.records import get_sketch

Kind = Literal["new", "two versions", "replay", "other bytes", "same window", "nothing"]
_KINDS: tuple[Kind, ...] = (
    "new", "new", "two versions", "replay", "other bytes", "same window", "nothing",
)  # fmt: skip


class BatchRules(UploadRules):
    """One process commits many uploads at once; each is judged, and answered, by itself."""

    @precondition(lambda self: self.n_coordinates_used + 2 * N_DEVICES <= self.plan.n_coordinates)
    @rule(
        kinds=st.lists(st.sampled_from(_KINDS), min_size=N_DEVICES, max_size=N_DEVICES),
        stream=st.sampled_from(STREAMS),
        pick=which,
        copies=st.integers(1, 2),
        number=replicas,
        fate=fates,
    )
    def send_a_batch(
        self,
        kinds: Sequence[Kind],
        stream: str,
        pick: int,
        copies: int,
        number: int,
        fate: Fate,
    ) -> None:
        """Let every device send something at once; the process may be killed around a commit."""
        made = [self._make(device, kind, stream, pick) for device, kind in enumerate(kinds)]
        self.run(self._send_batch([one * copies for one in made], number, fate))

    def _make(self, device: int, kind: Kind, stream: str, pick: int) -> list[Release]:
        """Return what a device sends: one message, or two versions of it."""
        if kind in ("new", "two versions"):
            release = self._release(device, stream)
            return [release] if kind == "new" else [release, self.fork(release)]
        stored = [release for release in self.stored() if release.device == device]
        if kind == "nothing" or not stored:
            return []
        known = self.pick(stored, pick)
        if kind == "replay":
            return [known]
        if kind == "other bytes":
            return [self.fork(known)]
        own = [r for r in self.released if (r.device, r.stream) == (device, known.stream)]
        sequence = 1 + max(release.sequence for release in own)
        return [self.make_release(device, known.stream, sequence, known.slots)]

    async def _send_batch(
        self, groups: Sequence[Sequence[Release]], number: int, fate: Fate
    ) -> None:
        replica = self.replicas[number]
        replica.store.fate = fate
        flat = [release for group in groups for release in group]
        calls = [replica.desk.put(self.study, r.sketch_id, r.body) for r in flat]
        answers = await asyncio.gather(*calls, return_exceptions=True)
        is_killed = replica.store.is_dead
        replica.store.fate = "none"
        if is_killed:
            await self.restart(number)
        statuses = iter([getattr(answer, "status_code", None) for answer in answers])
        for group in filter(None, groups):
            got = [next(statuses) for _ in group]
            assert is_killed or None not in got, answers
            await self._check_group(group, got, may_be_stored=fate != "before commit")
        for group in filter(None, groups):
            # Whose answer was lost sends again; what is stored then does not depend on the hour
            # at which the process ended.
            if is_killed and group[0].sketch_id not in self.model.stored:
                await self._send(group[0], number)

    async def _check_group(
        self, group: Sequence[Release], got: Sequence[int | None], *, may_be_stored: bool
    ) -> None:
        """Compare the answers for one identity with each other and with what is stored."""
        expected = [self.expect(release) for release in group]
        winner = None
        if 201 in expected:
            winner = await self._find_stored(group)
            if None not in got:
                assert winner is not None, (group, got)
        if winner is None:
            for wanted, status in zip(expected, got, strict=True):
                assert status is None or (status == wanted != 201), (expected, got)
            return
        assert may_be_stored, (group, got)
        for release, status in zip(group, got, strict=True):
            rest = (200, 201) if release.coordinate == winner.coordinate else (409,)
            assert status is None or status in rest, (group, got)
        assert got.count(201) == 1 or (None in got and got.count(201) == 0), (group, got)
        self.model.store(winner, self.clock.now())
        first = group[0]
        if first in self.outbox:
            self.outbox.remove(first)
        if winner is not first:
            self.replace_release(first, winner)

    async def _find_stored(self, group: Sequence[Release]) -> Release | None:
        """Return the version that the database has."""
        async with self.replicas[0].store.begin() as transaction:
            found = await get_sketch(transaction, bytes.fromhex(group[0].sketch_id))
        for release in group:
            payload = decode_message(release.body).payload
            if found and hashlib.sha256(payload).digest() == found.payload_digest:
                return release
        assert found is None, group
        return None
