/** Time and memory of a device's work, in an engine without anything else. */
import { useNativeCrypto } from "../../clients/js/src/react-native.ts";
import { ed25519 } from "../../clients/js/node_modules/@noble/curves/ed25519.js";
import { sha256 } from "../../clients/js/node_modules/@noble/hashes/sha2.js";
import { fromHex } from "../../clients/js/src/hexadecimal.ts";
import { Plan } from "../../clients/js/src/plan/plan.ts";
import { readPlan } from "../../clients/js/src/plan/verifying.ts";
import { SystemSource } from "../../clients/js/src/privacy/source.ts";
import text from "plan.json";

declare function print(text: string): void;
declare const HermesInternal: { getInstrumentedStats(): { js_heapSize: number } } | undefined;

/** Return the median milliseconds of some calls. */
function measure(n: number, run: (i: number) => unknown): number {
  const times = Array.from({ length: n }, (_, i) => {
    const begun = Date.now();
    run(i);
    return Date.now() - begun;
  });
  return times.sort((a, b) => a - b)[n >> 1]!;
}

async function main(): Promise<void> {
  // Not a sound generator: how it draws its bytes is not what is measured.
  const getRandomValues = (into: Uint8Array): unknown => into.forEach((_, i) => (into[i] = Math.random() * 256));
  const crypto = useNativeCrypto({ getRandomValues, sha256, ed25519 });
  const bytes = fromHex(text)! as Uint8Array<ArrayBuffer>;
  const begun = Date.now();
  const plan = await Plan.open(await readPlan(bytes, crypto.sha256));
  const opened = Date.now() - begun;
  const statistic = plan.buildStatistic(new Uint8Array(32), 0);
  const sums = new Float64Array(statistic.nCoordinates);
  const record = plan.readRecord([0.1, 0.2, 0.3, 0.4]);
  const nRecords = 100;
  const perRecord = measure(9, (i) => {
    for (let j = 0; j < nRecords; j++) statistic.add(record, i * nRecords + j, sums);
  });
  const source = new SystemSource(getRandomValues);
  const draw = plan.makeNoise(sums.length);
  const noise = measure(5, () => draw(source));
  const secret = new Uint8Array(32).fill(1);
  const signature = measure(5, () => ed25519.sign(bytes, secret));
  const heap = typeof HermesInternal === "undefined" ? 0 : HermesInternal.getInstrumentedStats().js_heapSize;
  const figures = {
    "verifying a plan, once": [opened, "ms"],
    "adding a record": [perRecord / nRecords, "ms"],
    "noise of a release": [noise, "ms"],
    "a signature": [signature, "ms"],
    ...(heap && { "heap": [Math.round(heap / 2 ** 20), "MiB"] }),
  };
  (typeof print === "undefined" ? console.log : print)(JSON.stringify(figures));
}

main().catch((error: unknown) => (typeof print === "undefined" ? console.log : print)(`${error}`));
