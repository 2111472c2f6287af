"""``sfumato sketch import | list | refusals``: sketches of devices, on the server."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from analyst.cli.options import DEFAULT_URL, Json, Key, Study, Url, print_items
from analyst.cli.sketching import app
from analyst.client import Client
from shared.command import EXIT_REFUSED, list_examples
from shared.errors import ConfigError, SketchError, TransportError
from shared.wire import decode_message, problem_type_of

__all__ = ["app"]


@app.command(
    "import",
    epilog=list_examples(
        "sfumato sketch import meter-17.sketch --url https://sketches.example.org"
    ),
)
def _import(
    paths: Annotated[
        list[Path], typer.Argument(metavar="FILE...", help="Of `sfumato-agent export`.")
    ],
    url: Url = DEFAULT_URL,
    as_json: Json = False,
) -> None:
    """Upload exported sketches by hand.

    This is for devices without a network. The device has signed the bytes, so no key is needed. A
    sketch counts once, however often it is uploaded.
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


@app.command("list", epilog=list_examples("sfumato sketch list STUDY"))
def _list(study: Study, key: Key, url: Url = DEFAULT_URL, as_json: Json = False) -> None:
    """List the sketches of a study in the order of arrival."""
    with Client(url, key=key) as client:
        print_items(
            client.sketches(study),
            *("stream", "number", "slots", "records", "received"),
            identity="device",
            row=_list_fields,
            as_json=as_json,
        )


@app.command("refusals", epilog=list_examples("sfumato sketch refusals STUDY"))
def _refusals(study: Study, key: Key, url: Url = DEFAULT_URL, as_json: Json = False) -> None:
    """Count refusals by reason.

    The server refuses sketches; owners of devices refuse the plan.
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


def _list_fields(sketch: dict[str, Any]) -> tuple[str, ...]:
    first, last = sketch["slots"] or ("-", "-")
    slots = str(first) if first == last else f"{first}..{last}"
    n_records = "secret" if sketch["n_records"] is None else str(sketch["n_records"])
    number = str(sketch["sequence"])
    return sketch["stream"], number, slots, n_records, sketch["received"], sketch["device_id"]


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
