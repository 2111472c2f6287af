/** The stream of a device: records into windows, and windows into releases. */
import { type Bytes, toHex } from "../bytes.ts";
import type { Statistic } from "../core/statistics/interface.ts";
import { require, SketchError } from "../errors.ts";
import type { Plan } from "../plan/plan.ts";
import type { RandomSource } from "../privacy/source.ts";
import { type Account, addEvent, type Limits, makeEvent, requireAffordable } from "./ledger.ts";
import type { Platform } from "./platform.ts";
import { buildStatistic, makeSketch, readSums, type SecureSum } from "./sketching.ts";
import {
  type DeviceState,
  LEDGER,
  type LedgerEntry,
  messageKey,
  type OpenWindow,
  stateKey,
  type Store,
  type Values,
  windowsKey,
} from "./store.ts";
import {
  assignSlot,
  believes,
  type Clocks,
  findLatestBelievable,
  planSlots,
  WindowCutter,
  type WindowState,
} from "./windows.ts";

/** Bytes of sketches that wait, beyond which no window is released; none is ever dropped. */
const MOST_WAITING_BYTES = 16 << 20;
/** Bytes of complete windows that may not be released yet; all of them are one item of the store. */
const MOST_HELD_BYTES = 1 << 19;

/** A record that was added and is not stored yet. */
export interface PendingRecord {
  values: Float64Array<ArrayBuffer>;
  /** Seconds since 1970-01-01 UTC; NaN where it is unreadable. */
  time: number;
}

/** The window that is open. It must not leave the device: it depends on records that no noise hides yet. */
export interface OpenWindowReport {
  /** Records that are stored in it. */
  records: number;
  /** Records that it needs before it closes: all of them with windows by count. */
  least: number;
  /** The time before which it does not close unless it is full; with windows by count there is none. */
  closesAt: Date | undefined;
}

/** What a stream works with. */
export interface StreamSettings extends Account {
  store: Store;
  platform: Platform;
  limits: Limits;
  secureSum: SecureSum | undefined;
}

/** What was read of the store, before something is made of it. */
interface Snapshot {
  state: DeviceState;
  windows: OpenWindow[];
  ledger: LedgerEntry[];
}

const EMPTY: WindowState = { nRecords: 0, first: -1, last: -1, floor: -1 };

/** Reads and writes the stream of one device; all of its decisions rest on what is stored. */
export class Stream {
  readonly #settings: StreamSettings;
  readonly #random: RandomSource;
  readonly #plan: Plan;
  readonly #device: Bytes;
  readonly #keys: string[];
  #statistic: [block: number, statistic: Statistic] | undefined;
  /** Records that added zero since this object was made. */
  nUnsketchable = 0;

  constructor(settings: StreamSettings, random: RandomSource, plan: Plan, device: Bytes) {
    this.#settings = settings;
    this.#random = random;
    this.#plan = plan;
    this.#device = device;
    this.#keys = [stateKey(settings.name), windowsKey(settings.name), LEDGER];
  }

  /**
   * Take records into windows, and release what is complete; what was taken leaves the list.
   *
   * Complete windows that may not be released are stored before the open one, and are released in
   * their order once they may.
   *
   * @param mayRelease Whether windows may be released now.
   * @param mayClose Whether windows may be closed by the clock too.
   * @returns The number of releases.
   */
  async absorb(
    pending: PendingRecord[],
    clocks: Clocks,
    mayRelease: boolean,
    mayClose: boolean,
  ): Promise<number> {
    if (this.#plan.hidesPresence) return this.#absorbSlots(pending, clocks, mayRelease && mayClose);
    const cutter = new WindowCutter(this.#plan);
    let released = 0;
    let failure: unknown;
    for (;;) {
      try {
        if (mayRelease) released += await this.#releaseDue(cutter, clocks, mayClose && !pending.length);
      } catch (error) {
        // What cannot be released now is stored all the same.
        mayRelease = false;
        failure = error;
      }
      if (!pending.length) break;
      try {
        await this.#fold(pending, cutter, clocks);
      } catch (error) {
        throw failure ?? error;
      }
    }
    if (failure) throw failure;
    return released;
  }

  /** Report the window that is open, if there is one. */
  async findOpen(): Promise<OpenWindowReport | undefined> {
    const open = (await this.#read()).windows.at(-1);
    if (!open) return undefined;
    const { window, least_records } = this.#plan.fields;
    const { nRecords: records, last } = open;
    if (window.kind === "count") return { records, least: window.length, closesAt: undefined };
    const closesAt = last < 0 ? undefined : new Date(1000 * (window.origin + (last + 1) * window.length_s));
    return { records, least: least_records, closesAt };
  }

  /** Add records to the open window and to those after it, as far as there is room; at least one. */
  async #fold(pending: PendingRecord[], cutter: WindowCutter, clocks: Clocks): Promise<void> {
    const now = findLatestBelievable(clocks);
    let [nTaken, nUnsketchable] = [0, 0];
    await this.#update(({ state, windows, ledger }) => {
      [nTaken, nUnsketchable] = [0, 0];
      this.#requireBegun(now, clocks);
      const held = windows.slice(0, -1);
      let { firstRecord, floor } = state;
      for (const window of held) {
        firstRecord += window.nRecords;
        ({ floor } = cutter.close(describe(window, floor)));
      }
      const last = windows.at(-1);
      let cut = describe(last, floor);
      let block = last?.block ?? 0;
      let sums = readSums(last?.sums ?? new Uint8Array(0));
      const pack = (): OpenWindow => {
        const { nRecords, first, last } = cut;
        return { nRecords, first, last, block, sums: new Uint8Array(sums.buffer) };
      };
      try {
        for (const { values, time } of pending) {
          let decision = cutter.decide(cut, time, now);
          if (decision === "close") {
            requireRoom(held, sums.byteLength);
            cut = cutter.settle(cut, now);
            held.push(pack());
            firstRecord += cut.nRecords;
            cut = cutter.close(cut);
            decision = cutter.decide(cut, time, now);
          }
          if (decision === "join") {
            const joined = cutter.join(cut, time, now);
            if (!cut.nRecords) {
              // What can never be released should not pile up.
              this.#requireAffordable(ledger, state, held.length + 1);
              const turn = { ...state, nextSequence: state.nextSequence + held.length };
              block = this.#chooseBlock(turn, joined.first < 0 ? now : undefined, joined.first);
              sums = new Float64Array(this.#statisticOf(state, block).nCoordinates);
            }
            if (!this.#statisticOf(state, block).add(values, firstRecord + cut.nRecords, sums)) nUnsketchable++;
            cut = joined;
          }
          nTaken++;
        }
      } catch (error) {
        // The records before it are stored first.
        if (!nTaken || !(error instanceof SketchError)) throw error;
      }
      const next = cut.nRecords ? [...held, pack()] : held;
      return next.length ? this.#write(state, next) : {};
    });
    // Only now: before, they might not have been stored.
    pending.splice(0, nTaken);
    this.nUnsketchable += nUnsketchable;
  }

  /** Release the windows that are complete, or over; return their number. */
  async #releaseDue(cutter: WindowCutter, clocks: Clocks, mayClose: boolean): Promise<number> {
    const now = findLatestBelievable(clocks);
    const { device, server = device } = clocks;
    const isByTime = this.#plan.fields.window.kind === "time";
    for (let released = 0; ; ) {
      const snapshot = await this.#read();
      const { state, windows } = snapshot;
      const [window, next] = windows;
      if (!window) return released;
      const cut = cutter.settle(describe(window, state.floor), now);
      const isOver = (): boolean => mayClose && believes(clocks) && cutter.isOver(cut, [device, server]);
      if (!next && !cutter.isFull(cut) && !isOver()) return released;
      const slots = isByTime ? ([cut.first, cut.last] as const) : null;
      const isReleased = await this.#release(snapshot, window, slots, state.nextSequence, clocks, {
        floor: cutter.close(cut).floor,
        firstRecord: state.firstRecord + cut.nRecords,
      });
      released += Number(isReleased);
    }
  }

  /** Add records to their slots, and release every slot that is over, empty ones too. */
  async #absorbSlots(pending: PendingRecord[], clocks: Clocks, mayRelease: boolean): Promise<number> {
    const nTaken = pending.length;
    let [dueEnd, nUnsketchable] = [0, 0];
    await this.#update(({ state, windows, ledger }) => {
      const next = state.nextSequence;
      let latest;
      [dueEnd, latest] = planSlots(this.#plan, next, clocks);
      nUnsketchable = 0;
      if (dueEnd > next) this.#requireAffordable(ledger, state, dueEnd - next);
      try {
        if (latest >= next) this.#requireAffordable(ledger, state, latest + 1 - next);
      } catch (error) {
        if (dueEnd === next) throw error;
        latest = dueEnd - 1;
      }
      const open = new Map(windows.map((window) => [window.first, { ...window, sums: readSums(window.sums) }]));
      for (const { values, time } of pending) {
        const slot = assignSlot(this.#plan, time, next, latest);
        if (slot === undefined) continue;
        let found = open.get(slot);
        if (!found) {
          const block = this.#chooseBlock(state, undefined, slot);
          const sums = new Float64Array(this.#statisticOf(state, block).nCoordinates);
          open.set(slot, (found = { nRecords: 0, first: slot, last: slot, block, sums }));
        }
        if (!this.#statisticOf(state, found.block).add(values, 0, found.sums)) nUnsketchable++;
        found.nRecords++;
      }
      if (!nTaken) return {};
      const stored = [...open.values()].map((one) => ({ ...one, sums: new Uint8Array(one.sums.buffer) }));
      return this.#write(state, stored);
    });
    pending.splice(0, nTaken);
    this.nUnsketchable += nUnsketchable;
    let released = 0;
    while (mayRelease) {
      const snapshot = await this.#read();
      const slot = snapshot.state.nextSequence;
      if (slot >= dueEnd) break;
      const block = this.#chooseBlock(snapshot.state, undefined, slot);
      const { nCoordinates } = this.#statisticOf(snapshot.state, block);
      const empty = { nRecords: 0, first: slot, last: slot, block, sums: new Uint8Array(8 * nCoordinates) };
      const window = snapshot.windows.find(({ first }) => first === slot) ?? empty;
      if (await this.#release(snapshot, window, [slot, slot], slot, clocks, {})) released++;
    }
    return released;
  }

  /**
   * Release a window: draw its noise, and store all of it at once.
   *
   * Guarantees: one transaction stores the signed bytes, the ledger's entry and the stream's next
   * number, and erases the exact sum. Before it nothing has left the device; if it fails, or the
   * stream has changed since it was read, what was drawn is dropped unseen.
   *
   * @returns Whether it was released; otherwise another tab was faster.
   */
  async #release(
    { state, windows }: Snapshot,
    window: OpenWindow,
    slots: readonly [number, number] | null,
    sequence: number,
    { device: now }: Clocks,
    following: Partial<DeviceState>,
  ): Promise<boolean> {
    const { name, platform, secureSum } = this.#settings;
    const [plan, random] = [this.#plan, this.#random];
    const nWaiting = state.outbox.reduce((sum, one) => sum + (one.state === "waiting" ? one.length : 0), 0);
    const fix = "see whether the server answers; records are stored meanwhile";
    require(nWaiting <= MOST_WAITING_BYTES, "store", "outbox", "is full, so no window is released", fix, "outbox-full");
    const [id, message] = await makeSketch(plan, state, window, slots, sequence, random, platform, secureSum);
    let isStored = false;
    await this.#update((present) => {
      isStored = present.state.revision === state.revision;
      if (!isStored) return {};
      this.#requireAffordable(present.ledger, state, 1);
      const entry = {
        id,
        sequence,
        state: "waiting" as const,
        releasedAt: Math.floor(1000 * now),
        offeredAt: 0,
        sentAt: 0,
        notBefore: 0,
        attempts: 0,
        length: message.length,
        problem: "",
      };
      const outbox = [...present.state.outbox, entry];
      const next = { ...present.state, ...following, nextSequence: sequence + 1, outbox };
      return {
        ...this.#write(next, windows.filter((other) => other !== window)),
        [LEDGER]: addEvent(present.ledger, this.#eventOf(state, 1)),
        [messageKey(name, toHex(id))]: message,
      };
    });
    return isStored;
  }

  #eventOf({ study }: DeviceState, count: number): LedgerEntry {
    return makeEvent(this.#settings, study, this.#plan, count);
  }

  /** Count releases of another copy of this state. */
  addCopied(ledger: readonly LedgerEntry[], state: DeviceState, count: number): LedgerEntry[] {
    return addEvent(ledger, { ...this.#eventOf(state, count), copy: 1 });
  }

  #requireAffordable(ledger: readonly LedgerEntry[], state: DeviceState, count: number): void {
    const { most_sketches_per_device } = this.#plan.fields;
    requireAffordable(ledger, this.#eventOf(state, count), this.#settings.limits, most_sketches_per_device);
  }

  /** Refuse to take records by a clock that is wrong for certain: no server takes such a slot. */
  #requireBegun(now: number, { device }: Clocks): void {
    const { kind, origin } = this.#plan.fields.window;
    if (kind === "count" || now >= origin) return;
    const rule = `says ${new Date(1000 * device).toISOString()}, before the study's first window`;
    const fix = "set this device's clock, or wait until the study begins; nothing is lost";
    throw new SketchError("record", "clock", rule, fix, "before-study");
  }

  /** Choose the block of a window by its first slot, the time it opens at, or its number. */
  #chooseBlock({ ordinal, stream, nextSequence }: DeviceState, opensAt: number | undefined, slot: number): number {
    const isByTime = this.#plan.fields.window.kind === "time";
    const turn = !isByTime ? nextSequence : opensAt === undefined ? slot : this.#plan.slotOf(opensAt);
    return this.#plan.blocks?.choose(ordinal, stream, turn) ?? 0;
  }

  #statisticOf(state: DeviceState, block: number): Statistic {
    if (this.#statistic?.[0] !== block) this.#statistic = [block, buildStatistic(this.#plan, state, block)];
    return this.#statistic[1];
  }

  /** Return what is written when the stream changes. */
  #write(state: DeviceState, windows: readonly OpenWindow[]): Values {
    const { name } = this.#settings;
    return {
      [stateKey(name)]: { ...state, revision: state.revision + 1 },
      [windowsKey(name)]: windows.length ? windows : undefined,
    };
  }

  async #read(): Promise<Snapshot> {
    let found: Snapshot | undefined;
    await this.#update((snapshot) => {
      found = snapshot;
      return {};
    });
    return found!;
  }

  #update(change: (snapshot: Snapshot) => Values): Promise<void> {
    const { name, store } = this.#settings;
    return store.update(this.#keys, (values) => {
      const state = requireState(values[stateKey(name)], this.#device);
      requireNotSuspended(state);
      const windows = (values[windowsKey(name)] ?? []) as OpenWindow[];
      const ledger = (values[LEDGER] ?? []) as LedgerEntry[];
      return change({ state, windows, ledger });
    });
  }
}

/** Refuse to complete another window while those that may not be released fill their item. */
function requireRoom(held: readonly OpenWindow[], nBytes: number): void {
  const isRoom = held.reduce((sum, { sums }) => sum + sums.length, nBytes) <= MOST_HELD_BYTES;
  const fix = "call flush() where the server can be asked, or ask the operator to open the study";
  const rule = `are ${held.length} that may not be released yet, and fill the store`;
  require(!held.length || isRoom, "store", "windows", rule, fix, "windows-full");
}

function describe(window: OpenWindow | undefined, floor: number): WindowState {
  if (!window) return { ...EMPTY, floor };
  const { nRecords, first, last } = window;
  return { nRecords, first, last, floor };
}

/** Return the state of a device, if it is still the same one. */
export function requireState(value: unknown, device: Uint8Array): DeviceState {
  const state = value as DeviceState | undefined;
  if (state?.isEnrolled && toHex(state.device) === toHex(device)) return state;
  const fix = "enrol again with a new code; if this was not intended, see why the site's data were deleted";
  throw new SketchError("config", "device", "is not enrolled any more", fix, "device-gone");
}

/** Refuse a stream that was stopped. */
export function requireNotSuspended({ suspended }: DeviceState): void {
  if (!suspended) return;
  const fix = "find out why; then call forget(), and enrol a new device with a new code";
  throw new SketchError("ledger", "device", `is suspended: ${suspended}`, fix, "suspended");
}
