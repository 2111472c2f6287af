"""The owner's policy: the plans and servers that this device may obey."""

from __future__ import annotations

from fractions import Fraction

from sfumato.device_agent.settings.agent_settings import Settings
from sfumato.shared.errors import (
    PlanMismatchError,
    PrivacyError,
    ReleaseNotAllowedError,
    SketchError,
)
from sfumato.shared.plan import SketchPlan, compute_plan_digest, describe_trust
from sfumato.shared.privacy import Budget, PrivacyLoss

_BY_DEFAULT = " (by default, for none is written)"


def require_server_allowed(settings: Settings) -> None:
    """Refuse a server that the owner did not name, with a ``PrivacyError``, before any request."""
    servers = settings.policy.servers
    if servers and settings.server not in servers:
        raise _refuse("servers", f"do not allow {settings.server}", "correct `server`, or add it")


def require_plan_allowed(settings: Settings, plan: SketchPlan) -> None:
    """Refuse a plan that the owner's policy, or the number of streams, does not allow.

    Raises
    ------
    PlanMismatchError
        The owner did not pin its digest, or it takes fewer streams.
    PrivacyError
        It spends too much in a window, or by means that the owner did not name.
    ReleaseNotAllowedError
        Its kind of release, or the helper of its secure sum, is not one that the owner named.
    """
    policy, release = settings.policy, plan.release
    n_streams, most_streams = len(settings.streams), plan.most_streams_per_device
    if n_streams > most_streams:
        raise PlanMismatchError(
            f"must be at most {most_streams} of one device under the study's plan, "
            f"and are {n_streams}",
            field="streams",
            fix="divide them between devices, or ask the study's operator for a plan with more",
        )
    _require_release_allowed(settings, plan)
    most = policy.epsilon_per_window
    if most is not None and release.epsilon > most:
        raise _refuse(
            "epsilon_per_window",
            f"is {most}, and the plan spends {release.epsilon}",
            f'write [policy] epsilon_per_window = "{release.epsilon}"',
        )
    if policy.mechanisms and release.mechanism not in policy.mechanisms:
        raise _refuse("mechanisms", f"do not allow {release.mechanism} of the plan", "add it")
    if policy.neighbouring and release.neighbouring not in policy.neighbouring:
        raise _refuse(
            "neighbouring", f"does not allow {release.neighbouring} of the plan", "add it"
        )
    others = [each.name for each in plan.dimensions if each.name not in policy.columns]
    if policy.columns and others:
        raise _refuse("columns", f"do not allow {', '.join(others)} of the plan", "add it")
    digest = compute_plan_digest(plan)
    if policy.plan_digests and digest not in policy.plan_digests:
        raise PlanMismatchError(
            f"do not name {digest.hex()}, the digest of the study's plan",
            field="policy.plan_digests",
            fix="ask the study's operator which plan it is; add it if you agree to it",
        )


def _require_release_allowed(settings: Settings, plan: SketchPlan) -> None:
    policy, kind = settings.policy, plan.release.kind
    if kind not in policy.releases:
        raise ReleaseNotAllowedError(
            f"do not allow {kind}, the release of the plan: nothing is enrolled or released",
            field="policy.releases",
            fix=f"add {kind} if you agree to this: {describe_trust(plan)}",
        )
    if plan.sum_release is None:
        return
    fingerprint = plan.helper.fingerprint
    if fingerprint not in policy.helpers:
        raise ReleaseNotAllowedError(
            f"do not name {plan.helper.name}, the plan's helper, whose identity is "
            f"{fingerprint.hex()}: nothing is enrolled or released",
            field="policy.helpers",
            fix="ask that organisation itself whether this is its identity; add it if it is, and "
            "you trust it not to work together with the server; otherwise leave the study",
        )


def describe_policy(settings: Settings) -> str:
    """Describe the policy's restrictions in one line."""
    policy = settings.policy
    parts = []
    if policy.epsilon_per_window is not None:
        parts.append(f"epsilon at most {policy.epsilon_per_window} a window")
    parts += [", ".join(names) for names in (policy.mechanisms, policy.neighbouring) if names]
    if policy.phases:
        parts.append(f"phases {', '.join(policy.phases)}")
    if policy.columns:
        parts.append(f"columns {', '.join(policy.columns)} alone")
    if policy.helpers:
        parts.append(f"{len(policy.helpers)} helper(s)")
    if policy.plan_digests:
        parts.append(f"{len(policy.plan_digests)} pinned plan(s)")
    if policy.servers:
        parts.append(f"{len(policy.servers)} server(s)")
    return (
        "policy: the plan and server are allowed by it: " + "; ".join(parts)
        if parts
        else "policy: none is set, so every plan within the budget is obeyed"
    )


def describe_budget(budget: Budget) -> str:
    """Describe the budget in one line, with the defaults that apply."""

    def show(name: str, value: Fraction | None) -> str:
        return f"{value}{_BY_DEFAULT if name in budget.defaults else ''}"

    lifetime = "no limit" if budget.lifetime is None else f"epsilon at most {budget.lifetime}"
    line = (
        f"budget: epsilon at most {show('per_record', budget.per_record)} for each record, "
        f"{lifetime} for someone in every window, judged at delta {show('delta', budget.delta)} "
        "where the noise of a plan has one, and under replace-one where plans over one source have "
        "both relations"
    )
    if budget.defaults or budget.lifetime is None:
        line += "; [budget] per_record, lifetime and delta of the configuration change that"
    return line


def describe_spent(loss: PrivacyLoss, of: str) -> dict[str, str | None]:
    """Return a loss as JSON values: exact numbers as text, and the relation, None without loss."""
    return {
        f"epsilon_spent_{of}": str(loss.epsilon),
        f"delta_spent_{of}": str(loss.delta),
        f"neighbouring_{of}": loss.neighbouring,
    }


def _refuse(key: str, rule: str, fix: str) -> SketchError:
    return PrivacyError(
        rule, field=f"policy.{key}", fix=f"{fix} if you agree to it, or leave the study"
    )
