"""The streams that have joined a study: how each is read, as its owner saw it in the dry run.

It stands beside the key, apart from the database: it says nothing about records, and a database
that is rebuilt must not hold up a stream until its owner comes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from sfumato.device_agent.store.disk import naming_file
from sfumato.shared.durable_files import replace_file

JOINED_NAME = "joined.json"


@dataclass(frozen=True, kw_only=True)
class Joined:
    """How a stream was read when it joined.

    Parameters
    ----------
    digest
        SHA-256 of the settings that decide it, hexadecimal.
    is_seen
        Whether there were records to look at.
    """

    digest: str
    is_seen: bool


def load_joined(folder: Path) -> dict[str, Joined]:
    """Load the streams that have joined, by name; none if the file is missing or damaged.

    Parameters
    ----------
    folder
        The study's folder of keys.

    Raises
    ------
    StoreError
        It cannot be read.
    """
    path = folder / JOINED_NAME
    with naming_file(path):
        try:
            document = json.loads(path.read_bytes())
            return {name: Joined(**entry) for name, entry in document.items()}
        except (FileNotFoundError, ValueError, TypeError, AttributeError):
            return {}


def save_joined(folder: Path, joined: Mapping[str, Joined]) -> None:
    """Replace the file.

    Raises
    ------
    StoreError
        It cannot be written; the old file is unchanged.
    """
    path = folder / JOINED_NAME
    document = {name: asdict(entry) for name, entry in sorted(joined.items())}
    with naming_file(path):
        replace_file(path, json.dumps(document).encode())
