/** Marginal histograms: the statistic that shows where the values of each dimension lie. */
import { type Dimension, transform } from "../encoder.ts";
import { type Interval, roundHalfEven, STEPS } from "../quantise.ts";
import { type Statistic } from "./interface.ts";

/** Bins after the inner ones of a number: below, above, missing. */
const BEYOND = 3;

/** Return the number of bins of a dimension, with those beyond the box and of missing values. */
export function countBins({ levels }: Dimension, bits: number): number {
  return levels ? levels.length + 1 : 2 ** bits + BEYOND;
}

/** Return the bin of a double: data units, or the number of a level. */
export function findBin(dimension: Dimension, interval: Interval, bits: number, x: number): number {
  const t = transform(dimension, x);
  const missing = countBins(dimension, bits) - 1;
  if (!Number.isFinite(t)) return missing;
  // Minus zero is the level 0 too.
  if (dimension.levels) return t + 0;
  const steps = interval.measure(t);
  if (steps < -STEPS) return 2 ** bits;
  if (steps > STEPS) return 2 ** bits + 1;
  return (roundHalfEven(steps) + STEPS + 1) >> (16 - bits);
}

/**
 * Return the place of a bin on the circle of bins.
 *
 * A number's bins go round by value: the inner ones, above, missing, below.
 */
export function placeBin(dimension: Dimension, bits: number, bin: number): number {
  const inner = 2 ** bits;
  return dimension.levels || bin < inner ? bin : inner + ((bin - inner + 2) % BEYOND);
}

/** Counts of the bins of the carried dimensions, dimension by dimension. */
export class HistogramStatistic implements Statistic {
  readonly nCoordinates: number;
  readonly #dimensions: readonly Dimension[];
  readonly #intervals: readonly Interval[];
  readonly #bits: readonly number[];
  readonly #carried: readonly number[];

  constructor(
    dimensions: readonly Dimension[],
    intervals: readonly Interval[],
    bits: readonly number[],
    carried: readonly number[],
  ) {
    this.#dimensions = dimensions;
    this.#intervals = intervals;
    this.#bits = bits;
    this.#carried = carried;
    this.nCoordinates = carried.reduce((n, i) => n + countBins(dimensions[i]!, bits[i]!), 0);
  }

  /** Return the bin of a record in each carried dimension. */
  findBins(record: Float64Array): number[] {
    return this.#carried.map((i) =>
      findBin(this.#dimensions[i]!, this.#intervals[i]!, this.#bits[i]!, record[i]!),
    );
  }

  /** Return the places of a record's bins on their circles. */
  findPlaces(record: Float64Array): number[] {
    return this.findBins(record).map((bin, k) => {
      const i = this.#carried[k]!;
      return placeBin(this.#dimensions[i]!, this.#bits[i]!, bin);
    });
  }

  add(record: Float64Array, _counter: number, sums: Float64Array): boolean {
    let start = 0;
    this.findBins(record).forEach((bin, k) => {
      const i = this.#carried[k]!;
      sums[start + bin]! += 1;
      start += countBins(this.#dimensions[i]!, this.#bits[i]!);
    });
    return true;
  }
}
