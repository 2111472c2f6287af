import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { test } from "node:test";

import { toHex } from "../../../../clients/js/src/bytes.ts";
import { AMPLITUDE, computeFeature, findLeastPhase, PHASES } from "../../../../clients/js/src/core/features.ts";
import { drawFrequencies } from "../../../../clients/js/src/core/frequencies.ts";
import { Interval } from "../../../../clients/js/src/core/quantise.ts";
import { ClustersStatistic } from "../../../../clients/js/src/core/statistics/clusters.ts";
import { Shake256 } from "../../../../clients/js/src/core/shake.ts";

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

test("frequencies that turn faster than 16 bits can follow are refused", () => {
  const law = { kind: "gaussian", sigma_low: 1, sigma_high: 1, tail_share: 0, tail_high: 1 } as const;
  assert.throws(() => drawFrequencies(new Uint8Array(32), 4, law, [new Interval(0, 1)], [1e-9]), /dimensions\.scale/);
});

test("squared distances are exact to the last of 63 bits", () => {
  const dimensions = ["x", "y"].map((name) => ({ name, unit: "1" }));
  const units = { residual: 0, count: 1, square: 1, beyond: 1, presence: 0, total: 0 };
  // From the corner (32767, 32767), the second centre is nearer by 1.
  const centres = [[-32767, 32766], [-32767, 32767]];
  const distance = (2n ** 31n - 2n) * 65534n ** 2n;
  const sumUp = (cap: bigint): number[] => {
    const summed = { summed: [], origins: [], radii: [] };
    const rule = { assigned: ["x", "y"], ...summed, centres, weights: [2 ** 31 - 2, 1], cap, units, candidates: [] };
    const statistic = new ClustersStatistic(dimensions, [new Interval(-1, 1), new Interval(-1, 1)], rule, [0, 1]);
    const sums = new Float64Array(statistic.nCoordinates);
    assert.ok(statistic.add(Float64Array.of(1, 1), 0, sums));
    return Array.from(sums);
  };
  assert.deepEqual(sumUp(distance), [0, 0, 1, 1, 1]);
  assert.deepEqual(sumUp(distance + 1n), [0, 0, 1, 0, 0]);
});
