/* Frequencies from a published seed, one feature after the other: W is never stored. */
#ifndef SFUMATO_FREQUENCIES_H
#define SFUMATO_FREQUENCIES_H

#include "hash.h"
#include "sfumato.h"

/* Normal variates of a stream: the polar method yields them in pairs. */
struct normals {
    struct shake stream;
    bool has_second;
    double second;
};

struct frequency_reader {
    const struct sfumato_plan *plan;
    uint32_t next; /* feature */
    struct normals directions, radii;
    struct shake sigmas, tail_sigmas;
};

/* Begin with feature 0. */
void open_frequencies(struct frequency_reader *reader, const struct sfumato_plan *plan);

/* Draw the d turns of the next feature; return false if one does not fit 16 bits. */
bool draw_turns(struct frequency_reader *reader, int16_t *turns);

/* Natural logarithm of a normal positive number, equal bit for bit on every machine. */
double compute_log(double x);
/* Round to the nearest integer, halves to even, for |x| < 2^51. */
double round_half_even(double x);

#endif
