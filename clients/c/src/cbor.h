/* Deterministic CBOR (RFC 8949, section 4.2): written, never read. */
#ifndef SFUMATO_CBOR_H
#define SFUMATO_CBOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum cbor_major {
    CBOR_UNSIGNED,
    CBOR_NEGATIVE,
    CBOR_BYTES,
    CBOR_TEXT,
    CBOR_ARRAY,
    CBOR_MAP,
    CBOR_TAG,
};

struct writer {
    uint8_t *bytes;
    size_t size, capacity;
    bool is_full; /* something did not fit, so the bytes are not to be used */
};

struct writer open_writer(uint8_t *bytes, size_t capacity);
void write_raw(struct writer *writer, const void *data, size_t size);
/* Write the head of an item: a number's value, a text's size, an array's or a map's length. */
void write_head(struct writer *writer, enum cbor_major major, uint64_t argument);
void write_bytes(struct writer *writer, const void *data, size_t size);
void write_text(struct writer *writer, const char *text);
void write_null(struct writer *writer);
void write_bool(struct writer *writer, bool value);

#endif
