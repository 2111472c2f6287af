/** From records to a signed sketch: the sum of a window, and the one place where noise is drawn. */
import type { Bytes } from "../bytes.ts";
import { findLeastPhase } from "../core/features.ts";
import { FourierStatistic } from "../core/statistics/fourier.ts";
import type { HistogramStatistic } from "../core/statistics/histogram.ts";
import type { Statistic } from "../core/statistics/interface.ts";
import { encodeStreamId, type Hash, type Plan, type VerifiedPlan } from "../plan/plan.ts";
import type { RandomSource } from "../privacy/source.ts";
import { computeSketchId, encodeMessage, encodePayload, type SketchHeader } from "../wire/message.ts";
import type { Platform } from "./platform.ts";
import type { DeviceState, OpenWindow } from "./store.ts";

/** The release of secure sums, which an application allows by `useSecureSum`. */
export interface SecureSum {
  /** Refuse a secure sum whose helper has not accepted the plan, or is not one that the owner trusts. */
  requireAllowed(plan: VerifiedPlan, sha256: Hash): Promise<void>;
  /** Mask a finished sum; return the payload, and the sealed seed of its mask. */
  mask(
    plan: Plan,
    finished: bigint[],
    header: SketchHeader,
    sketchId: Bytes,
    source: RandomSource,
    sha256: Hash,
  ): Promise<[payload: Bytes, sealed: Bytes]>;
}

/** The places of one record, each plus 1; an unsketchable record adds zero. */
class PlacesStatistic implements Statistic {
  readonly nCoordinates: number;
  readonly #find: (record: Float64Array) => ArrayLike<number> | undefined;

  constructor(n: number, find: (record: Float64Array) => ArrayLike<number> | undefined) {
    this.nCoordinates = n;
    this.#find = find;
  }

  add(record: Float64Array, _counter: number, sums: Float64Array): boolean {
    const places = this.#find(record);
    if (places) sums.forEach((_, i) => (sums[i]! += places[i]! + 1));
    return places !== undefined;
  }
}

/** Return what the records of a window are added up by. */
export function buildStatistic(plan: Plan, { device, stream }: DeviceState, block: number): Statistic {
  const statistic = plan.buildStatistic(encodeStreamId(device, stream), block);
  if (!plan.reportsPhases) return statistic;
  const find = (record: Float64Array): ArrayLike<number> | undefined =>
    statistic instanceof FourierStatistic
      ? statistic.findPhases(record)
      : (statistic as HistogramStatistic).findPlaces(record);
  return new PlacesStatistic(plan.nCarried, find);
}

/** Return the sums of a window as numbers. */
export function readSums(bytes: Bytes): Float64Array<ArrayBuffer> {
  return new Float64Array(bytes.slice().buffer);
}

/** Return the noised payload of a window. Every call is a new release. */
function drawPayload(plan: Plan, window: OpenWindow, nStated: number | null, source: RandomSource): Bytes {
  const sums = readSums(window.sums);
  const { payload_width, statistic } = plan.fields;
  if (plan.reportsPhases) {
    const law = plan.makeLaw();
    // Neighbouring phases may share a feature; then the lower one stands for both.
    const settle = statistic.kind === "fourier" ? findLeastPhase : (place: number): number => place;
    const reports = Array.from(sums, (place) => {
      // Settled also where there is none, so that the work is the same.
      const own = settle(Math.max(place - 1, 0));
      return settle(law.report(place ? own : undefined, source));
    });
    return encodePhases(reports);
  }
  const draw = plan.makeNoise(sums.length);
  // Drawn in full before the sums are read, so that timing cannot depend on both.
  const noise = draw(source);
  const noised = plan.finishSum(sums, window.nRecords).map((sum, i) => sum + noise[i]!);
  return encodePayload(plan.clamp(noised, nStated), payload_width);
}

function encodePhases(phases: readonly number[]): Bytes {
  return Uint8Array.from(phases.flatMap((phase) => [phase & 255, phase >> 8]));
}

/**
 * Draw the noise of a window's sum, and sign what is sent of it; nothing is stored or sent here.
 *
 * Every call is a new release: its caller counts it, and keeps its bytes before any is sent.
 *
 * @param slots First and last slot; `null` for windows by count.
 */
export async function makeSketch(
  plan: Plan,
  { study, device, stream, key }: DeviceState,
  window: OpenWindow,
  slots: readonly [number, number] | null,
  sequence: number,
  source: RandomSource,
  { sha256, sign }: Platform,
  secureSum: SecureSum | undefined,
): Promise<[id: Bytes, message: Bytes]> {
  const { kind } = plan.fields.release;
  const id = await computeSketchId(study, device, stream, sequence, sha256);
  const header: SketchHeader = {
    kind,
    study,
    planDigest: plan.digest,
    device,
    stream,
    sequence,
    slots,
    nRecords: plan.hidesPresence ? null : plan.protectsDevices ? 1 : window.nRecords,
    reportId: source.drawBytes(16),
    payloadLength: 0,
    payloadDigest: new Uint8Array(0),
    block: plan.blocks ? window.block : undefined,
  };
  let payload: Bytes;
  if (kind === "sum.v1") {
    const finished = plan.finishSum(readSums(window.sums), window.nRecords);
    [payload, header.sealed] = await secureSum!.mask(plan, finished, header, id, source, sha256);
  } else payload = drawPayload(plan, window, header.nRecords, source);
  header.payloadLength = payload.length;
  header.payloadDigest = await sha256(payload);
  return [id, await encodeMessage(header, payload, (data) => sign(key, data))];
}
