/** Enrolment code: `SFUMATO:<base32 of CBOR [1, server, study, token] and its CRC-32>`. */
import { type Bytes, equalBytes } from "../bytes.ts";
import { require } from "../errors.ts";
import { decode } from "./decoding.ts";

const PREFIX = "SFUMATO:";
const ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";

/** Server, study and token, which a device needs to enrol; the token is secret. */
export interface EnrolmentCode {
  /** The address, without a slash at its end. */
  server: string;
  study: Bytes;
  token: string;
}

function need(holds: boolean, rule: string): asserts holds {
  require(holds, "malformed", "code", rule, "copy or scan the whole line of `sfumato study token --code` again");
}

/** Decode a code; small letters and white space in it do not matter. */
export function readCode(text: string): EnrolmentCode {
  const line = text.replace(/\s+/g, "").toUpperCase();
  need(line.startsWith(PREFIX) && line.length < 2001, `must begin with ${PREFIX}`);
  const data = fromBase32(line.slice(PREFIX.length));
  const body = data.subarray(0, -4);
  need(data.length > 4 && equalBytes(data.subarray(-4), checksum(body)), "was not copied whole: its checksum is wrong");
  const value = decode(body, "code");
  const [version, server, study, token] = Array.isArray(value) ? value : [];
  const isPlain = (part: unknown): part is string => typeof part === "string" && /^[!-~]+$/.test(part);
  require(version === 1, "version", "code", "must be of version 1", "update this software");
  need(
    isPlain(server) && isPlain(token) && study instanceof Uint8Array && study.length === 32,
    "must hold a server, a study and a token",
  );
  return { server: server.replace(/\/$/, ""), study: study as Bytes, token };
}

/** Decode base32 without padding; nothing if it is anything else, or has bits to spare. */
function fromBase32(text: string): Bytes {
  const bytes: number[] = [];
  let [bits, held] = [0, 0];
  for (const letter of text) {
    const digit = ALPHABET.indexOf(letter);
    if (digit < 0) return new Uint8Array(0);
    held = ((held << 5) | digit) & 0xfff;
    bits += 5;
    if (bits >= 8) bytes.push((held >> (bits -= 8)) & 255);
  }
  const isWhole = bits < 5 && !(held & ((1 << bits) - 1));
  return Uint8Array.from(isWhole ? bytes : []);
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
