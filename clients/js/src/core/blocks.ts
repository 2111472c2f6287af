/** Blocks: a sketch may carry r of the m features, chosen by public numbers alone. */
import { readInteger, toHex, utf8 } from "../bytes.ts";
import { sortByWords } from "./masks.ts";
import { drawBytes, WordStream } from "./seeds.ts";

/** The blocks of a plan; `perSketch` divides `n`. */
export class Blocks {
  readonly seed: Uint8Array;
  readonly n: number;
  readonly perSketch: number;
  #members: number[][] | undefined;

  constructor(seed: Uint8Array, n: number, perSketch: number) {
    this.seed = seed;
    this.n = n;
    this.perSketch = perSketch;
  }

  /** The number of blocks B. */
  get count(): number {
    return this.n / this.perSketch;
  }

  /** The features of each block, ascending. */
  get members(): number[][] {
    if (!this.#members) {
      const stream = new WordStream(this.seed, "blocks");
      const words = Array.from({ length: this.n }, () => {
        const [low, high] = stream.next();
        return (BigInt(high) << 32n) | BigInt(low);
      });
      const order = sortByWords(words);
      this.#members = Array.from({ length: this.count }, (_, b) =>
        order.slice(b * this.perSketch, (b + 1) * this.perSketch).sort((x, y) => x - y),
      );
    }
    return this.#members;
  }

  /**
   * Choose the block of a sketch: `spread(ordinal) + offset(stream) + turn + turn div B` modulo B.
   *
   * @param ordinal The number that the server gave the device.
   * @param turn The first slot of the window, or the sketch's number for windows by count.
   */
  choose(ordinal: number, stream: string, turn: number): number {
    const n = this.count;
    if (n === 1) return 0;
    const offset = readInteger(drawBytes(this.seed, `blocks/${toHex(utf8(stream))}`, 8));
    const place = BigInt(this.#spread(ordinal % n)) + offset + BigInt(turn) + BigInt(Math.floor(turn / n));
    return Number(place % BigInt(n));
  }

  /** Return entry `i` of the numbers below B in the order of their reversed bits. */
  #spread(i: number): number {
    const bits = 32 - Math.clz32(this.count - 1);
    for (let k = 0, seen = 0; ; k++) {
      let reversed = 0;
      for (let bit = 0; bit < bits; bit++) reversed |= ((k >> bit) & 1) << (bits - 1 - bit);
      if (reversed < this.count && seen++ === i) return reversed;
    }
  }
}
