/** The store of browsers: IndexedDB, in transactions that are on the disk before they end. */
import { describeStoreError, type Store, type Values } from "./store.ts";
import { SketchError } from "../errors.ts";

const TABLE = "values";
const PATIENCE_MS = 20_000;

/** Open the store of a browser under a name; several tabs may open the same one. */
export function openIndexedDb(name = "sfumato"): Store {
  let opened: Promise<IDBDatabase> | undefined;

  const open = (): Promise<IDBDatabase> => {
    opened ??= new Promise<IDBDatabase>((resolve, reject) => {
      const request = indexedDB.open(name, 1);
      // While the browser deletes this site's data, it may leave a request without an answer.
      const timer = setTimeout(() => reject(new DOMException("no answer", "AbortError")), PATIENCE_MS);
      request.onupgradeneeded = () => request.result.createObjectStore(TABLE);
      request.onerror = () => {
        clearTimeout(timer);
        reject(request.error);
      };
      request.onsuccess = () => {
        clearTimeout(timer);
        const database = request.result;
        // A tab that deletes the database, or the browser that evicts it, must not wait for us.
        database.onclose = database.onversionchange = () => {
          database.close();
          opened = undefined;
        };
        resolve(database);
      };
    });
    opened.catch(() => (opened = undefined));
    return opened;
  };

  const run = (database: IDBDatabase, keys: readonly string[], change: (values: Values) => Values): Promise<void> =>
    new Promise((resolve, reject) => {
      const transaction = database.transaction(TABLE, "readwrite", { durability: "strict" });
      const table = transaction.objectStore(TABLE);
      const values: Values = {};
      let failure: unknown;
      const write = (): void => {
        try {
          for (const [key, value] of Object.entries(change(values))) {
            if (value === undefined) table.delete(key);
            else table.put(value, key);
          }
        } catch (error) {
          failure = error;
          transaction.abort();
        }
      };
      let missing = keys.length;
      for (const key of keys) {
        const request = table.get(key);
        request.onsuccess = () => {
          values[key] = request.result;
          if (--missing === 0) write();
        };
      }
      const end = (): void => {
        clearTimeout(timer);
        database.removeEventListener("close", end);
        reject(failure ?? transaction.error ?? new DOMException("closed", "AbortError"));
      };
      // Where a database is closed by force, a transaction that has not begun never ends in Chromium; none is committed.
      // Now and then nor is the closing told.
      const timer = setTimeout(() => {
        try {
          transaction.abort();
        } catch {
          return; // it is being committed
        }
        end();
      }, PATIENCE_MS);
      database.addEventListener("close", end);
      transaction.onabort = end;
      transaction.oncomplete = () => {
        clearTimeout(timer);
        database.removeEventListener("close", end);
        resolve();
      };
    });

  const update = async (keys: readonly string[], change: (values: Values) => Values): Promise<void> => {
    try {
      await run(await open(), keys, change);
    } catch (error) {
      const { name: why } = error as { name?: string };
      if (!/^(Abort|Unknown|InvalidState)Error$/.test(why ?? "")) throw error;
      // A connection that is about to close does not say so at once.
      opened = undefined;
      const fix = "do it again; if it fails again, see whether the disk is full or this site's data were deleted";
      throw new SketchError("store", "store", `was closed by the browser, or does not answer (${why})`, fix, "storage-closed");
    }
  };

  return {
    canHoldKeys: true,
    update: async (keys, change) => {
      try {
        await update(keys, change);
      } catch (error) {
        throw describeStoreError(error);
      }
    },
    exclusively: async (what, run) => {
      const locks = globalThis.navigator?.locks;
      if (!locks) return run();
      let isHeld = false;
      const begin = (): ReturnType<typeof run> => {
        isHeld = true;
        return run();
      };
      try {
        return await (locks.request(`${name}/${what}`, begin) as ReturnType<typeof run>);
      } catch (error) {
        // Where a page may store nothing, it gets no locks either.
        throw isHeld ? error : describeStoreError(error);
      }
    },
  };
}

/** Return the default store of this platform. */
export function openDefaultStore(): Store {
  if (typeof indexedDB !== "undefined") return openIndexedDb();
  const fix = "pass a store: in Node openFolder(path) of sfumato-device/node, elsewhere one of your own";
  throw new SketchError("config", "store", "is missing, and this platform has no IndexedDB", fix);
}
