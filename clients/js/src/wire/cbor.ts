/** Deterministic CBOR (RFC 8949, section 4.2): one value, one encoding. */
import { type Bytes, compareBytes, concat, readInteger, utf8 } from "../bytes.ts";
import { SketchError } from "../errors.ts";

/** A value under a tag. */
export class Tagged {
  readonly tag: number;
  readonly value: Value;

  constructor(tag: number, value: Value) {
    this.tag = tag;
    this.value = value;
  }
}

/** What can be encoded; numbers must be whole. Decoded maps are objects without a prototype. */
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

/** Tags of this protocol: big integers, COSE_Sign1, rationals. */
const POSITIVE = 2;
const NEGATIVE = 3;
export const SIGN1 = 18;
export const RATIONAL = 30;
const DEEPEST = 16;

function encodeHead(major: number, size: number | bigint): Bytes {
  const n = BigInt(size);
  if (n < 24n) return Uint8Array.of((major << 5) | Number(n));
  const log = n < 1n << 8n ? 0 : n < 1n << 16n ? 1 : n < 1n << 32n ? 2 : 3;
  const view = new DataView(new ArrayBuffer(9));
  view.setBigUint64(1, n);
  const head = new Uint8Array(view.buffer).slice(8 - (1 << log));
  head[0] = (major << 5) | (24 + log);
  return head;
}

function encodeInteger(value: bigint): Bytes {
  const magnitude = value < 0n ? -1n - value : value;
  if (magnitude < 1n << 64n) return encodeHead(value < 0n ? 1 : 0, magnitude);
  const digits = magnitude.toString(16);
  const bytes = Uint8Array.from(digits.padStart(digits.length + (digits.length % 2), "0").match(/../g)!, (pair) =>
    parseInt(pair, 16),
  );
  return concat(encodeHead(6, value < 0n ? NEGATIVE : POSITIVE), encode(bytes));
}

/** Encode a value. */
export function encode(value: Value): Bytes {
  if (value === null) return Uint8Array.of(0xf6);
  if (typeof value === "boolean") return Uint8Array.of(value ? 0xf5 : 0xf4);
  // A number that is not whole is refused by BigInt.
  if (typeof value === "number" || typeof value === "bigint") return encodeInteger(BigInt(value));
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

/**
 * Decode bytes whose maps have text as keys.
 *
 * Refused are other bytes than a deterministic encoder writes, save floats longer than they need be.
 *
 * @param what The name of the object, for messages.
 */
export function decode(data: Uint8Array, what: string): Value {
  const refuse = (rule: string): SketchError =>
    new SketchError("malformed", what, rule, "fetch it again, and tell the study's operator if that does not help");
  const view = new DataView(data.buffer, data.byteOffset, data.length);
  let at = 0;

  const skip = (count: number): number => {
    if (count > data.length - at) throw refuse("ends too early");
    at += count;
    return at - count;
  };

  const readHead = (): [major: number, info: number, size: bigint] => {
    const first = view.getUint8(skip(1));
    const info = first & 31;
    if (info < 24) return [first >> 5, info, BigInt(info)];
    if (info > 27) throw refuse("must have definite lengths");
    const length = 1 << (info - 24);
    const start = skip(length);
    const size = readInteger(data.slice(start, at).reverse());
    const isShortest = size >= (info === 24 ? 24n : 1n << BigInt(4 * length));
    if (first >> 5 !== 7 && !isShortest) throw refuse("must have the shortest integers");
    return [first >> 5, info, size];
  };

  const readMap = (size: number, depth: number): Value => {
    const map: { [name: string]: Value } = Object.create(null);
    let last: Uint8Array | undefined;
    for (let i = 0; i < size; i++) {
      const start = at;
      const key = read(depth);
      if (typeof key !== "string") throw refuse("must have text as keys");
      const encoded = data.subarray(start, at);
      if (last && compareBytes(last, encoded) >= 0) throw refuse("must have sorted keys, none twice");
      last = encoded;
      map[key] = read(depth);
    }
    return map;
  };

  const readTagged = (tag: number, depth: number): Value => {
    const value = read(depth);
    if (tag === POSITIVE || tag === NEGATIVE) {
      const magnitude = value instanceof Uint8Array ? readInteger(value.slice().reverse()) : 0n;
      if (magnitude < 1n << 64n || (value as Uint8Array)[0] === 0) throw refuse("must have the shortest integers");
      return tag === POSITIVE ? magnitude : -1n - magnitude;
    }
    if (tag !== SIGN1 && tag !== RATIONAL) throw refuse("has a tag that this protocol does not use");
    return new Tagged(tag, value);
  };

  const readSimple = (info: number, start: number): Value => {
    if (info === 20 || info === 21) return info === 21;
    if (info === 22) return null;
    if (info === 25) return readHalf(view.getUint16(start + 1));
    if (info === 26) return view.getFloat32(start + 1);
    if (info === 27) return view.getFloat64(start + 1);
    throw refuse("has a value that this protocol does not use");
  };

  const read = (depth: number): Value => {
    if (depth > DEEPEST) throw refuse(`must be nested at most ${DEEPEST} deep`);
    const start = at;
    const [major, info, wide] = readHead();
    const size = Number(wide);
    const isSafe = Number.isSafeInteger(size);
    if (major === 0) return isSafe ? size : wide;
    if (major === 1) return isSafe ? -1 - size : -1n - wide;
    if (major === 6) return readTagged(size, depth + 1);
    if (major === 7) return readSimple(info, start);
    // Every item takes a byte, so that memory never exceeds a multiple of the length.
    if (size > data.length) throw refuse("ends too early");
    if (major === 4) return Array.from({ length: size }, () => read(depth + 1));
    if (major === 5) return readMap(size, depth + 1);
    const content = data.slice(skip(size), at);
    if (major === 2) return content;
    try {
      return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(content);
    } catch {
      throw refuse("must have text in UTF-8");
    }
  };

  const value = read(0);
  if (at !== data.length) throw refuse("is followed by other bytes");
  return value;
}

/** Read a half-precision float. */
function readHalf(bits: number): number {
  const exponent = (bits >> 10) & 31;
  const fraction = bits & 1023;
  const magnitude = exponent
    ? exponent === 31
      ? fraction
        ? NaN
        : Infinity
      : (1 + fraction / 1024) * 2 ** (exponent - 15)
    : fraction * 2 ** -24;
  return bits & 0x8000 ? -magnitude : magnitude;
}
