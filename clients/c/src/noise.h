/* Exact sampling on the integers, without floating-point numbers. */
#ifndef SFUMATO_NOISE_H
#define SFUMATO_NOISE_H

#include "sfumato.h"
#include "wide.h"

enum {
    DIGITS = 58,     /* of an exponential variate that are drawn singly */
    DIGIT_WORDS = 4, /* of each digit's probability */
    EXPONENT_BYTES = 8 * (DIGITS + 1),
    LEAST_RATE_BITS = 10, /* rates are at least 2^10 */
    MOST_ABOVE_BITS = 48,
};

/* Rounds of probability 2^-92 each that an exponential variate may take: years, for any
 * generator. More is its failure. */
#define MOST_ABOVE (UINT64_C(1) << MOST_ABOVE_BITS)

/* Binary digits of the probability that digit i of an exponential variate is one; of
 * exp(-2^DIGITS / 2^52) in the last row. The first word stands first. */
extern const uint64_t DIGIT_PROBABILITIES[DIGITS + 1][DIGIT_WORDS];

/* Random bytes, checked against a generator that stands still. */
struct source {
    const struct sfumato_platform *platform;
    bool has_failed; /* for good; what was drawn since is not random */
    uint8_t at;
    uint8_t pool[64], last[16];
};

void open_source(struct source *source, const struct sfumato_platform *platform);
/* Wipe what the source has not given out. */
void close_source(struct source *source);
void draw_bytes(struct source *source, uint8_t *into, size_t count);

/* Draw X with P(X = x) proportional to exp(-x / 2^52). */
struct wide draw_exponent(struct source *source);
/* Return the X of given uniform bytes; what they leave open, the source decides. */
struct wide read_exponent(const uint8_t bytes[EXPONENT_BYTES], struct source *source);
/* Draw a number uniform on 0 .. n - 1, for 1 <= n <= 2^127. */
struct wide draw_below(struct source *source, struct wide n);
/* Draw a geometric variate: P(G >= g) = exp(-g rate / 2^52). */
struct wide draw_geometric(struct source *source, uint64_t rate);
/* Draw a point uniform on the lattice points of `radius` times the 24-gon. */
void draw_in_polygon(struct source *source, struct wide radius, int64_t point[2]);
/* Draw P(y) proportional to exp(-|y| rate / 2^52). */
int64_t draw_laplace(struct source *source, uint64_t rate);

#endif
