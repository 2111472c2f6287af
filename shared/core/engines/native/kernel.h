/* The kernel of one level. A level's file sets its target, includes its lanes, then this.
 *
 * Layout of packed W: [block][pair of dimensions][lane][2], so that one multiply-add of pairs takes
 * two dimensions of LANES features at once.
 */
#include <string.h>

#include "sketch.h"

/* Coefficients of step 3 of the definition. */
struct constants {
    vector even_0, even_2, even_4, odd_1, odd_3, odd_5;
    vector two, half, quarter, ones, minus_ones;
};

static inline struct constants make_constants(void) {
    struct constants k = {
        REPEAT_16(11581), REPEAT_16(-3567), REPEAT_16(175), REPEAT_16(18191), REPEAT_16(-1871),
        REPEAT_16(58),    REPEAT_16(2),     REPEAT_16(-32768), REPEAT_16(0x4000), REPEAT_16(1),
        REPEAT_16(-1),
    };
    return k;
}

#define ALWAYS static inline __attribute__((always_inline))

/* Sums of LANES features: cosines are `cosines - taken`. */
struct sums {
    vector cosines, taken, sines;
};

/* Even and odd part of step 3 for two records of LANES features. */
ALWAYS void compute_parts(vector phase, const struct constants *k, vector *even, vector *odd) {
    /* The two top bits of a phase, its quarter, are shifted out. */
    vector t = OR_XOR(SHIFT_LEFT_2_16(phase), k->two, k->half);
    vector t2 = HIGH(t, t);
    *even = ADD_16(HIGH(t2, ADD_16(HIGH(t2, k->even_4), k->even_2)), k->even_0);
    *odd = ADD_16(HIGH(t2, ADD_16(HIGH(t2, k->odd_5), k->odd_3)), k->odd_1);
    *odd = HIGH(SHIFT_RIGHT_1_16(t), *odd);
}

/* sin < 0 in the middle of quarters 2 and 3: the top bit. cos < 0 in 1 and 2: a quarter on. */
#ifdef SIGN_OF
/* Where a multiply-add takes one operation, it applies the signs too. */
ALWAYS void add_two(vector phase, const struct constants *k, struct sums *sums) {
    vector even, odd;
    compute_parts(phase, k, &even, &odd);
    vector sine_sign = SIGN_OF(phase, k->ones, k->minus_ones);
    vector cosine_sign = SIGN_OF(ADD_16(phase, k->quarter), k->ones, k->minus_ones);
    sums->cosines = ADD_PAIRS(sums->cosines, even, cosine_sign);
    sums->taken = ADD_PAIRS(sums->taken, odd, sine_sign);
    sums->sines = ADD_PAIRS(sums->sines, even, sine_sign);
    sums->sines = ADD_PAIRS(sums->sines, odd, cosine_sign);
}

ALWAYS void add_four(vector x0, vector x1, vector x2, vector x3, shifts s,
                     const struct constants *k, struct sums *sums) {
    add_two(JOIN_PHASES(x0, x1, s), k, sums);
    add_two(JOIN_PHASES(x2, x3, s), k, sums);
}
#else
ALWAYS void compute_features(vector phase, const struct constants *k, vector *cosine,
                             vector *sine) {
    vector even, odd;
    compute_parts(phase, k, &even, &odd);
    signs sine_sign = SIGNS(phase);
    signs cosine_sign = SIGNS(ADD_16(phase, k->quarter));
    *cosine = SUB_16(NEGATE(even, cosine_sign), NEGATE(odd, sine_sign));
    *sine = ADD_16(NEGATE(even, sine_sign), NEGATE(odd, cosine_sign));
}

/* Add the features of four records. Two features fit a 16-bit lane: 2 A < 2^15. */
ALWAYS void add_four(vector x0, vector x1, vector x2, vector x3, shifts s,
                     const struct constants *k, struct sums *sums) {
    vector c0, s0, c1, s1;
    compute_features(JOIN_PHASES(x0, x1, s), k, &c0, &s0);
    compute_features(JOIN_PHASES(x2, x3, s), k, &c1, &s1);
    sums->cosines = ADD_PAIRS(sums->cosines, ADD_16(c0, c1), k->ones);
    sums->sines = ADD_PAIRS(sums->sines, ADD_16(s0, s1), k->ones);
}
#endif

ALWAYS vector repeat_pair(const int16_t *pair) {
    int32_t both;
    memcpy(&both, pair, sizeof both);
    return REPEAT_32(both);
}

ALWAYS void flush(const struct sums *sums, int64_t *cosines, int64_t *sines) {
    int32_t part[LANES], taken[LANES];
    STORE(part, sums->cosines);
    STORE(taken, sums->taken);
    for (size_t i = 0; i < LANES; i++) cosines[i] += (int64_t)part[i] - taken[i];
    STORE(part, sums->sines);
    for (size_t i = 0; i < LANES; i++) sines[i] += part[i];
}

/* Named scalars throughout: arrays of vectors would be spilled to the stack. */

/* Two blocks of features, four records at a time: the loads are shared. */
ALWAYS void add_two_blocks(const int16_t *steps, size_t n, size_t pairs, const int16_t *packed,
                           shifts s, int64_t *cosines, int64_t *sines) {
    const struct constants k = make_constants();
    const size_t width = 2 * pairs, block = width * LANES;
    struct sums first = {ZERO, ZERO, ZERO}, second = first;
    for (size_t row = 0; row < n; row += 4, steps += 4 * width) {
        const int16_t *w = packed;
        vector x0 = ZERO, x1 = ZERO, x2 = ZERO, x3 = ZERO;
        vector y0 = ZERO, y1 = ZERO, y2 = ZERO, y3 = ZERO;
        for (size_t i = 0; i < width; i += 2, w += 2 * LANES) {
            vector w0 = LOAD(w), w1 = LOAD(w + block), u;
            u = repeat_pair(steps + i);
            x0 = ADD_PAIRS(x0, w0, u);
            y0 = ADD_PAIRS(y0, w1, u);
            u = repeat_pair(steps + width + i);
            x1 = ADD_PAIRS(x1, w0, u);
            y1 = ADD_PAIRS(y1, w1, u);
            u = repeat_pair(steps + 2 * width + i);
            x2 = ADD_PAIRS(x2, w0, u);
            y2 = ADD_PAIRS(y2, w1, u);
            u = repeat_pair(steps + 3 * width + i);
            x3 = ADD_PAIRS(x3, w0, u);
            y3 = ADD_PAIRS(y3, w1, u);
        }
        add_four(x0, x1, x2, x3, s, &k, &first);
        add_four(y0, y1, y2, y3, s, &k, &second);
    }
    flush(&first, cosines, sines);
    flush(&second, cosines + LANES, sines + LANES);
}

/* One block, eight records at a time. */
ALWAYS void add_one_block(const int16_t *steps, size_t n, size_t pairs, const int16_t *packed,
                          shifts s, int64_t *cosines, int64_t *sines) {
    const struct constants k = make_constants();
    const size_t width = 2 * pairs;
    struct sums sums = {ZERO, ZERO, ZERO};
    for (size_t row = 0; row < n; row += 8, steps += 8 * width) {
        const int16_t *w = packed;
        vector x0 = ZERO, x1 = ZERO, x2 = ZERO, x3 = ZERO;
        vector x4 = ZERO, x5 = ZERO, x6 = ZERO, x7 = ZERO;
        for (size_t i = 0; i < width; i += 2, w += 2 * LANES) {
            vector w0 = LOAD(w);
            x0 = ADD_PAIRS(x0, w0, repeat_pair(steps + i));
            x1 = ADD_PAIRS(x1, w0, repeat_pair(steps + width + i));
            x2 = ADD_PAIRS(x2, w0, repeat_pair(steps + 2 * width + i));
            x3 = ADD_PAIRS(x3, w0, repeat_pair(steps + 3 * width + i));
            x4 = ADD_PAIRS(x4, w0, repeat_pair(steps + 4 * width + i));
            x5 = ADD_PAIRS(x5, w0, repeat_pair(steps + 5 * width + i));
            x6 = ADD_PAIRS(x6, w0, repeat_pair(steps + 6 * width + i));
            x7 = ADD_PAIRS(x7, w0, repeat_pair(steps + 7 * width + i));
        }
        add_four(x0, x1, x2, x3, s, &k, &sums);
        add_four(x4, x5, x6, x7, s, &k, &sums);
    }
    flush(&sums, cosines, sines);
}

static void add_features(const int16_t *steps, size_t n, size_t pairs, const int16_t *packed,
                         size_t blocks, int bits, int64_t *cosines, int64_t *sines) {
    const shifts s = make_shifts(bits);
    const size_t block = pairs * 2 * LANES;
    size_t i = 0;
    for (; i + 2 <= blocks; i += 2) {
        add_two_blocks(steps, n, pairs, packed + i * block, s, cosines + i * LANES,
                       sines + i * LANES);
    }
    if (i < blocks) {
        add_one_block(steps, n, pairs, packed + i * block, s, cosines + i * LANES,
                      sines + i * LANES);
    }
}

/* Step 1 for one value. Adding 1.5 * 2^52 rounds half to even and leaves the integer in the lowest
 * bits. */
#define ROUND_TO_INTEGER 6755399441055744.0

ALWAYS int quantise_value(double x, double centre, double scale, int16_t *step) {
    uint64_t word;
    double t = (x - centre) * scale;
    t = t > -32767.0 ? t : -32767.0;
    t = t < 32767.0 ? t : 32767.0;
    t += ROUND_TO_INTEGER;
    memcpy(&word, &t, sizeof word);
    *step = (int16_t)word;
    return x - x != 0.0;
}

/* Values may lie anywhere in memory. */
typedef double loose_double __attribute__((aligned(1), may_alias));
typedef float loose_float __attribute__((aligned(1), may_alias));

/* Bytes ahead of those in use; when steps are scattered, processors do not see the stream. */
#define PREFETCH 4096

#ifdef QUANTISE_AT_ONCE
#define QUANTISE_MOST(LOAD_VALUES, x, i, count, centre, scale, steps, not_finite)                \
    for (; i + QUANTISE_AT_ONCE <= count; i += QUANTISE_AT_ONCE) {                               \
        __builtin_prefetch((const void *)((uintptr_t)(x + i) + PREFETCH));                       \
        not_finite |= quantise_values(LOAD_VALUES(x + i), centre + i, scale + i, steps + i);     \
    }
#else
#define QUANTISE_MOST(LOAD_VALUES, x, i, count, centre, scale, steps, not_finite)
#endif

/* Rows of an even number of values are one long row. */
#define DEFINE_QUANTISE(name, type, LOAD_VALUES)                                                 \
    static int name(const void *rows, size_t n, size_t d, const double *centre,                  \
                    const double *scale, int16_t *steps) {                                       \
        const type *x = rows;                                                                    \
        const size_t count = d % 2 ? d : n * d;                                                  \
        int not_finite = 0;                                                                      \
        for (size_t row = 0; row < n; row += d % 2 ? 1 : n, x += d, steps += d + 1) {            \
            size_t i = 0;                                                                        \
            QUANTISE_MOST(LOAD_VALUES, x, i, count, centre, scale, steps, not_finite)            \
            for (; i < count; i++)                                                               \
                not_finite |= quantise_value(x[i], centre[i], scale[i], steps + i);              \
            if (d % 2) steps[d] = 0;                                                             \
        }                                                                                        \
        return not_finite != 0;                                                                  \
    }
DEFINE_QUANTISE(quantise_doubles, loose_double, LOAD_DOUBLES)
DEFINE_QUANTISE(quantise_floats, loose_float, LOAD_FLOATS)

ALWAYS uint64_t mix(uint64_t key, uint64_t index) {
    uint64_t z = key + (index + 1) * UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return z ^ (z >> 31);
}

/* The high word of the product of a 64-bit word and the number of groups. */
static void assign_groups(uint64_t key, uint64_t counter, size_t n, uint32_t groups,
                          uint32_t *group_of_row) {
    for (size_t i = 0; i < n; i++) {
        uint64_t word = mix(key, counter + i);
        uint64_t carry = ((word & 0xFFFFFFFF) * groups) >> 32;
        group_of_row[i] = (uint32_t)(((word >> 32) * groups + carry) >> 32);
    }
}

/* Everything a level is made of, for its initialiser. */
#define LEVEL_PARTS LANES, quantise_doubles, quantise_floats, add_features, assign_groups
