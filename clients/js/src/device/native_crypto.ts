/** The cryptography of runtimes without Web Cryptography, over libraries that an application brings. */
import { type Bytes, concat } from "../bytes.ts";
import { require } from "../errors.ts";
import { SystemSource } from "../privacy/source.ts";
import type { SumPlatform } from "../sum.ts";
import type { Platform } from "./platform.ts";

/** A value, or a promise of it: native libraries give either. */
type Awaitable<T> = T | Promise<T>;

/** What an application brings; `@noble/curves` and `@noble/hashes` have this shape. */
export interface NativeCrypto {
  /**
   * Fill bytes from the system's generator: `crypto.getRandomValues` of
   * `react-native-get-random-values`, `expo-crypto` or `react-native-quick-crypto`. Privacy rests on
   * it: never a generator in JavaScript that began from a clock or `Math.random`.
   */
  getRandomValues(into: Bytes): unknown;
  sha256(data: Uint8Array): Awaitable<Uint8Array>;
  /** Ed25519 (RFC 8032), by secret keys of 32 bytes. */
  ed25519: {
    getPublicKey(secret: Uint8Array): Awaitable<Uint8Array>;
    sign(data: Uint8Array, secret: Uint8Array): Awaitable<Uint8Array>;
    verify(signature: Uint8Array, data: Uint8Array, publicKey: Uint8Array): Awaitable<boolean>;
  };
  /** X25519 (RFC 7748), for secure sums alone. */
  x25519?: {
    getPublicKey(secret: Uint8Array): Awaitable<Uint8Array>;
    getSharedSecret(secret: Uint8Array, publicKey: Uint8Array): Awaitable<Uint8Array>;
  };
}

/** Copy what a library returns: it may be a view, or one of its own kind. */
const copy = async (bytes: Awaitable<Uint8Array>): Promise<Bytes> => concat(await bytes);

const makeSource = (crypto: NativeCrypto): SystemSource => new SystemSource((into) => crypto.getRandomValues(into));

/** Return the platform over an application's libraries; the key is stored as 32 bytes. */
export function useNativeCrypto(crypto: NativeCrypto): Platform {
  const verify = makeVerify(crypto);
  return {
    fillRandom: (into) => crypto.getRandomValues(into),
    sha256: (data) => copy(crypto.sha256(data)),
    createKey: async () => {
      const secret = makeSource(crypto).drawBytes(32);
      return { publicKey: await copy(crypto.ed25519.getPublicKey(secret)), secret };
    },
    sign: ({ secret }, data) => copy(crypto.ed25519.sign(data, secret as Bytes)),
    verify: (publicKey, data, signature) => verify(publicKey, signature, data),
  };
}

/** Return the same for secure sums, for `useSecureSum(helpers, useNativeCryptoForSums(crypto))`. */
export function useNativeCryptoForSums(crypto: NativeCrypto): SumPlatform {
  const { x25519 } = crypto;
  require(x25519 !== undefined, "config", "crypto.x25519", "is missing", "pass it: secure sums need X25519");
  return {
    verify: makeVerify(crypto),
    createEphemeral: async () => {
      const secret = makeSource(crypto).drawBytes(32);
      return {
        publicKey: await copy(x25519.getPublicKey(secret)),
        exchange: async (peer) => {
          try {
            return await copy(x25519.getSharedSecret(secret, peer));
          } catch {
            // A key of small order, which a library may refuse by itself.
            return new Uint8Array(32);
          } finally {
            secret.fill(0);
          }
        },
      };
    },
  };
}

function makeVerify({ ed25519 }: NativeCrypto): SumPlatform["verify"] {
  return async (publicKey, signature, data) => {
    try {
      return (await ed25519.verify(signature, data, publicKey)) === true;
    } catch {
      // A key that is no point verifies nothing.
      return false;
    }
  };
}
