/** What a device takes from its platform: a generator, SHA-256, Ed25519 and X25519. */
import { type Bytes, concat, fromHex } from "../bytes.ts";
import { SketchError } from "../errors.ts";
import { type Verify } from "../plan/endorsing.ts";
import { type Hash } from "../plan/plan.ts";
import { type FillRandom } from "../privacy/source.ts";
import { type Ephemeral } from "../sharing/seal.ts";

/** A signing key as it is stored; what the secret is, its platform knows. */
export interface StoredKey {
  /** 32 bytes. */
  publicKey: Bytes;
  secret: unknown;
}

/**
 * A platform. `useWebCrypto` gives that of browsers and Node; React Native needs one over a native
 * library, whose generator must be the system's.
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
  verify: Verify;
  createEphemeral(): Promise<Ephemeral>;
}

/** PKCS #8 of an Ed25519 key is these bytes and the 32 of the key (RFC 8410, section 7). */
const PKCS8_HEAD = fromHex("302e020100300506032b657004220420")!;
const ED25519 = "Ed25519";
const X25519 = "X25519";

/** Return the platform of browsers and Node. */
export function useWebCrypto(crypto: Crypto | undefined = globalThis.crypto): Platform {
  const subtle = (): SubtleCrypto => {
    if (crypto?.subtle) return crypto.subtle;
    const fix = "serve the page over https or from localhost; elsewhere pass a platform of your own";
    throw new SketchError("config", "crypto.subtle", "is missing", fix);
  };
  const bytes = async (buffer: Promise<ArrayBuffer>): Promise<Bytes> => new Uint8Array(await buffer);
  const generate = async (name: string, isExtractable: boolean, uses: KeyUsage[]): Promise<CryptoKeyPair> => {
    try {
      return (await subtle().generateKey(name, isExtractable, uses)) as CryptoKeyPair;
    } catch (error) {
      if (error instanceof SketchError) throw error;
      throw new SketchError("config", "crypto.subtle", `has no ${name}`, "update the browser or runtime");
    }
  };
  return {
    fillRandom: crypto?.getRandomValues && ((into) => crypto.getRandomValues(into)),
    sha256: (data) => bytes(subtle().digest("SHA-256", data as Bytes)),
    createKey: async (canHoldKeys) => {
      const { publicKey, privateKey } = await generate(ED25519, !canHoldKeys, ["sign", "verify"]);
      const secret = canHoldKeys ? privateKey : (await bytes(subtle().exportKey("pkcs8", privateKey))).slice(-32);
      return { publicKey: await bytes(subtle().exportKey("raw", publicKey)), secret };
    },
    sign: async ({ secret }, data) => {
      const isBytes = secret instanceof Uint8Array;
      const key = isBytes
        ? await subtle().importKey("pkcs8", concat(PKCS8_HEAD, secret), ED25519, false, ["sign"])
        : (secret as CryptoKey);
      return bytes(subtle().sign(ED25519, key, data));
    },
    verify: async (publicKey, signature, data) => {
      try {
        const key = await subtle().importKey("raw", publicKey as Bytes, ED25519, false, ["verify"]);
        return await subtle().verify(ED25519, key, signature as Bytes, data);
      } catch (error) {
        if (error instanceof SketchError) throw error;
        // A key that is no point verifies nothing.
        return false;
      }
    },
    createEphemeral: async () => {
      const { publicKey, privateKey } = await generate(X25519, false, ["deriveBits"]);
      return {
        publicKey: await bytes(subtle().exportKey("raw", publicKey)),
        exchange: async (peer) => {
          const key = await subtle().importKey("raw", peer as Bytes, X25519, false, []);
          try {
            return await bytes(subtle().deriveBits({ name: X25519, public: key }, privateKey, 256));
          } catch {
            // A key of small order, which the platform may refuse by itself.
            return new Uint8Array(32);
          }
        },
      };
    },
  };
}
