/** Verify a plan: its fields, its promise, and the frequencies that this device draws. */
import { type Bytes, equalBytes } from "../bytes.ts";
import { drawFrequencies, encodeFrequencies, type FrequencyMatrix } from "../core/frequencies.ts";
import { require } from "../errors.ts";
import { encode } from "../wire/cbor.ts";
import { decode } from "../wire/decoding.ts";
import { PLAN_FIX, type PlanFields, readFields } from "./fields.ts";
import { type Hash, makeIntervals, type VerifiedPlan } from "./plan.ts";
import { requireValid } from "./rules.ts";

/** Draw the frequencies of a plan; those of other statistics are none. */
export function drawPlanFrequencies(fields: PlanFields): FrequencyMatrix | undefined {
  const { statistic, dimensions } = fields;
  const box = makeIntervals(fields);
  require(box.every(({ isUsable }) => isUsable), "plan", "dimensions", "must have usable bounds", PLAN_FIX);
  if (statistic.kind !== "fourier") return undefined;
  const scale = dimensions.flatMap(({ levels, scale }) => levels?.map(() => 1) ?? [scale!]);
  return drawFrequencies(statistic.seed, statistic.n_frequencies, statistic.radius_law, box, scale);
}

/** Decode and verify a plan; its frequencies must have the digest that it states. */
export async function readPlan(bytes: Bytes, sha256: Hash): Promise<VerifiedPlan> {
  const fields = readFields(decode(bytes, "plan"));
  requireValid(fields);
  const frequencies = drawPlanFrequencies(fields);
  if (fields.statistic.kind === "fourier") {
    const digest = await sha256(encodeFrequencies(frequencies!));
    require(
      equalBytes(digest, fields.statistic.frequencies_digest),
      "plan",
      "statistic.frequencies_digest",
      "is not that of the frequencies that this device computes",
      "release nothing, and report the browser or runtime and its version",
    );
  }
  return { bytes, digest: await sha256(bytes), fields, frequencies };
}

/** Return the identity of a study: SHA-256 of `[name, plan digest]`. */
export async function computeStudyId(name: string, digest: Uint8Array, sha256: Hash): Promise<Bytes> {
  return sha256(encode([name, digest]));
}
