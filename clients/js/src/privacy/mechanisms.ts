/**
 * Noise of sums: discrete Laplace, and K-norm noise on the lattice 24-gon, both exactly sampled.
 *
 * All noise of a release is drawn before its sums are read, so how long a draw takes tells nothing
 * of a record.
 */
import { type Rational } from "./rational.ts";
import { drawGeometric, UNIT } from "./samplers.ts";
import { drawCentred, type RandomSource } from "./source.ts";

/** Draws fresh noise for all coordinates of a release: real parts, imaginary parts, any count. */
export type DrawNoise = (source: RandomSource) => bigint[];

/** Return the largest rate that keeps epsilon: `floor(epsilon 2^52 / sensitivity)`. */
export function findRate([p, q]: Rational, sensitivity: bigint): bigint {
  return (p * UNIT) / (q * sensitivity);
}

/** Draw `P(y)` proportional to `exp(-|y| rate / 2^52)`: a sign and a magnitude, one zero of two. */
function drawLaplace(source: RandomSource, rate: bigint): bigint {
  for (;;) {
    const magnitude = drawGeometric(source, rate);
    const isNegative = source.drawBytes(1)[0]! > 127;
    if (!isNegative) return magnitude;
    if (magnitude) return -magnitude;
  }
}

/** Return the noise of the seed paper: independent on each of `n` coordinates. */
export function makeLaplace(n: number, rate: bigint): DrawNoise {
  return (source) => Array.from({ length: n }, () => drawLaplace(source, rate));
}

/** The polygon's largest coordinate, area, and lattice points on its boundary. */
const [REACH, AREA, BOUNDARY] = [12n, 458n, 44n];
/** Triples (p, q, c): a point lies in t P iff `p high + q low <= c t` for each. */
const FACETS = [
  [1n, 0n, 12n],
  [1n, 1n, 17n],
  [2n, 1n, 27n],
  [3n, 1n, 38n],
] as const;

/** Draw a point uniform on the lattice points of `radius P`, from the square around it. */
export function drawInPolygon(source: RandomSource, radius: bigint): [x: bigint, y: bigint] {
  for (;;) {
    const x = drawCentred(source, REACH * radius);
    const y = drawCentred(source, REACH * radius);
    const [a, b] = [x < 0n ? -x : x, y < 0n ? -y : y];
    const [high, low] = a > b ? [a, b] : [b, a];
    if (FACETS.every(([p, q, c]) => p * high + q * low <= c * radius)) return [x, y];
  }
}

/** Return the least radius of noise on D real coordinates: `ceil((D + 1) / 2 - boundary / (4 area))`. */
export function findLeastRadius(d: number): bigint {
  const [numerator, denominator] = [BigInt(d + 1) * 2n * AREA - BOUNDARY, 4n * AREA];
  return (numerator + denominator - 1n) / denominator;
}

/**
 * Return K-norm noise on m complex features: one radius T for all, each feature uniform on T P.
 *
 * T is the least radius and D + 1 geometric variates; it never leaves this call.
 *
 * @param nCounts 1 if the sum ends with the number of records times the sensitivity; otherwise 0.
 */
export function makeKNorm(m: number, nCounts: number, rate: bigint): DrawNoise {
  const d = 2 * m + nCounts;
  return (source) => {
    let radius = findLeastRadius(d);
    for (let i = 0; i <= d; i++) radius += drawGeometric(source, rate);
    const points = Array.from({ length: m }, () => drawInPolygon(source, radius));
    const counts = Array.from({ length: nCounts }, () => drawCentred(source, radius));
    return [...points.map(([x]) => x), ...points.map(([, y]) => y), ...counts];
  };
}
