/* The statistic of a second look: what records add up to in the clusters of given centres. */
#include <stdlib.h>
#include <string.h>

#include "sketch.h"
#include "tile.h"

/* Coordinates of a tile, column by column, and whether each is there. */
struct cluster_tile {
    int32_t *steps;
    unsigned char *is_present;
    int64_t *residuals; /* e, of one record */
    int64_t distances[TILE], nearest_distances[TILE];
    uint32_t nearest[TILE];
};

static void fill_tile(struct cluster_tile *tile, const struct records *records, size_t first,
                      size_t n, const double *centre, const double *scale) {
    double values[TILE];
    for (size_t i = 0; i < records->d; i++) {
        read_tile(records->columns + i, first, n, values);
        for (size_t row = 0; row < n; row++) {
            const double x = values[row];
            tile->is_present[i * TILE + row] = x - x == 0.0;
            tile->steps[i * TILE + row] = quantise((x - centre[i]) * scale[i]);
        }
    }
}

/* The nearest of k centres to each row, of equally near ones the first. */
static void find_nearest(struct cluster_tile *tile, size_t n, const struct cluster_rule *rule,
                         const int64_t *centres) {
    for (size_t j = 0; j < rule->k; j++, centres += rule->d) {
        memset(tile->distances, 0, sizeof tile->distances);
        for (size_t i = 0; i < rule->d; i++) {
            const int32_t *steps = tile->steps + (size_t)rule->assigned[i] * TILE;
            const int64_t weight = rule->weights[i], at = centres[i];
            for (size_t row = 0; row < n; row++) {
                const int64_t away = steps[row] - at;
                tile->distances[row] += weight * (away * away);
            }
        }
        for (size_t row = 0; row < n; row++) {
            if (j == 0 || tile->distances[row] < tile->nearest_distances[row]) {
                tile->nearest_distances[row] = tile->distances[row];
                tile->nearest[row] = (uint32_t)j;
            }
        }
    }
}

/* Clip the residuals of a record to length A; returns whether that changed them. */
static int clip(int64_t *residuals, const int64_t *radii, const struct cluster_rule *rule) {
    const int64_t most = rule->residual;
    int is_clipped = 0;
    uint64_t norm = 0;
    for (size_t i = 0; i < rule->e; i++) {
        int64_t size = (residuals[i] < 0 ? -residuals[i] : residuals[i]) * most / radii[i];
        is_clipped |= size > most;
        size = size < most ? size : most;
        residuals[i] = residuals[i] < 0 ? -size : size;
        norm += (uint64_t)(rule->is_l1 ? size : size * size);
    }
    if (!rule->is_l1 && norm > 0) norm = root_up(norm);
    if (norm <= (uint64_t)most) return is_clipped;
    /* Division rounds towards zero, as the definition does with sign and modulus. */
    for (size_t i = 0; i < rule->e; i++) residuals[i] = residuals[i] * most / (int64_t)norm;
    return 1;
}

static void add_row(struct cluster_tile *tile, size_t row, const struct cluster_rule *rule,
                    int64_t *sums) {
    const size_t nearest = tile->nearest[row];
    const int64_t distance = tile->nearest_distances[row];
    const int64_t capped = distance < rule->cap ? distance : rule->cap;
    int is_beyond = distance >= rule->cap;
    for (size_t i = 0; i < rule->e; i++) {
        const size_t place = (size_t)rule->summed[i] * TILE + row;
        tile->residuals[i] =
            tile->is_present[place] ? tile->steps[place] - rule->origins[nearest * rule->e + i] : 0;
    }
    is_beyond |= clip(tile->residuals, rule->radii + nearest * rule->e, rule);
    int64_t *total = sums + rule->totals;
    if (rule->beyond) *total++ += is_beyond ? rule->beyond : 0;
    if (rule->total) *total += rule->total * capped / rule->cap;
    if (rule->blocks[nearest] < 0) return;
    int64_t *block = sums + rule->blocks[nearest];
    *block++ += rule->count;
    if (rule->square) *block++ += rule->square * capped / rule->cap;
    for (size_t i = 0; i < rule->e; i++) *block++ += tile->residuals[i];
    for (size_t i = 0; rule->presence && i < rule->n_optional; i++)
        *block++ += tile->is_present[(size_t)rule->optional[i] * TILE + row] ? rule->presence : 0;
}

static int is_usable(const struct cluster_tile *tile, size_t row, const struct cluster_rule *rule) {
    for (size_t i = 0; i < rule->d; i++)
        if (!tile->is_present[(size_t)rule->assigned[i] * TILE + row]) return 0;
    return 1;
}

static void add_candidate(struct cluster_tile *tile, size_t n, const struct cluster_rule *rule,
                          size_t candidate, int64_t *sums) {
    find_nearest(tile, n, rule, rule->candidates + candidate * rule->k * rule->d);
    int64_t *total = sums + rule->totals + (rule->beyond != 0) + 1 + candidate;
    for (size_t row = 0; row < n; row++) {
        const int64_t distance = tile->nearest_distances[row];
        const int64_t capped = distance < rule->cap ? distance : rule->cap;
        if (is_usable(tile, row, rule)) *total += rule->total * capped / rule->cap;
    }
}

int64_t sketch_add_clusters(const struct records *records, const double *centre,
                            const double *scale, const struct cluster_rule *rule, int64_t *sums) {
    struct cluster_tile *tile = calloc(1, sizeof *tile);
    int64_t unusable = -1;
    if (!tile) return unusable;
    tile->steps = malloc(records->d * TILE * sizeof *tile->steps);
    tile->is_present = malloc(records->d * TILE);
    tile->residuals = malloc((rule->e + 1) * sizeof *tile->residuals);
    if (!tile->steps || !tile->is_present || !tile->residuals) goto release;
    unusable = 0;
    for (size_t first = 0; first < records->n; first += TILE) {
        const size_t n = records->n - first < TILE ? records->n - first : TILE;
        fill_tile(tile, records, first, n, centre, scale);
        find_nearest(tile, n, rule, rule->centres);
        for (size_t row = 0; row < n; row++) {
            if (is_usable(tile, row, rule)) {
                add_row(tile, row, rule, sums);
            } else {
                unusable++;
            }
        }
        for (size_t i = 0; rule->total && i < rule->n_candidates; i++)
            add_candidate(tile, n, rule, i, sums);
    }
release:
    free(tile->steps);
    free(tile->is_present);
    free(tile->residuals);
    free(tile);
    return unusable;
}
