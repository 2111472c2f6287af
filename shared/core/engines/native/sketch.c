/* Chunks, groups and padding: all of the sketch that no instruction set changes. */
#include "sketch.h"

#include <float.h>
#include <stdlib.h>
#include <string.h>

#if FLT_EVAL_METHOD != 0
#error "the definition needs doubles without extended precision (on 32-bit x86: -msse2 -mfpmath=sse)"
#endif

extern const struct level level_avx512vnni, level_avx512, level_avx2, level_sse4,
    level_portable;

const struct level *const sketch_levels[] = {
#if defined(__x86_64__)
    &level_avx512vnni, &level_avx512, &level_avx2, &level_sse4,
#endif
    &level_portable, NULL,
};

/* Steps of one chunk of records stay in the first-level cache beside two blocks of W. */
#define CHUNK_BYTES (24 * 1024)
/* Steps of all groups together stay in the second-level cache. */
#define GROUPED_BYTES (1024 * 1024)
/* Unless there are so many groups that each would get too few records to fill a chunk. */
#define LEAST_ROWS_PER_GROUP 64

static size_t round_up(size_t n, size_t to) { return (n + to - 1) / to * to; }

static size_t blocks_per_group(const struct level *level, size_t r) {
    return (r + level->lanes - 1) / level->lanes;
}

static size_t count_pairs(size_t d) { return (d + 1) / 2; }

/* ---- W ---- */

size_t sketch_packed_size(const struct level *level, size_t d, size_t r, size_t groups) {
    return groups * blocks_per_group(level, r) * count_pairs(d) * level->lanes * 2 *
           sizeof(int16_t);
}

void sketch_pack(const struct level *level, const int16_t *turns, size_t d, size_t r, size_t groups,
                 const int64_t *places, int16_t *packed) {
    const size_t lanes = level->lanes, m = r * groups;
    for (size_t group = 0; group < groups; group++) {
        for (size_t first = 0; first < r; first += lanes) {
            for (size_t pair = 0; pair < count_pairs(d); pair++) {
                const int16_t *even = turns + 2 * pair * m;
                const int16_t *odd = 2 * pair + 1 < d ? even + m : NULL;
                for (size_t lane = 0; lane < lanes; lane++, packed += 2) {
                    packed[0] = packed[1] = 0;
                    if (first + lane >= r) continue;
                    size_t place = group * r + first + lane;
                    size_t feature = places ? (size_t)places[place] : place;
                    packed[0] = even[feature];
                    packed[1] = odd ? odd[feature] : 0;
                }
            }
        }
    }
}

/* ---- features ---- */

static int32_t high(int32_t x, int32_t y) {
    int32_t sum = x * y + 0x4000;
    /* A division that rounds down, said without shifting a negative number. */
    return sum >= 0 ? sum / 32768 : -((32767 - sum) / 32768);
}

void sketch_feature(uint16_t phase, int32_t *cosine, int32_t *sine) {
    int32_t t = 4 * (phase & 0x3FFF) + 2 - 32768;
    int32_t half_t = 2 * (phase & 0x3FFF) + 1 - 16384;
    int32_t t2 = high(t, t);
    int32_t even = high(t2, high(t2, 175) - 3567) + 11581;
    int32_t odd = high(half_t, high(t2, high(t2, 58) - 1871) + 18191);
    int quarter = phase >> 14;
    int32_t cosine_sign = quarter == 0 || quarter == 3 ? 1 : -1;
    int32_t sine_sign = quarter < 2 ? 1 : -1;
    *cosine = cosine_sign * even - sine_sign * odd;
    *sine = sine_sign * even + cosine_sign * odd;
}

/* ---- one call ---- */

struct work {
    const struct level *level;
    const struct records *records;
    const struct operator *operator;
    size_t pairs, width; /* steps of a row: 2 * pairs */
    double *centre, *scale;  /* repeated for ROWS_PER_TILE rows */
    double *gathered;        /* a tile of rows, when records are not contiguous */
    int16_t *tile;           /* steps of a tile */
    unsigned char *is_sketchable; /* of a tile */
    int64_t *partial;        /* cosines, then sines, of the padded places of a group */
};

/* Rows first .. first+n-1 side by side, as doubles. */
static void gather(struct work *work, size_t first, size_t n) {
    const size_t d = work->records->d;
    for (size_t i = 0; i < d; i++) {
        const struct column *column = work->records->columns + i;
        const char *from = column->data + (ptrdiff_t)first * column->stride;
        double *to = work->gathered + i;
        for (size_t row = 0; row < n; row++, from += column->stride, to += d) {
            if (column->is_double) {
                memcpy(to, from, sizeof(double));
            } else {
                float x;
                memcpy(&x, from, sizeof x);
                *to = x;
            }
        }
    }
}

static int is_finite(double x) { return x - x == 0.0; }

static double read_value(const struct column *column, size_t row) {
    const char *from = column->data + (ptrdiff_t)row * column->stride;
    if (column->is_double) {
        double x;
        memcpy(&x, from, sizeof x);
        return x;
    }
    float x;
    memcpy(&x, from, sizeof x);
    return x;
}

/* Quantise rows into work->tile; say which can be sketched. Returns how many cannot. */
static size_t quantise_tile(struct work *work, size_t first, size_t n) {
    const struct records *records = work->records;
    const struct column *column = records->columns;
    int some_not_finite;
    if (!records->is_contiguous) gather(work, first, n);
    const void *rows = work->gathered;
    if (records->is_contiguous) rows = column->data + (ptrdiff_t)first * column->stride;
    if (records->is_contiguous && !column->is_double) {
        some_not_finite = work->level->quantise_floats(rows, n, records->d, work->centre,
                                                       work->scale, work->tile);
    } else {
        some_not_finite = work->level->quantise_doubles(rows, n, records->d, work->centre,
                                                        work->scale, work->tile);
    }
    memset(work->is_sketchable, 1, n);
    if (!some_not_finite) return 0;
    size_t unsketchable = 0;
    for (size_t row = 0; row < n; row++) {
        for (size_t i = 0; i < records->d; i++) {
            if (!is_finite(read_value(records->columns + i, first + row)))
                work->is_sketchable[row] = 0;
        }
        unsketchable += !work->is_sketchable[row];
    }
    return unsketchable;
}

/* Add n rows of steps, followed by room for ROWS_PER_STEP - 1 more, to the places of a group. */
static void add_rows(struct work *work, int16_t *steps, size_t n, size_t group, int64_t *sums) {
    const struct operator *operator = work->operator;
    const size_t r = operator->r, m = r * operator->groups;
    const size_t blocks = blocks_per_group(work->level, r);
    const size_t places = blocks * work->level->lanes;
    const size_t padded = round_up(n, ROWS_PER_STEP);
    const int16_t *packed = operator->packed + group * places * work->width;
    memset(steps + n * work->width, 0, (padded - n) * work->width * sizeof *steps);
    memset(work->partial, 0, 2 * places * sizeof *work->partial);
    work->level->add_features(steps, padded, work->pairs, packed, blocks, operator->bits,
                              work->partial, work->partial + places);
    /* Rows of zero steps have phase zero in every feature. */
    int32_t cosine, sine;
    sketch_feature(0, &cosine, &sine);
    const int64_t more = (int64_t)(padded - n);
    for (size_t i = 0; i < r; i++) {
        sums[group * r + i] += work->partial[i] - more * cosine;
        sums[m + group * r + i] += work->partial[places + i] - more * sine;
    }
}

/* All records add to all features. `steps` holds `capacity` rows and padding. */
static size_t add_unmasked(struct work *work, int16_t *steps, size_t capacity, int64_t *sums) {
    size_t unsketchable = 0, filled = 0;
    for (size_t first = 0; first < work->records->n;) {
        size_t n = work->records->n - first;
        if (n > ROWS_PER_TILE) n = ROWS_PER_TILE;
        if (filled + n > capacity) {
            add_rows(work, steps, filled, 0, sums);
            filled = 0;
        }
        size_t lost = quantise_tile(work, first, n);
        unsketchable += lost;
        if (!lost) {
            memcpy(steps + filled * work->width, work->tile, n * work->width * sizeof *steps);
            filled += n;
        } else {
            for (size_t row = 0; row < n; row++) {
                if (!work->is_sketchable[row]) continue;
                memcpy(steps + filled++ * work->width, work->tile + row * work->width,
                       work->width * sizeof *steps);
            }
        }
        first += n;
    }
    if (filled) add_rows(work, steps, filled, 0, sums);
    return unsketchable;
}

struct grouping {
    uint32_t *group_of_row;
    size_t *ends;     /* of each group, in rows of `steps`; grows while the group is filled */
    size_t *starts;
    int16_t *steps;
};

/* Steps of a tile to the rows of their groups. With a constant number of pairs the copy becomes a few
 * moves; a call would cost more than they do. */
static inline __attribute__((always_inline)) void scatter(const struct work *work,
                                                          struct grouping *grouping, size_t from,
                                                          size_t n, const size_t pairs) {
    for (size_t row = 0; row < n; row++) {
        if (!work->is_sketchable[row]) continue;
        size_t to = grouping->ends[grouping->group_of_row[from + row]]++;
        memcpy(grouping->steps + to * 2 * pairs, work->tile + row * 2 * pairs,
               2 * pairs * sizeof(int16_t));
    }
}

static void scatter_tile(const struct work *work, struct grouping *grouping, size_t from,
                         size_t n) {
    switch (work->pairs) {
    case 1: scatter(work, grouping, from, n, 1); break;
    case 2: scatter(work, grouping, from, n, 2); break;
    case 3: scatter(work, grouping, from, n, 3); break;
    case 4: scatter(work, grouping, from, n, 4); break;
    case 5: scatter(work, grouping, from, n, 5); break;
    case 6: scatter(work, grouping, from, n, 6); break;
    case 7: scatter(work, grouping, from, n, 7); break;
    case 8: scatter(work, grouping, from, n, 8); break;
    default: scatter(work, grouping, from, n, work->pairs);
    }
}

/* Records first .. first+n-1, each to the features of its group. */
static size_t add_masked(struct work *work, struct grouping *grouping, size_t first, size_t n,
                         uint64_t counter, int64_t *sums) {
    const struct operator *operator = work->operator;
    const size_t groups = operator->groups;
    size_t unsketchable = 0, start = 0;
    memset(grouping->ends, 0, groups * sizeof *grouping->ends);
    work->level->assign_groups(operator->assignment_key, counter, n, (uint32_t)groups,
                               grouping->group_of_row);
    for (size_t row = 0; row < n; row++) grouping->ends[grouping->group_of_row[row]]++;
    for (size_t group = 0; group < groups; group++) {
        size_t count = grouping->ends[group];
        grouping->starts[group] = grouping->ends[group] = start;
        start += round_up(count, ROWS_PER_STEP);
    }
    for (size_t from = 0; from < n; from += ROWS_PER_TILE) {
        size_t rows = n - from < ROWS_PER_TILE ? n - from : ROWS_PER_TILE;
        unsketchable += quantise_tile(work, first + from, rows);
        scatter_tile(work, grouping, from, rows);
    }
    for (size_t group = 0; group < groups; group++) {
        size_t begin = grouping->starts[group], rows = grouping->ends[group] - begin;
        if (rows) add_rows(work, grouping->steps + begin * work->width, rows, group, sums);
    }
    return unsketchable;
}

static int64_t run_masked(struct work *work, uint64_t first_record, int64_t *sums) {
    const size_t groups = work->operator->groups, n = work->records->n;
    size_t rows = GROUPED_BYTES / (work->width * sizeof(int16_t));
    if (rows < LEAST_ROWS_PER_GROUP * groups) rows = LEAST_ROWS_PER_GROUP * groups;
    if (rows > MAX_ROWS_PER_SUM) rows = MAX_ROWS_PER_SUM;
    if (rows > n) rows = n;
    /* Parts of one size: a small rest would fill no group. */
    rows = (n + (n + rows - 1) / rows - 1) / ((n + rows - 1) / rows);
    const size_t padding = (groups < rows ? groups : rows) * (ROWS_PER_STEP - 1);
    struct grouping grouping = {
        malloc(rows * sizeof *grouping.group_of_row),
        malloc(groups * sizeof *grouping.ends),
        malloc(groups * sizeof *grouping.starts),
        malloc((rows + padding) * work->width * sizeof *grouping.steps),
    };
    int64_t unsketchable = -1;
    if (grouping.group_of_row && grouping.ends && grouping.starts && grouping.steps) {
        unsketchable = 0;
        for (size_t first = 0; first < n; first += rows) {
            size_t part = n - first < rows ? n - first : rows;
            unsketchable +=
                (int64_t)add_masked(work, &grouping, first, part, first_record + first, sums);
        }
    }
    free(grouping.group_of_row);
    free(grouping.ends);
    free(grouping.starts);
    free(grouping.steps);
    return unsketchable;
}

static int64_t run_unmasked(struct work *work, int64_t *sums) {
    size_t capacity = CHUNK_BYTES / (work->width * sizeof(int16_t));
    if (capacity < ROWS_PER_TILE) capacity = ROWS_PER_TILE;
    const size_t rows = round_up(capacity, ROWS_PER_STEP);
    int16_t *steps = malloc(rows * work->width * sizeof *steps);
    if (!steps) return -1;
    int64_t unsketchable = (int64_t)add_unmasked(work, steps, capacity, sums);
    free(steps);
    return unsketchable;
}

int64_t sketch_add(const struct level *level, const struct records *records,
                   const struct operator *operator, uint64_t first_record, int64_t *sums) {
    const size_t d = records->d, pairs = count_pairs(d);
    const size_t places = blocks_per_group(level, operator->r) * level->lanes;
    if (records->n == 0) return 0;
    struct work work = {
        .level = level,
        .records = records,
        .operator = operator,
        .pairs = pairs,
        .width = 2 * pairs,
        .centre = malloc(ROWS_PER_TILE * d * sizeof(double)),
        .scale = malloc(ROWS_PER_TILE * d * sizeof(double)),
        .gathered = malloc(ROWS_PER_TILE * d * sizeof(double)),
        .tile = malloc(ROWS_PER_TILE * 2 * pairs * sizeof(int16_t)),
        .is_sketchable = malloc(ROWS_PER_TILE),
        .partial = malloc(2 * places * sizeof(int64_t)),
    };
    int64_t unsketchable = -1;
    if (work.centre && work.scale && work.gathered && work.tile && work.is_sketchable &&
        work.partial) {
        for (size_t i = 0; i < ROWS_PER_TILE * d; i++) {
            work.centre[i] = operator->centre[i % d];
            work.scale[i] = operator->scale[i % d];
        }
        unsketchable = operator->groups == 1 ? run_unmasked(&work, sums)
                                              : run_masked(&work, first_record, sums);
    }
    free(work.centre);
    free(work.scale);
    free(work.gathered);
    free(work.tile);
    free(work.is_sketchable);
    free(work.partial);
    return unsketchable;
}
