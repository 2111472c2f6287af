/** The driver in a runtime that has as little as React Native: what it lacks is gone from Node. */
const LACKING = ["crypto", "indexedDB", "fetch", "TextEncoder", "TextDecoder", "btoa", "structuredClone"] as const;

// Node's own modules load some of them late: they get theirs first.
void globalThis.Headers;
for (const name of LACKING) delete (globalThis as { [name: string]: unknown })[name];
// The entry of React Native first, as in an application: it completes what the rest needs.
const { openParts } = await import("./react_native.ts");
const { main } = await import("./driver.ts");
await main(openParts);

export {};
