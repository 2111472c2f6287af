"""The stored published result, checked anew whenever it is used; needs no network."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

from sfumato.device_agent.settings.agent_settings import Settings
from sfumato.device_agent.store.identity import Identity
from sfumato.device_agent.store.key import key_folder
from sfumato.device_agent.store.published import load_stored
from sfumato.shared.errors import PlanMismatchError
from sfumato.shared.plan import decode_plan
from sfumato.shared.wire import PublishedResult, decode_published, format_time


@dataclass(frozen=True, kw_only=True)
class TrustedResult:
    """A stored result whose signature, study and plan were checked."""

    result: PublishedResult
    pulled_at: float

    def describe(self, *, now: float) -> str:
        """Describe number, age and verdict."""
        result = self.result
        name = f" {result.name!r}" if result.name else ""
        verdict = "no verdict" if result.verdict is None else f"verdict: {result.verdict[0]}"
        return (
            f"{len(result.weights)} clusters{name}, published {_show_age(now - result.created)} "
            f"ago as number {result.sequence}, pulled {_show_age(now - self.pulled_at)} ago; "
            f"{verdict}"
        )

    def to_json(self) -> dict[str, Any]:
        """Return JSON values."""
        result = self.result
        word, sentence = result.verdict or (None, None)
        return {
            "sequence": result.sequence,
            "decode_id": result.decode.hex(),
            "name": result.name,
            "created": format_time(result.created),
            "pulled": format_time(self.pulled_at),
            "verdict": word,
            "verdict_sentence": sentence,
            "n_clusters": len(result.weights),
        }


def load_trusted(settings: Settings, identity: Identity) -> TrustedResult | None:
    """Load the stored result and check it again; None if there is none.

    Raises
    ------
    SignatureError, PlanMismatchError
        It is not the server's, or of another study or plan.
    """
    stored = load_stored(key_folder(settings.state_dir, settings.study))
    if stored.document is None or stored.signed_by is None or stored.pulled_at is None:
        return None
    signed = decode_published(stored.document)
    signed.verify(stored.signed_by)
    require_ours(signed.result, identity)
    return TrustedResult(result=signed.result, pulled_at=stored.pulled_at)


def require_ours(result: PublishedResult, identity: Identity) -> None:
    """Refuse a result of another study or plan, with a ``PlanMismatchError``."""
    digest = hashlib.sha256(identity.plan_bytes).digest()
    if result.study != identity.study or result.plan_digest != digest:
        raise PlanMismatchError(
            "is of another study or plan than this device's",
            field="published result",
            fix="check the server's address, and tell the study's operator",
        )
    axes = tuple((axis.name, axis.unit) for axis in decode_plan(identity.plan_bytes).axes)
    if result.dimensions != axes:
        raise PlanMismatchError(
            "has other dimensions than the plan of this device",
            field="published result",
            fix="tell the study's operator",
        )


def _show_age(seconds: float) -> str:
    for size, name in ((86_400.0, "day"), (3600.0, "hour"), (60.0, "minute")):
        if seconds >= size:
            count = int(seconds // size)
            return f"{count} {name}{'s' if count > 1 else ''}"
    return "less than a minute"
