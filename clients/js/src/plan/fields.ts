/** The fields of a plan: their types, and the one reader that checks them. */
import type { Dimension } from "../core/encoder.ts";
import type { RadiusLaw } from "../core/frequencies.ts";
import type { ClustersRule } from "../core/statistics/clusters.ts";
import { SketchError } from "../errors.ts";
import type { Rational } from "../privacy/rational.ts";
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

export interface ClustersPart extends ClustersRule {
  kind: "clusters";
  clusters_per_sketch: number;
  /** The published result that was looked at, or nothing. */
  result: Uint8Array;
  norm: "l1" | "l2";
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

/** A phase of a campaign: what is asked of each record, at what cost, and of which time. */
export interface Phase {
  statistic: "histogram" | "fourier" | "clusters";
  epsilon: Rational;
  delta: Rational;
  window: WindowRule;
}

/** The terms of a campaign: they are the same in the plan of every phase. */
export interface Campaign {
  /** The phase of this plan. */
  number: number;
  phases: Phase[];
  columns: Dimension[];
  most_clusters: number;
  most_records: number;
  most_payload_bytes: number;
  devices: "all" | "drawn";
}

/** A plan as it is encoded; `"unknown"` stands for what nobody knows. */
export interface PlanFields {
  format_version: number;
  dimensions: Dimension[];
  statistic: FourierPart | HistogramPart | ClustersPart;
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
  campaign?: Campaign;
}

export const PLAN_FIX = "do not join this study, and tell its operator";

/**
 * The type of a field: a letter or names that are allowed, a list of one type, or a map; fields of a
 * map whose name ends with `?` may be absent, and `kinds` are maps that are told apart by `kind`.
 */
type Schema = string | readonly [Schema] | { readonly [name: string]: Schema };

const isWhole = (value: unknown): boolean => Number.isSafeInteger(value) && (value as number) >= 0;

/** Types of single values by their letters: the rule in words, and whether it holds. */
const TYPES: { readonly [letter: string]: readonly [rule: string, holds: (value: unknown) => boolean] } = {
  w: ["a whole number, 0 or more, below 2^53", isWhole],
  i: ["a whole number", Number.isSafeInteger],
  l: ["a whole number, 0 or more", (value) => isWhole(value) || (typeof value === "bigint" && value >= 0n)],
  n: ["a finite number", Number.isFinite],
  t: ["text", (value) => typeof value === "string"],
  v: ["a finite number or text", (value) => typeof value === "string" || Number.isFinite(value)],
  u: ["a whole number, or unknown", (value) => value === "unknown" || isWhole(value)],
  b: ["32 bytes", (value) => value instanceof Uint8Array && value.length === 32],
  e: ["32 bytes, or none", (value) => value instanceof Uint8Array && [0, 32].includes(value.length)],
  s: ["64 bytes", (value) => value instanceof Uint8Array && value.length === 64],
};

const RELEASE = {
  kind: "t",
  noise_by: "t",
  mechanism: "t",
  neighbouring: "replace-one|add-remove-one",
  unit: "record|device",
  epsilon: "r",
};
const NOISE = { ...RELEASE, delta: "r", sensitivity: { norm: "t", value: "w" }, count_scale: "w", scale: "r" };
const DIMENSION: Schema = {
  name: "t",
  unit: "t",
  "lower?": "n",
  "upper?": "n",
  "scale?": "n",
  "transform?": { kind: "log|", resolution: "n" },
  "missing?": "v",
  "step?": "n",
  "levels?": ["t"],
};
const WINDOW: Schema = { kind: "time|count", origin: "i", length_s: "w", length: "w", "end?": "w" };
const PLAN: Schema = {
  format_version: "w",
  dimensions: [DIMENSION],
  statistic: {
    kinds: {
      fourier: {
        kind: "t",
        n_frequencies: "w",
        seed: "b",
        radius_law: {
          kind: "adapted|folded-gaussian|gaussian",
          sigma_low: "n",
          sigma_high: "n",
          tail_share: "n",
          tail_high: "n",
        },
        frequencies_digest: "b",
        measurements_per_record: "w",
        frequencies_per_sketch: "w",
        amplitude: "w",
      },
      histogram: { kind: "t", bins_log2: ["w"], dimensions_per_sketch: "w" },
      clusters: {
        kind: "t",
        assigned: ["t"],
        summed: ["t"],
        centres: [["i"]],
        weights: ["w"],
        cap: "l",
        origins: [["i"]],
        radii: [["w"]],
        units: { residual: "w", count: "w", square: "w", beyond: "w", presence: "w", total: "w" },
        candidates: [[["i"]]],
        clusters_per_sketch: "w",
        result: "e",
        norm: "l1|l2",
      },
    },
  },
  release: {
    kinds: {
      "local.v1": NOISE,
      "sum.v1": {
        ...NOISE,
        suite: "x25519|",
        helper: { name: "t", identity: "b", key: "b", endorsement: "s" },
        least_reports: "w",
        most_reports: "w",
        parts: "w",
        grace_s: "w",
        late_s: "w",
      },
      "phase.v1": { ...RELEASE, arc: "w", odds: "r" },
    },
  },
  window: WINDOW,
  least_records: "w",
  most_records: "w",
  max_records_per_person: "u",
  most_clusters: "u",
  coordinate_bound: "w",
  payload_width: "w",
  ring_bits: "w",
  most_sketches: "w",
  most_sketches_per_device: "w",
  most_streams_per_device: "w",
  labels: [{ name: "t", values: ["t"] }],
  late_rule: "open-window|leave-out-outside",
  "campaign?": {
    number: "w",
    phases: [{ statistic: "histogram|fourier|clusters", epsilon: "r", delta: "r", window: WINDOW }],
    columns: [DIMENSION],
    most_clusters: "w",
    most_records: "w",
    most_payload_bytes: "w",
    devices: "all|drawn",
  },
};

function unknown(path: string, rule: string): SketchError {
  return new SketchError("version", path, rule, "update this software, or use the Python agent for this study");
}

/** Return a value of a type, with rationals as pairs; throw if it is of another. */
function read(schema: Schema, value: unknown, path: string): unknown {
  const need = (holds: unknown, rule: string): void => {
    if (!holds) throw new SketchError("plan", path || "plan", `must be ${rule}`, PLAN_FIX);
  };
  if (Array.isArray(schema)) {
    need(Array.isArray(value), "a list");
    return (value as unknown[]).map((item, i) => read(schema[0], item, `${path}[${i}]`));
  }
  if (typeof schema === "object") {
    need(typeof value === "object" && value && Object.getPrototypeOf(value) === null, "a map");
    return readMap(schema as { [name: string]: Schema }, value as { [name: string]: unknown }, path);
  }
  if (schema === "r") return readRational(value, need);
  const names = schema.split("|");
  if (names[1] !== undefined) need(names.includes(value as string), `one of ${names.filter(Boolean).join(", ")}`);
  else need(TYPES[schema]![1](value), TYPES[schema]![0]);
  return value;
}

function readMap(schema: { [name: string]: Schema }, given: { [name: string]: unknown }, path: string): unknown {
  const at = (name: string): string => (path ? `${path}.${name}` : name);
  let fields = schema;
  if (schema.kinds) {
    const kinds = schema.kinds as { [kind: string]: { [name: string]: Schema } };
    const { kind } = given;
    if (typeof kind !== "string" || !Object.hasOwn(kinds, kind)) {
      throw unknown(at("kind"), `must be one that this software computes: ${Object.keys(kinds).join(", ")}`);
    }
    fields = kinds[kind]!;
  }
  const found: { [name: string]: unknown } = {};
  for (const key of Object.keys(fields)) {
    const name = key.replace("?", "");
    if (name in given) found[name] = read(fields[key]!, given[name], at(name));
    else if (name === key) throw new SketchError("plan", at(name), "is missing", PLAN_FIX);
  }
  for (const name of Object.keys(given)) {
    if (!(name in found)) throw unknown(at(name), "is not known to this software");
  }
  return found;
}

function readRational(value: unknown, need: (holds: unknown, rule: string) => void): Rational {
  const parts = value instanceof Tagged && value.tag === RATIONAL ? (value.value as unknown[]) : [];
  const isPair = parts.length === 2 && parts.every((part) => ["number", "bigint"].includes(typeof part));
  const [p, q] = isPair ? parts.map((part) => BigInt(part as number)) : [-1n, 1n];
  need(p! >= 0n && q! > 0n, "an exact rational, 0 or more");
  return [p!, q!];
}

/** Read the fields of a decoded plan; nothing but their types is checked. */
export function readFields(decoded: unknown): PlanFields {
  const version = (decoded as { format_version?: unknown } | null)?.format_version;
  if (Number.isSafeInteger(version) && version !== 1) {
    throw unknown("format_version", `is ${version}, and this software reads 1`);
  }
  return read(PLAN, decoded, "") as PlanFields;
}
