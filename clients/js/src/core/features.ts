/** Step 3 of the sketch: a 16-bit phase to (cos, sin) by a fixed sequence of integer operations. */

/** A, the bound on the modulus of an integer feature. */
export const AMPLITUDE = 16380;
/** Phases of a turn. */
export const PHASES = 65536;

/** Return the rounded high half of a product of two 16-bit numbers. */
function high(a: number, b: number): number {
  return (a * b + 0x4000) >> 15;
}

/** Return the integer feature of a phase from 0 to 65535. */
export function computeFeature(phase: number): [cosine: number, sine: number] {
  const t = 4 * (phase & 0x3fff) + 2 - 0x8000;
  const t2 = high(t, t);
  const even = high(t2, high(t2, 175) - 3567) + 11581;
  const odd = high(t >> 1, high(t2, high(t2, 58) - 1871) + 18191);
  const quarter = phase >> 14;
  const c = quarter === 0 || quarter === 3 ? 1 : -1;
  const s = quarter < 2 ? 1 : -1;
  return [c * even - s * odd, s * even + c * odd];
}

/**
 * Return the least phase that has the same feature.
 *
 * Some neighbouring phases share one, the last and the first among them.
 */
export function findLeastPhase(phase: number): number {
  const own = computeFeature(phase);
  for (const other of [(phase + 1) % PHASES, phase - 1]) {
    if (other < 0 || other > phase) continue;
    const feature = computeFeature(other);
    if (feature[0] === own[0] && feature[1] === own[1]) return other;
  }
  return phase;
}
