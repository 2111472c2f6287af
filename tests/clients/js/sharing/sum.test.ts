import assert from "node:assert/strict";
import { createCipheriv, createPrivateKey, createPublicKey, diffieHellman, verify as verifySignature } from "node:crypto";
import { test } from "node:test";

import { concat, toHex, utf8 } from "../../../../clients/js/src/bytes.ts";
import { computeEndorsed, requireEndorsed, type Verify } from "../../../../clients/js/src/plan/endorsing.ts";
import { readPlan } from "../../../../clients/js/src/plan/verifying.ts";
import { maskSum } from "../../../../clients/js/src/sharing/masks.ts";
import { encryptChaCha, type Ephemeral, sealHpke } from "../../../../clients/js/src/sharing/seal.ts";
import { seeded } from "../sources.ts";
import { hex, readVectors, sha256 } from "../vectors.ts";

const { ring, batch } = readVectors("sum");
const PKCS8_HEAD = "302e020100300506032b656e04220420";
const SPKI_HEAD = "302a300506032b656e032100";
const ED25519_SPKI_HEAD = "302a300506032b6570032100";

/** Return the X25519 key pair of 32 private bytes. */
function ephemeralOf(privateBytes: Uint8Array): Ephemeral {
  const key = createPrivateKey({ key: Buffer.from(PKCS8_HEAD + toHex(privateBytes), "hex"), format: "der", type: "pkcs8" });
  return {
    publicKey: new Uint8Array(createPublicKey(key).export({ format: "der", type: "spki" }).subarray(-32)),
    exchange: async (peer) => {
      const publicKey = createPublicKey({ key: Buffer.from(SPKI_HEAD + toHex(peer), "hex"), format: "der", type: "spki" });
      return new Uint8Array(diffieHellman({ privateKey: key, publicKey }));
    },
  };
}

const verify: Verify = async (publicKey, signature, data) => {
  const key = createPublicKey({ key: Buffer.from(ED25519_SPKI_HEAD + toHex(publicKey), "hex"), format: "der", type: "spki" });
  return verifySignature(null, data, key, signature);
};

test("sums are masked as the vectors are, and wrap at the width", () => {
  for (const { sums, seed, blind, sketch_id, report_id, payload } of batch.reports) {
    const context = { planDigest: hex(batch.plan_digest), sketchId: hex(sketch_id), reportId: hex(report_id) };
    const masked = maskSum(sums.map(BigInt), hex(seed), hex(blind), context, batch.width);
    assert.equal(toHex(masked), payload);
  }
  for (const { width, values, words } of ring) {
    const context = { planDigest: new Uint8Array(32), sketchId: new Uint8Array(32), reportId: new Uint8Array(16) };
    const numbers: bigint[] = values.map(BigInt);
    const [zero, plain] = [numbers.map(() => 0n), numbers].map((sums) =>
      maskSum(sums, new Uint8Array(32), new Uint8Array(0), context, width),
    );
    // The difference of two sums under one mask is the words of the sum.
    const found = numbers.map((_, i) => {
      const word = (bytes: Uint8Array): bigint =>
        BigInt(`0x${toHex(bytes.slice(i * width, (i + 1) * width).reverse())}`);
      return toHex(
        Uint8Array.from({ length: width }, (_, k) =>
          Number((BigInt.asUintN(8 * width, word(plain!) - word(zero!)) >> BigInt(8 * k)) & 255n),
        ),
      );
    });
    assert.equal(found.join(""), words);
  }
});

test("seeds are sealed as RFC 9180 says, by the vectors", async () => {
  const { helper_private } = batch;
  const helper = ephemeralOf(hex(helper_private)).publicKey;
  const plan = await readPlan(hex(batch.plan), sha256);
  assert.equal(plan.fields.release.kind === "sum.v1" && toHex(plan.fields.release.helper.key), toHex(helper));
  for (const [ordinal, { seed, header_without_seal, context, info, box }] of batch.reports.entries()) {
    assert.equal(toHex(await sha256(hex(header_without_seal))), context);
    assert.equal(toHex(concat(utf8("sfumato/v1/sum/seal"), hex(context))), info);
    const ephemeral = ephemeralOf(await deriveEphemeral(ordinal));
    assert.equal(toHex(await sealHpke(hex(seed), helper, hex(info), ephemeral, sha256)), box);
  }
});

/** Return the ephemeral private key of a report, which the vectors derive from its name. */
async function deriveEphemeral(ordinal: number): Promise<Uint8Array> {
  const { Shake256 } = await import("../../../../clients/js/src/core/shake.ts");
  return new Shake256(utf8(`sfumato sum vectors/ephemeral ${ordinal}`)).take(32);
}

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
