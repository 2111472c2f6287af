/** Endorsement of a secure sum: the helper's signature that it has accepted a plan. */
import { type Bytes, equalBytes } from "../bytes.ts";
import { require } from "../errors.ts";
import { encode } from "../wire/cbor.ts";
import { PLAN_FIX } from "./fields.ts";
import type { Hash, VerifiedPlan } from "./plan.ts";

/** Returns whether an Ed25519 signature is that of a public key over given bytes. */
export type Verify = (publicKey: Uint8Array, signature: Uint8Array, data: Bytes) => Promise<boolean>;

/** Return the bytes that the helper signs: they cover all of the plan but the signature. */
export async function computeEndorsed({ bytes, fields }: VerifiedPlan, sha256: Hash): Promise<Bytes> {
  const { release } = fields;
  const blank = bytes.slice();
  const signature = release.kind === "sum.v1" ? release.helper.endorsement : new Uint8Array(0);
  // Where the signature stands is found by its bytes. A plan that holds them elsewhere too is not
  // the one that was signed, and does not verify.
  const at = bytes.findIndex((_, i) => equalBytes(bytes.subarray(i, i + signature.length), signature));
  blank.fill(0, at, at + signature.length);
  return encode(["sfumato/v1/sum/endorsement", await sha256(blank)]);
}

/** Check that the helper of a secure sum has accepted the plan; other plans need none. */
export async function requireEndorsed(plan: VerifiedPlan, verify: Verify, sha256: Hash): Promise<void> {
  const { release } = plan.fields;
  if (release.kind !== "sum.v1") return;
  const { identity, endorsement } = release.helper;
  const holds = await verify(identity, endorsement, await computeEndorsed(plan, sha256));
  require(holds, "plan", "release.helper.endorsement", "must be the helper's signature over this plan", PLAN_FIX);
}
