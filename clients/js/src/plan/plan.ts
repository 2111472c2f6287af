/** A verified plan, and what a device computes by it. */
import { type Bytes, concat, utf8 } from "../bytes.ts";
import type { Blocks } from "../core/blocks.ts";
import { readValue, type Value } from "../core/encoder.ts";
import { AMPLITUDE, PHASES } from "../core/features.ts";
import type { FrequencyMatrix } from "../core/frequencies.ts";
import { compress } from "../core/logarithm.ts";
import { Interval } from "../core/quantise.ts";
import type { ClustersStatistic } from "../core/statistics/clusters.ts";
import { FourierStatistic } from "../core/statistics/fourier.ts";
import type { HistogramStatistic } from "../core/statistics/histogram.ts";
import type { CircularLaw } from "../privacy/circle.ts";
import { type DrawNoise, findRate, makeKNorm, makeLaplace } from "../privacy/mechanisms.ts";
import { UNIT } from "../privacy/samplers.ts";
import { require } from "../errors.ts";
import type { PlanFields } from "./fields.ts";

const PUBLIC_SEED = new Uint8Array(32);

/** Computes SHA-256. */
export type Hash = (data: Uint8Array) => Promise<Bytes>;

/** A record as an application gives it: values by dimension, or in the plan's order. */
export type Record = { readonly [dimension: string]: Value } | ArrayLike<Value>;

/** A plan that `readPlan` has verified, as a device stores it. */
export interface VerifiedPlan {
  /** As they were received, and their SHA-256. */
  bytes: Bytes;
  digest: Bytes;
  fields: PlanFields;
  /** The frequencies, which take a moment to draw. */
  frequencies: FrequencyMatrix | undefined;
}

/** What only some plans compute with. */
type Parts = typeof import("./parts.ts");

/** Whether a record is values in the plan's order. */
export function isList(record: Record): record is ArrayLike<Value> {
  return Array.isArray(record) || ArrayBuffer.isView(record);
}

/** A study's computation and promise. */
export class Plan {
  readonly fields: PlanFields;
  readonly digest: Bytes;
  /** The blocks of what is summed, where a sketch carries one of several. */
  readonly blocks: Blocks | undefined;
  readonly #frequencies: FrequencyMatrix | undefined;
  readonly #parts: Parts;

  private constructor({ fields, digest, frequencies }: VerifiedPlan, parts: Parts | undefined) {
    this.fields = fields;
    this.digest = digest;
    this.#frequencies = frequencies;
    this.#parts = parts!;
    const [seed, n, nCarried] = countFeatures(fields);
    if (nCarried < n) this.blocks = new this.#parts.Blocks(seed, n, nCarried);
  }

  /** Open a plan, with what it computes with. */
  static async open(verified: VerifiedPlan): Promise<Plan> {
    return new Plan(verified, needsParts(verified.fields) ? await import("./parts.ts") : undefined);
  }

  /** The names of the dimensions, in order. */
  get names(): string[] {
    return this.fields.dimensions.map(({ name }) => name);
  }

  /** The number of features, dimensions or clusters that a sketch carries. */
  get nCarried(): number {
    return countFeatures(this.fields)[2];
  }

  /** Whether the number of records is secret, and released with noise after the sums. */
  get hidesPresence(): boolean {
    return this.fields.release.neighbouring === "add-remove-one";
  }

  /** Whether all records of a window are protected together, and count as one. */
  get protectsDevices(): boolean {
    return this.fields.release.unit === "device";
  }

  /** Whether a payload holds phases, or places of bins. */
  get reportsPhases(): boolean {
    return this.fields.release.kind === "phase.v1";
  }

  /** The least and the largest integer that a record adds to a coordinate. */
  get valueRange(): [low: number, high: number] {
    const { statistic } = this.fields;
    if (statistic.kind === "clusters") return [-statistic.units.residual, Math.max(...Object.values(statistic.units))];
    return statistic.kind === "fourier" ? [-AMPLITUDE, AMPLITUDE] : [0, 1];
  }

  /**
   * Return a record as doubles; a value that is missing or of another type is NaN.
   *
   * @throws SketchError It is a list of another length than there are dimensions.
   */
  readRecord(record: Record): Float64Array<ArrayBuffer> {
    const { dimensions } = this.fields;
    const list = isList(record) ? record : undefined;
    const rule = `has ${list?.length} value(s), and the plan has ${dimensions.length} dimension(s)`;
    const fix = `give one for each of: ${this.names.join(", ")}`;
    require(!list || list.length === dimensions.length, "record", "record", rule, fix);
    const values = record as { readonly [name: string | number]: Value } | null | undefined;
    return Float64Array.from(dimensions, (dimension, i) => readValue(dimension, values?.[list ? i : dimension.name]));
  }

  /**
   * Return the statistic of one window.
   *
   * @param streamId Names device and stream; it decides masks.
   * @param block The block of features that the sketch carries.
   */
  buildStatistic(streamId: Uint8Array, block: number): FourierStatistic | HistogramStatistic | ClustersStatistic {
    const { statistic, dimensions } = this.fields;
    const box = makeIntervals(this.fields);
    const carried = (): number[] => this.blocks?.members[block] ?? [...Array(this.nCarried).keys()];
    if (statistic.kind === "histogram") {
      return new this.#parts.HistogramStatistic(dimensions, box, statistic.bins_log2, carried());
    }
    if (statistic.kind === "clusters") return new this.#parts.ClustersStatistic(dimensions, box, statistic, carried());
    const { seed, n_frequencies: m, measurements_per_record: r } = statistic;
    let frequencies = this.#frequencies!;
    if (this.blocks) {
      const members = this.blocks.members[block]!;
      const turns = frequencies.turns.map((row) => Int16Array.from(members, (j) => row[j]!));
      frequencies = { turns, bits: frequencies.bits };
    }
    const masks = r < m ? new this.#parts.MaskSchedule(seed, streamId, m, r) : undefined;
    return new FourierStatistic(dimensions, box, frequencies, masks);
  }

  /** Return the noise of a release of `n` coordinates, without a secret number of records. */
  makeNoise(n: number): DrawNoise {
    const { release } = this.fields;
    if (release.kind !== "local.v1") throw new Error("the noise of this release is not drawn here");
    const rate = findRate(release.epsilon, BigInt(release.sensitivity.value));
    const nCounts = Number(this.hidesPresence);
    return release.mechanism === "discrete-knorm" ? makeKNorm(n / 2, nCounts, rate) : makeLaplace(n + nCounts, rate);
  }

  /** Return the law of phase reports. */
  makeLaw(): CircularLaw {
    const { release, statistic, dimensions } = this.fields;
    if (release.kind !== "phase.v1") throw new Error("this release has no law");
    const circle =
      statistic.kind === "histogram" ? this.#parts.countBins(dimensions[0]!, statistic.bins_log2[0]!) : PHASES;
    return new this.#parts.CircularLaw(circle, release.arc, (release.odds[0] * UNIT) / release.odds[1]);
  }

  /**
   * Return the vector that is released: the sum with a scaled secret number of records, or the mean,
   * rounded towards zero, where all records of a device are protected together.
   */
  finishSum(sums: Float64Array, nRecords: number): bigint[] {
    const whole = Array.from(sums, BigInt);
    if (this.protectsDevices) return whole.map((sum) => sum / BigInt(Math.max(1, nRecords)));
    const { release } = this.fields;
    if (!this.hidesPresence || release.kind === "phase.v1") return whole;
    return [...whole, BigInt(nRecords) * BigInt(release.count_scale)];
  }

  /**
   * Clip a noised sum to what a sketch may hold; that is post-processing.
   *
   * @param nRecords Of the header; `null` where it is secret.
   */
  clamp(noised: bigint[], nRecords: number | null): bigint[] {
    const { coordinate_bound, most_records, release } = this.fields;
    const [low, high] = this.valueRange;
    const most = this.protectsDevices ? 1 : most_records;
    const bound = BigInt(coordinate_bound);
    const noise = bound - BigInt(most) * BigInt(high);
    const own = nRecords === null ? bound : BigInt(nRecords) * BigInt(high) + noise;
    const largest = own < bound ? own : bound;
    const least = low < 0 || noise > largest ? -largest : -noise;
    return noised.map((value, i) => {
      const isCount = this.hidesPresence && i === noised.length - 1;
      if (!isCount || release.kind === "phase.v1") return clip(value, least, largest);
      return clip(value, -noise, BigInt(most_records) * BigInt(release.count_scale) + noise);
    });
  }

  /** Return the slot of a time in seconds since 1970-01-01 UTC; older times have the first. */
  slotOf(time: number): number {
    const { origin, length_s } = this.fields.window;
    return Math.max(0, Math.floor((time - origin) / length_s));
  }
}

/** Return what blocks are drawn by: a seed, and the numbers of features in all and of one sketch. */
export function countFeatures({ statistic, dimensions }: PlanFields): [seed: Uint8Array, n: number, nCarried: number] {
  if (statistic.kind === "histogram") return [PUBLIC_SEED, dimensions.length, statistic.dimensions_per_sketch];
  if (statistic.kind === "clusters") return [PUBLIC_SEED, statistic.centres.length, statistic.clusters_per_sketch];
  return [statistic.seed, statistic.n_frequencies, statistic.frequencies_per_sketch];
}

function needsParts(fields: PlanFields): boolean {
  const { statistic, release } = fields;
  const [, n, nCarried] = countFeatures(fields);
  const isPlain = statistic.kind === "fourier" && statistic.measurements_per_record === n && nCarried === n;
  return !isPlain || release.kind === "phase.v1";
}

/** Return the nearest integer within limits. */
export function clip(value: bigint, low: bigint, high: bigint): bigint {
  return value < low ? low : value > high ? high : value;
}

/** Return the intervals of the coordinates; of a histogram, those of the columns on their scales. */
export function makeIntervals({ dimensions, statistic }: PlanFields): Interval[] {
  return dimensions.flatMap(({ levels, lower, upper, transform }) => {
    if (levels) {
      if (statistic.kind === "histogram") return [new Interval(-0.5, levels.length - 0.5)];
      return levels.map(() => new Interval(0, 1));
    }
    const [low, high] = [lower!, upper!].map((x) => (transform ? compress(x, transform.resolution) : x));
    return [new Interval(low!, high!)];
  });
}

/** Return the identity of a stream, which keys its masks: `device || "/" || stream`. */
export function encodeStreamId(device: Uint8Array, stream: string): Bytes {
  return concat(device, utf8(`/${stream}`));
}
