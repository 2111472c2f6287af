/** The same in a runtime that has as little as React Native, over what an application brings. */
import "../clients/js/lacking.ts";
import { crypto } from "../clients/js/react_native.ts";
import { readFile } from "node:fs/promises";

import { useNativeCrypto } from "../../clients/js/src/react-native.ts";
import { reproduce } from "./families.ts";

const read = async (name: string): Promise<unknown> =>
  JSON.parse(await readFile(new URL(`../vectors/${name}.json`, import.meta.url), "utf8"));
const tools = {
  ...useNativeCrypto(crypto),
  ephemeralOf: async (secret: Uint8Array<ArrayBuffer>, publicKey: Uint8Array<ArrayBuffer>) => ({
    publicKey,
    exchange: async (peer: Uint8Array) => Uint8Array.from(await crypto.x25519!.getSharedSecret(secret, peer)),
  }),
};
console.log(JSON.stringify([await reproduce(read, tools), await reproduce(read, tools, true)]));
