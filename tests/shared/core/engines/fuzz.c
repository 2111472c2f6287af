/* Fuzz target over the native kernel: every level against the definition, step by step.
 *
 * With libFuzzer: clang -fsanitize=fuzzer,address,undefined fuzz.c
 * ../..../native/{sketch,statistics,level_*}.c
 * Without: the driver below draws inputs from a counter. Sanitizers see every buffer, because each is
 * a separate allocation of the exact size.
 */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sketch.h"

struct input {
    const uint8_t *data;
    size_t size, at;
};

static uint64_t take(struct input *input, size_t bytes) {
    uint64_t x = 0;
    for (size_t i = 0; i < bytes; i++) {
        x = x << 8 | (input->at < input->size ? input->data[input->at++] : 0);
    }
    return x;
}

static void *allocate(size_t bytes) {
    void *memory = calloc(bytes ? bytes : 1, 1);
    if (!memory) exit(2);
    return memory;
}

static double read_double(struct input *input) {
    uint64_t kind = take(input, 1);
    if (kind < 16) { /* any bits: subnormal, infinite, not-a-number */
        uint64_t bits = take(input, 8);
        double x;
        memcpy(&x, &bits, sizeof x);
        return x;
    }
    return ((double)take(input, 3) - 8388608.0) / 2097152.0;
}

static int16_t quantise(double x, double centre, double scale) {
    double t = (x - centre) * scale;
    if (t > 32767.0) t = 32767.0;
    if (t < -32767.0) t = -32767.0;
    return (int16_t)nearbyint(t);
}

static uint64_t mix(uint64_t key, uint64_t index) {
    uint64_t z = key + (index + 1) * UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return z ^ (z >> 31);
}

/* docs/explanation/sketch.md, sections 1 to 4 and 7, one value at a time. */
static int64_t sum_by_definition(const double *x, size_t n, size_t d, const int16_t *turns,
                                 const struct operator *operator, uint64_t first, int64_t *sums) {
    const size_t r = operator->r, m = r * operator->groups;
    int64_t unsketchable = 0;
    for (size_t i = 0; i < n; i++, x += d) {
        int finite = 1;
        for (size_t k = 0; k < d; k++) finite &= isfinite(x[k]) != 0;
        unsketchable += !finite;
        if (!finite) continue;
        unsigned __int128 word = mix(operator->assignment_key, first + i);
        size_t group = (size_t)((word * operator->groups) >> 64);
        for (size_t j = group * r; j < (group + 1) * r; j++) {
            uint32_t turn = 0;
            for (size_t k = 0; k < d; k++) {
                int32_t u = quantise(x[k], operator->centre[k], operator->scale[k]);
                turn += (uint32_t)(u * turns[k * m + j]);
            }
            int32_t cosine, sine;
            sketch_feature((uint16_t)((turn << (32 - operator->bits)) >> 16), &cosine, &sine);
            sums[j] += cosine;
            sums[m + j] += sine;
        }
    }
    return unsketchable;
}

/* Section 10: T of a finite number. */
static double compress(double x, double resolution) {
    const double s = 1.0 + fabs(x) / resolution;
    int exponent;
    double f = frexp(s, &exponent), e;
    if (isinf(s)) return copysign(1100.0, x);
    e = exponent;
    if (f < 0.7071067811865476) {
        f += f;
        e -= 1.0;
    }
    const double z = (f - 1.0) / (f + 1.0), w = z * z;
    double p = 1.0 / 21.0;
    for (int k = 9; k >= 0; k--) p = p * w + 1.0 / (2 * k + 1);
    return copysign((e * 0.6931471805599453 + 2.0 * (z * p)) * 1.4426950408889634, x);
}

/* Section 11. */
static size_t find_bin(double x, const struct bin_rule *rule) {
    const size_t size = rule->size, inner = (size_t)1 << size;
    if (rule->scale_kind == LEVELS) {
        for (size_t level = 0; level < size; level++) {
            if (x == (double)level) return level;
        }
        return size;
    }
    if (!isfinite(x)) return inner + 2;
    if (rule->scale_kind == LOGARITHMIC) x = compress(x, rule->resolution);
    const double t = (x - rule->centre) * rule->scale;
    if (t < -32767.0) return inner;
    if (t > 32767.0) return inner + 1;
    return (size_t)(quantise(x, rule->centre, rule->scale) + 32768) >> (16 - size);
}

/* Section 12. */
static size_t find_cell(const double *x, size_t d, const struct operator *box,
                        const int64_t *cells) {
    size_t place = 0, all = 1;
    for (size_t i = 0; i < d; i++) all *= (size_t)cells[i];
    for (size_t i = 0; i < d; i++) {
        if (!isfinite(x[i])) return all;
        const int64_t u = quantise(x[i], box->centre[i], box->scale[i]);
        place = place * (size_t)cells[i] + (size_t)((u + 32767) * cells[i] / 65535);
    }
    return place;
}

/* Section 13; returns whether the record can be sketched. */
static int add_moments(const double *x, size_t d, const struct operator *box,
                       const struct moment_rule *rule, int64_t *sums) {
    int64_t u[40], square = 0, norm = 0;
    for (size_t i = 0; i < d; i++) {
        if (!isfinite(x[i])) return 0;
        const int steps = quantise(x[i], box->centre[i], box->scale[i]);
        u[i] = (int64_t)floor((steps + 8) / 16.0);
        if (u[i] > 2047) u[i] = 2047;
        if (u[i] < -2047) u[i] = -2047;
        square += u[i] * u[i];
    }
    while (norm * norm < square) norm++;
    if (square > (int64_t)rule->radius * rule->radius) {
        for (size_t i = 0; i < d; i++) u[i] = u[i] * rule->radius / norm;
    }
    *sums++ += rule->constant;
    for (size_t i = 0; i < d; i++) *sums++ += rule->mean_weight * u[i];
    for (size_t i = 0; i < d; i++) {
        for (size_t j = i; j < d; j++)
            *sums++ += (i == j ? rule->diagonal_weight : rule->weight) * u[i] * u[j];
    }
    return 1;
}

static void require_equal(const int64_t *found, int64_t *expected, size_t count, const char *what) {
    if (memcmp(found, expected, count * sizeof *found) != 0) {
        fprintf(stderr, "%s differs\n", what);
        abort();
    }
    memset(expected, 0, count * sizeof *expected);
}

static void check_statistics(const struct records *records, const double *x,
                             const struct operator *box, struct input *input) {
    const size_t d = records->d, n = records->n, few = d < 4 ? d : 4;
    const size_t most = 40 * (4096 + 3);
    int64_t *expected = allocate(most * sizeof *expected), cells[4];
    struct bin_rule *rules = allocate(d * sizeof *rules);
    size_t bins = 0;
    for (size_t k = 0; k < d; k++) {
        const int kind = (int)(take(input, 1) % 3);
        struct bin_rule rule = {k, kind, 1 + (uint32_t)take(input, 1) % 12, box->centre[k],
                                box->scale[k], 0.001 + (double)take(input, 2) / 1000.0};
        rules[k] = rule;
        for (size_t i = 0; i < n; i++) expected[bins + find_bin(x[i * d + k], &rule)]++;
        bins += sketch_count_bins(&rule);
    }
    int64_t *sums = allocate(bins * sizeof *sums);
    sketch_add_histogram(records, rules, d, sums);
    require_equal(sums, expected, bins, "histogram");
    free(sums);
    free(rules);

    size_t all = 1;
    for (size_t k = 0; k < few; k++) all *= (size_t)(cells[k] = 1 + (int64_t)take(input, 1) % 13);
    const struct records narrow = {n, few, records->columns, 0};
    for (size_t i = 0; i < n; i++) expected[find_cell(x + i * d, few, box, cells)]++;
    sums = allocate((all + 1) * sizeof *sums);
    sketch_add_grid(&narrow, box->centre, box->scale, cells, sums);
    require_equal(sums, expected, all + 1, "grid");
    free(sums);

    const size_t count = 1 + d + d * (d + 1) / 2;
    const struct moment_rule rule = {1 + (uint32_t)take(input, 2) % 8000, 3, 11, 5, 7};
    int64_t lost = 0;
    for (size_t i = 0; i < n; i++) lost += !add_moments(x + i * d, d, box, &rule, expected);
    sums = allocate(count * sizeof *sums);
    if (sketch_add_moments(records, box->centre, box->scale, &rule, sums) != lost) abort();
    require_equal(sums, expected, count, "moments");
    free(sums);
    free(expected);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct input input = {data, size, 0};
    const size_t d = 1 + take(&input, 1) % 40, n = take(&input, 1) % 150;
    const size_t r = 1 + take(&input, 1) % 40;
    const size_t groups = take(&input, 1) % 2 ? 1 : 1 + take(&input, 1) % 9;
    const size_t m = r * groups, layout = take(&input, 1) % 4;
    double *centre = allocate(d * sizeof *centre), *scale = allocate(d * sizeof *scale);
    int16_t *turns = allocate(d * m * sizeof *turns);
    double *x = allocate(n * d * sizeof *x);
    struct column *columns = allocate(d * sizeof *columns);
    int64_t *expected = allocate(2 * m * sizeof *expected);
    struct operator operator = {centre, scale, NULL, r, groups, 0, 0};
    operator.bits = 16 + (int)(take(&input, 1) % 17);
    operator.assignment_key = take(&input, 8);
    const uint64_t first = take(&input, 8);
    for (size_t k = 0; k < d; k++) {
        centre[k] = (double)take(&input, 1) / 64.0 - 2.0;
        scale[k] = 32767.0 / (0.25 + (double)take(&input, 1) / 64.0);
    }
    for (size_t i = 0; i < n * d; i++) x[i] = read_double(&input);
    for (size_t i = 0; i < d * m; i++) {
        int32_t turn = (int32_t)(take(&input, 2) % 65535) - 32767;
        turns[i] = (int16_t)turn;
    }
    /* Layouts: rows, rows of floats, columns, columns backwards. */
    const size_t item = layout == 1 ? sizeof(float) : sizeof(double);
    char *memory = allocate(n * d * item);
    for (size_t i = 0; i < n; i++) {
        for (size_t k = 0; k < d; k++) {
            size_t place = layout < 2 ? i * d + k : layout == 2 ? k * n + i : k * n + n - 1 - i;
            if (layout == 1) {
                float narrow = (float)x[i * d + k];
                x[i * d + k] = narrow;
                memcpy(memory + place * item, &narrow, item);
            } else {
                memcpy(memory + place * item, &x[i * d + k], item);
            }
        }
    }
    for (size_t k = 0; k < d; k++) {
        const ptrdiff_t wide = (ptrdiff_t)item;
        struct column column = {memory + k * item, (ptrdiff_t)d * wide, layout != 1};
        if (layout >= 2) column.data = memory + k * n * item + (layout == 3 && n ? (n - 1) * item : 0);
        if (layout >= 2) column.stride = layout == 2 ? wide : -wide;
        columns[k] = column;
    }
    const struct records records = {n, d, columns, layout < 2};
    const int64_t lost = sum_by_definition(x, n, d, turns, &operator, first, expected);
    for (const struct level *const *level = sketch_levels; *level; level++) {
        if (!(*level)->is_supported()) continue;
        int16_t *packed = allocate(sketch_packed_size(*level, d, r, groups));
        int64_t *sums = allocate(2 * m * sizeof *sums);
        sketch_pack(*level, turns, d, r, groups, NULL, packed);
        operator.packed = packed;
        if (sketch_add(*level, &records, &operator, first, sums) != lost ||
            memcmp(sums, expected, 2 * m * sizeof *sums) != 0) {
            fprintf(stderr, "%s differs: n=%zu d=%zu r=%zu groups=%zu layout=%zu\n",
                    (*level)->name, n, d, r, groups, layout);
            abort();
        }
        free(packed);
        free(sums);
    }
    check_statistics(&records, x, &operator, &input);
    free(centre);
    free(scale);
    free(turns);
    free(x);
    free(columns);
    free(expected);
    free(memory);
    return 0;
}

#ifndef SKETCH_LIBFUZZER
/* Runs `argv[1]` inputs drawn from a counter and names the levels that were tried. */
int main(int argc, char **argv) {
    const size_t runs = argc > 1 ? strtoul(argv[1], NULL, 10) : 1000, capacity = 40000;
    uint8_t *data = allocate(capacity);
    for (size_t run = 0; run < runs; run++) {
        /* Short ones too: what is missing reads as zero. */
        size_t size = mix(run, 0) % capacity;
        uint8_t *exact = allocate(size);
        for (size_t i = 0; i < size; i++) exact[i] = (uint8_t)(mix(run, 1 + i / 8) >> (i % 8 * 8));
        LLVMFuzzerTestOneInput(exact, size);
        free(exact);
    }
    free(data);
    for (const struct level *const *level = sketch_levels; *level; level++) {
        if ((*level)->is_supported()) printf("%s\n", (*level)->name);
    }
    return 0;
}
#endif
