"""What devices do, and whoever pretends to be one."""

from __future__ import annotations

import asyncio
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from sfumato.shared.wire import DeviceAction, error_from_problem, problem_type_of, sign_request
from tests.aggregator.fleet import Device, describe_gaps
from tests.aggregator.machine.harness import (
    STREAMS,
    Harness,
    devices,
    fates,
    replicas,
    which,
)
from tests.aggregator.machine.model import DEVICES, N_DEVICES, Release
from tests.aggregator.machine.replicas import Replica
from tests.aggregator.machine.worlds import Fate, Killed

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
        replica.store.fate = fate
        try:
            answer = await replica.desk.http.post("/v1/enrolments", json=body)
            assert answer.status_code == wanted, answer.text
        except (Killed, asyncio.CancelledError):  # the latter is who waited for a batch
            await self.restart(number)
            if wanted != 201 or fate == "before commit":
                return
        finally:
            replica.store.fate = "none"
        if wanted == 201:
            self.model.enrolled.add(device)

    @rule(number=replicas, pick=which)
    def relabel(self, number: int, pick: int) -> None:
        """Enrol a known key under another label: refused."""
        if self.model.enrolled:
            self.run(self._relabel(number, self.pick(sorted(self.model.enrolled), pick)))

    async def _relabel(self, number: int, device: int) -> None:
        desk = self.replicas[number].desk
        site = "south" if DEVICES[device].labels["site"] == "north" else "north"
        other = Device(DEVICES[device].seed, {"site": site})
        token = await desk.make_token(self.study)
        answer = await desk.http.post("/v1/enrolments", json=other.enrolment(token, self.study))
        assert answer.status_code == 409, answer.text

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

    @precondition(lambda self: self.outbox)
    @rule(pick=which, number=replicas)
    def lose_the_answer(self, pick: int, number: int) -> None:
        """The server serves a request, and the device hears nothing: it will send again."""
        release = self.pick(self.outbox, pick)
        self.run(self._send(release, number))
        self.outbox.append(release)

    @precondition(lambda self: self.outbox)
    @rule(pick=which)
    def lose_the_request(self, pick: int) -> None:
        """The request never arrives: the message stays where it is, and others overtake it."""
        release = self.pick(self.outbox, pick)
        self.outbox.remove(release)
        self.outbox.append(release)

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
        """Two payloads under one identity: exactly one is stored, and the other refused."""
        self.run(self._send_two(self.pick(self.outbox, pick)))

    async def _send_two(self, release: Release) -> None:
        if self.expect(release) != 201:
            return
        other = self.fork(release)
        versions = [release, other]
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
        if winner is other:
            # The clone was first; the device's own bytes are an incident from now on.
            self.replace_release(release, other)

    def fork(self, release: Release) -> Release:
        """Return another payload under the identity of a release, signed with the same key."""
        made = self.make_release(release.device, release.stream, release.sequence, release.slots)
        held = self.keys_held[release.device]
        key = next(key for key in held if key.public_key == release.signer)
        return made.signed_again(key)

    @precondition(lambda self: self.model.stored and self.can_release)
    @rule(pick=which, number=replicas, fate=fates)
    def send_other_bytes(self, pick: int, number: int, fate: Fate) -> None:
        """A cloned device sends another payload under an identity that is taken."""
        other = self.fork(self.pick(self.stored(), pick))
        assert self.expect(other) in (409, 401)
        self.run(self._send(other, number, fate))

    @precondition(lambda self: self.model.stored and self.can_release)
    @rule(pick=which, number=replicas)
    def send_a_window_again(self, pick: int, number: int) -> None:
        """A second sketch over a window that the stream has released already."""
        old = self.pick(self.stored(), pick)
        sequence = 1 + max(
            r.sequence for r in self.released if (r.device, r.stream) == (old.device, old.stream)
        )
        again = self.make_release(old.device, old.stream, sequence, old.slots)
        assert self.expect(again) != 201
        self.run(self._send(again, number))

    @precondition(lambda self: self.can_release)
    @rule(device=devices, signer=devices, number=replicas)
    def send_signed_by_another(self, device: int, signer: int, number: int) -> None:
        """A message in the name of one device, signed by another."""
        if device == signer or device not in self.model.enrolled:
            return
        slots = (self.now_slot - 1, self.now_slot - 1)
        forged = self.make_release(device, "forged", 0, slots, signer=DEVICES[signer])
        status = self.run(self.replicas[number].put(self.study, forged.sketch_id, forged.body))
        assert status == 422

    @precondition(lambda self: self.can_release and self.model.is_open)
    @rule(device=devices, number=replicas)
    def send_early(self, device: int, number: int) -> None:
        """A window that has not begun by the server's clock: to be held until it has."""
        name = f"early{self.n_coordinates_used}"
        slot = int(self.clock.now()) // self.plan.window.length_s + 100_000
        release = self.make_release(device, name, 0, (slot, slot))
        # Never among the released: whatever key signs it again, it stays too early.
        if self.expect(release) == 201:
            self.run(self._send_early(release, number))

    async def _send_early(self, release: Release, number: int) -> None:
        answer = await self.replicas[number].desk.put(self.study, release.sketch_id, release.body)
        error = error_from_problem(answer.json(), answer.status_code)
        assert problem_type_of(type(error)).action is DeviceAction.HOLD, answer.text

    @rule(device=devices, number=replicas)
    def ask_how_far(self, device: int, number: int) -> None:
        """A device asks for its high-water marks."""
        self.run(self._ask_how_far(device, self.replicas[number]))

    async def _ask_how_far(self, device: int, replica: Replica) -> None:
        headers = sign_request(
            method="GET",
            path="/v1/devices/me",
            body=b"",
            device=DEVICES[device].device_id,
            created=int(self.clock.now()),
            sign=self.signing[device].key.sign,
        )
        answer = await replica.desk.http.get("/v1/devices/me", headers=headers)
        assert answer.status_code == self.model.expect_request(device, self.signing[device])
        if answer.status_code != 200:
            return
        last: dict[str, Release] = {}
        for release in self.stored():
            if release.device == device:
                known = last.get(release.stream)
                if known is None or known.sequence < release.sequence:
                    last[release.stream] = release
        assert answer.json()["streams"] == [
            {"stream": name, "last_sequence": r.sequence, "last_slot": r.slots[1]}
            | self._describe_gaps(device, name, r.sequence)
            for name, r in sorted(last.items())
        ]

    def _describe_gaps(self, device: int, stream: str, end: int) -> dict[str, Any]:
        held = {r.sequence for r in self.stored() if (r.device, r.stream) == (device, stream)}
        return describe_gaps(held, end)
