"""Declaration of a call: who may make it, address, request, answer and problems, as data."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field
from functools import cache, cached_property
from inspect import cleandoc
from textwrap import dedent
from types import UnionType
from typing import Any, Generic, Literal, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

Scope = Literal["operator", "analyst", "viewer", "enrol", "monitor", "device", "reader", "public"]
"""The least scope of a key that may make a call; a device signs instead. Readers are
devices and viewers."""
JSON = "application/json"

_WITH_KEY = {"access-denied", "forbidden"}
_BY_DEVICE = {"request-signature-invalid", "study-withdrawn"}
_WITH_PATH = {"not-found", "request-invalid"}
_WITH_IDEMPOTENCY_KEY = {"request-invalid", "store-conflict"}
_WITH_BODY = {"request-invalid", "request-timeout", "too-large", "media-type-unsupported"}
_OUTSIDE_STUDIES = {"token", "key", "slug"}


class Nothing:
    """The request of a call without a body."""


@dataclass(frozen=True)
class Call(Generic[P, T]):
    """A call of the REST interface.

    Its name is that of the attribute of a resource that it is assigned to, and its text, for the
    readers of the server's reference and of the client's, what the resource says of this attribute.

    Parameters
    ----------
    scope
        Who may make it.
    route
        Method and path; braces hold the references to objects.
    request
        Class of the body, whose members are keywords of the client, or classes.
    answer
        Class of the answer's body.
    query
        Names of the parameters after the path, with spaces between them, as in all such lists.
    status
        Status of success.
    may_exist
        Whether 200 answers that the object exists already.
    location
        Address of the object that was made; braces hold members of the answer.
    is_whole
        Whether a list has one page.
    is_conditional
        Whether the answer has an ETag, and ``If-None-Match`` leads to 304.
    leads_to
        Kinds of objects whose ids the answer holds.
    sends, media
        Media types of the body and of the answer.
    names
        Members of the body that name objects, which may be of another study, as ``member=kind``.
    keeps_to_study
        Whether a call about no study in particular shows a key of one study that study alone. Such
        a key cannot make another call without a study in its path.
    spans_studies
        Whether it is about other studies than the one in its path too, as all of a campaign: a key
        of one study cannot make it.
    problems
        Problems beside those that follow from scope, path and body.
    """

    scope: Scope
    route: str
    request: Callable[P, object] | UnionType
    answer: type[T]
    _: KW_ONLY
    query: str = ""
    status: int = 200
    may_exist: bool = False
    location: str = ""
    is_whole: bool = False
    is_conditional: bool = False
    leads_to: str = ""
    sends: str = JSON
    media: str = JSON
    names: str = ""
    keeps_to_study: bool = False
    spans_studies: bool = False
    problems: str = ""
    name: str = field(init=False, default="")
    text: str = field(init=False, default="")

    def __set_name__(self, resource: type, name: str) -> None:
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "text", _read_attributes(resource.__doc__ or "")[name])

    @property
    def method(self) -> str:
        """The method, such as ``GET``."""
        return self.route.partition(" ")[0]

    @property
    def path(self) -> str:
        """The path with its references in braces."""
        return self.route.partition(" ")[2]

    @cached_property
    def references(self) -> tuple[str, ...]:
        """The kinds of objects that the path names, in order."""
        return tuple(re.findall(r"{(\w+)}", self.path))

    @property
    def has_body(self) -> bool:
        """Whether the request has a body."""
        return self.request is not Nothing or self.sends != JSON

    @property
    def makes(self) -> bool:
        """Whether it makes something each time, so that an ``Idempotency-Key`` may come with it.

        Devices need none: what they make is named by their keys and sequence numbers.
        """
        is_new = self.method == "POST" and self.status in (201, 202)
        return is_new and self.scope not in ("public", "device")

    def list_problems(self) -> set[str]:
        """Return the problems of this call; those of every call are left out."""
        found = set(self.problems.split())
        if self.scope != "public":
            found |= _WITH_KEY
        if self.scope in ("device", "reader"):
            found |= _BY_DEVICE
        if self.references:
            found |= _WITH_PATH
            if self.references[0] not in _OUTSIDE_STUDIES:
                found.add("study-withdrawn")
        if self.makes:
            found |= _WITH_IDEMPOTENCY_KEY
        if isinstance(self, Pages) and not self.is_whole:
            found.add("request-invalid")
        return found | _WITH_BODY if self.has_body else found


@cache
def _read_attributes(text: str) -> dict[str, str]:
    """Return what a docstring says of each attribute."""
    section = cleandoc(text).partition("Attributes\n----------\n")[2]
    found = re.findall(r"^(\w+)\n((?:    .*\n?|\n)+)", section, re.MULTILINE)
    return {name: dedent(said).strip() for name, said in found}


class Bare(Call[[], T]):
    """A call without a body."""

    def __init__(self, scope: Scope, route: str, answer: type[T], **more: Any) -> None:
        super().__init__(scope, route, Nothing, answer, **more)


class Pages(Bare[T]):
    """A call that lists objects, page by page."""


class Events(Bare[T]):
    """A call whose answer is a stream of server-sent events, of which the last holds the object."""
