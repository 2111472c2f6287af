/* An exponential variate by its binary digits, which are independent: digit i is one with
 * probability 1 / (1 + exp(2^(i - 52))), and what lies above digit 57 is geometric. Every X takes
 * 59 words, more with probability below 2^-57. */
#include "noise.h"

static uint64_t read_word(const uint8_t bytes[8]) {
    uint64_t word = 0;
    for (int i = 8; i-- > 0;) word = word << 8 | bytes[i];
    return word;
}

static uint64_t draw_word(struct source *source) {
    uint8_t bytes[8];
    draw_bytes(source, bytes, sizeof bytes);
    return read_word(bytes);
}

/* Whether the uniform number that begins with a word lies below the probability of digit i.
 *
 * 256 bits leave that open with probability 2^-256: rather than an inexact answer it is a failure
 * of the generator, and nothing is released. */
static bool is_below(struct source *source, uint64_t word, int i) {
    for (int k = 0; k < DIGIT_WORDS; k++) {
        if (k > 0) word = draw_word(source);
        uint64_t limit = DIGIT_PROBABILITIES[i][k];
        if (word != limit) return word < limit;
    }
    source->has_failed = true;
    return false;
}

struct wide read_exponent(const uint8_t bytes[EXPONENT_BYTES], struct source *source) {
    uint64_t low = 0, above = 0;
    for (int i = 0; i < DIGITS; i++)
        low |= (uint64_t)is_below(source, read_word(bytes + 8 * i), i) << i;
    uint64_t word = read_word(bytes + 8 * DIGITS);
    for (; is_below(source, word, DIGITS) && !source->has_failed; above++) {
        if (above == MOST_ABOVE) source->has_failed = true;
        word = draw_word(source);
    }
    struct wide x = {above >> (64 - DIGITS), above << DIGITS | low};
    return x;
}

struct wide draw_exponent(struct source *source) {
    uint8_t bytes[EXPONENT_BYTES];
    draw_bytes(source, bytes, sizeof bytes);
    return read_exponent(bytes, source);
}
