/** Phase reports: a noisy phase of one record, or a noisy place of its bin, for each feature. */
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
