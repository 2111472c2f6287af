/** The outbox: compare with the server, and send what waits; none is ever dropped unseen. */
import { type Bytes, toHex } from "../bytes.ts";
import type { DeviceAnswer, Server, StreamAnswer, UploadOutcome } from "./server.ts";
import {
  type DeviceState,
  LEDGER,
  type LedgerEntry,
  messageKey,
  type OutboxEntry,
  stateKey,
  type Store,
  type Values,
} from "./store.ts";
import { requireNotSuspended, requireState, type Stream } from "./stream.ts";
import { LEEWAY_S } from "./windows.ts";

/** Sent bytes are kept for so long, in case a server is restored from a backup. */
const KEEP_SENT_MS = 30 * 86_400_000;
const LONGEST_HOLD_MS = 86_400_000;
const COPIED = "released-by-a-copy";

/** What became of the sketches in one round. */
export interface Sent {
  sent: number;
  problems: string[];
}

/** Whether the server holds a sketch; `undefined` where its answer does not say. */
function holds(answer: StreamAnswer | undefined, sequence: number): boolean | undefined {
  if (!answer || sequence > answer.last) return false;
  if (sequence === answer.last) return true;
  if (answer.missing.some(([first, last]) => first <= sequence && sequence <= last)) return false;
  const isNamed = !answer.isPartial || sequence < answer.missing.at(-1)![1];
  return isNamed ? true : undefined;
}

/** Count the sketches at the server that this state never offered. */
function countCopied({ stream, nextSequence, outbox }: DeviceState, answer: DeviceAnswer): number {
  let count = 0;
  for (const [name, { last, missing }] of answer.streams) {
    // What the server does not say of counts as held where this state has not come so far.
    const next = name === stream ? nextSequence : 0;
    const beyond = Math.max(0, last + 1 - next);
    count += missing.reduce((n, [first, end]) => n - Math.max(0, end + 1 - Math.max(first, next)), beyond);
  }
  const own = answer.streams.get(stream);
  return count + outbox.filter(({ offeredAt, sequence }) => !offeredAt && holds(own, sequence)).length;
}

/** Reads and writes the outbox of one device. */
export class Outbox {
  readonly #name: string;
  readonly #store: Store;
  readonly #device: Bytes;
  readonly #stream: Stream;

  constructor(name: string, store: Store, device: Bytes, stream: Stream) {
    this.#name = name;
    this.#store = store;
    this.#device = device;
    this.#stream = stream;
  }

  /**
   * Note what the server knows of this device, before anything is sent.
   *
   * The server holds offered sketches alone, or another copy of this state has sent some: a backup
   * was put back, or the device was cloned. Then the stream is suspended, what waits is set aside,
   * and the copy's releases are counted as spent. Conversely, a server that lacks what it has
   * acknowledged was put back to an earlier day, and gets the same bytes again.
   *
   * @param agreed The time by device and server, in seconds, if they agree on it.
   */
  async noteAnswer(answer: DeviceAnswer, agreed: number | undefined): Promise<string[]> {
    const messages: string[] = [];
    await this.#update([LEDGER], (state, values) => {
      messages.length = 0;
      requireNotSuspended(state);
      const copied = countCopied(state, answer);
      if (copied) {
        const suspended =
          `the server holds ${copied} sketch(es) that this ledger never sent: it was restored from a ` +
          "backup, or this device was cloned";
        const ledger = (values[LEDGER] ?? []) as LedgerEntry[];
        return {
          ...this.#write({ ...state, suspended, outbox: state.outbox.map((entry) => shelve(entry, COPIED)) }),
          [LEDGER]: this.#stream.addCopied(ledger, state, copied),
        };
      }
      const isRestored = answer.generation !== state.generation;
      const own = answer.streams.get(state.stream);
      const isLost = ({ state, sequence }: OutboxEntry): boolean =>
        state === "sent" && (isRestored ? !holds(own, sequence) : holds(own, sequence) === false);
      const nLost = state.outbox.filter(isLost).length;
      const isNews = nLost || isRestored;
      // Rarely, for it is one more write.
      const passed = agreed === undefined ? 0 : agreed - state.certain;
      if (!isNews && passed < 3600 && passed > -LEEWAY_S) return {};
      const certain = passed ? Math.floor(agreed!) : state.certain;
      if (isNews) messages.push(`the server was restored from a backup; ${nLost} sketch(es) are sent again as they were`);
      const outbox = state.outbox.map((entry) =>
        isLost(entry) ? { ...entry, state: "waiting" as const, notBefore: 0, attempts: 0 } : entry,
      );
      return this.#write({ ...state, generation: answer.generation, outbox, certain });
    });
    await this.#update([], (state) => {
      requireNotSuspended(state);
      return {};
    });
    return messages;
  }

  /**
   * Send what waits and is due, each sketch once; those tried least come first.
   *
   * @param isRecent Whether the server's last answer is still good: then no other copy of this state
   *   was at work.
   */
  async send(server: Server, clock: () => number, isRecent: () => boolean): Promise<Sent> {
    const found: Sent = { sent: 0, problems: [] };
    const state = await this.#read();
    const now = clock();
    // One that is held for longer than anybody may hold it is due: the clock was set back since.
    const due = state.outbox.filter(
      (one) => one.state === "waiting" && (one.notBefore <= now || one.notBefore > now + LONGEST_HOLD_MS),
    );
    for (const { id, sequence } of due.sort((a, b) => a.attempts - b.attempts || a.sequence - b.sequence)) {
      if (!isRecent()) break;
      const message = await this.#offer(id, clock());
      if (!message) continue;
      const outcome = await server.putSketch(state.study, id, message);
      await this.#noteOutcome(id, outcome, clock());
      if (!outcome.action) found.sent++;
      else found.problems.push(`sketch ${sequence}: ${outcome.detail}`);
      // The server is away, or it has learnt of another copy: it is asked before anything else.
      if (!outcome.isAnswered || outcome.action === "suspend") break;
    }
    return found;
  }

  /** Drop the bytes and rows of sketches that were sent long ago. */
  async purge(now: number): Promise<void> {
    await this.#update([], (state) => {
      const isOld = ({ state, sentAt }: OutboxEntry): boolean => state === "sent" && sentAt < now - KEEP_SENT_MS;
      const old = state.outbox.filter(isOld);
      if (!old.length) return {};
      return {
        ...this.#write({ ...state, outbox: state.outbox.filter((entry) => !isOld(entry)) }),
        ...Object.fromEntries(old.map(({ id }) => [messageKey(this.#name, toHex(id)), undefined])),
      };
    });
  }

  /**
   * Note that a sketch may be outside from now on, and return its bytes; none if it waits no more.
   *
   * Before they are returned it is on the disk that they were offered. So whatever a server holds of
   * this device was offered by this state, or another copy of it has sent it.
   */
  async #offer(id: Bytes, now: number): Promise<Bytes | undefined> {
    const key = messageKey(this.#name, toHex(id));
    let message: Bytes | undefined;
    await this.#update([key], (state, values) => {
      requireNotSuspended(state);
      const entry = state.outbox.find((one) => toHex(one.id) === toHex(id));
      message = entry?.state === "waiting" ? (values[key] as Bytes | undefined) : undefined;
      if (!message || entry!.offeredAt) return {};
      return this.#write(change(state, id, { offeredAt: now }));
    });
    return message;
  }

  async #noteOutcome(id: Bytes, { action, problem, holdS }: UploadOutcome, now: number): Promise<void> {
    await this.#update([LEDGER], (state, values) => {
      const entry = state.outbox.find((one) => toHex(one.id) === toHex(id));
      if (!entry) return {};
      const attempts = entry.attempts + 1;
      if (!action) return this.#write(change(state, id, { state: "sent", problem: "", attempts, sentAt: now }));
      if (action === "retry" || action === "hold") {
        // Full jitter spreads thousands of devices that come back at the same moment.
        const pause = Math.floor(Math.random() * Math.min(120_000, 500 * 2 ** Math.min(attempts, 20)));
        const notBefore = now + Math.max(Math.ceil(1000 * holdS), action === "retry" ? pause : 0);
        return this.#write(change(state, id, { problem, attempts, notBefore }));
      }
      const shelved = change(state, id, { state: "shelved", problem, attempts });
      if (action === "shelve") return this.#write(shelved);
      const ledger = (values[LEDGER] ?? []) as LedgerEntry[];
      const suspended = "the server holds other bytes of a sketch: this device was cloned, or restored from a backup";
      return {
        ...this.#write({ ...shelved, suspended, outbox: shelved.outbox.map((one) => shelve(one, COPIED)) }),
        [LEDGER]: this.#stream.addCopied(ledger, state, 1),
      };
    });
  }

  async #read(): Promise<DeviceState> {
    let found: DeviceState | undefined;
    await this.#update([], (state) => {
      found = state;
      return {};
    });
    return found!;
  }

  #write(state: DeviceState): Values {
    return { [stateKey(this.#name)]: state };
  }

  #update(keys: string[], change: (state: DeviceState, values: Values) => Values): Promise<void> {
    const key = stateKey(this.#name);
    return this.#store.update([key, ...keys], (values) => change(requireState(values[key], this.#device), values));
  }
}

/** Return the state with another entry of one sketch. */
function change(state: DeviceState, id: Bytes, changes: Partial<OutboxEntry>): DeviceState {
  const outbox = state.outbox.map((entry) => (toHex(entry.id) === toHex(id) ? { ...entry, ...changes } : entry));
  return { ...state, outbox };
}

function shelve(entry: OutboxEntry, problem: string): OutboxEntry {
  return entry.state === "waiting" ? { ...entry, state: "shelved", problem } : entry;
}
