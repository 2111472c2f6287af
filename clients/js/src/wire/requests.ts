/** Signed requests: a profile of HTTP Message Signatures (RFC 9421) with Ed25519. */
import { type Bytes, toBase64, toHex, utf8 } from "../bytes.ts";
import type { Hash } from "../plan/plan.ts";
import type { Sign } from "./message.ts";

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
