/** Sums around given centres, cluster by cluster: the statistic of a second look. */
import { type Dimension, encode } from "../encoder.ts";
import type { Interval } from "../quantise.ts";
import type { Statistic } from "./interface.ts";

type Rows = number[][];

/** What a record adds at most to each kind of sum; 0 leaves the sum out. */
export interface Units {
  residual: number;
  count: number;
  square: number;
  beyond: number;
  presence: number;
  total: number;
}

/** The numbers of the statistic, as the plan writes them: coordinates in steps, columns by name. */
export interface ClustersRule {
  assigned: string[];
  summed: string[];
  centres: Rows;
  weights: number[];
  cap: number | bigint;
  origins: Rows;
  radii: Rows;
  units: Units;
  candidates: Rows[];
}

/** Coordinates by their numbers; `optional` are summed ones that can be missing. */
export interface ClustersAxes {
  assigned: number[];
  summed: number[];
  optional: number[];
}

/** Return the coordinates that assign a record, and those that are summed. */
export function findAxes(dimensions: readonly Dimension[], { assigned, summed }: ClustersRule): ClustersAxes {
  const owners = dimensions.flatMap((dimension) => (dimension.levels ?? [""]).map(() => dimension));
  const find = (isMeant: (owner: Dimension) => boolean): number[] =>
    [...owners.keys()].filter((i) => isMeant(owners[i]!));
  return {
    assigned: find(({ name }) => assigned.includes(name)),
    summed: find(({ name }) => summed.includes(name)),
    optional: find(
      ({ name, missing }) => summed.includes(name) && !assigned.includes(name) && missing === undefined,
    ),
  };
}

/** Return how many sums the block of one cluster has, and how many totals follow all blocks. */
export function countSums(rule: ClustersRule, { summed, optional }: ClustersAxes): [block: number, totals: number] {
  const { units, candidates } = rule;
  const block = 1 + Number(units.square > 0) + summed.length + (units.presence ? optional.length : 0);
  return [block, Number(units.beyond > 0) + (units.total ? 1 + candidates.length : 0)];
}

/** Counts, squared distances and residuals, clipped in L1, of the records nearest to each centre. */
export class ClustersStatistic implements Statistic {
  readonly nCoordinates: number;
  readonly #dimensions: readonly Dimension[];
  readonly #box: readonly Interval[];
  readonly #rule: ClustersRule;
  readonly #carried: readonly number[];
  readonly #axes: ClustersAxes;
  readonly #weights: readonly bigint[];
  readonly #cap: bigint;

  /** @param carried The clusters whose blocks a sketch has, ascending. */
  constructor(
    dimensions: readonly Dimension[],
    box: readonly Interval[],
    rule: ClustersRule,
    carried: readonly number[],
  ) {
    this.#dimensions = dimensions;
    this.#box = box;
    this.#rule = rule;
    this.#carried = carried;
    this.#axes = findAxes(dimensions, rule);
    this.#weights = rule.weights.map(BigInt);
    this.#cap = BigInt(rule.cap);
    const [block, totals] = countSums(rule, this.#axes);
    this.nCoordinates = carried.length * block + totals;
  }

  add(record: Float64Array, _counter: number, sums: Float64Array): boolean {
    const { units, centres, candidates } = this.#rule;
    const coordinates: number[] = [];
    this.#dimensions.forEach((dimension, i) => encode(dimension, record[i]!, coordinates));
    const steps = coordinates.map((x, i) => (Number.isFinite(x) ? this.#box[i]!.quantise(x) : NaN));
    const assigned = this.#axes.assigned.map((i) => steps[i]!);
    if (assigned.some(Number.isNaN)) return false;
    const [own, distance] = this.#findNearest(assigned, centres);
    const [residuals, isClipped] = this.#clip(steps, own);
    const block = [units.count];
    if (units.square) block.push(this.#share(units.square, distance));
    block.push(...residuals);
    if (units.presence) block.push(...this.#axes.optional.map((i) => (Number.isNaN(steps[i]) ? 0 : units.presence)));
    const place = this.#carried.indexOf(own);
    if (place >= 0) block.forEach((value, i) => (sums[place * block.length + i]! += value));
    let at = this.#carried.length * block.length;
    if (units.beyond) sums[at++]! += isClipped || distance >= this.#cap ? units.beyond : 0;
    if (!units.total) return true;
    for (const each of [centres, ...candidates]) {
      sums[at++]! += this.#share(units.total, this.#findNearest(assigned, each)[1]);
    }
    return true;
  }

  /** Return the first of the nearest centres, and the squared distance, which takes up to 63 bits. */
  #findNearest(steps: readonly number[], centres: Rows): [nearest: number, distance: bigint] {
    const distances = centres.map((centre) =>
      centre.reduce((sum, c, i) => sum + this.#weights[i]! * BigInt((steps[i]! - c) ** 2), 0n),
    );
    const nearest = distances.reduce((best, distance, j) => (distance < distances[best]! ? j : best), 0);
    return [nearest, distances[nearest]!];
  }

  /** Return a unit's share of a squared distance, of which those beyond the cap are alike. */
  #share(unit: number, distance: bigint): number {
    return Number((BigInt(unit) * (distance < this.#cap ? distance : this.#cap)) / this.#cap);
  }

  /** Return the clipped residuals of a record, and whether one was cut or all were shortened. */
  #clip(steps: readonly number[], own: number): [residuals: number[], isClipped: boolean] {
    const { origins, radii, units } = this.#rule;
    const most = units.residual;
    const away = this.#axes.summed.map((i, k) => (Number.isNaN(steps[i]) ? 0 : steps[i]! - origins[own]![k]!));
    // Exact: rounding lifts no quotient of integers below 2^33 to the next integer.
    const scaled = away.map((residual, k) => Math.floor((Math.abs(residual) * most) / radii[own]![k]!));
    const sizes = scaled.map((size) => Math.min(size, most));
    const norm = sizes.reduce((sum, size) => sum + size, 0);
    const shorten = (size: number): number => (norm > most ? Math.floor((size * most) / norm) : size);
    const residuals = sizes.map((size, k) => Math.sign(away[k]!) * shorten(size));
    return [residuals, norm > most || scaled.some((size) => size > most)];
  }
}
