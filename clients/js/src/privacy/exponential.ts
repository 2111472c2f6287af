/** Binary digits of `1 / (c + exp(x))`, any number of them, proved by integer bounds. */

/**
 * Return `floor(2^bits / (c + exp(x)))` for a rational `x = p / q > 0` and c of 0 or 1.
 *
 * The series of exp is summed in fixed point, each term rounded down. An error of one unit in a
 * term grows by at most exp(x) in all terms after it, so K terms are at most `K exp(x)` units
 * too small together. If both ends of that range have the same digits, these are the digits. The
 * value is irrational, so some precision tells them.
 */
export function findDigits(p: bigint, q: bigint, c: bigint, bits: bigint): bigint {
  for (let precision = bits + 160n; ; precision *= 2n) {
    const one = 1n << precision;
    let [term, sum, k] = [one, one, 0n];
    // Beyond 2 x each term is at most half the one before; those left out are below one unit each.
    while (term > 0n || k < 2n * (p / q + 1n)) {
      k++;
      term = (term * p) / (q * k);
      sum += term;
    }
    const error = (k + 4n) * ((sum >> precision) + 2n);
    const numerator = one << bits;
    const least = numerator / (c * one + sum + error);
    if (least === numerator / (c * one + sum)) return least;
  }
}
