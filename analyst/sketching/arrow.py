"""Finding pyarrow, which only some files need."""

from __future__ import annotations

import importlib
from typing import Any

from shared.errors import ConfigError

EXTRA = "install it: pip install 'sfumato[parquet]'"


def find_pyarrow(module: str) -> Any | None:
    """Return a module of pyarrow, or None where it is not installed."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError:
        return None


def require_pyarrow(module: str, what: str) -> Any:
    """Return a module of pyarrow.

    Raises
    ------
    ConfigError
        It is not installed.
    """
    found = find_pyarrow(module)
    if found is None:
        raise ConfigError("needs pyarrow, which is not installed here", field=what, fix=EXTRA)
    return found
