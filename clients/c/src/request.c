/* Signed requests: the project's profile of HTTP Message Signatures (RFC 9421). */
#include <string.h>

#include "cbor.h"
#include "hash.h"
#include "sfumato.h"

enum { BASE_MOST = 640 };

static void append(struct writer *writer, const char *text) {
    write_raw(writer, text, strlen(text));
}

static void append_decimal(struct writer *writer, uint64_t number) {
    if (number >= 10) append_decimal(writer, number / 10);
    write_raw(writer, &"0123456789"[number % 10], 1);
}

static void append_hex(struct writer *writer, const uint8_t *bytes, size_t size) {
    static const char DIGITS[] = "0123456789abcdef";
    for (size_t i = 0; i < size; i++) {
        write_raw(writer, DIGITS + (bytes[i] >> 4), 1);
        write_raw(writer, DIGITS + (bytes[i] & 15), 1);
    }
}

static void append_base64(struct writer *writer, const uint8_t *bytes, size_t size) {
    static const char DIGITS[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (size_t i = 0; i < size; i += 3) {
        uint32_t three = (uint32_t)bytes[i] << 16;
        if (i + 1 < size) three |= (uint32_t)bytes[i + 1] << 8;
        if (i + 2 < size) three |= bytes[i + 2];
        for (size_t k = 0; k < 4; k++)
            write_raw(writer, i + k > size ? "=" : &DIGITS[(three >> (18 - 6 * k)) & 63], 1);
    }
}

/* Write a text with the zero byte that ends it. */
static bool end_text(struct writer *writer) {
    write_raw(writer, "", 1);
    return !writer->is_full;
}

static struct writer open_text(char *into, size_t capacity) {
    return open_writer((uint8_t *)into, capacity);
}

static bool write_content_digest(const uint8_t *body, size_t size,
                                 struct sfumato_signed_request *request) {
    struct writer writer = open_text(request->content_digest, sizeof request->content_digest);
    if (size > 0) {
        uint8_t digest[SFUMATO_DIGEST];
        struct sha256 hash;
        sha256_begin(&hash);
        sha256_add(&hash, body, size);
        sha256_finish(&hash, digest);
        append(&writer, "sha-256=:");
        append_base64(&writer, digest, sizeof digest);
        append(&writer, ":");
    }
    return end_text(&writer);
}

static const char LABEL[] = "sfumato=";

static bool write_signature_input(const uint8_t *device, uint64_t created, bool has_body,
                                  struct sfumato_signed_request *request) {
    struct writer writer = open_text(request->signature_input, sizeof request->signature_input);
    append(&writer, LABEL);
    append(&writer, has_body ? "(\"@method\" \"@path\" \"content-digest\")"
                             : "(\"@method\" \"@path\")");
    append(&writer, ";created=");
    append_decimal(&writer, created);
    append(&writer, ";keyid=\"");
    append_hex(&writer, device, SFUMATO_DIGEST);
    append(&writer, "\";alg=\"ed25519\"");
    return end_text(&writer);
}

static void append_line(struct writer *writer, const char *name, const char *value) {
    append(writer, name);
    append(writer, ": ");
    append(writer, value);
}

static void write_base(struct writer *writer, const char *method, const char *path,
                       const struct sfumato_signed_request *request) {
    append_line(writer, "\"@method\"", method);
    append_line(writer, "\n\"@path\"", path);
    if (request->content_digest[0])
        append_line(writer, "\n\"content-digest\"", request->content_digest);
    append_line(writer, "\n\"@signature-params\"", request->signature_input + sizeof LABEL - 1);
}

enum sfumato_error sfumato_sign_request(const char *method, const char *path, const uint8_t *body,
                                        size_t size, const uint8_t device[SFUMATO_DIGEST],
                                        uint64_t created, const struct sfumato_platform *platform,
                                        struct sfumato_signed_request *request) {
    uint8_t base[BASE_MOST], signature[SFUMATO_SIGNATURE];
    struct writer signed_part = open_writer(base, sizeof base);
    if (!write_content_digest(body, size, request) ||
        !write_signature_input(device, created, size > 0, request))
        return SFUMATO_CAPACITY;
    write_base(&signed_part, method, path, request);
    if (signed_part.is_full) return SFUMATO_CAPACITY;
    if (platform->sign(platform->context, base, signed_part.size, signature))
        return SFUMATO_SIGNING;
    struct writer writer = open_text(request->signature, sizeof request->signature);
    append(&writer, "sfumato=:");
    append_base64(&writer, signature, sizeof signature);
    append(&writer, ":");
    return end_text(&writer) ? SFUMATO_OK : SFUMATO_CAPACITY;
}
