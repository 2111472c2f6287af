#include "cbor.h"

#include <string.h>

struct writer open_writer(uint8_t *bytes, size_t capacity) {
    struct writer writer = {bytes, 0, capacity, false};
    return writer;
}

void write_raw(struct writer *writer, const void *data, size_t size) {
    if (size > writer->capacity - writer->size) writer->is_full = true;
    if (writer->is_full) return;
    memcpy(writer->bytes + writer->size, data, size);
    writer->size += size;
}

void write_head(struct writer *writer, enum cbor_major major, uint64_t argument) {
    uint8_t head[9] = {(uint8_t)((unsigned)major << 5)};
    unsigned log = 0, size;
    while (log < 3 && argument >> (8u << log)) log++;
    size = argument < 24 ? 0 : 1u << log;
    head[0] |= size ? (uint8_t)(24 + log) : (uint8_t)argument;
    for (unsigned i = size; i > 0; i--, argument >>= 8) head[i] = (uint8_t)argument;
    write_raw(writer, head, 1 + size);
}

void write_bytes(struct writer *writer, const void *data, size_t size) {
    write_head(writer, CBOR_BYTES, size);
    write_raw(writer, data, size);
}

void write_text(struct writer *writer, const char *text) {
    write_head(writer, CBOR_TEXT, strlen(text));
    write_raw(writer, text, strlen(text));
}

void write_null(struct writer *writer) {
    write_raw(writer, "\xf6", 1);
}

void write_bool(struct writer *writer, bool value) {
    write_raw(writer, value ? "\xf5" : "\xf4", 1);
}
