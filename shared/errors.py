"""The error tree of Sfumato.

::

    SketchError                      everything this project raises on purpose
    ├── ConfigError                  a setting or command-line argument is wrong
    │   ├── MethodError              the resource does not support this method
    │   └── UnpreparedError          the database has no tables yet
    ├── RecordError                  a source of records cannot be read as the plan requires
    │   └── TableError               a table in memory has the wrong shape, type or columns
    │       └── CellTypeError        a cell of it is neither text nor a number
    ├── PlanError                    a plan is inconsistent, or not the one expected
    │   ├── PlanMismatchError        a sketch or regenerated matrix belongs to another plan
    │   └── WrongStatisticError      the plan's statistic does not answer the request
    ├── PrivacyError                 the requested guarantee is not possible
    │   ├── BudgetExceededError      releasing would exceed the owner's budget
    │   ├── LedgerError              the ledger cannot be trusted, or disagrees with the server
    │   └── ReleaseNotAllowedError   the owner does not allow this kind of release, or its helper
    ├── WireError                    bytes are not what the protocol says
    │   ├── MalformedMessageError    not decodable, not deterministic, or a field breaks its rule
    │   ├── UnsupportedVersionError  a version or kind this release does not know
    │   ├── SignatureError           the signature, key or proof of possession does not verify
    │   │   └── RequestSignatureError    that of a request, or it is missing or too old
    │   ├── SealError                a seal does not open, or its key hides nothing
    │   ├── ImplausibleSketchError   sums or counts that no honest device can send
    │   ├── TooEarlyError            the window has not begun by the receiver's clock
    │   ├── WindowExpiredError       the window ended too long ago to join a batch
    │   ├── TooLargeError            the message exceeds the size limit
    │   └── MediaTypeError           the media type or encoding is not supported
    ├── StoreError                   the store's content forbids the request
    │   ├── NotFoundError            no such study, device, sketch or decode
    │   ├── DuplicateUploadError     other bytes are stored under this identity
    │   ├── StudyClosedError         the study no longer accepts this request
    │   ├── StudyWithdrawnError      the study was deleted; its identity is not used again
    │   ├── InProgressError          the same request is being answered
    │   ├── DiskError                a disk is full, or cannot be written now
    │   ├── BatchError               a batch of masked sums cannot be answered for
    │   │   ├── BatchDiffersError    the two servers hold different reports of the batch
    │   │   ├── BatchCommittedError  the batch was answered for other members
    │   │   └── BatchTooSmallError   it has fewer or more reports than the plan allows
    │   ├── PlanNotAcceptedError     the helper has not accepted this plan
    │   ├── HelperRestoredError      the helper's database is older than its journal
    │   ├── StaleVersionError        the object has changed since the caller read it
    │   └── UnreadVersionError       the request does not state the version that it changes
    ├── AccessError                  a key or token is missing, unknown, used up or revoked
    │   └── ForbiddenError           the key is valid, but does not permit this
    │       └── SignInRefusedError   the person is in no group that may sign in
    ├── TransportError               the server did not answer, or refused
    │   ├── HelperError              the second server of a secure sum cannot be used
    │   ├── ProviderError            the provider by which people sign in cannot be used
    │   ├── AgentTooOldError         the server requires a later version of the agent
    │   ├── OverloadedError          too many requests in all, or from one sender
    │   └── SlowRequestError         a request did not arrive in time
    └── DecodingError                a decoding problem is ill-posed
        └── DecodingCancelledError   the caller asked to stop

Errors carry no HTTP status: ``sfumato.shared.wire.problems`` maps each class to a problem type, and
both the server and the device use that one table.
"""

from __future__ import annotations


class SketchError(Exception):
    """An input was refused, and the attempt changed nothing.

    Parameters
    ----------
    rule
        What is wrong and which rule it breaks. It never quotes a record's value.
    field
        The name of the field, option, column or line at fault.
    fix
        The remedy, as an imperative.
    retry_after_s
        Seconds to wait before a retry, for errors that time resolves.
    """

    def __init__(
        self,
        rule: str,
        *,
        field: str | None = None,
        fix: str | None = None,
        retry_after_s: float = 1.0,
    ) -> None:
        self.rule = rule
        self.field = field
        self.fix = fix
        self.retry_after_s = retry_after_s
        super().__init__(str(self))

    def __str__(self) -> str:
        where = f"{self.field}: " if self.field else ""
        remedy = f". {self.fix[:1].upper()}{self.fix[1:]}" if self.fix else ""
        return f"{where}{self.rule}{remedy}"


class ConfigError(SketchError):
    """A setting or command-line argument is wrong."""


class MethodError(ConfigError):
    """The resource does not support this method."""


class UnpreparedError(ConfigError):
    """The database has no tables yet; another process may be creating them."""


class RecordError(SketchError):
    """A source of records cannot be read as the plan requires."""


class TableError(RecordError, ValueError):
    """A table in memory has the wrong shape, type or columns; a ``ValueError``, as usual there."""


class CellTypeError(TableError, TypeError):
    """A table in memory has text or objects where numbers belong; a ``TypeError`` too."""


class PlanError(SketchError):
    """A plan is inconsistent, or not the one expected."""


class PlanMismatchError(PlanError):
    """A sketch or a regenerated matrix belongs to another plan."""


class WrongStatisticError(PlanError):
    """The plan's statistic does not answer the request."""


class PrivacyError(SketchError):
    """The requested guarantee is not possible."""


class BudgetExceededError(PrivacyError):
    """The release would exceed the owner's budget; nothing was released."""


class LedgerError(PrivacyError):
    """The ledger cannot be trusted, or disagrees with the server; nothing more is released."""


class ReleaseNotAllowedError(PrivacyError):
    """The owner's policy does not allow this kind of release, or the helper that it rests on."""


class WireError(SketchError):
    """Bytes are not what the protocol says."""


class MalformedMessageError(WireError):
    """Not decodable, not deterministically encoded, or a field breaks its rule."""


class UnsupportedVersionError(WireError):
    """A version or kind that this release does not know."""


class SignatureError(WireError):
    """The signature, the key or the proof of possession does not verify."""


class RequestSignatureError(SignatureError):
    """The signature of a request is missing, too old or does not verify."""


class SealError(WireError):
    """A seal does not open, or the key to seal with hides nothing."""


class ImplausibleSketchError(WireError):
    """Sums or counts that no honest device can send."""


class TooEarlyError(WireError):
    """A window has not begun by the receiver's clock."""


class WindowExpiredError(WireError):
    """A window ended so long ago that its masked sum joins no batch any more."""


class TooLargeError(WireError):
    """The message exceeds the size limit; the rest was not read."""


class MediaTypeError(WireError):
    """The media type or content encoding is not supported."""


class StoreError(SketchError):
    """The store's content forbids the request."""


class NotFoundError(StoreError):
    """No such study, device, sketch or decode."""


class DuplicateUploadError(StoreError):
    """Other bytes are stored under this identity."""


class StudyClosedError(StoreError):
    """The study no longer accepts this request."""


class StudyWithdrawnError(StoreError):
    """The study was deleted, and its identity is not used again."""


class InProgressError(StoreError):
    """The same request, by its ``Idempotency-Key``, is being answered; nothing was done twice."""


class DiskError(StoreError):
    """A disk is full or cannot be written now; a retry may succeed."""


class BatchError(StoreError):
    """A batch of masked sums cannot be answered for."""


class BatchDiffersError(BatchError):
    """The two servers hold different reports of a batch."""


class BatchCommittedError(BatchError):
    """A batch was answered for other members already."""


class BatchTooSmallError(BatchError):
    """A batch has fewer or more reports than the plan allows to open."""


class PlanNotAcceptedError(StoreError):
    """The helper has not accepted a plan, or has retired it."""


class HelperRestoredError(StoreError):
    """The helper's database is older than its journal."""


class StaleVersionError(StoreError):
    """The object has changed since the caller read it."""


class UnreadVersionError(StoreError):
    """The request does not state the version of the object that it changes."""


class AccessError(SketchError):
    """A key or token is missing, unknown, used up or revoked."""


class ForbiddenError(AccessError):
    """The key is valid, but does not permit this."""


class SignInRefusedError(ForbiddenError):
    """The provider knows the person, who is in no group that may sign in."""


class TransportError(SketchError):
    """The server did not answer, or refused."""


class HelperError(TransportError):
    """The second server of a secure sum cannot be reached, or is not the plan's."""


class ProviderError(TransportError):
    """The OpenID provider does not answer, or its answer cannot be accepted."""


class AgentTooOldError(TransportError):
    """The server requires a later version of the agent; everything waits for the upgrade."""


class OverloadedError(TransportError):
    """Too many requests in all, or from one sender."""


class SlowRequestError(TransportError):
    """A request did not arrive in time."""


class DecodingError(SketchError):
    """A decoding problem is ill-posed."""


class DecodingCancelledError(DecodingError):
    """The caller asked the decoder to stop."""
