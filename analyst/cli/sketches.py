"""``sfumato sketch import | list | refusals``: sketches of devices, on the server."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from sfumato.analyst.cli.options import (
    DEFAULT_URL,
    Answer,
    Json,
    Study,
    Url,
    command,
    list_items,
    show_time,
)
from sfumato.analyst.cli.sketching import app
from sfumato.analyst.cli.studies import describe_refusals
from sfumato.analyst.client import Client
from sfumato.shared.command import EXIT_REFUSED, list_examples
from sfumato.shared.errors import ConfigError, MalformedMessageError, SketchError, TransportError
from sfumato.shared.wire import SketchHeader, decode_message, problem_type_of
from sfumato.shared.wire.objects.studies import SketchBody

__all__ = ["app"]


@app.command(
    "import",
    epilog=list_examples(
        "sfumato sketch import meter-17.sketch --url https://sketches.example.org"
    ),
)
def _import(
    paths: Annotated[
        list[Path], typer.Argument(metavar="FILE", help="Made by `sfumato-agent export`.")
    ],
    url: Url = DEFAULT_URL,
    as_json: Json = False,
) -> None:
    """Upload sketches that devices without a network exported.

    No key is needed, because the device has signed the bytes. A sketch counts once, however often
    it is uploaded.
    """
    with Client(url) as client:
        found = [_import_one(client, path) for path in paths]
    if as_json:
        print(json.dumps(found))
    else:
        for item in found:
            print(_describe(item))
    if any(item["result"] == "refused" for item in found):
        raise typer.Exit(EXIT_REFUSED)


@command(app, "list", "sfumato sketch list STUDY")
def _list(client: Client, study: Study) -> Answer:
    """List the sketches of a study in the order of arrival."""
    columns = ("stream", "number", "slots", "records", "received")
    return list_items(client.sketches(study), *columns, identity="device", row=_list_fields)


@command(app, "refusals", "sfumato sketch refusals STUDY")
def _refusals(client: Client, study: Study) -> Answer:
    """Count refused sketches and refusals of the plan, by reason."""
    found = client.refusals(study)
    yield found
    yield from list(describe_refusals(found)) or ["nothing was refused"]


def _list_fields(sketch: SketchBody) -> tuple[str, ...]:
    first, last = sketch.slots or ("-", "-")
    slots = str(first) if first == last else f"{first}..{last}"
    n_records = "secret" if sketch.n_records is None else f"{sketch.n_records:,}"
    number, received = str(sketch.sequence), show_time(sketch.received)
    return sketch.stream, number, slots, n_records, received, sketch.device_id


def _import_one(client: Client, path: Path) -> dict[str, Any]:
    """Upload one file; a refusal is a result, a server that does not answer an error."""
    item: dict[str, Any] = {"file": str(path), "sketch_id": None, "study_id": None}
    try:
        data, header = _read(path)
        item |= {"sketch_id": header.sketch_id.hex(), "study_id": header.study.hex()}
        is_new = client.upload(item["study_id"], item["sketch_id"], data)
    except TransportError:
        raise
    except SketchError as error:
        problem = problem_type_of(type(error)).slug
        return {**item, "result": "refused", "problem": problem, "detail": str(error)}
    return {**item, "result": "stored" if is_new else "known", "problem": None, "detail": None}


def _read(path: Path) -> tuple[bytes, SketchHeader]:
    try:
        data = path.read_bytes()
        return data, decode_message(data).header
    except MalformedMessageError as error:
        raise MalformedMessageError(
            "is damaged, or of another format", field=str(path), fix="export the sketch again"
        ) from error
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
            return f"{item['file']}: the server has it already; nothing has changed"
        case _:
            detail = item["detail"].removeprefix(f"{item['file']}: ")
            return f"{item['file']}: refused ({item['problem']}): {detail}"
