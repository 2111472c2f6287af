/**
 * A device in a process of its own, for tests in Python: one order on standard input, its answers
 * on standard output. It may kill itself at a place between two steps.
 */
import fs from "node:fs";
import { text } from "node:stream/consumers";

import { type DeviceOptions, Device, type Platform, SketchError, type Store } from "../../../clients/js/src/index.ts";
import type { Fetch } from "../../../clients/js/src/device/server.ts";
import { type SumPlatform, useSecureSum } from "../../../clients/js/src/sum.ts";
import type { Json } from "./vectors.ts";

/** What is told to a device. */
export interface Order {
  folder: string;
  /** Options of the device that are plain values. */
  options?: Partial<DeviceOptions>;
  /** Method and arguments, in order. */
  calls: [keyof Device | "label" | "rest" | "stored", ...Json[]][];
  /** The place to end at, from 1; 0 for none. */
  killAt?: number;
  /** A file that the names of all places are written to. */
  places?: string;
  /** Milliseconds that the device's clock is ahead. */
  aheadMs?: number;
  /** A constant that stands for a generator that fails. */
  generator?: "missing" | "failing" | "constant";
  /** Whether no more can be written, or no file has a second name. */
  disk?: "full" | "without links";
  /** Where the server is, if not where it was at enrolment. */
  server?: string;
  /** Whether there is no network. */
  offline?: boolean;
  /** The helpers whose secure sums are allowed. */
  helpers?: string[];
  /** The shape of the storage, where there is a choice. */
  storage?: "async" | "mmkv";
}

/** What a device takes from where it runs. */
export interface Parts {
  store: Store;
  platform: Platform;
  fetch: Fetch;
  sums?: SumPlatform;
}

/** Passes a place by its name. */
export type Pass = (name: string) => void;

let order: Order;
let nPassed = 0;
let log = -1;

/** Pass a place: whatever follows did not happen if the process ends here. */
function pass(name: string): void {
  nPassed++;
  if (order.places) fs.writeSync(log, `${name}\n`);
  if (nPassed === order.killAt) process.kill(process.pid, "SIGKILL");
}

/** Let every call of a function be a place, before it and after it. */
export function watch(object: Json, name: string): void {
  const original = object[name].bind(object);
  object[name] = (...rest: Json[]) => {
    if (rest[0] === log) return original(...rest);
    pass(`before ${name}`);
    const result = original(...rest);
    if (!(result instanceof Promise)) {
      pass(`after ${name}`);
      return result;
    }
    return result.then((value) => {
      pass(`after ${name}`);
      return value;
    });
  };
}

/** Break the generator of a platform. */
function breakGenerator(platform: Platform, how: NonNullable<Order["generator"]>): void {
  platform.fillRandom = {
    missing: undefined,
    failing: () => {
      throw new Error("no entropy");
    },
    constant: (into: Uint8Array) => into.fill(7),
  }[how];
}

/** Label records by the result that is pulled, or that was pulled last. */
async function label(device: Device, how: "pull" | "load", records: Json[]): Promise<Json> {
  const result = await (how === "pull" ? device.pullResult() : device.loadResult());
  const { centroids, verdict, name } = result?.published ?? {};
  return result && { centroids, verdict, name, clusters: records.map((record) => result.find(record).cluster) };
}

/** Read values of the store as JSON: bytes as hexadecimal digits. */
async function readStored(store: Store, keys: string[]): Promise<Json> {
  let found: Json;
  await store.update(keys, (values) => {
    found = { ...values };
    return {};
  });
  return JSON.parse(
    JSON.stringify(found, (_, value) => (value instanceof Uint8Array ? Buffer.from(value).toString("hex") : value)),
  );
}

/** Let the device do what it does by itself. */
const rest = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

/** Obey the order on standard input with the parts of a runtime. */
export async function main(open: (order: Order, pass: Pass) => Parts | Promise<Parts>): Promise<void> {
  order = JSON.parse(await text(process.stdin)) as Order;
  log = order.places ? fs.openSync(order.places, "w") : -1;
  const parts = await open(order, pass);
  const { store, platform, sums } = parts;
  for (const name of ["createKey", "sign"]) watch(platform, name);
  if (order.generator) breakGenerator(platform, order.generator);
  const web = { fetch: parts.fetch };
  watch(web, "fetch");
  const device = new Device({
    store,
    platform,
    fetch: (url, init) => web.fetch(url.replace(/^\w+:\/\/[^/]+/, (address) => order.server ?? address), init),
    clock: () => Date.now() + (order.aheadMs ?? 0),
    ...order.options,
    ...(order.helpers && { secureSum: useSecureSum(order.helpers, sums) }),
  });
  const answers: Json[] = [];
  const own: { [name: string]: (...args: Json[]) => Promise<Json> } = {
    label: (...args) => label(device, ...(args as ["pull", Json[]])),
    rest,
    stored: (...keys) => readStored(store, keys),
  };
  for (const [method, ...given] of order.calls) {
    try {
      const args = given.map((value: Json) => (value === null ? undefined : value));
      const answer = own[method]?.(...args) ?? (device as Json)[method](...args);
      answers.push((await answer) ?? null);
    } catch (error) {
      if (!(error instanceof SketchError)) throw error;
      answers.push({ error: error.message, kind: error.kind, field: error.field, fix: error.fix });
    }
  }
  console.log(JSON.stringify({ answers, nPlaces: nPassed }));
  process.exit(0);
}
