/** Step 0 of the sketch: values of a record to doubles, and doubles to coordinates. */
import { compress } from "./logarithm.ts";

/** What an application gives for one dimension of a record. */
export type Value = number | string | boolean | bigint | null | undefined;

/** One dimension of a plan, as the plan writes it. */
export interface Dimension {
  name: string;
  unit: string;
  lower?: number;
  upper?: number;
  scale?: number;
  transform?: { kind: "log"; resolution: number };
  missing?: number | string;
  step?: number;
  levels?: string[];
}

/**
 * Return a value as a double: data units, or the number of a level; NaN where it is missing.
 *
 * A level is the same text, without white space around it. A truth value is `true` or `false`, and
 * a whole number its digits.
 */
export function readValue({ levels }: Dimension, value: Value): number {
  if (!levels) return typeof value === "number" ? value : NaN;
  const isWhole = typeof value === "number" && Number.isInteger(value);
  const text = isWhole ? BigInt(value) : typeof value === "number" ? "" : (value ?? "");
  const place = levels.indexOf(String(text).replace(/^[ \t\n\r\v\f]+|[ \t\n\r\v\f]+$/g, ""));
  return place < 0 ? NaN : place;
}

/** Return a double on the scale of its dimension; not finite where it is missing. */
export function transform({ levels, transform }: Dimension, x: number): number {
  if (levels) return x >= 0 && x < levels.length && Number.isInteger(x) ? x : NaN;
  if (!transform) return x;
  return compress(Number.isFinite(x) ? x : NaN, transform.resolution);
}

/** Append the coordinates of a double to an array; they are not finite where it is missing. */
export function encode(dimension: Dimension, x: number, into: number[]): void {
  let t = transform(dimension, x);
  if (!Number.isFinite(t) && dimension.missing !== undefined) {
    const { levels, missing } = dimension;
    t = transform(dimension, levels ? levels.indexOf(missing as string) : (missing as number));
  }
  if (!dimension.levels) into.push(t);
  else dimension.levels.forEach((_, level) => into.push(Number.isNaN(t) ? NaN : t === level ? 1 : 0));
}
