"""What tells that a stream has joined messages: it may never read them as records."""

from __future__ import annotations

from collections.abc import Sequence

from sfumato.device_agent.sources.positions import KnownPosition
from sfumato.shared.errors import LedgerError

JOINED = "join:cells"
"""Source of the positions of cells."""


def require_never_joined(stream: str, known: Sequence[KnownPosition]) -> None:
    """Refuse to read records where the stream has given cells: it would read some messages again.

    Raises
    ------
    LedgerError
        It has.
    """
    if any(each.stream == stream and each.position.source == JOINED for each in known):
        raise LedgerError(
            "must stay: messages of cells that were given would be read again as records",
            field=f"stream {stream}: join",
            fix="restore it, or give the stream another name, whose epsilon adds",
        )
