/** Masked sums: a device masks its exact sum, and seals the seed of the mask to a second server. */
import { type Bytes, concat, readInteger, utf8, writeInteger } from "../bytes.ts";
import { Shake256 } from "../core/shake.ts";
import type { Hash } from "../plan/plan.ts";
import { encodeHeader, type SketchHeader } from "../wire/message.ts";
import { type Ephemeral, sealHpke } from "./seal.ts";

/** The release that a mask belongs to: an equal seed in another release gives another mask. */
export interface MaskContext {
  planDigest: Uint8Array;
  sketchId: Uint8Array;
  reportId: Uint8Array;
}

/**
 * Return the payload of a masked sum: `S - mask` modulo `2^(8 width)`, then the blind.
 *
 * @param seed 32 random bytes, used for this payload alone.
 * @param blind 32 more; they keep the payload's digest from telling whether a guess of S is right.
 */
export function maskSum(
  sums: readonly bigint[],
  seed: Uint8Array,
  blind: Uint8Array,
  { planDigest, sketchId, reportId }: MaskContext,
  width: number,
): Bytes {
  const mask = new Shake256(concat(utf8("sfumato/v1/sum/mask"), planDigest, sketchId, reportId, seed));
  const words = new Uint8Array(sums.length * width);
  sums.forEach((sum, i) => writeInteger(sum - readInteger(mask.take(width)), width, words, i * width));
  return concat(words, blind);
}

/** Return the box of a seed that opens with one header alone, 80 bytes. */
export async function sealSeed(
  seed: Uint8Array,
  helperKey: Uint8Array,
  header: SketchHeader,
  ephemeral: Ephemeral,
  sha256: Hash,
): Promise<Bytes> {
  const context = await sha256(encodeHeader(header));
  return sealHpke(seed, helperKey, concat(utf8("sfumato/v1/sum/seal"), context), ephemeral, sha256);
}
