/** The proof that phase reports keep their promise. Loaded with enrolment, which verifies plans. */
import { SketchError } from "../errors.ts";
import { compareRationals, type Rational } from "./rational.ts";
import { UNIT } from "./samplers.ts";

/**
 * Check that r reports of one record are epsilon differentially private: `odds^r <= exp(epsilon)`.
 *
 * Partial sums of the exponential series decide it, in rationals.
 */
export function certifyOdds(weight: bigint, epsilon: Rational, nReports: number): void {
  const share: Rational = [epsilon[0], epsilon[1] * BigInt(nReports)];
  // The largest weight is below 2^63 = 2^52 exp(7.6), and a smaller exponent only asks for more.
  const [p, q] = compareRationals(share, [8n, 1n]) > 0 ? [8n, 1n] : share;
  // After i terms T = sum / scale, with scale = q^i i!.
  let [term, sum, scale] = [1n, 1n, 1n];
  for (let i = 1n; ; i++) {
    term *= p;
    scale *= q * i;
    sum = sum * q * i + term;
    if (weight * scale <= UNIT * sum) return;
    if (i + 1n >= 2n * (p / q + 1n) && weight * scale > UNIT * (sum + term)) break;
  }
  throw new SketchError(
    "privacy",
    "release.odds",
    `exceed exp(epsilon) in ${nReports} reports of one record`,
    "do not join this study, and tell its operator",
  );
}
