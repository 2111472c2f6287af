/** Step 1 of the sketch: coordinates to 16-bit integers within the plan's public bounds. */

/** Quantisation steps from the centre of the box to its edge. */
export const STEPS = 32767;

/** Round to the nearest integer, halves to even, for `|x| < 2^51`. */
export function roundHalfEven(x: number): number {
  const shift = 1.5 * 2 ** 52;
  return x + shift - shift;
}

/** One coordinate's public interval `[lower, upper]`, mapped onto the integers -32767 .. 32767. */
export class Interval {
  readonly centre: number;
  readonly halfWidth: number;
  readonly #scale: number;

  constructor(lower: number, upper: number) {
    this.centre = (lower + upper) / 2;
    this.halfWidth = (upper - lower) / 2;
    this.#scale = STEPS / this.halfWidth;
  }

  /** Whether doubles can hold the interval. */
  get isUsable(): boolean {
    return this.halfWidth > 0 && [this.centre, this.halfWidth, this.#scale].every(Number.isFinite);
  }

  /** Return a value's distance from the centre, in steps, neither rounded nor saturated. */
  measure(x: number): number {
    return (x - this.centre) * this.#scale;
  }

  /** Return a value in whole steps, saturated at the edges. */
  quantise(x: number): number {
    return roundHalfEven(Math.min(Math.max(this.measure(x), -STEPS), STEPS));
  }
}
