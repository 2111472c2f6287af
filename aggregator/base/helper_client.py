"""Calls of the second server of a secure sum; each may be repeated at any time."""

from __future__ import annotations

import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, get_args

import httpx

from sfumato.aggregator.settings import Settings
from sfumato.shared.cbor import decode_deterministic
from sfumato.shared.errors import ConfigError, HelperError, NotFoundError, SketchError
from sfumato.shared.hosts import is_private
from sfumato.shared.http_client import PROXY_FIX, open_async_client
from sfumato.shared.plan import SketchPlan, compute_plan_digest
from sfumato.shared.sharing.batches import BatchKey
from sfumato.shared.wire import PROBLEM_MEDIA_TYPE
from sfumato.shared.wire.problems import error_from_problem
from sfumato.shared.wire.sum_messages import SUM_MEDIA_TYPE, CommitRequest, ReportsRequest, Verdict

_CONNECT_S = 10.0
_ANSWER_S = 900.0
"""Seconds that an answer may take: a million masks take about a minute on one core."""
_UNKNOWN_BATCH = "00" * 32
_VERDICTS = frozenset(get_args(Verdict))


@dataclass(frozen=True, kw_only=True)
class BatchAtHelper:
    """A batch as the helper sees it."""

    state: str
    count: int
    members: bytes


class HelperClient:
    """The helper at the address of the settings.

    Parameters
    ----------
    transport
        Carries the calls; by default over the network.

    Raises
    ------
    ConfigError
        The settings name no helper, its certificate's authority cannot be read, or the environment
        names a proxy that cannot be used.
    """

    def __init__(
        self, settings: Settings, *, transport: httpx.AsyncBaseTransport | None = None
    ) -> None:
        url, key = settings.helper_url, settings.helper_api_key
        if url is None or key is None:
            raise ConfigError(
                "is missing: studies with a secure sum need a second server",
                field="helper_url" if url is None else "helper_api_key",
                fix="state helper_url and helper_api_key in the settings of server and workers; "
                "the helper's operator makes the key with `sfumato helper key`",
            )
        require_private_address(url, field="helper_url")
        self._url = url.rstrip("/")
        self._http = open_async_client(
            self._url,
            headers={"Authorization": f"Bearer {key}"},
            timeout=httpx.Timeout(_ANSWER_S, connect=_CONNECT_S),
            verify=make_context(url, settings.helper_ca, field="helper_ca"),
            transport=transport,
        )

    async def __aenter__(self) -> Self:
        """Return itself."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close every connection."""
        await self._http.aclose()

    async def check(self, key: BatchKey, headers: Sequence[bytes]) -> list[Verdict]:
        """Let the helper judge reports."""
        request = ReportsRequest(batch=key, headers=tuple(headers))
        answer = await self._call("PUT", _path_of(key.batch_id, "reports"), request.encode())
        verdicts = decode_deterministic(answer, what="verdicts")
        if (
            not isinstance(verdicts, list)
            or len(verdicts) != len(headers)
            or not all(isinstance(each, str) and each in _VERDICTS for each in verdicts)
        ):
            raise _is_wrong("does not judge each report")
        return verdicts

    async def list_held(self, batch_id: bytes) -> set[bytes]:
        """Return the sketches of the reports that the helper holds for a batch, unanswered."""
        answer = (await self._send("GET", _path_of(batch_id, "reports"), None)).content
        held = decode_deterministic(answer, what="reports")
        if not isinstance(held, list) or not all(isinstance(each, bytes) for each in held):
            raise _is_wrong("does not list the reports that it holds")
        return set(held)

    async def commit(self, batch_id: bytes, request: CommitRequest) -> bytes:
        """Ask for the answer for a batch; the helper gives one, and the same for ever."""
        return await self._call("POST", _path_of(batch_id, "commit"), request.encode())

    async def acknowledge(self, batch_id: bytes, total: bytes) -> None:
        """Give the helper the opened total; it forgets its half."""
        await self._call("POST", _path_of(batch_id, "acknowledgement"), total)

    async def find(self, batch_id: bytes) -> BatchAtHelper | None:
        """Return a batch as the helper sees it; None if it has none of its reports."""
        try:
            document = await self._read(f"/v1/batches/{batch_id.hex()}")
        except NotFoundError:
            return None
        match document:
            case {"state": str(state), "count": int(count), "members": str(members)}:
                return BatchAtHelper(state=state, count=count, members=bytes.fromhex(members))
        raise _is_wrong("does not describe the batch")

    async def require_accepted(self, plan: SketchPlan) -> None:
        """Check that this is the helper of a plan, that it has accepted it, and knows our key.

        Raises
        ------
        HelperError
            It does not answer, refuses the key, or is another helper.
        ConfigError
            It has not accepted the plan.
        """
        document = await self._read("/v1/helper")
        if document.get("identity") != plan.helper.identity.hex():
            raise HelperError(
                f"at {self._url} is not the plan's helper, {plan.helper.name}",
                field="helper_url",
                fix="correct helper_url, or let this helper accept a draft of the plan",
            )
        digest = compute_plan_digest(plan).hex()
        if digest not in document.get("plans", ()):
            raise ConfigError(
                f"has not been accepted by the helper at {self._url}, or is retired there",
                field="plan",
                fix="let the helper's operator accept the draft with `sfumato helper accept`, and "
                "use the plan that this writes",
            )
        # Needs the key, where the call above does not.
        await self.find(bytes.fromhex(_UNKNOWN_BATCH))

    async def _read(self, path: str) -> Mapping[str, Any]:
        answer = await self._send("GET", path, None)
        try:
            document = answer.json()
        except ValueError as error:
            raise _is_wrong("is not JSON") from error
        if not isinstance(document, dict):
            raise _is_wrong("is not an object")
        return document

    async def _call(self, method: str, path: str, body: bytes) -> bytes:
        return (await self._send(method, path, body)).content

    async def _send(self, method: str, path: str, body: bytes | None) -> httpx.Response:
        headers = {} if body is None else {"Content-Type": SUM_MEDIA_TYPE}
        try:
            answer = await self._http.request(method, path, content=body, headers=headers)
        except httpx.ProxyError as error:
            raise HelperError(
                f"at {self._url} is not reached: {error}", field="helper", fix=PROXY_FIX
            ) from error
        except httpx.HTTPError as error:
            raise HelperError(
                f"at {self._url} does not answer ({type(error).__name__})",
                field="helper",
                fix="check helper_url and helper_ca, and ask the helper's operator whether it "
                "runs; batches wait, and nothing is lost",
            ) from error
        if answer.is_success:
            return answer
        raise _read_problem(answer, self._url)


def require_private_address(url: str, *, field: str) -> None:
    """Refuse an address that others on the way could read.

    Raises
    ------
    ConfigError
        It is not https, except on this machine.
    """
    if not is_private(url):
        raise ConfigError(
            "must begin with https://: keys could be read on the way",
            field=field,
            fix="write it as https://host.example.org; http:// is for this machine alone",
        )


def make_context(url: str, authority: Path | None, *, field: str) -> ssl.SSLContext:
    """Return what verifies the certificate of a server.

    Raises
    ------
    ConfigError
        The file of its authority cannot be read.
    """
    if not url.startswith("https:"):
        # Without the authorities, which take longer to read than many a call.
        return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        return ssl.create_default_context(cafile=authority)
    except OSError as error:
        raise ConfigError(
            f"cannot be read ({error})", field=field, fix="name a PEM file"
        ) from error


def _path_of(batch_id: bytes, call: str) -> str:
    return f"/v1/batches/{batch_id.hex()}/{call}"


def _is_wrong(rule: str) -> HelperError:
    return HelperError(
        f"gave an answer that {rule}",
        field="helper",
        fix="check helper_url; the helper may run another release",
    )


def _read_problem(answer: httpx.Response, url: str) -> SketchError:
    kind = answer.headers.get("content-type", "").partition(";")[0]
    try:
        document = answer.json() if kind == PROBLEM_MEDIA_TYPE else None
    except ValueError:
        document = None
    if answer.status_code == httpx.codes.UNAUTHORIZED:
        return HelperError(
            f"at {url} does not accept this server's key",
            field="helper_api_key",
            fix="let the helper's operator make one with `sfumato helper key`",
        )
    if answer.status_code == httpx.codes.FORBIDDEN:
        return HelperError(
            f"at {url} has accepted this plan for another organisation than that of this key",
            field="helper_api_key",
            fix="use the key that the helper's operator made for this organisation, or let them "
            "accept the draft with `sfumato helper accept --leader`",
        )
    if not isinstance(document, dict) or answer.is_server_error:
        return HelperError(
            f"at {url} answered with status {answer.status_code}",
            field="helper",
            fix="ask the helper's operator to look at its log; batches wait, and nothing is lost",
        )
    return error_from_problem(document, answer.status_code)
