/** Masks: the r of m features that a record adds to, a function of its counter alone. */
import { readInteger, toHex } from "../bytes.ts";
import { drawBytes } from "./seeds.ts";

/** Records that share one permutation. */
export const BLOCK_RECORDS = 65536;

const wrap = (x: bigint): bigint => BigInt.asUintN(64, x);

/** Return word number `index` of SplitMix64 started at `key`. */
function mix(key: bigint, index: bigint): bigint {
  let z = wrap(key + (index + 1n) * 0x9e3779b97f4a7c15n);
  z = wrap((z ^ (z >> 30n)) * 0xbf58476d1ce4e5b9n);
  z = wrap((z ^ (z >> 27n)) * 0x94d049bb133111ebn);
  return z ^ (z >> 31n);
}

/** Sort the numbers 0 .. n - 1 by words; equal words keep their order. */
export function sortByWords(words: readonly bigint[]): number[] {
  return words
    .map((_, i) => i)
    .sort((a, b) => (words[a]! < words[b]! ? -1 : words[a]! > words[b]! ? 1 : a - b));
}

/** The masks of one stream; r divides m. */
export class MaskSchedule {
  readonly #m: number;
  readonly #r: number;
  readonly #assignment: bigint;
  readonly #permutation: bigint;
  #block = -1;
  #order: number[] = [];

  constructor(seed: Uint8Array, streamId: Uint8Array, m: number, r: number) {
    const keys = drawBytes(seed, `masks/${toHex(streamId)}`, 16);
    this.#m = m;
    this.#r = r;
    this.#assignment = readInteger(keys.subarray(0, 8));
    this.#permutation = readInteger(keys.subarray(8));
  }

  /** Return the group of a record, below m / r. */
  groupOf(record: number): number {
    return Number((mix(this.#assignment, BigInt(record)) * BigInt(this.#m / this.#r)) >> 64n);
  }

  /** Return the features that a record adds to. */
  featuresOf(record: number): number[] {
    const block = Math.floor(record / BLOCK_RECORDS);
    if (block !== this.#block) {
      const first = BigInt(block) * BigInt(this.#m);
      const words = Array.from({ length: this.#m }, (_, j) => mix(this.#permutation, first + BigInt(j)));
      this.#order = sortByWords(words);
      this.#block = block;
    }
    const start = this.groupOf(record) * this.#r;
    return this.#order.slice(start, start + this.#r);
  }
}
