"""The same commands over the REST interface of a running server."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from typing import Any

import httpx

from shared.errors import ConfigError, TransportError
from shared.wire import error_from_problem

_TIMEOUT_S = 30.0


def add_url(parser: argparse.ArgumentParser) -> None:
    """Add the option that names a server in the place of a database."""
    parser.add_argument(
        "--url",
        help="ask this server, with the operator key in SFUMATO_KEY, in the place of the database",
    )


class RemoteServer:
    """A server that is asked with an operator's key.

    Parameters
    ----------
    url
        Where it listens.

    Raises
    ------
    ConfigError
        No key is in the environment: on a command line others on this machine could read it.
    """

    def __init__(self, url: str) -> None:
        key = os.environ.get("SFUMATO_KEY", "")
        if not key:
            raise ConfigError(
                "is missing",
                field="SFUMATO_KEY",
                fix="set this environment variable to an operator key",
            )
        self._url = url.rstrip("/")
        self._headers = {"Authorization": f"Bearer {key}"}

    def call(self, method: str, path: str, **options: Any) -> dict[str, Any]:
        """Ask, and return the answer.

        Raises
        ------
        TransportError
            The server does not answer.
        SketchError
            It refuses; the class says why.
        """
        try:
            answer = httpx.request(
                method, self._url + path, headers=self._headers, timeout=_TIMEOUT_S, **options
            )
            document = answer.json()
        except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
            raise TransportError(
                f"{self._url} does not answer as an aggregator does ({type(error).__name__})",
                field="url",
                fix="check the address, and that `sfumato serve` runs there",
            ) from error
        if not answer.is_success:
            raise error_from_problem(document, answer.status_code)
        return dict(document)

    def pages(self, path: str) -> Iterator[dict[str, Any]]:
        """Yield the items of all pages of a list."""
        page: str | None = None
        while True:
            answer = self.call("GET", path, params={"page": page} if page else None)
            yield from answer["items"]
            page = answer.get("next_page")
            if not page:
                return
