"""Origins of records: public facts that decide which streams may read the same records.

A budget for one record must count every release that may contain the record, under any stream or
study. So releases are counted by *origin*: a path, a file's identity, a database, an address, a
broker with a topic filter, standard input. No origin is content. A record has one time wherever it
is read in the same way, so studies that read other times of one place share no record.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace

from sfumato.shared.errors import ConfigError
from sfumato.shared.privacy.accounting import Reader

ANY_TIME = ""
"""Times of an origin whose records may have any time, or none."""
KINDS = ("path", "file", "folder", "tree", "http", "mqtt", "stdin", "other")
_PLACES = ("path", "folder", "tree")
_MOST_CHARACTERS = 4096


@dataclass(frozen=True, kw_only=True)
class TimeSpan:
    """The only times of which a stream reads records; all others it leaves out.

    Parameters
    ----------
    since, until
        Seconds since 1970-01-01 UTC, from the first to before the second; None for no end.
    reading
        Identity of how times are read, without spaces: a record has one time only where this is
        the same.
    """

    since: int
    until: int | None
    reading: str

    def __post_init__(self) -> None:
        if self.until is not None and self.until <= self.since:
            raise ConfigError("must end after it begins", field="origin.times")

    @property
    def text(self) -> str:
        """The span as an origin states it."""
        return f"{self.since} {'' if self.until is None else self.until} {self.reading}"

    @classmethod
    def parse(cls, text: str) -> TimeSpan:
        """Return the span of a text; raises ``ConfigError``."""
        try:
            since, until, reading = text.split(" ")
            return cls(since=int(since), until=int(until) if until else None, reading=reading)
        except ValueError as error:
            raise ConfigError("must be a span of times", field="origin.times") from error

    def is_apart(self, other: TimeSpan) -> bool:
        """Return whether no time lies in both, of records whose times are read in one way."""
        first, last = sorted((self, other), key=lambda span: span.since)
        is_before = first.until is not None and first.until <= last.since
        return is_before and self.reading == other.reading


@dataclass(frozen=True, kw_only=True, order=True)
class Origin:
    """A public fact about where a stream's records come from.

    Parameters
    ----------
    kind
        One of ``KINDS``; facts of different kinds overlap only as a folder with a path in it, or a
        tree with all below it.
    name
        ``path``; ``folder``, of the files in it alone; ``tree``, of all below it: the absolute
        path. ``file``: the identity that the file system gives it. ``http``: host, port and path.
        ``mqtt``: host and port, a space, and the topic filter.
    part
        A part of the source that the owner declares disjoint from its other named parts; empty for
        the whole source.
    times
        ``TimeSpan.text`` of the only times that are read; ``ANY_TIME`` where none is left out.
    """

    kind: str
    name: str
    part: str = ""
    times: str = ANY_TIME

    def __post_init__(self) -> None:
        if self.times:
            TimeSpan.parse(self.times)
        if self.kind not in KINDS:
            raise ConfigError(f"must be one of {', '.join(KINDS)}", field="origin.kind")
        if len(self.name) > _MOST_CHARACTERS:
            raise ConfigError(
                f"must be at most {_MOST_CHARACTERS} characters",
                field="origin.name",
                fix="shorten the path or the address of the source",
            )

    def overlaps(self, other: Origin) -> bool:
        """Return whether one record may come from both origins.

        Guarantees
        ----------
        Symmetric and reflexive. If False, no record comes from both, provided that the parts which
        the owner declares disjoint are disjoint, and that a record keeps its time.
        """
        if _are_apart(self, other):
            return False
        if self.kind == other.kind == "mqtt":
            return _overlap_topics(self.name, other.name)
        if self.kind == other.kind and self.name == other.name:
            return True
        return _holds(self, other) or _holds(other, self)


class OriginIndex:
    """Index of the streams by origin; each origin is compared with few others.

    Streams that once shared an origin stay related: both may have released what both have read.
    """

    def __init__(self) -> None:
        self._exact: dict[tuple[str, str], set[tuple[Reader, Origin]]] = defaultdict(set)
        self._topics: set[tuple[Reader, Origin]] = set()
        self._near: dict[Reader, set[Reader]] = defaultdict(set)
        self._same_people: dict[Reader, set[Reader]] = defaultdict(set)

    def add(self, reader: Reader, origin: Origin) -> None:
        """Record that a stream reads from an origin."""
        at_any_time = replace(origin, times=ANY_TIME)
        for related, one in ((self._near, origin), (self._same_people, at_any_time)):
            for other in self.find(one) - {reader}:
                related[reader].add(other)
                related[other].add(reader)
        if origin.kind == "mqtt":
            self._topics.add((reader, origin))
            return
        self._exact[origin.kind, origin.name].add((reader, origin))
        if origin.kind == "path":
            self._exact["in", _folder_of(origin)].add((reader, origin))
        for above in _list_above(origin):
            self._exact["below", above].add((reader, origin))

    def find(self, origin: Origin) -> set[Reader]:
        """Return the streams with an origin that overlaps the given one."""
        if origin.kind == "mqtt":
            return {reader for reader, other in self._topics if origin.overlaps(other)}
        found = set(self._exact.get((origin.kind, origin.name), ()))
        if origin.kind == "path":
            found |= self._exact.get(("folder", _folder_of(origin)), set())
        if origin.kind == "folder":
            found |= self._exact.get(("in", origin.name), set())
        if origin.kind == "tree":
            found |= self._exact.get(("below", origin.name), set())
        for above in _list_above(origin):
            found |= self._exact.get(("tree", above), set())
        return {reader for reader, other in found if not _are_apart(origin, other)}

    def find_near(self, reader: Reader, origins: Iterable[Origin] = ()) -> set[Reader]:
        """Return the other streams that may have read the same records as one stream.

        Parameters
        ----------
        origins
            Origins that the stream is about to read, besides those added for it.
        """
        found = set(self._near.get(reader, ()))
        for origin in origins:
            found |= self.find(origin)
        return found - {reader}

    def find_same_people(self, reader: Reader, origins: Iterable[Origin] = ()) -> set[Reader]:
        """Return the other streams that may have read records of the same people, of any time.

        Studies of other times share no record, and a person may be in all of them.

        Guarantees
        ----------
        Never less than :meth:`find_near`.
        """
        found = set(self._same_people.get(reader, ()))
        for origin in origins:
            found |= self.find(replace(origin, times=ANY_TIME))
        return found - {reader}


def _are_apart(a: Origin, b: Origin) -> bool:
    """Return whether two parts of a source share no record, wherever the source is."""
    if a.part and b.part and a.part != b.part:
        return True
    return bool(a.times and b.times) and TimeSpan.parse(a.times).is_apart(TimeSpan.parse(b.times))


def _folder_of(path: Origin) -> str:
    return path.name.rpartition("/")[0] or "/"


def _list_above(origin: Origin) -> list[str]:
    """Return the folders that a place lies in, itself among them where it is a folder."""
    if origin.kind not in _PLACES:
        return []
    parts = origin.name.rstrip("/").split("/")
    found = ["/".join(parts[:i]) or "/" for i in range(1, len(parts))]
    return found if origin.kind == "path" else [*found, origin.name]


def _holds(holder: Origin, held: Origin) -> bool:
    if holder.kind == "folder":
        return held.kind == "path" and _folder_of(held) == holder.name
    return holder.kind == "tree" and holder.name in _list_above(held)


def _overlap_topics(a: str, b: str) -> bool:
    broker_a, _, filter_a = a.partition(" ")
    broker_b, _, filter_b = b.partition(" ")
    return broker_a == broker_b and _overlap_levels(_levels(filter_a), _levels(filter_b))


def _levels(topic_filter: str) -> list[str]:
    levels = topic_filter.split("/")
    # $share/GROUP/FILTER and $queue/FILTER: a group shares the messages that the filter matches.
    if levels[0] == "$share" and len(levels) > 2:
        return levels[2:]
    return levels[1:] if levels[0] in ("$queue", "$exclusive") and len(levels) > 1 else levels


def _overlap_levels(a: list[str], b: list[str]) -> bool:
    """Return whether some topic matches both filters (MQTT 5.0, section 4.7.1)."""
    for i in range(max(len(a), len(b))):
        rest_a, rest_b = a[i:], b[i:]
        if rest_a[:1] == ["#"] or rest_b[:1] == ["#"]:
            return True
        if not rest_a or not rest_b:
            return False
        if rest_a[0] != rest_b[0] and "+" not in (rest_a[0], rest_b[0]):
            return False
    return True
