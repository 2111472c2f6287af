/** Keys of Web Cryptography as they are made. Loaded when one is needed, which is once in a device's life. */
import { SketchError } from "../errors.ts";
import { ED25519, findSubtle, type StoredKey, toBytes, type WebCrypto, type WebKey } from "./platform.ts";

type Use = "sign" | "verify" | "deriveBits";

/** Make an Ed25519 key; see `Platform`. */
export async function createKey(crypto: WebCrypto | undefined, canHoldKeys: boolean): Promise<StoredKey> {
  const subtle = findSubtle(crypto);
  const { publicKey, privateKey } = await generatePair(crypto, ED25519, !canHoldKeys, ["sign", "verify"]);
  const secret = canHoldKeys ? privateKey : (await toBytes(subtle.exportKey("pkcs8", privateKey))).slice(-32);
  return { publicKey: await toBytes(subtle.exportKey("raw", publicKey)), secret };
}

/** Make a key pair, or say that the browser is too old. */
export async function generatePair(
  crypto: WebCrypto | undefined,
  name: string,
  isExtractable: boolean,
  uses: Use[],
): Promise<{ publicKey: WebKey; privateKey: WebKey }> {
  const subtle = findSubtle(crypto);
  try {
    return (await subtle.generateKey(name, isExtractable, uses)) as { publicKey: WebKey; privateKey: WebKey };
  } catch {
    throw new SketchError("config", "crypto.subtle", `has no ${name}`, "update the browser or runtime", "old-browser");
  }
}
