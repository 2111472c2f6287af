/** Sources of bytes for tests: seeded ones, given ones, and generators that fail. */
import { utf8, writeInteger } from "../../../clients/js/src/bytes.ts";
import { Shake256 } from "../../../clients/js/src/core/shake.ts";
import { type RandomSource } from "../../../clients/js/src/privacy/source.ts";

/** Return a source whose bytes follow from a name. */
export function seeded(name: string): RandomSource {
  const shake = new Shake256(utf8(name));
  return { drawBytes: (count) => shake.take(count) };
}

/** Return a source of given bytes, which must suffice. */
export function given(bytes: Uint8Array): RandomSource & { readonly left: number } {
  let at = 0;
  return {
    drawBytes: (count) => {
      if (at + count > bytes.length) throw new Error("drew more than was given");
      return bytes.slice(at, (at += count));
    },
    get left() {
      return bytes.length - at;
    },
  };
}

/** Return a source of one number, little-endian in as many bytes as are drawn. */
export function givenNumber(number: bigint): RandomSource {
  return {
    drawBytes: (count) => {
      const bytes = new Uint8Array(count);
      writeInteger(number, count, bytes, 0);
      return bytes;
    },
  };
}
