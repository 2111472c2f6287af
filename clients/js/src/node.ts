/** The store of Node: a folder that nobody else can enter. */
import { createHash, randomBytes } from "node:crypto";
import fs from "node:fs";
import { join, resolve } from "node:path";
import { deserialize, serialize } from "node:v8";

import { toHex } from "./bytes.ts";
import { SketchError } from "./errors.ts";
import { describeStoreError, type Store, type Values } from "./device/store.ts";

const SEAL_BYTES = 32;
/** An update that takes longer than this begins again; see `commit`. */
const MOST_HELD_MS = 60_000;
/** Names of states that were replaced stay for so long. */
const KEEP_NAMES_MS = 900_000;
const KEEP_ORPHANS_MS = 86_400_000;

/** A state as it is stored: small values, and the names of files that hold bytes. */
interface Stored {
  version: number;
  values: Values;
  files: { [key: string]: string };
}

const sha256 = (data: Uint8Array): Uint8Array => createHash("sha256").update(data).digest();

/**
 * Open the store in a folder; it is made if it is missing. Several processes may use it.
 *
 * Each state is a file of its own, `state-1`, `state-2`, and so on. A state counts once its name
 * is linked, which fails if another process has taken that name: then the update begins again with
 * the other's values. Replaced states are overwritten with nothing, for they hold the exact sum of
 * the open window; their names stay a while, so that nobody takes one again.
 */
export function openFolder(path: string): Store {
  const folder = resolve(path);
  const turns = new Map<string, Promise<unknown>>();
  let broken: unknown;

  const open = (): void => {
    fs.mkdirSync(folder, { recursive: true, mode: 0o700 });
    if (process.platform !== "win32" && fs.statSync(folder).mode & 0o077) {
      const rule = `${folder} must be a folder that nobody else can enter`;
      throw new SketchError("store", "store", rule, `run \`chmod 700 ${folder}\``);
    }
  };

  const listVersions = (): number[] =>
    fs
      .readdirSync(folder)
      .flatMap((name) => /^state-(\d+)$/.exec(name)?.[1] ?? [])
      .map(Number)
      .sort((a, b) => b - a);

  const stateFile = (version: number): string => join(folder, `state-${version}`);

  const writeDurably = (file: string, data: Uint8Array): void => {
    const handle = fs.openSync(file, "wx", 0o600);
    try {
      fs.writeFileSync(handle, data);
      fs.fsyncSync(handle);
    } finally {
      fs.closeSync(handle);
    }
  };

  const syncFolder = (): void => {
    // Windows has no such call, and needs none.
    if (process.platform === "win32") return;
    const handle = fs.openSync(folder, "r");
    try {
      fs.fsyncSync(handle);
    } finally {
      fs.closeSync(handle);
    }
  };

  const read = (): Stored => {
    for (;;) {
      const [version = 0] = listVersions();
      if (!version) return { version, values: {}, files: {} };
      const data = new Uint8Array(fs.readFileSync(stateFile(version)));
      const body = data.subarray(SEAL_BYTES);
      if (Buffer.compare(sha256(body), data.subarray(0, SEAL_BYTES)) === 0) {
        const [values, files] = deserialize(body) as [Values, Stored["files"]];
        return { version, values, files };
      }
      // Another process has replaced it while it was read; otherwise it is damaged.
      if (listVersions()[0] === version) {
        const rule = `${stateFile(version)} is damaged`;
        const fix = "check the disk; move the folder away and enrol a new device with a new code";
        throw new SketchError("store", "store", rule, fix);
      }
    }
  };

  /** Overwrite replaced states, and remove names and files that nobody needs any more. */
  const tidy = (version: number, files: Stored["files"]): void => {
    const now = Date.now();
    for (const old of listVersions().filter((one) => one < version)) {
      const { size, mtimeMs } = fs.statSync(stateFile(old));
      if (size) {
        const handle = fs.openSync(stateFile(old), "r+");
        fs.writeSync(handle, new Uint8Array(size));
        fs.fsyncSync(handle);
        fs.ftruncateSync(handle);
        fs.closeSync(handle);
      } else if (now - mtimeMs > KEEP_NAMES_MS) {
        fs.rmSync(stateFile(old), { force: true });
      }
    }
    const used = new Set(Object.values(files));
    for (const name of fs.readdirSync(folder)) {
      const isOurs = /^(bytes|part)-/.test(name) && !used.has(name);
      const file = join(folder, name);
      if (isOurs && now - fs.statSync(file).mtimeMs > KEEP_ORPHANS_MS) fs.rmSync(file, { force: true });
    }
  };

  /** Write what an update makes of a state; return whether it counts. */
  const commit = ({ version, values, files }: Stored, written: Values, heldSince: number): boolean => {
    const [newValues, newFiles] = [{ ...values }, { ...files }];
    for (const [key, value] of Object.entries(written)) {
      delete newValues[key];
      delete newFiles[key];
      if (value instanceof Uint8Array) {
        newFiles[key] = `bytes-${toHex(randomBytes(16))}`;
        writeDurably(join(folder, newFiles[key]), value);
      } else if (value !== undefined) {
        newValues[key] = value;
      }
    }
    const body = serialize([newValues, newFiles]);
    const part = join(folder, `part-${toHex(randomBytes(16))}`);
    writeDurably(part, Buffer.concat([sha256(body), body]));
    try {
      // Names are kept longer than anybody may hold a version, so that the next one is not free
      // again when it was taken and replaced.
      if (Date.now() - heldSince > MOST_HELD_MS) return false;
      fs.linkSync(part, stateFile(version + 1));
    } catch (error) {
      const { code = "" } = error as NodeJS.ErrnoException;
      if (code === "EEXIST") return false;
      if (["ENOSPC", "EDQUOT", "EIO"].includes(code)) throw error;
      const rule = `${folder} must be on a file system with hard links (${code})`;
      const fix = "name a folder on another one; FAT, and some folders of a network, have none";
      throw new SketchError("store", "store", rule, fix, "storage-refused");
    } finally {
      fs.rmSync(part, { force: true });
    }
    try {
      syncFolder();
    } catch (error) {
      // Others see it already, and a power cut may still undo it.
      broken = error;
      throw error;
    }
    try {
      for (const name of Object.values(files)) {
        if (!Object.values(newFiles).includes(name)) fs.rmSync(join(folder, name), { force: true });
      }
      tidy(version + 1, newFiles);
    } catch {
      // It is committed, whatever comes of this; the next update tidies again.
    }
    return true;
  };

  const pick = ({ version, values, files }: Stored, keys: readonly string[]): Values | undefined => {
    try {
      return Object.fromEntries(
        keys.map((key) => {
          const file = files[key];
          return [key, file ? new Uint8Array(fs.readFileSync(join(folder, file))) : values[key]];
        }),
      );
    } catch (error) {
      // Another process has replaced the state, and removed what it does not need.
      if (listVersions()[0] !== version) return undefined;
      throw error;
    }
  };

  const update = (keys: readonly string[], change: (values: Values) => Values): void => {
    if (broken) throw broken;
    open();
    for (;;) {
      const heldSince = Date.now();
      const stored = read();
      const values = pick(stored, keys);
      if (!values) continue;
      const written = change(values);
      if (!Object.keys(written).length || commit(stored, written, heldSince)) return;
    }
  };

  return {
    canHoldKeys: false,
    update: async (keys, change) => {
      try {
        update(keys, change);
      } catch (error) {
        throw describeStoreError(error, `name a folder that this user may write to, instead of ${folder}`);
      }
    },
    exclusively: (name, run) => {
      const done = (turns.get(name) ?? Promise.resolve()).then(run);
      turns.set(name, done.catch(() => undefined));
      return done;
    },
  };
}
