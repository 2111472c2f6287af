"""Registry of the central methods, by the names that releases carry."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from sfumato.learning.clustering.methods.candidates import CandidateMethod
from sfumato.learning.clustering.methods.contract import Method
from sfumato.learning.clustering.methods.cover import CoverMethod
from sfumato.learning.clustering.methods.grid import GridMethod
from sfumato.learning.clustering.methods.kernel import KernelMethod
from sfumato.learning.clustering.methods.lloyd import LloydMethod
from sfumato.learning.clustering.methods.tree import TreeMethod
from sfumato.learning.clustering.reference.kvariates import KVariatesMethod
from sfumato.learning.clustering.reference.privgene import PrivGeneMethod
from sfumato.learning.clustering.reference.sample_aggregate import SampleAggregateMethod
from sfumato.shared.errors import ConfigError

METHODS: Final[Mapping[str, type[Any]]] = MappingProxyType(
    {
        method.name: method
        for method in (
            GridMethod,
            LloydMethod,
            KernelMethod,
            TreeMethod,
            CandidateMethod,
            CoverMethod,
            PrivGeneMethod,
            SampleAggregateMethod,
            KVariatesMethod,
        )
    }
)


def make_method(name: str, settings: Mapping[str, Any]) -> Method:
    """Make a method from its name and the settings that it describes itself by.

    Raises
    ------
    ConfigError
        The name is unknown, or a setting is.
    """
    if name not in METHODS:
        raise ConfigError(
            f"must be one of {', '.join(METHODS)}", field="method", fix="use a name of the list"
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
