/** Keys that everybody knows, for vectors. */
import { createPrivateKey, createPublicKey, sign } from "node:crypto";

import { type Bytes } from "../../../clients/js/src/bytes.ts";
import { type Sign } from "../../../clients/js/src/wire/message.ts";

const PKCS8_HEAD = "302e020100300506032b657004220420";

/** Return public key and signature of an Ed25519 seed, 32 bytes in hexadecimal. */
export function openKey(seed: string): { publicKey: Bytes; sign: Sign } {
  const key = createPrivateKey({ key: Buffer.from(PKCS8_HEAD + seed, "hex"), format: "der", type: "pkcs8" });
  const spki = createPublicKey(key).export({ format: "der", type: "spki" });
  return {
    publicKey: new Uint8Array(spki.subarray(-32)),
    sign: async (data) => new Uint8Array(sign(null, data, key)),
  };
}
