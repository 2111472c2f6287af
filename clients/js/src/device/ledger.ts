/** The owner's budget: what releases cost, computed from the ledger, which notes events alone. */
import { toHex } from "../bytes.ts";
import { SketchError } from "../errors.ts";
import type { VerifiedPlan } from "../plan/plan.ts";
import {
  addRationals,
  compareRationals,
  parseRational,
  type Rational,
  showRational,
} from "../privacy/rational.ts";
import type { LedgerEntry } from "./store.ts";

/** The owner's limits; exact numbers as text. */
export interface Limits {
  /** Largest epsilon of any one record, over all studies; "1" by default. */
  perRecord?: string;
  /** Largest epsilon summed over all windows, for people who appear in many; none by default. */
  lifetime?: string;
}

const DEFAULT_PER_RECORD = "1";

/** Whose releases are counted: the device and its stream on this machine, and where records come from. */
export interface Account {
  name: string;
  stream: string;
  source: string;
}

/** Return the ledger's entry of some releases. */
export function makeEvent(
  { name, stream, source }: Account,
  study: Uint8Array,
  { digest, fields }: Pick<VerifiedPlan, "digest" | "fields">,
  count: number,
): LedgerEntry {
  return {
    study: toHex(study),
    stream: `${name}/${stream}`,
    source,
    plan: toHex(digest),
    epsilon: showRational(fields.release.epsilon),
    neighbouring: fields.release.neighbouring,
    count,
    copy: 0,
  };
}

/** Return the ledger with `count` more releases of one stream, plan and cost. */
export function addEvent(ledger: readonly LedgerEntry[], event: LedgerEntry): LedgerEntry[] {
  const isSame = (other: LedgerEntry): boolean =>
    (Object.keys(event) as (keyof LedgerEntry)[]).every((key) => key === "count" || event[key] === other[key]);
  const before = ledger.find(isSame);
  const others = ledger.filter((entry) => entry !== before);
  return [...others, { ...event, count: event.count + (before?.count ?? 0) }];
}

/**
 * Check that the owner's budget and the plan allow `event.count` more releases.
 *
 * A record is in one window, so the releases of one stream under one plan cost as much as one of
 * them; all others of its source compose in sequence, and so do those of a copy of this state. If
 * they are under both relations, all are counted under replace-one: a record that is replaced is
 * removed and added, so one under add-remove-one counts twice (`proofs.md`, section 19).
 *
 * @param mostSketches Sketches that the study accepts of a device.
 */
export function requireAffordable(
  ledger: readonly LedgerEntry[],
  event: LedgerEntry,
  limits: Limits,
  mostSketches: number,
): void {
  const after = addEvent(ledger, event);
  const ofStudy = after.filter(({ study }) => study === event.study);
  if (ofStudy.reduce((sum, { count }) => sum + count, 0) > mostSketches) {
    const rule = `allows ${mostSketches} sketch(es) of a device, and all of them were released`;
    throw new SketchError("budget", "most_sketches_per_device", rule, "ask the operator for another study", "sketches-used-up");
  }
  const shared = after.filter(({ source }) => source === event.source);
  const relations = new Set(shared.map(({ neighbouring }) => neighbouring));
  const relation = relations.size > 1 ? "replace-one" : event.neighbouring;
  const costs = shared.map((entry) => {
    const [p, q] = parseRational(entry.epsilon, "ledger");
    return [[entry.neighbouring === relation ? p : 2n * p, q] as Rational, entry.count] as const;
  });
  const sum = (terms: Rational[]): Rational => terms.reduce(addRationals, [0n, 1n]);
  const perRecord = sum(costs.map(([epsilon]) => epsilon));
  const lifetime = sum(costs.map(([[p, q], count]) => [p * BigInt(count), q]));
  for (const [name, loss, limit] of [
    ["perRecord", perRecord, limits.perRecord ?? DEFAULT_PER_RECORD],
    ["lifetime", lifetime, limits.lifetime],
  ] as const) {
    if (limit === undefined || compareRationals(loss, parseRational(limit, `limits.${name}`)) <= 0) continue;
    const rule = `is ${limit}, and one more release would bring the loss to epsilon ${showRational(loss)} under ${relation}`;
    const fix = `pass limits: { ${name}: "${showRational(loss)}" } if the owner agrees, or leave the study`;
    throw new SketchError("budget", `limits.${name}`, rule, fix, "limit-reached");
  }
}
