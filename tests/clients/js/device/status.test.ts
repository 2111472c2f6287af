import assert from "node:assert/strict";
import { test } from "node:test";

import { Device } from "../../../../clients/js/src/device/device.ts";
import { type Store, stateKey, type Values } from "../../../../clients/js/src/device/store.ts";

/** A store whose device another tab erases after the first look at it. */
function openErasedStore(name: string): Store {
  const values: Values = { [stateKey(name)]: { device: new Uint8Array(32), study: new Uint8Array(32), isEnrolled: true, outbox: [] } };
  return {
    canHoldKeys: true,
    update: async (keys, change) => {
      change(Object.fromEntries(keys.map((key) => [key, structuredClone(values[key])])));
      delete values[stateKey(name)];
    },
    exclusively: async (_name, run) => run(),
  };
}

test("a device that is erased while its status is asked for has not enrolled", async () => {
  const device = new Device({ name: "erased", store: openErasedStore("erased") });
  assert.equal((await device.status()).isEnrolled, false);
});
