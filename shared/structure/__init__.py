"""Declarative reading: a document of TOML, JSON or CBOR becomes a frozen dataclass.

The class is the only declaration of its keys: annotations give types, choices and rules, defaults
say which keys may be left out, ``__post_init__`` holds the rules between keys, and :func:`member`
gives each key its meaning for the reference pages and OpenAPI.

>>> @declared
... class Polling:
...     poll_s: Seconds = member("Seconds between looks.", default=10.0)
>>> structure(Polling, {"poll_s": 0}, "source")
Traceback (most recent call last):
...
sfumato.shared.errors.ConfigError: source.poll_s: must be a number greater than zero. Write \
seconds, such as 10
>>> structure(Polling, {"polls": 1}, "source")
Traceback (most recent call last):
...
sfumato.shared.errors.ConfigError: source.polls: is not a known key. Did you mean poll_s?
"""

from sfumato.shared.structure.declaration import (
    Rule,
    Seconds,
    Short,
    Tagged,
    Text,
    declared,
    member,
    read_hints,
)
from sfumato.shared.structure.reading import (
    read_exact,
    read_toml,
    require_plain,
    structure,
    suggest,
)

__all__ = [
    "Rule",
    "Seconds",
    "Short",
    "Tagged",
    "Text",
    "declared",
    "member",
    "read_exact",
    "read_hints",
    "read_toml",
    "require_plain",
    "structure",
    "suggest",
]
