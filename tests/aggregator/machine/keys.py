"""What becomes of devices' keys: changed, lost on the way, stolen and revoked."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from sfumato.aggregator.services.devices.keys import key_id_of
from tests.aggregator.fleet import Device
from tests.aggregator.machine.harness import STREAMS, Harness, devices, fates, replicas, which
from tests.aggregator.machine.model import DEVICES, KeysModel
from tests.aggregator.machine.worlds import Fate, Killed

_PATH = "/v1/devices/me/keys"
_MOST_CHANGES = 12
_MOST_REVOKED = 2


@dataclass(frozen=True)
class Change:
    """A device's wish to replace a key by another."""

    number: int
    old: Device
    new: Device


class KeyRules(Harness):
    """A retired key verifies what it signed up to its mark, a revoked one nothing new."""

    def __init__(self) -> None:
        super().__init__()
        self.changes: list[Change] = []

    @precondition(lambda self: len(self.changes) < _MOST_CHANGES)
    @rule(device=devices, number=replicas, fate=fates, pick=st.none() | which)
    def rotate(self, device: int, number: int, fate: Fate, pick: int | None) -> None:
        """Change a key, while something that the old one signed is on its way, or not."""
        old = self.signing[device]
        change = Change(device, old, DEVICES[device].with_key(1000 + len(self.changes)))
        self.changes.append(change)
        self.keys_held[device].append(change.new)
        self.run(self._rotate(change, number, fate, pick))

    @precondition(lambda self: self.changes)
    @rule(pick=which, number=replicas, fate=fates)
    def rotate_again(self, pick: int, number: int, fate: Fate) -> None:
        """Send a change of keys once more: its answer was lost, or the server was put back."""
        self.run(self._rotate(self.pick(self.changes, pick), number, fate, None))

    async def _rotate(self, change: Change, number: int, fate: Fate, pick: int | None) -> None:
        own = [release for release in self.released if release.signer == change.old.public_key]
        last: dict[str, int] = {}
        for release in own:
            last[release.stream] = max(release.sequence, last.get(release.stream, 0))
        # Together with the change, by the other process: it was signed with the old key, so it is
        # taken however they meet.
        beside = None
        if own and pick is not None and fate == "none":
            beside = self.pick(own, pick)
            wanted = self.expect(beside)
            other = self.replicas[-1 - number]
            status, answer = await asyncio.gather(
                other.put(self.study, beside.sketch_id, beside.body),
                self._send_change(change, last, number, fate),
            )
            assert status == wanted, (status, wanted, beside)
            if status == 201:
                self.model.store(beside, self.clock.now())
        else:
            answer = await self._send_change(change, last, number, fate)
        if answer is None and fate == "before commit":
            return
        status = self._expect_change(change, last)
        assert answer in (None, status), (answer, status)
        if answer in (200, 201) and self.signing[change.number] is change.old:
            self.signing[change.number] = change.new

    def _expect_change(self, change: Change, last: dict[str, int]) -> int:
        if change.number not in self.model.enrolled:
            return 401
        keys = self.model.keys[change.number]
        return keys.rotate(change.old.public_key, change.new.public_key, last)

    async def _send_change(
        self, change: Change, last: dict[str, int], number: int, fate: Fate
    ) -> int | None:
        replica = self.replicas[number]
        body = change.old.rotation(change.new, **last)
        headers = change.old.sign("POST", _PATH, now=self.clock.now(), body=body)
        headers["Content-Type"] = "application/json"
        replica.store.fate = fate
        try:
            answer = await replica.desk.http.post(_PATH, content=body, headers=headers)
            return answer.status_code
        except Killed:
            await self.restart(number)
            return None
        finally:
            replica.store.fate = "none"

    @precondition(lambda self: self.can_release)
    @rule(device=devices, stream=st.sampled_from(STREAMS), pick=which, number=replicas)
    def sign_on_with_another_key(self, device: int, stream: str, pick: int, number: int) -> None:
        """Whoever holds any key that the device ever had signs the next sketch with it."""
        key = self.pick(self.keys_held[device], pick)
        own = [r for r in self.released if (r.device, r.stream) == (device, stream)]
        if not own:
            return
        last = max(own, key=lambda release: release.sequence)
        slot = last.slots[1] + 1
        made = self.make_release(device, stream, last.sequence + 1, (slot, slot), signer=key)
        wanted = self.expect(made)
        status = self.run(self.replicas[number].put(self.study, made.sketch_id, made.body))
        assert status == wanted, (status, wanted, made)
        if wanted == 201:
            # By a key that the server takes for the present one, so the device goes on after it.
            self.model.store(made, self.clock.now())
            self.released.append(made)

    @precondition(lambda self: self.released)
    @rule(pick=which, key=which, number=replicas)
    def sign_again(self, pick: int, key: int, number: int) -> None:
        """Send a release under a signature by another key that its device had or has."""
        release = self.pick(self.released, pick)
        again = release.signed_again(self.pick(self.keys_held[release.device], key))
        wanted = self.expect(again)
        status = self.run(self.replicas[number].put(self.study, again.sketch_id, again.body))
        assert status == wanted, (status, wanted, again)
        if wanted == 201:
            self.model.store(again, self.clock.now())
            self.replace_release(release, again)
            if release in self.outbox:
                self.outbox.remove(release)

    @rule(device=devices, pick=st.none() | which, number=replicas, fate=fates)
    def revoke(self, device: int, pick: int | None, number: int, fate: Fate) -> None:
        """Revoke a key that was replaced, or a device as a whole; twice is as good as once."""
        keys = self.model.keys[device]
        key = None if pick is None else self.pick(self.keys_held[device], pick).public_key
        n_revoked = sum(other.is_revoked for other in self.model.keys.values())
        if key in (None, keys.present) and not keys.is_revoked and n_revoked >= _MOST_REVOKED:
            return
        self.run(self._revoke(device, key, number, fate))

    async def _revoke(self, device: int, key: bytes | None, number: int, fate: Fate) -> None:
        replica, keys = self.replicas[number], self.model.keys[device]
        is_known = key in (None, keys.present) or key in keys.retired
        wanted = 200 if device in self.model.enrolled and is_known else 404
        body = {"reason": "stolen", "key_id": key and key_id_of(key).hex()}
        replica.store.fate = fate
        try:
            answer = await replica.desk.http.post(
                f"/v1/devices/{DEVICES[device].device_id.hex()}/revoke",
                content=json.dumps(body),
                headers=replica.desk.operator | {"Content-Type": "application/json"},
            )
            assert answer.status_code == wanted, answer.text
        except Killed:
            await self.restart(number)
            if fate == "before commit":
                return
        finally:
            replica.store.fate = "none"
        if wanted == 200:
            _mark_revoked(keys, key)


def _mark_revoked(keys: KeysModel, key: bytes | None) -> None:
    old = None if key is None else keys.retired.get(key)
    if old is None:
        keys.is_revoked = True
    else:
        old.is_revoked = True
