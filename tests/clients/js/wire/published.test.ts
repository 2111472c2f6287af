import assert from "node:assert/strict";
import { createHash, createPublicKey, verify } from "node:crypto";
import { test } from "node:test";

import { toHex } from "../../../../clients/js/src/bytes.ts";
import { useWebCrypto } from "../../../../clients/js/src/device/platform.ts";
import { findFarLimit, Result } from "../../../../clients/js/src/device/results.ts";
import { Plan } from "../../../../clients/js/src/plan/plan.ts";
import { readPlan } from "../../../../clients/js/src/plan/verifying.ts";
import { decodePublished, encodeEndorsement } from "../../../../clients/js/src/wire/published.ts";
import { hex, type Json, readVectors, sha256 } from "../vectors.ts";

const { keys, results } = readVectors("results");
const platform = useWebCrypto();

test("a document reads as the vectors say, and its signature verifies with its key alone", async () => {
  for (const { document, public_key, centroids, spreads, verdict } of results) {
    const { result, keyId, input, signature } = decodePublished(hex(document));
    assert.deepEqual([result.centroids, result.spreads], [centroids, spreads]);
    assert.deepEqual(result.verdict && [result.verdict.word, result.verdict.sentence], verdict);
    assert.equal(toHex(keyId), createHash("sha256").update(hex(public_key)).digest("hex"));
    assert.ok(await platform.verify(hex(public_key), input, signature));
    assert.ok(!(await platform.verify(hex(keys[1].public_key), input, signature)));
    signature[0]! ^= 1;
    assert.ok(!(await platform.verify(hex(public_key), input, signature)));
  }
});

test("a document that is cut, longer or changed anywhere is refused or does not verify", async () => {
  const bytes = hex(results[0].document);
  for (let i = 0; i < bytes.length; i++) {
    const changed = bytes.slice();
    changed[i]! ^= 1 << (i % 8);
    try {
      const { input, signature, keyId } = decodePublished(changed);
      const isNamed = toHex(keyId) === createHash("sha256").update(hex(keys[0].public_key)).digest("hex");
      assert.ok(!isNamed || !(await platform.verify(hex(keys[0].public_key), input, signature)), `byte ${i}`);
    } catch (error) {
      assert.equal((error as Error).name, "SketchError", `byte ${i}: ${error}`);
    }
  }
  assert.throws(() => decodePublished(bytes.subarray(0, -1)), /result: /);
  assert.throws(() => decodePublished(Buffer.concat([bytes, Buffer.of(0)])), /result: /);
});

test("spreads below zero, and names that cannot be seen whole, are refused by name", () => {
  const { document, spreads } = results[0];
  const change = (old: Uint8Array, now: Uint8Array): (() => unknown) => {
    const bytes = Buffer.from(hex(document));
    const at = bytes.indexOf(old);
    assert.ok(at > 0 && now.length === old.length);
    bytes.set(now, at);
    return () => decodePublished(bytes);
  };
  // An eighth, in half precision.
  assert.equal(spreads[0][1], 1 / 8);
  assert.throws(change(hex("f93000"), hex("f9b000")), /spreads: must be 0 or more/);
  const { sentence } = decodePublished(hex(document)).result.verdict!;
  const [from, hidden, private_] = [sentence.slice(0, 3), "\u202e", "\ue000"].map((text) => Buffer.from(text));
  assert.throws(change(from!, hidden!), /verdict: /);
  assert.doesNotThrow(change(from!, private_!), "as the agent takes it");
});

test("a key names its successor by the bytes of the vectors", async () => {
  const [first, second] = keys as [Json, Json];
  const input = encodeEndorsement(await sha256(hex(first.public_key)), hex(second.public_key));
  assert.ok(await platform.verify(hex(first.public_key), input, hex(second.endorsement)));
  const spki = Buffer.concat([Buffer.from("302a300506032b6570032100", "hex"), hex(first.public_key)]);
  const key = createPublicKey({ key: spki, format: "der", type: "spki" });
  assert.ok(verify(null, input, key, hex(second.endorsement)));
});

test("records get the clusters, distances and doubts that the agent in Python gives them", async () => {
  for (const { name, plan: encoded, document, records, clusters } of results) {
    const plan = new Plan(await readPlan(hex(encoded), sha256));
    const result = new Result(plan, decodePublished(hex(document)).result);
    records.forEach((record: Json, i: number) => {
      const found = result.find(record);
      const { cluster, distance, is_far, is_outside } = clusters[i];
      assert.deepEqual([found.cluster, found.isOutside], [cluster, is_outside], `${name}, record ${i}`);
      if (!cluster) return;
      assert.equal(found.isFar ?? null, is_far, `${name}, record ${i}`);
      assert.ok(Math.abs(found.distance - distance) <= 1e-12 * distance, `${name}, record ${i}`);
    });
  }
});

test("the limit of what is far is the 99.9 % point of chi-squared, by known values", () => {
  for (const [n, known] of [[1, 10.828], [2, 13.816], [5, 20.515], [10, 29.588]] as const) {
    assert.ok(Math.abs(findFarLimit(n) / known - 1) < 0.04, `${n}: ${findFarLimit(n)}`);
  }
});
