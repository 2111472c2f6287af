/* Steps of a record, features of a phase, and the masks of a stream. */
#ifndef SFUMATO_SUMS_H
#define SFUMATO_SUMS_H

#include "frequencies.h"
#include "sfumato.h"

struct feature {
    int16_t cosine, sine;
};

/* Return the integer feature of a phase in 2^-16 turns. */
struct feature compute_feature(uint16_t phase);

/* Return the plan's clusters, or NULL. A build of features alone has no code for them. */
static inline const struct sfumato_clusters *find_clusters(const struct sfumato_plan *plan) {
#ifdef SFUMATO_CLUSTERS
    return plan->clusters;
#else
    (void)plan;
    return NULL;
#endif
}

static inline size_t count_coordinates(const struct sfumato_plan *plan) {
    const struct sfumato_clusters *clusters = find_clusters(plan);
    return clusters ? clusters->n_coordinates : 2u * plan->n_frequencies;
}

static inline int16_t quantise_value(const struct sfumato_dimension *dimension, double x) {
    double t = (x - dimension->centre) * dimension->steps_per_unit;
    if (!(t > -SFUMATO_STEPS)) t = -SFUMATO_STEPS;
    if (!(t < SFUMATO_STEPS)) t = SFUMATO_STEPS;
    return (int16_t)round_half_even(t);
}

/* Return whether all values are finite; the steps of others are 0. */
bool quantise(const struct sfumato_plan *plan, const double *record, int16_t *steps);

/* Return the group of a record, below m / r. */
uint32_t find_group(const struct sfumato_plan *plan, const struct sfumato_window *window);

#ifdef SFUMATO_CLUSTERS
void add_to_clusters(const struct sfumato_plan *plan, const double *record, int64_t *sums);
#endif

#endif
