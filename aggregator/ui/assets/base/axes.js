// Axes of a plan: a number has one, a category one for each level; some are logarithmic.

/** The axes of some dimensions, named as the server names them. */
export function axesOf(dimensions) {
  return dimensions.flatMap((dimension) => {
    if (!dimension.levels?.length) return [{ ...dimension, resolution: dimension.transform?.resolution ?? null }];
    return dimension.levels.map((level) => ({
      name: `${dimension.name}=${level}`,
      unit: dimension.unit,
      lower: 0,
      upper: 1,
      resolution: null,
      isLevel: true,
    }));
  });
}

/** Round ticks between two values, about as many as wanted. */
export function ticksBetween(low, high, wanted) {
  const rough = (high - low) / wanted;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].find((factor) => factor * power >= rough) * power;
  const ticks = [];
  for (let i = Math.ceil(low / step); i * step <= high; i += 1) {
    // Adding 0 turns -0 into 0.
    ticks.push(i * step + 0);
  }
  return ticks;
}

/** Numbers with one digit, by sign and decade, that lie between two values. */
function decadesBetween(low, high, resolution, { digits, every, skip }) {
  const largest = Math.ceil(Math.log10(Math.max(Math.abs(low), Math.abs(high), resolution)));
  const ticks = [0];
  for (let e = Math.floor(Math.log10(resolution)) + skip; e <= largest; e += 1) {
    if (e % every) continue;
    for (const digit of digits) {
      const value = Number(`${digit}e${e}`);
      ticks.push(value, -value);
    }
  }
  return ticks.filter((tick) => low <= tick && tick <= high).sort((a, b) => a - b);
}

const KINDS = [
  { digits: [1, 2, 5], every: 1 },
  { digits: [1, 3], every: 1 },
  ...[1, 2, 3, 4, 6].map((every) => ({ digits: [1], every })),
];
// Decades next to zero have no room on a wide axis.
const DECADES = [0, 1, 3].flatMap((skip) => KINDS.map((kind) => ({ ...kind, skip })));

/** Round values on an axis: the most that `fits` accepts. */
export function ticksOf(low, high, resolution, fits) {
  const even = [8, 6, 5, 4, 3, 2].map((wanted) => ticksBetween(low, high, wanted));
  const isShort = !resolution || (low * high > 0 && Math.abs(high / low) < 10 && Math.abs(low / high) < 10);
  const decades = isShort ? [] : DECADES.map((kind) => decadesBetween(low, high, resolution, kind));
  decades.sort((a, b) => b.length - a.length);
  const wide = [...decades, ...even].filter((ticks) => ticks.length > 1);
  return wide.find(fits) ?? even.at(-1).slice(0, 1);
}

/** The place of a value on the scale of its axis: `sign(x) log2(1 + |x| / r)` on a logarithmic one. */
export function toScale(value, resolution) {
  return resolution ? Math.sign(value) * Math.log2(1 + Math.abs(value) / resolution) : value;
}

/** A value, or zero where the axis cannot tell it from zero. */
export function settle(value, resolution) {
  return Math.abs(value) < (resolution ?? 0) ? 0 : value;
}

/** The value at a place on a scale. */
export function fromScale(place, resolution) {
  return resolution ? Math.sign(place) * resolution * (2 ** Math.abs(place) - 1) : place;
}
