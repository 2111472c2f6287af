/** A sketch message: a signed header (COSE_Sign1, RFC 9052) that carries the digest of a payload. */
import { type Bytes, toHex, writeInteger } from "../bytes.ts";
import { SketchError } from "../errors.ts";
import { type Hash } from "../plan/plan.ts";
import { encode, SIGN1, Tagged, type Value } from "./cbor.ts";

const HEADER_TYPE = "application/vnd.sfumato.sketch-header+cbor";

/** Returns the device's Ed25519 signature of given bytes. */
export type Sign = (data: Bytes) => Promise<Bytes>;

/** What a device signs about one sketch. */
export interface SketchHeader {
  kind: string;
  study: Uint8Array;
  planDigest: Uint8Array;
  device: Uint8Array;
  stream: string;
  sequence: number;
  /** First and last slot; `null` for windows by count. */
  slots: readonly [first: number, last: number] | null;
  /** `null` where the number of records is secret. */
  nRecords: number | null;
  /** 16 random bytes. */
  reportId: Uint8Array;
  /** The sealed seed of a masked sum. */
  sealed?: Uint8Array | undefined;
  payloadLength: number;
  payloadDigest: Uint8Array;
  /** Where a sketch carries one block of several. */
  block?: number | undefined;
}

/** Encode the signed part of a message; without its seal, what the seal is bound to. */
export function encodeHeader(header: SketchHeader): Bytes {
  const { kind, study, planDigest, device, stream, sequence, slots, nRecords, reportId, sealed } = header;
  const { payloadLength, payloadDigest, block } = header;
  const values: Value[] = [
    ...[1, kind, study, planDigest, device, stream, sequence, slots, nRecords, nRecords !== null],
    ...[reportId, sealed ? [sealed] : [], payloadLength, payloadDigest],
    ...(block === undefined ? [] : [block]),
  ];
  return encode(new Map(values.map((value, i) => [i + 1, value])));
}

/** Return the protected header, and what is signed (the Sig_structure). */
export function encodeSignatureInput(device: Uint8Array, header: Bytes): [protectedHeader: Bytes, input: Bytes] {
  const protectedHeader = encode(new Map<number, Value>([[1, -8], [3, HEADER_TYPE], [4, device]]));
  return [protectedHeader, encode(["Signature1", protectedHeader, new Uint8Array(0), header])];
}

/** Sign a header and encode the message `[COSE_Sign1, payload]`. */
export async function encodeMessage(header: SketchHeader, payload: Bytes, sign: Sign): Promise<Bytes> {
  const encoded = encodeHeader(header);
  const [protectedHeader, input] = encodeSignatureInput(header.device, encoded);
  return encode([new Tagged(SIGN1, [protectedHeader, {}, encoded, await sign(input)]), payload]);
}

/** Return the identity of a sketch. */
export function computeSketchId(
  study: Uint8Array,
  device: Uint8Array,
  stream: string,
  sequence: number,
  sha256: Hash,
): Promise<Bytes> {
  return sha256(encode([study, device, stream, sequence]));
}

/** Return the path that a sketch is sent to. */
export function sketchPath(study: Uint8Array, sketch: Uint8Array): string {
  return `/v1/studies/${toHex(study)}/sketches/${toHex(sketch)}`;
}

/** Encode integers of a fixed width, two's complement, little-endian. */
export function encodePayload(values: readonly bigint[], width: number): Bytes {
  const limit = 1n << BigInt(8 * width - 1);
  const payload = new Uint8Array(values.length * width);
  values.forEach((value, i) => {
    if (value < -limit || value >= limit) {
      const fix = "report this; nothing was released";
      throw new SketchError("plan", "payload_width", `has no room for a coordinate in ${width} bytes`, fix);
    }
    writeInteger(value, width, payload, i * width);
  });
  return payload;
}
