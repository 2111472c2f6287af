import assert from "node:assert/strict";
import { test } from "node:test";

import { equalBytes } from "../../../../clients/js/src/bytes.ts";
import { type PlanFields, readFields } from "../../../../clients/js/src/plan/fields.ts";
import { Plan } from "../../../../clients/js/src/plan/plan.ts";
import { requireValid } from "../../../../clients/js/src/plan/rules.ts";
import { drawPlanFrequencies, readPlan } from "../../../../clients/js/src/plan/verifying.ts";
import { decode } from "../../../../clients/js/src/wire/decoding.ts";
import { hex, type Json, readVectors, sha256 } from "../vectors.ts";

const PLANS = new Map<string, string>(readVectors("messages").messages.map(({ name, plan }: Json) => [name, plan]));
const SUM: string = readVectors("sum").batch.plan;
const MASKED = "masks, windows by time";
const KNORM = "windows by count";
const DEVICES = "all records of a device together";
const REPORTS = "phase reports";
const BINS = "a histogram";
const BIN_REPORTS = "reports of bins";
const CLUSTERS = "one cluster, and candidates";
const SECRET_CLUSTER = "one cluster, a secret number of records";
const BOUNDED = "a study with an end";
const CAMPAIGN = "a phase of a campaign";
const COLUMNS = "features of columns of every kind";

const decoded = (name: string): Json => decode(hex(name === SUM ? SUM : PLANS.get(name)!), "plan");
const fieldsOf = (name: string): PlanFields => readFields(decoded(name));

test("every plan that this device computes is valid as it is", () => {
  for (const name of [MASKED, KNORM, DEVICES, REPORTS, BINS, BIN_REPORTS, CLUSTERS, SECRET_CLUSTER, BOUNDED, CAMPAIGN, COLUMNS, SUM]) {
    requireValid(fieldsOf(name));
  }
  const secret = fieldsOf(KNORM);
  for (const [path, value] of Object.entries(PRESENCE)) change(secret, path, value);
  requireValid(secret);
});

/** Set a field by its path, or remove it. */
function change(document: Json, path: string, value: Json): void {
  const names = path.split(".");
  const last = names.pop()!;
  const parent = names.reduce((inner, name) => inner[name], document);
  if (value === undefined) delete parent[last];
  else parent[last] = value;
}

const PRESENCE = {
  "release.neighbouring": "add-remove-one",
  least_records: 0,
  "release.count_scale": 1365,
  "release.sensitivity.value": 1365,
  "release.scale": [2n ** 52n, (3n * 2n ** 52n) / (2n * 1365n)],
  "window.kind": "time",
  "window.origin": 1,
  "window.length_s": 60,
  "window.length": 0,
};

/** What makes the plan of clusters the second phase of a campaign. */
const LOOK = (() => {
  const { dimensions, window, release } = fieldsOf(CLUSTERS);
  const { campaign } = fieldsOf(CAMPAIGN);
  const [before] = campaign!.phases;
  const own = { ...window, end: window.origin + 24 * 3600 };
  const phases = [
    { ...before, statistic: "fourier" },
    { statistic: "clusters", epsilon: release.epsilon, delta: [0n, 1n], window: own },
  ];
  return { late_rule: "leave-out-outside", window: own, campaign: { ...campaign, phases, columns: dimensions } };
})();

/** A plan, what is changed in it, and the field that the refusal names. */
const BROKEN: [string, { [path: string]: Json }, string][] = [
  [MASKED, { ring_bits: 32 }, "ring_bits"],
  [MASKED, { dimensions: [] }, "dimensions"],
  [MASKED, { "dimensions.1.name": "temperature" }, "dimensions"],
  [MASKED, { "dimensions.0.upper": -11 }, "dimensions"],
  [MASKED, { "dimensions.0.lower": undefined }, "dimensions"],
  [BINS, { "dimensions.0.upper": undefined }, "dimensions"],
  [MASKED, { "dimensions.0.scale": undefined }, "dimensions.scale"],
  [MASKED, { "dimensions.0.scale": 0 }, "dimensions.scale"],
  [MASKED, { "dimensions.0.missing": "cold" }, "dimensions.temperature"],
  [COLUMNS, { "dimensions.1.transform.resolution": 0 }, "dimensions.visibility"],
  [COLUMNS, { "dimensions.2.levels": ["a"] }, "dimensions.sky"],
  [COLUMNS, { "dimensions.2.levels": ["rain", "rain"] }, "dimensions.sky"],
  [COLUMNS, { "dimensions.2.missing": "fog" }, "dimensions.sky"],
  [MASKED, { "statistic.amplitude": 16381 }, "statistic.amplitude"],
  [MASKED, { "statistic.n_frequencies": 3 * 2 ** 24 }, "statistic.n_frequencies"],
  [MASKED, { "statistic.measurements_per_record": 5 }, "statistic.measurements_per_record"],
  [MASKED, { "statistic.measurements_per_record": 0 }, "statistic.measurements_per_record"],
  [MASKED, { "statistic.frequencies_per_sketch": 5 }, "statistic.frequencies_per_sketch"],
  [MASKED, { "statistic.frequencies_per_sketch": 4 }, "statistic.frequencies_per_sketch"],
  [MASKED, { "statistic.radius_law.sigma_low": 0 }, "statistic.radius_law"],
  [MASKED, { "statistic.radius_law.sigma_high": 101 }, "statistic.radius_law"],
  [MASKED, { "statistic.radius_law.tail_share": 2 }, "statistic.radius_law"],
  [BINS, { "statistic.bins_log2": [2, 3] }, "statistic.bins_log2"],
  [BINS, { "statistic.bins_log2": [13, 3, 0] }, "statistic.bins_log2"],
  [BINS, { "statistic.bins_log2": [2, 3, 1] }, "statistic.bins_log2"],
  [BINS, { "statistic.dimensions_per_sketch": 2 }, "statistic.dimensions_per_sketch"],
  [BINS, { "statistic.dimensions_per_sketch": 1 }, "statistic.bins_log2"],
  [BIN_REPORTS, { "statistic.bins_log2": [2, 3] }, "statistic.bins_log2"],
  [CLUSTERS, { "statistic.assigned": ["sky", "temperature"] }, "statistic.assigned"],
  [CLUSTERS, { "statistic.assigned": [] }, "statistic.assigned"],
  [CLUSTERS, { "statistic.summed": ["temperature", "wind"] }, "statistic.summed"],
  [CLUSTERS, { "statistic.centres": [] }, "statistic.centres"],
  [CLUSTERS, { "statistic.centres.1.3": 32768 }, "statistic.centres"],
  [CLUSTERS, { "statistic.centres.1.length": 3 }, "statistic.centres"],
  [CLUSTERS, { "statistic.weights": [5, 1, 1, 0] }, "statistic.weights"],
  [CLUSTERS, { "statistic.weights": [2 ** 31 - 3, 1, 1, 1] }, "statistic.weights"],
  [CLUSTERS, { "statistic.cap": 0 }, "statistic.cap"],
  [CLUSTERS, { "statistic.cap": 2n ** 54n }, "statistic.cap"],
  [CLUSTERS, { "statistic.origins": [[0, 0]] }, "statistic.origins"],
  [CLUSTERS, { "statistic.radii.0.1": 0 }, "statistic.radii"],
  [CLUSTERS, { "statistic.radii.0.1": 65535 }, "statistic.radii"],
  [CLUSTERS, { "statistic.units.residual": 0 }, "statistic.units.residual"],
  [CLUSTERS, { "statistic.units.count": 0 }, "statistic.units.count"],
  [CLUSTERS, { "statistic.units.beyond": 32769 }, "statistic.units.beyond"],
  [CLUSTERS, { "statistic.units.presence": 0 }, "statistic.units.presence"],
  [CLUSTERS, { "dimensions.1.missing": 5 }, "statistic.units.presence"],
  [CLUSTERS, { "statistic.units.total": 0 }, "statistic.candidates"],
  [CLUSTERS, { "statistic.candidates.0.0.0": -32768 }, "statistic.candidates"],
  [CLUSTERS, { "statistic.candidates.0.length": 1 }, "statistic.candidates"],
  [CLUSTERS, { "statistic.candidates.length": 65 }, "statistic.candidates"],
  [CLUSTERS, { "statistic.clusters_per_sketch": 3 }, "statistic.clusters_per_sketch"],
  [CLUSTERS, { "statistic.norm": "l2" }, "statistic.norm"],
  [MASKED, { "release.epsilon": [0n, 1n] }, "release.epsilon"],
  // Noise that is too small, in each way that it can be stated.
  [MASKED, { "release.epsilon": [4n, 1n] }, "release.scale"],
  [MASKED, { "release.scale": [1n, 1n] }, "release.scale"],
  [MASKED, { "release.sensitivity.value": 138971 }, "release.sensitivity"],
  [MASKED, { "release.sensitivity.norm": "l2-squared" }, "release.sensitivity"],
  [KNORM, { "release.sensitivity.value": 2729 }, "release.sensitivity"],
  [KNORM, { "release.scale": [1125899906842624n, 618626322442n] }, "release.scale"],
  [KNORM, { "release.mechanism": "discrete-laplace" }, "release.sensitivity"],
  [BINS, { "release.sensitivity.value": 3 }, "release.sensitivity"],
  [BINS, { "release.mechanism": "discrete-knorm" }, "release.mechanism"],
  [CLUSTERS, { "release.mechanism": "discrete-knorm" }, "release.mechanism"],
  [CLUSTERS, { "release.mechanism": "discrete-gaussian" }, "release.mechanism"],
  // Each unit is in the sensitivity.
  [CLUSTERS, { "statistic.units.residual": 4097 }, "release.sensitivity"],
  [CLUSTERS, { "statistic.units.square": 513 }, "release.sensitivity"],
  [CLUSTERS, { "statistic.units.beyond": 65 }, "release.sensitivity"],
  [CLUSTERS, { "statistic.units.presence": 129 }, "release.sensitivity"],
  [CLUSTERS, { "statistic.units.total": 257 }, "release.sensitivity"],
  [CLUSTERS, { "statistic.candidates.length": 1 }, "release.sensitivity"],
  [SECRET_CLUSTER, { "release.sensitivity.value": 5312 }, "release.sensitivity"],
  [SECRET_CLUSTER, { "statistic.units.count": 511 }, "release.count_scale"],
  [MASKED, { "release.mechanism": "discrete-knorm" }, "release.mechanism"],
  [MASKED, { "release.mechanism": "discrete-gaussian" }, "release.mechanism"],
  [MASKED, { "release.delta": [1n, 10n] }, "release.delta"],
  [MASKED, { "release.count_scale": 1 }, "release.count_scale"],
  [MASKED, { "release.noise_by": "nobody" }, "release.noise_by"],
  [SUM, { "release.scale": [1n, 1n] }, "release.scale"],
  [SUM, { "release.noise_by": "device" }, "release.noise_by"],
  [SUM, { least_records: 2 }, "least_records"],
  [SUM, { payload_width: 1 }, "payload_width"],
  [SUM, { "release.parts": 0 }, "release.parts"],
  [SUM, { "statistic.frequencies_per_sketch": 10 }, "release"],
  [SUM, { "window.kind": "count" }, "window.kind"],
  [MASKED, { payload_width: 9 }, "payload_width"],
  // Presence is hidden only if nothing but noised sums depends on it.
  [KNORM, { ...PRESENCE, least_records: 1 }, "least_records"],
  [KNORM, { ...PRESENCE, "window.kind": "count" }, "window.kind"],
  [KNORM, { ...PRESENCE, "window.origin": 0 }, "window.origin"],
  [KNORM, { ...PRESENCE, "release.sensitivity.value": 2730 }, "release.sensitivity"],
  [KNORM, { ...PRESENCE, "release.count_scale": 0 }, "release.count_scale"],
  [MASKED, { ...PRESENCE }, "statistic.measurements_per_record"],
  [MASKED, { least_records: 0 }, "least_records"],
  [MASKED, { least_records: 51 }, "most_records"],
  [DEVICES, { "release.neighbouring": "add-remove-one" }, "release.neighbouring"],
    [DEVICES, { least_records: 2 }, "least_records"],
  [DEVICES, { "window.kind": "count" }, "window.kind"],
  [DEVICES, { "statistic.measurements_per_record": 3 }, "statistic.measurements_per_record"],
  [CLUSTERS, { "release.unit": "device", least_records: 1, most_streams_per_device: 1 }, "most_records"],
  [BINS, { "release.unit": "device", least_records: 1, most_streams_per_device: 1 }, "most_records"],
  [REPORTS, { most_records: 2 }, "release"],
  [REPORTS, { "release.mechanism": "discrete-knorm" }, "release"],
  [REPORTS, { "release.unit": "record" }, "release"],
  [REPORTS, { payload_width: 3 }, "payload_width"],
  [REPORTS, { "release.arc": 32768 }, "release.arc"],
  [BIN_REPORTS, { "release.arc": 3 }, "release.arc"],
  [REPORTS, { "release.odds": [1n, 2n] }, "release.odds"],
  [REPORTS, { "release.odds": [9534120485960176n, 4503599627370496n] }, "release.odds"],
  [REPORTS, { "release.odds": [10n, 3n] }, "release.odds"],
  [KNORM, { "window.origin": 5 }, "window"],
  [KNORM, { late_rule: "leave-out-outside" }, "window"],
  [KNORM, { "window.length": 51 }, "window.length"],
  [KNORM, { "window.length": 1 }, "window.length"],
  [MASKED, { "window.length_s": 0 }, "window.length_s"],
  [MASKED, { "window.length": 5 }, "window.length_s"],
  [MASKED, { "window.end": 1_700_003_600 }, "window.end"],
  [BOUNDED, { "window.end": 1_700_003_601 }, "window.end"],
  [BOUNDED, { "window.end": 1_700_000_000 }, "window.end"],
  [BOUNDED, { "window.origin": 0, "window.end": undefined }, "window.origin"],
  [MASKED, { "labels.0.values": [] }, "labels.site"],
  [CAMPAIGN, { "campaign.number": 2 }, "campaign.number"],
  [CAMPAIGN, { "campaign.number": 0 }, "statistic.kind"],
  [CAMPAIGN, { "campaign.phases.length": 1, "campaign.number": 0 }, "campaign.phases"],
  [CAMPAIGN, { "campaign.phases.0.statistic": "clusters" }, "campaign.phases"],
  [CAMPAIGN, { "campaign.phases.0.window.end": 1_700_000_001 }, "campaign.phases"],
  [CAMPAIGN, { "campaign.phases.0.window.end": undefined }, "campaign.phases"],
  [CAMPAIGN, { "campaign.phases.0.window.end": 1_699_999_999 }, "campaign.phases"],
  [CAMPAIGN, { "campaign.phases.0.window.length_s": 0 }, "campaign.phases"],
  [CAMPAIGN, { "campaign.phases.0.window.length": 5 }, "campaign.phases"],
  [CAMPAIGN, { "campaign.phases.0.window.origin": 0 }, "campaign.phases"],
  [CAMPAIGN, { "campaign.phases.0.epsilon": [0n, 1n] }, "campaign.phases"],
  [CAMPAIGN, { "campaign.phases.0.delta": [1n, 1n] }, "campaign.phases"],
  [CAMPAIGN, { "campaign.columns.1.name": "temperature" }, "campaign.columns"],
  [CAMPAIGN, { "campaign.phases.0.window.kind": "count" }, "campaign.phases"],
  [CAMPAIGN, { "campaign.phases.1.window.length_s": 7200 }, "window"],
  [CAMPAIGN, { "campaign.phases.1.epsilon": [149n, 100n] }, "release.epsilon"],
  [CAMPAIGN, { "campaign.most_clusters": 0 }, "campaign.most_clusters"],
  [CAMPAIGN, { "campaign.most_records": 49 }, "most_records"],
  [CAMPAIGN, { "campaign.most_records": 0 }, "campaign.most_records"],
  [CAMPAIGN, { "campaign.most_payload_bytes": 0 }, "campaign.most_payload_bytes"],
  [CAMPAIGN, { most_clusters: 6 }, "most_clusters"],
  [CAMPAIGN, { "campaign.columns.0.name": "heat" }, "dimensions.temperature"],
  [CAMPAIGN, { "campaign.columns.0.unit": "K" }, "dimensions.temperature.unit"],
  [CAMPAIGN, { "campaign.columns.0.levels": ["a", "b"] }, "dimensions.temperature.levels"],
  [CAMPAIGN, { "campaign.columns.0.lower": -9 }, "dimensions.temperature"],
  [CAMPAIGN, { "campaign.columns.2.upper": undefined }, "dimensions.humidity"],
  [CAMPAIGN, { late_rule: "open-window", "window.end": undefined }, "late_rule"],
  [CAMPAIGN, { "campaign.devices": "drawn" }, "campaign.devices"],
  [SUM, { campaign: LOOK.campaign }, "release"],
  [CLUSTERS, LOOK, "statistic.candidates"],
  [CLUSTERS, { ...LOOK, campaign: { ...LOOK.campaign, columns: LOOK.campaign.columns.slice(1) } }, "dimensions.temperature"],
];

test("a plan that breaks a rule is refused by the name of the field, and with a remedy", () => {
  for (const [name, changes, field] of BROKEN) {
    const fields = fieldsOf(name);
    for (const [path, value] of Object.entries(changes)) change(fields, path, value);
    assert.throws(
      () => [requireValid(fields), drawPlanFrequencies(fields)],
      (error: Json) => {
        assert.equal(error.field, field, `${name}, ${JSON.stringify(Object.keys(changes))}: ${error.message}`);
        assert.ok(error.fix);
        return true;
      },
      `${name}, ${JSON.stringify(Object.keys(changes))}`,
    );
  }
});

/** A change of a plan's encoding, the kind and the field of the refusal, and which plan. */
const MISSHAPEN: [{ [path: string]: Json }, string, string, string?][] = [
  [{ format_version: 2 }, "version", "format_version"],
  [{ surprise: 1 }, "version", "surprise"],
  [{ "release.surprise": 1 }, "version", "release.surprise"],
  [{ "dimensions.0.surprise": 1 }, "version", "dimensions[0].surprise"],
  [{ "statistic.kind": "grid" }, "version", "statistic.kind"],
  [{ "release.kind": "local.v2" }, "version", "release.kind"],
  [{ "release.kind": "toString" }, "version", "release.kind"],
  [{ late_rule: "drop" }, "plan", "late_rule"],
  [{ window: undefined }, "plan", "window"],
  [{ least_records: 1.5 }, "plan", "least_records"],
  [{ least_records: -1 }, "plan", "least_records"],
  [{ most_records: 2n ** 60n }, "plan", "most_records"],
  [{ most_clusters: "many" }, "plan", "most_clusters"],
  [{ "dimensions.0.lower": NaN }, "plan", "dimensions[0].lower"],
  [{ "dimensions.0.name": null }, "plan", "dimensions[0].name"],
  [{ "statistic.seed": new Uint8Array(31) }, "plan", "statistic.seed"],
  [{ "release.epsilon": 1 }, "plan", "release.epsilon"],
  [{ "release.epsilon.value.0": -3 }, "plan", "release.epsilon"],
  [{ "release.epsilon.value.1": 0 }, "plan", "release.epsilon"],
  [{ labels: {} }, "plan", "labels"],
  [{ "campaign.surprise": 1 }, "version", "campaign.surprise", CAMPAIGN],
  [{ "campaign.phases.0.statistic": "moments" }, "plan", "campaign.phases[0].statistic", CAMPAIGN],
  [{ "statistic.surprise": 1 }, "version", "statistic.surprise", CLUSTERS],
  [{ "statistic.centres.0.0": 0.5 }, "plan", "statistic.centres[0][0]", CLUSTERS],
  [{ "statistic.cap": -1n }, "plan", "statistic.cap", CLUSTERS],
  [{ "statistic.units.square": undefined }, "plan", "statistic.units.square", CLUSTERS],
  [{ "statistic.result": new Uint8Array(31) }, "plan", "statistic.result", CLUSTERS],
  [{ "statistic.norm": "l3" }, "plan", "statistic.norm", CLUSTERS],
];

test("a plan of another version, or with another field or type, is refused before anything else", () => {
  for (const [changes, kind, field, name = MASKED] of MISSHAPEN) {
    const document = decoded(name);
    for (const [path, value] of Object.entries(changes)) change(document, path, value);
    assert.throws(
      () => readFields(document),
      (error: Json) => {
        assert.deepEqual([error.kind, error.field], [kind, field], error.message);
        return true;
      },
      JSON.stringify(field),
    );
  }
  for (const document of [null, 1, "plan", [1], new Uint8Array(3)]) {
    assert.throws(() => readFields(document), /plan: must be a map/);
  }
});

test("a plan whose frequencies another machine would draw otherwise is refused", async () => {
  const bytes = hex(PLANS.get(MASKED)!);
  const plan = await readPlan(bytes, sha256);
  assert.equal(plan.fields.statistic.kind, "fourier");
  const digest = (plan.fields.statistic as Json).frequencies_digest;
  const at = bytes.findIndex((_, i) => equalBytes(bytes.subarray(i, i + 32), digest));
  bytes[at]! ^= 1;
  await assert.rejects(readPlan(bytes, sha256), /frequencies_digest: is not that of the frequencies/);
});

test("bounds that doubles cannot tell apart, or hold, are refused", () => {
  for (const [lower, upper] of [[0, Number.MIN_VALUE], [-1.7e308, 1.7e308]]) {
    const fields = fieldsOf(MASKED);
    change(fields, "dimensions.0.lower", lower);
    change(fields, "dimensions.0.upper", upper);
    assert.throws(() => drawPlanFrequencies(fields), /dimensions: must have usable bounds/);
  }
});

test("records are read by name or place; what is missing or of another type is no number", async () => {
  const plan = await Plan.open(await readPlan(hex(PLANS.get(COLUMNS)!), sha256));
  const read = (record: Json): Json[] => Array.from(plan.readRecord(record), (x) => (Number.isNaN(x) ? null : x));
  assert.deepEqual(read({ temperature: 1.5, visibility: 3, sky: "rain" }), [1.5, 3, 1]);
  assert.deepEqual(read([1.5, 3, " clear\t"]), [1.5, 3, 0]);
  assert.deepEqual(read(Float32Array.of(0.5, 2, 0)), [0.5, 2, null]);
  assert.deepEqual(read({ sky: "Rain", temperature: "1.5", visibility: true }), [null, null, null]);
  for (const nothing of [null, undefined, 3, "text", {}]) assert.deepEqual(read(nothing), [null, null, null]);
});

test("a list of another length than the plan's dimensions is refused by name", async () => {
  const plan = await Plan.open(await readPlan(hex(PLANS.get(COLUMNS)!), sha256));
  const refusal = { field: "record", rule: /has \d value\(s\), .* 3 dimension/, fix: /temperature, visibility, sky/ };
  for (const list of [[], [1, 2], [1, 2, "clear", 4], Float32Array.of(1)]) {
    assert.throws(() => plan.readRecord(list), refusal);
  }
});

test("levels are matched by their text: truth values by name, whole numbers by their digits", async () => {
  const fields = fieldsOf(COLUMNS);
  const plan = await Plan.open(await readPlan(hex(PLANS.get(COLUMNS)!), sha256));
  change(plan.fields, "dimensions", [{ ...fields.dimensions[2], levels: ["true", "7", "100000000000000000000000"] }]);
  const read = (value: Json): number => plan.readRecord([value])[0]!;
  assert.deepEqual([true, 7, 7n, "7 ", 1e23].map(read), [0, 1, 1, 1, NaN]);
  assert.deepEqual([false, 7.5, "7.0", NaN, Infinity, null].map(read), Array(6).fill(NaN));
});
