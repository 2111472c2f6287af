/**
 * Seals: the seed of a mask, encrypted to the helper's key of one plan and bound to one header.
 *
 * HPKE of RFC 9180 in base mode with DHKEM(X25519, HKDF-SHA256), HKDF-SHA256 and ChaCha20-Poly1305.
 */
import { type Bytes, concat, readInteger, utf8, writeInteger } from "../bytes.ts";
import { SketchError } from "../errors.ts";
import type { Hash } from "../plan/plan.ts";

/** An X25519 key pair that is used once. */
export interface Ephemeral {
  publicKey: Uint8Array;
  /** Returns the shared secret with a public key, 32 bytes. */
  exchange(publicKey: Uint8Array): Promise<Uint8Array>;
}

const KEM = concat(utf8("KEM"), Uint8Array.of(0, 0x20));
const SUITE = concat(utf8("HPKE"), Uint8Array.of(0, 0x20, 0, 1, 0, 3));
const NOTHING = new Uint8Array(0);

/** HMAC-SHA256 (RFC 2104) with a key of at most 64 bytes. */
async function hmac(key: Uint8Array, data: Uint8Array, sha256: Hash): Promise<Bytes> {
  const pad = (with_: number): Bytes => Uint8Array.from({ length: 64 }, (_, i) => (key[i] ?? 0) ^ with_);
  return sha256(concat(pad(0x5c), await sha256(concat(pad(0x36), data))));
}

/** The labelled HKDF of RFC 9180, section 4, for outputs of at most 32 bytes. */
function makeKdf(suite: Uint8Array, sha256: Hash) {
  const label = (name: string, rest: Uint8Array): Bytes => concat(utf8("HPKE-v1"), suite, utf8(name), rest);
  return {
    extract: (salt: Uint8Array, name: string, secret: Uint8Array): Promise<Bytes> =>
      hmac(salt, label(name, secret), sha256),
    expand: async (key: Uint8Array, name: string, info: Uint8Array, length: number): Promise<Bytes> =>
      (await hmac(key, concat(Uint8Array.of(0, length), label(name, info), Uint8Array.of(1)), sha256)).slice(0, length),
  };
}

/** Encrypt a message to a public key: the ephemeral key, then the sealed message. */
export async function sealHpke(
  message: Uint8Array,
  publicKey: Uint8Array,
  info: Uint8Array,
  ephemeral: Ephemeral,
  sha256: Hash,
): Promise<Bytes> {
  const secret = await ephemeral.exchange(publicKey);
  if (secret.every((byte) => byte === 0)) {
    const fix = "ask the helper's operator to accept the plan again, with a new key";
    throw new SketchError("plan", "release.helper.key", "is not an X25519 key that hides anything", fix);
  }
  const kem = makeKdf(KEM, sha256);
  const agreed = await kem.extract(NOTHING, "eae_prk", secret);
  const shared = await kem.expand(agreed, "shared_secret", concat(ephemeral.publicKey, publicKey), 32);
  const kdf = makeKdf(SUITE, sha256);
  const context = concat(
    Uint8Array.of(0),
    await kdf.extract(NOTHING, "psk_id_hash", NOTHING),
    await kdf.extract(NOTHING, "info_hash", info),
  );
  const scheduled = await kdf.extract(shared, "secret", NOTHING);
  const key = await kdf.expand(scheduled, "key", context, 32);
  const nonce = await kdf.expand(scheduled, "base_nonce", context, 12);
  return concat(ephemeral.publicKey, encryptChaCha(key, nonce, message));
}

/** ChaCha20-Poly1305 (RFC 8439) without additional data. */
export function encryptChaCha(key: Uint8Array, nonce: Uint8Array, message: Uint8Array): Bytes {
  const encrypted = new Uint8Array(message.length);
  for (let at = 0; at < message.length; at += 64) {
    const stream = chachaBlock(key, nonce, 1 + at / 64);
    for (let i = at; i < Math.min(at + 64, message.length); i++) encrypted[i] = message[i]! ^ stream[i - at]!;
  }
  const padding = new Uint8Array((16 - (message.length % 16)) % 16);
  const lengths = new Uint8Array(16);
  writeInteger(BigInt(message.length), 8, lengths, 8);
  return concat(encrypted, poly1305(chachaBlock(key, nonce, 0), concat(encrypted, padding, lengths)));
}

function chachaBlock(key: Uint8Array, nonce: Uint8Array, counter: number): Bytes {
  const input = concat(utf8("expand 32-byte k"), key, new Uint8Array(4), nonce);
  const view = new DataView(input.buffer);
  view.setUint32(48, counter, true);
  const start = Uint32Array.from({ length: 16 }, (_, i) => view.getUint32(4 * i, true));
  const s = start.slice();
  const turn = (a: number, b: number, by: number, c: number): void => {
    s[a]! += s[b]!;
    const mixed = s[c]! ^ s[a]!;
    s[c] = (mixed << by) | (mixed >>> (32 - by));
  };
  const quarter = (a: number, b: number, c: number, d: number): void => {
    turn(a, b, 16, d);
    turn(c, d, 12, b);
    turn(a, b, 8, d);
    turn(c, d, 7, b);
  };
  for (let round = 0; round < 10; round++) {
    for (let i = 0; i < 4; i++) quarter(i, 4 + i, 8 + i, 12 + i);
    for (let i = 0; i < 4; i++) quarter(i, 4 + ((i + 1) % 4), 8 + ((i + 2) % 4), 12 + ((i + 3) % 4));
  }
  s.forEach((word, i) => view.setUint32(4 * i, word + start[i]!, true));
  return input;
}

/** Poly1305 of whole blocks, under the first 32 bytes of a key stream. */
function poly1305(stream: Uint8Array, blocks: Uint8Array): Bytes {
  const prime = (1n << 130n) - 5n;
  const r = readInteger(stream.subarray(0, 16)) & 0x0ffffffc0ffffffc0ffffffc0fffffffn;
  let sum = 0n;
  for (let at = 0; at < blocks.length; at += 16) {
    sum = ((sum + readInteger(blocks.subarray(at, at + 16)) + (1n << 128n)) * r) % prime;
  }
  const tag = new Uint8Array(16);
  writeInteger(sum + readInteger(stream.subarray(16, 32)), 16, tag, 0);
  return tag;
}
