/** What a device takes from its platform: a generator, SHA-256 and Ed25519. */
import { type Bytes, concat } from "../bytes.ts";
import { SketchError } from "../errors.ts";
import type { Hash } from "../plan/plan.ts";
import type { FillRandom } from "../privacy/source.ts";

/** A signing key as it is stored; what the secret is, its platform knows. */
export interface StoredKey {
  /** 32 bytes. */
  publicKey: Bytes;
  secret: unknown;
}

/**
 * A platform. `useWebCrypto` gives that of browsers and Node, `useNativeCrypto` one over libraries of
 * an application in React Native.
 */
export interface Platform {
  fillRandom: FillRandom | undefined;
  sha256: Hash;
  /**
   * Make an Ed25519 key.
   *
   * @param canHoldKeys Whether the store holds the platform's own keys, so that the secret need
   *   never become bytes.
   */
  createKey(canHoldKeys: boolean): Promise<StoredKey>;
  sign(key: StoredKey, data: Bytes): Promise<Bytes>;
  /** Whether a signature of given bytes is that of an Ed25519 key of 32 bytes. */
  verify(publicKey: Bytes, data: Bytes, signature: Bytes): Promise<boolean>;
}

/** PKCS #8 of an Ed25519 key is these bytes and the 32 of the key (RFC 8410, section 7). */
const PKCS8_HEAD = [48, 46, 2, 1, 0, 48, 5, 6, 3, 43, 101, 112, 4, 34, 4, 32];
export const ED25519 = "Ed25519";

/** Types of the platform's own, so that a program without those of the DOM is checked too. */
export type WebCrypto = typeof globalThis.crypto;
type Subtle = WebCrypto["subtle"];
export type WebKey = Parameters<Subtle["exportKey"]>[1];

/** Return the cryptography of a browser or of Node, or say what is missing. */
export function findSubtle(crypto: WebCrypto | undefined): Subtle {
  if (crypto?.subtle) return crypto.subtle;
  const fix = "serve the page over https or from localhost; elsewhere pass a platform of your own";
  throw new SketchError("config", "crypto.subtle", "is missing", fix, "insecure-page");
}

/** Return what a promise of a buffer holds. */
export async function toBytes(buffer: Promise<ArrayBuffer>): Promise<Bytes> {
  return new Uint8Array(await buffer);
}

/** Return the platform of browsers and Node. */
export function useWebCrypto(crypto: WebCrypto | undefined = globalThis.crypto): Platform {
  return {
    fillRandom: crypto?.getRandomValues && ((into) => crypto.getRandomValues(into)),
    sha256: (data) => toBytes(findSubtle(crypto).digest("SHA-256", data as Bytes)),
    createKey: async (canHoldKeys) => (await import("./enrolling.ts")).createKey(crypto, canHoldKeys),
    sign: async ({ secret }, data) => {
      const subtle = findSubtle(crypto);
      const key =
        secret instanceof Uint8Array
          ? await subtle.importKey("pkcs8", concat(Uint8Array.from(PKCS8_HEAD), secret), ED25519, false, ["sign"])
          : (secret as WebKey);
      return toBytes(subtle.sign(ED25519, key, data));
    },
    verify: async (publicKey, data, signature) => {
      const subtle = findSubtle(crypto);
      const key = await subtle.importKey("raw", publicKey, ED25519, false, ["verify"]);
      return subtle.verify(ED25519, key, signature, data);
    },
  };
}
