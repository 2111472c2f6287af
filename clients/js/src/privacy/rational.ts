/** Exact rationals: epsilon, scales and odds are never floating-point numbers. */
import { SketchError } from "../errors.ts";

/** Numerator and denominator; the denominator is positive. Not necessarily in lowest terms. */
export type Rational = readonly [numerator: bigint, denominator: bigint];

/** Read `"1/10"`, `"0.1"` or `"2"`. */
export function parseRational(text: string, field: string): Rational {
  const found = /^(\d{1,30})(?:\.(\d{1,30})|\/(\d{1,30}))?$/.exec(text);
  const [, whole = "", decimals = "", below] = found ?? [];
  const denominator = below === undefined ? 10n ** BigInt(decimals.length) : BigInt(below);
  if (!found || !denominator) {
    throw new SketchError("config", field, "must be an exact number", 'write it as "1", "0.5" or "1/10"');
  }
  return [BigInt(whole + decimals), denominator];
}

/** Write a rational as `"p/q"`, or `"p"` for a whole number. */
export function showRational([p, q]: Rational): string {
  let [a, b] = [p, q];
  while (b) [a, b] = [b, a % b];
  return q === a ? `${p / a}` : `${p / a}/${q / a}`;
}

/** Order rationals. */
export function compareRationals([p, q]: Rational, [r, s]: Rational): number {
  const difference = p * s - r * q;
  return difference < 0n ? -1 : difference > 0n ? 1 : 0;
}

/** Add rationals. */
export function addRationals([p, q]: Rational, [r, s]: Rational): Rational {
  return q === s ? [p + r, q] : [p * s + r * q, q * s];
}
