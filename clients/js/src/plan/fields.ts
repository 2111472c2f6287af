/** The fields of a plan: their types, and the one reader that checks them. */
import { type Dimension } from "../core/encoder.ts";
import { type RadiusLaw } from "../core/frequencies.ts";
import { SketchError } from "../errors.ts";
import { type Rational } from "../privacy/rational.ts";
import { RATIONAL, Tagged } from "../wire/cbor.ts";

export interface FourierPart {
  kind: "fourier";
  n_frequencies: number;
  seed: Uint8Array;
  radius_law: RadiusLaw;
  frequencies_digest: Uint8Array;
  measurements_per_record: number;
  frequencies_per_sketch: number;
  amplitude: number;
}

export interface HistogramPart {
  kind: "histogram";
  bins_log2: number[];
  dimensions_per_sketch: number;
}

interface AnyRelease {
  noise_by: string;
  mechanism: string;
  neighbouring: "replace-one" | "add-remove-one";
  unit: "record" | "device";
  epsilon: Rational;
}

export interface NoiseRelease extends AnyRelease {
  kind: "local.v1";
  delta: Rational;
  sensitivity: { norm: string; value: number };
  count_scale: number;
  scale: Rational;
}

/** The second server of a secure sum. */
export interface Helper {
  name: string;
  identity: Uint8Array;
  key: Uint8Array;
  endorsement: Uint8Array;
}

export interface SumRelease extends Omit<NoiseRelease, "kind"> {
  kind: "sum.v1";
  suite: "x25519";
  helper: Helper;
  least_reports: number;
  most_reports: number;
  parts: number;
  grace_s: number;
  late_s: number;
}

export interface PhaseRelease extends AnyRelease {
  kind: "phase.v1";
  arc: number;
  odds: Rational;
}

export interface WindowRule {
  kind: "time" | "count";
  /** Seconds since 1970-01-01 UTC. */
  origin: number;
  length_s: number;
  length: number;
  end?: number;
}

/** A plan as it is encoded; `"unknown"` stands for what nobody knows. */
export interface PlanFields {
  format_version: number;
  dimensions: Dimension[];
  statistic: FourierPart | HistogramPart;
  release: NoiseRelease | SumRelease | PhaseRelease;
  window: WindowRule;
  least_records: number;
  most_records: number;
  max_records_per_person: number | "unknown";
  most_clusters: number | "unknown";
  coordinate_bound: number;
  payload_width: number;
  ring_bits: number;
  most_sketches: number;
  most_sketches_per_device: number;
  most_streams_per_device: number;
  labels: { name: string; values: string[] }[];
  late_rule: "open-window" | "leave-out-outside";
}

/** Converts a decoded value, or throws. */
type Reader = (value: unknown, path: string) => unknown;

export const PLAN_FIX = "do not join this study, and tell its operator";

function refuse(path: string, rule: string): SketchError {
  return new SketchError("plan", path, rule, PLAN_FIX);
}

const check =
  (rule: string, holds: (value: unknown) => boolean): Reader =>
  (value, path) => {
    if (!holds(value)) throw refuse(path, `must be ${rule}`);
    return value;
  };

const whole = check("a whole number from 0 to 2^53", (v) => Number.isSafeInteger(v) && (v as number) >= 0);
const number = check("a finite number", Number.isFinite);
const text = check("text", (v) => typeof v === "string");
const oneOf = (...names: string[]): Reader =>
  check(`one of ${names.join(", ")}`, (v) => names.includes(v as string));
const octets = (length: number): Reader =>
  check(`${length} bytes`, (v) => v instanceof Uint8Array && v.length === length);
const orUnknown: Reader = (v, path) => (v === "unknown" ? v : whole(v, path));

const rational: Reader = (value, path) => {
  const parts = value instanceof Tagged && value.tag === RATIONAL ? value.value : undefined;
  const isPair = Array.isArray(parts) && parts.length === 2;
  if (!isPair || !parts.every((part) => typeof part === "number" || typeof part === "bigint")) {
    throw refuse(path, "must be an exact rational");
  }
  const [p, q] = parts.map((part) => BigInt(part as number)) as [bigint, bigint];
  if (p < 0n || q < 1n) throw refuse(path, "must be an exact rational, not negative");
  return [p, q];
};

const list =
  (of: Reader): Reader =>
  (value, path) => {
    if (!Array.isArray(value)) throw refuse(path, "must be a list");
    return value.map((item, i) => of(item, `${path}[${i}]`));
  };

/** Read a map with exactly these fields; those whose name ends with `?` may be absent. */
const map =
  (schema: { [name: string]: Reader }): Reader =>
  (value, path) => {
    if (typeof value !== "object" || value === null || Object.getPrototypeOf(value) !== null) {
      throw refuse(path || "plan", "must be a map");
    }
    const given = value as { [name: string]: unknown };
    const found: { [name: string]: unknown } = {};
    const known = new Set<string>();
    for (const [key, read] of Object.entries(schema)) {
      const name = key.replace("?", "");
      known.add(name);
      const where = path ? `${path}.${name}` : name;
      if (name in given) found[name] = read(given[name], where);
      else if (name === key) throw refuse(where, "is missing");
    }
    for (const name of Object.keys(given)) {
      if (!known.has(name)) {
        const where = path ? `${path}.${name}` : name;
        throw new SketchError("version", where, "is not known to this software", "update this software");
      }
    }
    return found;
  };

/** Read one of several maps, told apart by their `kind`. */
const tagged =
  (kinds: { [kind: string]: { [name: string]: Reader } }): Reader =>
  (value, path) => {
    const kind = (value as { kind?: unknown } | null)?.kind;
    if (typeof kind !== "string" || !Object.hasOwn(kinds, kind)) {
      const known = Object.keys(kinds).join(", ");
      throw new SketchError(
        "version",
        `${path}.kind`,
        `must be one that this software computes: ${known}`,
        "use the Python agent for this study",
      );
    }
    return map({ kind: text, ...kinds[kind] })(value, path);
  };

const RELEASE = {
  noise_by: text,
  mechanism: text,
  neighbouring: oneOf("replace-one", "add-remove-one"),
  unit: oneOf("record", "device"),
  epsilon: rational,
};
const NOISE = {
  ...RELEASE,
  delta: rational,
  sensitivity: map({ norm: text, value: whole }),
  count_scale: whole,
  scale: rational,
};

const PLAN = map({
  format_version: whole,
  dimensions: list(
    map({
      name: text,
      unit: text,
      "lower?": number,
      "upper?": number,
      "scale?": number,
      "transform?": map({ kind: oneOf("log"), resolution: number }),
      "missing?": check("a finite number or text", (v) => typeof v === "string" || Number.isFinite(v)),
      "levels?": list(text),
    }),
  ),
  statistic: tagged({
    fourier: {
      n_frequencies: whole,
      seed: octets(32),
      radius_law: map({
        kind: oneOf("adapted", "folded-gaussian", "gaussian"),
        sigma_low: number,
        sigma_high: number,
        tail_share: number,
        tail_high: number,
      }),
      frequencies_digest: octets(32),
      measurements_per_record: whole,
      frequencies_per_sketch: whole,
      amplitude: whole,
    },
    histogram: { bins_log2: list(whole), dimensions_per_sketch: whole },
  }),
  release: tagged({
    "local.v1": NOISE,
    "sum.v1": {
      ...NOISE,
      suite: oneOf("x25519"),
      helper: map({ name: text, identity: octets(32), key: octets(32), endorsement: octets(64) }),
      least_reports: whole,
      most_reports: whole,
      parts: whole,
      grace_s: whole,
      late_s: whole,
    },
    "phase.v1": { ...RELEASE, arc: whole, odds: rational },
  }),
  window: map({ kind: oneOf("time", "count"), origin: check("a whole number", Number.isSafeInteger), length_s: whole, length: whole, "end?": whole }),
  least_records: whole,
  most_records: whole,
  max_records_per_person: orUnknown,
  most_clusters: orUnknown,
  coordinate_bound: whole,
  payload_width: whole,
  ring_bits: whole,
  most_sketches: whole,
  most_sketches_per_device: whole,
  most_streams_per_device: whole,
  labels: list(map({ name: text, values: list(text) })),
  late_rule: oneOf("open-window", "leave-out-outside"),
});

/** Read the fields of a decoded plan; nothing but their types is checked. */
export function readFields(decoded: unknown): PlanFields {
  const version = (decoded as { format_version?: unknown } | null)?.format_version;
  if (Number.isSafeInteger(version) && version !== 1) {
    throw new SketchError("version", "format_version", `is ${version}, and this software reads 1`, "update this software");
  }
  return PLAN(decoded, "") as PlanFields;
}
