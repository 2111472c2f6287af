/** Random bytes for noise, masks and keys: the platform's generator, and nothing else. */
import { type Bytes, equalBytes, readInteger } from "../bytes.ts";
import { SketchError } from "../errors.ts";

/** A source of independent uniform bytes. */
export interface RandomSource {
  drawBytes(count: number): Uint8Array;
}

/** What a platform must bring: `crypto.getRandomValues`, or what is as good. */
export type FillRandom = (into: Bytes) => unknown;

const REFILL = 4096;
const FIX = "update the browser or app, and tell its maker; nothing was released";

function refuse(rule: string): SketchError {
  return new SketchError("random", "crypto.getRandomValues", rule, FIX);
}

/**
 * The platform's generator, drawn in pieces of 4096 bytes; no byte is given twice.
 *
 * A generator that is missing, fails, or repeats itself is refused. That it is unpredictable cannot
 * be checked.
 */
export class SystemSource implements RandomSource {
  readonly #fill: FillRandom;
  #pool: Bytes = new Uint8Array(0);
  #at = 0;
  #last: Bytes = new Uint8Array(0);

  constructor(fill: FillRandom | undefined) {
    if (!fill) throw refuse("is missing");
    this.#fill = fill;
  }

  drawBytes(count: number): Bytes {
    const drawn = new Uint8Array(count);
    for (let done = 0; done < count; ) {
      if (this.#at === this.#pool.length) this.#refill();
      const part = this.#pool.subarray(this.#at, this.#at + count - done);
      drawn.set(part, done);
      // What was given out must not lie in memory longer than its user needs it.
      part.fill(0);
      this.#at += part.length;
      done += part.length;
    }
    return drawn;
  }

  #refill(): void {
    const pool = new Uint8Array(REFILL);
    try {
      this.#fill(pool);
    } catch (error) {
      throw refuse(`failed (${error instanceof Error ? error.name : "no reason given"})`);
    }
    // 32 equal bytes come by chance with probability 2^-248, those of the refill before with 2^-256.
    const head = pool.slice(0, 32);
    if (head.every((byte) => byte === head[0])) throw refuse("gives the same byte again and again");
    if (equalBytes(head, this.#last)) throw refuse("gives the same bytes again");
    this.#last = head;
    this.#pool = pool;
    this.#at = 0;
  }
}

/**
 * Draw an integer uniform on 0 .. n - 1 for any `n >= 1`.
 *
 * What lies beyond the largest multiple of n is drawn again, so the law is exact.
 */
export function drawBelow(source: RandomSource, n: bigint): bigint {
  const size = Math.floor(n.toString(2).length / 8) + 1;
  const limit = ((1n << BigInt(8 * size)) / n) * n;
  for (;;) {
    const drawn = readInteger(source.drawBytes(size));
    if (drawn < limit) return drawn % n;
  }
}

/** Draw an integer uniform on `-reach .. reach`. */
export function drawCentred(source: RandomSource, reach: bigint): bigint {
  return drawBelow(source, 2n * reach + 1n) - reach;
}
