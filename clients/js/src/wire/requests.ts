/** Signed requests: a profile of HTTP Message Signatures (RFC 9421) with Ed25519; and enrolment. */
import { type Bytes, toBase64, toHex, utf8 } from "../bytes.ts";
import { type Hash } from "../plan/plan.ts";
import { encode } from "./cbor.ts";
import { type Sign } from "./message.ts";

/** A request as the device sends it. */
export interface Request {
  method: string;
  /** Without address and query. */
  path: string;
  headers: { [name: string]: string };
  body?: Bytes | undefined;
}

/**
 * Sign a request.
 *
 * @param created Whole seconds since 1970-01-01 UTC.
 */
export async function signRequest(
  { method, path, headers, body }: Request,
  device: Uint8Array,
  created: number,
  sign: Sign,
  sha256: Hash,
): Promise<Request> {
  const digest = body && `sha-256=:${toBase64(await sha256(body))}:`;
  const covered = `("@method" "@path"${digest ? ' "content-digest"' : ""})`;
  const parameters = `${covered};created=${created};keyid="${toHex(device)}";alg="ed25519"`;
  const lines = [
    `"@method": ${method}`,
    `"@path": ${path}`,
    ...(digest ? [`"content-digest": ${digest}`] : []),
    `"@signature-params": ${parameters}`,
  ];
  const signed = {
    ...headers,
    "Signature-Input": `sfumato=${parameters}`,
    Signature: `sfumato=:${toBase64(await sign(utf8(lines.join("\n"))))}:`,
    ...(digest && { "Content-Digest": digest }),
  };
  return { method, path, headers: signed, body };
}

/** Return the bytes that a device signs to enrol; they bind key, study, labels and token. */
export function encodeProofInput(
  token: string,
  study: Uint8Array,
  publicKey: Uint8Array,
  labels: { [name: string]: string },
): Bytes {
  return encode(["sfumato/v1/enrolment", token, study, publicKey, labels]);
}

/** Make the request that enrols a device. */
export async function makeEnrolment(
  token: string,
  study: Uint8Array,
  publicKey: Uint8Array,
  labels: { [name: string]: string },
  sign: Sign,
): Promise<Request> {
  const proof = await sign(encodeProofInput(token, study, publicKey, labels));
  const document = {
    token,
    study_id: toHex(study),
    public_key: toHex(publicKey),
    labels,
    proof: toHex(proof),
  };
  return {
    method: "POST",
    path: "/v1/enrolments",
    headers: { "Content-Type": "application/json" },
    body: utf8(JSON.stringify(document)),
  };
}
