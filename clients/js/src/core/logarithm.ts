/** The logarithm, equal bit for bit on every machine, and the logarithmic scale of a dimension. */

const LN2 = 0.6931471805599453;
const LOG2_E = 1.4426950408889634;
/** T where `1 + |x| / r` overflows; every finite quotient gives at most 1024. */
const BEYOND = 1100;

/**
 * Natural logarithm of a positive finite number, by correctly rounded operations only.
 *
 * `log(f 2^e) = e log 2 + 2 artanh((f - 1) / (f + 1))` for f in [sqrt(1/2), sqrt 2), the series of
 * artanh cut after z^21.
 */
export function computeLog(x: number): number {
  let [f, e] = splitExponent(x);
  if (f < 0.7071067811865476) {
    f += f;
    e -= 1;
  }
  const z = (f - 1) / (f + 1);
  const w = z * z;
  let series = 1 / 21;
  for (let k = 9; k >= 0; k--) series = series * w + 1 / (2 * k + 1);
  return e * LN2 + 2 * (z * series);
}

/** Write x as `f 2^e` with f in [1/2, 1). */
function splitExponent(x: number): [f: number, e: number] {
  const view = new DataView(new ArrayBuffer(8));
  // Subnormal numbers have no exponent of their own.
  const lift = x < 2 ** -1022 ? 54 : 0;
  view.setFloat64(0, x * 2 ** lift);
  const high = view.getUint32(0);
  view.setUint32(0, (high & 0x800fffff) | (1022 << 20));
  return [view.getFloat64(0), (high >>> 20) - 1022 - lift];
}

/**
 * Map data units to the logarithmic scale: `T(x) = sign(x) log2(1 + |x| / r)`.
 *
 * Infinite numbers become `sign(x) 1100`; what is not a number stays so.
 */
export function compress(x: number, resolution: number): number {
  const s = 1 + Math.abs(x) / resolution;
  if (Number.isNaN(s)) return s;
  const t = s === Infinity ? BEYOND : computeLog(s) * LOG2_E;
  return x < 0 || Object.is(x, -0) ? -t : t;
}
