/** The owner's policy: the plans and servers that this device may obey. */
import { toHex } from "../bytes.ts";
import { require } from "../errors.ts";
import { type Hash, type Plan } from "../plan/plan.ts";
import { compareRationals, parseRational, showRational } from "../privacy/rational.ts";
import { LARGEST_EXACT } from "./sketching.ts";

/** Conditions on plans and servers; what is left out allows all, but for `releases` and `helpers`. */
export interface Policy {
  /** Addresses. */
  servers?: readonly string[];
  /**
   * Kinds of releases; `["local.v1", "phase.v1"]` by default. `sum.v1` must be named: there the
   * device adds no noise, and its sums are safe only while two servers do not work together.
   */
  releases?: readonly string[];
  /** For `sum.v1`: the helpers that are trusted, each by the SHA-256 of its identity in hexadecimal. */
  helpers?: readonly string[];
  /** Digests of plans, in hexadecimal. */
  planDigests?: readonly string[];
  /** The largest epsilon of a plan, exact. */
  epsilonPerWindow?: string;
}

const AGREE = "if you agree to it, or leave the study";

/** Refuse a server that the owner did not name, before any request. */
export function requireServerAllowed({ servers }: Policy, server: string): void {
  const isAllowed = !servers || servers.map((address) => address.replace(/\/$/, "")).includes(server);
  require(isAllowed, "privacy", "policy.servers", `do not allow ${server}`, `add it ${AGREE}`);
}

/** Refuse a plan that the owner's policy does not allow. */
export async function requirePlanAllowed(policy: Policy, plan: Plan, sha256: Hash): Promise<void> {
  const { release, most_records } = plan.fields;
  const { releases = ["local.v1", "phase.v1"], helpers = [], planDigests, epsilonPerWindow } = policy;
  const need = (holds: boolean, field: string, rule: string, fix: string): void =>
    require(holds, "privacy", `policy.${field}`, rule, `${fix} ${AGREE}`);
  need(releases.includes(release.kind), "releases", `do not allow ${release.kind}, the release of the plan`, "add it");
  if (release.kind === "sum.v1") {
    const fingerprint = toHex(await sha256(release.helper.identity));
    const rule = `do not name ${release.helper.name}, whose identity is ${fingerprint}`;
    need(helpers.includes(fingerprint), "helpers", rule, "ask that organisation whether it is its own, and add it");
  }
  const digest = toHex(plan.digest);
  need(!planDigests || planDigests.includes(digest), "planDigests", `do not name ${digest}`, "add it");
  const most = epsilonPerWindow ?? "";
  const isLittle = !most || compareRationals(release.epsilon, parseRational(most, "policy.epsilonPerWindow")) <= 0;
  const spent = showRational(release.epsilon);
  need(isLittle, "epsilonPerWindow", `is ${most}, and the plan spends ${spent}`, `write "${spent}"`);
  const isExact = most_records <= LARGEST_EXACT / plan.valueRange[1];
  require(isExact, "plan", "most_records", "would not leave sums exact in doubles", "use the Python agent");
}

/** Return the labels of a device, if each that the plan declares has one of its values. */
export function requireLabels(plan: Plan, labels: { readonly [name: string]: string }): { [name: string]: string } {
  const declared = new Map(plan.fields.labels.map(({ name, values }) => [name, values]));
  for (const name of Object.keys(labels)) {
    const fix = declared.size ? `use: ${[...declared.keys()].join(", ")}` : "leave labels out";
    require(declared.has(name), "config", `labels.${name}`, "must be a label that the plan declares", fix);
  }
  for (const [name, values] of declared) {
    const isValue = Object.hasOwn(labels, name) && values.includes(labels[name]!);
    require(isValue, "config", `labels.${name}`, "must be a declared value", `use one of: ${values.join(", ")}`);
  }
  return { ...labels };
}
