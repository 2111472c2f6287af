/** Public random words from a published seed: SHAKE-256, which is the same everywhere. */
import { type Bytes, concat, utf8 } from "../bytes.ts";
import { Shake256 } from "./shake.ts";

export const SEED_BYTES = 32;

/** Return the stream called `label`: SHAKE-256 of `"sfumato/v1/" || label || 0x00 || seed`. */
export function openStream(seed: Uint8Array, label: string): Shake256 {
  return new Shake256(concat(utf8(`sfumato/v1/${label}\0`), seed));
}

/** Return the first `count` bytes of a stream. */
export function drawBytes(seed: Uint8Array, label: string, count: number): Bytes {
  return openStream(seed, label).take(count);
}

/** The 64-bit words of one labelled stream, in order; word j is its bytes 8 j .. 8 j + 7. */
export class WordStream {
  readonly #stream: Shake256;

  constructor(seed: Uint8Array, label: string) {
    this.#stream = openStream(seed, label);
  }

  /** Return the next word as its low and high halves, each below 2^32. */
  next(): [low: number, high: number] {
    const view = new DataView(this.#stream.take(8).buffer);
    return [view.getUint32(0, true), view.getUint32(4, true)];
  }

  /** Return `(2 k + 1) 2^-53` for the top 52 bits k of the next word: exact, inside (0, 1). */
  unit(): number {
    const [low, high] = this.next();
    return (2 * (high * 2 ** 20 + (low >>> 12)) + 1) * 2 ** -53;
  }
}
