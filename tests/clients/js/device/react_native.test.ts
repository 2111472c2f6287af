import assert from "node:assert/strict";
import { mkdtempSync, readdirSync } from "node:fs";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";

import { type AsyncKeyValue, openKeyValue, type SyncKeyValue } from "../../../../clients/js/src/device/key_value.ts";
import { decodeUtf8, encodeBase64, encodeUtf8 } from "../../../../clients/js/src/device/text_codecs.ts";
import { useXhr } from "../../../../clients/js/src/device/xhr.ts";
import { useReactNative } from "../../../../clients/js/src/react-native.ts";
import type { Json } from "../vectors.ts";
import { crypto, NodeXhr, openFiles } from "../react_native.ts";

class Killed extends Error {}

/** AsyncStorage in memory; from one step on nothing is done any more. */
class Memory implements AsyncKeyValue {
  readonly items = new Map<string, string>();
  left = Infinity;

  async step(): Promise<void> {
    if (--this.left < 0) throw new Killed();
  }

  async getItem(key: string): Promise<string | null> {
    await this.step();
    return this.items.get(key) ?? null;
  }

  async setItem(key: string, value: string): Promise<void> {
    if (this.left === 1) this.items.set(key, value.slice(0, value.length - 1));
    await this.step();
    await this.step();
    this.items.set(key, value);
  }

  async removeItem(key: string): Promise<void> {
    await this.step();
    this.items.delete(key);
  }

  async getAllKeys(): Promise<string[]> {
    await this.step();
    return [...this.items.keys()];
  }
}

async function read(storage: AsyncKeyValue | SyncKeyValue, ...keys: string[]): Promise<Json[]> {
  let found: Json = {};
  await openKeyValue(storage).update(keys, (values) => {
    found = values;
    return {};
  });
  return keys.map((key) => found[key]);
}

test("values come back as they were stored, of every kind that a device stores", async () => {
  const storage = new Memory();
  const stored = {
    bytes: Uint8Array.of(0, 255),
    buffer: Buffer.from("part of a pool"),
    turns: [Int16Array.of(-1, 32767), Float64Array.of(0.1, -0, NaN)],
    numbers: [2 ** 53, -0, NaN, Infinity, 0.1, 2n ** 70n, -1n],
    odd: { n: "no number", o: [], b: { k: 1 }, "": null, gone: undefined, __proto__x: [[]] },
    text: "é 😀 \u2028 \ud800",
  };
  await openKeyValue(storage).update([], () => stored);
  const [bytes, buffer, turns, numbers, odd, text] = await read(storage, ...Object.keys(stored));
  assert.deepEqual(bytes, stored.bytes);
  assert.deepEqual(buffer, new Uint8Array(stored.buffer));
  assert.deepEqual([turns, numbers, text], [stored.turns, stored.numbers, stored.text]);
  const { gone: _, ...rest } = stored.odd;
  assert.deepEqual(odd, rest);
  await assert.rejects(openKeyValue(storage).update([], () => ({ key: new Uint32Array(1) })), { kind: "store" });
});

test("an update that ends at any step happened as a whole or not at all, and leaves nothing behind", async () => {
  const old = { kept: "kept", changed: "old", deleted: Uint8Array.of(1) };
  const written = { changed: "new", deleted: undefined, added: [1, 2] };
  const states = [
    ["kept", "old", old.deleted, undefined],
    ["kept", "new", undefined, [1, 2]],
  ];
  const seen = new Set<number>();
  for (let steps = 0; seen.size < 3; steps++) {
    const storage = new Memory();
    await openKeyValue(storage).update([], () => old);
    storage.left = steps;
    const isDone = await openKeyValue(storage)
      .update(["kept"], () => written)
      .then(() => true, () => false);
    // The next start of the application: another object, for a store that may have failed stays shut.
    const next = Object.create(storage) as Memory;
    const ends = storage.left > 0;
    storage.left = Infinity;
    const found = await read(next, "kept", "changed", "deleted", "added");
    const state = states.findIndex((one) => JSON.stringify(one) === JSON.stringify(found));
    assert.notEqual(state, -1, `${steps}: ${JSON.stringify(found)}`);
    assert.ok(state === 1 || !isDone, `${steps}`);
    // Nothing of the other state stays: it may be the exact sum of a window that was released.
    assert.equal(storage.items.size, 4, `${steps}: ${[...storage.items.keys()]}`);
    seen.add(ends ? 2 : state);
  }
});

test("the first update ever that ends at any step happened or not, and the next one begins anew", async () => {
  let isWhole = false;
  for (let steps = 0; !isWhole; steps++) {
    const storage = new Memory();
    storage.left = steps;
    await openKeyValue(storage).update([], () => ({ a: 1, b: 2 })).catch(() => undefined);
    isWhole = storage.left > 0;
    storage.left = Infinity;
    const next = Object.create(storage) as Memory;
    const found = await read(next, "a", "b");
    assert.ok([[1, 2], [undefined, undefined]].some((state) => `${state}` === `${found}`), `${steps}: ${found}`);
    await openKeyValue(next).update(["a"], ({ a }) => ({ a: a ?? 3 }));
    assert.deepEqual(await read(next, "a", "b"), found[0] ? [1, 2] : [3, undefined]);
    assert.equal(storage.items.size, found[0] ? 3 : 2, `${steps}: ${[...storage.items.keys()]}`);
  }
});

test("a store whose last write is in doubt takes no other until the application is started anew", async () => {
  const storage = new Memory();
  const store = openKeyValue(storage);
  await store.update([], () => ({ a: 1 }));
  const setItem = storage.setItem.bind(storage);
  storage.setItem = async (key, value) => {
    await setItem(key, value);
    if (key.includes("manifest")) throw new Error("the bridge is gone");
  };
  await assert.rejects(store.update(["a"], () => ({ a: 2 })), /may or may not have stored/);
  storage.setItem = setItem;
  await assert.rejects(store.update(["a"], () => ({ a: 3 })), /start the application anew/i);
});

test("damage is told, and no device begins over it", async () => {
  const storage = new Memory();
  for (let n = 0; n < 2; n++) await openKeyValue(storage).update([], () => ({ a: 1 }));
  const [item, manifest] = [...storage.items.keys()].sort() as [string, string];
  const whole = storage.items.get(item)!;
  storage.items.set(item, whole.replace("1]", "2]"));
  await assert.rejects(read(storage, "a"), /is missing or damaged/);
  storage.items.set(item, whole);
  storage.items.set(manifest, storage.items.get(manifest)!.slice(0, -1));
  await assert.rejects(read(storage, "a"), /sfumato is damaged/);
});

test("updates of two stores over one storage take turns, and names keep devices apart", async () => {
  const storage = new Memory();
  const count = async (store: ReturnType<typeof openKeyValue>): Promise<void> => {
    await store.update(["n"], ({ n }) => ({ n: ((n as number | undefined) ?? 0) + 1 }));
  };
  const stores = [openKeyValue(storage), openKeyValue(storage), openKeyValue(storage, "other")];
  await Promise.all(Array.from({ length: 30 }, (_, i) => count(stores[i % 3]!)));
  assert.deepEqual(await read(storage, "n"), [20]);
});

test("MMKV deletes by either of its names", async () => {
  for (const name of ["remove", "delete"]) {
    const items = new Map<string, string>();
    const storage = {
      getString: (key: string) => items.get(key),
      set: (key: string, value: string) => void items.set(key, value),
      [name]: (key: string) => items.delete(key),
      getAllKeys: () => [...items.keys()],
    } as SyncKeyValue;
    for (let i = 0; i < 3; i++) await openKeyValue(storage).update([], () => ({ a: i }));
    assert.deepEqual([await read(storage, "a"), items.size], [[2], 2]);
  }
});

test("files of the tests hold what a kill left, and a whole value after the next start", async () => {
  const folder = mkdtempSync(join(tmpdir(), "sfumato-"));
  await openKeyValue(openFiles(folder, () => undefined)).update([], () => ({ a: "x".repeat(100) }));
  assert.equal(readdirSync(folder).length, 2);
  assert.deepEqual(await read(openFiles(folder, () => undefined), "a"), ["x".repeat(100)]);
});

test("text and base64 are those of the platform, for whatever is no text too", () => {
  const texts = ["", "a", "é", "€", "😀", "\ud800", "\udc00x", "a\u0000b", "\u{10ffff}"];
  for (const text of texts) {
    assert.deepEqual(encodeUtf8(text), new TextEncoder().encode(text));
    assert.equal(decodeUtf8(new TextEncoder().encode(text)), new TextDecoder("utf-8", { ignoreBOM: true }).decode(new TextEncoder().encode(text)));
  }
  const bytes = Uint8Array.from({ length: 256 }, (_, i) => i);
  for (let n = 0; n <= 256; n += 5) {
    const text = String.fromCharCode(...bytes.subarray(0, n));
    assert.equal(encodeBase64(text), btoa(text));
  }
  // No other bytes become the text that some bytes stand for.
  for (let first = 0x80; first < 256; first++) {
    for (const rest of [[], [0x41], [0x80], [0x80, 0x80], [0xa0, 0x80], [0x80, 0x80, 0x80], [0x90, 0x80, 0x80]]) {
      const given = Uint8Array.of(first, ...rest);
      const isUtf8 = Buffer.compare(Buffer.from(new TextDecoder("utf-8", { ignoreBOM: true }).decode(given)), given) === 0;
      const found = encodeUtf8(decodeUtf8(given));
      assert.equal(Buffer.compare(found, given) === 0, isUtf8, `${given}`);
    }
  }
});

async function serving(run: (address: string) => Promise<void>): Promise<void> {
  const server: Server = createServer((request, response) => {
    if (request.url === "/moved") return response.writeHead(302, { Location: "/" }).end();
    if (request.url === "/never") return undefined;
    const parts: Buffer[] = [];
    request.on("data", (part: Buffer) => parts.push(part));
    request.on("end", () => response.writeHead(201, { "X-Name": "value" }).end(Buffer.concat([Buffer.from([0xff]), ...parts])));
    return undefined;
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  try {
    await run(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
  } finally {
    server.closeAllConnections();
    server.close();
  }
}

test("requests give bytes, follow no redirect unnoticed, and can be given up", async () => {
  const send = useXhr(NodeXhr);
  await serving(async (address) => {
    const answer = await send(`${address}/`, { method: "PUT", headers: {}, body: Uint8Array.of(1, 2) });
    assert.deepEqual(new Uint8Array(await answer.arrayBuffer()), Uint8Array.of(0xff, 1, 2));
    assert.deepEqual([answer.status, answer.headers.get("x-name"), answer.headers.get("none")], [201, "value", null]);
    await assert.rejects(send(`${address}/moved`, { method: "GET" }), /redirects/);
    const stop = new AbortController();
    const pending = send(`${address}/never`, { method: "GET", signal: stop.signal });
    stop.abort();
    await assert.rejects(pending, /given up/);
  });
  await assert.rejects(send("http://127.0.0.1:1/", { method: "GET" }), /network failed/);
});

test("what an application must bring is asked for by name", () => {
  // Node has none.
  assert.throws(() => useReactNative({ storage: new Memory(), crypto }), /XMLHttpRequest: is missing/);
});
