"""The helper's interface: six routes, deterministic CBOR, a key for each leader."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import math
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from typing import Any

from sqlalchemy import Engine
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from sfumato.helper.batches import Batches
from sfumato.helper.tables import leader_keys
from sfumato.shared.cbor import encode_deterministic
from sfumato.shared.errors import (
    AccessError,
    DiskError,
    MalformedMessageError,
    MediaTypeError,
    NotFoundError,
    SketchError,
    TooLargeError,
    TransportError,
)
from sfumato.shared.wire import PROBLEM_MEDIA_TYPE, problem_document
from sfumato.shared.wire.sum_messages import SUM_MEDIA_TYPE, CommitRequest, ReportsRequest

_LOG = logging.getLogger("sfumato.helper")
_MOST_BYTES = 8 << 20
_RETRY_AFTER_S = "10"
_KEY_PREFIX = "Bearer "


def hash_key(secret: str) -> bytes:
    """Return the SHA-256 of a leader's key; random secrets need no stretching."""
    return hashlib.sha256(secret.encode()).digest()


@dataclass(frozen=True, kw_only=True)
class _Routes:
    database: Engine
    batches: Batches
    version: str
    step_s: float

    async def read_reports(self, request: Request) -> Response:
        batch_id, body = _read_batch_id(request), await _read_body(request)
        asked = ReportsRequest.decode(body)
        leader = request.state.leader
        await run_in_threadpool(self.batches.plans.require_leader, asked.batch.plan_digest, leader)
        verdicts = await run_in_threadpool(self.batches.check, batch_id, asked)
        return _answer(encode_deterministic(verdicts))

    async def commit(self, request: Request) -> Response:
        batch_id, body = await self._read_own(request), await _read_body(request)
        begun = time.monotonic()
        asked = CommitRequest.decode(body)
        answer = await run_in_threadpool(self.batches.commit, batch_id, asked)
        # A whole number of steps, so that the time tells little of what was added up.
        seconds = time.monotonic() - begun
        n_steps = max(1, math.ceil(seconds / self.step_s))
        await asyncio.sleep(n_steps * self.step_s - seconds)
        return _answer(answer)

    async def acknowledge(self, request: Request) -> Response:
        batch_id, body = await self._read_own(request), await _read_body(request)
        await run_in_threadpool(self.batches.acknowledge, batch_id, body)
        return Response(status_code=204)

    async def show_batch(self, request: Request) -> Response:
        batch_id = await self._read_own(request)
        state, count, members = await run_in_threadpool(self.batches.show, batch_id)
        return JSONResponse({"state": state, "count": count, "members": members.hex()})

    async def list_held(self, request: Request) -> Response:
        held = await run_in_threadpool(self.batches.list_held, await self._read_own(request))
        return _answer(encode_deterministic(held))

    async def _read_own(self, request: Request) -> bytes:
        """Return the batch of a request, unless another leader's plan is behind it."""
        batch_id = _read_batch_id(request)
        await run_in_threadpool(self.batches.require_leader, batch_id, request.state.leader)
        return batch_id

    async def show_helper(self, _: Request) -> Response:
        rows = await run_in_threadpool(self.batches.plans.list)
        return JSONResponse(
            {
                "identity": self.batches.identity.public_key().public_bytes_raw().hex(),
                "plans": [row.digest.hex() for row in rows if row.retired is None],
                "version": self.version,
            }
        )

    async def show_metrics(self, _: Request) -> Response:
        batches, reports = await run_in_threadpool(self.batches.count)
        lines = ["# TYPE sfumato_helper_batches gauge"]
        lines += [f'sfumato_helper_batches{{state="{k}"}} {n}' for k, n in sorted(batches.items())]
        lines += ["# TYPE sfumato_helper_reports gauge"]
        lines += [f'sfumato_helper_reports{{state="{k}"}} {n}' for k, n in sorted(reports.items())]
        return PlainTextResponse("\n".join(lines) + "\n")

    async def require_leader(
        self, handler: Callable[[Request], Awaitable[Response]], request: Request
    ) -> Response:
        stated = request.headers.get("Authorization", "")
        leader = None
        if stated.startswith(_KEY_PREFIX):
            leader = await run_in_threadpool(self._find_leader, stated.removeprefix(_KEY_PREFIX))
        if leader is None:
            raise AccessError(
                "must be a key of this helper",
                field="Authorization",
                fix="let the helper's operator make one with `sfumato helper key`",
            )
        request.state.leader = leader
        return await handler(request)

    def _find_leader(self, secret: str) -> str | None:
        """Return the name of the leader whose key this is; None for nobody's."""
        with self.database.connect() as connection:
            row = connection.execute(
                leader_keys.select().where(leader_keys.c.key_hash == hash_key(secret))
            ).first()
        return None if row is None or row.revoked is not None else str(row.name)


def create_app(
    database: Engine, batches: Batches, *, version: str, step_s: float = 1.0
) -> Starlette:
    """Return the application of a helper.

    Parameters
    ----------
    step_s
        Answers for a batch are given after a multiple of this.
    """
    routes = _Routes(database=database, batches=batches, version=version, step_s=step_s)

    def keyed(handler: Callable[[Request], Awaitable[Response]]) -> Any:
        return partial(routes.require_leader, handler)

    path = "/v1/batches/{batch}"
    return Starlette(
        routes=[
            Route(f"{path}/reports", keyed(routes.read_reports), methods=["PUT"]),
            Route(f"{path}/reports", keyed(routes.list_held), methods=["GET"]),
            Route(f"{path}/commit", keyed(routes.commit), methods=["POST"]),
            Route(f"{path}/acknowledgement", keyed(routes.acknowledge), methods=["POST"]),
            Route(path, keyed(routes.show_batch), methods=["GET"]),
            Route("/v1/helper", routes.show_helper, methods=["GET"]),
            Route("/metrics", keyed(routes.show_metrics), methods=["GET"]),
        ],
        exception_handlers={SketchError: _refuse, ClientDisconnect: _leave},
    )


async def _refuse(_: Request, error: Exception) -> Response:
    if not isinstance(error, SketchError):
        raise error
    if isinstance(error, DiskError):
        # It may pass: the leader asks again.
        error = TransportError(error.rule, field="journal", fix=error.fix)
    document = problem_document(error)
    is_away = document["status"] == HTTPStatus.SERVICE_UNAVAILABLE
    if is_away:
        _LOG.warning("answered 503: %s", error)
    return JSONResponse(
        document,
        status_code=document["status"],
        media_type=PROBLEM_MEDIA_TYPE,
        headers={"Retry-After": _RETRY_AFTER_S} if is_away else None,
    )


async def _leave(request: Request, _: Exception) -> Response:
    """Note that a body broke off; nobody hears the answer."""
    _LOG.info("%s broke off its request", request.state.leader)
    return Response(status_code=499)


def _read_batch_id(request: Request) -> bytes:
    try:
        batch_id = bytes.fromhex(request.path_params["batch"])
    except ValueError:
        batch_id = b""
    if len(batch_id) != 32:
        raise NotFoundError("must be 64 hexadecimal digits", field="batch", fix="check the address")
    return batch_id


async def _read_body(request: Request) -> bytes:
    if request.headers.get("Content-Type") != SUM_MEDIA_TYPE:
        raise MediaTypeError(
            f"must be {SUM_MEDIA_TYPE}", field="Content-Type", fix="update the leader"
        )
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > _MOST_BYTES:
            raise TooLargeError(
                f"must be at most {_MOST_BYTES} bytes", field="body", fix="send fewer reports"
            )
    if not body:
        raise MalformedMessageError("is empty", field="body", fix="send the message")
    return body


def _answer(body: bytes) -> Response:
    return Response(body, media_type=SUM_MEDIA_TYPE)
