/** Frequencies from a published seed: the same bits on every machine. */
import { type Bytes, concat, utf8 } from "../bytes.ts";
import { require } from "../errors.ts";
import { computeLog } from "./logarithm.ts";
import { type Interval, roundHalfEven, STEPS } from "./quantise.ts";
import { WordStream } from "./seeds.ts";

const TWO_PI = 6.283185307179586;

/** Law of the distance of frequencies from the origin, as plans write it. */
export interface RadiusLaw {
  kind: "adapted" | "folded-gaussian" | "gaussian";
  sigma_low: number;
  sigma_high: number;
  tail_share: number;
  tail_high: number;
}

/** Integer frequencies W in `2^-bits` turns a quantisation step. */
export interface FrequencyMatrix {
  /** One array of m numbers a coordinate. */
  turns: Int16Array<ArrayBuffer>[];
  /** b, 16 to 32. */
  bits: number;
}

/** Return the bytes whose SHA-256 is the digest of W. */
export function encodeFrequencies({ turns, bits }: FrequencyMatrix): Bytes {
  const rows = turns.map((row) => {
    const view = new DataView(new ArrayBuffer(2 * row.length));
    row.forEach((turn, j) => view.setInt16(2 * j, turn, true));
    return new Uint8Array(view.buffer);
  });
  return concat(utf8(`${turns.length},${turns[0]!.length},${bits};`), ...rows);
}

/**
 * Draw the frequency matrix of a plan.
 *
 * @param seed 32 published bytes.
 * @param m The number of frequencies.
 * @param box The intervals of the d coordinates.
 * @param scale A public guess of the spread along each of them.
 */
export function drawFrequencies(
  seed: Uint8Array,
  m: number,
  law: RadiusLaw,
  box: readonly Interval[],
  scale: readonly number[],
): FrequencyMatrix {
  const d = box.length;
  const direction = take(gaussians(new WordStream(seed, "frequencies/direction")), d * m);
  const norm = new Float64Array(m);
  for (let j = 0; j < m; j++) {
    let sum = 0;
    for (let i = 0; i < d; i++) sum += direction[j * d + i]! * direction[j * d + i]!;
    norm[j] = Math.sqrt(sum);
  }
  const radius = drawRadii(seed, m, law, norm);
  const sigma = drawSigmas(seed, m, law);
  const turns = box.map(() => new Float64Array(m));
  let largest = 0;
  box.forEach((interval, i) => {
    const perStep = interval.halfWidth / scale[i]! / (STEPS * TWO_PI);
    for (let j = 0; j < m; j++) {
      const omega = (radius[j]! / (norm[j]! * sigma[j]!)) * direction[j * d + i]!;
      turns[i]![j] = omega * perStep;
      largest = Math.max(largest, Math.abs(turns[i]![j]!));
    }
  });
  let bits = 32;
  while (bits >= 16 && !(largest * 2 ** bits < STEPS + 1 && roundHalfEven(largest * 2 ** bits) <= STEPS)) {
    bits--;
  }
  require(
    bits >= 16,
    "plan",
    "dimensions.scale",
    "a frequency turns more than once in two quantisation steps",
    "ask the study's operator to raise the scale or narrow the bounds",
  );
  return { turns: turns.map((row) => Int16Array.from(row, (t) => roundHalfEven(t * 2 ** bits))), bits };
}

function drawRadii(seed: Uint8Array, m: number, law: RadiusLaw, norm: Float64Array): Float64Array {
  if (law.kind === "gaussian") return norm;
  const normal = gaussians(new WordStream(seed, "frequencies/radius"));
  return law.kind === "adapted" ? take(adaptedRadii(normal), m) : take(normal, m).map(Math.abs);
}

/** Return the scales of the features; body and tail each take theirs in order. */
function drawSigmas(seed: Uint8Array, m: number, law: RadiusLaw): Float64Array {
  const { sigma_low, sigma_high, tail_share, tail_high } = law;
  const body = logUniform(new WordStream(seed, "frequencies/sigma"), sigma_low, sigma_high);
  const tail = logUniform(new WordStream(seed, "frequencies/sigma-tail"), sigma_high, tail_high);
  return Float64Array.from({ length: m }, (_, j) => {
    const isTail = Math.floor((j + 1) * tail_share) > Math.floor(j * tail_share);
    return (isTail ? tail : body).next().value as number;
  });
}

function take(numbers: Generator<number>, count: number): Float64Array {
  return Float64Array.from({ length: count }, () => numbers.next().value as number);
}

/** Marsaglia's polar method: attempt i reads words 2i, 2i + 1 and yields two numbers or none. */
function* gaussians(stream: WordStream): Generator<number> {
  for (;;) {
    const u = 2 * stream.unit() - 1;
    const v = 2 * stream.unit() - 1;
    const s = u * u + v * v;
    if (s >= 1) continue;
    const factor = Math.sqrt((-2 * computeLog(s)) / s);
    yield u * factor;
    yield v * factor;
  }
}

/** R = sqrt(q - 4) for the squared norm q of a Gaussian in three dimensions, given q >= 4. */
function* adaptedRadii(normal: Generator<number>): Generator<number> {
  for (;;) {
    let q = 0;
    for (const x of take(normal, 3)) q += x * x;
    if (q >= 4) yield Math.sqrt(q - 4);
  }
}

/** Uniform on [low, high], kept with probability low / sigma: density as 1 / sigma. */
function* logUniform(stream: WordStream, low: number, high: number): Generator<number> {
  for (;;) {
    if (low === high) {
      yield low;
      continue;
    }
    const sigma = low + (high - low) * stream.unit();
    if (stream.unit() * sigma <= low) yield sigma;
  }
}
