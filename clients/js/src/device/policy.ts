/** The owner's policy: the plans and servers that this device may obey. */
import { toHex } from "../bytes.ts";
import { require } from "../errors.ts";
import type { VerifiedPlan } from "../plan/plan.ts";
import { compareRationals, parseRational, showRational } from "../privacy/rational.ts";

/** Conditions on plans and servers; what is left out allows all. */
export interface Policy {
  /** Addresses. */
  servers?: readonly string[];
  /** Digests of plans, in hexadecimal. */
  planDigests?: readonly string[];
  /** The largest epsilon of a plan, exact. */
  epsilonPerWindow?: string;
}

function need(holds: boolean, field: string, rule: string): void {
  require(holds, "privacy", `policy.${field}`, rule, "change it if you agree to this, or leave the study");
}

/** Refuse a server that the owner did not name, before any request. */
export function requireServerAllowed({ servers }: Policy, server: string): void {
  const isAllowed = !servers || servers.map((address) => address.replace(/\/$/, "")).includes(server);
  need(isAllowed, "servers", `do not allow ${server}`);
}

/** Refuse a plan that the owner's policy does not allow. */
export function requirePlanAllowed(
  { planDigests, epsilonPerWindow: most }: Policy,
  { fields: { release }, digest: bytes }: VerifiedPlan,
): void {
  const digest = toHex(bytes);
  need(!planDigests || planDigests.includes(digest), "planDigests", `do not name ${digest}`);
  const limit = most === undefined ? release.epsilon : parseRational(most, "policy.epsilonPerWindow");
  const isLittle = compareRationals(release.epsilon, limit) <= 0;
  need(isLittle, "epsilonPerWindow", `is ${most}, and the plan spends ${showRational(release.epsilon)}`);
}
