"""A table of a TOML file, read strictly: every complaint names the key by its whole path."""

from __future__ import annotations

import math
from typing import Any

from shared.errors import ConfigError


class Table:
    """One table; a key that is not known is refused at once.

    Parameters
    ----------
    document
        What the TOML parser gave.
    path
        Where it stands, such as ``streams[0].source``; empty at the top.
    known
        The keys it may have.

    Raises
    ------
    ConfigError
        It is no table, or has a key that is not known.
    """

    def __init__(self, document: Any, path: str, known: tuple[str, ...]) -> None:
        if not isinstance(document, dict):
            raise ConfigError("must be a table", field=path, fix=f"write it as [{path}]")
        self._document = document
        self._path = path
        for key in document:
            if key not in known:
                raise ConfigError(
                    "is not a known key", field=self.name(key), fix=f"use: {', '.join(known)}"
                )

    def __contains__(self, key: str) -> bool:
        return key in self._document

    def name(self, key: str) -> str:
        """Return the whole path of a key."""
        return f"{self._path}.{key}" if self._path else key

    def get(self, key: str) -> Any:
        """Return what stands there, or None."""
        return self._document.get(key)

    def require(self, key: str, example: str) -> Any:
        """Return what stands there."""
        if key not in self._document:
            raise ConfigError("is missing", field=self.name(key), fix=f"add {example}")
        return self._document[key]

    def text(self, key: str) -> str:
        """Return a text that is not empty."""
        value = self.require(key, f'{key} = "..."')
        if not isinstance(value, str) or not value:
            raise ConfigError("must be text and not empty", field=self.name(key), fix="quote it")
        return value

    def optional_text(self, key: str) -> str | None:
        """Return a text, or None if the key is absent."""
        return self.text(key) if key in self._document else None

    def choice(self, key: str, allowed: tuple[str, ...]) -> str:
        """Return one of the allowed texts; the first if the key is absent."""
        value = self.optional_text(key) or allowed[0]
        if value not in allowed:
            words = ", ".join(f'"{word}"' for word in allowed[:-1]) + f' or "{allowed[-1]}"'
            raise ConfigError(f"must be {words}", field=self.name(key), fix="choose one of them")
        return value

    def flag(self, key: str) -> bool:
        """Return true or false; false if the key is absent."""
        value = self._document.get(key, False)
        if not isinstance(value, bool):
            raise ConfigError("must be true or false", field=self.name(key), fix="use no quotes")
        return value

    def number(self, key: str, default: float) -> float:
        """Return a finite number."""
        value = self._document.get(key, default)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ConfigError("must be a number", field=self.name(key), fix="use no quotes")
        if not math.isfinite(value):
            raise ConfigError("must be finite", field=self.name(key), fix="write its digits")
        return float(value)

    def seconds(self, key: str, default: float) -> float:
        """Return a time in seconds, greater than zero."""
        value = self.number(key, default)
        if value <= 0:
            raise ConfigError(
                "must be greater than zero", field=self.name(key), fix="write seconds, such as 10"
            )
        return value

    def list_of_texts(self, key: str) -> tuple[str, ...]:
        """Return texts that are not empty; none if the key is absent."""
        value = self._document.get(key, [])
        if not isinstance(value, list) or not all(isinstance(v, str) and v for v in value):
            raise ConfigError(
                "must be a list of texts", field=self.name(key), fix='write ["a", "b"]'
            )
        return tuple(value)

    def texts(self, key: str) -> dict[str, str]:
        """Return a table whose values are texts; empty if the key is absent."""
        inner = self.inner(key)
        return {name: inner.text(name) for name in inner._document}

    def inner(self, key: str) -> Table:
        """Return the table under a key, whatever its keys; empty if absent."""
        document = self._document.get(key, {})
        if not isinstance(document, dict):
            raise ConfigError("must be a table", field=self.name(key), fix=f"write it as [{key}]")
        return Table(document, self.name(key), tuple(document))

    def keys(self) -> tuple[str, ...]:
        """Return its keys, in the order of the file."""
        return tuple(self._document)
