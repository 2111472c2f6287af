"""Endorsement of a secure sum: the helper's signature that it has accepted a plan."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import replace

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from sfumato.shared.cbor import encode_deterministic
from sfumato.shared.errors import PlanError
from sfumato.shared.plan.documents import encode_plan
from sfumato.shared.plan.model import SketchPlan
from sfumato.shared.plan.parts import Helper

_DOMAIN = "sfumato/v1/sum/endorsement"
_UNSIGNED = bytes(64)


def compute_endorsed(plan: SketchPlan) -> bytes:
    """Return the bytes that the helper of a plan signs: they cover all of it but the signature.

    Raises
    ------
    PlanError
        The plan names no helper.
    """
    blank = _put_helper(plan, replace(plan.helper, endorsement=_UNSIGNED))
    return encode_deterministic([_DOMAIN, hashlib.sha256(encode_plan(blank)).digest()])


def _put_helper(plan: SketchPlan, helper: Helper) -> SketchPlan:
    release = plan.sum_release
    return plan if release is None else replace(plan, release=replace(release, helper=helper))


def endorse(draft: SketchPlan, helper: Helper, sign: Callable[[bytes], bytes]) -> SketchPlan:
    """Return the draft of a plan with its helper and the helper's signature.

    Parameters
    ----------
    sign
        The Ed25519 signature of given bytes by ``helper.identity``.

    Raises
    ------
    PlanError
        The draft has no secure sum, or names a helper already.
    """
    release = draft.sum_release
    if release is None:
        raise PlanError(
            "must be a draft of a secure sum without a helper",
            field="release",
            fix='make one with release = "sum.v1"',
        )
    if release.helper is not None:
        raise PlanError(
            f"must be a draft of a secure sum without a helper, and {release.helper.name} has "
            "accepted it",
            field="release",
            fix="publish it as it is, or make a new draft with `sfumato plan new`",
        )
    signature = sign(compute_endorsed(_put_helper(draft, helper)))
    return _put_helper(draft, replace(helper, endorsement=signature))


def require_endorsed(plan: SketchPlan) -> None:
    """Check that the helper of a secure sum has accepted the plan; other plans need none.

    Raises
    ------
    PlanError
        The plan names no helper, or its endorsement does not verify.
    """
    if plan.sum_release is None:
        return
    helper = plan.helper
    try:
        Ed25519PublicKey.from_public_bytes(helper.identity).verify(
            helper.endorsement, compute_endorsed(plan)
        )
    except (InvalidSignature, ValueError) as error:
        raise PlanError(
            "must be the helper's signature over this plan",
            field="release.helper.endorsement",
            fix="let the helper's operator accept the draft with `sfumato helper accept`",
        ) from error
