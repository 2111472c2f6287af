/**
 * A device in a process of its own, for tests in Python: one order on standard input, its answers
 * on standard output. It may kill itself at a place between two steps.
 */
import fs from "node:fs";
import { text } from "node:stream/consumers";

import { type DeviceOptions, Device, SketchError } from "../../../clients/js/src/index.ts";
import { openFolder } from "../../../clients/js/src/node.ts";
import { useWebCrypto } from "../../../clients/js/src/device/platform.ts";
import { useSecureSum } from "../../../clients/js/src/sum.ts";
import type { Json } from "./vectors.ts";

interface Order {
  folder: string;
  /** Options of the device that are plain values. */
  options?: Partial<DeviceOptions>;
  /** Method and arguments, in order. */
  calls: [keyof Device | "label", ...Json[]][];
  /** The place to end at, from 1; 0 for none. */
  killAt?: number;
  /** A file that the names of all places are written to. */
  places?: string;
  /** Milliseconds that the device's clock is ahead. */
  aheadMs?: number;
  /** A constant that stands for a generator that fails. */
  generator?: "missing" | "failing" | "constant";
  /** Whether no more can be written. */
  disk?: "full";
  /** Whether there is no network. */
  offline?: boolean;
  /** The helpers whose secure sums are allowed. */
  helpers?: string[];
}

const order = JSON.parse(await text(process.stdin)) as Order;
let nPassed = 0;

/** Pass a place: whatever follows did not happen if the process ends here. */
function pass(name: string): void {
  nPassed++;
  if (order.places) fs.writeSync(log, `${name}\n`);
  if (nPassed === order.killAt) process.kill(process.pid, "SIGKILL");
}

const log = order.places ? fs.openSync(order.places, "w") : -1;

/** Let every call of a function be a place, before it and after it. */
function watch(object: Json, name: string): void {
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

for (const name of ["openSync", "writeFileSync", "fsyncSync", "linkSync", "ftruncateSync", "rmSync", "mkdirSync"]) {
  watch(fs, name);
}
if (order.disk === "full") {
  const original = fs.writeFileSync;
  fs.writeFileSync = ((file: Json, ...rest: Json[]) => {
    if (typeof file === "number") throw Object.assign(new Error("no space"), { code: "ENOSPC" });
    return (original as Json)(file, ...rest);
  }) as typeof fs.writeFileSync;
}
const platform = useWebCrypto();
for (const name of ["createKey", "sign"]) watch(platform, name);
if (order.generator) {
  platform.fillRandom = {
    missing: undefined,
    failing: () => {
      throw new Error("no entropy");
    },
    constant: (into: Uint8Array) => into.fill(7),
  }[order.generator];
}
const web = {
  fetch: order.offline ? () => Promise.reject(new TypeError("fetch failed")) : globalThis.fetch,
};
watch(web, "fetch");

const device = new Device({
  store: openFolder(order.folder),
  platform,
  fetch: (url, init) => web.fetch(url, init),
  clock: () => Date.now() + (order.aheadMs ?? 0),
  ...order.options,
  ...(order.helpers && { secureSum: useSecureSum(order.helpers) }),
});

/** Label records by the result that is pulled, or that was pulled last. */
async function label(how: "pull" | "load", records: Json[]): Promise<Json> {
  const result = await (how === "pull" ? device.pullResult() : device.loadResult());
  const { centroids, verdict, name } = result?.published ?? {};
  return result && { centroids, verdict, name, clusters: records.map((record) => result.find(record).cluster) };
}

const answers: Json[] = [];
for (const [method, ...rest] of order.calls) {
  try {
    const args = rest.map((value: Json) => (value === null ? undefined : value));
    const call = method === "label" ? label : (device[method] as Json).bind(device);
    answers.push((await call(...args)) ?? null);
  } catch (error) {
    if (!(error instanceof SketchError)) throw error;
    answers.push({ error: error.message, kind: error.kind, field: error.field, fix: error.fix });
  }
}
console.log(JSON.stringify({ answers, nPlaces: nPassed }));
process.exit(0);
