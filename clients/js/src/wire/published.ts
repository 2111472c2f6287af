/** A published result: a decode that the server signs, so that devices can apply it by themselves. */
import { type Bytes, equalBytes } from "../bytes.ts";
import { SketchError } from "../errors.ts";
import { encode, SIGN1, Tagged, type Value } from "./cbor.ts";
import { decode } from "./decoding.ts";

const TYPE = "application/vnd.sfumato.result+cbor";
const ENDORSEMENT = "sfumato/v1/result-key";
const MOST_NAME = 200;
const MOST_SENTENCE = 2000;
/** Controls, ends of lines, marks of direction, and what no font shows. */
const UNSEEN =
  /[\0-\x1f\x7f-\x9f\u2028\u2029\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\xad\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200d\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\ufffe\uffff\u{1bca0}-\u{1bca3}\u{1d173}-\u{1d17a}\u{e0000}-\u{e0fff}]/u;
const VERDICTS = ["sound", "rough", "doubtful", "do not use"];

/** The signed part of a published result. */
export interface Published {
  study: Bytes;
  planDigest: Bytes;
  /** Larger than that of every earlier result of the study. */
  sequence: number;
  /** When it was published, seconds since 1970-01-01 UTC. */
  created: number;
  name: string;
  /** How far to trust it; `null` where the decoder does not say. */
  verdict: { word: string; sentence: string } | null;
  /** The plan's axes. */
  dimensions: { name: string; unit: string }[];
  /** In data units: a row for each cluster, the heaviest first, and a number for each axis. */
  centroids: number[][];
  /** Each cluster's share of the records. */
  weights: number[];
  /** Standard deviations of each cluster's records, on the scale of each axis. */
  spreads: number[][] | null;
}

/** A document whose signature is not yet verified. */
export interface SignedResult {
  result: Published;
  /** SHA-256 of the key that is said to have signed it. */
  keyId: Bytes;
  /** What the signature is of. */
  input: Bytes;
  signature: Bytes;
}

function need(holds: boolean, field: string, rule: string): asserts holds {
  if (!holds) throw new SketchError("malformed", field, rule, "see shared/wire/result.cddl");
}

/** Decode a document; nothing in it is to be trusted before its signature is verified. */
export function decodePublished(bytes: Uint8Array): SignedResult {
  const envelope = decode(bytes, "result");
  const parts = envelope instanceof Tagged && envelope.tag === SIGN1 ? envelope.value : [];
  const [head, unprotected, content, signature] = parts as readonly Value[];
  const isEnvelope =
    isBytes(head) && isBytes(content) && isBytes(signature, 64) && isMap(unprotected) && !Object.keys(unprotected).length;
  need(isEnvelope, "result", "must be a tagged COSE_Sign1");
  const stated = decode(head, "protected");
  const keyId = isMap(stated) ? stated[4] : undefined;
  need(isBytes(keyId, 32), "protected", "must name the key");
  const named = encode(new Map<number, Value>([[1, -8], [3, TYPE], [4, keyId]]));
  need(equalBytes(named, head), "protected", "must name EdDSA, the document's type and the key");
  const input = encode(["Signature1", head, new Uint8Array(0), content]);
  return { result: readResult(decode(content, "content")), keyId, input, signature };
}

/** Return what a result key signs to name its successor. */
export function encodeEndorsement(keyId: Bytes, successor: Bytes): Bytes {
  return encode([ENDORSEMENT, keyId, successor]);
}

function readResult(document: Value): Published {
  need(isMap(document), "content", "must be a map");
  if (document[1] !== 1) throw new SketchError("version", "result", "this software knows version 1", "update it");
  need(Object.keys(document).length === 12, "content", "must have the keys 1 to 12");
  const [study, planDigest, decodeId, sequence, created, name, verdict, axes, centroids, weights, spreads] = Array.from(
    { length: 11 },
    (_, i) => document[i + 2],
  );
  need(isBytes(study, 32), "study", "must be 32 bytes");
  need(isBytes(planDigest, 32), "plan_digest", "must be 32 bytes");
  need(isBytes(decodeId, 32), "decode", "must be 32 bytes");
  need(isCount(sequence), "sequence", "must be an integer, 0 or more");
  need(isCount(created), "created", "must be an integer, 0 or more");
  need(isText(name, MOST_NAME), "name", "must be short text of visible characters");
  need(Array.isArray(axes) && axes.length > 0, "dimensions", "must be a list");
  const dimensions = axes.map((axis) => {
    const [axisName, unit] = Array.isArray(axis) && axis.length === 2 ? axis : [];
    need(isText(axisName, MOST_NAME) && isText(unit, MOST_NAME), "dimensions", "must be pairs of a name and a unit");
    return { name: axisName, unit };
  });
  const shares = readRow(weights, "weights");
  const readRows = (value: Value | undefined, field: string): number[][] => {
    const rows = Array.isArray(value) && value.length === shares.length ? value : [];
    need(rows.length > 0, field, "must have one row for each weight");
    return rows.map((row) => readRow(row, field, dimensions.length));
  };
  const deviations = spreads === null ? null : readRows(spreads, "spreads");
  need(deviations?.flat().every((spread) => spread >= 0) ?? true, "spreads", "must be 0 or more");
  return {
    study,
    planDigest,
    sequence,
    created,
    name,
    verdict: readVerdict(verdict),
    dimensions,
    centroids: readRows(centroids, "centroids"),
    weights: shares,
    spreads: deviations,
  };
}

function readVerdict(value: Value | undefined): Published["verdict"] {
  if (value === null) return null;
  const [word, sentence] = Array.isArray(value) && value.length === 2 ? value : [];
  const isVerdict = VERDICTS.includes(word as string) && isText(sentence, MOST_SENTENCE);
  need(isVerdict, "verdict", `must be null, or one of ${VERDICTS.join(", ")} and a sentence`);
  return { word: word as string, sentence };
}

function readRow(value: Value | undefined, field: string, length?: number): number[] {
  need(Array.isArray(value) && value.length > 0, field, "must be a list of numbers");
  need(length === undefined || value.length === length, field, "must have one number for each dimension");
  need(value.every(Number.isFinite), field, "must be finite numbers");
  return value as number[];
}

function isMap(value: Value | undefined): value is { readonly [name: string]: Value } {
  return typeof value === "object" && value !== null && Object.getPrototypeOf(value) === null;
}

function isBytes(value: Value | undefined, length?: number): value is Bytes {
  return value instanceof Uint8Array && (length === undefined || value.length === length);
}

function isCount(value: Value | undefined): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0;
}

function isText(value: Value | undefined, most: number): value is string {
  return typeof value === "string" && Array.from(value).length <= most && !UNSEEN.test(value);
}
