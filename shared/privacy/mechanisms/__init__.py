"""Registry of the mechanisms: one module each, in the order in which plans try them."""

from collections.abc import Mapping
from types import MappingProxyType

from sfumato.shared.errors import PrivacyError
from sfumato.shared.privacy.mechanisms.gaussian import GAUSSIAN
from sfumato.shared.privacy.mechanisms.kind import MechanismKind
from sfumato.shared.privacy.mechanisms.knorm import KNORM
from sfumato.shared.privacy.mechanisms.laplace import LAPLACE

__all__ = ["MECHANISMS", "MechanismKind", "get_mechanism"]

MECHANISMS: Mapping[str, MechanismKind] = MappingProxyType(
    {kind.name: kind for kind in (KNORM, LAPLACE, GAUSSIAN)}
)


def get_mechanism(name: str) -> MechanismKind:
    """Return a kind of noise by its name in plans.

    Raises
    ------
    PrivacyError
        No mechanism has this name.
    """
    if name not in MECHANISMS:
        raise PrivacyError(
            f"must be one of {', '.join(MECHANISMS)}",
            field="mechanism",
            fix="leave it out for the best that the other choices allow",
        )
    return MECHANISMS[name]
