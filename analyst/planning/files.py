"""Plans and specifications in files, and exact numbers on a command line."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from sfumato.shared.errors import ConfigError, PlanError
from sfumato.shared.plan import SketchPlan, draft_from_json, plan_from_json, plan_from_spec
from sfumato.shared.structure import read_toml


def read_plan(path: str | Path) -> SketchPlan:
    """Read a plan (JSON), or make one from a specification (``.toml``).

    Raises
    ------
    ConfigError, PlanError, PrivacyError
        The file cannot be read, is not of its format, or breaks a rule of plans.
    """
    path = Path(path)
    return read_spec(path) if path.suffix == ".toml" else plan_from_json(_read_json(path))


def read_draft(path: str | Path) -> SketchPlan:
    """Read a plan that may be the draft of a secure sum; raises as :func:`read_plan`."""
    path = Path(path)
    return read_spec(path) if path.suffix == ".toml" else draft_from_json(_read_json(path))


def read_spec(path: Path) -> SketchPlan:
    """Make a plan from a specification (TOML); raises as :func:`read_plan`."""
    return plan_from_spec(read_toml(path))


def write_text(path: Path, text: str, *, exclusive: bool = False) -> None:
    """Write a text file.

    Parameters
    ----------
    exclusive
        Refuse to replace a file.

    Raises
    ------
    ConfigError
        It cannot be written.
    """
    try:
        with path.open("x" if exclusive else "w", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise ConfigError(
            f"cannot be written: {error.strerror}", field=str(path), fix="choose another with -o"
        ) from error


def parse_clusters(text: str, field: str) -> int | None:
    """Read a number of clusters; None for ``unknown``.

    Raises
    ------
    ConfigError
        It is neither ``unknown`` nor a whole number from 1 to 10^15.
    """
    if text.strip().lower() == "unknown":
        return None
    if not re.fullmatch(r"[+-]?[0-9]{1,15}", text.strip()):
        raise ConfigError(
            'must be a whole number, or "unknown"',
            field=field,
            fix="give the largest number of clusters that may be wanted",
        )
    return require_count(int(text), field)


def require_count(value: int, field: str) -> int:
    """Return a whole number that is at least 1.

    Raises
    ------
    ConfigError
        It is less.
    """
    if value < 1:
        raise ConfigError("must be at least 1", field=field, fix="use a whole number such as 1")
    return value


def _read_json(path: Path) -> Any:
    try:
        return json.loads(_read_text(path))
    except json.JSONDecodeError as error:
        raise PlanError(f"line {error.lineno} is not JSON", field=str(path)) from error


def _read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise ConfigError(f"cannot be read: {reason}", field=str(path)) from error
