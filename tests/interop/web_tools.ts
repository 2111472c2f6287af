/** What the families take from Web Cryptography, in Node and in browsers. */
import { type Bytes, concat } from "../../clients/js/src/bytes.ts";
import { toBytes, useWebCrypto } from "../../clients/js/src/device/platform.ts";
import type { Tools } from "./families.ts";

const X25519_HEAD = [48, 46, 2, 1, 0, 48, 5, 6, 3, 43, 101, 110, 4, 34, 4, 32];

/** Return the tools of this platform. */
export function makeWebTools(): Tools {
  const { subtle } = crypto;
  return {
    ...useWebCrypto(),
    ephemeralOf: async (privateBytes, publicKey) => {
      const pkcs8 = concat(Uint8Array.from(X25519_HEAD), privateBytes);
      const secret = await subtle.importKey("pkcs8", pkcs8, "X25519", false, ["deriveBits"]);
      return {
        publicKey,
        exchange: async (peer) => {
          const key = await subtle.importKey("raw", peer as Bytes, "X25519", false, []);
          return toBytes(subtle.deriveBits({ name: "X25519", public: key }, secret, 256));
        },
      };
    },
  };
}
