"""The agent against a model, with faults at every write: what it must keep, whatever happens."""

import itertools
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from sfumato.device_agent.agent.exchange import sender
from sfumato.device_agent.store import streams
from sfumato.device_agent.store.journal import Journal
from sfumato.device_agent.store.outbox import offer_sketch
from tests.device_agent.exploring import explore, require_found
from tests.device_agent.faults import injecting
from tests.device_agent.machines import Agents
from tests.device_agent.other_machines import KINDS
from tests.soak import small_and_soak


@pytest.fixture(autouse=True)
def faults(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with injecting() as injected:
        monkeypatch.setattr(Agents, "faults", injected, raising=False)
        yield


@small_and_soak(
    "choices",
    {"n_examples": 6, "n_steps": 22, "derandomize": True},
    {"n_examples": 1000, "n_steps": 50},
)
def test_whatever_goes_wrong_each_record_is_released_once_or_still_waits(
    choices: dict[str, Any], tmp_path: Path
) -> None:
    explore(Agents, tmp_path, **choices)


@small_and_soak(
    "choices",
    {"n_examples": 2, "n_steps": 20, "derandomize": True},
    {"n_examples": 300, "n_steps": 50},
)
@pytest.mark.parametrize(
    "kind",
    [
        *("split", "bounded", "means", "columns"),
        # Their sums, apart from faults, are tested elsewhere in the short run.
        *(
            pytest.param(kind, marks=pytest.mark.soak)
            for kind in ("reports", "histogram", "grid", "moments", "clusters", "one record")
        ),
    ],
)
def test_so_it_is_for_every_other_kind_of_sketch(
    kind: str, choices: dict[str, Any], tmp_path: Path
) -> None:
    explore(KINDS[kind], tmp_path, **choices)


def _forget_position(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(streams, "write_positions", lambda *_: None)


def _send_before_noting(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Journal, "catch_up", lambda *_: None)


def _commit_bit_by_bit(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(streams, "transaction", lambda _: nullcontext())


def _draw_again_before_sending(patch: pytest.MonkeyPatch) -> None:
    count = itertools.count()

    def offer(connection: sqlite3.Connection, sketch_id: bytes, *, now: float) -> bytes:
        return offer_sketch(connection, sketch_id, now=now)[:-1] + bytes([next(count) % 256])

    patch.setattr(sender, "offer_sketch", offer)


@pytest.mark.parametrize(
    ("plant", "soon"),
    [
        (_forget_position, 2),
        (_send_before_noting, 0),
        # These take many steps from any seed.
        pytest.param(_commit_bit_by_bit, 0, marks=pytest.mark.soak),
        pytest.param(_draw_again_before_sending, 0, marks=pytest.mark.soak),
    ],
)
def test_a_planted_mistake_is_found(
    plant: Callable[[pytest.MonkeyPatch], None],
    soon: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plant(monkeypatch)
    require_found(Agents, tmp_path, n_steps=40, soon=soon)
