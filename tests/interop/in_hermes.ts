/**
 * The same in Hermes, the engine of React Native, in one program with the vectors: it reads no
 * files. What React Native adds to the engine, and is used here, stands in `hermes_globals.js`.
 */
// First, as in an application.
import { useNativeCrypto } from "../../clients/js/src/react-native.ts";
import { ed25519, x25519 } from "../../clients/js/node_modules/@noble/curves/ed25519.js";
import { sha256 } from "../../clients/js/node_modules/@noble/hashes/sha2.js";
import { type Json, reproduce } from "./families.ts";
import vectors from "vectors.json";

declare function print(text: string): void;

const read = async (name: string): Promise<Json> => JSON.parse(JSON.stringify((vectors as Json)[name]));
const getRandomValues = (): never => {
  throw new Error("the engine alone has no generator");
};
const tools = {
  ...useNativeCrypto({ getRandomValues, sha256, ed25519, x25519 }),
  ephemeralOf: async (secret: Uint8Array<ArrayBuffer>, publicKey: Uint8Array<ArrayBuffer>) => ({
    publicKey,
    exchange: async (peer: Uint8Array) => Uint8Array.from(x25519.getSharedSecret(secret, peer)),
  }),
};
Promise.all([reproduce(read, tools), reproduce(read, tools, true)]).then(
  (outcomes) => print(JSON.stringify(outcomes)),
  (error: unknown) => print(`${error}`),
);
