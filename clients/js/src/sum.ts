/**
 * Secure sums: the device adds no noise, and masks its exact sum for two servers that must not work
 * together. An application that allows this imports it.
 */
import { type Bytes, toHex } from "./bytes.ts";
import { findSubtle, toBytes, type WebCrypto } from "./device/platform.ts";
import { generatePair } from "./device/web_keys.ts";
import type { SecureSum } from "./device/sketching.ts";
import { SketchError } from "./errors.ts";
import { requireEndorsed, type Verify } from "./plan/endorsing.ts";
import { clip, type Plan } from "./plan/plan.ts";
import { maskSum, sealSeed } from "./sharing/masks.ts";
import type { Ephemeral } from "./sharing/seal.ts";

/** What secure sums take from a platform besides. */
export interface SumPlatform {
  verify: Verify;
  createEphemeral(): Promise<Ephemeral>;
}

/** Return the platform of browsers and Node for secure sums. */
export function useWebCryptoForSums(crypto: WebCrypto | undefined = globalThis.crypto): SumPlatform {
  return {
    verify: async (publicKey, signature, data) => {
      const subtle = findSubtle(crypto);
      try {
        const key = await subtle.importKey("raw", publicKey as Bytes, "Ed25519", false, ["verify"]);
        return await subtle.verify("Ed25519", key, signature as Bytes, data);
      } catch {
        // A key that is no point verifies nothing.
        return false;
      }
    },
    createEphemeral: async () => {
      const subtle = findSubtle(crypto);
      const { publicKey, privateKey } = await generatePair(crypto, "X25519", false, ["deriveBits"]);
      return {
        publicKey: await toBytes(subtle.exportKey("raw", publicKey)),
        exchange: async (peer) => {
          try {
            const key = await subtle.importKey("raw", peer as Bytes, "X25519", false, []);
            return await toBytes(subtle.deriveBits({ name: "X25519", public: key }, privateKey, 256));
          } catch {
            // A key of small order, which the platform may refuse by itself.
            return new Uint8Array(32);
          }
        },
      };
    },
  };
}

/** Clip a finished sum to what the most records can add up to, before it is masked. */
export function saturateSum(plan: Plan, finished: readonly bigint[]): bigint[] {
  const { release, most_records } = plan.fields;
  const [low, high] = plan.valueRange;
  const most = BigInt(plan.protectsDevices ? 1 : most_records);
  return finished.map((value, i) => {
    const isCount = plan.hidesPresence && i === finished.length - 1;
    if (!isCount || release.kind === "phase.v1") return clip(value, most * BigInt(low), most * BigInt(high));
    return clip(value, 0n, most * BigInt(release.count_scale));
  });
}

/**
 * Allow secure sums with some helpers.
 *
 * @param helpers The second servers that the owner trusts not to work together with the first, each
 *   by the SHA-256 of its identity in hexadecimal, as its own operator publishes it.
 */
export function useSecureSum(
  helpers: readonly string[],
  platform: SumPlatform = useWebCryptoForSums(),
): SecureSum {
  return {
    requireAllowed: async (plan, sha256) => {
      const { release } = plan.fields;
      if (release.kind !== "sum.v1") return;
      await requireEndorsed(plan, platform.verify, sha256);
      const fingerprint = toHex(await sha256(release.helper.identity));
      if (helpers.includes(fingerprint)) return;
      const rule = `do not name ${release.helper.name}, whose identity is ${fingerprint}`;
      const fix = "ask that organisation whether it is its own; add it if you trust it, or leave the study";
      throw new SketchError("privacy", "helpers", rule, fix);
    },
    mask: async (plan, finished, header, sketchId, source, sha256) => {
      const { release, payload_width } = plan.fields;
      if (release.kind !== "sum.v1") throw new Error("this release is not masked");
      // Neither the seed nor the blind is stored anywhere.
      const [seed, blind] = [source.drawBytes(32), source.drawBytes(32)];
      const context = { planDigest: header.planDigest, sketchId, reportId: header.reportId };
      const payload = maskSum(saturateSum(plan, finished), seed, blind, context, payload_width);
      const unsealed = { ...header, payloadLength: payload.length, payloadDigest: await sha256(payload) };
      const ephemeral = await platform.createEphemeral();
      const sealed = await sealSeed(seed, release.helper.key, unsealed, ephemeral, sha256);
      seed.fill(0);
      return [payload, sealed];
    },
  };
}
