/* Correctly rounded operations in a fixed order, as shared/core/frequencies.py defines. Compile
 * without contraction of multiply and add (-ffp-contract=off), and without -ffast-math. */
#include "frequencies.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "sums.h"

_Static_assert(DBL_MANT_DIG == 53 && FLT_RADIX == 2, "doubles must be those of IEEE 754");
_Static_assert(FLT_EVAL_METHOD == 0, "doubles must be computed without excess precision");

double round_half_even(double x) {
    /* Volatile, so that no compiler cancels the two. */
    volatile double shifted = x + 6755399441055744.0;
    return shifted - 6755399441055744.0;
}

/* Write x as f 2^e with f in [1/2, 1). */
static double split_exponent(double x, int *exponent) {
    uint64_t word;
    memcpy(&word, &x, sizeof word);
    *exponent = (int)(word >> 52) - 1022;
    word = (word & UINT64_C(0x800fffffffffffff)) | UINT64_C(1022) << 52;
    memcpy(&x, &word, sizeof x);
    return x;
}

double compute_log(double x) {
    int e;
    double f = split_exponent(x, &e);
    if (f < 0.7071067811865476) {
        f += f;
        e -= 1;
    }
    double z = (f - 1.0) / (f + 1.0);
    double w = z * z;
    double series = 1.0 / 21.0;
    for (int k = 9; k >= 0; k--) series = series * w + 1.0 / (2 * k + 1);
    return e * 0.6931471805599453 + 2.0 * (z * series);
}

/* (2 k + 1) 2^-53 for the top 52 bits k of the next word: exact, inside (0, 1). */
static double draw_unit(struct shake *stream) {
    return (double)(int64_t)(2 * (take_word(stream) >> 12) + 1) * 0x1p-53;
}

/* Marsaglia's polar method: attempt i reads words 2 i, 2 i + 1 and yields two numbers or none. */
static double draw_normal(struct normals *normals) {
    if (normals->has_second) {
        normals->has_second = false;
        return normals->second;
    }
    for (;;) {
        double u = 2.0 * draw_unit(&normals->stream) - 1.0;
        double v = 2.0 * draw_unit(&normals->stream) - 1.0;
        double s = u * u + v * v;
        if (s >= 1.0) continue;
        double factor = sqrt(-2.0 * compute_log(s) / s);
        normals->second = v * factor;
        normals->has_second = true;
        return u * factor;
    }
}

/* R = sqrt(q - 4) for the squared norm q of three normal variates, given q >= 4. */
static double draw_adapted_radius(struct normals *normals) {
    for (;;) {
        double q = 0.0;
        for (int i = 0; i < 3; i++) {
            double x = draw_normal(normals);
            q += x * x;
        }
        if (q >= 4.0) return sqrt(q - 4.0);
    }
}

static double draw_radius(struct frequency_reader *reader, double norm) {
    switch (reader->plan->radius_law.kind) {
        case SFUMATO_ADAPTED: return draw_adapted_radius(&reader->radii);
        case SFUMATO_FOLDED_GAUSSIAN: return fabs(draw_normal(&reader->radii));
        default: return norm;
    }
}

/* Uniform on [low, high], kept with probability low / sigma: density as 1 / sigma. */
static double draw_log_uniform(struct shake *stream, double low, double high) {
    if (low == high) return low;
    for (;;) {
        double sigma = low + (high - low) * draw_unit(stream);
        if (draw_unit(stream) * sigma <= low) return sigma;
    }
}

static double draw_sigma(struct frequency_reader *reader) {
    const struct sfumato_radius_law *law = &reader->plan->radius_law;
    double j = reader->next;
    if (floor((j + 1.0) * law->tail_share) > floor(j * law->tail_share))
        return draw_log_uniform(&reader->tail_sigmas, law->sigma_high, law->tail_high);
    return draw_log_uniform(&reader->sigmas, law->sigma_low, law->sigma_high);
}

void open_frequencies(struct frequency_reader *reader, const struct sfumato_plan *plan) {
    reader->plan = plan;
    reader->next = 0;
    reader->directions.has_second = reader->radii.has_second = false;
    open_stream(&reader->directions.stream, plan->seed, "frequencies/direction");
    open_stream(&reader->radii.stream, plan->seed, "frequencies/radius");
    open_stream(&reader->sigmas, plan->seed, "frequencies/sigma");
    open_stream(&reader->tail_sigmas, plan->seed, "frequencies/sigma-tail");
}

bool draw_turns(struct frequency_reader *reader, int16_t *turns) {
    const struct sfumato_plan *plan = reader->plan;
    double direction[SFUMATO_DIMENSIONS_MOST], squares = 0.0;
    bool fits = true;
    for (size_t i = 0; i < plan->n_dimensions; i++) {
        direction[i] = draw_normal(&reader->directions);
        squares += direction[i] * direction[i];
    }
    double norm = sqrt(squares);
    double radius = draw_radius(reader, norm);
    double factor = radius / (norm * draw_sigma(reader));
    double unit = (double)(UINT64_C(1) << plan->turn_bits);
    for (size_t i = 0; i < plan->n_dimensions; i++) {
        double turn = factor * direction[i] * plan->dimensions[i].turns_per_step;
        double rounded = round_half_even(turn * unit);
        fits = fits && fabs(rounded) <= SFUMATO_STEPS;
        turns[i] = fits ? (int16_t)rounded : 0;
    }
    reader->next++;
    return fits;
}

static size_t write_decimal(char *into, unsigned number) {
    size_t size = number < 10 ? 0 : write_decimal(into, number / 10);
    into[size] = (char)('0' + number % 10);
    return size + 1;
}

/* Write "d,m,b;", which begins what the digest covers. */
static size_t write_shape(char *into, const struct sfumato_plan *plan) {
    size_t at = write_decimal(into, plan->n_dimensions);
    into[at++] = ',';
    at += write_decimal(into + at, plan->n_frequencies);
    into[at++] = ',';
    at += write_decimal(into + at, plan->turn_bits);
    into[at++] = ';';
    return at;
}

/* The digest goes dimension by dimension, so the features are drawn again for each. */
enum sfumato_error sfumato_check_frequencies(const struct sfumato_plan *plan) {
    struct frequency_reader reader;
    struct sha256 hash;
    char shape[24];
    uint8_t digest[SFUMATO_DIGEST];
    int16_t turns[SFUMATO_DIMENSIONS_MOST];
    if (find_clusters(plan)) return SFUMATO_OK;
    sha256_begin(&hash);
    sha256_add(&hash, shape, write_shape(shape, plan));
    for (size_t i = 0; i < plan->n_dimensions; i++) {
        open_frequencies(&reader, plan);
        for (size_t j = 0; j < plan->n_frequencies; j++) {
            if (!draw_turns(&reader, turns)) return SFUMATO_FREQUENCIES;
            const int16_t *stored = plan->turns ? plan->turns + j * plan->n_dimensions : turns;
            if (stored[i] != turns[i]) return SFUMATO_FREQUENCIES;
            uint8_t bytes[2] = {(uint8_t)turns[i], (uint8_t)((uint16_t)turns[i] >> 8)};
            sha256_add(&hash, bytes, sizeof bytes);
        }
    }
    sha256_finish(&hash, digest);
    return memcmp(digest, plan->frequencies_digest, sizeof digest) ? SFUMATO_FREQUENCIES
                                                                   : SFUMATO_OK;
}
