import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { test } from "node:test";

import { toHex } from "../../../../clients/js/src/bytes.ts";
import { Blocks } from "../../../../clients/js/src/core/blocks.ts";
import { type Dimension } from "../../../../clients/js/src/core/encoder.ts";
import { AMPLITUDE, computeFeature, findLeastPhase, PHASES } from "../../../../clients/js/src/core/features.ts";
import { drawFrequencies, encodeFrequencies } from "../../../../clients/js/src/core/frequencies.ts";
import { compress } from "../../../../clients/js/src/core/logarithm.ts";
import { MaskSchedule } from "../../../../clients/js/src/core/masks.ts";
import { Interval } from "../../../../clients/js/src/core/quantise.ts";
import { Shake256 } from "../../../../clients/js/src/core/shake.ts";
import { FourierStatistic } from "../../../../clients/js/src/core/statistics/fourier.ts";
import { findBin, HistogramStatistic, placeBin } from "../../../../clients/js/src/core/statistics/histogram.ts";
import { type Statistic } from "../../../../clients/js/src/core/statistics/interface.ts";
import { hex, type Json, readFloat, readVectors, sha256 } from "../vectors.ts";

const boxOf = (lower: number[], upper: number[]): Interval[] => lower.map((low, i) => new Interval(low, upper[i]!));
const numbers = (d: number): Dimension[] => Array.from({ length: d }, (_, i) => ({ name: `${i}`, unit: "1" }));

function sumUp(statistic: Statistic, records: Json[], first = 0): [sums: number[], unsketchable: number] {
  const sums = new Float64Array(statistic.nCoordinates);
  let unsketchable = 0;
  records.forEach((record, i) => {
    const values = Float64Array.from(record, (value) => (value === null ? NaN : (value as number)));
    if (!statistic.add(values, first + i, sums)) unsketchable++;
  });
  return [Array.from(sums), unsketchable];
}

test("SHAKE-256 is that of OpenSSL, at every length around the block and for long outputs", () => {
  const lengths = [0, 1, 3, 31, 134, 135, 136, 137, 271, 272, 273, 1000];
  for (const length of lengths) {
    const message = Uint8Array.from({ length }, (_, i) => (i * 7 + length) & 255);
    const expected = createHash("shake256", { outputLength: 1000 }).update(message).digest("hex");
    const shake = new Shake256(message);
    const taken = [1, 135, 136, 137, 591].map((count) => toHex(shake.take(count)));
    assert.equal(taken.join(""), expected);
  }
});

test("features are those of the vectors, all 65,536 of them", () => {
  const vector = readVectors("features");
  for (const [phase, cosine, sine] of vector.features) assert.deepEqual(computeFeature(phase), [cosine, sine]);
  const table = new Int16Array(2 * PHASES);
  for (let phase = 0; phase < PHASES; phase++) table.set(computeFeature(phase), 2 * phase);
  assert.equal(createHash("sha256").update(new Uint8Array(table.buffer)).digest("hex"), vector.table_sha256);
});

test("the sensitivities that plans are checked against are those of all features", () => {
  let [radius, l1, gon24] = [0, 0, 0];
  for (let phase = 0; phase < PHASES; phase++) {
    const [c, s] = computeFeature(phase);
    radius = Math.max(radius, c * c + s * s);
    l1 = Math.max(l1, Math.abs(c) + Math.abs(s));
    const [high, low] = [Math.max(Math.abs(c), Math.abs(s)), Math.min(Math.abs(c), Math.abs(s))];
    const steps = [high / 12, (high + low) / 17, (2 * high + low) / 27, (3 * high + low) / 38];
    gon24 = Math.max(gon24, ...steps);
    // Half a turn further lies the exact negative, so two records differ by twice as much.
    assert.deepEqual(computeFeature((phase + PHASES / 2) % PHASES), [-c || 0, -s || 0]);
  }
  assert.ok(radius <= AMPLITUDE ** 2);
  assert.deepEqual([l1, Math.ceil(gon24), Math.ceil(2 * gon24)], [23162, 1365, 2730]);
});

test("the least phase of a feature is the first one in the table", () => {
  const first = new Map<string, number>();
  for (let phase = 0; phase < PHASES; phase++) {
    const key = computeFeature(phase).join();
    if (!first.has(key)) first.set(key, phase);
    assert.equal(findLeastPhase(phase), first.get(key));
  }
});

for (const [index, vector] of readVectors("frequencies").entries()) {
  test(`frequencies ${index} are those of the vectors`, async () => {
    const box = boxOf(vector.lower, vector.upper);
    const matrix = drawFrequencies(hex(vector.seed), vector.n_frequencies, vector.radius_law, box, vector.scale);
    assert.equal(matrix.bits, vector.bits);
    assert.deepEqual(matrix.turns.map((row) => Array.from(row)), vector.turns);
    assert.equal(toHex(await sha256(encodeFrequencies(matrix))), vector.digest);
  });
}

test("frequencies that turn faster than 16 bits can follow are refused", () => {
  const law = { kind: "gaussian", sigma_low: 1, sigma_high: 1, tail_share: 0, tail_high: 1 } as const;
  assert.throws(() => drawFrequencies(new Uint8Array(32), 4, law, [new Interval(0, 1)], [1e-9]), /dimensions\.scale/);
});

for (const vector of readVectors("sketches")) {
  test(`sums are those of the vectors: ${vector.name}`, () => {
    const { n_frequencies: m, measurements_per_record: r, first_record: first } = vector;
    const box = boxOf(vector.lower, vector.upper);
    const frequencies = drawFrequencies(hex(vector.seed), m, vector.radius_law, box, vector.scale);
    const masks = r < m ? new MaskSchedule(hex(vector.seed), hex(vector.stream_id), m, r) : undefined;
    const statistic = new FourierStatistic(numbers(box.length), box, frequencies, masks);
    const [sums, unsketchable] = sumUp(statistic, vector.records, first);
    assert.deepEqual(sums, vector.sums);
    assert.equal(unsketchable, vector.n_unsketchable);
    const quantised = vector.records.map((record: (number | null)[]) =>
      record.includes(null) ? record.map(() => 0) : record.map((x, i) => box[i]!.quantise(x!) + 0),
    );
    assert.deepEqual(quantised, vector.quantised);
    const groups = vector.records.map((_: unknown, i: number) => masks?.groupOf(first + i));
    if (masks) assert.deepEqual(groups, vector.groups);
  });
}

test("blocks, and the block of a sketch, are those of the vectors", () => {
  for (const vector of readVectors("blocks")) {
    const blocks = new Blocks(hex(vector.seed), vector.n_frequencies, vector.frequencies_per_sketch);
    if (blocks.count > 1) assert.deepEqual(blocks.members, vector.members);
    for (const { ordinal, stream, turn, block } of vector.chosen) {
      assert.equal(blocks.choose(ordinal, stream, turn), block);
    }
  }
});

const KINDS = readVectors("kinds");

test("the logarithmic scale is that of the vectors, to the last bit", () => {
  for (const { resolution, x, t } of KINDS.logarithms) {
    const computed = x.map((text: string) => compress(readFloat(text), readFloat(resolution)));
    assert.deepEqual(computed, t.map(readFloat));
  }
});

const dimensionOf = (encoding: Json, bounds: Json = {}): Dimension => ({
  name: "x",
  unit: "1",
  ...(encoding.resolution && { transform: { kind: "log", resolution: encoding.resolution } }),
  ...(encoding.n_levels && { levels: Array.from({ length: encoding.n_levels }, (_, i) => `level ${i}`) }),
  ...(encoding.imputed !== null && { missing: encoding.imputed }),
  ...bounds,
});

function intervalOf({ transform, levels }: Dimension, lower: number, upper: number): Interval {
  if (levels) return new Interval(-0.5, levels.length - 0.5);
  const [low, high] = [lower, upper].map((x) => (transform ? compress(x, transform.resolution) : x));
  return new Interval(low!, high!);
}

test("bins are those of the vectors, and their circle has every place once", () => {
  for (const { encoding, lower, upper, bins_log2, values, bins } of KINDS.bins) {
    const dimension = dimensionOf(encoding);
    const interval = intervalOf(dimension, readFloat(lower), readFloat(upper));
    const found = values.map((text: string) => findBin(dimension, interval, bins_log2, readFloat(text)));
    assert.deepEqual(found, bins);
    const all = Array.from({ length: Math.max(...bins) + 1 }, (_, bin) => placeBin(dimension, bins_log2, bin));
    assert.deepEqual(all.toSorted((a, b) => a - b), [...all.keys()]);
  }
});

test("sums of features and of bins over columns of every kind are those of the vectors", () => {
  const dimensions: Dimension[] = KINDS.encodings.map((encoding: Json) => dimensionOf(encoding));
  const columns = dimensions.map((dimension, i) => intervalOf(dimension, KINDS.lower[i], KINDS.upper[i]));
  const box = dimensions.flatMap(({ levels }, i) => levels?.map(() => new Interval(0, 1)) ?? [columns[i]!]);
  const scale = dimensions.flatMap(({ levels }, i) => levels?.map(() => 1) ?? [KINDS.scale[i]]);
  const { seed, n_frequencies, radius_law } = KINDS.frequencies;
  const frequencies = drawFrequencies(hex(seed), n_frequencies, radius_law, box, scale);
  const bits = KINDS.histogram_bins_log2;
  const statistics: { [name: string]: Statistic } = {
    fourier: new FourierStatistic(dimensions, box, frequencies),
    histogram: new HistogramStatistic(dimensions, columns, bits, [0, 1, 2, 3]),
    "histogram of dimensions 1 and 3": new HistogramStatistic(dimensions, columns, bits, [1, 3]),
  };
  for (const [name, statistic] of Object.entries(statistics)) {
    const vector = KINDS.sums.find((one: Json) => one.statistic === name);
    assert.deepEqual(sumUp(statistic, KINDS.records), [vector.sums, vector.n_unsketchable]);
  }
});
