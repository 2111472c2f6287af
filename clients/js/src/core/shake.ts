/** SHAKE-256 (FIPS 202), which WebCrypto lacks. */
import { type Bytes } from "../bytes.ts";

const RATE = 136;
/** Rotations and destinations of the rho and pi steps, along their one cycle. */
const ROTATIONS = [
  1, 3, 6, 10, 15, 21, 28, 36, 45, 55, 2, 14, 27, 41, 56, 8, 25, 43, 62, 18, 39, 61, 20, 44,
];
const LANES = [
  10, 7, 11, 17, 18, 3, 5, 16, 8, 21, 24, 4, 15, 23, 19, 13, 12, 2, 20, 14, 22, 9, 6, 1,
];
/** Round constants: low word, high word, by the linear feedback register of FIPS 202, 3.2.5. */
const CONSTANTS = makeConstants();

function makeConstants(): Uint32Array {
  const constants = new Uint32Array(48);
  let register = 1;
  for (let round = 0; round < 24; round++) {
    for (let j = 0; j < 7; j++) {
      const place = (1 << j) - 1;
      if (register & 1) constants[2 * round + (place >> 5)]! ^= 1 << (place & 31);
      register = (register << 1) ^ (register & 0x80 ? 0x171 : 0);
    }
  }
  return constants;
}

/** Keccak-f[1600] on 25 lanes of two words, the low word first. */
function permute(s: Uint32Array): void {
  const c = new Uint32Array(10);
  for (let round = 0; round < 24; round++) {
    for (let x = 0; x < 10; x++) {
      c[x] = s[x]! ^ s[x + 10]! ^ s[x + 20]! ^ s[x + 30]! ^ s[x + 40]!;
    }
    for (let x = 0; x < 5; x++) {
      const left = 2 * ((x + 4) % 5);
      const right = 2 * ((x + 1) % 5);
      const low = c[left]! ^ ((c[right]! << 1) | (c[right + 1]! >>> 31));
      const high = c[left + 1]! ^ ((c[right + 1]! << 1) | (c[right]! >>> 31));
      for (let y = 2 * x; y < 50; y += 10) {
        s[y]! ^= low;
        s[y + 1]! ^= high;
      }
    }
    let low = s[2]!;
    let high = s[3]!;
    for (let i = 0; i < 24; i++) {
      const at = 2 * LANES[i]!;
      if (ROTATIONS[i]! > 31) [low, high] = [high, low];
      const by = ROTATIONS[i]! & 31;
      const a = by ? (low << by) | (high >>> (32 - by)) : low;
      const b = by ? (high << by) | (low >>> (32 - by)) : high;
      low = s[at]!;
      high = s[at + 1]!;
      s[at] = a;
      s[at + 1] = b;
    }
    for (let y = 0; y < 50; y += 10) {
      for (let x = 0; x < 10; x++) c[x] = s[y + x]!;
      for (let x = 0; x < 10; x++) s[y + x]! ^= ~c[(x + 2) % 10]! & c[(x + 4) % 10]!;
    }
    s[0]! ^= CONSTANTS[2 * round]!;
    s[1]! ^= CONSTANTS[2 * round + 1]!;
  }
}

/** The output of SHAKE-256 over some bytes, read from its start in order. */
export class Shake256 {
  readonly #state = new Uint32Array(50);
  #read = 0;

  constructor(message: Uint8Array) {
    const n = message.length;
    for (let i = 0; i < n; i++) {
      this.#absorb(i % RATE, message[i]!);
      if (i % RATE === RATE - 1) permute(this.#state);
    }
    this.#absorb(n % RATE, 0x1f);
    this.#absorb(RATE - 1, 0x80);
    permute(this.#state);
  }

  /** Return the next `count` bytes. */
  take(count: number): Bytes {
    const taken = new Uint8Array(count);
    for (let i = 0; i < count; i++) {
      if (this.#read === RATE) {
        permute(this.#state);
        this.#read = 0;
      }
      taken[i] = this.#state[this.#read >> 2]! >>> (8 * (this.#read & 3));
      this.#read++;
    }
    return taken;
  }

  #absorb(at: number, byte: number): void {
    this.#state[at >> 2]! ^= byte << (8 * (at & 3));
  }
}
