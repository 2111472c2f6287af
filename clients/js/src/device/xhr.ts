/** Requests by XMLHttpRequest, for runtimes whose `fetch` gives no bytes or follows redirects unasked. */
import type { Fetch } from "./server.ts";

/** What is used of an XMLHttpRequest. */
export interface Xhr {
  responseType: string;
  readonly response: unknown;
  readonly responseURL?: string;
  readonly status: number;
  onload: unknown;
  onerror: unknown;
  ontimeout: unknown;
  onabort: unknown;
  open(method: string, url: string): void;
  setRequestHeader(name: string, value: string): void;
  getResponseHeader(name: string): string | null;
  send(body?: Uint8Array): void;
  abort(): void;
}

const withoutFragment = (url: string): string => url.replace(/#.*$/, "");

/** Return a `fetch` by a class of the runtime. */
export function useXhr(Request: new () => Xhr): Fetch {
  return (url, { method = "GET", headers, body, signal }) =>
    new Promise((resolve, reject) => {
      const request = new Request();
      const fail = (why: string) => (): void => reject(new TypeError(why));
      request.open(method, url);
      // Read where it is needed: none of the runtime's credentials or caches belongs to a device.
      request.responseType = "arraybuffer";
      for (const [name, value] of Object.entries((headers ?? {}) as { [name: string]: string })) {
        request.setRequestHeader(name, value);
      }
      request.onerror = fail("the network failed");
      request.ontimeout = fail("it took too long");
      request.onabort = fail("it was given up");
      request.onload = (): void => {
        // Nobody else may answer; a runtime that does not tell is believed.
        const { responseURL: from } = request;
        if (from && withoutFragment(from) !== withoutFragment(url)) return fail("the server redirects")();
        resolve({
          status: request.status,
          headers: { get: (name) => request.getResponseHeader(name) },
          arrayBuffer: async () => (request.response ?? new ArrayBuffer(0)) as ArrayBuffer,
        });
      };
      signal?.addEventListener("abort", () => request.abort());
      request.send(...(body ? [body as Uint8Array] : []));
    });
}
