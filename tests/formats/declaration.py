"""The form of an entry of the table of formats."""

import json
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True)
class File:
    """A file as some program writes it.

    Parameters
    ----------
    name
        Who writes it.
    file, written
        Its name, and what is in it.
    settings
        Keys of ``[streams.source]`` but for the path, with tables ``join`` and ``columns``.
    """

    name: str
    file: str
    written: str | bytes
    settings: str

    @property
    def document(self) -> dict[str, Any]:
        """A stream, as TOML declares it, but for its path and name."""
        source = tomllib.loads(self.settings)
        columns = source.pop("columns")
        return {"source": source, "columns": columns}

    @property
    def data(self) -> bytes:
        """The bytes of the file."""
        return self.written if isinstance(self.written, bytes) else self.written.encode()

    @property
    def keys(self) -> str:
        """The settings in one line."""
        return "; ".join(f"`{key} = {value}`" for key, value in _flatten(self.document))


@dataclass(frozen=True, kw_only=True)
class Format(File):
    """A format that is read, and the one configuration that reads it.

    Parameters
    ----------
    records
        A line a record: its time in UTC or ``-``, and its values, ``nan`` for a missing one.
    is_guessed
        Whether ``init --guess`` finds these values of these columns by itself.
    """

    records: str
    is_guessed: bool = True


@dataclass(frozen=True, kw_only=True)
class Refused(File):
    """A format that no source reads; the settings are what an owner writes who tries all the same.

    Parameters
    ----------
    why
        Part of what ``init --guess`` says.
    command
        How the command begins that it says.
    made
        What this writes, where the program is one that a test can run.
    """

    why: str
    command: str
    made: str = ""


def _flatten(document: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, str]]:
    for name, value in document.items():
        part = json.dumps(name) if "." in name else name
        key = f"{path}.{part}" if path else name
        key = key.removeprefix("source.")
        if isinstance(value, dict):
            yield from _flatten(value, key)
        else:
            yield key, json.dumps(value, ensure_ascii=False)
