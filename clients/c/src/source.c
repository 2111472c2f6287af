#include <string.h>

#include "noise.h"

void open_source(struct source *source, const struct sfumato_platform *platform) {
    memset(source, 0, sizeof *source);
    source->platform = platform;
    source->at = sizeof source->pool;
}

/* Through volatile, so that the compiler keeps it. */
static void wipe(void *data, size_t size) {
    volatile uint8_t *bytes = data;
    while (size-- > 0) bytes[size] = 0;
}

void close_source(struct source *source) {
    wipe(source->pool, sizeof source->pool);
    wipe(source->last, sizeof source->last);
}

static bool stands_still(const struct source *source) {
    const uint8_t *pool = source->pool;
    /* Each comes by chance with a probability below 2^-127. */
    return !memcmp(pool, pool + 1, sizeof source->pool - 1) ||
           !memcmp(pool, source->last, sizeof source->last);
}

static void refill(struct source *source) {
    const struct sfumato_platform *platform = source->platform;
    if (platform->draw_bytes(platform->context, source->pool, sizeof source->pool) ||
        stands_still(source))
        source->has_failed = true;
    memcpy(source->last, source->pool, sizeof source->last);
    source->at = 0;
}

void draw_bytes(struct source *source, uint8_t *into, size_t count) {
    for (size_t i = 0; i < count; i++) {
        if (source->at == sizeof source->pool && !source->has_failed) refill(source);
        /* A loop that rejects ends, because it asks whether its source has failed. */
        into[i] = source->has_failed ? 0 : source->pool[source->at];
        if (!source->has_failed) source->at++;
    }
}
