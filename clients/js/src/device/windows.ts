/** Windows: the records that one sketch covers, decided by counts and times alone. */
import type { Plan } from "../plan/plan.ts";

/** What the next decision about a stream depends on; -1 where there is no such slot. */
export interface WindowState {
  nRecords: number;
  first: number;
  last: number;
  /** The lowest slot at which the next window may begin. */
  floor: number;
}

/** What becomes of a record: the window closes before it, it joins, or it is left out. */
export type Decision = "close" | "join" | "leave-out";

/** The windows of a plan under `replace-one`: tumbling, cut by counts and times alone. */
export class WindowCutter {
  readonly #plan: Plan;

  constructor(plan: Plan) {
    this.#plan = plan;
  }

  get #byTime(): boolean {
    return this.#plan.fields.window.kind === "time";
  }

  get #most(): number {
    const { most_records, window } = this.#plan.fields;
    return this.#byTime ? most_records : window.length;
  }

  /** Whether a window must close before any other record is looked at. */
  isFull({ nRecords }: WindowState): boolean {
    return nRecords >= this.#most && !this.#plan.protectsDevices;
  }

  /**
   * Decide about a record.
   *
   * @param time Seconds since 1970-01-01 UTC; NaN where it is unreadable.
   * @param now The time beyond which no record is believed.
   */
  decide(state: WindowState, time: number, now: number): Decision {
    const { late_rule, least_records } = this.#plan.fields;
    if (late_rule === "leave-out-outside" && (!isInside(this.#plan, time) || this.#hasEnded(state))) {
      return "leave-out";
    }
    const slot = this.#slotOf(time, now);
    const isLater = slot >= 0 && state.last >= 0 && slot > state.last;
    if (this.isFull(state) || (isLater && state.nRecords >= Math.max(1, least_records))) return "close";
    if (!this.#plan.protectsDevices) return "join";
    const lowest = state.last < 0 ? state.floor : state.last;
    return slot < 0 || state.nRecords >= this.#most || slot < lowest ? "leave-out" : "join";
  }

  /** Return the state with one more record. */
  join(state: WindowState, time: number, now: number): WindowState {
    const slot = this.#slotOf(time, now);
    const nRecords = state.nRecords + 1;
    if (state.last >= 0) return { ...state, nRecords, last: Math.max(state.last, slot) };
    // A record that is late, or of unknown time, opens the lowest slot that is left.
    const opened = slot < 0 ? state.floor : Math.max(slot, state.floor);
    return { ...state, nRecords, first: opened, last: opened };
  }

  /** Give a window of records without readable times the slot of now, if it has none yet. */
  settle(state: WindowState, now: number): WindowState {
    if (!this.#byTime || !state.nRecords || state.last >= 0) return state;
    const slot = this.#plan.slotOf(now);
    return { ...state, first: slot, last: slot };
  }

  /** Whether an open window has enough records and its slot has ended by every clock. */
  isOver({ nRecords, last }: WindowState, clocks: readonly number[]): boolean {
    const { window, least_records } = this.#plan.fields;
    if (!this.#byTime || last < 0 || nRecords < Math.max(1, least_records)) return false;
    return clocks.every((now) => window.origin + (last + 1) * window.length_s <= now);
  }

  /** Return the state after a window was closed: at its most records, or at the end of a slot. */
  close(state: WindowState): WindowState {
    const floor = state.last < 0 ? state.floor : state.last + Number(!this.isFull(state));
    return { nRecords: 0, first: -1, last: -1, floor };
  }

  /** Whether the study's last slot is closed, so that no window may open any more. */
  #hasEnded({ last, floor }: WindowState): boolean {
    return last < 0 && floor >= countSlots(this.#plan);
  }

  #slotOf(time: number, now: number): number {
    if (!this.#byTime || Number.isNaN(time)) return -1;
    return Math.min(this.#plan.slotOf(time), this.#plan.slotOf(now));
  }
}

/** Return the number of slots of a study; infinite without an end. */
export function countSlots(plan: Plan): number {
  const { origin, length_s, end } = plan.fields.window;
  return end === undefined ? Infinity : (end - origin) / length_s;
}

/** Whether a time is readable, from the origin on, and before the end. */
export function isInside(plan: Plan, time: number): boolean {
  const { origin, end = Infinity } = plan.fields.window;
  return time >= origin && time < end;
}

/** The times by several clocks, in seconds since 1970-01-01 UTC. */
export interface Clocks {
  device: number;
  /** The server's, if it answered. */
  server: number | undefined;
  /** A time that has come for certain. */
  certain: number;
}

/** 2023-01-01: no clock that says less is right. */
export const OLDER_THAN_THIS = 1_672_531_200;

/** Most seconds by which the clocks of device and server may differ. */
export const LEEWAY_S = 300;

/** Seconds beyond the certain time at which a clock is not believed without the server. */
const FAR_S = 30 * 86_400;

/** Whether the clocks differ by no more than the leeway, or only one is known. */
export function agree({ device, server }: Clocks): boolean {
  return server === undefined || Math.abs(device - server) <= LEEWAY_S;
}

/** Whether the clock may close windows: it agrees with the server's, or is not far from what is certain. */
export function believes(clocks: Clocks): boolean {
  const { device, server, certain } = clocks;
  return agree(clocks) && (server !== undefined || certain <= OLDER_THAN_THIS || device <= certain + FAR_S);
}

/** Return the time beyond which no record is believed: the earlier of those that may be right. */
export function findLatestBelievable(clocks: Clocks): number {
  const { device, server, certain } = clocks;
  const known = believes(clocks) ? [device] : [device, server ?? certain];
  const possible = known.filter((now) => now >= certain - LEEWAY_S);
  return Math.max(possible.length ? Math.min(...possible) : certain, certain);
}

/**
 * The slots of a plan under `add-remove-one`: the clock alone says which are over.
 *
 * @param nextSlot The lowest slot that is not released.
 * @returns The first slot after those that are due, and the latest that a record may join.
 */
export function planSlots(plan: Plan, nextSlot: number, clocks: Clocks): [dueEnd: number, latest: number] {
  const nSlots = countSlots(plan);
  // Time alone spends here, so without the server it is the time that is certain.
  const spending = Math.min(clocks.device, clocks.server ?? clocks.certain);
  const over = agree(clocks) ? Math.min(plan.slotOf(spending), nSlots) : nextSlot;
  const dueEnd = Math.max(nextSlot, over);
  const open = Math.max(dueEnd, plan.slotOf(findLatestBelievable(clocks)));
  return [dueEnd, Math.min(open, nSlots - 1)];
}

/** Return the slot that a record joins; `undefined` if it joins none. */
export function assignSlot(plan: Plan, time: number, nextSlot: number, latest: number): number | undefined {
  if (plan.fields.late_rule === "leave-out-outside" && (!isInside(plan, time) || nextSlot > latest)) {
    return undefined;
  }
  const slot = Number.isNaN(time) ? nextSlot : plan.slotOf(time);
  return Math.min(Math.max(slot, nextSlot), latest);
}
