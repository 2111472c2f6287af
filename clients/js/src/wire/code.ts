/** Enrolment code: `SFUMATO:<base32 of CBOR [1, server, study, token] and its CRC-32>`. */
import { type Bytes, equalBytes } from "../bytes.ts";
import { SketchError } from "../errors.ts";
import { decode } from "./cbor.ts";

const PREFIX = "SFUMATO:";
const ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
const FIX = "copy or scan the whole line again, or ask the operator for `sfumato study token --code`";

/** Server, study and token, which a device needs to enrol; the token is secret. */
export interface EnrolmentCode {
  /** The address, without a slash at its end. */
  server: string;
  study: Bytes;
  token: string;
}

function refuse(rule: string): SketchError {
  return new SketchError("malformed", "code", rule, FIX);
}

/** Decode a code; small letters and white space in it do not matter. */
export function readCode(text: string): EnrolmentCode {
  const line = text.replace(/\s+/g, "").toUpperCase();
  if (!line.startsWith(PREFIX) || line.length > 2000) throw refuse(`must begin with ${PREFIX}`);
  const data = fromBase32(line.slice(PREFIX.length));
  const body = data?.subarray(0, -4);
  if (!data || !body?.length || !equalBytes(data.subarray(-4), checksum(body))) {
    throw refuse("was not copied as it was printed: its checksum is wrong");
  }
  const value = decode(body, "code");
  const [version, server, study, token] = Array.isArray(value) ? value : [];
  if (typeof version === "number" && version > 1) {
    throw new SketchError("version", "code", `is of version ${version}, and this software knows 1`, "update this software");
  }
  const isPlain = [server, token].every((part) => typeof part === "string" && /^[!-~]+$/.test(part));
  if (version !== 1 || !isPlain || !(study instanceof Uint8Array) || study.length !== 32) {
    throw refuse("does not hold a server, a study and a token");
  }
  return { server: (server as string).replace(/\/$/, ""), study: study as Bytes, token: token as string };
}

/** Decode base32 without padding; `undefined` if it is anything else, or has bits to spare. */
function fromBase32(text: string): Bytes | undefined {
  const bytes: number[] = [];
  let [bits, held] = [0, 0];
  for (const letter of text) {
    const digit = ALPHABET.indexOf(letter);
    if (digit < 0) return undefined;
    held = ((held << 5) | digit) & 0xfff;
    bits += 5;
    if (bits >= 8) {
      bits -= 8;
      bytes.push((held >> bits) & 255);
    }
  }
  const rest = held & ((1 << bits) - 1);
  return bits < 5 && rest === 0 ? Uint8Array.from(bytes) : undefined;
}

/** CRC-32 of zlib and PNG, little-endian. */
function checksum(body: Uint8Array): Bytes {
  let crc = -1;
  for (const byte of body) {
    crc ^= byte;
    for (let i = 0; i < 8; i++) crc = (crc >>> 1) ^ (crc & 1 ? 0xedb88320 : 0);
  }
  return Uint8Array.of(~crc, ~crc >> 8, ~crc >> 16, ~crc >> 24);
}
