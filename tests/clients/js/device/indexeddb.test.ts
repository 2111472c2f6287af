import assert from "node:assert/strict";
import { test } from "node:test";

import { openIndexedDb } from "../../../../clients/js/src/device/indexeddb.ts";

test("a database that never opens is given up, and the next call asks for it again", async (context) => {
  let nOpened = 0;
  Object.assign(globalThis, { indexedDB: { open: () => (nOpened++, {}) } });
  context.mock.timers.enable({ apis: ["setTimeout"] });
  const store = openIndexedDb();
  for (const expected of [1, 2]) {
    const update = store.update(["key"], (values) => values);
    context.mock.timers.tick(20_000);
    await assert.rejects(update, { code: "storage-closed", rule: /^was closed by the browser/ });
    assert.equal(nOpened, expected);
  }
});
