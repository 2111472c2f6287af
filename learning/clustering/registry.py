"""Registry of the solvers of all statistics."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from sfumato.learning.clustering.grid import GridSolver
from sfumato.learning.decoding.registry import build_solver, default_solver, solver_factories
from sfumato.shared.errors import DecodingError, WrongStatisticError

SOLVERS: Final[Mapping[str, Mapping[str, type[Any]]]] = MappingProxyType(
    {"fourier": solver_factories, "grid": MappingProxyType({"grid": GridSolver})}
)
"""Decoders of each kind of statistic."""
_DEFAULTS: Final = {"fourier": default_solver, "grid": "grid"}


def choose_solver(kind: str) -> str:
    """Return the decoder of a kind of statistic by default.

    Raises
    ------
    WrongStatisticError
        Centroids cannot be decoded from it.
    """
    if kind not in SOLVERS:
        raise WrongStatisticError(
            f"must be {' or '.join(SOLVERS)} to be decoded and is {kind}",
            field="statistic.kind",
            fix=f"read the {kind} of a snapshot instead",
        )
    return _DEFAULTS[kind]


def create_any_solver(kind: str, name: str, settings: Mapping[str, Any]) -> Any:
    """Create a decoder of a kind of statistic from its name and settings.

    Raises
    ------
    WrongStatisticError
        Centroids cannot be decoded from it.
    DecodingError
        The name or a setting is unknown, or a setting is out of range.
    """
    default = choose_solver(kind)
    factories = SOLVERS[kind]
    if name not in factories:
        raise DecodingError(
            f"must be one of {', '.join(sorted(factories))}",
            field="decoder",
            fix=f"use {default!r}",
        )
    return build_solver(factories[name], name, settings)
