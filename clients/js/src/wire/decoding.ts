/** Decode deterministic CBOR, as plans and enrolment codes are encoded. */
import { type Bytes, compareBytes, readInteger, utf8 } from "../bytes.ts";
import { SketchError } from "../errors.ts";
import { RATIONAL, SIGN1, Tagged, type Value } from "./cbor.ts";

const DEEPEST = 16;

/**
 * Decode bytes whose maps have text or whole numbers as keys; a number becomes its digits.
 *
 * Refused are bytes that a deterministic encoder would not write, and what no device meets; a float
 * may be longer than it need be.
 *
 * @param what The name of the object, for messages.
 */
export function decode(data: Uint8Array, what: string): Value {
  // A copy, for slices of Node's buffers are none.
  const bytes = new Uint8Array(data);
  const view = new DataView(bytes.buffer);
  let at = 0;

  const need = (holds: boolean): void => {
    if (holds) return;
    const fix = "fetch it again, and tell the study's operator if that does not help";
    throw new SketchError("malformed", what, `is not deterministic CBOR of this protocol, at byte ${at}`, fix);
  };

  const take = (count: number): Bytes => {
    need(count <= bytes.length - at);
    at += count;
    return bytes.slice(at - count, at);
  };

  const readSimple = (info: number): Value => {
    const start = at - (1 << (info - 24));
    if (info === 20 || info === 21) return info === 21;
    if (info === 25) return readHalf(view.getUint16(start));
    if (info === 26) return view.getFloat32(start);
    if (info === 27) return view.getFloat64(start);
    need(info === 22);
    return null;
  };

  const readMap = (size: number, depth: number): Value => {
    const map: { [name: string]: Value } = Object.create(null);
    let last: Uint8Array = new Uint8Array(0);
    for (let i = 0; i < size; i++) {
      const start = at;
      const key = read(depth);
      const encoded = bytes.subarray(start, at);
      need((typeof key === "string" || typeof key === "number") && compareBytes(last, encoded) < 0);
      last = encoded;
      // A number and its digits would be one key.
      need(!Object.hasOwn(map, key as string));
      map[key as string] = read(depth);
    }
    return map;
  };

  const read = (depth: number): Value => {
    const first = take(1)[0]!;
    const [major, info] = [first >> 5, first & 31];
    need(depth <= DEEPEST && info < 28);
    const length = info < 24 ? 0 : 1 << (info - 24);
    const wide = length ? readInteger(take(length).reverse()) : BigInt(info);
    // Arguments are as short as they can be.
    need(major === 7 || !length || wide >= (length === 1 ? 24n : 1n << BigInt(4 * length)));
    const size = Number(wide);
    const isSafe = Number.isSafeInteger(size);
    if (major === 0) return isSafe ? size : wide;
    if (major === 1) return isSafe ? -1 - size : -1n - wide;
    if (major === 7) return readSimple(info);
    if (major === 6) {
      need(size === SIGN1 || size === RATIONAL);
      return new Tagged(size, read(depth + 1));
    }
    // Every item takes a byte, so that memory never exceeds a multiple of the length.
    need(size <= bytes.length);
    if (major === 4) return Array.from({ length: size }, () => read(depth + 1));
    if (major === 5) return readMap(size, depth + 1);
    const content = take(size);
    if (major === 2) return content;
    const text = new TextDecoder("utf-8", { ignoreBOM: true }).decode(content);
    // What is no UTF-8 has become other characters.
    need(compareBytes(utf8(text), content) === 0);
    return text;
  };

  const value = read(0);
  need(at === bytes.length);
  return value;
}

/** Read a half-precision float. */
function readHalf(bits: number): number {
  const [exponent, fraction] = [(bits >> 10) & 31, bits & 1023];
  const finite = exponent ? (1024 + fraction) * 2 ** (exponent - 25) : fraction * 2 ** -24;
  const magnitude = exponent < 31 ? finite : fraction ? NaN : Infinity;
  return bits & 0x8000 ? -magnitude : magnitude;
}
