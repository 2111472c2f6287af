"""The whole error tree of Sfumato.

::

    SketchError                      everything this project raises on purpose
    ├── ConfigError                  a setting or command-line argument is wrong
    │   ├── MethodError              a resource cannot be called in this way
    │   └── UnpreparedError          a database has no tables yet
    ├── RecordError                  a source of records cannot be read as the plan asks
    ├── PlanError                    a plan is inconsistent, or not the one expected
    │   └── PlanMismatchError        a sketch or regenerated matrix belongs to another plan
    ├── PrivacyError                 a mechanism or guarantee cannot be given as asked
    │   ├── BudgetExceededError      releasing would exceed the owner's budget
    │   └── LedgerError              the ledger cannot be trusted, or disagrees with the server
    ├── WireError                    bytes are not what the protocol says
    │   ├── MalformedMessageError    not decodable, not deterministic, or a field breaks its rule
    │   ├── UnsupportedVersionError  a version or kind this release does not know
    │   ├── SignatureError           the signature, key or proof of possession does not verify
    │   ├── ImplausibleSketchError   sums or counts that no honest device can send
    │   ├── TooEarlyError            of a window that has not begun by the receiver's clock
    │   ├── TooLargeError            longer than what is read
    │   └── MediaTypeError           of a type or encoding that is not read
    ├── StoreError                   what is stored, or would be
    │   ├── NotFoundError            no such study, device, sketch or decode
    │   ├── DuplicateUploadError     other bytes under an identity that is already taken
    │   ├── StudyClosedError         the study does not accept this any more
    │   ├── StudyWithdrawnError      the study was deleted, and its identity is not used again
    │   ├── DiskError                a disk is full, or cannot be written now
    │   ├── StaleVersionError        what was to be changed has changed since it was read
    │   └── UnreadVersionError       the request does not say what it read before
    ├── AccessError                  a key or token is missing, unknown, used up or revoked
    │   └── ForbiddenError           a known key may not do this
    ├── TransportError               the server did not answer, or refused
    │   ├── OverloadedError          too much was asked at once, or by one sender
    │   └── SlowRequestError         a request did not arrive in time
    └── DecodingError                a decoding problem is ill-posed
        └── DecodingCancelledError   the caller asked to stop

Errors carry no HTTP status: ``shared.wire.problems`` maps each class to a problem type, and both
the server and the device use that one table.
"""

from __future__ import annotations


class SketchError(Exception):
    """An input was refused, and nothing was changed by the attempt.

    Parameters
    ----------
    rule
        What is wrong and which rule it breaks. It never quotes a record's value.
    field
        The name of the field, option, column or line at fault.
    fix
        What the reader can do about it.
    """

    def __init__(self, rule: str, *, field: str | None = None, fix: str | None = None) -> None:
        self.rule = rule
        self.field = field
        self.fix = fix
        super().__init__(str(self))

    def __str__(self) -> str:
        where = f"{self.field}: " if self.field else ""
        remedy = f". {self.fix[:1].upper()}{self.fix[1:]}" if self.fix else ""
        return f"{where}{self.rule}{remedy}"


class ConfigError(SketchError):
    """A setting or command-line argument is wrong."""


class MethodError(ConfigError):
    """A resource cannot be called in this way."""


class UnpreparedError(ConfigError):
    """A database has no tables yet; whoever makes them may be about to."""


class RecordError(SketchError):
    """A source of records cannot be read as the plan asks."""


class PlanError(SketchError):
    """A plan is inconsistent, or not the one expected."""


class PlanMismatchError(PlanError):
    """A sketch or a regenerated matrix belongs to another plan."""


class PrivacyError(SketchError):
    """A mechanism or guarantee cannot be given as asked."""


class BudgetExceededError(PrivacyError):
    """Releasing would exceed the owner's budget; nothing was released."""


class LedgerError(PrivacyError):
    """The ledger cannot be trusted, or disagrees with the server; nothing more is released."""


class WireError(SketchError):
    """Bytes are not what the protocol says."""


class MalformedMessageError(WireError):
    """Not decodable, not deterministically encoded, or a field breaks its rule."""


class UnsupportedVersionError(WireError):
    """A version or kind that this release does not know."""


class SignatureError(WireError):
    """The signature, the key or the proof of possession does not verify."""


class ImplausibleSketchError(WireError):
    """Sums or counts that no honest device can send."""


class TooEarlyError(WireError):
    """A window has not begun by the receiver's clock.

    Parameters
    ----------
    rule, field, fix
        As in :class:`SketchError`.
    retry_after_s
        Seconds after which it has.
    """

    def __init__(
        self,
        rule: str,
        *,
        field: str | None = None,
        fix: str | None = None,
        retry_after_s: float = 1.0,
    ) -> None:
        self.retry_after_s = retry_after_s
        super().__init__(rule, field=field, fix=fix)


class TooLargeError(WireError):
    """Longer than what is read; the rest was not looked at."""


class MediaTypeError(WireError):
    """A media type or a content encoding is not read here."""


class StoreError(SketchError):
    """The store's content, present or requested, forbids the request."""


class NotFoundError(StoreError):
    """No such study, device, sketch or decode."""


class DuplicateUploadError(StoreError):
    """Other bytes under an identity that is already taken."""


class StudyClosedError(StoreError):
    """The study does not accept this any more."""


class StudyWithdrawnError(StoreError):
    """The study was deleted, and its identity is not used again."""


class DiskError(StoreError):
    """A disk is full, or cannot be written now; the same may succeed later."""


class StaleVersionError(StoreError):
    """The object of a change has changed since it was read."""


class UnreadVersionError(StoreError):
    """The request does not say which version of what it changes was read before."""


class AccessError(SketchError):
    """A key or token is missing, unknown, used up or revoked."""


class ForbiddenError(AccessError):
    """A key is known and in use, and may not do this."""


class TransportError(SketchError):
    """The server did not answer, or refused."""


class OverloadedError(TransportError):
    """Too much was asked at once, or by one sender.

    Parameters
    ----------
    rule, field, fix
        As in :class:`SketchError`.
    retry_after_s
        Seconds after which it makes sense to ask again.
    """

    def __init__(
        self,
        rule: str,
        *,
        field: str | None = None,
        fix: str | None = None,
        retry_after_s: float = 1.0,
    ) -> None:
        self.retry_after_s = retry_after_s
        super().__init__(rule, field=field, fix=fix)


class SlowRequestError(TransportError):
    """A request did not arrive in time."""


class DecodingError(SketchError):
    """A decoding problem is ill-posed."""


class DecodingCancelledError(DecodingError):
    """The caller asked the decoder to stop."""
