/* The integer sketch in C: what the Python module, the levels and the fuzz target share.
 *
 * docs/explanation/sketch.md is the definition; names of its symbols are kept (u, W, b, A, S).
 */
#ifndef SFUMATO_SKETCH_H
#define SFUMATO_SKETCH_H

#include <stddef.h>
#include <stdint.h>

/* Rows of steps are handed to a level in multiples of this; the driver pads with zero rows. */
#define ROWS_PER_STEP 8
/* 32-bit sums of features cannot overflow within so many records: 65536 * 16380 < 2^31. */
#define MAX_ROWS_PER_SUM 65536
/* Rows that are quantised at a time. */
#define ROWS_PER_TILE 64

/* One instruction set. `lanes` features lie beside each other in a packed block of W. */
struct level {
    const char *name;
    int (*is_supported)(void);
    size_t lanes;
    /* Quantise n rows of d contiguous values into rows of 2 * pairs steps; centre and scale are
     * repeated for ROWS_PER_TILE rows. Returns whether some value is not finite. */
    int (*quantise_doubles)(const void *rows, size_t n, size_t d, const double *centre,
                            const double *scale, int16_t *steps);
    int (*quantise_floats)(const void *rows, size_t n, size_t d, const double *centre,
                           const double *scale, int16_t *steps);
    /* Add the features of n rows (a multiple of ROWS_PER_STEP, at most MAX_ROWS_PER_SUM) to
     * 64-bit sums of `blocks * lanes` cosines and as many sines. */
    void (*add_features)(const int16_t *steps, size_t n, size_t pairs, const int16_t *packed,
                         size_t blocks, int bits, int64_t *cosines, int64_t *sines);
    /* The group of each of n records from `counter` on: section 7 of the definition. */
    void (*assign_groups)(uint64_t key, uint64_t counter, size_t n, uint32_t groups,
                          uint32_t *group_of_row);
};

/* Fastest first; ends with a level without a name. The last real one runs everywhere. */
extern const struct level *const sketch_levels[];

/* A column of n values; `stride` in bytes, of any sign and alignment. */
struct column {
    const char *data;
    ptrdiff_t stride;
    int is_double;
};

struct records {
    size_t n, d;
    const struct column *columns;
    int is_contiguous; /* rows of d values of one type, one after the other, aligned or not */
};

/* Which features a record adds to: groups of r of the m places of `sums`. */
struct operator {
    const double *centre, *scale; /* d each */
    const int16_t *packed;        /* see sketch_pack */
    size_t r, groups;
    int bits;                     /* 16..32 */
    uint64_t assignment_key;      /* read when there are two groups or more */
};

/* Bytes of the packed form of W: d x (r * groups). */
size_t sketch_packed_size(const struct level *level, size_t d, size_t r, size_t groups);

/* Pack W (d x m, row by row) group by group: place p of a group holds feature places[p], or feature
 * p where `places` is NULL. Values of dimensions 2i and 2i+1 lie beside each other. */
void sketch_pack(const struct level *level, const int16_t *turns, size_t d, size_t r, size_t groups,
                 const int64_t *places, int16_t *packed);

/* Add the features of all records to sums[0 .. m-1] (cosines) and sums[m .. 2m-1] (sines), by place.
 * Returns the number of records that cannot be sketched, or -1 when memory is short, in which case
 * nothing has been added. */
int64_t sketch_add(const struct level *level, const struct records *records,
                   const struct operator *operator, uint64_t first_record, int64_t *sums);

/* The feature of one phase: step 3 of the definition, once, in plain C. */
void sketch_feature(uint16_t phase, int32_t *cosine, int32_t *sine);

/* ---- statistics without frequencies ---- */

enum { LINEAR, LOGARITHMIC, LEVELS };

/* How a value of one dimension finds its bin: section 11 of the definition. */
struct bin_rule {
    size_t dimension;
    int scale_kind;
    uint32_t size; /* log2 of the inner bins, 1..12; of a categorical dimension its levels */
    double centre, scale, resolution;
};

/* Bins of one dimension, with those beyond the box and the missing. */
size_t sketch_count_bins(const struct bin_rule *rule);

/* Count each record in one bin of each rule; the bins of the rules lie one after the other. */
void sketch_add_histogram(const struct records *records, const struct bin_rule *rules,
                          size_t n_rules, int64_t *sums);

/* Count each record in a cell, or in the place after the last. The product of the d numbers of
 * cells is below 2^31. */
void sketch_add_grid(const struct records *records, const double *centre, const double *scale,
                     const int64_t *cells, int64_t *sums);

struct moment_rule {
    uint32_t radius; /* at most 2^20 */
    int64_t constant, mean_weight, diagonal_weight, weight;
};

/* Add constant, means and products; returns the number of records that cannot be sketched, or -1
 * when memory is short, in which case nothing has been added. */
int64_t sketch_add_moments(const struct records *records, const double *centre,
                           const double *scale, const struct moment_rule *rule, int64_t *sums);

/* What a record adds to its cluster: section 14 of the definition. k clusters, d assigned and e
 * summed columns, of which some can be missing; further sets of k centres are candidates. */
struct cluster_rule {
    size_t k, d, e, n_optional, n_candidates;
    const int64_t *assigned, *summed, *optional; /* numbers of columns */
    const int64_t *centres, *weights;            /* k * d; d */
    const int64_t *origins, *radii;              /* k * e each */
    const int64_t *candidates;                   /* n_candidates * k * d */
    const int64_t *blocks;                       /* where each cluster's block begins, or -1 */
    int64_t cap;
    int64_t residual, count, square, beyond, presence, total; /* units */
    int is_l1;
    size_t totals; /* where they begin */
};

/* Add each record to the block of its nearest centre, and to the totals; returns the number of
 * records that lack an assigned coordinate, or -1 when memory is short, in which case nothing has
 * been added. */
int64_t sketch_add_clusters(const struct records *records, const double *centre,
                            const double *scale, const struct cluster_rule *rule, int64_t *sums);

#endif
