/* What the statistics without frequencies share: a tile of rows, read and quantised. */
#ifndef SFUMATO_TILE_H
#define SFUMATO_TILE_H

#include <float.h>
#include <string.h>

#include "sketch.h"

#if FLT_EVAL_METHOD != 0
#error "the definition needs doubles without extended precision (on 32-bit x86: -msse2 -mfpmath=sse)"
#endif

/* Rows at a time. 32-bit sums of products cannot overflow in a tile: 256 * 2047^2 < 2^31. */
#define TILE 256
#define STEPS 32767

/* Adding 1.5 * 2^52 rounds half to even and leaves the integer in the lowest bits. */
#define ROUND_TO_INTEGER 6755399441055744.0

/* Rows first .. first+n-1 of a column, as doubles. */
static inline void read_tile(const struct column *column, size_t first, size_t n, double *values) {
    const char *from = column->data + (ptrdiff_t)first * column->stride;
    if (column->is_double) {
        for (size_t row = 0; row < n; row++, from += column->stride)
            memcpy(values + row, from, sizeof(double));
        return;
    }
    for (size_t row = 0; row < n; row++, from += column->stride) {
        float x;
        memcpy(&x, from, sizeof x);
        values[row] = x;
    }
}

/* Step 1 of the definition: u, from -32767 to 32767. */
static inline int32_t quantise(double t) {
    uint64_t word;
    t = t > -STEPS ? t : -STEPS;
    t = t < STEPS ? t : STEPS;
    t += ROUND_TO_INTEGER;
    memcpy(&word, &t, sizeof word);
    return (int16_t)word;
}

/* The least integer whose square is at least `square`, which is positive. */
static inline uint32_t root_up(uint64_t square) {
    uint64_t below = 0; /* the largest integer whose square is less */
    for (uint64_t bit = UINT64_C(1) << (63 - __builtin_clzll(square)) / 2; bit; bit >>= 1) {
        if ((below + bit) * (below + bit) < square) below += bit;
    }
    return (uint32_t)below + 1;
}

#endif
