/** Rules of a plan: everything that a device's promise rests on, in integers. */
import type { Dimension } from "../core/encoder.ts";
import { AMPLITUDE, PHASES } from "../core/features.ts";
import { STEPS } from "../core/quantise.ts";
import { countSums, findAxes } from "../core/statistics/clusters.ts";
import { countBins } from "../core/statistics/histogram.ts";
import { SketchError } from "../errors.ts";
import { certifyOdds } from "../privacy/odds.ts";
import { findRate } from "../privacy/mechanisms.ts";
import { compareRationals } from "../privacy/rational.ts";
import { UNIT } from "../privacy/samplers.ts";
import {
  type Campaign,
  type ClustersPart,
  type FourierPart,
  type HistogramPart,
  type NoiseRelease,
  PLAN_FIX,
  type PhaseRelease,
  type PlanFields,
  type SumRelease,
} from "./fields.ts";
import { countFeatures } from "./plan.ts";

const MOST_MATRIX = 2 ** 24;
const MOST_SUMS = 2 ** 21;
/** No record adds more to a sum. */
const MOST_UNIT = 2 ** 15;
const MOST_SUMMED = 4096;
const MOST_CANDIDATES = 64;

/** Whether a rule holds, the field that it is about, and the rule where it is not obvious. */
type Rule = readonly [holds: boolean, field: string, rule?: string];

function check(rules: readonly Rule[]): void {
  for (const [holds, field, rule = "is not what plans of this kind have"] of rules) {
    if (!holds) throw new SketchError("plan", field, rule, PLAN_FIX);
  }
}

const sum = (numbers: readonly number[]): number => numbers.reduce((total, n) => total + n, 0);
const areDistinct = (items: readonly unknown[]): boolean => new Set(items).size === items.length;
const divides = (r: number, m: number): boolean => r > 0 && m % r === 0;

/** Check the fields of a plan against each other, and its noise against its promise. */
export function requireValid(plan: PlanFields): void {
  const { statistic, release, window, dimensions, least_records: least, most_records: most } = plan;
  const isFourier = statistic.kind === "fourier";
  const isMasked = isFourier && statistic.measurements_per_record < statistic.n_frequencies;
  const isReport = release.kind === "phase.v1";
  const isSecret = release.neighbouring === "add-remove-one";
  const isDevice = release.unit === "device";
  const isHidden = isSecret || isDevice;
  check([
    [plan.ring_bits === 64, "ring_bits"],
    [dimensions.length > 0 && areDistinct(dimensions.map(({ name }) => name)), "dimensions", "must differ in name"],
    ...dimensions.map(
      ({ name, levels, lower, upper, missing, step = 0, transform }): Rule => [
        levels
          ? levels.length > 1 && areDistinct(levels) && [undefined, ...levels].includes(missing as string) && !step
          : typeof missing !== "string" &&
            (!step || (step >= 1e-15 * Math.max(-lower!, upper!) && step <= upper! - lower!)) &&
            !(transform && transform.resolution <= 0),
        `dimensions.${name}`,
      ],
    ),
    ...listStatisticRules(plan, isReport),
    [release.epsilon[0] > 0n, "release.epsilon", "must be greater than zero"],
    [!isDevice || !isSecret, "release.neighbouring", "cannot be add-remove-one where the unit is a device"],
    [!isHidden || window.kind === "time", "window.kind", "must be time where the number of records is hidden"],
    [!isHidden || !isMasked, "statistic.measurements_per_record", "cannot mask where the number of records is hidden"],
    [isHidden ? least === Number(isDevice) : least > 0, "least_records", "must suit what the plan hides"],
    [least <= most, "most_records", "must be at least least_records"],
    // Sums are exact in doubles up to 2^53.
    [most * MOST_UNIT < 2 ** 53, "most_records", "must leave the sums of this software exact"],
    [!isDevice || isFourier || most === 1, "most_records", "must be 1: a mean of counts would be 0"],
    [release.noise_by === (release.kind === "sum.v1" ? "both-servers" : "device"), "release.noise_by"],
    [plan.payload_width > Number(release.kind === "sum.v1") && plan.payload_width <= 8, "payload_width"],
    ...(isReport ? listReportRules(release, plan, isMasked) : listNoiseRules(release, plan, isMasked)),
    ...listWindowRules(plan, isSecret),
    ...plan.labels.map(({ name, values }): Rule => [values.length > 0, `labels.${name}`]),
  ]);
  if (plan.campaign) requirePhase(plan, plan.campaign);
  if (isReport) certifyOdds((release.odds[0] * UNIT) / release.odds[1], release.epsilon, countReports(plan));
}

/** Return the number of features, dimensions or clusters that a sketch carries. */
const countReports = (plan: PlanFields): number => countFeatures(plan)[2];

function listStatisticRules(plan: PlanFields, isReport: boolean): Rule[] {
  const { statistic } = plan;
  if (statistic.kind === "fourier") return listFourierRules(statistic, plan);
  if (statistic.kind === "clusters") return listClustersRules(statistic, plan);
  return listHistogramRules(statistic, plan, isReport);
}

function listFourierRules(part: FourierPart, { dimensions }: PlanFields): Rule[] {
  const { n_frequencies: m, measurements_per_record: r, frequencies_per_sketch: carried, radius_law: law } = part;
  const { sigma_low: low, sigma_high: high, tail_share: share, tail_high: far } = law;
  const axes = sum(dimensions.map(({ levels }) => levels?.length ?? 1));
  return [
    [part.amplitude === AMPLITUDE, "statistic.amplitude", `must be ${AMPLITUDE}`],
    [m > 0 && m * axes <= MOST_MATRIX, "statistic.n_frequencies"],
    [divides(r, m), "statistic.measurements_per_record"],
    [divides(carried, m) && (m === r || m === carried), "statistic.frequencies_per_sketch"],
    // Scales are drawn by rejection, which would take for ever beyond.
    [low > 0 && low <= high && high <= 100 * low && share >= 0 && share <= 1, "statistic.radius_law"],
    [!share || (high <= far && far <= 100 * high), "statistic.radius_law"],
  ];
}

function listHistogramRules(part: HistogramPart, { dimensions }: PlanFields, isReport: boolean): Rule[] {
  const { bins_log2: bits, dimensions_per_sketch: carried } = part;
  const bins = dimensions.map((dimension, i) => countBins(dimension, bits[i]!));
  const kinds = isReport ? dimensions.map(({ levels }) => !levels) : [];
  const areAlike = (items: readonly unknown[]): boolean => new Set(items).size < 2;
  return [
    [divides(carried, dimensions.length), "statistic.dimensions_per_sketch"],
    [
      bits.length === dimensions.length &&
        dimensions.every(({ levels }, i) => (levels ? bits[i] === 0 : bits[i]! > 0 && bits[i]! <= 12)) &&
        sum(bins) <= MOST_SUMS &&
        (areAlike(bins) || (!isReport && carried === bits.length)) &&
        areAlike(kinds),
      "statistic.bins_log2",
    ],
  ];
}

function listClustersRules(part: ClustersPart, { dimensions, release }: PlanFields): Rule[] {
  const { centres, weights, cap, origins, radii, units, candidates, clusters_per_sketch: carried } = part;
  const axes = findAxes(dimensions, part);
  const [k, d, e] = [centres.length, axes.assigned.length, axes.summed.length];
  const [block, totals] = countSums(part, axes);
  const isIn = (values: readonly number[], least: number, most: number): boolean =>
    values.every((value) => value >= least && value <= most);
  const fit = (rows: readonly number[][], n: number, least: number, most: number): boolean =>
    rows.length === k && rows.every((row) => row.length === n && isIn(row, least, most));
  const areColumns = (stated: readonly string[]): boolean => {
    const names = dimensions.map(({ name }) => name).filter((name) => stated.includes(name));
    return stated.length === names.length && stated.every((name, i) => name === names[i]);
  };
  const say = (n: number, least: number, most: number): string =>
    `must have ${k} rows of ${n}, each a whole number from ${least} to ${most}`;
  const most = Math.max(units.square, units.total, 1);
  return [
    [release.kind !== "phase.v1", "release", "cannot be phase reports of clusters"],
    [areColumns(part.assigned) && d > 0, "statistic.assigned", "must be names of columns, in their order"],
    [areColumns(part.summed), "statistic.summed", "must be names of columns, in their order"],
    [e <= MOST_SUMMED, "statistic.summed", `must have at most ${MOST_SUMMED} coordinates`],
    [k > 0 && fit(centres, d, -STEPS, STEPS), "statistic.centres", say(d, -STEPS, STEPS)],
    [
      weights.length === d && isIn(weights, 1, 2 ** 31) && sum(weights) < 2 ** 31,
      "statistic.weights",
      `must be ${d} numbers, each at least 1, and below 2^31 in sum`,
    ],
    ...Object.entries(units).map(
      ([name, unit]): Rule => [
        isIn([unit], Number(name === "count" || (name === "residual" && e > 0)), MOST_UNIT),
        `statistic.units.${name}`,
        `must be at most ${MOST_UNIT}, and positive where it is needed`,
      ],
    ),
    [
      units.presence > 0 === axes.optional.length > 0,
      "statistic.units.presence",
      "must be positive exactly where a summed column can be missing",
    ],
    [cap > 0 && BigInt(cap) < 2n ** 63n / BigInt(most), "statistic.cap", `must be positive, and below 2^63 / ${most}`],
    [!e || fit(origins, e, -STEPS, STEPS), "statistic.origins", say(e, -STEPS, STEPS)],
    [!e || fit(radii, e, 1, 2 * STEPS), "statistic.radii", say(e, 1, 2 * STEPS)],
    [
      candidates.length <= (units.total && MOST_CANDIDATES) && candidates.every((rows) => fit(rows, d, -STEPS, STEPS)),
      "statistic.candidates",
      `must be ${MOST_CANDIDATES} at most, none where units.total is 0, and each ${say(d, -STEPS, STEPS)}`,
    ],
    [divides(carried, k), "statistic.clusters_per_sketch", `must be a divisor of ${k}`],
    [k * block + totals <= MOST_SUMS, "statistic.centres", `must give at most ${MOST_SUMS} sums`],
    [part.norm === "l1", "statistic.norm", "must be l1, the norm of the noise"],
  ];
}

/**
 * Return the L1 bounds that a sensitivity is made of: what each of two records moves, what both
 * together move once, and the unit of a secret number of records.
 */
function measureShares(plan: PlanFields): [each: number, once: number, count: number] {
  const { statistic, dimensions } = plan;
  if (statistic.kind === "histogram") return [statistic.dimensions_per_sketch, 0, 1];
  if (statistic.kind === "fourier") {
    const r = Math.min(statistic.measurements_per_record, statistic.frequencies_per_sketch);
    return [23162 * r, 0, AMPLITUDE];
  }
  const { residual, count, square, beyond, presence, total } = statistic.units;
  const nOptional = findAxes(dimensions, statistic).optional.length;
  const totals = total && (1 + statistic.candidates.length) * total;
  return [count + square + residual + nOptional * presence, beyond + totals, count];
}

/** Return the rules that the sensitivity is the enumerated one, and that the noise keeps epsilon. */
function listNoiseRules(release: NoiseRelease | SumRelease, plan: PlanFields, isMasked: boolean): Rule[] {
  const { statistic } = plan;
  const { mechanism, sensitivity, neighbouring, count_scale: c } = release;
  const isFourier = statistic.kind === "fourier";
  const isKNorm = mechanism === "discrete-knorm";
  if (!isKNorm && mechanism !== "discrete-laplace") {
    const rule = "must be discrete-knorm or discrete-laplace: this software draws no other noise";
    throw new SketchError("version", "release.mechanism", rule, "use the Python agent for this study");
  }
  const isSecret = neighbouring === "add-remove-one";
  const [each, once, count] = measureShares(plan);
  const unit = isKNorm ? 1365 : count;
  // The secret number of records is one more coordinate; K-norm noise covers it by its radius.
  const value = isKNorm ? (isSecret ? 1365 : 2730) : (isSecret ? 1 : 2) * each + once + c;
  const rate = findRate(release.epsilon, BigInt(value || 1));
  return [
    [
      !isKNorm || (isFourier && !isMasked),
      "release.mechanism",
      "must be discrete-laplace with masks, bins or clusters",
    ],
    [c === (isSecret ? unit : 0), "release.count_scale"],
    [
      sensitivity.value === value && sensitivity.norm === (isKNorm ? "gon24" : "l1"),
      "release.sensitivity",
      `must be ${value}, the largest change by one record`,
    ],
    [release.delta[0] === 0n, "release.delta", "must be 0 with this mechanism"],
    [rate > 0n && compareRationals(release.scale, [UNIT, rate]) === 0, "release.scale", "must be that of epsilon"],
    ...(release.kind === "sum.v1" ? listSumRules(release, plan) : []),
  ];
}

function listReportRules({ mechanism, unit, arc, odds }: PhaseRelease, plan: PlanFields, isMasked: boolean): Rule[] {
  const { statistic, dimensions } = plan;
  const circle = statistic.kind === "histogram" ? countBins(dimensions[0]!, statistic.bins_log2[0]!) : PHASES;
  const [p, q] = odds;
  return [
    [mechanism === "phase-report" && unit === "device" && plan.most_records === 1 && !isMasked, "release"],
    [plan.payload_width === 2, "payload_width", "must be 2 with phase reports"],
    [2 * arc + 1 < circle, "release.arc", "must leave a place outside"],
    [p >= q && p < 2048n * q && (p * UNIT) % q === 0n, "release.odds", "must be 1 to 2048, in steps of 2^-52"],
  ];
}

function listSumRules({ parts }: SumRelease, plan: PlanFields): Rule[] {
  const [, n, nCarried] = countFeatures(plan);
  return [
    [nCarried === n, "release", "must carry all of the sum in every report"],
    [plan.window.kind === "time", "window.kind", "must be time with a secure sum"],
    [plan.least_records <= 1, "least_records", "must be at most 1 with a secure sum"],
    [parts > 0 && parts <= 64, "release.parts"],
  ];
}

function listWindowRules({ window, least_records, most_records, late_rule }: PlanFields, isSecret: boolean): Rule[] {
  const { kind, origin, length_s, length, end } = window;
  const isBounded = late_rule === "leave-out-outside";
  if (kind === "count") {
    return [
      [!length_s && !origin && end === undefined && !isBounded, "window", "cannot have times with windows by count"],
      [length > 0 && least_records <= length && length <= most_records, "window.length"],
    ];
  }
  return [
    [length_s > 0 && length === 0, "window.length_s"],
    [origin > 0 || !(isSecret || isBounded), "window.origin", "must be the start of the study"],
    [end === undefined || (isBounded && end > origin && (end - origin) % length_s === 0), "window.end"],
  ];
}

/** Check the terms of a campaign, and that a plan keeps those of its phase. */
function requirePhase(plan: PlanFields, campaign: Campaign): void {
  const { statistic, release, window, most_clusters: most } = plan;
  const { number, phases, columns, most_clusters, most_records, most_payload_bytes } = campaign;
  if (campaign.devices === "drawn") {
    const rule = "must be all: this software follows to no later phase, which a device may be drawn for";
    throw new SketchError("version", "campaign.devices", rule, "use the Python agent for this study");
  }
  const kinds = phases.map((each) => each.statistic).join();
  check([
    [phases.length >= 2 && phases.length <= 8, "campaign.phases", "must be 2 to 8"],
    [number < phases.length, "campaign.number", "must be one of the phases"],
    [/^(histogram,)?fourier(,clusters)*$/.test(kinds), "campaign.phases", "must be a pilot or none, a sketch, then looks"],
    [most_clusters > 0, "campaign.most_clusters", "must be at least 1"],
    [most_records > 0, "campaign.most_records", "must be at least 1"],
    [most_payload_bytes > 0, "campaign.most_payload_bytes", "must be at least 1"],
    [release.kind !== "sum.v1", "release", "cannot be sum.v1 in a campaign"],
    [plan.late_rule === "leave-out-outside", "late_rule", "must be leave-out-outside in a campaign"],
    [columns.length > 0 && areDistinct(columns.map(({ name }) => name)), "campaign.columns", "must differ in name"],
    ...phases.map(({ epsilon: [p], delta: [q, r], window: { kind, origin, length_s, length, end = 0 } }, i): Rule => {
      const isWhole = kind === "time" && !length && origin > 0 && end > origin && (end - origin) % length_s === 0;
      const isApart = end <= (phases[i + 1]?.window.origin ?? end);
      return [p > 0n && q < r && isWhole && isApart, "campaign.phases", "must have epsilon, and follow each other in time"];
    }),
  ]);
  const phase = phases[number]!;
  const k = statistic.kind === "clusters" ? statistic.centres.length : most === "unknown" ? 0 : most;
  check([
    [statistic.kind === phase.statistic, "statistic.kind", `must be ${phase.statistic} here`],
    [compareRationals(release.epsilon, phase.epsilon) <= 0, "release.epsilon", "must be at most that of its phase"],
    // Both were read by one schema, so that their fields have one order.
    [JSON.stringify(window) === JSON.stringify(phase.window), "window", "must be that of its phase"],
    [plan.most_records <= most_records, "most_records", `must be at most ${most_records} in this campaign`],
    ...plan.dimensions.flatMap((dimension) => listColumnRules(dimension, campaign)),
    [statistic.kind !== "clusters" || !statistic.candidates.length, "statistic.candidates", "must be none in a campaign"],
    [k <= most_clusters, "most_clusters", `must be at most ${most_clusters} in this campaign`],
  ]);
}

function listColumnRules({ name, unit, levels, lower, upper }: Dimension, { columns }: Campaign): Rule[] {
  const field = `dimensions.${name}`;
  const known = columns.find((each) => each.name === name);
  const isInside = lower! >= known?.lower! && upper! <= known?.upper!;
  return [
    [known !== undefined, field, "must be a column of the campaign"],
    [unit === known?.unit, `${field}.unit`, "must be that of the campaign"],
    [JSON.stringify(levels) === JSON.stringify(known?.levels), `${field}.levels`, "must be those of the campaign"],
    [!!levels || isInside, field, "must have bounds inside those of the campaign"],
  ];
}
