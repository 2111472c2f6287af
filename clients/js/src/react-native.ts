/**
 * The device in React Native, which has neither Web Cryptography nor IndexedDB: an application brings
 * a library for each.
 *
 *     const device = new Device(useReactNative({ storage: AsyncStorage, crypto }));
 */
// First: modules that follow use what it completes.
import "./device/text_codecs.ts";

import type { DeviceOptions } from "./device/device.ts";
import { type AsyncKeyValue, openKeyValue, type SyncKeyValue } from "./device/key_value.ts";
import { type NativeCrypto, useNativeCrypto } from "./device/native_crypto.ts";
import { useXhr, type Xhr } from "./device/xhr.ts";
import { require } from "./errors.ts";

export * from "./index.ts";
export { openKeyValue } from "./device/key_value.ts";
export type { AsyncKeyValue, SyncKeyValue } from "./device/key_value.ts";
export { useNativeCrypto, useNativeCryptoForSums } from "./device/native_crypto.ts";
export type { NativeCrypto } from "./device/native_crypto.ts";
export { useXhr } from "./device/xhr.ts";
export type { Xhr } from "./device/xhr.ts";

/** What an application brings. */
export interface ReactNativeOptions {
  /** AsyncStorage, an instance of MMKV, or what has the shape of either. */
  storage: AsyncKeyValue | SyncKeyValue;
  crypto: NativeCrypto;
  /** The class that requests are made by; the runtime's by default. */
  XMLHttpRequest?: new () => Xhr;
}

/** Return the options of a device in React Native; others may be added to them. */
export function useReactNative(
  options: ReactNativeOptions,
): Required<Pick<DeviceOptions, "store" | "platform" | "fetch">> {
  const Request = options.XMLHttpRequest ?? (globalThis as { XMLHttpRequest?: new () => Xhr }).XMLHttpRequest;
  require(Request !== undefined, "config", "XMLHttpRequest", "is missing", "pass it, or a fetch of your own");
  return {
    store: openKeyValue(options.storage),
    platform: useNativeCrypto(options.crypto),
    fetch: useXhr(Request),
  };
}
