"""Values that a device sends and receives; what the server sends is read without trust."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from sfumato.shared.errors import ConfigError
from sfumato.shared.wire import AnswerReader, DeviceAction, require_public_key
from sfumato.shared.wire.objects.devices import DeviceStatusBody, NoticeBody, StreamBody
from sfumato.shared.wire.objects.publications import IdentityBody

ANSWERS = AnswerReader("server")

_MOST_CHARACTERS = 200
_STUDY_STATES = ("open", "closed", "withdrawn")


@dataclass(frozen=True, kw_only=True)
class PlanAnswer:
    """A study's plan as the server gives it: its bytes, and the digest and name it states.

    The search box, where the study's records are expected, is for warnings alone.
    """

    plan_bytes: bytes
    plan_digest: str
    name: str
    search_box: Mapping[str, Sequence[float]] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class DeviceAnswer:
    """The server's knowledge of this device.

    Parameters
    ----------
    device_id, study_id
        Hexadecimal.
    last_sequences
        The number of the last sketch of each stream.
    missing
        Ranges of numbers below the last that the server does not hold, first and last, ascending;
        the lowest of each stream that has any, so ask again when these were sent.
    unnamed
        The streams of which it lacks more than it names.
    ordinal
        The device's number in the study: 0, 1, 2, ... in the order of enrolment.
    server_time
        Seconds since 1970-01-01 UTC.
    generation
        Which life of its database answers.
    begins
        The first slot that it takes of this device.
    """

    device_id: str
    study_id: str
    ordinal: int
    last_sequences: Mapping[str, int]
    server_time: float
    generation: str
    missing: Mapping[str, tuple[tuple[int, int], ...]] = field(default_factory=dict)
    unnamed: frozenset[str] = frozenset()
    begins: int = 0

    def holds(self, stream: str, sequence: int) -> bool | None:
        """Return whether the server holds a sketch; None where the answer does not say."""
        last, missing = self.last_sequences.get(stream, -1), self.missing.get(stream, ())
        if sequence >= last:
            return sequence == last
        if any(first <= sequence <= end for first, end in missing):
            return False
        is_named = stream not in self.unnamed or sequence < missing[-1][1]
        return True if is_named else None


@dataclass(frozen=True, kw_only=True)
class StudyAnswer:
    """A study's life cycle as the server states it; ``accept_until`` is RFC 3339 text.

    ``next_study`` is the study of the campaign's next phase, once it is published.
    """

    state: str
    accept_until: str | None
    etag: str
    next_study: bytes | None = None


@dataclass(frozen=True, kw_only=True)
class IdentityAnswer:
    """The server's result keys with their endorsements, the oldest first; not verified yet."""

    keys: tuple[tuple[bytes, bytes | None], ...]

    @property
    def present(self) -> bytes:
        """The key that signs now."""
        return self.keys[-1][0]

    def find_after(self, public_key: bytes) -> tuple[tuple[bytes, bytes | None], ...]:
        """Return the keys behind one; none if it is not among them."""
        places = [i for i, (key, _) in enumerate(self.keys) if key == public_key]
        return self.keys[places[-1] + 1 :] if places else ()


@dataclass(frozen=True, kw_only=True)
class KeyOffer:
    """A device's next key.

    Parameters
    ----------
    public_key
        32 bytes.
    last_sequences
        The last sketch of each stream that the present key has signed.
    proof
        The next key's signature over ``encode_rotation_input``, 64 bytes.
    """

    public_key: bytes
    last_sequences: Mapping[str, int]
    proof: bytes


@dataclass(frozen=True, kw_only=True)
class UploadOutcome:
    """The result of one upload.

    Parameters
    ----------
    action
        None if the server has stored the sketch; else what to do with it.
    problem, detail
        The slug of the problem, and a sentence; empty if stored.
    retry_after_s
        Seconds that the server asked to wait.
    answered
        Whether there was an answer at all.
    """

    action: DeviceAction | None
    problem: str = ""
    detail: str = ""
    retry_after_s: float = 0.0
    answered: bool = True


def read_device(data: bytes, *, device: bytes) -> DeviceAnswer:
    """Read the server's knowledge of a device; raises ``TransportError``."""
    status = ANSWERS.read(DeviceStatusBody, data)
    if status.device_id != device.hex():
        raise ANSWERS.refuse("device_id")
    missing = {stream.stream: _read_missing(stream) for stream in status.streams}
    return DeviceAnswer(
        device_id=status.device_id,
        study_id=status.study_id,
        ordinal=status.ordinal,
        last_sequences={stream.stream: stream.last_sequence for stream in status.streams},
        server_time=status.server_time,
        generation=status.generation,
        begins=status.begins,
        missing={stream: ranges for stream, ranges in missing.items() if ranges},
        unnamed=frozenset(s.stream for s in status.streams if _lacks_more(s, missing[s.stream])),
    )


def read_study(data: bytes, *, etag: str) -> StudyAnswer:
    """Read a study's life cycle; raises ``TransportError``."""
    notice = ANSWERS.read(NoticeBody, data)
    if notice.state not in _STUDY_STATES:
        raise ANSWERS.refuse("state")
    is_kept = etag.isascii() and len(etag) <= _MOST_CHARACTERS
    return StudyAnswer(
        state=notice.state,
        accept_until=notice.accept_until,
        etag=etag if is_kept else "",
        next_study=None if notice.next_study is None else bytes.fromhex(notice.next_study),
    )


def read_identity(data: bytes) -> IdentityAnswer:
    """Read the server's result keys; raises ``TransportError``."""
    answer = ANSWERS.read(IdentityBody, data)
    if not answer.keys:
        raise ANSWERS.refuse("keys")
    keys = []
    for key in answer.keys:
        try:
            public_key = bytes.fromhex(key.public_key)
            require_public_key(public_key)
            endorsement = None if key.endorsement is None else bytes.fromhex(key.endorsement)
        except (ValueError, ConfigError) as error:
            raise ANSWERS.refuse("keys") from error
        keys.append((public_key, endorsement))
    return IdentityAnswer(keys=tuple(keys))


def _read_missing(stream: StreamBody) -> tuple[tuple[int, int], ...]:
    expected = 0
    for part in stream.missing:
        if not expected <= part.first <= part.last < stream.last_sequence:
            raise ANSWERS.refuse("missing")
        expected = part.last + 1
    return tuple((part.first, part.last) for part in stream.missing)


def _lacks_more(stream: StreamBody, named: tuple[tuple[int, int], ...]) -> bool:
    """Return whether a server lacks more than it names, of which it must name something."""
    n_named = sum(last - first + 1 for first, last in named)
    if stream.n_missing < n_named or (stream.n_missing and not named):
        raise ANSWERS.refuse("n_missing")
    return stream.n_missing > n_named
