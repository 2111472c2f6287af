/* Steps of a record, features of a phase, and the masks of a stream. */
#ifndef SFUMATO_SUMS_H
#define SFUMATO_SUMS_H

#include "sfumato.h"

struct feature {
    int16_t cosine, sine;
};

/* Return the integer feature of a phase in 2^-16 turns. */
struct feature compute_feature(uint16_t phase);

/* Return whether all values are finite; the steps of others are 0. */
bool quantise(const struct sfumato_plan *plan, const double *record, int16_t *steps);

/* Return the group of a record, below m / r. */
uint32_t find_group(const struct sfumato_plan *plan, const struct sfumato_window *window);

#endif
