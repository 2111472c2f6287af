import assert from "node:assert/strict";
import { test } from "node:test";

import { toHex } from "../../../../clients/js/src/bytes.ts";
import { encode } from "../../../../clients/js/src/wire/cbor.ts";
import { readCode } from "../../../../clients/js/src/wire/code.ts";
import {
  encodeHeader,
  encodePayload,
} from "../../../../clients/js/src/wire/message.ts";
import { hex, type Json, readVectors } from "../vectors.ts";

const ENROLMENT = readVectors("enrolment");
const MESSAGES: Json[] = readVectors("messages").messages;

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

test("a coordinate that does not fit its width is refused, and nothing is cut off", () => {
  assert.equal(toHex(encodePayload([127n, -128n, -1n], 1)), "7f80ff");
  assert.throws(() => encodePayload([128n], 1), /payload_width/);
  assert.throws(() => encodePayload([-129n], 1), /payload_width/);
  assert.equal(toHex(encode([1])), "8101");
});
