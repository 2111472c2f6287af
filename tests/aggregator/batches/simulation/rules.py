"""Rules of a state machine: every event of the two servers of a secure sum, in any order."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, TypeVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from sfumato.shared.errors import SketchError
from tests.aggregator.batches.simulation.servers import N_DEVICES, ORIGIN, Fate
from tests.aggregator.batches.simulation.world import World
from tests.aggregator.machine.worlds import Killed

T = TypeVar("T")
devices = st.integers(0, N_DEVICES - 1)
which = st.integers(0, 30)
FATES: tuple[Fate, ...] = ("none", "none", "lose request", "lose answer", "repeat", "delay")
fates = st.lists(st.sampled_from(FATES), max_size=5)
dies = st.sampled_from([*[0] * 8, *range(1, 12)])
seldom = st.integers(0, 5)
"""A step that ends much is taken where this is 0."""
shifts = st.sampled_from([0.0, 3600.0, -3600.0])


def _report(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    if not isinstance(context.get("exception"), Killed):
        loop.default_exception_handler(context)


class SumMachine(RuleBasedStateMachine):
    """Steps of devices, servers, operators and misfortune; see ``World`` for what must hold."""

    make_world: Callable[[], World]

    def __init__(self) -> None:
        super().__init__()
        self._runner = asyncio.Runner()
        self._runner.get_loop().set_exception_handler(_report)
        self.world = type(self).make_world()
        self.n_steps = 0

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine to its end."""
        return self._runner.run(work)

    def teardown(self) -> None:
        """Let everything come to its end, and remove it."""
        try:
            self.run(self.world.settle())
        finally:
            self.run(self.world.close())
            self._runner.close()

    @invariant()
    def all_holds(self) -> None:
        """Check the world."""
        self.n_steps += 1
        self.run(self.world.check())

    # Devices.

    @rule(
        first=devices,
        count=st.integers(1, 4),
        back=st.integers(0, 2),
        kind=st.sampled_from(["good"] * 6 + ["broken", "shifted"]),
    )
    def upload(self, first: int, count: int, back: int, kind: str) -> None:
        """Some devices send their reports of a slot that is over, or nearly."""
        slot = max(0, int((self.world.seconds - ORIGIN) // 3600) - back)
        for number in range(count):
            device = (first + number) % N_DEVICES
            of_kind = kind if number == 0 else "good"
            report = self.world.make_report(device, slot, kind=of_kind)
            self.run(self.world.upload(report))

    @rule(first=devices, count=st.integers(2, 5), fates=fates)
    def pass_a_window(self, first: int, count: int, fates: list[Fate]) -> None:
        """Devices send their reports of a slot, its grace period passes, and a worker looks."""
        slot = max(0, int((self.world.seconds - ORIGIN) // 3600))
        for number in range(count):
            report = self.world.make_report((first + number) % N_DEVICES, slot)
            self.run(self.world.upload(report))
        self.world.seconds += 7300.0
        self.work(fates, 0, 0)

    @rule(picked=which)
    @precondition(lambda self: self.world.reports)
    def send_again(self, picked: int) -> None:
        """A device sends a report again, or the leader asks for what it has forgotten."""
        reports = list(self.world.reports.values())
        self.run(self.world.upload(reports[picked % len(reports)]))

    @rule()
    @precondition(lambda self: self.world.reports)
    def send_all_again(self) -> None:
        """All devices send again what the leader has forgotten."""
        for report in list(self.world.reports.values()):
            self.run(self.world.upload(report))

    @rule(picked=which)
    @precondition(lambda self: self.world.reports)
    def send_other_bytes(self, picked: int) -> None:
        """A cloned device sends another report under a number that it has used."""
        reports = list(self.world.reports.values())
        report = reports[picked % len(reports)]
        device = self.world.ground.devices.index(report.device)
        other = self.world.make_report(device, report.slot, kind="other bytes")
        assert other.digest != report.digest
        had = self.world.reports
        self.world.reports = {}
        taken = self.run(self.world.upload(other))
        self.world.reports = had
        if taken:
            # The leader had forgotten the first, so this is the one that counts, unless the helper
            # knows better.
            self.world.reports = {**had, other.sketch_id: other}

    # The leader's worker, and the wire.

    @rule(fates=fates, dies=dies, helper_dies=dies)
    def work(self, fates: list[Fate], dies: int, helper_dies: int) -> None:
        """A worker does what is due; calls get lost, and one of the two may die."""
        self.world.wire.fates = list(fates)
        if self.world.helper is not None:
            self.world.helper.batches.dies_in = helper_dies
        self.run(self.world.work(dies_in=dies))
        self.world.wire.fates = []
        if self.world.helper is not None:
            self.world.helper.batches.dies_in = 0

    @rule(picked=which)
    @precondition(lambda self: self.world.wire.delayed)
    def arrive_late(self, picked: int) -> None:
        """A call that was delayed reaches the helper."""
        delayed = self.world.wire.delayed
        call = delayed.pop(picked % len(delayed))
        with suppress(OSError, Exception):
            self.run(self.world.wire.deliver(call))

    @rule(seconds=st.sampled_from([400.0, 400.0, 3600.0, 8000.0, 20_000.0]))
    def let_time_pass(self, seconds: float) -> None:
        """Time passes for both."""
        self.world.seconds += seconds

    @rule(side=st.sampled_from(["leader", "helper"]), shift=shifts)
    def shift_a_clock(self, side: str, shift: float) -> None:
        """A server's clock is wrong by an hour, or right again."""
        self.world.clocks[side].shift = shift

    # Backups.

    @rule(side=st.sampled_from(["leader", "helper"]))
    def back_up(self, side: str) -> None:
        """An operator makes a backup."""
        self.world.back_up(side)

    @rule(picked=which)
    @precondition(lambda self: self.world.backups["leader"])
    def restore_leader(self, picked: int) -> None:
        """The leader's operator puts a backup back."""
        backups = self.world.backups["leader"]
        self.run(self.world.restore_leader(backups[picked % len(backups)]))

    @rule(picked=which, is_running=st.booleans())
    @precondition(lambda self: self.world.backups["helper"])
    def restore_helper(self, picked: int, is_running: bool) -> None:
        """The helper's operator puts a backup back."""
        backups = self.world.backups["helper"]
        self.world.restore_helper(backups[picked % len(backups)], is_running=is_running)

    @rule()
    @precondition(lambda self: self.world.helper is None)
    def say_restored(self) -> None:
        """The helper's operator runs `sfumato helper restored`."""
        self.world.say_restored()

    @rule()
    def restart_helper(self) -> None:
        """The helper's process is started anew."""
        self.world.start_helper()

    @rule()
    @precondition(lambda self: self.world.helper is not None)
    def sweep(self) -> None:
        """The helper removes rows of slots that are over."""
        assert self.world.helper is not None
        self.world.helper.batches.forget_late()

    # Operators.

    @rule(device=devices, is_not=seldom)
    def exclude(self, device: int, is_not: int) -> None:
        """The leader's operator excludes a device."""
        if is_not:
            return
        services, device_id = self.world.services, self.world.ground.devices[device].device_id
        with suppress(SketchError):
            self.run(services.roster.exclude(device_id, reason="test"))

    @rule(picked=which, action=st.sampled_from(["open", "open", "admit", "set_aside", "give_up"]))
    def decide(self, picked: int, action: str) -> None:
        """The leader's operator decides about a batch."""
        batches = self.run(self.world.list_batches())
        # An operator gives up what cannot go on, and not what is well.
        if action == "give_up":
            batches = [each for each in batches if each.attempts > 1]
        if not batches:
            return
        batch = batches[picked % len(batches)]
        call = getattr(self.world.services.batches, action)
        reason = {} if action == "open" else {"reason": "test"}
        with suppress(SketchError):
            self.run(call(self.world.study, batch.batch_id, **reason))

    @rule(is_not=seldom)
    @precondition(lambda self: self.n_steps > 20)
    def retire(self, is_not: int) -> None:
        """The helper's operator retires the plan."""
        if self.world.helper is not None and not is_not:
            self.world.retire()

    @rule(is_not=seldom)
    @precondition(lambda self: self.n_steps > 20)
    def lose_the_helper(self, is_not: int) -> None:
        """The helper is gone for good."""
        if not is_not:
            self.world.lose_the_helper()

    @rule(hours=st.integers(0, 3), is_not=seldom)
    @precondition(lambda self: self.n_steps > 20)
    def close_the_study(self, hours: int, is_not: int) -> None:
        """The leader's operator closes the study."""
        if is_not:
            return
        until = self.world.clocks["leader"].now() + 3600.0 * hours if hours else None
        with suppress(SketchError):
            self.run(close_study(self.world, until))


async def close_study(world: World, until: float | None) -> None:
    """Close the study, at once or with time for what is under way."""
    study = await world.services.studies.get_record(world.study)
    await world.services.studies.change(
        world.study, state="closed", accept_until=until, expected_version=study.version
    )
