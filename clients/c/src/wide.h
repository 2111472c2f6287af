/* Whole numbers below 2^128. */
#ifndef SFUMATO_WIDE_H
#define SFUMATO_WIDE_H

#include <stdbool.h>
#include <stdint.h>

struct wide {
    uint64_t high, low;
};

static inline struct wide make_wide(uint64_t low) {
    struct wide x = {0, low};
    return x;
}

static inline bool is_less(struct wide a, struct wide b) {
    return a.high < b.high || (a.high == b.high && a.low < b.low);
}

static inline struct wide add_wide(struct wide a, struct wide b) {
    struct wide sum = {a.high + b.high, a.low + b.low};
    sum.high += sum.low < a.low;
    return sum;
}

static inline struct wide subtract_wide(struct wide a, struct wide b) {
    struct wide rest = {a.high - b.high - (a.low < b.low), a.low - b.low};
    return rest;
}

/* Multiply by a number below 2^32. */
struct wide times_wide(struct wide a, uint32_t by);

/* Divide by a number from 1 to 2^127, in the same time whatever the numbers. */
struct wide divide_wide(struct wide a, struct wide by, struct wide *rest);

#endif
