/** Pull the study's published result, trust it by the server's pinned key, and apply it here. */
import { type Bytes, equalBytes, toHex } from "../bytes.ts";
import { fromHex } from "../hexadecimal.ts";
import { encode } from "../core/encoder.ts";
import { require, SketchError } from "../errors.ts";
import { makeIntervals, type Plan, type Record } from "../plan/plan.ts";
import { decodePublished, encodeEndorsement, type Published, type SignedResult } from "../wire/published.ts";
import type { Platform } from "./platform.ts";
import { isRefusal, type Server } from "./server.ts";
import { type DeviceState, resultKey, stateKey, type Store, type Values } from "./store.ts";

/** One in a thousand draws of a normal variable lies above so many standard deviations. */
const FAR_DEVIATIONS = 3.09;

/** The cluster of a record. */
export interface Cluster {
  /** From 1, the heaviest first; 0 for a record that cannot be used. */
  cluster: number;
  /** From the centroid, in units of the plan's scales; NaN for a record that cannot be used. */
  distance: number;
  /** Whether 999 in 1000 records of a Gaussian cluster would be nearer; `undefined` without spreads. */
  isFar: boolean | undefined;
  /** Whether a value lies out of the plan's bounds, where it was clipped to. */
  isOutside: boolean;
}

/** What is pinned, and what was pulled last. */
export interface StoredResult {
  publicKey: Bytes;
  document?: Bytes;
  sequence: number;
}

/** What a pull works with. */
export interface PullSettings {
  name: string;
  store: Store;
  platform: Platform;
}

/** A published result whose signature, study and plan were checked. */
export class Result {
  readonly published: Published;
  readonly #plan: Plan;
  readonly #centroids: number[][];

  constructor(plan: Plan, published: Published) {
    this.published = published;
    this.#plan = plan;
    // Centroids come in data units, and distances are measured on the plan's axes.
    this.#centroids = published.centroids.map((centroid) => placeAnswer(plan, centroid));
  }

  /**
   * Find the nearest centroid of a record, on the plan's axes in units of the plan's scales.
   *
   * It is found here: nothing is sent, and no budget is spent.
   */
  find(record: Record): Cluster {
    const { dimensions } = this.#plan.fields;
    const values = this.#plan.readRecord(record);
    const raw: number[] = [];
    dimensions.forEach((dimension, i) => encode(dimension, values[i]!, raw));
    const intervals = makeIntervals(this.#plan.fields);
    const isOutside = dimensions.some(({ lower, upper }, i) => values[i]! < lower! || values[i]! > upper!);
    if (!raw.every((x) => !Number.isNaN(x))) return { cluster: 0, distance: NaN, isFar: undefined, isOutside };
    const point = raw.map((x, i) => {
      const { centre, halfWidth } = intervals[i]!;
      return Math.min(Math.max(x, centre - halfWidth), centre + halfWidth);
    });
    const scales = dimensions.flatMap(({ levels, scale }) => levels?.map(() => 1) ?? [scale!]);
    const distances = this.#centroids.map((centroid) => measure(point, centroid, scales));
    const nearest = distances.indexOf(Math.min(...distances));
    const spreads = this.published.spreads?.[nearest]!;
    const isFar =
      spreads &&
      measure(point, this.#centroids[nearest]!, spreads.map((s, i) => Math.max(s, intervals[i]!.halfWidth / 32767))) ** 2 >
        findFarLimit(point.length);
    return { cluster: nearest + 1, distance: distances[nearest]!, isFar, isOutside };
  }
}

/** Pull the result, check it and store it; `undefined` if nothing was published. */
export async function pull(settings: PullSettings, server: Server, study: Bytes, plan: Plan): Promise<Result | undefined> {
  const { platform, store } = settings;
  const own = resultKey(settings.name);
  let document: Bytes;
  try {
    document = (await server.fetchSigned(`${server.studyPath(study)}/published`)).body;
  } catch (error) {
    if (isRefusal(error, "not-found")) return undefined;
    throw error;
  }
  const signed = decodePublished(document);
  const stored = await read(store, own);
  const pinned = stored?.publicKey ?? (await fetchKeys(server)).at(-1)?.publicKey;
  if (!pinned) throw server.unanswered("it has no key that signs results");
  const publicKey = await follow(pinned, signed, server, platform);
  await requireGenuine(signed, publicKey, study, plan, platform);
  await store.update([own, stateKey(settings.name)], (values) => {
    // What was forgotten while the server answered stays forgotten: another study is next, perhaps.
    require(isOf(settings, server, values), "config", "device", "has left the study meanwhile", "enrol it again");
    const before = values[own] as StoredResult | undefined;
    const isKeptKey = !before || [pinned, publicKey].some((key) => equalBytes(key, before.publicKey));
    require(isKeptKey, "refused", "signature", "is of a key that another tab has replaced meanwhile", "pull the result again");
    const isOld = before?.document && !equalBytes(before.document, document) && signed.result.sequence <= before.sequence;
    const rule = `has number ${signed.result.sequence}, and this device has ${before?.sequence} already`;
    require(!isOld, "ledger", "published result", rule, "ask the study's operator to publish again");
    return { [own]: { publicKey, document, sequence: signed.result.sequence } satisfies StoredResult };
  });
  return new Result(plan, signed.result);
}

/** Return the result that was pulled last, checked again; it needs no network. */
export async function load(settings: PullSettings, study: Bytes, plan: Plan): Promise<Result | undefined> {
  const stored = await read(settings.store, resultKey(settings.name));
  if (!stored?.document) return undefined;
  const signed = decodePublished(stored.document);
  await requireGenuine(signed, stored.publicKey, study, plan, settings.platform);
  return new Result(plan, signed.result);
}

/** Trust the server's present key from now on, unless one is trusted already. */
export async function pin(settings: PullSettings, server: Server): Promise<void> {
  const own = resultKey(settings.name);
  const publicKey = (await fetchKeys(server)).at(-1)?.publicKey;
  if (!publicKey) return;
  await settings.store.update([own, stateKey(settings.name)], (values) =>
    values[own] || !isOf(settings, server, values) ? {} : { [own]: { publicKey, sequence: -1 } },
  );
}

/** Whether the stored device is the one that asks the server. */
function isOf({ name }: PullSettings, server: Server, values: Values): boolean {
  const state = values[stateKey(name)] as DeviceState | undefined;
  return !!state && toHex(state.device) === server.id;
}

async function read(store: Store, key: string): Promise<StoredResult | undefined> {
  let stored: StoredResult | undefined;
  await store.update([key], (values) => {
    stored = values[key] as StoredResult | undefined;
    return {};
  });
  return stored;
}

interface Key {
  publicKey: Bytes;
  endorsement: Bytes | undefined;
}

async function fetchKeys(server: Server): Promise<Key[]> {
  const { keys } = server.read(await server.request({ method: "GET", path: "/v1/identity", headers: {} }));
  if (!Array.isArray(keys)) throw server.unanswered("its answer has no keys");
  return keys.map((key: { [name: string]: unknown } | null) => {
    const publicKey = fromHex(String(key?.public_key));
    if (publicKey?.length !== 32) throw server.unanswered("its answer has no keys");
    return { publicKey, endorsement: fromHex(String(key?.endorsement)) };
  });
}

/** Return the key that signed, if a chain of endorsements leads to it from the pinned one. */
async function follow(pinned: Bytes, { keyId }: SignedResult, server: Server, platform: Platform): Promise<Bytes> {
  let present = pinned;
  let presentId = await platform.sha256(present);
  if (equalBytes(presentId, keyId)) return present;
  const keys = await fetchKeys(server);
  const place = keys.findIndex(({ publicKey }) => equalBytes(publicKey, pinned));
  for (const { publicKey, endorsement } of place < 0 ? [] : keys.slice(place + 1)) {
    const input = encodeEndorsement(presentId, publicKey);
    if (!endorsement || !(await platform.verify(present, input, endorsement))) break;
    [present, presentId] = [publicKey, await platform.sha256(publicKey)];
    if (equalBytes(presentId, keyId)) return present;
  }
  const rule =
    `is that of key ${toHex(keyId).slice(0, 16)}, and this device trusts ` +
    `${toHex(await platform.sha256(pinned)).slice(0, 16)}, which does not name it as its successor`;
  throw new SketchError("refused", "signature", rule, "tell the study's operator; the stored result goes on being used");
}

async function requireGenuine(
  { result, input, signature }: SignedResult,
  publicKey: Bytes,
  study: Bytes,
  plan: Plan,
  platform: Platform,
): Promise<void> {
  const isSigned = await platform.verify(publicKey, input, signature);
  const fix = "pull it again; if that does not help, tell the study's operator";
  require(isSigned, "refused", "signature", "of the published result does not verify with the server's key", fix);
  const isOurs = equalBytes(result.study, study) && equalBytes(result.planDigest, plan.digest);
  require(isOurs, "plan", "published result", "is of another study or plan than this device's", fix);
  const axes = plan.fields.dimensions.flatMap(({ name, unit, levels }) =>
    (levels?.map((level) => `${name}=${level}`) ?? [name]).map((axis) => ({ name: axis, unit })),
  );
  const stated = result.dimensions;
  const isAxis = ({ name, unit }: (typeof axes)[number], i: number): boolean => name === stated[i]!.name && unit === stated[i]!.unit;
  const areAxes = axes.length === stated.length && axes.every(isAxis);
  require(areAxes, "plan", "published result", "has other dimensions than the plan of this device", fix);
}

/** Return a centroid on the plan's axes. */
function placeAnswer({ fields }: Plan, centroid: readonly number[]): number[] {
  let at = 0;
  return fields.dimensions.flatMap((dimension) => {
    const { levels } = dimension;
    const values = centroid.slice(at, (at += levels?.length ?? 1));
    const placed: number[] = [];
    // Shares of levels are on their axes already.
    if (levels) placed.push(...values);
    else encode(dimension, values[0]!, placed);
    return placed;
  });
}

/** Return the Euclidean distance of two points, each axis in units of its own. */
function measure(point: readonly number[], centre: readonly number[], units: readonly number[]): number {
  return Math.sqrt(point.reduce((sum, x, i) => sum + ((x - centre[i]!) / units[i]!) ** 2, 0));
}

/** Return the 99.9 % point of a chi-squared variable, by Wilson and Hilferty's cube root. */
export function findFarLimit(nAxes: number): number {
  const part = 2 / (9 * nAxes);
  return nAxes * (1 - part + FAR_DEVIATIONS * Math.sqrt(part)) ** 3;
}
