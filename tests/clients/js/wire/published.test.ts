import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { test } from "node:test";

import { toHex } from "../../../../clients/js/src/bytes.ts";
import { useWebCrypto } from "../../../../clients/js/src/device/platform.ts";
import { findFarLimit } from "../../../../clients/js/src/device/results.ts";
import { decodePublished } from "../../../../clients/js/src/wire/published.ts";
import { hex, readVectors } from "../vectors.ts";

const { keys, results } = readVectors("results");
const platform = useWebCrypto();

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

test("the limit of what is far is the 99.9 % point of chi-squared, by known values", () => {
  for (const [n, known] of [[1, 10.828], [2, 13.816], [5, 20.515], [10, 29.588]] as const) {
    assert.ok(Math.abs(findFarLimit(n) / known - 1) < 0.04, `${n}: ${findFarLimit(n)}`);
  }
});
