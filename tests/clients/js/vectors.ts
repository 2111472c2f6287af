/** The vectors that every port reproduces, and what the tests read them with. */
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";

import type { Bytes } from "../../../clients/js/src/bytes.ts";
import { fromHex } from "../../../clients/js/src/hexadecimal.ts";

// Their shape is what the tests are about.
// eslint-disable-next-line @typescript-eslint/no-explicit-any
export type Json = any;

/** Read a file of vectors. */
export function readVectors(name: string): Json {
  const path = new URL(`../../vectors/${name}.json`, import.meta.url);
  return JSON.parse(readFileSync(path, "utf8"));
}

/** Decode hexadecimal that is there for certain. */
export function hex(text: string): Bytes {
  const bytes = fromHex(text);
  if (!bytes) throw new Error(`${text} is not hexadecimal`);
  return bytes;
}

/** Compute SHA-256 as a `Hash`. */
export async function sha256(data: Uint8Array): Promise<Bytes> {
  return new Uint8Array(createHash("sha256").update(data).digest());
}

/** Read a double as Python writes it in hexadecimal. */
export function readFloat(text: string): number {
  const found = /^(-?)0x([01])\.([0-9a-f]{13}|0)p([+-]\d+)$/.exec(text);
  if (!found) return { inf: Infinity, "-inf": -Infinity, nan: NaN }[text] as number;
  const [, sign, whole, fraction, exponent] = found;
  const significand = Number(whole) + parseInt(fraction!, 16) / 2 ** (4 * fraction!.length);
  // In two steps, for the smallest numbers.
  const half = Math.trunc(Number(exponent) / 2);
  return (sign ? -1 : 1) * significand * 2 ** half * 2 ** (Number(exponent) - half);
}
