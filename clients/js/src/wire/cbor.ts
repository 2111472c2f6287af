/** Deterministic CBOR (RFC 8949, section 4.2): one value, one encoding. */
import { type Bytes, compareBytes, concat, utf8 } from "../bytes.ts";

/** A value under a tag. */
export class Tagged {
  readonly tag: number;
  readonly value: Value;

  constructor(tag: number, value: Value) {
    this.tag = tag;
    this.value = value;
  }
}

/**
 * What can be encoded: whole numbers below 2^64, and no floats. Maps with text as keys are objects,
 * when they are decoded without a prototype.
 */
export type Value =
  | number
  | bigint
  | string
  | boolean
  | null
  | Uint8Array
  | Tagged
  | readonly Value[]
  | { readonly [name: string]: Value }
  | ReadonlyMap<number, Value>;

/** The tags of this protocol that a device meets. */
export const SIGN1 = 18;
export const RATIONAL = 30;

/** Encode a major type with its argument. */
function encodeHead(major: number, argument: number | bigint): Bytes {
  const n = BigInt(argument);
  if (n < 24n) return Uint8Array.of((major << 5) | Number(n));
  if (n >> 64n) throw new RangeError("a number beyond 64 bits");
  const log = n < 1n << 8n ? 0 : n < 1n << 16n ? 1 : n < 1n << 32n ? 2 : 3;
  const view = new DataView(new ArrayBuffer(9));
  view.setBigUint64(1, n);
  const head = new Uint8Array(view.buffer).slice(8 - (1 << log));
  head[0] = (major << 5) | (24 + log);
  return head;
}

/** Encode a value. */
export function encode(value: Value): Bytes {
  if (value === null) return Uint8Array.of(0xf6);
  if (typeof value === "boolean") return Uint8Array.of(value ? 0xf5 : 0xf4);
  if (typeof value === "number" || typeof value === "bigint") {
    // A number that is not whole is refused here.
    const n = BigInt(value);
    return n < 0n ? encodeHead(1, -1n - n) : encodeHead(0, n);
  }
  if (typeof value === "string") {
    const text = utf8(value);
    return concat(encodeHead(3, text.length), text);
  }
  if (value instanceof Uint8Array) return concat(encodeHead(2, value.length), value);
  if (value instanceof Tagged) return concat(encodeHead(6, value.tag), encode(value.value));
  if (Array.isArray(value)) return concat(encodeHead(4, value.length), ...value.map(encode));
  const entries: (readonly [number | string, Value])[] =
    value instanceof Map ? [...value] : Object.entries(value as { [name: string]: Value });
  const pairs = entries
    .map(([key, item]) => [encode(key), encode(item)] as const)
    .sort(([a], [b]) => compareBytes(a, b));
  return concat(encodeHead(5, pairs.length), ...pairs.flat());
}
