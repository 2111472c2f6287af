import assert from "node:assert/strict";
import { test } from "node:test";

import { toHex, utf8 } from "../../../../clients/js/src/bytes.ts";
import { PHASES } from "../../../../clients/js/src/core/features.ts";
import { FourierStatistic } from "../../../../clients/js/src/core/statistics/fourier.ts";
import { computeStudyId, encodeStreamId, type Plan, readPlan } from "../../../../clients/js/src/plan/plan.ts";
import { encode } from "../../../../clients/js/src/wire/cbor.ts";
import { readCode } from "../../../../clients/js/src/wire/code.ts";
import {
  computeSketchId,
  encodeHeader,
  encodeMessage,
  encodePayload,
  encodeSignatureInput,
  sketchPath,
} from "../../../../clients/js/src/wire/message.ts";
import { encodeProofInput, makeEnrolment, signRequest } from "../../../../clients/js/src/wire/requests.ts";
import { openKey } from "../keys.ts";
import { hex, type Json, readVectors, sha256 } from "../vectors.ts";

const ENROLMENT = readVectors("enrolment");
const MESSAGES: Json[] = readVectors("messages").messages;
/** Statistics and noise that this device does not compute. */
const FOREIGN = /grid|moments|a secret number of records/;

test("an enrolment code is read in any case and spacing, and no wrong copy of it", () => {
  const { line, server, study, token } = ENROLMENT.code;
  for (const text of [line, line.toLowerCase(), ` ${line.slice(0, 40)}\n${line.slice(40)}\t`]) {
    const code = readCode(text);
    assert.deepEqual([code.server, toHex(code.study), code.token], [server, study, token]);
  }
  for (let i = 8; i < line.length; i++) {
    const other = line[i] === "A" ? "B" : "A";
    assert.throws(() => readCode(line.slice(0, i) + other + line.slice(i + 1)), /checksum/);
  }
  assert.throws(() => readCode(line.slice(0, -1)), /checksum/);
  assert.throws(() => readCode(token), /must begin with SFUMATO:/);
});

test("a device enrols with the bytes of the vectors", async () => {
  const { code, study, labels, proof_input, request, device } = ENROLMENT;
  const key = openKey(device.private_key);
  assert.equal(toHex(key.publicKey), device.public_key);
  assert.equal(toHex(await sha256(key.publicKey)), device.id);
  assert.equal(toHex(await computeStudyId(study.name, hex(study.plan_digest), sha256)), study.id);
  const input = encodeProofInput(code.token, hex(study.id), key.publicKey, labels);
  assert.equal(toHex(input), proof_input);
  const made = await makeEnrolment(code.token, hex(study.id), key.publicKey, labels, key.sign);
  assert.deepEqual({ ...made, body: JSON.parse(new TextDecoder().decode(made.body)) }, {
    ...request,
    body: JSON.parse(request.body),
  });
});

test("requests are signed as the vectors are", async () => {
  for (const { device, private_key, created, request } of readVectors("requests")) {
    const { method, path, headers, body } = request;
    const given = body ? { "Content-Type": "application/json" } : {};
    const plain = { method, path, headers: given as { [name: string]: string }, body: body ? utf8(body) : undefined };
    const signed = await signRequest(plain, hex(device), created, openKey(private_key).sign, sha256);
    assert.deepEqual(signed.headers, headers);
  }
});

/** Return what a vector's records give under a plan: their sums, as a device finishes them. */
function sumUp(plan: Plan, vector: Json): [exact: bigint[], records: Float64Array[]] {
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
  const places = isFourier ? statistic.findPhases(record) : statistic.findPlaces(record);
  const circle = isFourier ? PHASES : plan.makeLaw().circle;
  return vector.noise.map((offset: number, i: number) => ((places?.[i] ?? 0) + offset) % circle);
}

for (const vector of MESSAGES.filter(({ name }) => !FOREIGN.test(name))) {
  test(`a message is that of the vectors: ${vector.name}`, async () => {
    const { stream, sequence, slots, ordinal } = vector;
    const plan = await readPlan(hex(vector.plan), sha256);
    assert.equal(toHex(plan.digest), vector.plan_digest);
    assert.equal(toHex(encodeStreamId(hex(vector.device), stream)), vector.stream_id);
    const block = plan.blocks.choose(ordinal, stream, slots ? slots[0] : sequence);
    if (vector.block !== null) assert.equal(block, vector.block);
    const [exact, records] = sumUp(plan, vector);
    const nRecords = plan.protectsDevices ? 1 : records.length;
    assert.equal(nRecords, vector.n_records);
    let payload;
    if (plan.reportsPhases) {
      payload = encodePayload(report(plan, vector, records[0]!).map(BigInt), 3);
      payload = payload.filter((_, i) => i % 3 < 2);
    } else {
      assert.deepEqual(exact.map(Number), vector.sums);
      const noised = exact.map((sum, i) => sum + BigInt(vector.noise[i]));
      const released = plan.clamp(noised, nRecords);
      assert.deepEqual(released.map(Number), vector.released);
      payload = encodePayload(released, plan.fields.payload_width);
    }
    assert.equal(toHex(payload), vector.payload);
    for (const time of vector.times ?? []) assert.ok(plan.slotOf(time) >= slots[0] && plan.slotOf(time) <= slots[1]);
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
      block: plan.blocks.count > 1 ? block : undefined,
    };
    assert.equal(toHex(encodeHeader(header)), vector.header);
    const [protectedHeader, input] = encodeSignatureInput(header.device, encodeHeader(header));
    assert.deepEqual([toHex(protectedHeader), toHex(input)], [vector.protected, vector.signature_input]);
    const message = await encodeMessage(header, payload, openKey(vector.private_key).sign);
    assert.equal(toHex(message), vector.message);
    const id = await computeSketchId(header.study, header.device, stream, sequence, sha256);
    assert.equal(toHex(id), vector.sketch_id);
    assert.equal(sketchPath(header.study, id), vector.request.path);
  });
}

test("a secret number of records is stated nowhere in the header", () => {
  const vector = MESSAGES.find(({ name }) => name === "a secret number of records");
  const header = {
    kind: "local.v1",
    study: hex(vector.study),
    planDigest: hex(vector.plan_digest),
    device: hex(vector.device),
    stream: vector.stream,
    sequence: vector.sequence,
    slots: vector.slots,
    nRecords: null,
    reportId: hex(vector.report_id),
    payloadLength: vector.payload.length / 2,
    payloadDigest: hex(vector.payload_digest),
  };
  assert.equal(toHex(encodeHeader(header)), vector.header);
});

test("coordinates are clamped as the vectors are", async () => {
  for (const vector of readVectors("messages").limits) {
    if (FOREIGN.test(vector.name)) continue;
    const plan = await readPlan(hex(vector.plan), sha256);
    const released = plan.clamp(vector.noised.map(BigInt), vector.n_records);
    assert.deepEqual(released.map(Number), vector.released);
  }
});

test("plans with a statistic or noise that is not computed here are refused by its name", async () => {
  const refused = MESSAGES.filter(({ name }) => FOREIGN.test(name));
  assert.ok(refused.length > 3);
  for (const { plan } of refused) {
    await assert.rejects(readPlan(hex(plan), sha256), (error: Json) => {
      assert.equal(error.kind, "version");
      assert.match(error.message, /(statistic\.kind|release\.mechanism).*Use the Python agent/);
      return true;
    });
  }
});

test("a coordinate that does not fit its width is refused, and nothing is cut off", () => {
  assert.equal(toHex(encodePayload([127n, -128n, -1n], 1)), "7f80ff");
  assert.throws(() => encodePayload([128n], 1), /payload_width/);
  assert.throws(() => encodePayload([-129n], 1), /payload_width/);
  assert.equal(toHex(encode([1])), "8101");
});
