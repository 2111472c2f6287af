/** What an application in React Native brings, in the shapes of its libraries, over files. */
import { webcrypto } from "node:crypto";
import fs from "node:fs";
import http from "node:http";
import { join } from "node:path";

// Before the libraries of noble, which need a TextEncoder when they are loaded.
import {
  type AsyncKeyValue,
  type NativeCrypto,
  type SyncKeyValue,
  useNativeCryptoForSums,
  useReactNative,
  type Xhr,
} from "../../../clients/js/src/react-native.ts";
import { ed25519, x25519 } from "../../../clients/js/node_modules/@noble/curves/ed25519.js";
import { sha256 } from "../../../clients/js/node_modules/@noble/hashes/sha2.js";
import type { Order, Parts, Pass } from "./driver.ts";

export const crypto: NativeCrypto = {
  getRandomValues: (into) => webcrypto.getRandomValues(into),
  sha256,
  ed25519,
  x25519,
};

/** AsyncStorage over a folder: a file for each item, which a kill may leave half written. */
export function openFiles(folder: string, pass: Pass, isFull = false): AsyncKeyValue {
  fs.mkdirSync(folder, { recursive: true });
  const fileOf = (key: string): string => join(folder, encodeURIComponent(key));
  const step = async (name: string): Promise<void> => {
    await null;
    pass(name);
  };
  return {
    getItem: async (key) => {
      await step("before getItem");
      return fs.existsSync(fileOf(key)) ? fs.readFileSync(fileOf(key), "utf8") : null;
    },
    setItem: async (key, value) => {
      await step("before setItem");
      if (isFull) throw new Error("database or disk is full (code 13 SQLITE_FULL)");
      fs.writeFileSync(fileOf(key), value.slice(0, value.length / 2));
      await step("inside setItem");
      fs.writeFileSync(fileOf(key), value);
      await step("after setItem");
    },
    removeItem: async (key) => {
      await step("before removeItem");
      fs.rmSync(fileOf(key), { force: true });
      await step("after removeItem");
    },
    getAllKeys: async () => fs.readdirSync(folder).map(decodeURIComponent),
  };
}

/** MMKV over a folder, which does all at once. */
function openMmkv(folder: string, pass: Pass): SyncKeyValue {
  fs.mkdirSync(folder, { recursive: true });
  const fileOf = (key: string): string => join(folder, encodeURIComponent(key));
  return {
    getString: (key) => (fs.existsSync(fileOf(key)) ? fs.readFileSync(fileOf(key), "utf8") : undefined),
    set: (key, value) => {
      pass("before set");
      fs.writeFileSync(fileOf(key), value);
      pass("after set");
    },
    remove: (key) => fs.existsSync(fileOf(key)) && fs.rmSync(fileOf(key)),
    getAllKeys: () => fs.readdirSync(folder).map(decodeURIComponent),
  };
}

/** XMLHttpRequest as React Native has it: it follows redirects by itself, and tells where to. */
export class NodeXhr implements Xhr {
  responseType = "";
  response: unknown = null;
  responseURL = "";
  status = 0;
  onload: (() => void) | null = null;
  onerror: (() => void) | null = null;
  ontimeout: (() => void) | null = null;
  onabort: (() => void) | null = null;
  #method = "";
  readonly #headers: { [name: string]: string } = {};
  #answered: http.IncomingHttpHeaders = {};
  #request: http.ClientRequest | undefined;

  open(method: string, url: string): void {
    this.#method = method;
    this.responseURL = url;
  }

  setRequestHeader(name: string, value: string): void {
    this.#headers[name] = value;
  }

  getResponseHeader(name: string): string | null {
    return (this.#answered[name.toLowerCase()] as string | undefined) ?? null;
  }

  abort(): void {
    this.#request?.destroy();
    this.onabort?.();
  }

  send(body?: Uint8Array): void {
    const options = { method: this.#method, headers: this.#headers };
    this.#request = http.request(this.responseURL, options, (answer) => {
      const { statusCode = 0, headers } = answer;
      if (statusCode >= 300 && statusCode < 400 && headers.location) {
        this.responseURL = new URL(headers.location, this.responseURL).href;
        return this.send(body);
      }
      const parts: Buffer[] = [];
      answer.on("data", (part: Buffer) => parts.push(part));
      answer.on("end", () => {
        [this.status, this.#answered] = [statusCode, headers];
        this.response = Uint8Array.from(Buffer.concat(parts)).buffer;
        this.onload?.();
      });
    });
    this.#request.on("error", () => this.onerror?.());
    this.#request.end(body);
  }
}

/** Return the parts of a device in an order's folder. */
export function openParts({ folder, disk, offline, storage, helpers }: Order, pass: Pass): Parts {
  const files = storage === "mmkv" ? openMmkv(folder, pass) : openFiles(folder, pass, disk === "full");
  return {
    ...useReactNative({ storage: files, crypto, XMLHttpRequest: NodeXhr }),
    ...(offline && { fetch: () => Promise.reject(new TypeError("the network failed")) }),
    ...(helpers && { sums: useNativeCryptoForSums(crypto) }),
  };
}
