/** A device: it enrols, takes records, and sends what it releases of them. */
import { type Bytes, equalBytes, toHex } from "../bytes.ts";
import { require, SketchError } from "../errors.ts";
import { requireEndorsed } from "../plan/endorsing.ts";
import { type Value } from "../core/encoder.ts";
import { computeStudyId, type Plan, readPlan, type Record } from "../plan/plan.ts";
import { showRational } from "../privacy/rational.ts";
import { SystemSource } from "../privacy/source.ts";
import { readCode } from "../wire/code.ts";
import { makeEnrolment } from "../wire/requests.ts";
import { keepStorage, openDefaultStore } from "./indexeddb.ts";
import { type Limits, requireAffordable } from "./ledger.ts";
import { Outbox } from "./outbox.ts";
import { type Platform, useWebCrypto } from "./platform.ts";
import { type Policy, requireLabels, requirePlanAllowed, requireServerAllowed } from "./policy.ts";
import { type Fetch, isRefusal, Server } from "./server.ts";
import {
  type DeviceState,
  LEDGER,
  type LedgerEntry,
  messageKey,
  stateKey,
  type Store,
  windowsKey,
} from "./store.ts";
import { type PendingRecord, Stream } from "./stream.ts";
import { agree, type Clocks, LEEWAY_S, OLDER_THAN_THIS } from "./windows.ts";

const SAVE_MS = 1000;
/** Records that wait in memory while none can be stored; later ones are not taken. */
const MOST_PENDING = 100_000;
/** An answer of the server says what time it is for so long. */
const BELIEVED_MS = 86_400_000;
/** An answer of the server is good for so long before sketches are offered. */
const AGREED_MS = 20_000;

const NOT_KEPT =
  "storage: the browser does not promise to keep this site's data, and private browsing never does. If it deletes " +
  "them, this device is gone with its ledger: allow the site to store data for good, or install it";

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
}

/** What an enrolment has to say to the owner. */
export interface EnrolReport {
  problems: string[];
}

/** What a flush has done. */
export interface FlushReport {
  released: number;
  sent: number;
  waiting: number;
  /** Sentences for the owner. */
  problems: string[];
}

/** What an owner may want to see; nothing in it leaves the device. */
export interface DeviceStatus {
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
  /** Records that added zero since the page or process was started. */
  unsketchable: number;
}

/** What belongs to an enrolment, loaded once. */
interface Loaded {
  plan: Plan;
  device: Bytes;
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
 */
export class Device {
  readonly #name: string;
  readonly #streamName: string;
  readonly #source: string;
  readonly #platform: Platform;
  readonly #fetch: Fetch;
  readonly #clock: () => number;
  readonly #limits: Limits;
  readonly #policy: Policy;
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
  #isWatching = false;
  #nNotTaken = 0;

  constructor(options: DeviceOptions = {}) {
    this.#name = options.name ?? "device";
    this.#streamName = options.stream ?? "main";
    this.#source = options.source ?? "default";
    this.#store = options.store;
    this.#platform = options.platform ?? useWebCrypto();
    this.#fetch = options.fetch ?? ((url, init) => globalThis.fetch(url, init));
    this.#clock = options.clock ?? (() => Date.now());
    this.#limits = options.limits ?? {};
    this.#policy = options.policy ?? {};
    const isStream = /^[^\p{C}\p{Z}]{1,64}$/u.test(this.#streamName) && this.#streamName.normalize() === this.#streamName;
    require(isStream, "config", "stream", "must have 1 to 64 visible characters", 'use a name such as "main"');
  }

  /** The study's plan; `undefined` before the device has enrolled. */
  get plan(): Plan | undefined {
    return this.#loaded?.plan;
  }

  /**
   * Enrol in the study of a code. Repeating it is harmless, also where the answer was lost.
   *
   * @param labels A value for each label that the plan declares.
   */
  enrol(code: string, labels: { readonly [name: string]: string } = {}): Promise<EnrolReport> {
    return this.#exclusively("work", async () => {
      const { server: address, study, token } = readCode(code);
      requireServerAllowed(this.#policy, address);
      let state = await this.#readState();
      if (state?.isEnrolled) {
        const fix = "pass another name for a second study, or call forget() first";
        require(equalBytes(state.study, study), "config", "code", "is of another study than this device's", fix);
        return { problems: [] };
      }
      // Before anything is sent: a device without a generator can release nothing.
      this.#openRandom().drawBytes(1);
      const nobody = this.#connect(address, new Uint8Array(32), undefined);
      const [bytes, title] = await nobody.fetchPlan(study);
      const plan = await this.#readPlan(bytes);
      const isStudy = equalBytes(await computeStudyId(title, plan.digest, this.#platform.sha256), study);
      require(isStudy, "plan", "study", "is not the one that the server sent", "ask the study's operator; nothing was sent");
      const kept = requireLabels(plan, labels);
      state = await this.#prepare(state, address, study, bytes, plan, kept);
      const isKept = !this.#store!.canHoldKeys || (await keepStorage());
      const { key, device } = state;
      const server = this.#connect(address, device, state);
      const sign = (data: Bytes): Promise<Bytes> => this.#platform.sign(key, data);
      try {
        await server.enrol(await makeEnrolment(token, study, key.publicKey, kept, sign));
      } catch (error) {
        // What the server certainly did not take is of no use.
        if (error instanceof SketchError && error.kind === "refused") await this.#erase();
        throw error;
      }
      const answer = await server.fetchDevice();
      this.#noteTime(answer.serverTime);
      const { ordinal, generation } = answer;
      await this.#store!.update([stateKey(this.#name)], (values) => {
        const present = values[stateKey(this.#name)] as DeviceState | undefined;
        // Another tab may have finished the same enrolment, and released since.
        if (!present || present.isEnrolled || !equalBytes(present.device, device)) return {};
        return { [stateKey(this.#name)]: { ...present, isEnrolled: true, ordinal, generation } };
      });
      await this.#load();
      return { problems: isKept ? [] : [NOT_KEPT] };
    });
  }

  /**
   * Add a record: values by the plan's dimensions, or in their order.
   *
   * A value that is missing or of another type makes the record unsketchable; it keeps its place
   * all the same. Records are stored within a second, or by `save`; what a page that is closed
   * before has added is lost, and never counted twice.
   *
   * @param time When the record was made; now by default. Milliseconds since 1970, as `Date` counts.
   */
  add(record: Record, time: Date | number = this.#clock()): void {
    if (this.#added.length + this.#pending.length >= MOST_PENDING) {
      this.#nNotTaken++;
      return;
    }
    const isList = Array.isArray(record) || ArrayBuffer.isView(record);
    const copy: Record = isList ? Array.from(record as unknown as ArrayLike<Value>) : { ...record };
    const seconds = Number(time) / 1000;
    this.#added.push({ record: copy, time: Number.isFinite(seconds) ? seconds : NaN });
    // What goes wrong is told by `save` and `flush`, which do the same again.
    this.#timer ??= setTimeout(this.#saveQuietly, SAVE_MS);
    if (!this.#isWatching) globalThis.document?.addEventListener?.("visibilitychange", this.#saveQuietly);
    this.#isWatching = true;
  }

  readonly #saveQuietly = (): void => void this.save().catch(() => undefined);

  /** Store the records that were added, and release windows that they complete. */
  save(): Promise<void> {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    return this.#exclusively("work", async () => {
      const loaded = await this.#requireLoaded();
      await this.#absorb(loaded, this.#isAccepted, false);
    });
  }

  /** Store, release windows that are over, and send what waits; without the network it waits on. */
  async flush(): Promise<FlushReport> {
    const loaded = await this.#exclusively("work", () => this.#requireLoaded());
    const problems: string[] = [];
    const mayRelease = await this.#poll(loaded, problems);
    let released = 0;
    let failure: unknown;
    try {
      released = await this.#exclusively("work", () => this.#absorb(loaded, mayRelease, true));
    } catch (error) {
      // What was released before is sent all the same.
      failure = error;
    }
    const clocks = await this.#readClocks();
    if (!agree(clocks)) problems.push(describeDifference(clocks));
    if (this.#nNotTaken) problems.push(`${this.#nNotTaken} record(s) were not taken, because none could be stored`);
    let sent = 0;
    if (this.#mayReach) {
      const isRecent = (): boolean => performance.now() - this.#answered!.timer < AGREED_MS;
      const round = await this.#exclusively("send", () => loaded.outbox.send(loaded.server, this.#clock, isRecent));
      sent = round.sent;
      problems.push(...round.problems);
    }
    await loaded.outbox.purge(1000 * Math.min(clocks.device, clocks.server ?? clocks.certain));
    if (failure) throw failure;
    const { waiting } = await this.status();
    return { released, sent, waiting, problems };
  }

  /** Return what an owner may want to see. */
  async status(): Promise<DeviceStatus> {
    const state = await this.#readState();
    const isEnrolled = state?.isEnrolled ?? false;
    if (isEnrolled) await this.#load();
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
      unsketchable: this.#loaded?.stream.nUnsketchable ?? 0,
    };
  }

  /** Erase key, sums and sketches; the ledger stays, because what was released stays released. */
  forget(): Promise<void> {
    return this.#exclusively("work", () => this.#erase());
  }

  /** Ask the server, and note its answer; return whether windows may be released now. */
  async #poll({ server, outbox, device }: Loaded, problems: string[]): Promise<boolean> {
    this.#mayReach = false;
    const state = await this.#requireState();
    let { notice } = state;
    try {
      const answer = await server.fetchDevice();
      problems.push(...(await outbox.noteAnswer(answer)));
      this.#noteTime(answer.serverTime);
      notice = await server.fetchNotice(state.study);
      this.#mayReach = true;
      this.#isAccepted = true;
    } catch (error) {
      if (isRefusal(error, "study-withdrawn")) notice = { state: "withdrawn", acceptUntil: 0 };
      else if (!(error instanceof SketchError) || error.kind !== "transport") {
        if (error instanceof SketchError && error.kind === "refused") this.#isAccepted = false;
        throw error;
      } else {
        // Offline nothing tells whether this device was cloned; what it releases waits.
        problems.push(error.message);
        this.#isAccepted = true;
      }
    }
    const now = this.#clock();
    if (notice.state !== "open") {
      problems.push(`the study is ${notice.state}: nothing is released, and nothing is spent`);
      this.#mayReach &&= notice.state === "closed" && now < notice.acceptUntil;
    }
    const clocks = await this.#readClocks();
    const agreed = agree(clocks) && clocks.server !== undefined ? Math.min(clocks.device, clocks.server) : 0;
    await this.#store!.update([stateKey(this.#name)], (values) => {
      const present = values[stateKey(this.#name)] as DeviceState | undefined;
      if (!present || !equalBytes(present.device, device)) return {};
      const certain = agreed && (agreed > present.certain + 3600 || agreed < present.certain - LEEWAY_S) ? Math.floor(agreed) : present.certain;
      const isSame = certain === present.certain && JSON.stringify(notice) === JSON.stringify(present.notice);
      return isSame ? {} : { [stateKey(this.#name)]: { ...present, notice, certain } };
    });
    return this.#isAccepted && notice.state === "open";
  }

  /** Take added records into windows. */
  async #absorb({ plan, stream }: Loaded, mayRelease: boolean, mayClose: boolean): Promise<number> {
    for (const { record, time } of this.#added.splice(0)) {
      this.#pending.push({ values: plan.readRecord(record), time });
    }
    try {
      return await stream.absorb(this.#pending, await this.#readClocks(), mayRelease, mayClose);
    } catch (error) {
      // What can never be released is not kept.
      if (error instanceof SketchError && (error.kind === "budget" || error.kind === "ledger")) this.#pending.length = 0;
      throw error;
    }
  }

  /** Store a key and what is known of the study, before the server hears of the key. */
  async #prepare(
    before: DeviceState | undefined,
    server: string,
    study: Bytes,
    bytes: Bytes,
    plan: Plan,
    labels: { [name: string]: string },
  ): Promise<DeviceState> {
    const store = this.#openStore();
    // The key of an enrolment that broke off may be known to the server already.
    const isSame = before && equalBytes(before.study, study);
    const key = isSame ? before.key : await this.#platform.createKey(store.canHoldKeys);
    const state: DeviceState = {
      format: 1,
      server,
      study,
      plan: bytes,
      key,
      device: await this.#platform.sha256(key.publicKey),
      labels,
      isEnrolled: false,
      stream: this.#streamName,
      ordinal: 0,
      generation: "",
      nextSequence: 0,
      firstRecord: 0,
      floor: -1,
      revision: 0,
      suspended: "",
      outbox: [],
      notice: { state: "open", acceptUntil: 0 },
      certain: OLDER_THAN_THIS,
    };
    const event = {
      study: toHex(study),
      stream: `${this.#name}/${this.#streamName}`,
      source: this.#source,
      plan: toHex(plan.digest),
      epsilon: showRational(plan.fields.release.epsilon),
      count: 1,
      copy: 0,
    };
    await store.update([stateKey(this.#name), LEDGER], (values) => {
      const present = values[stateKey(this.#name)] as DeviceState | undefined;
      const isFree = !present?.isEnrolled && (!present || (before && equalBytes(present.device, before.device)));
      require(!!isFree, "config", "device", "is being enrolled by another tab", "close the other tab, and try again");
      const ledger = (values[LEDGER] ?? []) as LedgerEntry[];
      requireAffordable(ledger, event, this.#limits, plan.fields.most_sketches_per_device);
      return { [stateKey(this.#name)]: state };
    });
    return state;
  }

  async #erase(): Promise<void> {
    this.#loaded = undefined;
    this.#added.length = this.#pending.length = 0;
    await this.#openStore().update([stateKey(this.#name)], (values) => {
      const state = values[stateKey(this.#name)] as DeviceState | undefined;
      const messages = state?.outbox.map(({ id }) => messageKey(this.#name, toHex(id))) ?? [];
      const gone = [stateKey(this.#name), windowsKey(this.#name), ...messages];
      return Object.fromEntries(gone.map((key) => [key, undefined]));
    });
  }

  #openStore(): Store {
    return (this.#store ??= openDefaultStore());
  }

  #openRandom(): SystemSource {
    return (this.#random ??= new SystemSource(this.#platform.fillRandom));
  }

  async #readState(): Promise<DeviceState | undefined> {
    let state: DeviceState | undefined;
    await this.#openStore().update([stateKey(this.#name)], (values) => {
      state = values[stateKey(this.#name)] as DeviceState | undefined;
      return {};
    });
    return state;
  }

  async #requireState(): Promise<DeviceState> {
    const state = await this.#readState();
    const fix = "call enrol(code) with a code of the study's operator";
    require(state?.isEnrolled ?? false, "config", "device", "has not enrolled", fix);
    return state!;
  }

  async #readPlan(bytes: Bytes): Promise<Plan> {
    const { sha256, verify } = this.#platform;
    const plan = await readPlan(bytes, sha256);
    await requireEndorsed(plan, verify, sha256);
    await requirePlanAllowed(this.#policy, plan, sha256);
    return plan;
  }

  #connect(address: string, device: Uint8Array, state: DeviceState | undefined): Server {
    const { sha256, sign } = this.#platform;
    const signer = (data: Bytes): Promise<Bytes> => sign(state!.key, data);
    return new Server(address, device, signer, sha256, this.#fetch, () => this.#clock() / 1000);
  }

  async #load(): Promise<Loaded> {
    const state = await this.#requireState();
    if (this.#loaded && equalBytes(this.#loaded.device, state.device)) return this.#loaded;
    requireServerAllowed(this.#policy, state.server);
    const plan = await this.#readPlan(state.plan);
    const store = this.#openStore();
    const [name, source, device] = [this.#name, this.#source, state.device];
    const random = this.#openRandom();
    const stream = new Stream({ name, source, store, platform: this.#platform, random, limits: this.#limits }, plan, device);
    const outbox = new Outbox(name, store, device, stream);
    this.#loaded = { plan, device, stream, outbox, server: this.#connect(state.server, device, state) };
    return this.#loaded;
  }

  #requireLoaded(): Promise<Loaded> {
    return this.#load();
  }

  #noteTime(serverTime: number): void {
    this.#answered = { server: serverTime, device: this.#clock(), timer: performance.now() };
  }

  /** Return the clocks now. */
  async #readClocks(): Promise<Clocks> {
    const device = this.#clock() / 1000;
    const certain = (await this.#readState())?.certain ?? OLDER_THAN_THIS;
    if (!this.#answered) return { device, server: undefined, certain };
    const passed = performance.now() - this.#answered.timer;
    const drift = Math.abs(this.#clock() - this.#answered.device - passed) / 1000;
    // The timer may stand still while the machine sleeps, and the clock may have been set.
    const isKnown = passed < BELIEVED_MS && drift <= LEEWAY_S;
    return { device, server: isKnown ? this.#answered.server + passed / 1000 : undefined, certain };
  }

  /** Run a function after those before it, and while no other tab runs one of that name. */
  #exclusively<T>(what: string, run: () => Promise<T>): Promise<T> {
    const done = this.#turn.then(() => this.#openStore().exclusively(`${this.#name}/${what}`, run));
    this.#turn = done.catch(() => undefined);
    return done;
  }
}

function describeDifference({ device, server = device }: Clocks): string {
  const seconds = Math.round(Math.abs(device - server));
  const order = device > server ? "ahead of" : "behind";
  return (
    `clock: this device is ${seconds} s ${order} the server, so no window is closed by the clock. ` +
    "Set this device's clock, or tell the study's operator if it is right"
  );
}
