"""The owner's policy: which plan and which server this device may obey."""

from __future__ import annotations

from device_agent.settings import Settings
from shared.errors import PlanMismatchError, PrivacyError, SketchError
from shared.plan import SketchPlan, compute_plan_digest


def require_server_allowed(settings: Settings) -> None:
    """Refuse a server that the owner did not name, before it is asked anything.

    Raises
    ------
    PrivacyError
        It is not among those of the policy.
    """
    servers = settings.policy.servers
    if servers and settings.server not in servers:
        raise _refuse("servers", f"do not allow {settings.server}", "correct `server`, or add it")


def require_plan_allowed(settings: Settings, plan: SketchPlan) -> None:
    """Refuse a plan that the owner's policy does not allow.

    Raises
    ------
    PlanMismatchError
        Its digest is not one that the owner pinned.
    PrivacyError
        It spends too much in a window, or by means that the owner did not name.
    """
    policy, release = settings.policy, plan.release
    most = policy.epsilon_per_window
    if most is not None and release.epsilon > most:
        raise _refuse(
            "epsilon_per_window", f"is {most}, and the plan spends {release.epsilon}", "raise it"
        )
    if policy.mechanisms and release.mechanism not in policy.mechanisms:
        raise _refuse("mechanisms", f"do not allow {release.mechanism} of the plan", "add it")
    if policy.neighbouring and release.neighbouring not in policy.neighbouring:
        raise _refuse(
            "neighbouring", f"does not allow {release.neighbouring} of the plan", "add it"
        )
    digest = compute_plan_digest(plan)
    if policy.plan_digests and digest not in policy.plan_digests:
        raise PlanMismatchError(
            f"do not name {digest.hex()}, the digest of the study's plan",
            field="policy.plan_digests",
            fix="ask the study's operator which plan it is; add it if you agree to it",
        )


def describe_policy(settings: Settings) -> str:
    """Return one line on what the policy restricts."""
    policy = settings.policy
    parts = []
    if policy.epsilon_per_window is not None:
        parts.append(f"epsilon at most {policy.epsilon_per_window} a window")
    parts += [", ".join(names) for names in (policy.mechanisms, policy.neighbouring) if names]
    if policy.plan_digests:
        parts.append(f"{len(policy.plan_digests)} pinned plan(s)")
    if policy.servers:
        parts.append(f"{len(policy.servers)} server(s)")
    return (
        "policy: the plan and server are allowed by it: " + "; ".join(parts)
        if parts
        else ("policy: none is set, so every plan within the budget is obeyed")
    )


def _refuse(key: str, rule: str, fix: str) -> SketchError:
    return PrivacyError(
        rule, field=f"policy.{key}", fix=f"{fix} if you agree to it, or leave the study"
    )
