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

/** The place of a value on the scale of its axis: `sign(x) log2(1 + |x| / r)` on a logarithmic one. */
export function toScale(value, resolution) {
  return resolution ? Math.sign(value) * Math.log2(1 + Math.abs(value) / resolution) : value;
}

/** The value at a place on a scale. */
export function fromScale(place, resolution) {
  return resolution ? Math.sign(place) * resolution * (2 ** Math.abs(place) - 1) : place;
}
