/** Text to bytes and back, where a runtime has no TextEncoder, TextDecoder or btoa: older Hermes. */

const LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
/** A replacement for what is no character. */
const REPLACED = 0xfffd;

/** Encode text as UTF-8; half a pair of surrogates is replaced. */
export function encodeUtf8(text: string): Uint8Array<ArrayBuffer> {
  const bytes: number[] = [];
  for (const character of text) {
    const point = character.codePointAt(0)!;
    const n = point >= 0xd800 && point < 0xe000 ? REPLACED : point;
    if (n < 0x80) bytes.push(n);
    else if (n < 0x800) bytes.push(0xc0 | (n >> 6), 0x80 | (n & 63));
    else if (n < 0x10000) bytes.push(0xe0 | (n >> 12), 0x80 | ((n >> 6) & 63), 0x80 | (n & 63));
    else bytes.push(0xf0 | (n >> 18), 0x80 | ((n >> 12) & 63), 0x80 | ((n >> 6) & 63), 0x80 | (n & 63));
  }
  return Uint8Array.from(bytes);
}

/**
 * Decode UTF-8; what is none is replaced, byte by byte, so that no other bytes give the same text as
 * bytes that are UTF-8.
 */
export function decodeUtf8(bytes: Uint8Array): string {
  let text = "";
  for (let at = 0; at < bytes.length; ) {
    const first = bytes[at]!;
    const more = first < 0x80 ? 0 : first >= 0xc2 && first < 0xe0 ? 1 : first >= 0xe0 && first < 0xf0 ? 2 : first >= 0xf0 && first < 0xf5 ? 3 : -1;
    let point = more < 1 ? first : first & (63 >> more);
    let isWhole = more >= 0;
    for (let i = 1; i <= more; i++) {
      const next = bytes[at + i] ?? 0;
      isWhole &&= next >> 6 === 2;
      point = (point << 6) | (next & 63);
    }
    const least = [0, 0x80, 0x800, 0x10000][more] ?? 0;
    isWhole &&= point >= least && point < 0x110000 && (point < 0xd800 || point >= 0xe000);
    text += String.fromCodePoint(isWhole ? point : REPLACED);
    at += isWhole ? more + 1 : 1;
  }
  return text;
}

/** Encode text whose characters are bytes as base64. */
export function encodeBase64(text: string): string {
  let encoded = "";
  for (let at = 0; at < text.length; at += 3) {
    const part = [0, 1, 2].map((i) => text.charCodeAt(at + i) || 0);
    const word = (part[0]! << 16) | (part[1]! << 8) | part[2]!;
    const letters = [18, 12, 6, 0].map((shift) => LETTERS[(word >> shift) & 63]!);
    const n = Math.min(text.length - at, 3);
    encoded += letters.slice(0, n + 1).join("") + "=".repeat(3 - n);
  }
  return encoded;
}

/** Give a runtime what it lacks of these three; what it has stays as it is. */
function complete(runtime: { [name: string]: unknown }): void {
  runtime["TextEncoder"] ??= class {
    encode(text: string): Uint8Array<ArrayBuffer> {
      return encodeUtf8(text);
    }
  };
  runtime["TextDecoder"] ??= class {
    decode(bytes: Uint8Array): string {
      return decodeUtf8(bytes);
    }
  };
  runtime["btoa"] ??= encodeBase64;
}

complete(globalThis as unknown as { [name: string]: unknown });
