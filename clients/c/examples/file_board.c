#define _POSIX_C_SOURCE 200809L

#include "file_board.h"

#include <string.h>
#include <unistd.h>

enum { PIECE = 64, POWER_FAILED = 9 };

int read_entropy(void *context, uint8_t *into, size_t count) {
    (void)context;
    static FILE *generator;
    if (!generator) generator = fopen("/dev/urandom", "rb");
    return !generator || fread(into, 1, count, generator) != count;
}

static int find(const struct flash *flash, unsigned sector, size_t offset) {
    return fseek(flash->file, (long)(sector * flash->sector_size + offset), SEEK_SET);
}

int read_flash(void *context, unsigned sector, size_t offset, void *into, size_t size) {
    const struct flash *flash = context;
    return find(flash, sector, offset) || fread(into, 1, size, flash->file) != size;
}

/* Stored means stored: not in a buffer of the C library, nor in one of the system. */
static int sync_flash(const struct flash *flash) {
    return fflush(flash->file) || fsync(fileno(flash->file));
}

/* Return how many of some bytes are written before the power fails. */
static size_t limit(struct flash *flash, size_t size) {
    return flash->power == 1 ? size / 2 : size;
}

static int end_operation(struct flash *flash) {
    int failed = sync_flash(flash);
    if (flash->power == 1) {
        fprintf(stderr, "the power has failed while the flash was written\n");
        _exit(POWER_FAILED);
    }
    if (flash->power > 0) flash->power--;
    return failed;
}

int write_flash(void *context, unsigned sector, size_t offset, const void *data, size_t size) {
    struct flash *flash = context;
    size_t count = limit(flash, size);
    int failed =
        find(flash, sector, offset) || fwrite(data, 1, count, flash->file) != count;
    return end_operation(flash) || failed;
}

int erase_flash(void *context, unsigned sector) {
    struct flash *flash = context;
    uint8_t blank[PIECE];
    size_t count = limit(flash, flash->sector_size);
    int failed = find(flash, sector, 0);
    memset(blank, 0xff, sizeof blank);
    for (size_t at = 0; at < count && !failed; at += sizeof blank) {
        size_t size = count - at < sizeof blank ? count - at : sizeof blank;
        failed = fwrite(blank, 1, size, flash->file) != size;
    }
    return end_operation(flash) || failed;
}
