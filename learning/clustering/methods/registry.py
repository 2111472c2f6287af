"""Registry of the central methods, by the names that releases carry.

The laboratory adds the methods of the literature when it is imported.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from sfumato.learning.clustering.methods.candidates import CandidateMethod
from sfumato.learning.clustering.methods.contract import Method
from sfumato.learning.clustering.methods.cover import CoverMethod
from sfumato.learning.clustering.methods.grid import GridMethod
from sfumato.learning.clustering.methods.kernel import KernelMethod
from sfumato.learning.clustering.methods.lloyd import LloydMethod
from sfumato.learning.clustering.methods.split import SplitMethod
from sfumato.learning.clustering.methods.tree import TreeMethod
from sfumato.shared.errors import ConfigError

METHODS: Final[dict[str, type[Any]]] = {
    method.name: method
    for method in (
        GridMethod,
        LloydMethod,
        KernelMethod,
        TreeMethod,
        CandidateMethod,
        CoverMethod,
        SplitMethod,
    )
}


def make_method(name: str, settings: Mapping[str, Any]) -> Method:
    """Make a method from its name and the settings that it describes itself by.

    Raises
    ------
    ConfigError
        The name is unknown, or a setting is.
    """
    if name not in METHODS:
        raise ConfigError(
            f"must be one of {', '.join(METHODS)}",
            field="method",
            fix="use a name of the list; for a method of a paper import sfumato.lab",
        )
    try:
        made: Method = METHODS[name](**settings)
    except TypeError as error:
        raise ConfigError(
            f"has settings that {name} does not know",
            field="settings",
            fix="use those that the method describes itself by",
        ) from error
    return made
