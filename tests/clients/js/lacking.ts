/** Take from Node what React Native, or an older Hermes, has not; imported before all else. */
const LACKING = ["crypto", "indexedDB", "fetch", "TextEncoder", "TextDecoder", "btoa", "structuredClone"];

// Node's own modules load some of them late: they get theirs first.
void globalThis.Headers;
for (const name of LACKING) delete (globalThis as { [name: string]: unknown })[name];

export {};
