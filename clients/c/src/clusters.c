/* The statistic of a second look: what the records around each of given centres add up to. */
#include "sums.h"

#ifdef SFUMATO_CLUSTERS

#include <math.h>

/* A record in steps, and a bit for each value that is there. */
struct steps {
    int16_t values[SFUMATO_DIMENSIONS_MOST];
    uint32_t present;
};
_Static_assert(SFUMATO_DIMENSIONS_MOST <= 32, "each dimension needs a bit");

static bool has_value(const struct steps *steps, uint8_t dimension) {
    return steps->present >> dimension & 1;
}

static void quantise_present(const struct sfumato_plan *plan, const double *record,
                             struct steps *steps) {
    steps->present = 0;
    for (size_t i = 0; i < plan->n_dimensions; i++) {
        if (!isfinite(record[i])) continue;
        steps->values[i] = quantise_value(plan->dimensions + i, record[i]);
        steps->present |= UINT32_C(1) << i;
    }
}

static bool is_usable(const struct sfumato_clusters *clusters, const struct steps *steps) {
    for (size_t i = 0; i < clusters->n_assigned; i++)
        if (!has_value(steps, clusters->assigned[i])) return false;
    return true;
}

/* A square is below 2^32, and all weights together below 2^31. */
static int64_t measure_distance(const struct sfumato_clusters *clusters,
                                const struct steps *steps, const int16_t *centre) {
    int64_t distance = 0;
    for (size_t i = 0; i < clusters->n_assigned; i++) {
        int64_t away = steps->values[clusters->assigned[i]] - centre[i];
        distance += clusters->weights[i] * (away * away);
    }
    return distance;
}

/* Return the first of the nearest of a set of centres, and the squared distance. */
static size_t find_nearest(const struct sfumato_clusters *clusters, const struct steps *steps,
                           size_t set, int64_t *distance) {
    const int16_t *centre =
        clusters->centres + set * clusters->n_clusters * clusters->n_assigned;
    size_t nearest = 0;
    for (size_t j = 0; j < clusters->n_clusters; j++, centre += clusters->n_assigned) {
        int64_t own = measure_distance(clusters, steps, centre);
        if (j > 0 && own >= *distance) continue;
        nearest = j;
        *distance = own;
    }
    return nearest;
}

/* The product is below 2^63: `make_plan` checks the cap. */
static int64_t share(int64_t unit, int64_t distance, int64_t cap) {
    return unit * (distance < cap ? distance : cap) / cap;
}

/* Return the least integer whose square is not below a number that is below 2^36. */
static uint32_t root_up(uint64_t square) {
    uint32_t below = 0;
    if (!square) return 0;
    for (uint32_t bit = UINT32_C(1) << 17; bit > 0; bit /= 2)
        if ((uint64_t)(below + bit) * (below + bit) < square) below += bit;
    return below + 1;
}

/* Cut each residual to A, then shorten all to length A; return whether that changed them. */
static bool clip(const struct sfumato_clusters *clusters, int32_t *residuals,
                 const uint16_t *radii) {
    const uint32_t most = clusters->residual;
    bool is_clipped = false;
    uint64_t sum = 0;
    for (size_t i = 0; i < clusters->n_summed; i++) {
        uint32_t size = (uint32_t)(residuals[i] < 0 ? -residuals[i] : residuals[i]);
        size = size * most / radii[i];
        is_clipped = is_clipped || size > most;
        if (size > most) size = most;
        residuals[i] = residuals[i] < 0 ? -(int32_t)size : (int32_t)size;
        sum += clusters->is_l1 ? size : size * size;
    }
    uint32_t norm = clusters->is_l1 ? (uint32_t)sum : root_up(sum);
    if (norm <= most) return is_clipped;
    /* Truncated towards zero, like a division of magnitudes. */
    for (size_t i = 0; i < clusters->n_summed; i++)
        residuals[i] = residuals[i] * (int32_t)most / (int32_t)norm;
    return true;
}

/* Write the residuals from a cluster's origin; return whether clipping changed them. */
static bool find_residuals(const struct sfumato_clusters *clusters, const struct steps *steps,
                           size_t own, int32_t *residuals) {
    size_t first = own * clusters->n_summed;
    for (size_t i = 0; i < clusters->n_summed; i++) {
        uint8_t dimension = clusters->summed[i];
        residuals[i] = 0;
        if (has_value(steps, dimension))
            residuals[i] = steps->values[dimension] - clusters->origins[first + i];
    }
    return clip(clusters, residuals, clusters->radii + first);
}

void add_to_clusters(const struct sfumato_plan *plan, const double *record, int64_t *sums) {
    const struct sfumato_clusters *clusters = plan->clusters;
    struct steps steps;
    int32_t residuals[SFUMATO_DIMENSIONS_MOST];
    int64_t distance = 0;
    quantise_present(plan, record, &steps);
    if (!is_usable(clusters, &steps)) return;
    size_t own = find_nearest(clusters, &steps, 0, &distance);
    bool is_beyond = find_residuals(clusters, &steps, own, residuals) || distance >= clusters->cap;
    int64_t *at = sums + own * clusters->block_size;
    *at++ += clusters->count;
    if (clusters->square) *at++ += share(clusters->square, distance, clusters->cap);
    for (size_t i = 0; i < clusters->n_summed; i++) *at++ += residuals[i];
    for (size_t i = 0; i < clusters->n_optional; i++)
        *at++ += has_value(&steps, clusters->optional[i]) ? clusters->presence : 0;
    at = sums + clusters->n_clusters * clusters->block_size;
    if (clusters->beyond) *at++ += is_beyond ? clusters->beyond : 0;
    for (size_t set = 0; clusters->total && set <= clusters->n_candidates; set++) {
        find_nearest(clusters, &steps, set, &distance);
        *at++ += share(clusters->total, distance, clusters->cap);
    }
}

#endif
