"""Both servers of a secure sum as processes that kill themselves at a numbered place.

Each role has one process that has imported everything. It reads orders, lines of JSON, and forks a
child for each: a helper that serves, or a leader that takes uploads and then opens what is due. A
child numbers the places that it passes (before and after each call between the servers, in and
after each transaction that writes, around the journal's line) and kills itself at one of them. A
leader may also lose the answer to one of its calls.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import sfumato.helper.batches
from sfumato.aggregator.base.helper_client import HelperClient
from sfumato.aggregator.base.store import Store, open_store
from sfumato.aggregator.services import Services
from sfumato.aggregator.settings import Settings
from sfumato.helper import tables
from sfumato.helper.app import _Routes, create_app
from sfumato.helper.batches import Batches
from sfumato.helper.journal import Journal
from sfumato.helper.server import open_helper
from sfumato.shared.errors import HelperError, HelperRestoredError, SketchError
from sfumato.shared.wire.sum_messages import SumAnswer


class Places:
    """The places that a child has passed; it kills itself at one of them."""

    def __init__(self, kill_at: int, log: Path) -> None:
        self._kill_at, self._log, self._n_passed = kill_at, log, 0

    def pass_by(self, name: str) -> None:
        with self._log.open("a") as file:
            file.write(f"{name}\n")
        self._n_passed += 1
        if self._n_passed == self._kill_at:
            os.kill(os.getpid(), signal.SIGKILL)


def lead(order: dict[str, Any], places: Places) -> None:
    """Take the uploads of an order, which may be repeated, and open all batches that are due."""
    begin = Store.begin

    @asynccontextmanager
    async def begun(self: Store, *, write: bool = False) -> AsyncIterator[Any]:
        async with begin(self, write=write) as transaction:
            yield transaction
            if write:
                places.pass_by("in a transaction")
        if write:
            places.pass_by("after a transaction")

    send, n_calls = HelperClient._send, 0

    async def sent(self: HelperClient, method: str, path: str, body: bytes | None) -> Any:
        nonlocal n_calls
        n_calls += 1
        number, call = n_calls, path.rpartition("/")[2]
        places.pass_by(f"before {call}")
        answer = await send(self, method, path, body)
        if call == "commit":
            note_answer(Path(order["answers"]), answer.content, bytes.fromhex(order["identity"]))
        places.pass_by(f"after {call}")
        if number == order["lose_at"]:
            raise HelperError("does not answer", field="helper", fix="wait")
        return answer

    Store.begin = begun  # type: ignore[method-assign]
    HelperClient._send = sent  # type: ignore[method-assign]
    asyncio.run(_lead(order))


async def _lead(order: dict[str, Any]) -> None:
    settings = Settings(
        database_url=order["database"],
        helper_url=order["url"],
        helper_api_key=order["key"],
        n_workers=0,
    )
    store = open_store(settings.database_url)
    services = Services(store, _Still(order["now"]), settings)
    try:
        for study, sketch_id, path in order["uploads"]:
            message = Path(path).read_bytes()
            try:
                await services.sketches.receive(
                    bytes.fromhex(study), bytes.fromhex(sketch_id), message
                )
            except SketchError as error:
                raise SystemExit(f"upload refused: {error}") from error
        await services.opener.run_due()
    finally:
        await store.close()


def note_answer(path: Path, data: bytes, identity: bytes) -> None:
    """Note every half that the helper has given away."""
    answer = SumAnswer.decode(data, identity)
    with path.open("a") as file:
        file.write(f"{answer.state} {hashlib.sha256(answer.body).hexdigest()}\n")


class _Still:
    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def now(self) -> float:
        return self._seconds


def serve(order: dict[str, Any], places: Places) -> None:
    """Serve as a helper until somebody ends this process."""
    import uvicorn

    write = tables.write

    @contextmanager
    def written(engine: Any) -> Iterator[Any]:
        with write(engine) as connection:
            yield connection
            places.pass_by("in a transaction")
        places.pass_by("after a transaction")

    append = Journal.append

    def appended(self: Journal, entry: Any) -> None:
        places.pass_by("before the journal")
        append(self, entry)
        places.pass_by("after the journal")

    setattr(sfumato.helper.batches, "write", written)  # noqa: B010 - it is imported there
    Journal.append = appended  # type: ignore[method-assign]
    for name in ("read_reports", "commit", "acknowledge"):
        setattr(_Routes, name, _pass_by_answer(getattr(_Routes, name), places, name))
    engine, batches = open_helper(
        database=order["database"], keys=Path(order["keys"]), journal=Path(order["journal"])
    )
    batches.now = lambda: float(order["now"])
    _require_up_to_date(batches)
    app = create_app(engine, batches, version="0", step_s=0.002)
    uvicorn.run(app, port=order["port"], log_config=None, lifespan="off")


def _require_up_to_date(batches: Batches) -> None:
    """Check, and do what the operator of a helper does whose database was put back."""
    try:
        batches.require_up_to_date()
    except HelperRestoredError:
        batches.mark_restored()
        batches.require_up_to_date()


def _pass_by_answer(handler: Any, places: Places, name: str) -> Any:
    async def answered(self: Any, request: Any) -> Any:
        answer = await handler(self, request)
        places.pass_by(f"before the answer to {name}")
        return answer

    return answered


def _answer(number: int) -> None:
    sys.stdout.write(f"{number}\n")
    sys.stdout.flush()


def main() -> None:
    """Fork a child for each order; answer with its process, or with its status once it ended."""
    role = {"lead": lead, "serve": serve}[sys.argv[1]]
    for line in sys.stdin:
        order = json.loads(line)
        if "wait" in order:
            if order.get("kill"):
                os.kill(order["wait"], signal.SIGKILL)
            _, status = os.waitpid(order["wait"], 0)
            _answer(os.waitstatus_to_exitcode(status))
            continue
        child = os.fork()
        if child:
            _answer(child)
            continue
        status = 70
        try:
            # Or the child would answer in its parent's place.
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            role(order, Places(order["kill_at"], Path(order["log"])))
            status = 0
        finally:
            sys.stderr.flush()
            os._exit(status)


if __name__ == "__main__":
    main()
