/** A verified plan, and what a device computes by it. */
import { type Bytes, concat, equalBytes, utf8 } from "../bytes.ts";
import { Blocks } from "../core/blocks.ts";
import { compress } from "../core/logarithm.ts";
import { type Dimension, readValue, type Value } from "../core/encoder.ts";
import { AMPLITUDE, PHASES } from "../core/features.ts";
import { drawFrequencies, encodeFrequencies, type FrequencyMatrix } from "../core/frequencies.ts";
import { MaskSchedule } from "../core/masks.ts";
import { Interval } from "../core/quantise.ts";
import { FourierStatistic } from "../core/statistics/fourier.ts";
import { countBins, HistogramStatistic } from "../core/statistics/histogram.ts";
import { require } from "../errors.ts";
import { CircularLaw } from "../privacy/circle.ts";
import { type DrawNoise, findRate, makeKNorm, makeLaplace } from "../privacy/mechanisms.ts";
import { UNIT } from "../privacy/samplers.ts";
import { decode, encode } from "../wire/cbor.ts";
import { PLAN_FIX, type PlanFields, readFields } from "./fields.ts";
import { requireValid } from "./rules.ts";

/** The largest sum that a double holds exactly, with all sums below it. */
const MOST_SUM = Number.MAX_SAFE_INTEGER;
const PUBLIC_SEED = new Uint8Array(32);

/** Computes SHA-256. */
export type Hash = (data: Uint8Array) => Promise<Bytes>;

/** A record as an application gives it: values by dimension, or in the plan's order. */
export type Record = { readonly [dimension: string]: Value } | ArrayLike<Value>;

/** A study's computation and promise. Make one with `readPlan`, which verifies it. */
export class Plan {
  readonly fields: PlanFields;
  readonly bytes: Bytes;
  readonly digest: Bytes;
  /** The blocks of what is summed, of which a sketch carries one. */
  readonly blocks: Blocks;
  readonly #frequencies: FrequencyMatrix | undefined;

  constructor(fields: PlanFields, bytes: Bytes, digest: Bytes, frequencies?: FrequencyMatrix) {
    this.fields = fields;
    this.bytes = bytes;
    this.digest = digest;
    this.#frequencies = frequencies;
    const { statistic, dimensions } = fields;
    this.blocks =
      statistic.kind === "fourier"
        ? new Blocks(statistic.seed, statistic.n_frequencies, statistic.frequencies_per_sketch)
        : new Blocks(PUBLIC_SEED, dimensions.length, statistic.dimensions_per_sketch);
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
    return this.fields.statistic.kind === "fourier" ? [-AMPLITUDE, AMPLITUDE] : [0, 1];
  }

  /** The most records that one exact sum may hold. */
  get mostExact(): number {
    return Math.floor(MOST_SUM / this.valueRange[1]);
  }

  /** Return a record as doubles; a value that is missing or of another type is NaN. */
  readRecord(record: Record): Float64Array<ArrayBuffer> {
    const { dimensions } = this.fields;
    return Float64Array.from(dimensions, (dimension, i) => {
      const isList = Array.isArray(record) || ArrayBuffer.isView(record);
      const values = record as { readonly [name: string | number]: Value } | null | undefined;
      return readValue(dimension, values?.[isList ? i : dimension.name]);
    });
  }

  /**
   * Return the statistic of one window.
   *
   * @param streamId Names device and stream; it decides masks.
   * @param block The block of features that the sketch carries.
   */
  buildStatistic(streamId: Uint8Array, block: number): FourierStatistic | HistogramStatistic {
    const { statistic, dimensions } = this.fields;
    if (statistic.kind === "histogram") {
      const carried = this.blocks.members[block]!;
      return new HistogramStatistic(dimensions, makeIntervals(dimensions, false), statistic.bins_log2, carried);
    }
    const { seed, n_frequencies: m, measurements_per_record: r } = statistic;
    let frequencies = this.#frequencies!;
    if (this.blocks.count > 1) {
      const members = this.blocks.members[block]!;
      const turns = frequencies.turns.map((row) => Int16Array.from(members, (j) => row[j]!));
      frequencies = { turns, bits: frequencies.bits };
    }
    const masks = r < m ? new MaskSchedule(seed, streamId, m, r) : undefined;
    return new FourierStatistic(dimensions, makeIntervals(dimensions, true), frequencies, masks);
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
    const circle = statistic.kind === "fourier" ? PHASES : countBins(dimensions[0]!, statistic.bins_log2[0]!);
    return new CircularLaw(circle, release.arc, (release.odds[0] * UNIT) / release.odds[1]);
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

  /** Clip a finished sum to what the most records can add up to, before it is masked. */
  saturateSum(finished: bigint[]): bigint[] {
    const [low, high] = this.valueRange;
    const most = this.protectsDevices ? 1 : this.fields.most_records;
    const { release } = this.fields;
    const [least, largest] = [BigInt(most * low), BigInt(most * high)];
    return finished.map((value, i) => {
      const isCount = this.hidesPresence && i === finished.length - 1;
      if (!isCount || release.kind === "phase.v1") return clip(value, least, largest);
      return clip(value, 0n, BigInt(most) * BigInt(release.count_scale));
    });
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

function clip(value: bigint, low: bigint, high: bigint): bigint {
  return value < low ? low : value > high ? high : value;
}

/** Return the intervals of the coordinates, or of the columns on their scales. */
function makeIntervals(dimensions: readonly Dimension[], isEncoded: boolean): Interval[] {
  return dimensions.flatMap(({ levels, lower, upper, transform }) => {
    if (levels) {
      return isEncoded ? levels.map(() => new Interval(0, 1)) : [new Interval(-0.5, levels.length - 0.5)];
    }
    const [low, high] = [lower!, upper!].map((x) => (transform ? compress(x, transform.resolution) : x));
    return [new Interval(low!, high!)];
  });
}

/** Draw the frequencies of a plan. */
export function drawPlanFrequencies({ statistic, dimensions }: PlanFields): FrequencyMatrix | undefined {
  const box = makeIntervals(dimensions, statistic.kind === "fourier");
  require(box.every(({ isUsable }) => isUsable), "plan", "dimensions", "must have usable bounds", PLAN_FIX);
  if (statistic.kind !== "fourier") return undefined;
  const scale = dimensions.flatMap(({ levels, scale }) => levels?.map(() => 1) ?? [scale!]);
  return drawFrequencies(statistic.seed, statistic.n_frequencies, statistic.radius_law, box, scale);
}

/** Decode and verify a plan; its frequencies must have the digest that it states. */
export async function readPlan(bytes: Bytes, sha256: Hash): Promise<Plan> {
  const fields = readFields(decode(bytes, "plan"));
  requireValid(fields);
  const frequencies = drawPlanFrequencies(fields);
  if (fields.statistic.kind === "fourier") {
    const digest = await sha256(encodeFrequencies(frequencies!));
    require(
      equalBytes(digest, fields.statistic.frequencies_digest),
      "plan",
      "statistic.frequencies_digest",
      "is not that of the frequencies that this device computes",
      "release nothing, and report the browser or runtime and its version",
    );
  }
  return new Plan(fields, bytes, await sha256(bytes), frequencies);
}

/** Return the identity of a study: SHA-256 of `[name, plan digest]`. */
export async function computeStudyId(name: string, digest: Uint8Array, sha256: Hash): Promise<Bytes> {
  return sha256(encode([name, digest]));
}

/** Return the identity of a stream, which keys its masks: `device || "/" || stream`. */
export function encodeStreamId(device: Uint8Array, stream: string): Bytes {
  return concat(device, utf8(`/${stream}`));
}
