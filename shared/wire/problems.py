"""Table from errors to problem types, statuses and the actions of devices.

The aggregator answers by it (RFC 9457); the device and the client library turn an answer back into
an error by it, and decide whether to send again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from sfumato.shared import errors
from sfumato.shared.structure import member
from sfumato.shared.wire.objects.declaration import body

PROBLEM_MEDIA_TYPE = "application/problem+json"
PROBLEM_PATH = "/problems/"


@body
class Problem:
    """A problem document (RFC 9457); its type leads to a page that explains it."""

    type: str = member("The problem type: a page of the server.", "/problems/request-invalid")
    title: str = member("A short summary of the problem type.", "The request is not valid")
    status: int = member("The HTTP status.", 422)
    detail: str = member("The whole error in words.", "name: must not be empty; send a name")
    rule: str = member("The rule that is broken.", "must not be empty")
    field: str | None = member(
        "The field, header or part of the request at fault.", "name", default=None
    )
    fix: str | None = member("What the sender can do about it.", "send a name", default=None)


class DeviceAction(StrEnum):
    """The device's action on a sketch that was answered with a problem."""

    RETRY = "retry"
    """Send the same bytes again later."""
    HOLD = "hold"
    """Send the same bytes again at the time the answer gives."""
    SHELVE = "shelve"
    """Set aside, visibly; it still counts as spent, and the next sketch is sent."""
    SUSPEND = "suspend"
    """Shelve, and release nothing more on this stream until the owner acts."""


@dataclass(frozen=True, kw_only=True)
class ProblemType:
    """A problem type, which has a page at its URI.

    Parameters
    ----------
    slug, title
        Stable name, last part of the URI; and a short summary.
    status
        HTTP status.
    action
        A device's action on its sketch.
    error
        The error class.
    explanation
        Text of the page: what happened, and what to do.
    """

    slug: str
    title: str
    status: int
    action: DeviceAction
    error: type[errors.SketchError]
    explanation: str

    @property
    def uri(self) -> str:
        """The problem type URI, relative to the server."""
        return PROBLEM_PATH + self.slug


def _read_row(row: str) -> ProblemType:
    head, explanation = row.split("\n", 1)
    slug, status, action, error, title = head.split(" | ")
    return ProblemType(
        slug=slug,
        title=title,
        status=int(status),
        action=DeviceAction(action),
        error=getattr(errors, error),
        explanation=" ".join(explanation.split()),
    )


# Slug, status, action, error class, title; then the explanation.
_TABLE = """\
malformed-message | 400 | shelve | MalformedMessageError | The message cannot be read
The bytes are not a message of this protocol, are not deterministically encoded, or a field breaks
its rule. Nothing was stored. A device shelves the sketch.

unsupported-version | 422 | shelve | UnsupportedVersionError | The version is not supported
The message or plan is of a version or kind that this server does not know. Update the server.

signature-invalid | 422 | shelve | SignatureError | The signature does not verify
The signature, payload digest or proof of possession does not match the enrolled key. The bytes were
altered, or another device's key was used. Nothing was stored.

request-signature-invalid | 401 | shelve | RequestSignatureError | The request's signature is wrong
The headers Signature and Signature-Input are missing, do not verify, or were made more than five
minutes from the server's time, which the header Date states. Nothing was changed.

seal-invalid | 422 | shelve | SealError | The seal does not open
The sealed seed of a masked sum opens with another key or header, or was altered. The report cannot
be added to any batch. A device shelves the sketch.

batch-differs | 409 | shelve | BatchDiffersError | The servers hold different reports
The leader asked the helper to answer for other reports of the batch than the helper holds. Nothing
was answered. The leader sends the batch's reports again.

batch-committed | 409 | shelve | BatchCommittedError | The batch is committed
The helper has answered for other members of this batch. It answers once, because a second answer
would be a second release of the same reports.

batch-too-small | 409 | shelve | BatchTooSmallError | The batch is too small or too large
The batch has fewer reports than the plan's least_reports, or more than its most_reports. Nothing
was answered; wait for more reports.

plan-not-accepted | 404 | shelve | PlanNotAcceptedError | The helper has not accepted the plan
The helper's operator has not accepted this plan, or has retired it. Ask them to run `sfumato helper
accept`.

helper-restored | 409 | shelve | HelperRestoredError | The helper was restored from a backup
The helper has answered for batches that its database does not know: a backup was restored. It
answers nothing until its operator runs `sfumato helper restored`.

implausible-sketch | 422 | shelve | ImplausibleSketchError | The sketch is not plausible
The number of records or a coordinate lies outside what the plan makes possible, or the window
overlaps one that this stream already released. Nothing was stored.

too-early | 422 | hold | TooEarlyError | The window has not begun yet
The sketch covers a slot that begins more than five minutes after the server's time: the clock of
the device, or that of the server, is wrong. Nothing was stored. Send the same again after the
seconds in Retry-After.

window-expired | 410 | shelve | WindowExpiredError | The window ended too long ago
The study has a secure sum, and the sketch covers a slot that ended longer ago than its plan's
late_s: no batch takes it any more. Nothing was stored. A device shelves the sketch; it counts as
spent.

plan-mismatch | 422 | shelve | PlanMismatchError | The plan is not the study's
The plan digest in the sketch is not the digest of the study's plan, or a derived field of a plan
differs from what the server derives. Fetch the study's plan again.

wrong-statistic | 409 | shelve | WrongStatisticError | The study has another statistic
What the devices of this study sum does not answer the request: centroids are decoded from Fourier
features and grids, marginals are read from histograms, principal components from moments. The
answer names the statistic that the request needs.

plan-invalid | 422 | shelve | PlanError | The plan is not valid
A field of the plan is missing, unknown or breaks its rule; the answer names it.

privacy-invalid | 422 | shelve | PrivacyError | The privacy parameters are not valid
The mechanism cannot give the guarantee that was asked for; the answer names the field.

not-found | 404 | shelve | NotFoundError | There is no such resource
No study, device, sketch or decode has this identity here. Check it, and the server's address.

duplicate-upload | 409 | suspend | DuplicateUploadError | Other bytes are stored under this identity
A sketch with this study, device, stream and sequence is stored with another payload. Two different
releases of one window cost privacy twice, so the device stops this stream until its owner acts: it
may have been cloned, or restored from a backup.

study-closed | 403 | shelve | StudyClosedError | The study is closed
The study does not accept sketches any more. The device shelves what it has.

study-withdrawn | 410 | shelve | StudyWithdrawnError | The study was withdrawn
The operator deleted the study with all that it held. Its identity is not used again, so sketches
for it are not stored anywhere. The device shelves what it has and releases nothing more for this
study.

access-denied | 401 | shelve | AccessError | The key or token is not accepted
The key or token is missing, unknown, used up, expired or revoked.

forbidden | 403 | shelve | ForbiddenError | The key may not do this
The key is known and in use, and does not suffice: an API key of another scope is needed, or the
device is enrolled in another study.

no-group | 403 | shelve | SignInRefusedError | You may not sign in here
The provider knows you, and you are in none of the groups that this server lets in. The answer names
the groups, and whom to ask. No key was made.

decoding-invalid | 422 | shelve | DecodingError | The sketch cannot be decoded as asked
The number of clusters or a setting does not suit the sketch; the answer names it.

store-conflict | 409 | shelve | StoreError | The store forbids the request
What is already stored forbids this request; the answer says what.

request-invalid | 422 | shelve | ConfigError | The request is not valid
A field of the request is missing, unknown or breaks its rule; the answer names it.

method-not-allowed | 405 | shelve | MethodError | The method is not allowed here
The address exists, and cannot be called by this method; the header Allow names those that it can be
called by.

request-timeout | 408 | retry | SlowRequestError | The request did not arrive in time
The body came so slowly that the server stopped waiting for it. Nothing was stored. Send the same
again.

precondition-failed | 412 | shelve | StaleVersionError | It has changed since it was read
The ETag in If-Match is not that of the resource any more. Nothing was changed. Read the resource
again, and repeat the request if it still makes sense.

precondition-required | 428 | shelve | UnreadVersionError | The request must say what it read
The call changes a resource that others may be changing too, so it needs the header If-Match with
the ETag of the resource as it was read. Nothing was changed.

too-large | 413 | shelve | TooLargeError | The request is too large
The body is larger than this server reads. It was refused before anything parsed it. A sketch may be
as long as the payload of its plan and 2048 bytes for the envelope.

media-type-unsupported | 415 | shelve | MediaTypeError | The body is of a type that is not read here
The header Content-Type is missing or not the one of this call, or the body is compressed. Noise
cannot be compressed, so no Content-Encoding but identity is read.

agent-too-old | 426 | retry | AgentTooOldError | The agent is too old
The operator requires a later version of the agent than the one that the header User-Agent states.
Nothing was stored. Upgrade the agent: its sketches wait, and are sent then.

too-many-requests | 429 | retry | OverloadedError | Too much was asked at once
More requests wait than the server holds, or this device or key has asked more often than its rate.
Nothing was stored. Send the same again after the seconds in Retry-After.

helper-unreachable | 503 | retry | HelperError | The helper cannot be used now
The second server of the secure sum does not answer, refuses this server's key, or is not the helper
that the plan names. Nothing is lost: batches wait. The answer says what the operator can do.

sign-in-unavailable | 503 | retry | ProviderError | Sign-in does not work now
The OpenID provider does not answer, or its answer does not suit this server's settings. The answer
names the setting and what the operator can do. API keys work all the same.

unavailable | 503 | retry | TransportError | The server cannot answer now
The server or its database is starting, stopping or overloaded. Send the same again later.

internal | 500 | retry | SketchError | The server failed
The server met an error that it did not foresee; its log has the details. Nothing was stored. Send
the same again later.
"""
_PROBLEMS = tuple(map(_read_row, _TABLE.split("\n\n")))
_BY_SLUG = {problem.slug: problem for problem in _PROBLEMS}
_BY_ERROR = {problem.error: problem for problem in _PROBLEMS}


def problem_types() -> tuple[ProblemType, ...]:
    """Return the whole table, in the order of the documentation."""
    return _PROBLEMS


def problem_type_of(error: type[errors.SketchError]) -> ProblemType:
    """Return the problem type of an error class, or of its nearest ancestor that has one."""
    return next(_BY_ERROR[base] for base in error.__mro__ if base in _BY_ERROR)


def problem_document(error: errors.SketchError) -> dict[str, Any]:
    """Return the RFC 9457 document of an error, extended by field, rule and fix."""
    problem = problem_type_of(type(error))
    document = {
        "type": problem.uri,
        "title": problem.title,
        "status": problem.status,
        "detail": str(error),
        "rule": error.rule,
        "field": error.field,
        "fix": error.fix,
    }
    return {name: value for name, value in document.items() if value}


def error_from_problem(document: Mapping[str, Any], status: int) -> errors.SketchError:
    """Return the error of a problem document; ``TransportError`` if its type is unknown."""
    slug = str(document.get("type", "")).removeprefix(PROBLEM_PATH)
    rule = str(document.get("rule") or document.get("detail") or f"the server answered {status}")
    field, fix = document.get("field"), document.get("fix")
    known = _BY_SLUG.get(slug)
    kind = known.error if known else errors.TransportError
    return kind(rule, field=str(field) if field else None, fix=str(fix) if fix else None)
