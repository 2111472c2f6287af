/** Hexadecimal text to bytes, which results and other stores need. */
import type { Bytes } from "./bytes.ts";

/** Decode hexadecimal; `undefined` if it is anything else. */
export function fromHex(text: string): Bytes | undefined {
  if (!/^([0-9a-f]{2})*$/.test(text)) return undefined;
  return Uint8Array.from(text.match(/../g) ?? [], (pair) => parseInt(pair, 16));
}
