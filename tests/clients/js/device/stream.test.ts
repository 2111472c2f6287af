import assert from "node:assert/strict";
import { test } from "node:test";

import { type Bytes, readInteger, toHex } from "../../../../clients/js/src/bytes.ts";
import { useWebCrypto } from "../../../../clients/js/src/device/platform.ts";
import type { DeviceState, LedgerEntry, OpenWindow, Store, Values } from "../../../../clients/js/src/device/store.ts";
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
  after: () => void = () => undefined;

  async update(keys: readonly string[], change: (values: Values) => Values): Promise<void> {
    await this.before();
    const written = change(Object.fromEntries(keys.map((key) => [key, structuredClone(this.values.get(key))])));
    for (const [key, value] of Object.entries(written)) {
      if (value === undefined) this.values.delete(key);
      else this.values.set(key, structuredClone(value));
    }
    this.after();
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
  const opened = await Plan.open(plan);
  return [store, () => new Stream(settings, random, opened, device)];
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

async function sumUp(plan: VerifiedPlan, records: readonly PendingRecord[]): Promise<number[]> {
  const statistic = (await Plan.open(plan)).buildStatistic(new Uint8Array(0), 0);
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
    const [own, others, held] = [makeRecords(12, now), makeRecords(13, now), makeRecords(15, now)];
    const all = [...own, ...others, ...held];
    await open().absorb(held, clocks, false, true);
    let nPassed = 0;
    store.before = async () => {
      if (nPassed++ !== place) return;
      await open().absorb(others, clocks, true, true);
    };
    await open().absorb(own, clocks, true, true);
    isInside = nPassed > place;
    if (!isInside) await open().absorb(others, clocks, true, true);
    const [sums, sequences] = addUp(store, plan.fields);
    assert.deepEqual(sequences, [0, 1, 2, 3, 4, 5, 6, 7], `place ${place}`);
    assert.deepEqual(sums, await sumUp(plan, all), `place ${place}`);
    const [{ count }] = store.values.get("ledger") as [LedgerEntry];
    assert.equal(count, 8);
    assert.deepEqual([own.length, others.length, store.values.has(`windows/${NAME}`)], [0, 0, false]);
  }
});

test("windows that may not be released are stored, and released once and in order after a kill between any two steps", async () => {
  const plan = await readExactPlan("windows by count");
  const now = plan.fields.window.origin + 1_800_000_000;
  const clocks = { device: now, server: now, certain: 0 };
  const all = makeRecords(30, now);
  const kill = (): never => {
    throw new Error("killed");
  };
  for (const when of ["before", "after"] as const) {
    for (let place = 0, isInside = true; isInside; place++) {
      const [store, open] = await enrol(plan);
      let nPassed = 0;
      const pass = (): void => void (nPassed++ === place && kill());
      store[when] = (when === "before" ? async () => pass() : pass) as () => Promise<void>;
      const run = async (): Promise<void> => {
        await open().absorb(all.slice(0, 17), clocks, false, false);
        await open().absorb(all.slice(17, 22), clocks, false, false);
        await open().absorb(all.slice(22, 24), clocks, true, true);
      };
      await run().catch(({ message }) => assert.equal(message, "killed"));
      isInside = nPassed > place;
      [store.before, store.after] = [async () => undefined, () => undefined];
      // The process is gone, and with it what was not stored.
      const { firstRecord } = store.values.get(`device/${NAME}`) as DeviceState;
      const windows = (store.values.get(`windows/${NAME}`) ?? []) as OpenWindow[];
      const nStored = windows.reduce((sum, { nRecords }) => sum + nRecords, firstRecord);
      assert.ok([0, 17, 22, 24].includes(nStored), `place ${place}: ${nStored}`);
      await open().absorb(all.slice(nStored), clocks, true, true);
      const [sums, sequences] = addUp(store, plan.fields);
      assert.deepEqual(sequences, [0, 1, 2, 3, 4, 5], `place ${place}`);
      assert.deepEqual(sums, await sumUp(plan, all), `place ${place}`);
    }
  }
});

test("windows that may not be released have a limit, at which records are refused and not lost", async () => {
  const plan = await readExactPlan("windows by count");
  const now = plan.fields.window.origin + 1_800_000_000;
  const clocks = { device: now, server: now, certain: 0 };
  // So large that two windows are too many.
  const m = 16_500;
  const turns = plan.frequencies!.turns.map((row) => Int16Array.from({ length: m }, (_, j) => row[j % row.length]!));
  plan.frequencies = { ...plan.frequencies!, turns };
  Object.assign(plan.fields.statistic, { n_frequencies: m, frequencies_per_sketch: m, measurements_per_record: m });
  const [store, open] = await enrol(plan);
  const pending = makeRecords(25, now);
  const full = { kind: "store", field: "windows", fix: /call flush\(\).* or ask the operator/ };
  await assert.rejects(open().absorb(pending, clocks, false, false), full);
  assert.equal(pending.length, 15);
  const stored = store.values.get(`windows/${NAME}`) as OpenWindow[];
  assert.deepEqual(stored.map(({ nRecords }) => nRecords), [5, 5]);
  await assert.rejects(open().absorb(pending, clocks, false, false), full);
});

test("what the budget pays for is stored and released, and what comes after it is not taken", async () => {
  const plan = await readExactPlan("windows by count");
  plan.fields.most_sketches_per_device = 3;
  const now = plan.fields.window.origin + 1_800_000_000;
  const clocks = { device: now, server: now, certain: 0 };
  const [store, open] = await enrol(plan);
  const pending = makeRecords(30, now);
  const all = [...pending];
  const spent = { kind: "budget", field: "most_sketches_per_device" };
  await assert.rejects(open().absorb(pending, clocks, false, false), spent);
  assert.equal(pending.length, 15);
  await assert.rejects(open().absorb(pending, clocks, true, true), spent);
  assert.deepEqual(addUp(store, plan.fields), [await sumUp(plan, all.slice(0, 15)), [0, 1, 2]]);
});

test("without the server no window is closed by a clock far beyond the last certain time, nor by records of then", async () => {
  const plan = await readExactPlan("masks, windows by time");
  const { origin, length_s } = plan.fields.window;
  const slot = 4;
  const certain = origin + slot * length_s + 1;
  const [store, open] = await enrol(plan);
  const yearAhead = { device: certain + 365 * 86_400, server: undefined, certain };
  for (let i = 0; i < 3; i++) {
    yearAhead.device += length_s;
    assert.equal(await open().absorb(makeRecords(4, yearAhead.device), yearAhead, true, true), 0);
  }
  const [window] = store.values.get(`windows/${NAME}`) as OpenWindow[];
  assert.deepEqual([window!.nRecords, window!.first, window!.last], [12, slot, slot]);
  // The network is back, and the clock is set right.
  const right = { device: certain + length_s, server: certain + length_s, certain };
  assert.equal(await open().absorb(makeRecords(4, right.device), right, true, true), 1);
  const [later] = store.values.get(`windows/${NAME}`) as OpenWindow[];
  assert.deepEqual([later!.nRecords, later!.first], [4, slot + 1]);
  // A device that was away for weeks closes windows by itself.
  const weeks = { device: certain + length_s + 20 * 86_400, server: undefined, certain: right.device };
  assert.equal(await open().absorb([], weeks, true, true), 1);
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
