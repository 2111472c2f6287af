/** The device's side of the REST interface; what a server sends is read without trust. */
import { type Bytes, toHex } from "../bytes.ts";
import { SketchError } from "../errors.ts";
import type { Hash } from "../plan/plan.ts";
import { type Sign, sketchPath } from "../wire/message.ts";
import { type Action, findAction } from "../wire/problems.ts";
import { type Request, signRequest } from "../wire/requests.ts";
import { LEEWAY_S } from "./windows.ts";

const TIMEOUT_MS = 60_000;
const LONGEST_HOLD_S = 86_400;
const CHECK = "check the address and the network; nothing is lost, and the same bytes are sent again";
const ASK = "ask the study's operator";

/** Sends a request, as `fetch` does. */
export type Fetch = (url: string, init: RequestInit) => Promise<FetchAnswer>;

/** What is read of a `Response`. */
export interface FetchAnswer {
  readonly status: number;
  readonly headers: Pick<Headers, "get">;
  arrayBuffer(): Promise<ArrayBuffer>;
}

/** What the server knows of this device. */
export interface DeviceAnswer {
  ordinal: number;
  /** Seconds since 1970-01-01 UTC. */
  serverTime: number;
  /** Which life of its database answers. */
  generation: string;
  streams: Map<string, StreamAnswer>;
}

export interface StreamAnswer {
  last: number;
  missing: (readonly [first: number, last: number])[];
  /** Whether the server lacks more than it names. */
  isPartial: boolean;
}

/** The result of one upload; no action if the server has stored the sketch. */
export interface UploadOutcome {
  action?: Action;
  problem: string;
  detail: string;
  holdS: number;
  isAnswered: boolean;
}

/** An answer, whatever it says. */
export interface Answer {
  status: number;
  headers: FetchAnswer["headers"];
  body: Bytes;
}

/** Whether an error is the refusal with a slug. */
export function isRefusal(error: unknown, slug: string): boolean {
  return error instanceof SketchError && error.code === slug;
}

type Json = { [name: string]: unknown };

/** Whom a client talks to, for which device, and by what. */
export interface ServerSettings {
  /** Without a slash at its end. */
  address: string;
  device: Uint8Array;
  sign: Sign;
  sha256: Hash;
  fetch: Fetch;
  /** Seconds since 1970-01-01 UTC. */
  clock: () => number;
}

/** A client of one aggregator, for one device. */
export class Server {
  readonly #settings: ServerSettings;
  #skewS = 0;

  constructor(settings: ServerSettings) {
    this.#settings = settings;
  }

  /** The device's identity in hexadecimal. */
  get id(): string {
    return toHex(this.#settings.device);
  }

  /** Return the path of a study. */
  studyPath(study: Uint8Array): string {
    return `/v1/studies/${toHex(study)}`;
  }

  /**
   * Fetch what the server knows of this device.
   *
   * A signature that is refused for its time is made once more with the server's: a device whose
   * clock is wrong must still learn whether the server is ahead.
   */
  async fetchDevice(): Promise<DeviceAnswer> {
    this.#skewS = 0;
    const request = { method: "GET", path: "/v1/devices/me", headers: {} };
    let answer = await this.#sendSigned(request);
    const date = Date.parse(answer.headers.get("Date") ?? "") / 1000;
    if (!isSuccess(answer) && Math.abs(date - this.#settings.clock()) >= LEEWAY_S - 1) {
      this.#skewS = date - this.#settings.clock();
      answer = await this.#sendSigned(request);
    }
    return this.#readDevice(this.read(this.#requireSuccess(answer)));
  }

  /** Fetch the state of a study, and until when it takes what was released before it closed. */
  async fetchNotice(study: Uint8Array): Promise<{ state: string; acceptUntil: number }> {
    const { state, accept_until } = this.read(await this.fetchSigned(this.studyPath(study)));
    if (!["open", "closed", "withdrawn"].includes(state as string)) throw this.unanswered("its answer has no state");
    return { state: state as string, acceptUntil: Date.parse(String(accept_until)) || 0 };
  }

  /** Send one sketch; it never throws for what a server or network may do. */
  async putSketch(study: Uint8Array, id: Uint8Array, message: Bytes): Promise<UploadOutcome> {
    const headers = { "Content-Type": "application/vnd.sfumato.sketch+cbor" };
    let isAnswered = false;
    try {
      const answer = await this.#send({ method: "PUT", path: sketchPath(study, id), headers, body: message });
      isAnswered = true;
      // A captive portal answers 200 too.
      const { sketch_id } = this.read(this.#requireSuccess(answer));
      if (sketch_id !== toHex(id)) throw this.unanswered("its answer names another sketch");
      return { problem: "", detail: "", holdS: 0, isAnswered };
    } catch (error) {
      if (!(error instanceof SketchError)) throw error;
      const { code, holdS, message: detail } = error;
      return { action: findAction(code), problem: code, detail, holdS, isAnswered };
    }
  }

  #readDevice(document: Json): DeviceAnswer {
    const isCount = (value: unknown): value is number => Number.isSafeInteger(value) && (value as number) >= 0;
    const { device_id, ordinal, server_time: serverTime, generation, streams } = document;
    const found = new Map<string, StreamAnswer>();
    let isRead =
      device_id === this.id && isCount(ordinal) && Number.isFinite(serverTime) && Array.isArray(streams);
    for (const { stream, last_sequence: last, missing, n_missing: n } of isRead ? (streams as Json[]) : []) {
      const ranges = ((missing ?? []) as Json[]).map(({ first, last: end }) => [first, end] as [number, number]);
      let next = 0;
      for (const [first, end] of ranges) {
        isRead &&= isCount(first) && isCount(end) && next <= first && first <= end && end < (last as number);
        next = end + 1;
      }
      const nNamed = ranges.reduce((sum, [first, end]) => sum + end + 1 - first, 0);
      isRead &&= isCount(last) && isCount(n) && n >= nNamed;
      found.set(String(stream), { last: last as number, missing: ranges, isPartial: (n as number) > nNamed });
    }
    if (!isRead) throw this.unanswered("its answer is not about this device");
    return {
      ordinal: ordinal as number,
      serverTime: serverTime as number,
      generation: String(generation),
      streams: found,
    };
  }

  /** Send a request that needs no signature; a refusal is thrown. */
  async request(request: Request): Promise<Answer> {
    return this.#requireSuccess(await this.#send(request));
  }

  /** Fetch what only this device may read; a refusal is thrown. */
  async fetchSigned(path: string): Promise<Answer> {
    return this.#requireSuccess(await this.#sendSigned({ method: "GET", path, headers: {} }));
  }

  async #sendSigned(request: Request): Promise<Answer> {
    const { device, sign, sha256, clock } = this.#settings;
    return this.#send(await signRequest(request, device, Math.floor(clock() + this.#skewS), sign, sha256));
  }

  async #send({ method, path, headers, body }: Request): Promise<Answer> {
    const { address, fetch } = this.#settings;
    const stop = new AbortController();
    const timer = setTimeout(() => stop.abort(), TIMEOUT_MS);
    try {
      const response = await fetch(address + path, {
        method,
        headers,
        ...(body && { body }),
        // Nothing but the signature tells who asks, and nobody else may answer.
        credentials: "omit",
        redirect: "error",
        signal: stop.signal,
      });
      return { status: response.status, headers: response.headers, body: new Uint8Array(await response.arrayBuffer()) };
    } catch (error) {
      throw this.unanswered(error instanceof Error ? `${error.name}: ${error.message}` : "no reason given");
    } finally {
      clearTimeout(timer);
    }
  }

  #requireSuccess(answer: Answer): Answer {
    if (isSuccess(answer)) return answer;
    const isProblem = answer.headers.get("Content-Type")?.startsWith("application/problem+json");
    if (!isProblem) throw this.unanswered(`status ${answer.status}`);
    const problem = this.read(answer);
    const [type, field, rule, fix] = ["type", "field", "rule", "fix"].map((name) => String(problem[name] ?? ""));
    const slug = type!.replace("/problems/", "");
    const kind = findAction(slug) === "retry" ? "transport" : "refused";
    const remedy = fix || (kind === "transport" ? CHECK : ASK);
    const error = new SketchError(kind, field || "server", rule || slug, remedy, slug);
    error.holdS = readRetryAfter(answer.headers.get("Retry-After") ?? "", this.#settings.clock());
    throw error;
  }

  /** Read the JSON of an answer. */
  read({ body }: Answer): Json {
    try {
      const document: unknown = JSON.parse(new TextDecoder().decode(body));
      if (typeof document === "object" && document !== null) return document as Json;
    } catch {
      // It is no JSON.
    }
    throw this.unanswered("its answer cannot be read");
  }

  /** The error that what answers is no aggregator, or nothing does. */
  unanswered(why: string): SketchError {
    return new SketchError("transport", "server", `${this.#settings.address} did not answer (${why})`, CHECK, "no-answer");
  }
}

function isSuccess({ status }: Answer): boolean {
  return status >= 200 && status < 300;
}

/** Read seconds or a date; no longer than a day. */
function readRetryAfter(text: string, now: number): number {
  const seconds = /^\d+$/.test(text) ? Number(text) : Date.parse(text) / 1000 - now;
  return Math.min(Math.max(seconds || 0, 0), LONGEST_HOLD_S);
}
