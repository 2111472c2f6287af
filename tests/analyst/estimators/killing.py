"""Kill fits at every call into the system that a turn or the ledger makes, and fit again.

Run as a script of its own: it forks, which a process with threads must not.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np

from sfumato.analyst.estimators import CompressiveKMeans, GridKMeans, PrivatePCA
from sfumato.analyst.estimators.clustering import pack
from sfumato.shared.cbor import decode_deterministic
from sfumato.shared.ledger import OwnersLedger

_WATCHED = ("analyst/estimators/turns.py", "shared/ledger.py")
_RECORDS = np.random.default_rng(0).normal(size=(300, 2))


def fit(kind: str, folder: Path) -> list[list[int]]:
    """Fit, and return the sums of all that was released."""
    options: dict[str, Any] = {
        "epsilon": "1/2",
        "bounds": (-5, 5),
        "ledger": folder / "ledger.db",
        "source": folder / "records.csv",
    }
    if kind == "grid":
        # Several rounds, kept together.
        return [pack(GridKMeans(2, **options).fit(_RECORDS).release_.encode()).tolist()]
    if kind == "pca":
        found: Any = PrivatePCA(**options).fit(_RECORDS)
    else:
        options["scale"] = "pilot" if kind == "pilot" else 1.0
        records = np.tile(_RECORDS, (20, 1)) if kind == "pilot" else _RECORDS
        found = CompressiveKMeans(1, random_state=0, **options).fit(records)
    releases = [found.pilot_, found.release_] if kind == "pilot" else [found.release_]
    return [release.sums.tolist() for release in releases]


def run_apart(work: Callable[[], list[list[int]]], *, kill_at: int = -1) -> list[list[int]] | None:
    """Run work in a child; kill it at a call of the watched files. None if it was killed."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        count = 0

        def watch(frame: FrameType, event: str, arg: object) -> None:
            nonlocal count
            if event == "c_call" and frame.f_code.co_filename.endswith(_WATCHED):
                if count == kill_at:
                    os.kill(os.getpid(), signal.SIGKILL)
                count += 1

        sys.setprofile(watch)
        result = work()
        sys.setprofile(None)
        os.write(writing, json.dumps(result).encode())
        os._exit(0)
    os.close(writing)
    _, status = os.waitpid(child, 0)
    with os.fdopen(reading, "rb") as pipe:
        text = pipe.read()
    if os.WIFSIGNALED(status):
        return None
    assert status == 0, f"the fit failed at call {kill_at}"
    found: list[list[int]] = json.loads(text)
    return found


def read_kept(folder: Path) -> list[list[int]]:
    """Return the sums that a killed fit has drawn and left."""
    kept = []
    for path in folder.glob("*.fit"):
        data, start = path.read_bytes(), 0
        parts = []
        while len(data) > start:
            length = int.from_bytes(data[start : start + 8], "big")
            if len(data) < start + 40 + length:
                break
            parts.append(decode_deterministic(data[start + 40 : start + 40 + length], what="fit"))
            start += 40 + length
        if len(parts) == 2:
            kept.append(np.frombuffer(parts[1]["sums"], dtype="<i8").tolist())
    return kept


def count_releases(folder: Path) -> int:
    """Return the number of releases that the ledger counts."""
    path = folder / "ledger.db"
    return sum(event.count for event in OwnersLedger(path).load()[0]) if path.exists() else 0


def explore(kind: str, folder: Path, step: int) -> dict[str, int]:
    """Kill a fit at every ``step``-th call, fit again each time, and check both."""
    n_killed = n_same = 0
    for kill_at in range(0, 10_000, step):
        place = folder / f"{kind}-{kill_at}"
        place.mkdir()
        (place / "records.csv").write_text("x,y\n")
        if run_apart(partial(fit, kind, place), kill_at=kill_at) is not None:
            break
        n_killed += 1
        kept = read_kept(place)
        n_before, n_files = count_releases(place), len(list(place.glob("*.fit")))
        again = run_apart(partial(fit, kind, place))
        assert again is not None
        n_same += bool(kept)
        assert all(sums in again for sums in kept), f"another release, killed at call {kill_at}"
        # A kill after a file was removed finds a release that was done.
        was_done = n_before == len(again) and n_files < len(again)
        n_expected = 2 * len(again) - n_files if was_done else len(again)
        assert count_releases(place) == n_expected, f"counted wrongly, killed at call {kill_at}"
        assert not list(place.glob("*.fit"))
    return {"killed": n_killed, "same": n_same}


if __name__ == "__main__":
    sys.stdout.write(json.dumps(explore(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]))))
