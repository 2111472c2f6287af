"""``sfumato identity show``: the key by which devices know that a result is the server's."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Annotated

import typer

from sfumato.analyst.cli.options import Answer, command, show_time
from sfumato.analyst.client import Client
from sfumato.shared.command import SETTINGS
from sfumato.shared.wire.objects.publications import IdentityBody

app = typer.Typer(help="Show or replace the key that signs published results.", **SETTINGS)


@command(app, "show", "sfumato identity show", "sfumato identity show --json")
def _show(client: Client) -> Answer:
    """Show the keys that sign published results; the last one signs now."""
    found = client.identity()
    yield asdict(found)
    yield from _describe(found)


@command(
    app,
    "rotate",
    "sfumato identity rotate",
    "sfumato identity rotate --stolen     # every device must be told the new key",
)
def _rotate(
    client: Client,
    stolen: Annotated[
        bool,
        typer.Option(
            "--stolen", help="The old key may be in other hands: it does not name its successor."
        ),
    ] = False,
) -> Answer:
    """Replace the key that signs published results.

    The old key names the new one, so devices follow by themselves. A result that the old key has
    signed stays good until another is published.
    """
    found = client.rotate_identity(endorse=not stolen)
    yield asdict(found)
    yield from _describe(found)
    if stolen:
        key = found.keys[-1].public_key
        yield f"next, on every device: sfumato-agent pull --trust {key}"
    yield "next: publish a result again, which the new key signs"


def _describe(identity: IdentityBody) -> Iterator[str]:
    for number, key in enumerate(identity.keys):
        is_last = number == len(identity.keys) - 1
        state = "signs now" if is_last else "was replaced"
        followed = "" if number == 0 else ", named by the key before it"
        if number > 0 and key.endorsement is None:
            followed = ", not named by the key before it"
        yield f"{key.public_key}\n  since {show_time(key.created)}, {state}{followed}"
