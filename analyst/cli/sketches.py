"""``sfumato sketch import | list | refusals``: sketches of devices, on the server."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from analyst.cli.options import (
    DEFAULT_URL,
    EXIT_USAGE,
    SETTINGS,
    Json,
    Key,
    Study,
    Url,
    make_table,
    show,
)
from analyst.client import Client
from shared.errors import ConfigError, SketchError, TransportError
from shared.wire import decode_message, problem_type_of

app = typer.Typer(help="Sketches of devices, on the server.", **SETTINGS)
COMMANDS = ("import", "list", "refusals")
"""First arguments that are commands, not files."""


@app.command("import")
def _import(
    paths: Annotated[
        list[Path], typer.Argument(metavar="FILE...", help="Of `sfumato-agent export`.")
    ],
    url: Url = DEFAULT_URL,
    as_json: Json = False,
) -> None:
    """Take devices' signed sketches to the server by hand, where a device has no network.

    The bytes are the device's own and signed by it, so no key is needed. A sketch is taken in
    once, whichever way it comes and however often: doing it again is harmless.

    Example: sfumato sketch import meter-17.sketch --url https://sketches.example.org
    """
    with Client(url) as client:
        found = [_import_one(client, path) for path in paths]
    if as_json:
        print(json.dumps(found))
    else:
        for item in found:
            print(_describe(item))
    if any(item["result"] == "refused" for item in found):
        raise typer.Exit(EXIT_USAGE)


@app.command("list")
def _list(study: Study, key: Key, url: Url = DEFAULT_URL, as_json: Json = False) -> None:
    """List the sketches of a study in the order of arrival.

    Example: sfumato sketch list STUDY
    """
    with Client(url, key=key) as client:
        sketches = list(client.sketches(study))
    if as_json:
        print(json.dumps(sketches))
        return
    table = make_table("stream", "number", "slots", "records", "received", identity="device")
    for item in sketches:
        first, last = item["slots"] or ("-", "-")
        table.add_row(
            item["stream"],
            str(item["sequence"]),
            str(first) if first == last else f"{first}..{last}",
            "secret" if item["n_records"] is None else str(item["n_records"]),
            item["received"],
            item["device_id"],
        )
    show(table)


@app.command("refusals")
def _refusals(study: Study, key: Key, url: Url = DEFAULT_URL, as_json: Json = False) -> None:
    """Count what was refused, by reason: sketches by the server, the plan by devices' owners.

    Example: sfumato sketch refusals STUDY
    """
    with Client(url, key=key) as client:
        found = client.refusals(study)
    if as_json:
        print(json.dumps(found))
        return
    for item in found["items"]:
        print(f"{item['count']} sketch(es): {item['problem']}")
    for item in found["plan_refusals"]:
        print(f"{item['n_devices']} device(s), by their owners: {item['rule']}")
    if not found["items"] and not found["plan_refusals"]:
        print("nothing was refused")


def _import_one(client: Client, path: Path) -> dict[str, Any]:
    """Send one file; an answer of the server is a result, that it does not answer is raised."""
    item: dict[str, Any] = {"file": str(path), "sketch_id": None, "study_id": None}
    try:
        data = _read(path)
        header = decode_message(data).header
        item |= {"sketch_id": header.sketch_id.hex(), "study_id": header.study.hex()}
        is_new = client.upload(item["study_id"], item["sketch_id"], data)
    except TransportError:
        raise
    except SketchError as error:
        problem = problem_type_of(type(error)).slug
        return {**item, "result": "refused", "problem": problem, "detail": str(error)}
    return {**item, "result": "stored" if is_new else "known", "problem": None, "detail": None}


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigError(
            f"cannot be read ({error.strerror})",
            field=str(path),
            fix="name a file that `sfumato-agent export` has written",
        ) from error


def _describe(item: dict[str, Any]) -> str:
    match item["result"]:
        case "stored":
            return f"{item['file']}: stored as {item['sketch_id']}"
        case "known":
            return f"{item['file']}: was there already; nothing has changed"
        case _:
            return f"{item['file']}: refused ({item['problem']}): {item['detail']}"
