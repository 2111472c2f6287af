/** The driver with the store and the cryptography of Node. */
import fs from "node:fs";

import { useWebCrypto } from "../../../clients/js/src/device/platform.ts";
import { openFolder } from "../../../clients/js/src/node.ts";
import { main, watch } from "./driver.ts";
import type { Json } from "./vectors.ts";

await main(({ folder, disk, offline }) => {
  for (const name of ["openSync", "writeFileSync", "fsyncSync", "linkSync", "ftruncateSync", "rmSync", "mkdirSync"]) {
    watch(fs, name);
  }
  if (disk === "full") {
    const original = fs.writeFileSync;
    fs.writeFileSync = ((file: Json, ...rest: Json[]) => {
      if (typeof file === "number") throw Object.assign(new Error("no space"), { code: "ENOSPC" });
      return (original as Json)(file, ...rest);
    }) as typeof fs.writeFileSync;
  }
  if (disk === "without links") {
    fs.linkSync = () => {
      throw Object.assign(new Error("not permitted"), { code: "EPERM" });
    };
  }
  return {
    store: openFolder(folder),
    platform: useWebCrypto(),
    fetch: offline ? () => Promise.reject(new TypeError("fetch failed")) : (url, init) => globalThis.fetch(url, init),
  };
});
