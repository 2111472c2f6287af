/** The device side of Sfumato, for browsers and Node; `react-native.ts` is that for React Native. */
export { Device } from "./device/device.ts";
export type { DeviceOptions, DeviceStatus, EnrolReport, FlushReport } from "./device/device.ts";
export type { StudyInfo } from "./device/enrolling.ts";
export { openIndexedDb } from "./device/indexeddb.ts";
export type { Limits } from "./device/ledger.ts";
export { useWebCrypto } from "./device/platform.ts";
export type { Platform, StoredKey } from "./device/platform.ts";
export type { Policy } from "./device/policy.ts";
export type { Cluster, Result } from "./device/results.ts";
export type { SecureSum } from "./device/sketching.ts";
export type { Store, Values } from "./device/store.ts";
export type { OpenWindowReport } from "./device/stream.ts";
export { SketchError } from "./errors.ts";
export type { ErrorKind } from "./errors.ts";
export type { Plan, Record } from "./plan/plan.ts";
export type { LabelsOf, PlanShape, RecordOf } from "./plan/shape.ts";
export type { Published } from "./wire/published.ts";
