import assert from "node:assert/strict";
import { createCipheriv, createPublicKey, verify as verifySignature } from "node:crypto";
import { test } from "node:test";

import { toHex, utf8 } from "../../../../clients/js/src/bytes.ts";
import { computeEndorsed, requireEndorsed, type Verify } from "../../../../clients/js/src/plan/endorsing.ts";
import { readPlan } from "../../../../clients/js/src/plan/verifying.ts";
import { encryptChaCha, sealHpke } from "../../../../clients/js/src/sharing/seal.ts";
import { seeded } from "../sources.ts";
import { hex, readVectors, sha256 } from "../vectors.ts";

const { batch } = readVectors("sum");
const ED25519_SPKI_HEAD = "302a300506032b6570032100";

const verify: Verify = async (publicKey, signature, data) => {
  const key = createPublicKey({ key: Buffer.from(ED25519_SPKI_HEAD + toHex(publicKey), "hex"), format: "der", type: "spki" });
  return verifySignature(null, data, key, signature);
};

test("the cipher is that of OpenSSL, for messages of every length around its blocks", () => {
  const source = seeded("chacha");
  for (const length of [0, 1, 15, 16, 17, 32, 63, 64, 65, 128, 200]) {
    const [key, nonce, message] = [32, 12, length].map((count) => source.drawBytes(count));
    const cipher = createCipheriv("chacha20-poly1305", key!, nonce!, { authTagLength: 16 });
    const expected = Buffer.concat([cipher.update(message!), cipher.final(), cipher.getAuthTag()]);
    assert.equal(toHex(encryptChaCha(key!, nonce!, message!)), expected.toString("hex"));
  }
});

test("a key of the helper that hides nothing is refused", async () => {
  const ephemeral = { publicKey: new Uint8Array(32), exchange: async () => new Uint8Array(32) };
  await assert.rejects(sealHpke(new Uint8Array(32), new Uint8Array(32), new Uint8Array(0), ephemeral, sha256), {
    field: "release.helper.key",
  });
});

test("a plan that its helper has not accepted is refused", async () => {
  const plan = await readPlan(hex(batch.plan), sha256);
  assert.equal(toHex(await computeEndorsed(plan, sha256)), batch.endorsed);
  await requireEndorsed(plan, verify, sha256);
  // Another number of reports, with the same signature.
  const bytes = hex(batch.plan);
  const name = utf8("most_reports");
  const at = bytes.findIndex((_, i) => name.every((byte, k) => bytes[i + k] === byte)) + name.length;
  bytes[at + 2]! ^= 1;
  const changed = await readPlan(bytes, sha256);
  await assert.rejects(requireEndorsed(changed, verify, sha256), { field: "release.helper.endorsement" });
});
