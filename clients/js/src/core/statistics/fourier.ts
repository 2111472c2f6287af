/** Random Fourier features in integers: the statistic behind centroids. */
import { type Dimension, encode } from "../encoder.ts";
import { computeFeature } from "../features.ts";
import { type FrequencyMatrix } from "../frequencies.ts";
import { type MaskSchedule } from "../masks.ts";
import { type Interval } from "../quantise.ts";
import { type Statistic } from "./interface.ts";

/** Return the phase of each of some features of a record, or `undefined` if it is unsketchable. */
export function computePhases(
  record: Float64Array,
  dimensions: readonly Dimension[],
  box: readonly Interval[],
  { turns, bits }: FrequencyMatrix,
  features?: readonly number[],
): Uint16Array | undefined {
  const coordinates: number[] = [];
  dimensions.forEach((dimension, i) => encode(dimension, record[i]!, coordinates));
  if (!coordinates.every(Number.isFinite)) return undefined;
  const steps = coordinates.map((x, i) => box[i]!.quantise(x));
  const phases = new Uint16Array(features?.length ?? turns[0]!.length);
  for (let k = 0; k < phases.length; k++) {
    const j = features ? features[k]! : k;
    // The sum may wrap modulo 2^32: 2^bits divides 2^32, so wrapping is by whole turns.
    let phase = 0;
    for (let i = 0; i < steps.length; i++) phase = (phase + Math.imul(steps[i]!, turns[i]![j]!)) | 0;
    phases[k] = (phase << (32 - bits)) >>> 16;
  }
  return phases;
}

/** Features of a record: real parts, then imaginary parts. */
export class FourierStatistic implements Statistic {
  readonly #dimensions: readonly Dimension[];
  readonly #box: readonly Interval[];
  readonly #frequencies: FrequencyMatrix;
  readonly #masks: MaskSchedule | undefined;

  constructor(
    dimensions: readonly Dimension[],
    box: readonly Interval[],
    frequencies: FrequencyMatrix,
    masks?: MaskSchedule,
  ) {
    this.#dimensions = dimensions;
    this.#box = box;
    this.#frequencies = frequencies;
    this.#masks = masks;
  }

  get nCoordinates(): number {
    return 2 * this.#frequencies.turns[0]!.length;
  }

  /** Return the phases of a record's features; see `computePhases`. */
  findPhases(record: Float64Array): Uint16Array | undefined {
    return computePhases(record, this.#dimensions, this.#box, this.#frequencies);
  }

  add(record: Float64Array, counter: number, sums: Float64Array): boolean {
    const features = this.#masks?.featuresOf(counter);
    const phases = computePhases(record, this.#dimensions, this.#box, this.#frequencies, features);
    const m = this.#frequencies.turns[0]!.length;
    phases?.forEach((phase, k) => {
      const [cosine, sine] = computeFeature(phase);
      const j = features ? features[k]! : k;
      sums[j]! += cosine;
      sums[m + j]! += sine;
    });
    return phases !== undefined;
  }
}
