"""Uploads of devices: alone, at once, and in one commit whose process may end in its midst."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Literal

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from tests.aggregator.machine.harness import STREAMS, Harness, devices, fates, replicas, which
from tests.aggregator.machine.model import DEVICES, N_DEVICES, Release
from tests.aggregator.machine.worlds import Fate, Killed
from tests.aggregator.records import get_sketch

Kind = Literal["new", "two versions", "replay", "other bytes", "same window", "nothing"]
_KINDS: tuple[Kind, ...] = (
    "new", "new", "two versions", "replay", "other bytes", "same window", "nothing",
)  # fmt: skip
_OLD_SLOTS = 5000
"""How far back the first window of a stream lies, so that windows are over when they are sent."""


class UploadRules(Harness):
    """Enrolment, releases, and every way in which a message may arrive or not."""

    @rule(device=devices, number=replicas, fate=fates)
    def enrol(self, device: int, number: int, fate: Fate) -> None:
        """Enrol a device, or send the same once more."""
        self.run(self._enrol(device, number, fate))

    async def _enrol(self, device: int, number: int, fate: Fate) -> None:
        replica = self.replicas[number]
        token = await replica.desk.make_token(self.study)
        body = DEVICES[device].enrolment(token, self.study)
        is_known = device in self.model.enrolled
        wanted = 200 if is_known else 201 if self.model.is_open else 403  # however late
        try:
            with replica.meeting(fate):
                answer = await replica.desk.http.post("/v1/enrolments", json=body)
            assert answer.status_code == wanted, answer.text
        except (Killed, asyncio.CancelledError):  # the latter is who waited for a batch
            await self.restart(number)
            if wanted != 201 or fate == "before commit":
                return
        if wanted == 201:
            self.model.enrolled.add(device)

    @precondition(lambda self: self.can_release)
    @rule(
        device=devices,
        stream=st.sampled_from(STREAMS),
        gap=st.integers(0, 3),
        more=st.integers(0, 2),
    )
    def release(self, device: int, stream: str, gap: int, more: int) -> None:
        """Let a device release a window, now and then one of several slots, into its outbox."""
        self._release(device, stream, gap, more)

    def _release(self, device: int, stream: str, gap: int = 0, more: int = 0) -> Release:
        own = [r for r in self.released if (r.device, r.stream) == (device, stream)]
        sequence = max((r.sequence for r in own), default=-1) + 1
        last = max((r.slots[1] for r in own), default=self.now_slot - _OLD_SLOTS)
        made = self.make_release(device, stream, sequence, (last + 1 + gap, last + 1 + gap + more))
        self.released.append(made)
        self.outbox.append(made)
        return made

    @precondition(lambda self: self.can_release)
    @rule(stream=st.sampled_from(STREAMS), more=st.integers(0, 1), lost=st.sets(devices))
    def pass_a_window(self, stream: str, more: int, lost: set[int]) -> None:
        """Every device releases, and all but some are heard, at once and by all processes."""
        if self.n_coordinates_used + N_DEVICES <= self.plan.n_coordinates:
            made = [self._release(i, stream, more=more) for i in sorted(self.model.enrolled)]
            self.run(self._send_together([r for r in made if r.device not in lost]))

    async def _send_together(self, made: list[Release]) -> None:
        calls = [
            self.pick(self.replicas, i).put(self.study, release.sketch_id, release.body)
            for i, release in enumerate(made)
        ]
        for release, status in zip(made, await asyncio.gather(*calls), strict=True):
            assert status == self.expect(release)
            self.outbox.remove(release)
            if status == 201:
                self.model.store(release, self.clock.now())

    @precondition(lambda self: self.outbox)
    @rule(pick=which, number=replicas, fate=fates)
    def send(self, pick: int, number: int, fate: Fate) -> None:
        """Send something from an outbox, in any order; the server may be killed meanwhile."""
        self.run(self._send(self.pick(self.outbox, pick), number, fate))

    async def _send(self, release: Release, number: int, fate: Fate = "none") -> None:
        wanted = self.expect(release)
        status = await self.replicas[number].put(self.study, release.sketch_id, release.body, fate)
        if self.replicas[number].store.is_dead:
            await self.restart(number)
        assert status is not None or fate != "none"
        if status is not None:
            assert status == wanted, (status, wanted, release)
            if release in self.outbox:
                self.outbox.remove(release)
        if wanted == 201 and (status == 201 or fate == "after commit"):
            self.model.store(release, self.clock.now())

    @precondition(lambda self: self.released)
    @rule(pick=which, number=replicas, fate=fates)
    def replay(self, pick: int, number: int, fate: Fate) -> None:
        """Send anything once more that was ever released."""
        self.run(self._send(self.pick(self.released, pick), number, fate))

    @precondition(lambda self: self.released)
    @rule(number=replicas)
    def resend_all(self, number: int) -> None:
        """Send all that is kept, as a device does after the server was put back."""
        for release in list(self.released):
            self.run(self._send(release, number))

    @precondition(lambda self: self.released)
    @rule(pick=which, copies=st.integers(2, 5), is_merging=st.booleans())
    def send_at_once(self, pick: int, copies: int, is_merging: bool) -> None:
        """Send one message many times at once, to all processes, while sums are merged."""
        self.run(self._send_at_once(self.pick(self.released, pick), copies, is_merging))

    async def _send_at_once(self, release: Release, copies: int, is_merging: bool) -> None:
        wanted = self.expect(release)
        calls: list[Any] = [
            replica.put(self.study, release.sketch_id, release.body)
            for replica in self.replicas
            for _ in range(copies)
        ]
        if is_merging:
            calls.append(self.replicas[0].services.merger.merge_all())
        answers = (await asyncio.gather(*calls))[: copies * len(self.replicas)]
        rest = 200 if wanted == 201 else wanted
        assert sorted(answers) == sorted([wanted] + [rest] * (len(answers) - 1))
        if wanted == 201:
            self.model.store(release, self.clock.now())
        if is_merging:
            # It may have taken the new sketch or not; all that waited before is merged for sure.
            await self.replicas[0].services.merger.merge_all()
            self.model.note_merge()
        if release in self.outbox:
            self.outbox.remove(release)

    @precondition(lambda self: self.outbox and self.can_release)
    @rule(pick=which)
    def send_two_versions_at_once(self, pick: int) -> None:
        """Two payloads under one identity, to two processes: one is stored, the other refused."""
        self.run(self._send_two(self.pick(self.outbox, pick)))

    async def _send_two(self, release: Release) -> None:
        if self.expect(release) != 201:
            return
        versions = [release, self.fork(release)]
        answers = await asyncio.gather(
            *(
                replica.put(self.study, version.sketch_id, version.body)
                for replica, version in zip(self.replicas, versions, strict=True)
            )
        )
        assert sorted(a or 0 for a in answers) == [201, 409]
        winner = versions[answers.index(201)]
        self.model.store(winner, self.clock.now())
        self.outbox.remove(release)
        if winner is not release:
            # The clone was first; the device's own bytes are an incident from now on.
            self.replace_release(release, winner)

    def fork(self, release: Release) -> Release:
        """Return another payload under the identity of a release, as a clone sends it."""
        return self.make_release(release.device, release.stream, release.sequence, release.slots)


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
        self, kinds: Sequence[Kind], stream: str, pick: int, copies: int, number: int, fate: Fate
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
        flat = [release for group in groups for release in group]
        calls = [replica.desk.put(self.study, r.sketch_id, r.body) for r in flat]
        with replica.meeting(fate):
            answers = await asyncio.gather(*calls, return_exceptions=True)
        is_killed = replica.store.is_dead
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
        winner = await self._find_stored(group) if 201 in expected else None
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
            if found and release.payload_digest == found.payload_digest:
                return release
        assert found is None, group
        return None
