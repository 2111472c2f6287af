#include "sums.h"

#include <math.h>
#include <string.h>

#include "hash.h"

/* Records that share one permutation. */
#define BLOCK_RECORDS 65536

/* The rounded high half of a product of two 16-bit numbers. */
static int32_t multiply_high(int32_t a, int32_t b) {
    /* Floor: compilers may shift a negative number to the right in their own way. */
    int32_t product = a * b + 0x4000;
    return product >= 0 ? product >> 15 : -((-product + 0x7fff) >> 15);
}

struct feature compute_feature(uint16_t phase) {
    int32_t t = 4 * (phase & 0x3fff) + 2 - 0x8000;
    int32_t t2 = multiply_high(t, t);
    int32_t half = t / 2; /* t is even */
    int32_t even = multiply_high(t2, multiply_high(t2, 175) - 3567) + 11581;
    int32_t odd =
        multiply_high(half, multiply_high(t2, multiply_high(t2, 58) - 1871) + 18191);
    unsigned quarter = phase >> 14;
    int32_t c = quarter == 0 || quarter == 3 ? 1 : -1;
    int32_t s = quarter < 2 ? 1 : -1;
    struct feature feature = {(int16_t)(c * even - s * odd), (int16_t)(s * even + c * odd)};
    return feature;
}

bool quantise(const struct sfumato_plan *plan, const double *record, int16_t *steps) {
    bool is_finite = true;
    for (size_t i = 0; i < plan->n_dimensions; i++) is_finite = is_finite && isfinite(record[i]);
    for (size_t i = 0; i < plan->n_dimensions; i++)
        steps[i] = is_finite ? quantise_value(plan->dimensions + i, record[i]) : 0;
    return is_finite;
}

/* Word number `index` of SplitMix64 started at `key`. */
static uint64_t mix(uint64_t key, uint64_t index) {
    uint64_t z = key + (index + 1) * UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

static bool is_masked(const struct sfumato_plan *plan) {
    return plan->measurements_per_record < plan->n_frequencies;
}

uint32_t find_group(const struct sfumato_plan *plan, const struct sfumato_window *window) {
    uint64_t groups = plan->n_frequencies / plan->measurements_per_record;
    uint64_t word = mix(window->mask_keys[0], window->next_record);
    /* The high word of their product. */
    uint64_t carry = ((word & UINT32_MAX) * groups) >> 32;
    return (uint32_t)(((word >> 32) * groups + carry) >> 32);
}

/* Whether feature a stands before feature b in the permutation that begins with word `first`. */
static bool stands_before(uint64_t key, uint64_t first, uint16_t a, uint16_t b) {
    uint64_t x = mix(key, first + a), y = mix(key, first + b);
    return x < y || (x == y && a < b);
}

/* Sort the features of a block by their words. Words are computed again rather than stored. */
static void order_features(const struct sfumato_plan *plan, struct sfumato_window *window,
                           uint64_t block) {
    uint64_t key = window->mask_keys[1], first = block * plan->n_frequencies;
    uint16_t *order = window->order, m = plan->n_frequencies;
    for (uint16_t j = 0; j < m; j++) order[j] = j;
    for (uint16_t gap = m / 2; gap > 0; gap /= 2) {
        for (uint16_t i = gap; i < m; i++) {
            uint16_t moved = order[i], place = i;
            for (; place >= gap && stands_before(key, first, moved, order[place - gap]);
                 place = (uint16_t)(place - gap))
                order[place] = order[place - gap];
            order[place] = moved;
        }
    }
    window->ordered_block = block;
}

static void derive_mask_keys(const struct sfumato_plan *plan, const uint8_t *stream_id,
                                 size_t size, uint64_t keys[2]) {
    static const char DIGITS[] = "0123456789abcdef";
    struct shake shake;
    shake_begin(&shake);
    shake_absorb(&shake, "sfumato/v1/masks/", 17);
    for (size_t i = 0; i < size; i++) {
        shake_absorb(&shake, DIGITS + (stream_id[i] >> 4), 1);
        shake_absorb(&shake, DIGITS + (stream_id[i] & 15), 1);
    }
    shake_absorb(&shake, "", 1);
    shake_absorb(&shake, plan->seed, SFUMATO_DIGEST);
    shake_finish(&shake);
    keys[0] = take_word(&shake);
    keys[1] = take_word(&shake);
}

void sfumato_open_window(const struct sfumato_plan *plan, const uint8_t *stream_id, size_t size,
                         struct sfumato_window *window) {
    memset(window->sums, 0, count_coordinates(plan) * sizeof *window->sums);
    window->n_records = 0;
    window->ordered_block = UINT64_MAX;
    if (is_masked(plan)) derive_mask_keys(plan, stream_id, size, window->mask_keys);
}

/* The sum may wrap modulo 2^32: 2^bits divides 2^32, so it wraps by whole turns. */
static uint16_t compute_phase(const struct sfumato_plan *plan, const int16_t *steps,
                              const int16_t *turns) {
    uint32_t phase = 0;
    for (size_t i = 0; i < plan->n_dimensions; i++)
        phase += (uint32_t)((int32_t)steps[i] * turns[i]);
    return (uint16_t)((phase << (32 - plan->turn_bits)) >> 16);
}

static void add_feature(const struct sfumato_plan *plan, int64_t *sums, size_t j,
                        const int16_t *steps, const int16_t *turns) {
    struct feature feature = compute_feature(compute_phase(plan, steps, turns));
    sums[j] += feature.cosine;
    sums[plan->n_frequencies + j] += feature.sine;
}

static bool is_carried(const struct sfumato_plan *plan, const struct sfumato_window *window,
                       uint32_t group, uint16_t feature) {
    const uint16_t *members = window->order + (size_t)group * plan->measurements_per_record;
    for (size_t i = 0; i < plan->measurements_per_record; i++)
        if (members[i] == feature) return true;
    return false;
}

static void add_all(const struct sfumato_plan *plan, struct sfumato_window *window,
                    const int16_t *steps) {
    uint32_t group = is_masked(plan) ? find_group(plan, window) : 0;
    struct frequency_reader reader;
    int16_t drawn[SFUMATO_DIMENSIONS_MOST];
    if (!plan->turns) open_frequencies(&reader, plan);
    for (uint16_t j = 0; j < plan->n_frequencies; j++) {
        const int16_t *turns = drawn;
        if (plan->turns) turns = plan->turns + (size_t)j * plan->n_dimensions;
        else draw_turns(&reader, drawn);
        if (!is_masked(plan) || is_carried(plan, window, group, j))
            add_feature(plan, window->sums, j, steps, turns);
    }
}

static void add_record(const struct sfumato_plan *plan, struct sfumato_window *window,
                       const double *record) {
    int16_t steps[SFUMATO_DIMENSIONS_MOST];
#ifdef SFUMATO_CLUSTERS
    if (plan->clusters) {
        add_to_clusters(plan, record, window->sums);
        return;
    }
#endif
    if (quantise(plan, record, steps)) add_all(plan, window, steps);
}

bool sfumato_add(const struct sfumato_plan *plan, struct sfumato_window *window,
                 const double *record) {
    if (window->n_records == plan->most_records) return false;
    if (is_masked(plan) && window->next_record / BLOCK_RECORDS != window->ordered_block)
        order_features(plan, window, window->next_record / BLOCK_RECORDS);
    add_record(plan, window, record);
    window->n_records++;
    window->next_record++;
    return true;
}
