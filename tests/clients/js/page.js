/** The page of a device in tests: it makes the calls that it is told, and may hang at a place. */
let killAt = 0;
let nPassed = 0;
let isWatching = false;

/** Pass a place; at the last one nothing goes on, until the process is killed. */
function pass(name) {
  if (!isWatching) return;
  nPassed++;
  const isLast = nPassed === killAt;
  window.reportPlace(JSON.stringify([name, isLast]));
  while (isLast);
}

/** Let every call of a function be a place, before it and after it. */
function watch(object, name) {
  const original = object[name];
  object[name] = function (...rest) {
    pass(`before ${name}`);
    const result = original.apply(this, rest);
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

if (window.origin !== "null") {
  for (const name of ["put", "get", "delete"]) watch(IDBObjectStore.prototype, name);
  watch(IDBDatabase.prototype, "transaction");
  const complete = Object.getOwnPropertyDescriptor(IDBTransaction.prototype, "oncomplete");
  Object.defineProperty(IDBTransaction.prototype, "oncomplete", {
    ...complete,
    set(then) {
      complete.set.call(this, (event) => {
        pass("committed");
        then.call(this, event);
      });
    },
  });
}
for (const name of ["generateKey", "sign", "digest"]) watch(SubtleCrypto.prototype, name);
watch(window, "fetch");

window.ready = import("./src/index.ts").then((module) => {
  window.sfumato = module;
});

/** Make calls of the device, and return their answers. */
window.obey = async ({ calls, options = {}, killAt: last, aheadMs = 0, offline = false, server, keep = false }) => {
  [killAt, nPassed, isWatching] = [last ?? 0, 0, last !== undefined];
  const { Device, SketchError } = window.sfumato;
  const device = (keep && window.device) || new Device({
    clock: () => Date.now() + aheadMs,
    // Where the server is, if not where it was at enrolment.
    ...(server && { fetch: (url, init) => fetch(url.replace(/^\w+:\/\/[^/]+/, server), init) }),
    ...(offline && { fetch: () => Promise.reject(new TypeError("fetch failed")) }),
    ...options,
  });
  window.device = device;
  const answers = [];
  for (const [method, ...rest] of calls) {
    try {
      answers.push((await device[method](...rest.map((value) => value ?? undefined))) ?? null);
    } catch (error) {
      if (!(error instanceof SketchError)) throw error;
      const { message, kind, field, fix } = error;
      answers.push({ error: message, kind, field, fix });
    }
  }
  isWatching = false;
  return { answers, nPlaces: nPassed };
};

/** Return a value of the database of the device. */
function open(name) {
  return new Promise((resolve, reject) => {
    const opened = indexedDB.open(name, 1);
    opened.onupgradeneeded = () => opened.result.createObjectStore("values");
    opened.onsuccess = () => resolve(opened.result);
    opened.onerror = () => reject(opened.error);
  });
}

/** Try to export the key of a device, and return what comes of it. */
window.showSecret = async () => {
  const got = (await open("sfumato")).transaction("values").objectStore("values").get("device/page");
  await new Promise((resolve) => (got.onsuccess = resolve));
  return crypto.subtle.exportKey("pkcs8", got.result.key.secret).then(
    () => "shown",
    (error) => error.name,
  );
};

/** Keep the store of the device busy, so that what comes next waits for its turn. */
window.holdStore = async () => {
  const transaction = (await open("sfumato")).transaction("values", "readwrite");
  window.freeStore = () => transaction.abort();
  const table = transaction.objectStore("values");
  const read = () => (table.get("device").onsuccess = read);
  return new Promise((resolve) => (table.get("device").onsuccess = () => resolve(void read())));
};

/** Let timers end soon, so that nobody waits for a patient device. */
window.hastenTimers = () => {
  const { setTimeout } = window;
  window.setTimeout = (run, pause) => setTimeout(run, pause / 100);
};

/** Delete the store of the device, as another program of the site may. */
window.deleteStore = () =>
  new Promise((resolve, reject) => {
    const request = indexedDB.deleteDatabase("sfumato");
    request.onsuccess = () => resolve("deleted");
    request.onerror = () => reject(request.error);
  });

/** Store junk until the browser takes no more, in ever smaller pieces. */
window.fillStorage = async () => {
  const database = await open("junk");
  for (let size = 1 << 18, key = 0; size >= 64; key++) {
    const isStored = await new Promise((resolve) => {
      const transaction = database.transaction("values", "readwrite");
      transaction.objectStore("values").put(crypto.getRandomValues(new Uint8Array(Math.min(size, 65536))), key);
      transaction.oncomplete = () => resolve(true);
      transaction.onabort = () => resolve(false);
    });
    if (!isStored) size /= 4;
  }
};
