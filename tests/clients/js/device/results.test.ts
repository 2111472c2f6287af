import assert from "node:assert/strict";
import { test } from "node:test";

import { toHex } from "../../../../clients/js/src/bytes.ts";
import { useWebCrypto } from "../../../../clients/js/src/device/platform.ts";
import { load, pin, pull, type StoredResult } from "../../../../clients/js/src/device/results.ts";
import { Server } from "../../../../clients/js/src/device/server.ts";
import { resultKey, stateKey, type Store, type Values } from "../../../../clients/js/src/device/store.ts";
import { Plan } from "../../../../clients/js/src/plan/plan.ts";
import { readPlan } from "../../../../clients/js/src/plan/verifying.ts";
import { decodePublished } from "../../../../clients/js/src/wire/published.ts";
import { hex, type Json, readVectors, sha256 } from "../vectors.ts";

const { keys, results } = readVectors("results");
const { document, plan: encoded, public_key } = results[0];
const { study } = decodePublished(hex(document)).result;
const verified = await readPlan(hex(encoded), sha256);
const platform = useWebCrypto();
const device = new Uint8Array(32).fill(7);
const name = "device";
const own = resultKey(name);

/** A device in memory, and a server that answers with the document and keys, when `meanwhile` is done. */
function begin({ keys: stated = keys as Json, meanwhile = (_: Values): void => undefined, pinned = undefined as string | undefined } = {}) {
  const values: Values = { [stateKey(name)]: { device, study, isEnrolled: true } };
  if (pinned) values[own] = { publicKey: hex(pinned), sequence: -1 };
  const store: Store = {
    canHoldKeys: false,
    exclusively: (_, run) => run(),
    update: async (_, change) => {
      for (const [key, value] of Object.entries(change(values))) {
        if (value === undefined) delete values[key];
        else values[key] = value;
      }
    },
  };
  const fetch = async (url: string): Promise<Response> => {
    meanwhile(values);
    return url.endsWith("/published") ? new Response(hex(document)) : new Response(JSON.stringify({ keys: stated }));
  };
  const sign = async (): Promise<Uint8Array<ArrayBuffer>> => new Uint8Array(64);
  const server = new Server({ address: "https://x.example", device, sign, sha256, fetch, clock: () => 0 });
  const settings = { name, store, platform };
  return { values, settings, server };
}

const forget = (values: Values): void => {
  delete values[stateKey(name)];
  delete values[own];
};

test("a result is pulled, kept, and checked again when it is loaded", async () => {
  const { values, settings, server } = begin({ pinned: public_key });
  const result = await pull(settings, server, study, await Plan.open(verified));
  assert.equal((values[own] as StoredResult).sequence, result!.published.sequence);
  assert.deepEqual((await load(settings, study, await Plan.open(verified)))!.published, result!.published);
});

test("what is forgotten while the server answers stays forgotten, with its key", async () => {
  const { values, settings, server } = begin({ keys: keys.slice(0, 1), meanwhile: forget, pinned: public_key });
  await assert.rejects(pull(settings, server, study, await Plan.open(verified)), /device: has left the study meanwhile/);
  await pin(settings, server);
  assert.deepEqual(values, {});
});

test("a pull that began before another tab pinned a key does not replace it", async () => {
  const other = toHex(new Uint8Array(32).fill(9));
  const meanwhile = (values: Values): void => void (values[own] = { publicKey: hex(other), sequence: -1 });
  const { values, settings, server } = begin({ meanwhile, pinned: public_key });
  await assert.rejects(pull(settings, server, study, await Plan.open(verified)), /signature: /);
  assert.equal(toHex((values[own] as StoredResult).publicKey), other);
});

test("a server that answers with no keys is told by name", async () => {
  for (const stated of [[null], [7], [{}], {}, [{ public_key: "00" }]]) {
    const { values, settings, server } = begin({ keys: stated });
    await assert.rejects(pull(settings, server, study, await Plan.open(verified)), { name: "SketchError", kind: "transport" });
    assert.equal(values[own], undefined);
  }
});

test("a result in other units than the plan's is refused", async () => {
  const { fields } = verified;
  const dimensions = fields.dimensions.map((dimension) => ({ ...dimension, unit: "furlong" }));
  const plan = await Plan.open({ ...verified, fields: { ...fields, dimensions } });
  const { settings, server } = begin({ pinned: public_key });
  await assert.rejects(pull(settings, server, study, plan), /published result: has other dimensions/);
});
