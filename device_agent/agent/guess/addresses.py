"""A look at what an address gives: one page is fetched, and kept nowhere."""

from __future__ import annotations

import json
import tempfile
from contextlib import suppress
from pathlib import Path

import httpx

from sfumato.device_agent.agent.guess.look import guess_file
from sfumato.device_agent.agent.guess.tables import Guess
from sfumato.shared.errors import ConfigError, RecordError
from sfumato.shared.http_client import open_client

_TIMEOUT_S = 30.0
_MOST_BYTES = 1 << 24


def guess_address(url: str) -> Guess:
    """Guess how pages of JSON behind an address are read.

    Raises
    ------
    ConfigError
        It gives no list of objects; the fix says how to read it all the same.
    RecordError
        It does not answer, or gives too much.
    """
    page = _fetch(url)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "page.json"
        path.write_bytes(page)
        found = guess_file(path)
    if "records" not in found.source:
        raise ConfigError(
            "gives no JSON document with a list of records",
            field=url,
            fix=f"let a timer write what it gives to a file, `curl -o records.csv {url}`, and run "
            "`sfumato-agent init --guess records.csv`",
        )
    del found.source["path"]
    found.source = {"kind": "http", "url": url} | {**found.source, "kind": "http"}
    document = None
    with suppress(ValueError, RecursionError):
        document = json.loads(page)
    if not (isinstance(document, dict) and "next" in document):
        found.doubts.append(
            "no `next` names the page that follows: write its key in next, or every answer must "
            "begin with the records of the one before"
        )
    return found


def _fetch(url: str) -> bytes:
    data = bytearray()
    try:
        with open_client(url, timeout=_TIMEOUT_S) as client, client.stream("GET", url) as answer:
            if answer.status_code != httpx.codes.OK:
                raise RecordError(
                    f"answers with status {answer.status_code}",
                    field=url,
                    fix="check the address; where it asks for a token, save a page to a file and "
                    "guess that",
                )
            for piece in answer.iter_bytes():
                data += piece
                if len(data) > _MOST_BYTES:
                    raise RecordError(
                        f"gives more than {_MOST_BYTES >> 20} MiB at once",
                        field=url,
                        fix="ask for a smaller page",
                    )
    except httpx.HTTPError as error:
        raise RecordError(
            f"does not answer ({error})", field=url, fix="check the address and the network"
        ) from error
    return bytes(data)
