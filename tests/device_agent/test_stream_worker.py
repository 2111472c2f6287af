import time
from collections.abc import Iterator
from importlib import metadata
from importlib.metadata import EntryPoint, EntryPoints

import numpy as np
import pytest

from sfumato.device_agent.agent.device import Device, open_device
from sfumato.device_agent.agent.reading.windows import make_statistic
from sfumato.device_agent.agent.reading.worker import StreamWorker
from sfumato.device_agent.settings.agent_settings import load_settings
from sfumato.device_agent.sources import (
    Guarantee,
    Position,
    RecordBatch,
    RecordSource,
)
from sfumato.device_agent.store.positions import load_positions
from sfumato.device_agent.store.streams import load_stream
from sfumato.device_agent.windows import Clocks
from sfumato.shared.core import SketchAccumulator
from tests.device_agent.conftest import Agent

SECRET = "7.125"


class Interrupt(BaseException):
    """Stands for a signal's: it strikes anywhere."""


class Breaking(RecordSource):
    """Batches of ten records without an end; something breaks off where it is told to."""

    guarantee = Guarantee(delivery="exactly once", loses="nothing")
    breaks_at: BaseException | None = None

    def _open(self) -> None:
        self._next = int(self._find_place("breaking", name="breaking").get("next", 0))

    def read_batch(self) -> RecordBatch:
        first, self._next = self._next, self._next + 10

        def position_after(i: int) -> Position:
            # The sum holds the batch already when this is asked.
            if Breaking.breaks_at is not None:
                raise Breaking.breaks_at
            return Position(source="breaking", place={"next": first + i + 1})

        return RecordBatch(
            values=np.ones((10, len(self._mapping.fields.values))),
            timestamps=np.full(10, time.time()),
            position_after=position_after,
        )


@pytest.fixture
def device(enrolled: Agent, monkeypatch: pytest.MonkeyPatch) -> Iterator[Device]:
    entry = EntryPoint("breaking", f"{__name__}:Breaking", "sfumato.sources")
    monkeypatch.setattr(metadata, "entry_points", lambda **_: EntryPoints([entry]))
    monkeypatch.setattr(Breaking, "breaks_at", None)
    text = enrolled.config.read_text()
    text = text.replace('kind = "csv"', 'kind = "breaking"').replace('path = "records.csv"', "")
    enrolled.config.write_text(text)
    enrolled.rejoin()
    with open_device(load_settings(enrolled.config, {})) as device:
        yield device


def make_worker(device: Device) -> StreamWorker:
    return StreamWorker(
        device,
        device.settings.streams[0],
        clocks=lambda: Clocks(device=time.time()),
        clock=time.time,
        timer=time.monotonic,
    )


def is_whole(device: Device) -> bool:
    """Tell whether the stored sum is that of the records before the stored position."""
    places = [known.position.place["next"] for known in load_positions(device.connection)]
    accumulator = SketchAccumulator(make_statistic(device, device.settings.streams[0]))
    accumulator.add(np.ones((int(max(places, default=0)), device.plan.n_dimensions)))
    sums = load_stream(device.connection, "meter").sums
    return bool((accumulator.sums == (0 if sums is None else sums)).all())


def test_what_is_broken_off_between_a_sum_and_its_position_is_not_saved(device: Device) -> None:
    worker = make_worker(device)
    worker.turn()
    Breaking.breaks_at = Interrupt()
    with pytest.raises(Interrupt):
        worker.turn()
    # As the daemon does on its way out.
    worker.close()
    assert is_whole(device)


def test_a_defect_of_a_source_ends_no_other_stream_and_is_told_without_a_value(
    device: Device, caplog: pytest.LogCaptureFixture
) -> None:
    worker = make_worker(device)
    Breaking.breaks_at = ValueError(f"could not convert {SECRET}")
    worker.turn()
    assert worker.problem is not None
    assert "ValueError in" in worker.problem
    assert SECRET not in worker.problem
    assert worker.due_at > time.monotonic()
    worker.close()
    assert load_stream(device.connection, "meter").sums is None
