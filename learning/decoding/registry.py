"""Registry of the solvers: add a new solver here."""

import dataclasses
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from sfumato.learning.decoding.mixture.decoder import MixtureDecoder
from sfumato.learning.decoding.points.clompr import ClOmpr
from sfumato.learning.decoding.solver import Solver
from sfumato.shared.errors import DecodingError

__all__ = ["build_solver", "create_solver", "default_solver", "solver_factories"]

default_solver: Final = "mixture"

solver_factories: Final[Mapping[str, type[Any]]] = MappingProxyType(
    {"mixture": MixtureDecoder, "cl-ompr": ClOmpr}
)


def create_solver(name: str = default_solver, **settings: Any) -> Solver:
    """Create a solver of Fourier features from its name and settings.

    Parameters
    ----------
    name : str
        A key of `solver_factories`, without the version.
    **settings : object
        The solver's hyperparameters; omitted ones keep their defaults.

    Returns
    -------
    Solver
        Frozen; its `name` carries the version.

    Raises
    ------
    DecodingError
        The name or a setting is unknown, or a setting is out of range.
    """
    if name not in solver_factories:
        known = ", ".join(sorted(solver_factories))
        raise DecodingError(
            f"must be one of {known}, not {name!r}", field="solver", fix=f"use {default_solver!r}"
        )
    solver: Solver = build_solver(solver_factories[name], name, settings)
    return solver


def build_solver(factory: type[Any], name: str, settings: Mapping[str, Any]) -> Any:
    """Build a solver from its class, name and settings; raise ``DecodingError`` for a wrong one."""
    known_settings = [field.name for field in dataclasses.fields(factory)]
    for setting in settings:
        if setting not in known_settings:
            raise DecodingError(
                f"is not a setting of {name}, which has {', '.join(known_settings)}",
                field=f"settings.{setting}",
                fix="correct the name or leave it out",
            )
    return factory(**settings)
