/** A store over key and value: AsyncStorage, MMKV, or whatever has their shape. */
import { type Bytes, toHex } from "../bytes.ts";
import { fromHex } from "../hexadecimal.ts";
import { SketchError } from "../errors.ts";
import { describeStoreError, type Store, type Values } from "./store.ts";

/** The shape of AsyncStorage: `@react-native-async-storage/async-storage`. */
export interface AsyncKeyValue {
  getItem(key: string): Promise<string | null>;
  /** The value is stored as a whole or not at all, and is there when this returns. */
  setItem(key: string, value: string): Promise<unknown>;
  removeItem(key: string): Promise<unknown>;
  getAllKeys(): Promise<readonly string[]>;
}

/** The shape of MMKV: `react-native-mmkv`, whose method to delete a value has had two names. */
export interface SyncKeyValue {
  getString(key: string): string | undefined;
  set(key: string, value: string): unknown;
  remove?(key: string): unknown;
  delete?(key: string): unknown;
  getAllKeys(): readonly string[];
}

/** What is stored: a version, and the item in which each value lies. */
interface Manifest {
  version: number;
  items: { [key: string]: string };
}

const ARRAYS: { [name: string]: new (buffer: ArrayBuffer) => ArrayBufferView } = {
  Uint8Array,
  Int16Array,
  Float64Array,
};
const SEAL_DIGITS = 16;
/** Turns of everything that this program does with a storage, by storage, name and purpose. */
const turns = new WeakMap<object, Map<string, Promise<unknown>>>();

/**
 * Open the store over a storage of keys and values.
 *
 * Every value is an item of its own, written under a new name. An update counts from the moment at
 * which the one item with the names, the manifest, is written: there are two, in turns, each with a
 * seal, so that one that was not written whole leaves the one before. It is read back before
 * anything goes on. Then the items and the manifest that were replaced are removed, for they hold
 * the exact sum of the open window.
 *
 * The runtime of this program must be the only one that uses the storage under this name: nothing
 * here excludes another process.
 *
 * @param name Begins the keys of all items.
 */
export function openKeyValue(storage: AsyncKeyValue | SyncKeyValue, name = "sfumato"): Store {
  const items = "getItem" in storage ? storage : makeAsync(storage);
  const own = turns.get(storage) ?? new Map<string, Promise<unknown>>();
  turns.set(storage, own);
  let isTidy = false;
  let broken: unknown;

  const takeTurn = <T>(what: string, run: () => Promise<T>): Promise<T> => {
    const done = (own.get(what) ?? Promise.resolve()).then(run);
    own.set(what, done.catch(() => undefined));
    return done;
  };

  const slotOf = (version: number): string => `${name}/manifest-${version % 2}`;

  const readManifest = async (): Promise<Manifest> => {
    let found: Manifest = { version: 0, items: {} };
    let isDamaged = false;
    for (const slot of [0, 1]) {
      const text = await items.getItem(slotOf(slot));
      const manifest = text ? (unseal(text) as Manifest | undefined) : undefined;
      isDamaged ||= !!text && !manifest;
      if (manifest && manifest.version > found.version) found = manifest;
    }
    // The first one ever that was not written whole is as none: nothing was released before. Beside
    // items of later updates it is damage.
    const isLater = (item: string): boolean => !item.startsWith(`${name}/item-1-`);
    if (isDamaged && !found.version && (await listItems()).some(isLater)) {
      const fix = "remove its items and enrol a new device with a new code";
      throw new SketchError("store", "store", `${name} is damaged in the storage`, fix);
    }
    return found;
  };

  const listItems = async (): Promise<string[]> =>
    (await items.getAllKeys()).filter((key) => key.startsWith(`${name}/item-`));

  const readValue = async (item: string | undefined): Promise<unknown> => {
    if (item === undefined) return undefined;
    const text = await items.getItem(item);
    const value = text === null ? undefined : (unseal(text) as [unknown] | undefined);
    if (value) return value[0];
    const fix = "remove its items and enrol a new device with a new code";
    throw new SketchError("store", "store", `${item} is missing or damaged in the storage`, fix);
  };

  /** Remove what no manifest names: items of updates that did not come to their end. */
  const tidy = async ({ version, items: used }: Manifest): Promise<void> => {
    const kept = new Set(Object.values(used));
    for (const item of await listItems()) if (!kept.has(item)) await items.removeItem(item);
    await items.removeItem(slotOf(version + 1));
    isTidy = true;
  };

  const commit = async ({ version, items: before }: Manifest, written: Values): Promise<void> => {
    const after: Manifest = { version: version + 1, items: { ...before } };
    let count = 0;
    isTidy = false;
    for (const [key, value] of Object.entries(written)) {
      delete after.items[key];
      if (value === undefined) continue;
      const item = `${name}/item-${version + 1}-${count++}`;
      after.items[key] = item;
      await writeItem(item, [value]);
    }
    const text = seal(after);
    // From here on a failure does not tell whether the update counts.
    try {
      await items.setItem(slotOf(after.version), text);
      if ((await items.getItem(slotOf(after.version))) !== text) throw new Error("it was not stored");
    } catch {
      const fix = "start the application anew; nothing is released twice";
      broken = new SketchError("store", "store", "may or may not have stored the last update", fix);
      throw broken;
    }
    const used = new Set(Object.values(after.items));
    try {
      await items.removeItem(slotOf(version));
      for (const item of Object.values(before)) if (!used.has(item)) await items.removeItem(item);
      isTidy = true;
    } catch {
      // It is committed, whatever comes of this; the next update tidies.
    }
  };

  const writeItem = async (item: string, value: unknown): Promise<void> => {
    const text = seal(value);
    await items.setItem(item, text);
    if ((await items.getItem(item)) !== text) throw new Error("it was not stored");
  };

  const update = async (keys: readonly string[], change: (values: Values) => Values): Promise<void> => {
    if (broken) throw broken;
    const manifest = await readManifest();
    if (!isTidy) await tidy(manifest);
    const values: Values = {};
    for (const key of keys) values[key] = await readValue(manifest.items[key]);
    const written = change(values);
    if (Object.keys(written).length) await commit(manifest, written);
  };

  return {
    canHoldKeys: false,
    update: async (keys, change) => {
      try {
        await takeTurn(`${name}/update`, () => update(keys, change));
      } catch (error) {
        const isFull = /\bfull\b|quota|no space/i.test(String(error)) && !(error instanceof SketchError);
        const fix = "see what the storage that was passed to openKeyValue says of its items";
        throw describeStoreError(isFull ? { name: "QuotaExceededError" } : error, fix);
      }
    },
    exclusively: (what, run) => takeTurn(`${name}/turn/${what}`, run),
  };
}

function makeAsync(storage: SyncKeyValue): AsyncKeyValue {
  return {
    getItem: async (key) => storage.getString(key) ?? null,
    setItem: async (key, value) => storage.set(key, value),
    removeItem: async (key) => (storage.remove ? storage.remove(key) : storage.delete!(key)),
    getAllKeys: async () => storage.getAllKeys(),
  };
}

/** Write a value as text that tells whether it is whole. */
function seal(value: unknown): string {
  const text = JSON.stringify(encodeValue(value));
  return digest(text) + text;
}

/** Read sealed text; `undefined` if it is not whole. */
function unseal(sealed: string): unknown {
  const text = sealed.slice(SEAL_DIGITS);
  return sealed.startsWith(digest(text)) ? decodeValue(JSON.parse(text)) : undefined;
}

/** CRC-32 of a text's characters, and their number: it tells what was not written whole. */
function digest(text: string): string {
  let register = -1;
  for (let i = 0; i < text.length; i++) {
    register ^= text.charCodeAt(i);
    for (let bit = 0; bit < 16; bit++) register = (register >>> 1) ^ (register & 1 ? 0xedb88320 : 0);
  }
  return [text.length, ~register >>> 0].map((word) => word.toString(16).padStart(8, "0")).join("");
}

/** Encode what structured cloning copies, as far as a device stores it, for JSON. */
function encodeValue(value: unknown): unknown {
  if (typeof value === "bigint") return { n: `${value}` };
  if (typeof value === "number" && !(Number.isFinite(value) && !Object.is(value, -0))) {
    return { f: Object.is(value, -0) ? "-0" : `${value}` };
  }
  if (typeof value !== "object" || value === null) return value;
  if (Array.isArray(value)) return value.map(encodeValue);
  if (ArrayBuffer.isView(value)) {
    const bytes = new Uint8Array(value.buffer, value.byteOffset, value.byteLength);
    // Not the name of the class: a subclass, such as Node's, is stored as what it extends.
    const kind = Object.entries(ARRAYS).find(([, array]) => value instanceof array)?.[0];
    if (kind) return { b: toHex(bytes), k: kind };
    throw new TypeError("a value of this kind is not stored");
  }
  const entries = Object.entries(value).filter(([, item]) => item !== undefined);
  return { o: entries.map(([key, item]) => [key, encodeValue(item)]) };
}

interface Encoded {
  n?: string;
  f?: string;
  b?: string;
  k?: string;
  o?: [string, unknown][];
}

function decodeValue(encoded: unknown): unknown {
  if (typeof encoded !== "object" || encoded === null) return encoded;
  if (Array.isArray(encoded)) return encoded.map(decodeValue);
  const { n, f, b, k, o } = encoded as Encoded;
  if (n !== undefined) return BigInt(n);
  if (f !== undefined) return Number(f);
  if (b !== undefined) return new ARRAYS[k!]!((fromHex(b) as Bytes).buffer);
  return Object.fromEntries(o!.map(([key, item]) => [key, decodeValue(item)]));
}
