/* A signed header (COSE_Sign1, RFC 9052) that carries the digest of a payload. */
#include <string.h>

#include "cbor.h"
#include "hash.h"
#include "sfumato.h"

enum {
    HEADER_MOST = 360,
    PROTECTED_MOST = 88,
    SIGNED_MOST = HEADER_MOST + PROTECTED_MOST + 24,
    EDDSA = -8,
    SIGN1 = 18,
};
_Static_assert(HEADER_MOST + PROTECTED_MOST + SFUMATO_SIGNATURE <= SFUMATO_ENVELOPE_MOST,
               "a message must fit the envelope that callers leave room for");

static const char HEADER_TYPE[] = "application/vnd.sfumato.sketch-header+cbor";

/* The server refuses more than is checked here: invisible characters, and text that is not NFC. */
static bool is_stream_name(const char *name) {
    size_t size = 0;
    for (; name[size] && size <= SFUMATO_STREAM_MOST; size++)
        if ((uint8_t)name[size] < 0x20 || name[size] == 0x7f) return false;
    return size > 0 && size <= SFUMATO_STREAM_MOST;
}

/* Write a coordinate in two's complement, little-endian. */
static void encode_coordinate(int64_t value, size_t width, uint8_t bytes[8]) {
    for (size_t i = 0; i < width; i++) bytes[i] = (uint8_t)((uint64_t)value >> (8 * i));
}

static bool fits(int64_t value, size_t width) {
    int64_t limit = INT64_MAX >> (64 - 8 * width);
    return value <= limit && value >= -limit - 1;
}

/* Compute the payload's digest; return false if a coordinate does not fit. */
static bool hash_payload(const int64_t *released, size_t n, size_t width, uint8_t digest[32]) {
    struct sha256 hash;
    uint8_t bytes[8];
    sha256_begin(&hash);
    for (size_t i = 0; i < n; i++) {
        if (!fits(released[i], width)) return false;
        encode_coordinate(released[i], width, bytes);
        sha256_add(&hash, bytes, width);
    }
    sha256_finish(&hash, digest);
    return true;
}

static void write_key(struct writer *writer, unsigned key) {
    write_head(writer, CBOR_UNSIGNED, key);
}

static void write_digests(struct writer *writer, const struct sfumato_header *header) {
    const uint8_t *digests[] = {header->study, header->plan_digest, header->device};
    for (unsigned i = 0; i < 3; i++) {
        write_key(writer, 3 + i);
        write_bytes(writer, digests[i], SFUMATO_DIGEST);
    }
}

static void write_slots(struct writer *writer, const struct sfumato_header *header) {
    if (!header->by_time) {
        write_null(writer);
        return;
    }
    write_head(writer, CBOR_ARRAY, 2);
    write_head(writer, CBOR_UNSIGNED, header->first_slot);
    write_head(writer, CBOR_UNSIGNED, header->last_slot);
}

static void write_count(struct writer *writer, const struct sfumato_header *header) {
    write_key(writer, 9);
    if (header->is_public) write_head(writer, CBOR_UNSIGNED, header->n_records);
    else write_null(writer);
    write_key(writer, 10);
    write_bool(writer, header->is_public);
}

static void write_header(struct writer *writer, const struct sfumato_header *header,
                         size_t payload_size, const uint8_t payload_digest[SFUMATO_DIGEST]) {
    write_head(writer, CBOR_MAP, header->has_block ? 15 : 14);
    write_key(writer, 1);
    write_head(writer, CBOR_UNSIGNED, 1);
    write_key(writer, 2);
    write_text(writer, "local.v1");
    write_digests(writer, header);
    write_key(writer, 6);
    write_text(writer, header->stream);
    write_key(writer, 7);
    write_head(writer, CBOR_UNSIGNED, header->sequence);
    write_key(writer, 8);
    write_slots(writer, header);
    write_count(writer, header);
    write_key(writer, 11);
    write_bytes(writer, header->report_id, sizeof header->report_id);
    write_key(writer, 12);
    write_head(writer, CBOR_ARRAY, 0);
    write_key(writer, 13);
    write_head(writer, CBOR_UNSIGNED, payload_size);
    write_key(writer, 14);
    write_bytes(writer, payload_digest, SFUMATO_DIGEST);
    if (!header->has_block) return;
    write_key(writer, 15);
    write_head(writer, CBOR_UNSIGNED, header->block);
}

static void write_protected(struct writer *writer, const uint8_t *device) {
    write_head(writer, CBOR_MAP, 3);
    write_key(writer, 1);
    write_head(writer, CBOR_NEGATIVE, -1 - EDDSA);
    write_key(writer, 3);
    write_text(writer, HEADER_TYPE);
    write_key(writer, 4);
    write_bytes(writer, device, SFUMATO_DIGEST);
}

static enum sfumato_error sign(const struct writer *protected_header, const struct writer *header,
                               const struct sfumato_platform *platform,
                               uint8_t signature[SFUMATO_SIGNATURE]) {
    uint8_t bytes[SIGNED_MOST];
    struct writer writer = open_writer(bytes, sizeof bytes);
    write_head(&writer, CBOR_ARRAY, 4);
    write_text(&writer, "Signature1");
    write_bytes(&writer, protected_header->bytes, protected_header->size);
    write_bytes(&writer, "", 0);
    write_bytes(&writer, header->bytes, header->size);
    if (writer.is_full) return SFUMATO_CAPACITY;
    return platform->sign(platform->context, bytes, writer.size, signature) ? SFUMATO_SIGNING
                                                                            : SFUMATO_OK;
}

static void write_payload(struct writer *writer, const int64_t *released, size_t n, size_t width) {
    uint8_t bytes[8];
    write_head(writer, CBOR_BYTES, n * width);
    for (size_t i = 0; i < n; i++) {
        encode_coordinate(released[i], width, bytes);
        write_raw(writer, bytes, width);
    }
}

enum sfumato_error sfumato_encode_message(const struct sfumato_header *header,
                                          const int64_t *released, size_t n, size_t width,
                                          const struct sfumato_platform *platform, uint8_t *into,
                                          size_t capacity, size_t *size) {
    uint8_t header_bytes[HEADER_MOST], protected_bytes[PROTECTED_MOST], digest[SFUMATO_DIGEST];
    uint8_t signature[SFUMATO_SIGNATURE];
    struct writer signed_part = open_writer(header_bytes, sizeof header_bytes);
    struct writer protected_part = open_writer(protected_bytes, sizeof protected_bytes);
    if (!is_stream_name(header->stream)) return SFUMATO_STREAM;
    if (width < 1 || width > 8 || !hash_payload(released, n, width, digest)) return SFUMATO_PLAN;
    write_header(&signed_part, header, n * width, digest);
    write_protected(&protected_part, header->device);
    if (signed_part.is_full || protected_part.is_full) return SFUMATO_CAPACITY;
    enum sfumato_error error = sign(&protected_part, &signed_part, platform, signature);
    if (error) return error;
    struct writer message = open_writer(into, capacity);
    write_head(&message, CBOR_ARRAY, 2);
    write_head(&message, CBOR_TAG, SIGN1);
    write_head(&message, CBOR_ARRAY, 4);
    write_bytes(&message, protected_bytes, protected_part.size);
    write_head(&message, CBOR_MAP, 0);
    write_bytes(&message, header_bytes, signed_part.size);
    write_bytes(&message, signature, sizeof signature);
    write_payload(&message, released, n, width);
    *size = message.size;
    return message.is_full ? SFUMATO_CAPACITY : SFUMATO_OK;
}

void sfumato_sketch_id(const struct sfumato_header *header, uint8_t id[SFUMATO_DIGEST]) {
    uint8_t bytes[2 * SFUMATO_DIGEST + SFUMATO_STREAM_MOST + 24];
    struct writer writer = open_writer(bytes, sizeof bytes);
    struct sha256 hash;
    write_head(&writer, CBOR_ARRAY, 4);
    write_bytes(&writer, header->study, SFUMATO_DIGEST);
    write_bytes(&writer, header->device, SFUMATO_DIGEST);
    write_text(&writer, header->stream);
    write_head(&writer, CBOR_UNSIGNED, header->sequence);
    sha256_begin(&hash);
    sha256_add(&hash, bytes, writer.size);
    sha256_finish(&hash, id);
}
