"""Messages to webhooks, after the specification Standard Webhooks (standardwebhooks.com).

A message is signed by HMAC-SHA256 over its identity, the time of the attempt and its body. The
receiver is the operator's; all that it learns is in the message, and nothing of its answer but the
status is used.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import hmac
import secrets
from dataclasses import dataclass
from typing import Self
from urllib.parse import urlsplit

import httpx
import structlog

from sfumato.aggregator.logs import describe_cause
from sfumato.aggregator.resources.alarms.service.targets import (
    CheckedTransport,
    RefusedError,
    require_host,
)
from sfumato.shared import __version__
from sfumato.shared.errors import ConfigError
from sfumato.shared.hosts import HostList, is_loopback
from sfumato.shared.http_client import open_async_client
from sfumato.shared.wire import read_retry_after

SECRET_PREFIX = "whsec_"
_SECRET_BYTES = 32
_LEAST_SECRET, _MOST_SECRET = 24, 64
_MOST_URL = 2000
_CONNECT_S, _ANSWER_S, _LONGEST_S = 5.0, 15.0, 30.0
_MOST_RETRY_S = 86_400.0
_WORDS = {404: "not found", 410: "gone"}

log = structlog.get_logger("aggregator.alarms")


@dataclass(frozen=True, kw_only=True)
class Attempt:
    """The outcome of one attempt.

    Parameters
    ----------
    status
        The HTTP status; None if there was no answer.
    problem
        What was wrong; None if the message was taken.
    retry_after_s
        Seconds that the receiver asked to wait.
    """

    status: int | None = None
    problem: str | None = None
    retry_after_s: float = 0.0

    @property
    def is_gone(self) -> bool:
        """True if the receiver wants no message any more."""
        return self.status == httpx.codes.GONE


def require_webhook(url: str, hosts: HostList) -> str:
    """Return an address that messages may be sent to.

    Raises
    ------
    ConfigError
        It is not https, except to this machine, carries a user's name, or states a host that is
        neither public nor permitted.
    """
    fix = "write it as https://hooks.example.org/path"
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname or "", parts.port
        _ = httpx.URL(url).host
    except (ValueError, httpx.InvalidURL) as error:
        raise ConfigError("must be an address", field="url", fix=fix) from error
    is_plain = url.isascii() and url.isprintable() and " " not in url
    if parts.scheme not in ("https", "http") or not host or not is_plain or len(url) > _MOST_URL:
        raise ConfigError("must be an address that begins with https://", field="url", fix=fix)
    if parts.scheme == "http" and not is_loopback(host):
        raise ConfigError(
            "must begin with https://: others could read what is sent on the way",
            field="url",
            fix=f"{fix}; http:// is for this machine alone",
        )
    if parts.username is not None or parts.fragment:
        raise ConfigError(
            "cannot have a user or a fragment", field="url", fix="put a token into the path"
        )
    require_host(hosts, host)
    return url


def make_secret() -> bytes:
    """Draw the key of a webhook's signatures."""
    return secrets.token_bytes(_SECRET_BYTES)


def show_secret(secret: bytes) -> str:
    """Return a key as it is exchanged: ``whsec_`` and base64."""
    return SECRET_PREFIX + base64.b64encode(secret).decode()


def read_secret(text: str) -> bytes:
    """Read a key of 24 to 64 bytes.

    Raises
    ------
    ConfigError
        It is malformed.
    """
    try:
        secret = base64.b64decode(text.removeprefix(SECRET_PREFIX), validate=True)
    except (binascii.Error, ValueError):
        secret = b""
    if not text.startswith(SECRET_PREFIX) or not _LEAST_SECRET <= len(secret) <= _MOST_SECRET:
        raise ConfigError(
            f"must be {SECRET_PREFIX} and base64 of {_LEAST_SECRET} to {_MOST_SECRET} bytes",
            field="secret",
            fix="leave it out: the server draws one and shows it once",
        )
    return secret


def sign_message(secret: bytes, *, message_id: str, timestamp: int, body: str) -> str:
    """Return the header ``webhook-signature``: ``v1,`` and base64 of the HMAC-SHA256."""
    told = f"{message_id}.{timestamp}.{body}".encode()
    digest = hmac.new(secret, told, hashlib.sha256).digest()
    return "v1," + base64.b64encode(digest).decode()


class Sender:
    """Sends messages: no redirect is followed, no proxy used, and no answer read."""

    def __init__(self, hosts: HostList) -> None:
        self._hosts = hosts
        self._http = open_async_client(
            None,
            transport=CheckedTransport(hosts),
            timeout=httpx.Timeout(_ANSWER_S, connect=_CONNECT_S),
            follow_redirects=False,
            headers={"User-Agent": f"sfumato/{__version__}", "Accept-Encoding": "identity"},
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._http.aclose()

    async def send(
        self, url: str, secret: bytes, *, message_id: str, body: str, now: float
    ) -> Attempt:
        """Make one attempt; never raises for what a receiver or network may do."""
        timestamp = int(now)
        headers = {
            "Content-Type": "application/json",
            "webhook-id": message_id,
            "webhook-timestamp": str(timestamp),
            "webhook-signature": sign_message(
                secret, message_id=message_id, timestamp=timestamp, body=body
            ),
        }
        try:
            require_webhook(url, self._hosts)
            async with (
                asyncio.timeout(_LONGEST_S),
                self._http.stream("POST", url, content=body.encode(), headers=headers) as answer,
            ):
                # Its body is not read: it may have no end.
                return _judge(answer, now=now)
        except (ConfigError, RefusedError) as error:
            problem = "refused by this server: see its option --webhook-hosts"
            log.warning("webhook refused", message=message_id, reason=str(error))
        # A host's name that cannot be encoded is found only where it is looked up.
        except (httpx.HTTPError, httpx.InvalidURL, OSError, UnicodeError) as error:
            # The cause would tell an open port of a permitted network from a closed one.
            problem = "no answer; the server's log has the cause"
            log.info("webhook did not answer", message=message_id, reason=describe_cause(error))
        return Attempt(problem=problem)


def _judge(answer: httpx.Response, *, now: float) -> Attempt:
    status = answer.status_code
    if answer.is_success:
        return Attempt(status=status)
    pause = read_retry_after(answer.headers.get("Retry-After", ""), now=now) or 0.0
    words = "is a redirect, which is not followed" if answer.is_redirect else "was answered"
    return Attempt(
        status=status,
        problem=f"{words}: status {status} {_WORDS.get(status, '')}".strip(),
        retry_after_s=min(pause, _MOST_RETRY_S),
    )
