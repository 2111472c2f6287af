/* The parts of a board that a PC has too: entropy, and flash in a file. */
#ifndef SFUMATO_EXAMPLE_FILE_BOARD_H
#define SFUMATO_EXAMPLE_FILE_BOARD_H

#include <stdio.h>

#include "sfumato.h"

/* The two sectors, one after the other; the caller sets it. */
struct flash {
    FILE *file;
    size_t sector_size;
    /* Operations until the power fails, in the middle of the last one; 0: it never fails. */
    long power;
};

int read_entropy(void *context, uint8_t *into, size_t count);

/* Callbacks of `struct sfumato_storage`, whose context is a `struct flash`. */
int read_flash(void *context, unsigned sector, size_t offset, void *into, size_t size);
int write_flash(void *context, unsigned sector, size_t offset, const void *data, size_t size);
int erase_flash(void *context, unsigned sector);

#endif
