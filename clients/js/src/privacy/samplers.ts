/**
 * Exact sampling of exponential variates on the integers, without floating-point numbers.
 *
 * X has `P(X = x)` proportional to `exp(-x / 2^52)`. Its binary digits are independent: digit i is
 * one with probability `1 / (1 + exp(2^(i - 52)))`, and what lies above digit 57 is geometric. A
 * digit is one if a uniform real number lies below its probability, whose words are computed when
 * they are needed. Every X takes 59 words, more with probability below 2^-57.
 */
import { type Bytes } from "../bytes.ts";
import { findDigits } from "./exponential.ts";
import { type RandomSource } from "./source.ts";

const UNIT_BITS = 52n;
/** Rates are integers over 2^52. */
export const UNIT = 1n << UNIT_BITS;
const DIGITS = 58;

/** Return the first `64 words` binary digits of the probability of digit i, or of what is above. */
function computeProbability(i: number, words: number): bigint {
  const isAbove = i === DIGITS;
  return findDigits(1n << BigInt(i), UNIT, isAbove ? 0n : 1n, BigInt(64 * words));
}

let firstWords: BigUint64Array | undefined;

/** Return whether the uniform number that begins with a word lies below the probability of digit i. */
function isBelow(source: RandomSource, word: bigint, i: number): boolean {
  const first = firstWords![i]!;
  if (word !== first) return word < first;
  for (let words = 2; ; words++) {
    const digit = BigInt.asUintN(64, computeProbability(i, words));
    const next = readWord(source.drawBytes(8), 0);
    if (next !== digit) return next < digit;
  }
}

function readWord(bytes: Uint8Array, at: number): bigint {
  return new DataView((bytes as Bytes).buffer, bytes.byteOffset + at, 8).getBigUint64(0, true);
}

/** Draw X. */
export function drawExponent(source: RandomSource): bigint {
  firstWords ??= BigUint64Array.from({ length: DIGITS + 1 }, (_, i) => computeProbability(i, 1));
  const words = source.drawBytes(8 * (DIGITS + 1));
  let [low, high] = [0, 0];
  for (let i = 0; i < DIGITS; i++) {
    // Both halves are exact doubles below 2^29.
    const digit = Number(isBelow(source, readWord(words, 8 * i), i));
    if (i < 29) low += digit * 2 ** i;
    else high += digit * 2 ** (i - 29);
  }
  let above = 0n;
  for (let word = readWord(words, 8 * DIGITS); isBelow(source, word, DIGITS); above++) {
    word = readWord(source.drawBytes(8), 0);
  }
  return (above << BigInt(DIGITS)) + (BigInt(high) << 29n) + BigInt(low);
}

/** Draw a geometric variate: `P(G >= g) = exp(-g rate / 2^52)`. */
export function drawGeometric(source: RandomSource, rate: bigint): bigint {
  return drawExponent(source) / rate;
}
