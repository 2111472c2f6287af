"""Print `src/digits.c`: the binary digits that exponential variates are compared with.

python -m clients.c.make_digits > clients/c/src/digits.c
"""

from __future__ import annotations

import sys
from fractions import Fraction

from sfumato.shared.privacy.samplers import EXPONENT_BITS, UNIT_BITS, Probability, bit_of, exp_of

WORDS = 4
_HEAD = f"""\
/* Made by `python -m clients.c.make_digits`. Row i has the first {64 * WORDS} binary digits of
 * 1 / (1 + exp(2^(i - {UNIT_BITS}))), and the last row those of exp(-64). */
#include "noise.h"

const uint64_t DIGIT_PROBABILITIES[DIGITS + 1][DIGIT_WORDS] = {{
"""


def _find_words(probability: Probability) -> str:
    digits = f"{probability.find_digits(WORDS):0{16 * WORDS}x}"
    words = [digits[16 * i : 16 * i + 16] for i in range(WORDS)]
    first, second = (", ".join(f"UINT64_C(0x{word})" for word in words[i : i + 2]) for i in (0, 2))
    return f"    {{{first},\n     {second}}},\n"


def render_digits() -> str:
    """Return the source."""
    exponents = [Fraction(2**i, 2**UNIT_BITS) for i in range(EXPONENT_BITS)]
    rows = [*map(bit_of, exponents), exp_of(Fraction(2**EXPONENT_BITS, 2**UNIT_BITS))]
    return _HEAD + "".join(map(_find_words, rows)) + "};\n"


if __name__ == "__main__":
    sys.stdout.write(render_digits())
