/** Rules of a plan: everything that a device's promise rests on, in integers. */
import { type Dimension } from "../core/encoder.ts";
import { AMPLITUDE } from "../core/features.ts";
import { countBins } from "../core/statistics/histogram.ts";
import { require } from "../errors.ts";
import { certifyOdds } from "../privacy/circle.ts";
import { findRate } from "../privacy/mechanisms.ts";
import { compareRationals } from "../privacy/rational.ts";
import { UNIT } from "../privacy/samplers.ts";
import {
  type FourierPart,
  type HistogramPart,
  type NoiseRelease,
  PLAN_FIX,
  type PhaseRelease,
  type PlanFields,
  type SumRelease,
} from "./fields.ts";

const MOST_MATRIX = 2 ** 24;
const MOST_BINS = 2 ** 21;

function need(holds: boolean, field: string, rule: string): asserts holds {
  require(holds, "plan", field, rule, PLAN_FIX);
}

/** Check the fields of a plan against each other, and its noise against its promise. */
export function requireValid(plan: PlanFields): void {
  const { statistic, release, window } = plan;
  need(plan.ring_bits === 64, "ring_bits", "must be 64");
  const names = plan.dimensions.map(({ name }) => name);
  need(names.length > 0 && new Set(names).size === names.length, "dimensions", "must have names that differ");
  for (const dimension of plan.dimensions) requireDimension(dimension, statistic.kind === "fourier");
  if (statistic.kind === "fourier") requireFourier(statistic, plan);
  else requireHistogram(statistic, plan);
  need(release.epsilon[0] > 0n, "release.epsilon", "must be greater than zero");
  const isDevice = release.unit === "device";
  const isSecret = release.neighbouring === "add-remove-one";
  const hasMasks = isMasked(statistic);
  if (isDevice) {
    need(!isSecret, "release.neighbouring", 'must be "replace-one" where the unit is a device');
    need(plan.most_streams_per_device === 1, "most_streams_per_device", "must be 1 where the unit is a device");
    const isOne = statistic.kind === "fourier" || plan.most_records === 1;
    need(isOne, "most_records", "must be 1 where the unit is a device: a mean of counts would be 0");
  }
  if (isDevice || isSecret) {
    need(window.kind === "time", "window.kind", 'must be "time" where the number of records is hidden');
    need(!hasMasks, "measurements_per_record", "must equal n_frequencies where the number of records is hidden");
  }
  need(
    isSecret || isDevice ? plan.least_records === Number(isDevice) : plan.least_records > 0,
    "least_records",
    "must be 0 where presence is hidden, 1 where the unit is a device, and at least 1 elsewhere",
  );
  need(plan.least_records <= plan.most_records, "most_records", "must be at least least_records");
  if (release.kind === "phase.v1") requireReports(release, plan);
  else requireNoise(release, plan, hasMasks);
  if (release.kind === "sum.v1") requireSum(release, plan);
  const isNoisedHere = release.kind !== "sum.v1";
  need(release.noise_by === (isNoisedHere ? "device" : "both-servers"), "release.noise_by", "must suit its kind");
  need(plan.payload_width > 0 && plan.payload_width <= 8, "payload_width", "must be 1 to 8");
  requireWindow(plan, isSecret);
  for (const { name, values } of plan.labels) {
    need(values.length > 0, `labels.${name}`, "must have values");
  }
}

function isMasked(statistic: FourierPart | HistogramPart): boolean {
  return statistic.kind === "fourier" && statistic.measurements_per_record < statistic.n_frequencies;
}

function requireDimension(dimension: Dimension, hasScale: boolean): void {
  const { name, levels, missing, lower, upper, scale, transform } = dimension;
  const where = `dimensions.${name}`;
  if (levels) {
    const isPlain = [lower, upper, scale, transform].every((part) => part === undefined);
    need(isPlain, where, "must have neither bounds nor scale with levels");
    need(levels.length > 1 && new Set(levels).size === levels.length, where, "must have levels that differ");
    need(missing === undefined || levels.includes(String(missing)), `${where}.missing`, "must be a level");
    return;
  }
  need(lower !== undefined && upper !== undefined && lower < upper, where, "must have bounds in order");
  need(typeof missing !== "string", `${where}.missing`, "must be a number");
  need(!transform || transform.resolution > 0, `${where}.transform`, "must have a positive resolution");
  need(hasScale ? scale !== undefined && scale > 0 : scale === undefined, `${where}.scale`, "must suit the statistic");
}

const divides = (r: number, m: number): boolean => r > 0 && m % r === 0;

function requireFourier(part: FourierPart, { dimensions }: PlanFields): void {
  const { n_frequencies: m, measurements_per_record: r, frequencies_per_sketch: carried, radius_law: law } = part;
  need(part.amplitude === AMPLITUDE, "statistic.amplitude", `must be ${AMPLITUDE}`);
  const axes = dimensions.reduce((n, { levels }) => n + (levels?.length ?? 1), 0);
  need(m > 0 && m * axes <= MOST_MATRIX, "statistic.n_frequencies", `must give at most ${MOST_MATRIX} frequencies`);
  need(divides(r, m), "statistic.measurements_per_record", "must divide n_frequencies");
  need(divides(carried, m), "statistic.frequencies_per_sketch", "must divide n_frequencies");
  need(m === r || m === carried, "statistic.frequencies_per_sketch", "must equal n_frequencies with masks");
  const isLaw = 0 < law.sigma_low && law.sigma_low <= law.sigma_high && law.sigma_high <= 100 * law.sigma_low;
  const isTail = !law.tail_share || (law.sigma_high <= law.tail_high && law.tail_high <= 100 * law.sigma_high);
  need(isLaw && isTail && law.tail_share >= 0 && law.tail_share <= 1, "statistic.radius_law", "is out of range");
}

function requireHistogram(part: HistogramPart, { dimensions, release }: PlanFields): void {
  const { bins_log2: bits, dimensions_per_sketch: carried } = part;
  const where = "statistic.bins_log2";
  need(bits.length === dimensions.length, where, "must have one entry a dimension");
  const areUsable = dimensions.every(({ levels }, i) => (levels ? bits[i] === 0 : bits[i]! > 0 && bits[i]! <= 12));
  need(areUsable, where, "must be 1 to 12 of a number, and 0 of a category");
  const bins = dimensions.map((dimension, i) => countBins(dimension, bits[i]!));
  need(bins.reduce((n, more) => n + more, 0) <= MOST_BINS, where, `must give at most ${MOST_BINS} bins`);
  need(divides(carried, bits.length), "statistic.dimensions_per_sketch", "must divide the number of dimensions");
  const isReport = release.kind === "phase.v1";
  const areAlike = new Set(bins).size === 1 && (!isReport || new Set(dimensions.map((d) => !d.levels)).size === 1);
  need(areAlike || (!isReport && carried === bits.length), where, "must be the same for all dimensions");
}

/** Check that the sensitivity is the enumerated one, and that the noise keeps epsilon. */
function requireNoise(release: NoiseRelease | SumRelease, { statistic }: PlanFields, hasMasks: boolean): void {
  const { mechanism, sensitivity, neighbouring, count_scale: c } = release;
  const isFourier = statistic.kind === "fourier";
  const isKNorm = mechanism === "discrete-knorm";
  require(
    isKNorm || mechanism === "discrete-laplace",
    "version",
    "release.mechanism",
    "must be discrete-knorm or discrete-laplace: this software draws no other noise",
    "use the Python agent for this study",
  );
  need(!isKNorm || (isFourier && !hasMasks), "release.mechanism", "must be discrete-laplace with masks or bins");
  const r = isFourier
    ? Math.min(statistic.measurements_per_record, statistic.frequencies_per_sketch)
    : statistic.dimensions_per_sketch;
  const isSecret = neighbouring === "add-remove-one";
  const unit = isKNorm ? 1365 : isFourier ? AMPLITUDE : 1;
  need(c === (isSecret ? unit : 0), "release.count_scale", "must be that of the statistic");
  // With the count as one more coordinate under add-remove-one; the K-norm covers it by its radius.
  const value = isKNorm ? (isSecret ? 1365 : 2730) : (isSecret ? 1 : 2) * (isFourier ? 23162 : 1) * r + c;
  const isStated = sensitivity.value === value && sensitivity.norm === (isKNorm ? "gon24" : "l1");
  need(isStated, "release.sensitivity", `must be ${value}, the largest change by one record`);
  need(release.delta[0] === 0n, "release.delta", "must be 0 with this mechanism");
  const rate = findRate(release.epsilon, BigInt(value));
  const isScaled = rate > 0n && compareRationals(release.scale, [UNIT, rate]) === 0;
  need(isScaled, "release.scale", "must be the least that keeps epsilon, rounded towards more noise");
}

function requireReports(release: PhaseRelease, plan: PlanFields): void {
  const { statistic, dimensions } = plan;
  const isAsStated = release.mechanism === "phase-report" && release.unit === "device" && plan.most_records === 1;
  need(isAsStated, "release", "must report one record of a device");
  need(plan.payload_width === 2, "payload_width", "must be 2 with phase reports");
  const isFourier = statistic.kind === "fourier";
  need(!isMasked(statistic), "statistic.measurements_per_record", "must equal n_frequencies with phase reports");
  const r = isFourier ? statistic.frequencies_per_sketch : statistic.dimensions_per_sketch;
  const circle = isFourier ? 65536 : countBins(dimensions[0]!, statistic.bins_log2[0]!);
  need(2 * release.arc + 1 < circle, "release.arc", "must leave a place outside");
  const [p, q] = release.odds;
  const isWeight = p >= q && p < 2048n * q && (p * UNIT) % q === 0n;
  need(isWeight, "release.odds", "must be 1 to 2048, in steps of 2^-52");
  certifyOdds((p * UNIT) / q, release.epsilon, r);
}

function requireSum(release: SumRelease, plan: PlanFields): void {
  const { statistic } = plan;
  const isWhole =
    statistic.kind === "fourier"
      ? statistic.frequencies_per_sketch === statistic.n_frequencies
      : statistic.dimensions_per_sketch === plan.dimensions.length;
  need(isWhole, "release", "must carry all of the sum in every report");
  need(plan.window.kind === "time", "window.kind", 'must be "time" with a secure sum');
  need(plan.least_records <= 1, "least_records", "must be at most 1 with a secure sum");
  need(release.parts > 0 && release.parts <= 64, "release.parts", "must be 1 to 64");
  need(plan.payload_width > 1, "payload_width", "must be 2 to 8 with a secure sum");
}

function requireWindow({ window, least_records, most_records, late_rule }: PlanFields, isSecret: boolean): void {
  const { kind, origin, length_s, length, end } = window;
  const isBounded = late_rule === "leave-out-outside";
  if (kind === "count") {
    const isPlain = length_s === 0 && origin === 0 && end === undefined && !isBounded;
    need(isPlain, "window", "must have no times with windows by count");
    const isWithin = length > 0 && least_records <= length && length <= most_records;
    need(isWithin, "window.length", "must lie between least_records and most_records");
    return;
  }
  need(length_s > 0 && length === 0, "window.length_s", "must be at least 1 second");
  need(origin > 0 || !(isSecret || isBounded), "window.origin", "must be the start of the study");
  const isEnd = end === undefined || (isBounded && end > origin && (end - origin) % length_s === 0);
  need(isEnd, "window.end", "must be a whole number of slots after origin");
}
