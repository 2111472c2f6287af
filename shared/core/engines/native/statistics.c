/* Statistics that need no frequencies: bins, cells and moments. Plain C for every processor; loops
 * over a tile of one column are written so that compilers use vectors. */
#include <stdlib.h>
#include <string.h>

#include "sketch.h"
#include "tile.h"

#define MOMENT_STEPS 2047

/* Bits of 0.7071067811865476 and of 2^52. */
#define ROOT_HALF UINT64_C(0x3FE6A09E667F3BCD)
#define INTEGERS UINT64_C(0x4330000000000000)

static inline double from_bits(uint64_t bits) {
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* log2 of numbers from 1 on, by the sequence of section 5 of the definition; of infinity any number.
 * Without branches or conversions, which few processors have for vectors. */
static void compute_log2(const double *values, size_t n, double *logarithms) {
    for (size_t row = 0; row < n; row++) {
        uint64_t bits;
        memcpy(&bits, values + row, sizeof bits);
        /* f 2^e with f in [sqrt(1/2), sqrt 2), so e >= 0. */
        const uint64_t exponent = (bits - ROOT_HALF) >> 52;
        const double f = from_bits(bits - (exponent << 52));
        const double e = from_bits(exponent | INTEGERS) - 0x1p52;
        const double z = (f - 1.0) / (f + 1.0), w = z * z;
        double p = 1.0 / 21.0;
        p = p * w + 1.0 / 19.0;
        p = p * w + 1.0 / 17.0;
        p = p * w + 1.0 / 15.0;
        p = p * w + 1.0 / 13.0;
        p = p * w + 1.0 / 11.0;
        p = p * w + 1.0 / 9.0;
        p = p * w + 1.0 / 7.0;
        p = p * w + 1.0 / 5.0;
        p = p * w + 1.0 / 3.0;
        p = p * w + 1.0;
        logarithms[row] = (e * 0.6931471805599453 + 2.0 * (z * p)) * 1.4426950408889634;
    }
}

/* T(x) = sign(x) log2(1 + |x| / r): section 10 of the definition. What is not finite becomes not a
 * number. */
static void compress(double *values, size_t n, double resolution) {
    double quotients[TILE], logarithms[TILE];
    for (size_t row = 0; row < n; row++)
        quotients[row] = 1.0 + __builtin_fabs(values[row]) / resolution;
    compute_log2(quotients, n, logarithms);
    for (size_t row = 0; row < n; row++) {
        const double x = values[row], s = quotients[row];
        const double t = s - s == 0.0 ? logarithms[row] : 1100.0;
        values[row] = x - x == 0.0 ? __builtin_copysign(t, x) : x - x;
    }
}

/* ---- histogram ---- */

static void find_bins(const double *values, size_t n, const struct bin_rule *rule,
                      uint32_t *bins) {
    const double centre = rule->centre, scale = rule->scale;
    const int shift = 16 - (int)rule->size;
    const uint32_t below = UINT32_C(1) << rule->size;
    for (size_t row = 0; row < n; row++) {
        const double x = values[row], t = (x - centre) * scale;
        uint32_t bin = (uint32_t)(quantise(t) + 32768) >> shift;
        bin = t < -STEPS ? below : bin;
        bin = t > STEPS ? below + 1 : bin;
        bins[row] = x - x == 0.0 ? bin : below + 2;
    }
}

static void find_levels(const double *values, size_t n, const struct bin_rule *rule,
                        uint32_t *bins) {
    const double size = rule->size;
    for (size_t row = 0; row < n; row++) {
        const double x = values[row];
        const int is_inside = x >= 0.0 && x < size;
        const uint32_t level = is_inside ? (uint32_t)x : 0;
        bins[row] = is_inside && (double)level == x ? level : rule->size;
    }
}

void sketch_add_histogram(const struct records *records, const struct bin_rule *rules,
                          size_t n_rules, int64_t *sums) {
    double values[TILE];
    uint32_t bins[TILE];
    for (size_t first = 0; first < records->n; first += TILE) {
        const size_t n = records->n - first < TILE ? records->n - first : TILE;
        int64_t *counts = sums;
        for (const struct bin_rule *rule = rules; rule < rules + n_rules; rule++) {
            read_tile(records->columns + rule->dimension, first, n, values);
            if (rule->scale_kind == LOGARITHMIC) compress(values, n, rule->resolution);
            if (rule->scale_kind == LEVELS) {
                find_levels(values, n, rule, bins);
            } else {
                find_bins(values, n, rule, bins);
            }
            for (size_t row = 0; row < n; row++) counts[bins[row]]++;
            counts += sketch_count_bins(rule);
        }
    }
}

size_t sketch_count_bins(const struct bin_rule *rule) {
    return rule->scale_kind == LEVELS ? rule->size + 1 : ((size_t)1 << rule->size) + 3;
}

/* ---- grid ---- */

void sketch_add_grid(const struct records *records, const double *centre, const double *scale,
                     const int64_t *cells, int64_t *sums) {
    double values[TILE];
    uint32_t places[TILE];
    unsigned char is_missing[TILE];
    uint32_t n_cells = 1;
    for (size_t i = 0; i < records->d; i++) n_cells *= (uint32_t)cells[i];
    for (size_t first = 0; first < records->n; first += TILE) {
        const size_t n = records->n - first < TILE ? records->n - first : TILE;
        memset(places, 0, sizeof places);
        memset(is_missing, 0, sizeof is_missing);
        for (size_t i = 0; i < records->d; i++) {
            const uint32_t m = (uint32_t)cells[i];
            read_tile(records->columns + i, first, n, values);
            for (size_t row = 0; row < n; row++) {
                const double x = values[row];
                const uint64_t u = (uint64_t)(quantise((x - centre[i]) * scale[i]) + STEPS);
                places[row] = places[row] * m + (uint32_t)(u * m / (2 * STEPS + 1));
                is_missing[row] |= x - x != 0.0;
            }
        }
        for (size_t row = 0; row < n; row++) sums[is_missing[row] ? n_cells : places[row]]++;
    }
}

/* ---- moments ---- */

/* Coordinates of a tile, column by column. */
struct moment_tile {
    int16_t *columns; /* d of TILE each */
    uint64_t squares[TILE];
    unsigned char is_missing[TILE];
};

/* Quantise a tile and pull far records into the ball. Returns how many are missing; those become
 * zero. */
static size_t fill_tile(struct moment_tile *tile, const struct records *records, size_t first,
                        size_t n, const double *centre, const double *scale, uint32_t radius) {
    double values[TILE];
    memset(tile->squares, 0, sizeof tile->squares);
    memset(tile->is_missing, 0, sizeof tile->is_missing);
    for (size_t i = 0; i < records->d; i++) {
        int16_t *column = tile->columns + i * TILE;
        read_tile(records->columns + i, first, n, values);
        for (size_t row = 0; row < n; row++) {
            const double x = values[row];
            /* (steps + 8) >> 4, without shifting a negative number. */
            int32_t u = ((quantise((x - centre[i]) * scale[i]) + 32768 + 8) >> 4) - 2048;
            u = u > MOMENT_STEPS ? MOMENT_STEPS : u;
            u = u < -MOMENT_STEPS ? -MOMENT_STEPS : u;
            column[row] = (int16_t)u;
            tile->squares[row] += (uint64_t)(u * u);
            tile->is_missing[row] |= x - x != 0.0;
        }
    }
    size_t missing = 0;
    for (size_t row = 0; row < n; row++) {
        int16_t *u = tile->columns + row;
        if (tile->is_missing[row]) {
            for (size_t i = 0; i < records->d; i++) u[i * TILE] = 0;
            missing++;
        } else if (tile->squares[row] > (uint64_t)radius * radius) {
            const int32_t norm = (int32_t)root_up(tile->squares[row]);
            /* Division rounds towards zero, as the definition does with sign and modulus. */
            for (size_t i = 0; i < records->d; i++)
                u[i * TILE] = (int16_t)(u[i * TILE] * (int32_t)radius / norm);
        }
    }
    return missing;
}

static int32_t multiply(const int16_t *x, const int16_t *y, size_t n) {
    int32_t total = 0;
    for (size_t row = 0; row < n; row++) total += x[row] * y[row];
    return total;
}

int64_t sketch_add_moments(const struct records *records, const double *centre,
                           const double *scale, const struct moment_rule *rule, int64_t *sums) {
    const size_t d = records->d;
    struct moment_tile tile = {.columns = malloc(d * TILE * sizeof *tile.columns)};
    int64_t unsketchable = 0;
    if (!tile.columns) return -1;
    for (size_t first = 0; first < records->n; first += TILE) {
        const size_t n = records->n - first < TILE ? records->n - first : TILE;
        const size_t missing = fill_tile(&tile, records, first, n, centre, scale, rule->radius);
        unsketchable += (int64_t)missing;
        sums[0] += rule->constant * (int64_t)(n - missing);
        int64_t *product = sums + 1 + d;
        for (size_t i = 0; i < d; i++) {
            const int16_t *x = tile.columns + i * TILE;
            int32_t total = 0;
            for (size_t row = 0; row < n; row++) total += x[row];
            sums[1 + i] += rule->mean_weight * total;
            *product++ += rule->diagonal_weight * multiply(x, x, n);
            for (size_t j = i + 1; j < d; j++)
                *product++ += rule->weight * multiply(x, tile.columns + j * TILE, n);
        }
    }
    free(tile.columns);
    return unsketchable;
}
