#include "noise.h"

#include <stddef.h>
#include <string.h>

#include "sums.h"

/* A sum and its bound are far smaller, so larger noise would be clamped to the same coordinate. */
#define NOISE_MOST (INT64_C(1) << 62)

enum { COORDINATE_BITS = 17, MULTIPLE_BITS = 6 };
_Static_assert(DIGITS + MOST_ABOVE_BITS - LEAST_RATE_BITS + COORDINATE_BITS + MULTIPLE_BITS < 127,
               "the multiples of the largest radius must fit a wide number");

/* The polygon's largest coordinate, and its facets (p, q, c): a point lies in t P if and only if
 * p high + q low <= c t for each, with the larger and the smaller of its magnitudes. */
enum { REACH = 12, FACETS = 4 };
static const uint8_t FACET[FACETS][3] = {{1, 0, 12}, {1, 1, 17}, {2, 1, 27}, {3, 1, 38}};

/* A number of either sign. */
struct signed_wide {
    bool is_negative;
    struct wide magnitude;
};

static struct wide read_wide(const uint8_t bytes[16]) {
    struct wide x = {0, 0};
    for (int i = 8; i-- > 0;) {
        x.low = x.low << 8 | bytes[i];
        x.high = x.high << 8 | bytes[8 + i];
    }
    return x;
}

struct wide draw_below(struct source *source, struct wide n) {
    const struct wide most = {UINT64_MAX, UINT64_MAX};
    struct wide last_start = subtract_wide(most, subtract_wide(n, make_wide(1)));
    for (;;) {
        uint8_t bytes[16];
        struct wide rest;
        draw_bytes(source, bytes, sizeof bytes);
        struct wide drawn = read_wide(bytes);
        divide_wide(drawn, n, &rest);
        /* Beyond the largest multiple of n there are fewer than n numbers: drawn again. */
        bool is_whole = !is_less(last_start, subtract_wide(drawn, rest));
        if (is_whole || source->has_failed) return rest;
    }
}

struct wide draw_geometric(struct source *source, uint64_t rate) {
    return divide_wide(draw_exponent(source), make_wide(rate), NULL);
}

/* Draw a number uniform on -reach .. reach. */
static struct signed_wide draw_centred(struct source *source, struct wide reach) {
    struct wide drawn =
        draw_below(source, add_wide(times_wide(reach, 2), make_wide(1)));
    struct signed_wide x = {is_less(drawn, reach), {0, 0}};
    x.magnitude = x.is_negative ? subtract_wide(reach, drawn) : subtract_wide(drawn, reach);
    return x;
}

static bool is_in_polygon(struct wide a, struct wide b, struct wide radius) {
    struct wide high = is_less(a, b) ? b : a, low = is_less(a, b) ? a : b;
    for (int i = 0; i < FACETS; i++) {
        struct wide left = add_wide(times_wide(high, FACET[i][0]), times_wide(low, FACET[i][1]));
        if (is_less(times_wide(radius, FACET[i][2]), left)) return false;
    }
    return true;
}

static int64_t saturate(struct signed_wide x) {
    bool is_large = x.magnitude.high || x.magnitude.low > (uint64_t)NOISE_MOST;
    int64_t magnitude = is_large ? NOISE_MOST : (int64_t)x.magnitude.low;
    return x.is_negative ? -magnitude : magnitude;
}

void draw_in_polygon(struct source *source, struct wide radius, int64_t point[2]) {
    struct wide reach = times_wide(radius, REACH);
    for (;;) {
        struct signed_wide x = draw_centred(source, reach), y = draw_centred(source, reach);
        if (!is_in_polygon(x.magnitude, y.magnitude, radius) && !source->has_failed) continue;
        point[0] = saturate(x);
        point[1] = saturate(y);
        return;
    }
}

int64_t draw_laplace(struct source *source, uint64_t rate) {
    for (;;) {
        uint8_t sign;
        struct signed_wide y = {false, draw_geometric(source, rate)};
        draw_bytes(source, &sign, 1);
        y.is_negative = sign > 127;
        /* One zero of two. */
        bool is_zero = !y.magnitude.high && !y.magnitude.low;
        if (!y.is_negative || !is_zero || source->has_failed) return saturate(y);
    }
}

/* One radius for all features, which never leaves this call; each feature is uniform in its
 * polygon. */
static void add_knorm(const struct sfumato_plan *plan, struct source *source, int64_t *sums) {
    size_t m = plan->n_frequencies;
    struct wide radius = make_wide(plan->least_radius);
    for (size_t i = 0; i <= 2 * m; i++)
        radius = add_wide(radius, draw_geometric(source, plan->rate));
    for (size_t j = 0; j < m; j++) {
        int64_t point[2];
        draw_in_polygon(source, radius, point);
        sums[j] += point[0];
        sums[m + j] += point[1];
    }
}

static void add_laplace(const struct sfumato_plan *plan, struct source *source, int64_t *sums) {
    for (size_t i = 0; i < count_coordinates(plan); i++)
        sums[i] += draw_laplace(source, plan->rate);
}

/* Clip each coordinate to limits that depend on nothing secret. */
static void clamp(const struct sfumato_plan *plan, int64_t *sums, uint32_t n_records) {
    const struct sfumato_clusters *clusters = find_clusters(plan);
    int64_t largest = clusters ? clusters->largest : SFUMATO_AMPLITUDE;
    int64_t limit = (int64_t)n_records * largest + plan->noise_bound;
    if (limit > plan->coordinate_bound) limit = plan->coordinate_bound;
    for (size_t i = 0; i < count_coordinates(plan); i++) {
        if (sums[i] > limit) sums[i] = limit;
        if (sums[i] < -limit) sums[i] = -limit;
        /* Without residuals no sum is negative before the noise. */
        if (clusters && !clusters->residual && sums[i] < -plan->noise_bound)
            sums[i] = -plan->noise_bound;
    }
}

/* What the widths above and the saturation rest on. */
static bool is_drawable(const struct sfumato_plan *plan) {
    return plan->rate >> LEAST_RATE_BITS && plan->coordinate_bound < NOISE_MOST / 2 &&
           plan->noise_bound >= 0 && plan->noise_bound <= plan->coordinate_bound;
}

enum sfumato_error sfumato_add_noise(const struct sfumato_plan *plan,
                                     const struct sfumato_platform *platform, int64_t *sums,
                                     uint32_t n_records) {
    struct source source;
    if (!is_drawable(plan)) return SFUMATO_PLAN;
    open_source(&source, platform);
    /* What is drawn, and for how long, depends on no sum: additions take the same time for all. */
    if (plan->mechanism == SFUMATO_KNORM) add_knorm(plan, &source, sums);
    else add_laplace(plan, &source, sums);
    close_source(&source);
    clamp(plan, sums, n_records);
    /* A sum without its noise must not be found. */
    if (source.has_failed) memset(sums, 0, count_coordinates(plan) * sizeof *sums);
    return source.has_failed ? SFUMATO_ENTROPY : SFUMATO_OK;
}
