"""The agent against a model, with faults at every write: what it must keep, whatever happens."""

import functools
import itertools
import sqlite3
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.stateful import run_state_machine_as_test

from sfumato.device_agent.agent import device
from sfumato.device_agent.agent.exchange import sender
from sfumato.device_agent.server.messages import UploadOutcome
from sfumato.device_agent.server.transport import ServerClient
from sfumato.device_agent.store import streams
from sfumato.device_agent.store.journal import Journal
from sfumato.device_agent.store.outbox import offer_sketch
from tests.device_agent import machines
from tests.device_agent.faults import injecting
from tests.device_agent.machines import Agents
from tests.device_agent.other_machines import KINDS
from tests.soak import small_and_soak


def explore(
    root: Path,
    *,
    n_examples: int,
    n_steps: int,
    first: int | None = None,
    of: Any = Agents,
    **choices: Any,
) -> None:
    with injecting() as injected, pytest.MonkeyPatch.context() as patch:
        # Reading the system's certificates takes longer than all the rest of a run.
        patch.setattr(httpx, "Client", functools.partial(httpx.Client, verify=False))

        class Machine(of):  # type: ignore[misc]
            folders = (root / str(i) for i in itertools.count())
            faults = injected

        run_state_machine_as_test(
            Machine if first is None else seed(first)(Machine),
            settings=settings(
                max_examples=n_examples,
                stateful_step_count=n_steps,
                deadline=None,
                suppress_health_check=list(HealthCheck),
                **choices,
            ),
        )


def search(root: Path, *, soon: int) -> None:
    """Make many short explorations, for each long one begins with its smallest examples.

    The one of the seed ``soon`` is made before all others.
    """
    for number, first in enumerate([soon, *range(40)]):
        folder = root / str(number)
        folder.mkdir()
        explore(folder, n_examples=12, n_steps=40, first=first, phases=[Phase.generate])


@small_and_soak(
    "choices",
    {"n_examples": 12, "n_steps": 22, "derandomize": True},
    {"n_examples": 1000, "n_steps": 50},
)
def test_whatever_goes_wrong_each_record_is_released_once_or_still_waits(
    choices: dict[str, Any], tmp_path: Path
) -> None:
    explore(tmp_path, **choices)


@small_and_soak(
    "choices",
    {"n_examples": 3, "n_steps": 20, "derandomize": True},
    {"n_examples": 300, "n_steps": 50},
)
@pytest.mark.parametrize("kind", KINDS)
def test_so_it_is_for_every_other_kind_of_sketch(
    kind: str, choices: dict[str, Any], tmp_path: Path
) -> None:
    explore(tmp_path, of=KINDS[kind], **choices)


def _forget_position(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(streams, "write_positions", lambda *_: None)


def _forget_event(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(streams, "append_event", lambda *_: None)


def _commit_bit_by_bit(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(streams, "transaction", lambda _: nullcontext())


def _believe_every_answer(patch: pytest.MonkeyPatch) -> None:
    def put(self: ServerClient, **options: Any) -> UploadOutcome:
        real(self, **options)
        return UploadOutcome(action=None)

    real = ServerClient.put_sketch
    patch.setattr(ServerClient, "put_sketch", put)


def _draw_again_before_sending(patch: pytest.MonkeyPatch) -> None:
    count = itertools.count()

    def offer(connection: sqlite3.Connection, sketch_id: bytes, *, now: float) -> bytes:
        return offer_sketch(connection, sketch_id, now=now)[:-1] + bytes([next(count) % 256])

    patch.setattr(sender, "offer_sketch", offer)


def _ignore_the_budget(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(machines, "MOST_RELEASES", 3)  # few steps spend so much
    patch.setattr(device, "require_within_budget", lambda *_, **__: None)


def _send_before_noting(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Journal, "catch_up", lambda *_: None)


@small_and_soak("is_helped", True, False)
@pytest.mark.parametrize(
    ("plant", "soon"),
    [
        (_forget_position, 2),
        (_forget_event, 0),
        (_send_before_noting, 0),
        # These take many steps from any seed.
        pytest.param(_commit_bit_by_bit, 0, marks=pytest.mark.soak),
        pytest.param(_believe_every_answer, 3, marks=pytest.mark.soak),
        pytest.param(_draw_again_before_sending, 0, marks=pytest.mark.soak),
        pytest.param(_ignore_the_budget, 0, marks=pytest.mark.soak),
    ],
)
def test_a_planted_mistake_is_found(
    plant: Callable[[pytest.MonkeyPatch], None],
    soon: int,
    is_helped: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plant(monkeypatch)
    with pytest.raises(BaseException) as caught:  # noqa: PT011
        search(tmp_path, soon=soon if is_helped else 0)
    # One that breaks by itself proves nothing.
    assert not isinstance(caught.value, TypeError | AttributeError | NameError)
