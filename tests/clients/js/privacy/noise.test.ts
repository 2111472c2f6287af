import assert from "node:assert/strict";
import { test } from "node:test";

import type { Bytes } from "../../../../clients/js/src/bytes.ts";
import { certifyOdds } from "../../../../clients/js/src/privacy/odds.ts";
import {
  drawInPolygon,
  findLeastRadius,
  findRate,
  makeKNorm,
  makeLaplace,
} from "../../../../clients/js/src/privacy/mechanisms.ts";
import { parseRational, type Rational } from "../../../../clients/js/src/privacy/rational.ts";
import { drawBelow, SystemSource } from "../../../../clients/js/src/privacy/source.ts";
import { given, givenNumber, seeded } from "../sources.ts";
import { readVectors } from "../vectors.ts";

/** Return the mean of numbers, and its standard error. */
function estimate(values: number[]): [mean: number, error: number] {
  const mean = values.reduce((sum, x) => sum + x, 0) / values.length;
  const variance = values.reduce((sum, x) => sum + (x - mean) ** 2, 0) / (values.length - 1);
  return [mean, Math.sqrt(variance / values.length)];
}

/** Whether a mean is within 5 standard errors: false alarms below one in a million. */
const isNear = ([mean, error]: [number, number], expected: number): boolean => Math.abs(mean - expected) < 5 * error;

test("Laplace noise has its own variance, and neither 2/3 nor 3/2 of the scale", () => {
  const rate = findRate([1n, 1n], 50n);
  const noise = makeLaplace(3000, rate)(seeded("laplace")).map(Number);
  const q = Math.exp(-1 / 50);
  const squares = estimate(noise.map((y) => y * y));
  assert.ok(isNear(squares, (2 * q) / (1 - q) ** 2));
  assert.ok(isNear(estimate(noise), 0));
  for (const ratio of [2 / 3, 3 / 2]) assert.ok(!isNear(squares, ((2 * q) / (1 - q) ** 2) * ratio ** 2));
});

test("zero is as frequent in Laplace noise as its law says: minus zero is drawn again", () => {
  const rate = findRate([1n, 1n], 2n);
  const noise = makeLaplace(4000, rate)(seeded("zero"));
  const q = Math.exp(-1 / 2);
  const zeros = estimate(noise.map((y) => Number(y === 0n)));
  assert.ok(isNear(zeros, (1 - q) / (1 + q)));
  assert.ok(!isNear(zeros, 1 - q));
});

test("K-norm noise has the variance of its law in every part", () => {
  const [m, sensitivity, nCounts] = [40, 2730, 1];
  const rate = findRate([1n, 1n], BigInt(sensitivity));
  const draw = makeKNorm(m, nCounts, rate);
  const source = seeded("knorm");
  const releases = Array.from({ length: 40 }, () => draw(source).map(Number));
  assert.ok(releases.every((release) => release.length === 2 * m + nCounts));
  const one = 1 / Math.expm1(1 / sensitivity);
  const n = 2 * m + nCounts + 1;
  const meanSquare = (Number(findLeastRadius(n - 1)) + n * one) ** 2 + n * one * (1 + one);
  // The polygon's second moment, and that of the interval which the count is drawn from.
  const real = estimate(releases.map((release) => estimate(release.slice(0, m).map((x) => x * x))[0]));
  const imaginary = estimate(releases.map((release) => estimate(release.slice(m, 2 * m).map((x) => x * x))[0]));
  const second = secondMoment();
  for (const found of [real, imaginary]) {
    assert.ok(isNear(found, second * meanSquare));
    for (const ratio of [2 / 3, 3 / 2]) assert.ok(!isNear(found, second * meanSquare * ratio ** 2));
  }
  assert.ok(isNear(estimate(releases.map((release) => release[2 * m]! ** 2)), meanSquare / 3));
});

/** Return the mean of x^2 over the polygon, by the shoelace formula. */
function secondMoment(): number {
  const corners = [[12, 2], [11, 5], [10, 7]].flatMap(([x, y]) => [[x!, y!], [y!, x!]]);
  const all = corners.flatMap(([x, y]) => [[x!, y!], [x!, -y!], [-x!, y!], [-x!, -y!]] as [number, number][]);
  const sorted = all.toSorted((a, b) => Math.atan2(a[1], a[0]) - Math.atan2(b[1], b[0]));
  let [area, moment] = [0, 0];
  sorted.forEach(([x, y], i) => {
    const [u, v] = sorted[(i + 1) % sorted.length]!;
    area += (x * v - y * u) / 2;
    moment += ((x * v - y * u) * (x * x + x * u + u * u)) / 12;
  });
  return moment / area;
}

test("points of the polygon are uniform: every one of a small multiple comes equally often", () => {
  const source = seeded("polygon");
  const counts = new Map<string, number>();
  const n = 40_000;
  for (let i = 0; i < n; i++) {
    const key = drawInPolygon(source, 1n).join();
    counts.set(key, (counts.get(key) ?? 0) + 1);
  }
  // Pick's theorem: area 458, and 44 points on the boundary.
  const cells = 458 + 44 / 2 + 1;
  assert.equal(counts.size, cells);
  let statistic = 0;
  for (const count of counts.values()) statistic += (count - n / cells) ** 2 / (n / cells);
  // Chi-squared with 480 degrees of freedom exceeds 640 with probability below one in a million.
  assert.ok(statistic < 640, `${statistic}`);
});

test("bounded draws are exact: what lies beyond the largest multiple is drawn again", () => {
  // Of two bytes the largest multiple of 300 is 65400.
  const source = given(Uint8Array.of(0xff, 0xff, 0x78, 0xff, 0x77, 0xff));
  assert.equal(drawBelow(source, 300n), 65399n % 300n);
  assert.equal(source.left, 0);
  assert.equal(drawBelow(givenNumber(5n), 1n), 0n);
});

test("odds are accepted up to exp(epsilon), and refused one step beyond", () => {
  const { laws, bins } = readVectors("reports");
  for (const vector of [...laws, ...bins]) {
    const epsilon = parseRational(vector.epsilon, "epsilon");
    const weight = BigInt(vector.weight);
    certifyOdds(weight, epsilon, vector.n_reports);
    assert.throws(() => certifyOdds(weight + 1n, epsilon, vector.n_reports), /release\.odds/);
  }
  const large: Rational = [100n, 1n];
  certifyOdds((1n << 63n) - 1n, large, 1);
});

test("a generator that is missing, fails or repeats itself is refused with a remedy", () => {
  const failing: [(into: Bytes) => unknown, RegExp][] = [
    [
      () => {
        throw new DOMException("no entropy", "OperationError");
      },
      /failed \(OperationError\)/,
    ],
    [() => undefined, /same byte/],
    [(into) => into.forEach((_, i) => (into[i] = i & 255)), /same bytes again/],
  ];
  assert.throws(() => new SystemSource(undefined), /getRandomValues: is missing\. Update/);
  for (const [fill, message] of failing) {
    const source = new SystemSource(fill);
    assert.throws(() => [source.drawBytes(4096), source.drawBytes(1)], message);
  }
});

test("the platform's generator is drawn in order, and no byte is given twice", () => {
  let calls = 0;
  const source = new SystemSource((into) => {
    calls++;
    into.forEach((_, i) => (into[i] = (i * calls + calls) & 255));
  });
  const drawn = [source.drawBytes(3), source.drawBytes(5000), source.drawBytes(0)];
  assert.deepEqual(drawn.map((bytes) => bytes.length), [3, 5000, 0]);
  assert.deepEqual([...drawn[0]!, ...drawn[1]!.slice(0, 3)], [1, 2, 3, 4, 5, 6]);
  assert.deepEqual([...drawn[1]!.slice(4093, 4096)], [2, 4, 6]);
  assert.equal(calls, 2);
});
