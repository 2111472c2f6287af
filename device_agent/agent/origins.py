"""Origins of a stream's records: those in its settings, and the identities of its files."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from device_agent.sources.settings import StreamSettings
from device_agent.store.positions import StoredPosition
from shared.file_identity import identify
from shared.privacy import Origin

_FILE = "file:"


def find_origins(stream: StreamSettings) -> set[Origin]:
    """Return the origins of a stream: those of its settings, and the identities of its files.

    A path alone is not enough: a file, folder or database that was renamed is the same one.
    """
    found = set(stream.source.origins)
    for origin in stream.source.origins:
        if origin.kind == "stdin":
            with suppress(OSError):
                # A file that the shell has put there is that file.
                if stat.S_ISREG(os.fstat(0).st_mode):
                    found.add(_to_origin(identify(0).source, origin.part))
        if origin.kind in ("path", "folder"):
            with suppress(OSError):
                source = identify(Path(origin.name)).source
                found.add(_to_origin(source, origin.part))
    return found


def read_from(stream: StreamSettings, positions: Iterable[StoredPosition]) -> set[Origin]:
    """Return the files of some positions as origins."""
    return {
        _to_origin(p.source, stream.source.disjoint)
        for p in positions
        if p.source.startswith(_FILE)
    }


def _to_origin(source: str, part: str) -> Origin:
    return Origin(kind="file", name=source.removeprefix(_FILE), part=part)
