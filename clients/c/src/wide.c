#include "wide.h"

struct wide times_wide(struct wide a, uint32_t by) {
    uint64_t lowest = (a.low & UINT32_MAX) * by;
    uint64_t upper = (a.low >> 32) * by + (lowest >> 32);
    struct wide product = {a.high * by + (upper >> 32), upper << 32 | (lowest & UINT32_MAX)};
    return product;
}

static struct wide double_wide(struct wide a, uint64_t bit) {
    struct wide twice = {a.high << 1 | a.low >> 63, a.low << 1 | bit};
    return twice;
}

struct wide divide_wide(struct wide a, struct wide by, struct wide *rest) {
    struct wide quotient = {0, 0}, left = {0, 0};
    for (int i = 0; i < 128; i++) {
        left = double_wide(left, a.high >> 63);
        a = double_wide(a, 0);
        uint64_t fits = !is_less(left, by);
        struct wide taken = {by.high & (0 - fits), by.low & (0 - fits)};
        left = subtract_wide(left, taken);
        quotient = double_wide(quotient, fits);
    }
    if (rest) *rest = left;
    return quotient;
}
