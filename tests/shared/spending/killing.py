"""Kill a program at every call into the system that a turn or the ledger makes, and run it again.

Run as a script of its own: it forks, which a process with threads must not.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np

from sfumato.shared.privacy import Budget, PrivacyEvent
from sfumato.shared.spending import Account, OwnersLedger, take_turn
from sfumato.shared.spending.lines import START, decode_line

_WATCHED = ("shared/spending/turns.py", "shared/spending/lines.py", "shared/spending/ledger.py")
LEDGER = "owner.ledger"
EVENT = PrivacyEvent(
    study=b"",
    stream="main",
    plan_digest=b"p" * 32,
    sequence=0,
    neighbouring="replace-one",
    epsilon=Fraction(1),
)


def release(folder: Path) -> list[int]:
    """Release once, as a command does: count, draw, write the answer's file, and say so."""
    account = Account(
        ledger=folder / LEDGER,
        records=folder / "records.csv",
        budget=Budget(per_record=Fraction(1)),
    )
    with take_turn({"plan": b"p" * 32}, account) as turn:
        design = turn.keep(os.urandom(8))
        turn.require_affordable(EVENT)
        turn.reserve(EVENT)
        sums = turn.draw(lambda: np.frombuffer(os.urandom(32), dtype="<i8").astype(np.int64))
        (folder / "answer").write_text(json.dumps([design.hex(), *sums.tolist()]))
        turn.show()
    found: list[int] = sums.tolist()
    return found


def run_apart(work: Callable[[], Any], *, kill_at: int = -1) -> Any:
    """Run work in a child; kill it at a call of the watched files. None if it was killed."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        with killing(kill_at):
            result = work()
        os.write(writing, json.dumps(result).encode())
        os._exit(0)
    os.close(writing)
    _, status = os.waitpid(child, 0)
    with os.fdopen(reading, "rb") as pipe:
        text = pipe.read()
    if os.WIFSIGNALED(status):
        return None
    assert status == 0, f"it failed at call {kill_at}"
    return json.loads(text)


@contextmanager
def killing(kill_at: int) -> Any:
    """Kill this process at a call of the watched files into the system."""
    count = 0

    def watch(frame: FrameType, event: str, arg: object) -> None:
        nonlocal count
        if event == "c_call" and frame.f_code.co_filename.endswith(_WATCHED):
            if count == kill_at:
                os.kill(os.getpid(), signal.SIGKILL)
            count += 1

    sys.setprofile(watch)
    yield
    sys.setprofile(None)


def read_kept(folder: Path) -> list[list[int]]:
    """Return the sums that a killed program has drawn and left."""
    kept = []
    for path in folder.glob("*.turn"):
        digest = START
        for line in path.read_bytes().splitlines(keepends=True):
            try:
                digest, entry = decode_line(digest, line)
            except ValueError:
                break
            if "sums" in entry:
                sums = np.frombuffer(bytes.fromhex(entry["sums"]), dtype="<i8")
                kept.append(sums.tolist())
    return kept


def count_releases(folder: Path) -> int:
    """Return the number of releases that the ledger counts."""
    path = folder / LEDGER
    return sum(event.count for event in OwnersLedger(path).load()[0]) if path.exists() else 0


def explore(folder: Path, step: int) -> dict[str, int]:
    """Kill a program at every call, or some of them; run it again each time, and check both."""
    n_killed = n_same = 0
    for kill_at in range(0, 10_000, step):
        place = folder / str(kill_at)
        place.mkdir()
        (place / "records.csv").write_text("x,y\n")
        if run_apart(lambda: release(place), kill_at=kill_at) is not None:  # noqa: B023
            break
        n_killed += 1
        kept, answer = read_kept(place), place / "answer"
        shown = json.loads(answer.read_text()) if answer.exists() else None
        was_done = not list(place.glob("*.turn")) and shown is not None
        if not was_done:
            again = run_apart(lambda: release(place))  # noqa: B023
            assert kept in ([], [again]), f"another release, killed at call {kill_at}"
            n_same += bool(kept)
            if shown is not None:
                assert shown == json.loads(answer.read_text()), f"killed at call {kill_at}"
        assert count_releases(place) == 1, f"counted wrongly, killed at call {kill_at}"
        assert not list(place.glob("*.turn"))
    return {"killed": n_killed, "same": n_same}


if __name__ == "__main__":
    sys.stdout.write(json.dumps(explore(Path(sys.argv[1]), int(sys.argv[2]))))
