/**
 * The vectors as the device in TypeScript computes them, family by family, wherever it runs: Node, a
 * browser, or a runtime without either's libraries. A difference throws.
 */
import { type Bytes, concat, toHex, utf8 } from "../../clients/js/src/bytes.ts";
import { fromHex } from "../../clients/js/src/hexadecimal.ts";
import { Blocks } from "../../clients/js/src/core/blocks.ts";
import type { Dimension } from "../../clients/js/src/core/encoder.ts";
import { computeFeature, PHASES } from "../../clients/js/src/core/features.ts";
import { drawFrequencies, encodeFrequencies } from "../../clients/js/src/core/frequencies.ts";
import { compress } from "../../clients/js/src/core/logarithm.ts";
import { MaskSchedule } from "../../clients/js/src/core/masks.ts";
import { Interval } from "../../clients/js/src/core/quantise.ts";
import { Shake256 } from "../../clients/js/src/core/shake.ts";
import { ClustersStatistic } from "../../clients/js/src/core/statistics/clusters.ts";
import { FourierStatistic } from "../../clients/js/src/core/statistics/fourier.ts";
import { findBin, HistogramStatistic, placeBin } from "../../clients/js/src/core/statistics/histogram.ts";
import type { Statistic } from "../../clients/js/src/core/statistics/interface.ts";
import { Result } from "../../clients/js/src/device/results.ts";
import type { Platform } from "../../clients/js/src/device/platform.ts";
import { encodeStreamId, Plan } from "../../clients/js/src/plan/plan.ts";
import { computeStudyId, readPlan } from "../../clients/js/src/plan/verifying.ts";
import { CircularLaw } from "../../clients/js/src/privacy/circle.ts";
import { findDigits } from "../../clients/js/src/privacy/exponential.ts";
import { findLeastRadius } from "../../clients/js/src/privacy/mechanisms.ts";
import { drawExponent, UNIT } from "../../clients/js/src/privacy/samplers.ts";
import type { RandomSource } from "../../clients/js/src/privacy/source.ts";
import { maskSum } from "../../clients/js/src/sharing/masks.ts";
import { type Ephemeral, sealHpke } from "../../clients/js/src/sharing/seal.ts";
import { readCode } from "../../clients/js/src/wire/code.ts";
import { encodeProofInput, makeEnrolment } from "../../clients/js/src/wire/enrolment.ts";
import {
  computeSketchId,
  encodeHeader,
  encodeMessage,
  encodePayload,
  encodeSignatureInput,
  type Sign,
  sketchPath,
} from "../../clients/js/src/wire/message.ts";
import { decode } from "../../clients/js/src/wire/decoding.ts";
import { decodePublished, encodeEndorsement } from "../../clients/js/src/wire/published.ts";
import { signRequest } from "../../clients/js/src/wire/requests.ts";

// Their shape is what the families are about.
export type Json = any;

/** What a family takes from where it runs. */
export interface Tools extends Pick<Platform, "sha256" | "verify" | "sign"> {
  /** The X25519 key pair of 32 private bytes; none where secure sums are not offered. */
  ephemeralOf?(privateBytes: Bytes, publicKey: Bytes): Promise<Ephemeral>;
}


/** Decode hexadecimal that is there for certain. */
function hex(text: string): Bytes {
  const bytes = fromHex(text);
  if (!bytes) throw new Error(`${text} is not hexadecimal`);
  return bytes;
}

/** Read a double as Python writes it in hexadecimal. */
function readFloat(text: string): number {
  const found = /^(-?)0x([01])\.([0-9a-f]{13}|0)p([+-]\d+)$/.exec(text);
  if (!found) return { inf: Infinity, "-inf": -Infinity, nan: NaN }[text] as number;
  const [, sign, whole, fraction, exponent] = found;
  const significand = Number(whole) + parseInt(fraction!, 16) / 2 ** (4 * fraction!.length);
  // In two steps, for the smallest numbers.
  const half = Math.trunc(Number(exponent) / 2);
  return (sign ? -1 : 1) * significand * 2 ** half * 2 ** (Number(exponent) - half);
}

/** Throw unless two values are the same, to the last bit and the sign of zero. */
export function equal(found: Json, expected: Json, where = "value"): void {
  if (typeof expected !== "object" || expected === null) {
    if (!Object.is(found, expected)) throw new Error(`${where} is ${found}, and ${expected} in the vectors`);
    return;
  }
  const [own, keys] = [Object.keys(found ?? {}), Object.keys(expected)];
  if (own.length !== keys.length) throw new Error(`${where} has ${own.length} parts, and ${keys.length} in the vectors`);
  for (const key of keys) equal(found[key], expected[key], `${where}.${key}`);
}

const boxOf = (lower: number[], upper: number[]): Interval[] => lower.map((low, i) => new Interval(low, upper[i]!));
const numbers = (d: number): Dimension[] => Array.from({ length: d }, (_, i) => ({ name: `${i}`, unit: "1" }));

function sumUp(statistic: Statistic, records: Json[], first = 0): [sums: number[], unsketchable: number] {
  const sums = new Float64Array(statistic.nCoordinates);
  let unsketchable = 0;
  records.forEach((record, i) => {
    const values = Float64Array.from(record, (value) => (value === null ? NaN : (value as number)));
    if (!statistic.add(values, first + i, sums)) unsketchable++;
  });
  return [Array.from(sums), unsketchable];
}

/** A source of given bytes, which must suffice. */
function given(bytes: Uint8Array): RandomSource & { readonly left: number } {
  let at = 0;
  return {
    drawBytes: (count) => {
      if (at + count > bytes.length) throw new Error("drew more than was given");
      return bytes.slice(at, (at += count));
    },
    get left() {
      return bytes.length - at;
    },
  };
}

/** A source of one number, little-endian in as many bytes as are drawn. */
const givenNumber = (number: bigint): RandomSource => ({
  drawBytes: (count) => Uint8Array.from({ length: count }, (_, i) => Number((number >> BigInt(8 * i)) & 255n)),
});

const dimensionOf = (encoding: Json, name = "x"): Dimension => ({
  name,
  unit: "1",
  ...(encoding.resolution && { transform: { kind: "log", resolution: encoding.resolution } }),
  ...(encoding.n_levels && { levels: Array.from({ length: encoding.n_levels }, (_, i) => `level ${i}`) }),
  ...(encoding.imputed !== null && { missing: encoding.imputed }),
});

function intervalOf({ transform, levels }: Dimension, lower: number, upper: number): Interval {
  if (levels) return new Interval(-0.5, levels.length - 0.5);
  const [low, high] = [lower, upper].map((x) => (transform ? compress(x, transform.resolution) : x));
  return new Interval(low!, high!);
}

/** Return what a vector's records give under a plan: their sums, as a device finishes them. */
function sumUnderPlan(plan: Plan, vector: Json): [exact: bigint[], records: Float64Array[]] {
  const all: Json[] = vector.records;
  const taken = plan.protectsDevices ? all.slice(0, plan.fields.most_records) : all;
  const records = taken.map((record) => plan.readRecord(record));
  const statistic = plan.buildStatistic(encodeStreamId(hex(vector.device), vector.stream), vector.block ?? 0);
  const sums = new Float64Array(statistic.nCoordinates);
  records.forEach((record, i) => statistic.add(record, vector.first_record + i, sums));
  return [plan.finishSum(sums, records.length), records];
}

/** Return the reports of a vector: each place of its record, moved by the vector's offset. */
function report(plan: Plan, vector: Json, record: Float64Array): number[] {
  const statistic = plan.buildStatistic(new Uint8Array(0), vector.block ?? 0);
  const isFourier = statistic instanceof FourierStatistic;
  const places = isFourier ? statistic.findPhases(record) : (statistic as HistogramStatistic).findPlaces(record);
  const circle = isFourier ? PHASES : plan.makeLaw().circle;
  return vector.noise.map((offset: number, i: number) => ((places?.[i] ?? 0) + offset) % circle);
}

async function reproduceMessage(vector: Json, tools: Tools): Promise<void> {
  const { sha256 } = tools;
  const { stream, sequence, slots, ordinal } = vector;
  const plan = await Plan.open(await readPlan(hex(vector.plan), sha256));
  equal(toHex(plan.digest), vector.plan_digest, "plan_digest");
  equal(toHex(encodeStreamId(hex(vector.device), stream)), vector.stream_id, "stream_id");
  const block = plan.blocks?.choose(ordinal, stream, slots ? slots[0] : sequence) ?? 0;
  if (vector.block !== null) equal(block, vector.block, "block");
  const [exact, records] = sumUnderPlan(plan, vector);
  const nRecords = plan.hidesPresence ? null : plan.protectsDevices ? 1 : records.length;
  equal(nRecords, vector.n_records, "n_records");
  let payload;
  if (plan.reportsPhases) {
    payload = encodePayload(report(plan, vector, records[0]!).map(BigInt), 3);
    payload = payload.filter((_, i) => i % 3 < 2);
  } else {
    equal(exact.map(Number), vector.sums, "sums");
    const released = plan.clamp(exact.map((sum, i) => sum + BigInt(vector.noise[i])), nRecords);
    equal(released.map(Number), vector.released, "released");
    payload = encodePayload(released, plan.fields.payload_width);
  }
  equal(toHex(payload), vector.payload, "payload");
  for (const time of vector.times ?? []) {
    const slot = plan.slotOf(time);
    equal(slot >= slots[0] && slot <= slots[1], true, "slot");
  }
  const header = {
    kind: plan.fields.release.kind,
    study: hex(vector.study),
    planDigest: plan.digest,
    device: hex(vector.device),
    stream,
    sequence,
    slots,
    nRecords,
    reportId: hex(vector.report_id),
    payloadLength: payload.length,
    payloadDigest: await sha256(payload),
    block: plan.blocks ? block : undefined,
  };
  equal(toHex(encodeHeader(header)), vector.header, "header");
  const [protectedHeader, input] = encodeSignatureInput(header.device, encodeHeader(header));
  equal([toHex(protectedHeader), toHex(input)], [vector.protected, vector.signature_input], "signature_input");
  const sign: Sign = (data) => tools.sign({ publicKey: header.device, secret: hex(vector.private_key) }, data);
  equal(toHex(await encodeMessage(header, payload, sign)), vector.message, "message");
  const id = await computeSketchId(header.study, header.device, stream, sequence, sha256);
  equal(toHex(id), vector.sketch_id, "sketch_id");
  equal(sketchPath(header.study, id), vector.request.path, "path");
}

/** Whether a vector has a statistic or noise that this device does not compute. */
function isForeign({ plan }: Json): boolean {
  const { statistic, release }: Json = decode(hex(plan), "plan");
  return ["grid", "moments"].includes(statistic.kind) || release.mechanism === "discrete-gaussian";
}

/** Check the refusal of a plan with a statistic or noise that is not computed here. */
async function refuseMessage(vector: Json, { sha256 }: Tools): Promise<void> {
  const refusal: Json = await readPlan(hex(vector.plan), sha256).then(
    () => undefined,
    (error: unknown) => error,
  );
  equal(refusal?.kind, "version", "refusal");
  equal(/(statistic\.kind|release\.mechanism).*[Uu]se the Python agent/.test(refusal.message), true, "refusal");
}

/** The families by the names of their files: each computes its vectors, and throws where one differs. */
export const FAMILIES: { [name: string]: (vectors: Json, tools: Tools) => Promise<void> } = {
  features: async (vector, { sha256 }) => {
    for (const [phase, cosine, sine] of vector.features) equal([...computeFeature(phase)], [cosine, sine], `${phase}`);
    const table = new DataView(new ArrayBuffer(4 * PHASES));
    for (let phase = 0; phase < PHASES; phase++) {
      computeFeature(phase).forEach((value, i) => table.setInt16(4 * phase + 2 * i, value, true));
    }
    equal(toHex(await sha256(new Uint8Array(table.buffer))), vector.table_sha256, "table_sha256");
  },

  frequencies: async (vectors, { sha256 }) => {
    for (const [i, vector] of vectors.entries()) {
      const box = boxOf(vector.lower, vector.upper);
      const matrix = drawFrequencies(hex(vector.seed), vector.n_frequencies, vector.radius_law, box, vector.scale);
      equal([matrix.bits, matrix.turns.map((row) => Array.from(row))], [vector.bits, vector.turns], `${i}`);
      equal(toHex(await sha256(encodeFrequencies(matrix))), vector.digest, `${i}.digest`);
    }
  },

  sketches: async (vectors) => {
    for (const vector of vectors) {
      const { n_frequencies: m, measurements_per_record: r, first_record: first } = vector;
      const box = boxOf(vector.lower, vector.upper);
      const frequencies = drawFrequencies(hex(vector.seed), m, vector.radius_law, box, vector.scale);
      const masks = r < m ? new MaskSchedule(hex(vector.seed), hex(vector.stream_id), m, r) : undefined;
      const statistic = new FourierStatistic(numbers(box.length), box, frequencies, masks);
      equal(sumUp(statistic, vector.records, first), [vector.sums, vector.n_unsketchable], vector.name);
      const quantised = vector.records.map((record: (number | null)[]) =>
        record.includes(null) ? record.map(() => 0) : record.map((x, i) => box[i]!.quantise(x!) + 0),
      );
      equal(quantised, vector.quantised, `${vector.name}.quantised`);
      const groups = vector.records.map((_: unknown, i: number) => masks?.groupOf(first + i));
      if (masks) equal(groups, vector.groups, `${vector.name}.groups`);
    }
  },

  blocks: async (vectors) => {
    for (const vector of vectors) {
      const blocks = new Blocks(hex(vector.seed), vector.n_frequencies, vector.frequencies_per_sketch);
      if (blocks.count > 1) equal(blocks.members.map((row) => Array.from(row)), vector.members, "members");
      for (const { ordinal, stream, turn, block } of vector.chosen) {
        equal(blocks.choose(ordinal, stream, turn), block, `${stream} ${turn}`);
      }
    }
  },

  kinds: async (kinds) => {
    for (const { resolution, x, t } of kinds.logarithms) {
      equal(x.map((text: string) => compress(readFloat(text), readFloat(resolution))), t.map(readFloat), "logarithms");
    }
    for (const { encoding, lower, upper, bins_log2, values, bins } of kinds.bins) {
      const dimension = dimensionOf(encoding);
      const interval = intervalOf(dimension, readFloat(lower), readFloat(upper));
      equal(values.map((text: string) => findBin(dimension, interval, bins_log2, readFloat(text))), bins, "bins");
      const all = Array.from({ length: Math.max(...bins) + 1 }, (_, bin) => placeBin(dimension, bins_log2, bin));
      equal(all.slice().sort((a, b) => a - b), [...all.keys()], "places");
    }
    const dimensions: Dimension[] = kinds.encodings.map((one: Json, i: number) => dimensionOf(one, `${i}`));
    const columns = dimensions.map((dimension, i) => intervalOf(dimension, kinds.lower[i], kinds.upper[i]));
    const box = dimensions.flatMap(({ levels }, i) => levels?.map(() => new Interval(0, 1)) ?? [columns[i]!]);
    const scale = dimensions.flatMap(({ levels }, i) => levels?.map(() => 1) ?? [kinds.scale[i]]);
    const { seed, n_frequencies, radius_law } = kinds.frequencies;
    const frequencies = drawFrequencies(hex(seed), n_frequencies, radius_law, box, scale);
    const bits = kinds.histogram_bins_log2;
    const twoOfFour = new Blocks(new Uint8Array(32), 4, 2).members[0]!;
    const statistics: { [name: string]: Statistic } = {
      fourier: new FourierStatistic(dimensions, box, frequencies),
      histogram: new HistogramStatistic(dimensions, columns, bits, [0, 1, 2, 3]),
      "histogram of dimensions 1 and 3": new HistogramStatistic(dimensions, columns, bits, [1, 3]),
      "clusters, l1": new ClustersStatistic(dimensions, box, kinds.clusters, [0, 1, 2, 3]),
      "clusters, two in a sketch, l1": new ClustersStatistic(dimensions, box, kinds.clusters, twoOfFour),
    };
    for (const [name, statistic] of Object.entries(statistics)) {
      const vector = kinds.sums.find((one: Json) => one.statistic === name);
      equal(sumUp(statistic, kinds.records), [vector.sums, vector.n_unsketchable], name);
    }
  },

  noise: async ({ digits, exponents, least_radii }) => {
    digits.forEach((expected: string, i: number) => {
      const found = findDigits(1n << BigInt(i), UNIT, i === 58 ? 0n : 1n, 128n);
      equal(found.toString(16).padStart(32, "0"), expected, `digits ${i}`);
    });
    for (const { bytes, x } of exponents) {
      const source = given(hex(bytes));
      equal(x.map(() => `${drawExponent(source)}`), x, "exponents");
      equal(source.left, 0, "bytes that are left");
    }
    for (const { n_frequencies, n_counts, least } of least_radii) {
      equal(`${findLeastRadius(2 * n_frequencies + n_counts)}`, `${least}`, "least radius");
    }
  },

  reports: async ({ laws, bins }) => {
    for (const vector of [...laws, ...bins]) {
      const circle = vector.n_bins ?? 65536;
      const law = new CircularLaw(circle, vector.arc, BigInt(vector.weight));
      equal(`${law.drawsBelow}`, `${BigInt(vector.draws_below)}`, "draws_below");
      for (const draw of vector.draws) {
        const source = givenNumber(BigInt(draw.number));
        equal(law.report(1000 % circle, source), draw.report_of_phase_1000 % circle, "report");
        equal(law.report(undefined, source), draw.uniform_report, "uniform report");
        equal(law.report(0, source), (draw.offset + circle) % circle, "offset");
      }
    }
  },

  enrolment: async ({ code, study, labels, proof_input, request, device }, tools) => {
    const read = readCode(code.line);
    equal([read.server, toHex(read.study), read.token], [code.server, code.study, code.token], "code");
    const publicKey = hex(device.public_key);
    equal(toHex(await tools.sha256(publicKey)), device.id, "device");
    equal(toHex(await computeStudyId(study.name, hex(study.plan_digest), tools.sha256)), study.id, "study");
    equal(toHex(encodeProofInput(code.token, hex(study.id), publicKey, labels)), proof_input, "proof_input");
    const sign: Sign = (data) => tools.sign({ publicKey, secret: hex(device.private_key) }, data);
    const made = await makeEnrolment(code.token, hex(study.id), publicKey, labels, sign);
    const body = JSON.parse(decodeURIComponent(toHex(made.body!).replace(/../g, "%$&")));
    equal({ ...made, body }, { ...request, body: JSON.parse(request.body) }, "request");
  },

  requests: async (vectors, tools) => {
    for (const { device, private_key, created, request } of vectors) {
      const { method, path, headers, body } = request;
      const kept = body ? { "Content-Type": "application/json" } : {};
      const plain = { method, path, headers: kept as { [name: string]: string }, body: body ? utf8(body) : undefined };
      const sign: Sign = (data) => tools.sign({ publicKey: hex(device), secret: hex(private_key) }, data);
      equal((await signRequest(plain, hex(device), created, sign, tools.sha256)).headers, headers, path);
    }
  },

  messages: async ({ messages, limits }, tools) => {
    for (const vector of messages) {
      try {
        await (isForeign(vector) ? refuseMessage(vector, tools) : reproduceMessage(vector, tools));
      } catch (error) {
        throw new Error(`${vector.name}: ${(error as Error).message}`);
      }
    }
    for (const vector of limits) {
      if (isForeign(vector)) continue;
      const plan = await Plan.open(await readPlan(hex(vector.plan), tools.sha256));
      equal(plan.clamp(vector.noised.map(BigInt), vector.n_records).map(Number), vector.released, vector.name);
    }
  },

  results: async ({ keys, results }, tools) => {
    for (const { name, plan: encoded, document, public_key, centroids, spreads, verdict, records, clusters } of results) {
      const { result, keyId, input, signature } = decodePublished(hex(document));
      equal([result.centroids, result.spreads], [centroids, spreads], name);
      equal(result.verdict && [result.verdict.word, result.verdict.sentence], verdict, `${name}.verdict`);
      equal(toHex(keyId), toHex(await tools.sha256(hex(public_key))), `${name}.key`);
      equal(await tools.verify(hex(public_key), input, signature), true, `${name}.signature`);
      equal(await tools.verify(hex(keys[1].public_key), input, signature), false, `${name} by another key`);
      const finder = new Result(await Plan.open(await readPlan(hex(encoded), tools.sha256)), result);
      records.forEach((record: Json, i: number) => {
        const found = finder.find(record);
        const { cluster, distance, is_far, is_outside } = clusters[i];
        equal([found.cluster, found.isOutside], [cluster, is_outside], `${name}.${i}`);
        if (!cluster) return;
        equal(found.isFar ?? null, is_far, `${name}.${i}.is_far`);
        equal(Math.abs(found.distance - distance) <= 1e-12 * distance, true, `${name}.${i}.distance`);
      });
    }
    const [first, second] = keys;
    const input = encodeEndorsement(await tools.sha256(hex(first.public_key)), hex(second.public_key));
    equal(await tools.verify(hex(first.public_key), input, hex(second.endorsement)), true, "endorsement");
  },

  sum: async ({ ring, batch }, tools) => {
    for (const { sums, seed, blind, sketch_id, report_id, payload } of batch.reports) {
      const context = { planDigest: hex(batch.plan_digest), sketchId: hex(sketch_id), reportId: hex(report_id) };
      equal(toHex(maskSum(sums.map(BigInt), hex(seed), hex(blind), context, batch.width)), payload, "payload");
    }
    for (const { width, values, words } of ring) {
      const context = { planDigest: new Uint8Array(32), sketchId: new Uint8Array(32), reportId: new Uint8Array(16) };
      const exact: bigint[] = values.map(BigInt);
      const [zero, plain] = [exact.map(() => 0n), exact].map((sums) =>
        maskSum(sums, new Uint8Array(32), new Uint8Array(0), context, width),
      );
      // The difference of two sums under one mask is the words of the sum.
      const wordOf = (bytes: Uint8Array, i: number): bigint =>
        BigInt(`0x${toHex(bytes.slice(i * width, (i + 1) * width).reverse())}`);
      const found = exact.map((_, i) => {
        const word = BigInt.asUintN(8 * width, wordOf(plain!, i) - wordOf(zero!, i));
        return toHex(givenNumber(word).drawBytes(width));
      });
      equal(found.join(""), words, "words");
    }
    const plan = await readPlan(hex(batch.plan), tools.sha256);
    const helper = plan.fields.release.kind === "sum.v1" ? plan.fields.release.helper.key : new Uint8Array(0);
    for (const [i, { seed, header_without_seal, context, info, box }] of batch.reports.entries()) {
      equal(toHex(await tools.sha256(hex(header_without_seal))), context, "context");
      equal(toHex(concat(utf8("sfumato/v1/sum/seal"), hex(context))), info, "info");
      // The vectors derive the ephemeral keys from these names.
      const secret = new Shake256(utf8(`sfumato sum vectors/ephemeral ${i}`)).take(32);
      const ephemeral = await tools.ephemeralOf!(secret, hex(box).slice(0, 32));
      equal(toHex(await sealHpke(hex(seed), helper, hex(info), ephemeral, tools.sha256)), box, "box");
    }
  },
};

/** Where the last of a family's vectors is for servers, or for plans that are refused here. */
const READ_UP_TO: { [name: string]: string } = {
  kinds: "sums.0",
  enrolment: "proof_input",
  messages: "messages.0.message",
  sum: "batch.reports.0.box",
};

/** Change the last number or text of what a family reads, which must make a difference. */
function change(vectors: Json, path: readonly string[] = []): void {
  if (path.length > 1) return change(vectors[path[0]!], path.slice(1));
  const keys = Object.keys(vectors);
  const last = path[0] ?? keys[keys.length - 1]!;
  const value = vectors[last];
  if (typeof value === "object" && value !== null) change(value);
  else if (typeof value === "number") vectors[last] = value + 1;
  else if (typeof value === "boolean") vectors[last] = !value;
  else vectors[last] = value.slice(0, -1) + (value.endsWith("0") ? "1" : "0");
}

/** Compute all families; return, by name, an empty text or how one differs. */
export async function reproduce(
  read: (name: string) => Promise<Json>,
  tools: Tools,
  isChanged = false,
): Promise<{ [name: string]: string }> {
  const found: { [name: string]: string } = {};
  for (const [name, compute] of Object.entries(FAMILIES)) {
    const vectors = await read(name);
    if (isChanged) change(vectors, READ_UP_TO[name]?.split("."));
    found[name] = await compute(vectors, tools).then(
      () => "",
      (error: unknown) => `${error}`,
    );
  }
  return found;
}
