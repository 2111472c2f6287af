/** The request that enrols a device, and its proof of possession. */
import { type Bytes, toHex, utf8 } from "../bytes.ts";
import { encode } from "./cbor.ts";
import type { Sign } from "./message.ts";
import type { Request } from "./requests.ts";

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
