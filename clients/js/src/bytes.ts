/** Bytes: text, hexadecimal, base64, and joining; every visit of a page loads them. */

export type Bytes = Uint8Array<ArrayBuffer>;

const encoder = new TextEncoder();

/** Encode text as UTF-8. */
export function utf8(text: string): Bytes {
  return encoder.encode(text);
}

/** Encode bytes as lower-case hexadecimal. */
export function toHex(bytes: Uint8Array): string {
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** Encode bytes as base64 with padding. */
export function toBase64(bytes: Uint8Array): string {
  return btoa(String.fromCharCode(...bytes));
}

/** Join byte strings. */
export function concat(...parts: Uint8Array[]): Bytes {
  const joined = new Uint8Array(parts.reduce((length, part) => length + part.length, 0));
  let at = 0;
  for (const part of parts) {
    joined.set(part, at);
    at += part.length;
  }
  return joined;
}

/** Order byte strings by their bytes; a prefix comes first. */
export function compareBytes(a: Uint8Array, b: Uint8Array): number {
  const n = Math.min(a.length, b.length);
  for (let i = 0; i < n; i++) if (a[i] !== b[i]) return a[i]! - b[i]!;
  return a.length - b.length;
}

/** Return whether byte strings are equal. */
export function equalBytes(a: Uint8Array, b: Uint8Array): boolean {
  return compareBytes(a, b) === 0;
}

/** Read an unsigned little-endian integer of any length. */
export function readInteger(bytes: Uint8Array): bigint {
  let value = 0n;
  for (let i = bytes.length - 1; i >= 0; i--) value = (value << 8n) | BigInt(bytes[i]!);
  return value;
}

/** Write an integer as `width` bytes, two's complement, little-endian. */
export function writeInteger(value: bigint, width: number, into: Uint8Array, at: number): void {
  for (let i = 0; i < width; i++) {
    into[at + i] = Number(value & 255n);
    value >>= 8n;
  }
}
