/** Phase reports: a noisy phase of one record, or a noisy place of its bin, for each feature. */
import { SketchError } from "../errors.ts";
import { compareRationals, divideRational, type Rational } from "./rational.ts";
import { UNIT } from "./samplers.ts";
import { drawBelow, type RandomSource } from "./source.ts";

/** The law of an offset on a circle of Q places: `odds` times the weight up to the arc. */
export class CircularLaw {
  readonly circle: number;
  readonly arc: number;
  /** w1, the weight of an offset up to the arc; that of another is 2^52. */
  readonly weight: bigint;

  constructor(circle: number, arc: number, weight: bigint) {
    this.circle = circle;
    this.arc = arc;
    this.weight = weight;
  }

  get #inner(): bigint {
    return BigInt(2 * this.arc + 1) * this.weight;
  }

  /** One more than the largest number that decides a report: Q times the sum of all weights. */
  get drawsBelow(): bigint {
    return BigInt(this.circle) * (this.#inner + BigInt(this.circle - 2 * this.arc - 1) * UNIT);
  }

  /**
   * Draw the report of a place; uniform on the circle where there is no place to report.
   *
   * One draw decides an offset and an independent uniform place, and both are computed.
   */
  report(place: number | undefined, source: RandomSource): number {
    const drawn = drawBelow(source, this.drawsBelow);
    const circle = BigInt(this.circle);
    const [v, uniform] = [drawn / circle, Number(drawn % circle)];
    const near = v / this.weight - BigInt(this.arc);
    const far = BigInt(this.arc + 1) + (v - this.#inner) / UNIT;
    const offset = Number(v < this.#inner ? near : far);
    const moved = ((place ?? 0) + offset + this.circle) % this.circle;
    return place === undefined ? uniform : moved;
  }
}

/**
 * Check that r reports of one record are epsilon differentially private: `odds^r <= exp(epsilon)`.
 *
 * Partial sums of the exponential series decide it, in rationals.
 */
export function certifyOdds(weight: bigint, epsilon: Rational, nReports: number): void {
  const share = divideRational(epsilon, nReports);
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
