"""One simulated device: from records to signed messages, by the code of a real one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from hashlib import sha256

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from sfumato.device_agent.agent.reading.release import make_message
from sfumato.device_agent.windows import WindowCutter, WindowState
from sfumato.shared.arrays import Floats
from sfumato.shared.core import SketchAccumulator, Statistic
from sfumato.shared.plan import SketchPlan, compute_plan_digest
from sfumato.shared.privacy import RandomSource
from sfumato.shared.privacy.testing import SeededSource
from sfumato.shared.system import SystemSource
from sfumato.shared.wire import SketchHeader, compute_study_id, device_id_of, encode_stream_id

STREAM = "simulated"
_STUDY = "simulation"
_KEY_BYTES = 32


def open_source(noise_seed: int | None, owner: str) -> RandomSource:
    """Return the generator of a device or server; one of a seed protects nothing."""
    if noise_seed is None:
        return SystemSource()
    text = f"simulated noise {noise_seed} of {owner}"
    return SeededSource(int.from_bytes(sha256(text.encode()).digest()[:16]))


@dataclass(kw_only=True)
class DeviceMaker:
    """Makes devices of one plan.

    Parameters
    ----------
    plan
        The plan.
    n_windows
        Windows that every device has records in.
    noise_seed
        Seed of keys and noise, which then protect nothing; None for those of the operating system.
    """

    plan: SketchPlan
    n_windows: int = 1
    noise_seed: int | None = None
    _statistics: dict[int, Statistic] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.study = compute_study_id(_STUDY, self.plan)
        self.plan_digest = compute_plan_digest(self.plan)
        self._cutter = WindowCutter.of_plan(self.plan)

    def sketch(self, ordinal: int, records: Floats) -> Iterator[tuple[SketchHeader, bytes, bytes]]:
        """Yield header, message and public key of each sketch of a new device.

        Parameters
        ----------
        ordinal
            The number of the device in the study, by which it chooses features.
        records
            Shape ``(q, d)``, in the order of time; they are divided evenly among the windows.
        """
        source = open_source(self.noise_seed, f"device {ordinal}")
        key = Ed25519PrivateKey.from_private_bytes(source.draw_bytes(_KEY_BYTES))
        public_key = key.public_key().public_bytes_raw()
        device = device_id_of(public_key)
        for sequence, (slots, sums) in enumerate(self._sum(ordinal, device, records)):
            header, message = make_message(
                self.plan,
                sums,
                study=self.study,
                plan_digest=self.plan_digest,
                device=device,
                stream=STREAM,
                sequence=sequence,
                slots=slots,
                block=self._choose_block(ordinal, sequence if slots is None else slots[0]),
                sign=key.sign,
                source=source,
            )
            yield header, message, public_key

    def _sum(
        self, ordinal: int, device: bytes, records: Floats
    ) -> Iterator[tuple[tuple[int, int] | None, SketchAccumulator]]:
        """Yield slots and exact sum of each window."""
        if self.plan.releases_count:
            for slot, part in enumerate(np.array_split(records, self.n_windows)):
                yield (slot, slot), self._add(ordinal, device, slot, part, 0)
            return
        rule = self.plan.window
        times: Floats = np.zeros(len(records))
        if rule.kind == "time":
            slots = np.arange(len(records)) * self.n_windows // len(records)
            times += rule.origin + (slots + 0.5) * rule.length_s
        end = rule.origin + self.n_windows * max(1, rule.length_s)
        state, first, taken = WindowState(), 0, records[:0]
        for cut in self._cutter.cut(WindowState(), times, now=float(end)):
            taken = np.concatenate([taken, records[cut.start : cut.taken]])
            state = cut.state
            if cut.closed is not None:
                yield self._close(ordinal, device, cut.closed, taken, first)
                first, taken = first + len(taken), records[:0]
        over = self._cutter.close_over(state, clocks=[float(end)])
        if over is not None:
            yield self._close(ordinal, device, over[0], taken, first)

    def _close(
        self, ordinal: int, device: bytes, closed: WindowState, taken: Floats, first: int
    ) -> tuple[tuple[int, int] | None, SketchAccumulator]:
        slots = None
        turn = first // max(1, self.plan.window.length)
        if closed.first_slot is not None and closed.last_slot is not None:
            slots = (closed.first_slot, closed.last_slot)
            turn = closed.first_slot
        return slots, self._add(ordinal, device, turn, taken, first)

    def _add(
        self, ordinal: int, device: bytes, turn: int, records: Floats, first_record: int
    ) -> SketchAccumulator:
        statistic = self._find_statistic(device, self._choose_block(ordinal, turn))
        accumulator = SketchAccumulator(statistic, first_record=first_record)
        accumulator.add(records)
        return accumulator

    def _choose_block(self, ordinal: int, turn: int) -> int:
        return self.plan.blocks.choose(ordinal=ordinal, stream=STREAM, turn=turn)

    def _find_statistic(self, device: bytes, block: int) -> Statistic:
        if self.plan.has_masks:
            return self.plan.statistic_of(encode_stream_id(device, STREAM), block=block)
        # Without masks it is the same for all devices.
        if block not in self._statistics:
            self._statistics[block] = self.plan.statistic_of(b"", block=block)
        return self._statistics[block]
