/** A device: it enrols, takes records, and sends what it releases of them. */
import { type Bytes, equalBytes, toHex } from "../bytes.ts";
import { require, SketchError } from "../errors.ts";
import { isList, Plan, type Record } from "../plan/plan.ts";
import type { LabelsOf, PlanShape, RecordOf } from "../plan/shape.ts";
import { showRational } from "../privacy/rational.ts";
import { SystemSource } from "../privacy/source.ts";
import type { EnrolSettings, StudyInfo } from "./enrolling.ts";
import { openDefaultStore } from "./indexeddb.ts";
import type { Limits } from "./ledger.ts";
import { Outbox } from "./outbox.ts";
import { type Platform, type StoredKey, useWebCrypto } from "./platform.ts";
import { type Policy, requirePlanAllowed, requireServerAllowed } from "./policy.ts";
import { type Fetch, isRefusal, Server } from "./server.ts";
import type { Result } from "./results.ts";
import type { SecureSum } from "./sketching.ts";
import { type DeviceState, FORMAT, messageKey, resultKey, stateKey, type Store, windowsKey } from "./store.ts";
import { type OpenWindowReport, type PendingRecord, Stream } from "./stream.ts";
import { agree, believes, type Clocks, LEEWAY_S, OLDER_THAN_THIS } from "./windows.ts";

const SAVE_MS = 1000;
/** Records that wait in memory while none can be stored; later ones are not taken. */
const MOST_PENDING = 100_000;
/** An answer of the server says what time it is for so long. */
const BELIEVED_MS = 86_400_000;
/** An answer of the server is good for so long before sketches are offered. */
const AGREED_MS = 20_000;

/** How a device is made; what is left out is that of the platform. */
export interface DeviceOptions {
  /** Tells the devices of one store apart; "device" by default. */
  name?: string;
  /** The name of its stream, which the server sees; "main" by default. */
  stream?: string;
  /**
   * Where the records come from; "default" by default. The owner's budget counts by this name: give
   * devices of one store the same, unless no record is ever given to both.
   */
  source?: string;
  store?: Store;
  platform?: Platform;
  fetch?: Fetch;
  /** Milliseconds since 1970-01-01 UTC. */
  clock?: () => number;
  limits?: Limits;
  policy?: Policy;
  /** Allows studies that add masked sums of devices, by `useSecureSum` of `sfumato-device/sum`. */
  secureSum?: SecureSum;
}

/** What an enrolment has to say to the owner. */
export interface EnrolReport {
  problems: string[];
}

/** What became of records since the page or process was started; it must not leave the device. */
interface RecordCounts {
  /** Records that could not be read: a value is missing or of another type. They count, and add zero. */
  unsketchable: number;
  /** Records that are lost, because the budget pays for no release of them, or none could be stored. */
  dropped: number;
}

/** What a flush has done. */
export interface FlushReport extends RecordCounts {
  /** Windows that were released since the last report, by this flush or by a save before it. */
  released: number;
  sent: number;
  waiting: number;
  /** The window that is open, if there is one: its records are stored here, and wait for it to close. */
  open: OpenWindowReport | undefined;
  /** Sentences for the owner; one of them names a dimension that records lack. */
  problems: string[];
}

/** What an owner may want to see; nothing in it leaves the device. */
export interface DeviceStatus extends RecordCounts {
  isEnrolled: boolean;
  /** Hexadecimal; empty before the device has enrolled, as are the next two. */
  device: string;
  study: string;
  server: string;
  suspended: string;
  released: number;
  waiting: number;
  sent: number;
  shelved: number;
  /** Epsilon of one release, exact. */
  epsilon: string;
  /** Why a save in the background failed, or what a record lacks, until a flush has reported it. */
  problem: string;
}

/** What belongs to an enrolment, loaded once. */
interface Loaded {
  plan: Plan;
  state: DeviceState;
  stream: Stream;
  outbox: Outbox;
  server: Server;
}

/**
 * The device side of a study.
 *
 *     const device = new Device();
 *     await device.enrol(code);      // once; repeating it is harmless
 *     device.add({ temperature: 21.5 });
 *     await device.flush();          // every few minutes, and when the network is back
 *
 * Every record is in one release or in none; a release is on the disk, and counted, before any of it
 * is sent, and is never drawn again.
 *
 * @typeParam P The type of the study's plan where the program knows it: labels and records are
 *   checked against it by the compiler. See `PlanShape`.
 */
export class Device<P extends PlanShape = PlanShape> {
  readonly #options: EnrolSettings & { fetch: Fetch; clock: () => number };
  #store: Store | undefined;
  #random: SystemSource | undefined;
  #loaded: Loaded | undefined;
  #turn: Promise<unknown> = Promise.resolve();
  #timer: ReturnType<typeof setTimeout> | undefined;
  readonly #added: { record: Record; time: number }[] = [];
  readonly #pending: PendingRecord[] = [];
  /** The server's time, and the device's clock and timer when it said so. */
  #answered: { server: number; device: number; timer: number } | undefined;
  /** Whether windows may be released: the server has answered, or could not be reached. */
  #isAccepted = false;
  /** Whether the server would take a sketch now. */
  #mayReach = false;
  #nDropped = 0;
  #nReleased = 0;
  #problem = "";

  constructor(options: DeviceOptions = {}) {
    const openStore = (): Store => (this.#store ??= options.store ?? openDefaultStore());
    this.#options = {
      name: "device",
      stream: "main",
      source: "default",
      fetch: (url, init) => globalThis.fetch(url, init),
      clock: () => Date.now(),
      limits: {},
      policy: {},
      secureSum: undefined,
      ...options,
      platform: options.platform ?? useWebCrypto(),
      get store() {
        return openStore();
      },
      connect: (address, device, key) => this.#connect(address, device, key),
    };
    // A page that is hidden may be ended at any time.
    globalThis.document?.addEventListener?.("visibilitychange", this.#saveQuietly);
  }

  /** The study's plan; `undefined` before the device has enrolled. */
  get plan(): Plan | undefined {
    return this.#loaded?.plan;
  }

  /** Return the address of the server that a code names; nobody is asked. */
  async findServer(code: string): Promise<string> {
    const { readCode } = await import("./enrolling.ts");
    return readCode(code).server;
  }

  /** Return the study of a code, verified, for its owner to look at first; nothing is stored. */
  async inspect(code: string): Promise<StudyInfo> {
    const { inspect } = await import("./enrolling.ts");
    return inspect(this.#options, code);
  }

  /**
   * Enrol in the study of a code. Repeating it is harmless, also where the answer was lost.
   *
   * @param labels A value for each label that the plan declares, such as `{ region: "north" }`. The
   *   server learns them as they are, and no later call changes them.
   * @throws SketchError A label is missing, has a value that the plan does not list, or is not
   *   declared: `field` is `labels.NAME`, and `fix` lists what is allowed. Nothing was stored.
   */
  enrol(
    code: string,
    ...[labels]: {} extends LabelsOf<P> ? [labels?: LabelsOf<P>] : [labels: LabelsOf<P>]
  ): Promise<EnrolReport> {
    return this.#exclusively("work", async () => {
      // Before anything is sent: a device without a generator can release nothing.
      this.#openRandom().drawBytes(1);
      const { enrol } = await import("./enrolling.ts");
      const [answer, problems] = await enrol(this.#options, code, labels, await this.#readState());
      if (answer) this.#noteTime(answer.serverTime);
      await this.#load();
      return { problems };
    });
  }

  /**
   * Add a record: values by the plan's dimensions, or in their order.
   *
   * A value that is missing or of another type makes the record unsketchable; it keeps its place
   * all the same, so that no record changes what becomes of another one. Write `null` for a value
   * that is missing: a dimension that a record does not name at all is a mistake of the program, and
   * the next `flush` reports it in `problems`. Records are stored within a second, or by `save`; what a page that is closed
   * before has added is lost, and never counted twice.
   *
   * @throws SketchError A list has another length than the plan has dimensions.
   * @param time When the record was made; now by default. Milliseconds since 1970, as `Date` counts.
   */
  add(record: RecordOf<P>, time: Date | number = this.#options.clock()): void {
    if (this.#added.length + this.#pending.length >= MOST_PENDING) {
      this.#nDropped++;
      return;
    }
    this.plan?.readRecord(record);
    const copy: Record = isList(record) ? Array.from(record) : { ...record };
    const seconds = Number(time) / 1000;
    this.#added.push({ record: copy, time: Number.isFinite(seconds) ? seconds : NaN });
    // What goes wrong is told by `save` and `flush`, which do the same again.
    this.#timer ??= setTimeout(this.#saveQuietly, SAVE_MS);
  }

  readonly #saveQuietly = (): void => {
    this.#timer = undefined;
    if (!this.#added.length && !this.#pending.length) return;
    this.save().catch((error) => (this.#problem = `a save in the background failed: ${error?.message}`));
  };

  /** Store the records that were added, and release windows that they complete. */
  save(): Promise<void> {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    return this.#exclusively("work", async () => {
      await this.#absorb(await this.#load(), this.#isAccepted, false);
    });
  }

  /** Store, release windows that are over, and send what waits; without the network it waits on. */
  async flush(): Promise<FlushReport> {
    const loaded = await this.#exclusively("work", () => this.#load());
    const problems: string[] = [];
    const mayRelease = await this.#poll(loaded, problems);
    let failure: unknown;
    let open: OpenWindowReport | undefined;
    try {
      await this.#exclusively("work", () => this.#absorb(loaded, mayRelease, true));
      open = await loaded.stream.findOpen();
    } catch (error) {
      // What was released before is sent all the same.
      failure = error;
    }
    const clocks = await this.#readClocks();
    if (!believes(clocks)) problems.push(describeDifference(clocks));
    if (this.#problem) problems.push(this.#problem);
    if (this.#nDropped) problems.push(`${this.#nDropped} record(s) are lost: they could not be stored, or the budget is spent`);
    let sent = 0;
    if (this.#mayReach) {
      const isRecent = (): boolean => performance.now() - this.#answered!.timer < AGREED_MS;
      const round = await this.#exclusively("send", () => loaded.outbox.send(loaded.server, this.#options.clock, isRecent));
      sent = round.sent;
      problems.push(...round.problems);
    }
    await loaded.outbox.purge(1000 * Math.min(clocks.device, clocks.server ?? clocks.certain));
    if (failure) throw failure;
    this.#problem = "";
    const waiting = ((await this.#readState())?.outbox ?? []).filter(({ state }) => state === "waiting");
    const nEarly = waiting.filter(({ problem }) => problem === "too-early").length;
    if (nEarly) problems.push(`${nEarly} sketch(es) wait: this device's clock was ahead`);
    const released = this.#nReleased;
    this.#nReleased = 0;
    return { released, sent, waiting: waiting.length, open, problems, ...this.#countRecords() };
  }

  /**
   * Pull the study's published result; `undefined` if there is none yet.
   *
   * It is trusted by the server's key that was pinned at enrolment. Records are labelled with it here:
   * `(await device.pullResult())?.find(record)`.
   */
  async pullResult(): Promise<Result | undefined> {
    const { pull } = await import("./results.ts");
    const { server, state, plan } = await this.#exclusively("work", () => this.#load());
    return pull(this.#options, server, state.study, plan);
  }

  /** Return the result that was pulled last; it needs no network. */
  async loadResult(): Promise<Result | undefined> {
    const { load } = await import("./results.ts");
    const { state, plan } = await this.#exclusively("work", () => this.#load());
    return load(this.#options, state.study, plan);
  }

  /** Return what an owner may want to see. */
  async status(): Promise<DeviceStatus> {
    const state = await this.#readState();
    const isEnrolled = state?.isEnrolled ?? false;
    try {
      if (isEnrolled) await this.#load();
    } catch (error) {
      // Another tab erased it meanwhile.
      if (isRefusal(error, "not-enrolled")) return this.status();
      throw error;
    }
    const count = (what: string): number => state?.outbox.filter((entry) => entry.state === what).length ?? 0;
    return {
      isEnrolled,
      device: state ? toHex(state.device) : "",
      study: state ? toHex(state.study) : "",
      server: state?.server ?? "",
      suspended: state?.suspended ?? "",
      released: state?.nextSequence ?? 0,
      waiting: count("waiting"),
      sent: count("sent"),
      shelved: count("shelved"),
      epsilon: this.plan ? showRational(this.plan.fields.release.epsilon) : "",
      problem: this.#problem,
      ...this.#countRecords(),
    };
  }

  #countRecords(): RecordCounts {
    return { unsketchable: this.#loaded?.stream.nUnsketchable ?? 0, dropped: this.#nDropped };
  }

  /** Erase key, sums and sketches; the ledger stays, because what was released stays released. */
  forget(): Promise<void> {
    return this.#exclusively("work", async () => {
      this.#loaded = undefined;
      this.#added.length = this.#pending.length = 0;
      const { name, store } = this.#options;
      await store.update([stateKey(name)], (values) => {
        const state = values[stateKey(name)] as DeviceState | undefined;
        const messages = state?.outbox.map(({ id }) => messageKey(name, toHex(id))) ?? [];
        const gone = [stateKey(name), windowsKey(name), resultKey(name), ...messages];
        return Object.fromEntries(gone.map((key) => [key, undefined]));
      });
    });
  }

  /** Ask the server, and note its answer; return whether windows may be released now. */
  async #poll({ server, outbox, state }: Loaded, problems: string[]): Promise<boolean> {
    this.#mayReach = false;
    let notice = { state: "open", acceptUntil: 0 };
    try {
      const answer = await server.fetchDevice();
      this.#noteTime(answer.serverTime);
      const clocks = await this.#readClocks();
      const agreed = agree(clocks) ? Math.min(clocks.device, clocks.server!) : undefined;
      problems.push(...(await outbox.noteAnswer(answer, agreed)));
      notice = await server.fetchNotice(state.study);
      this.#mayReach = true;
    } catch (error) {
      if (isRefusal(error, "study-withdrawn")) notice.state = "withdrawn";
      else if (error instanceof SketchError && error.kind === "transport") {
        // Offline nothing tells whether this device was cloned; what it releases waits.
        problems.push(error.message);
      } else {
        this.#isAccepted = false;
        throw error;
      }
    }
    this.#isAccepted = true;
    if (notice.state !== "open") {
      problems.push(`the study is ${notice.state}: nothing is released, and nothing is spent`);
      this.#isAccepted = false;
      this.#mayReach &&= this.#options.clock() < notice.acceptUntil;
    }
    return this.#isAccepted;
  }

  /** Take added records into windows. */
  async #absorb({ plan, stream }: Loaded, mayRelease: boolean, mayClose: boolean): Promise<void> {
    for (const { record, time } of this.#added.splice(0)) {
      // A list of another length, added before the plan was known, cannot be read.
      const given = !isList(record) || record.length === plan.names.length ? record : {};
      const lacking = isList(given) ? "" : plan.names.filter((name) => !(name in given)).join(", ");
      // Told, not refused: what one record lacks must not change how many there are.
      if (lacking) this.#problem = `a record has no ${lacking}: give one for each of: ${plan.names.join(", ")}; null if it is missing`;
      this.#pending.push({ values: plan.readRecord(given), time });
    }
    try {
      const released = await stream.absorb(this.#pending, await this.#readClocks(), mayRelease, mayClose);
      this.#nReleased += released;
    } catch (error) {
      // What can never be released is not kept.
      if (error instanceof SketchError && (error.kind === "budget" || error.kind === "ledger")) {
        this.#nDropped += this.#pending.length;
        this.#pending.length = 0;
      }
      throw error;
    }
  }

  #openRandom(): SystemSource {
    return (this.#random ??= new SystemSource(this.#options.platform.fillRandom));
  }

  async #readState(): Promise<DeviceState | undefined> {
    const { name, store } = this.#options;
    let state: DeviceState | undefined;
    await store.update([stateKey(name)], (values) => {
      state = values[stateKey(name)] as DeviceState | undefined;
      return {};
    });
    return state;
  }

  #connect(address: string, device: Uint8Array, key?: StoredKey): Server {
    const { platform, fetch, clock } = this.#options;
    const { sha256 } = platform;
    const sign = (data: Bytes): Promise<Bytes> => platform.sign(key!, data);
    return new Server({ address, device, sign, sha256, fetch, clock: () => clock() / 1000 });
  }

  async #load(): Promise<Loaded> {
    const state = await this.#readState();
    const fix = "call enrol(code) with a code of the study's operator";
    require(state?.isEnrolled ?? false, "config", "device", "has not enrolled", fix, "not-enrolled");
    const { server, device, key, format, plan: stored } = state!;
    if (this.#loaded && equalBytes(this.#loaded.state.device, device)) return this.#loaded;
    const { name, policy, store } = this.#options;
    requireServerAllowed(policy, server);
    requirePlanAllowed(policy, stored);
    // Other software may have verified the plan, and the owner may trust another helper now.
    const isKnown = format === FORMAT && stored.fields.release.kind !== "sum.v1";
    const verified = isKnown ? stored : await (await import("./enrolling.ts")).verifyPlan(stored.bytes, this.#options);
    const plan = await Plan.open(verified);
    const stream = new Stream(this.#options, this.#openRandom(), plan, device);
    const outbox = new Outbox(name, store, device, stream);
    this.#loaded = { plan, state: state!, stream, outbox, server: this.#connect(server, device, key) };
    return this.#loaded;
  }

  #noteTime(serverTime: number): void {
    this.#answered = { server: serverTime, device: this.#options.clock(), timer: performance.now() };
  }

  /** Return the clocks now. */
  async #readClocks(): Promise<Clocks> {
    const now = this.#options.clock();
    const certain = (await this.#readState())?.certain ?? OLDER_THAN_THIS;
    let server: number | undefined;
    if (this.#answered) {
      const passed = performance.now() - this.#answered.timer;
      // The timer may stand still while the machine sleeps, and the clock may have been set.
      const drift = Math.abs(now - this.#answered.device - passed);
      if (passed < BELIEVED_MS && drift <= 1000 * LEEWAY_S) server = this.#answered.server + passed / 1000;
    }
    return { device: now / 1000, server, certain };
  }

  /** Run a function after those before it, and while no other tab runs one of that name. */
  #exclusively<T>(what: string, run: () => Promise<T>): Promise<T> {
    const { name } = this.#options;
    const done = this.#turn.then(() => this.#options.store.exclusively(`${name}/${what}`, run));
    this.#turn = done.catch(() => undefined);
    return done;
  }
}

function describeDifference({ device, server, certain }: Clocks): string {
  const seconds = Math.round(Math.abs(device - (server ?? certain)));
  const shown = seconds < 172_800 ? `${seconds} s` : `${Math.round(seconds / 86_400)} days`;
  const order = server! > device ? "behind" : "ahead of";
  const known = server === undefined ? "the last time that the server has confirmed" : "the server";
  return (
    `clock: this device is ${shown} ${order} ${known}, so no window is closed by the clock. ` +
    "Set this device's clock, or tell the study's operator if it is right"
  );
}
