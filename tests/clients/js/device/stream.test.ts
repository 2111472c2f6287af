import assert from "node:assert/strict";
import { test } from "node:test";

import { type Bytes, readInteger, toHex } from "../../../../clients/js/src/bytes.ts";
import { useWebCrypto } from "../../../../clients/js/src/device/platform.ts";
import type { DeviceState, LedgerEntry, Store, Values } from "../../../../clients/js/src/device/store.ts";
import { type PendingRecord, Stream } from "../../../../clients/js/src/device/stream.ts";
import { Plan, type VerifiedPlan } from "../../../../clients/js/src/plan/plan.ts";
import { readPlan } from "../../../../clients/js/src/plan/verifying.ts";
import { SystemSource } from "../../../../clients/js/src/privacy/source.ts";
import { decode } from "../../../../clients/js/src/wire/decoding.ts";
import { hex, type Json, readVectors, sha256 } from "../vectors.ts";

const platform = useWebCrypto();
const random = new SystemSource(platform.fillRandom);
const NAME = "device";

/** A store in memory, whose updates may be preceded by those of another tab. */
class MemoryStore implements Store {
  readonly canHoldKeys = true;
  readonly values = new Map<string, unknown>();
  before: () => Promise<void> = async () => undefined;

  async update(keys: readonly string[], change: (values: Values) => Values): Promise<void> {
    await this.before();
    const written = change(Object.fromEntries(keys.map((key) => [key, structuredClone(this.values.get(key))])));
    for (const [key, value] of Object.entries(written)) {
      if (value === undefined) this.values.delete(key);
      else this.values.set(key, structuredClone(value));
    }
  }

  exclusively<T>(_name: string, run: () => Promise<T>): Promise<T> {
    return run();
  }
}

/** Return a plan of the vectors, with noise that is zero for all practical purposes. */
async function readExactPlan(name: string): Promise<VerifiedPlan> {
  const vector = readVectors("messages").messages.find((one: Json) => one.name === name);
  const plan = await readPlan(hex(vector.plan), sha256);
  const release = { mechanism: "discrete-laplace", epsilon: [10n ** 12n, 1n], sensitivity: { norm: "l1", value: 555888 } };
  Object.assign(plan.fields.release, release);
  plan.fields.most_sketches_per_device = 1000;
  return plan;
}

/** Return a stream of an enrolled device, over a store of its own. */
async function enrol(plan: VerifiedPlan, perRecord = "1000000000000"): Promise<[MemoryStore, () => Stream]> {
  const store = new MemoryStore();
  const key = await platform.createKey(true);
  const device = await sha256(key.publicKey);
  const state: DeviceState = {
    ...{ format: 1, server: "", study: new Uint8Array(32), plan, key, device, labels: {}, isEnrolled: true },
    ...{ stream: "main", ordinal: 0, generation: "", nextSequence: 0, firstRecord: 0, floor: -1, revision: 0 },
    ...{ suspended: "", outbox: [], certain: 0 },
  };
  store.values.set(`device/${NAME}`, state);
  const account = { name: NAME, stream: "main", source: "default" };
  const settings = { ...account, store, platform, limits: { perRecord }, secureSum: undefined };
  return [store, () => new Stream(settings, random, new Plan(plan), device)];
}

/** Return the sum of all sketches in an outbox, and their numbers. */
function addUp(store: MemoryStore, { payload_width: width }: Json): [sums: number[], sequences: number[]] {
  const { outbox } = store.values.get(`device/${NAME}`) as DeviceState;
  const sums: number[] = [];
  for (const { id } of outbox) {
    const [, payload] = decode(store.values.get(`message/${NAME}/${toHex(id)}`) as Bytes, "message") as [Json, Bytes];
    for (let i = 0; i * width < payload.length; i++) {
      const word = BigInt.asIntN(8 * width, readInteger(payload.slice(i * width, (i + 1) * width)));
      sums[i] = (sums[i] ?? 0) + Number(word);
    }
  }
  return [sums, outbox.map(({ sequence }) => sequence)];
}

function sumUp(plan: VerifiedPlan, records: readonly PendingRecord[]): number[] {
  const statistic = new Plan(plan).buildStatistic(new Uint8Array(0), 0);
  const sums = new Float64Array(statistic.nCoordinates);
  for (const { values } of records) statistic.add(values, 0, sums);
  return Array.from(sums);
}

const makeRecords = (n: number, time: number): PendingRecord[] =>
  Array.from({ length: n }, (_, i) => ({ values: Float64Array.of(100 * Math.sin(i + n), (i % 10) / 10), time }));

test("whatever another tab does between any two steps, every record is in one release and counted once", async () => {
  const plan = await readExactPlan("windows by count");
  const now = plan.fields.window.origin + 1_800_000_000;
  const clocks = { device: now, server: now, certain: 0 };
  for (let place = 0, isInside = true; isInside; place++) {
    const [store, open] = await enrol(plan);
    const [own, others] = [makeRecords(12, now), makeRecords(13, now)];
    const all = [...own, ...others];
    let nPassed = 0;
    store.before = async () => {
      if (nPassed++ !== place) return;
      await open().absorb(others, clocks, true, true);
    };
    await open().absorb(own, clocks, true, true);
    isInside = nPassed > place;
    if (!isInside) await open().absorb(others, clocks, true, true);
    const [sums, sequences] = addUp(store, plan.fields);
    assert.deepEqual(sequences, [0, 1, 2, 3, 4], `place ${place}`);
    assert.deepEqual(sums, sumUp(plan, all), `place ${place}`);
    const [{ count }] = store.values.get("ledger") as [LedgerEntry];
    assert.equal(count, 5);
    assert.deepEqual([own.length, others.length, store.values.has(`windows/${NAME}`)], [0, 0, false]);
  }
});

test("a slot has one sketch and no more where all records of a device are protected together", async () => {
  const plan = await readExactPlan("all records of a device together");
  const { origin, length_s } = plan.fields.window;
  const at = (slot: number): number => origin + slot * length_s + 1;
  const clocksAt = (device: number) => ({ device, server: device, certain: 0 });
  const [store, open] = await enrol(plan);
  const pending = [...makeRecords(3, at(0)), ...makeRecords(2, at(1)), ...makeRecords(1, at(0)), ...makeRecords(1, NaN)];
  await open().absorb(pending, clocksAt(at(2)), true, true);
  // Late ones, and ones of unknown time, open no second window of a slot.
  await open().absorb([...makeRecords(2, at(1)), ...makeRecords(2, at(0))], clocksAt(at(3)), true, true);
  const { outbox } = store.values.get(`device/${NAME}`) as DeviceState;
  assert.equal(outbox.length, 2);
  assert.deepEqual(pending, []);
});

test("what the budget does not pay for is neither summed nor released", async () => {
  const plan = await readExactPlan("windows by count");
  const now = plan.fields.window.origin + 1_800_000_000;
  const [store, open] = await enrol(plan, "999999999999");
  const before = structuredClone([...store.values]);
  await assert.rejects(open().absorb(makeRecords(12, now), { device: now, server: now, certain: 0 }, true, true), {
    kind: "budget",
    field: "limits.perRecord",
  });
  assert.deepEqual([...store.values], before);
});

test("by a clock that differs from the server's no window is closed, and by one before the study none opens", async () => {
  const plan = await readExactPlan("masks, windows by time");
  const { origin, length_s } = plan.fields.window;
  const [store, open] = await enrol(plan);
  const pending = makeRecords(4, origin + 1);
  const ahead = { device: origin + 3 * length_s, server: origin + 2, certain: 0 };
  assert.equal(await open().absorb(pending, ahead, true, true), 0);
  assert.equal(pending.length, 0);
  const early = makeRecords(1, origin + 1);
  const clocks = { device: origin - 1000, server: undefined, certain: 0 };
  await assert.rejects(open().absorb(early, clocks, true, true), { kind: "record", field: "clock" });
  assert.equal(early.length, 1);
  const agreed = { device: origin + 3 * length_s, server: origin + 3 * length_s + 200, certain: 0 };
  assert.equal(await open().absorb(early, agreed, true, true), 1);
  assert.equal((store.values.get(`device/${NAME}`) as DeviceState).firstRecord, 5);
});
