/** The store of a device: what it holds, and the one operation by which it changes. */
import type { Bytes } from "../bytes.ts";
import { SketchError } from "../errors.ts";
import type { VerifiedPlan } from "../plan/plan.ts";
import type { StoredKey } from "./platform.ts";

/**
 * Small values by key. A store holds all devices of an application, and one ledger for all of them.
 *
 * Guarantees that an implementation must give: `update` happens as a whole or not at all, whatever
 * ends the process; it is on the disk before it returns; and no other `update` happens between the
 * reading and the writing.
 */
export interface Store {
  /** Whether it holds a platform's own keys (`CryptoKey`) as they are. */
  readonly canHoldKeys: boolean;

  /**
   * Read some keys, and write what a function makes of their values.
   *
   * @param change Returns what is written, `undefined` to delete; it must not wait. What it throws
   *   ends the update, and nothing is written. It may be called again with other values.
   */
  update(keys: readonly string[], change: (values: Values) => Values): Promise<void>;

  /** Run a function while no other tab runs one of that name; where that cannot be had, just run it. */
  exclusively<T>(name: string, run: () => Promise<T>): Promise<T>;
}

/** Values by key: what structured cloning can copy. */
export interface Values {
  [key: string]: unknown;
}

/** What the owner's ledger notes of releases of one stream, plan and cost: events, not costs. */
export interface LedgerEntry {
  /** Hexadecimal. */
  study: string;
  /** Device and stream on this machine. */
  stream: string;
  /** Where the records come from: what is named alike may hold the same records. */
  source: string;
  /** Digest of the plan, hexadecimal. */
  plan: string;
  /** Exact, `"p/q"`. */
  epsilon: string;
  /** The relation that epsilon holds for. */
  neighbouring: "replace-one" | "add-remove-one";
  count: number;
  /** 1 for releases of another copy of this state, else 0. */
  copy: number;
}

/** A sketch in the outbox, without its bytes. */
export interface OutboxEntry {
  id: Bytes;
  sequence: number;
  state: "waiting" | "sent" | "shelved";
  /** Milliseconds since 1970, here and below. */
  releasedAt: number;
  /** 0 before any byte has left the device. */
  offeredAt: number;
  sentAt: number;
  notBefore: number;
  attempts: number;
  length: number;
  problem: string;
}

/** A device's state, private by itself but for the key. */
export interface DeviceState {
  /** That of this software, by which the plan was verified. */
  format: number;
  server: string;
  study: Bytes;
  plan: VerifiedPlan;
  key: StoredKey;
  device: Bytes;
  labels: { [name: string]: string };
  isEnrolled: boolean;
  stream: string;
  ordinal: number;
  generation: string;
  nextSequence: number;
  /** The record counter at the beginning of the open window, or of the next one. */
  firstRecord: number;
  /** The lowest slot at which the next window may begin; -1 before the first is closed. */
  floor: number;
  /** Changes with everything that a release is made from. */
  revision: number;
  /** Why nothing more is released; empty if nothing stands against it. */
  suspended: string;
  outbox: OutboxEntry[];
  /** A time that has come for certain, seconds since 1970-01-01 UTC. */
  certain: number;
}

/** The exact sum of an open window, or of an open slot. Not private. */
export interface OpenWindow {
  nRecords: number;
  /** -1 while no record of the window has had a readable time, and with windows by count. */
  first: number;
  last: number;
  block: number;
  /** Doubles that hold integers; of phase reports the places of the record, plus 1. */
  sums: Bytes;
}

/** States of another format are verified again, or are of later software. */
export const FORMAT = 1;

export const stateKey = (name: string): string => `device/${name}`;
export const windowsKey = (name: string): string => `windows/${name}`;
export const messageKey = (name: string, id: string): string => `message/${name}/${id}`;
export const resultKey = (name: string): string => `result/${name}`;
export const LEDGER = "ledger";

/**
 * The error that a store cannot be read or written, whatever its platform says.
 *
 * @param fix The remedy, unless the store is full.
 */
export function describeStoreError(
  error: unknown,
  fix = "leave private browsing, or allow this site to store data",
): SketchError {
  if (error instanceof SketchError) return error;
  const { name, code } = error as { name?: string; code?: unknown };
  if (name === "QuotaExceededError" || code === "ENOSPC" || code === "EDQUOT") {
    const space = "free space; nothing was lost, and nothing is released before there is room";
    return new SketchError("store", "store", "is full", space, "storage-full");
  }
  // A DOMException has a number there.
  const why = (typeof code === "string" && code) || name || "no reason given";
  return new SketchError("store", "store", `cannot be used (${why})`, fix, "storage-refused");
}
