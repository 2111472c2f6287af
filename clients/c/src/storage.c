#include "storage.h"

#include <string.h>

#include "hash.h"

/* Version of the record, device, plan, numbers, SHA-256 of all that and of the message. */
enum { VERSION = 1, DEVICE_AT = 8, PLAN_AT = 40, STREAM_AT = 72, NUMBERS_AT = 88, DIGEST_AT = 128 };
enum { RECORD_NUMBER, NEXT_SEQUENCE, NEXT_RECORD, LAST_SLOT, MESSAGE_SIZE, N_NUMBERS };
_Static_assert(NUMBERS_AT + 8 * N_NUMBERS == DIGEST_AT, "the digest follows the numbers");
_Static_assert(DIGEST_AT + SFUMATO_DIGEST == SFUMATO_RECORD_HEAD, "the digest ends the head");

static const char MAGIC[] = "sfumato";

static void write_number(uint8_t *head, unsigned place, uint64_t number) {
    for (unsigned i = 0; i < 8; i++)
        head[NUMBERS_AT + 8 * place + i] = (uint8_t)(number >> (8 * i));
}

static uint64_t read_number(const uint8_t *head, unsigned place) {
    uint64_t number = 0;
    for (unsigned i = 8; i-- > 0;) number = number << 8 | head[NUMBERS_AT + 8 * place + i];
    return number;
}

/* What a record of this very device, plan and stream begins with. */
static void write_identity(uint8_t *head, const struct sfumato_device *device) {
    uint8_t digest[SFUMATO_DIGEST];
    struct sha256 hash;
    memcpy(head, MAGIC, sizeof MAGIC - 1);
    head[sizeof MAGIC - 1] = VERSION;
    memcpy(head + DEVICE_AT, device->id, SFUMATO_DIGEST);
    memcpy(head + PLAN_AT, device->plan->digest, SFUMATO_DIGEST);
    sha256_begin(&hash);
    sha256_add(&hash, device->plan->study, SFUMATO_DIGEST);
    sha256_add(&hash, device->stream, strlen(device->stream));
    sha256_finish(&hash, digest);
    memcpy(head + STREAM_AT, digest, NUMBERS_AT - STREAM_AT);
}

static void hash_record(const uint8_t *head, const uint8_t *message, size_t size,
                        uint8_t digest[SFUMATO_DIGEST]) {
    struct sha256 hash;
    sha256_begin(&hash);
    sha256_add(&hash, head, DIGEST_AT);
    sha256_add(&hash, message, size);
    sha256_finish(&hash, digest);
}

static void encode_head(const struct sfumato_device *device, uint8_t *head) {
    write_identity(head, device);
    write_number(head, RECORD_NUMBER, device->record_number);
    write_number(head, NEXT_SEQUENCE, device->next_sequence);
    write_number(head, NEXT_RECORD, device->window.next_record);
    write_number(head, LAST_SLOT, device->last_slot);
    write_number(head, MESSAGE_SIZE, device->message_size);
    hash_record(head, device->message, device->message_size, head + DIGEST_AT);
}

/* Compare a sector with what was written, a piece at a time. */
static bool is_written(const struct sfumato_storage *storage, unsigned sector, size_t offset,
                       const uint8_t *data, size_t size) {
    uint8_t piece[32];
    for (size_t at = 0; at < size; at += sizeof piece) {
        size_t count = size - at < sizeof piece ? size - at : sizeof piece;
        if (storage->read(storage->context, sector, offset + at, piece, count) ||
            memcmp(piece, data + at, count))
            return false;
    }
    return true;
}

/* The head comes last, so that a record is whole when it has one. */
static bool write_sector(const struct sfumato_device *device, unsigned sector,
                         const uint8_t *head) {
    const struct sfumato_storage *storage = device->storage;
    size_t size = device->message_size;
    if (storage->erase(storage->context, sector)) return false;
    if (size &&
        storage->write(storage->context, sector, SFUMATO_RECORD_HEAD, device->message, size))
        return false;
    if (storage->write(storage->context, sector, 0, head, SFUMATO_RECORD_HEAD)) return false;
    return is_written(storage, sector, 0, head, SFUMATO_RECORD_HEAD) &&
           is_written(storage, sector, SFUMATO_RECORD_HEAD, device->message, size);
}

enum sfumato_error save_record(struct sfumato_device *device) {
    uint8_t head[SFUMATO_RECORD_HEAD];
    /* What failed half-way is known only after the sectors are read again. */
    device->is_started = false;
    if (SFUMATO_RECORD_HEAD + device->message_size > device->storage->sector_size)
        return SFUMATO_CAPACITY;
    device->record_number++;
    encode_head(device, head);
    unsigned first = device->next_sector, second = 1 - first;
    if (!write_sector(device, first, head) || !write_sector(device, second, head))
        return SFUMATO_STORAGE;
    device->is_started = true;
    return SFUMATO_OK;
}

static bool read_head(const struct sfumato_device *device, unsigned sector, uint8_t *head) {
    const struct sfumato_storage *storage = device->storage;
    uint8_t identity[NUMBERS_AT];
    write_identity(identity, device);
    return !storage->read(storage->context, sector, 0, head, SFUMATO_RECORD_HEAD) &&
           !memcmp(head, identity, sizeof identity);
}

/* Read a sector's message, and compare the digest of its record. */
static bool read_message(struct sfumato_device *device, unsigned sector, const uint8_t *head) {
    const struct sfumato_storage *storage = device->storage;
    uint64_t size = read_number(head, MESSAGE_SIZE);
    uint8_t digest[SFUMATO_DIGEST];
    if (size > device->message_most || size + SFUMATO_RECORD_HEAD > storage->sector_size)
        return false;
    if (size && storage->read(storage->context, sector, SFUMATO_RECORD_HEAD, device->message,
                              (size_t)size))
        return false;
    hash_record(head, device->message, (size_t)size, digest);
    return !memcmp(digest, head + DIGEST_AT, sizeof digest);
}

static void decode_head(struct sfumato_device *device, const uint8_t *head) {
    device->record_number = read_number(head, RECORD_NUMBER);
    device->next_sequence = read_number(head, NEXT_SEQUENCE);
    device->window.next_record = read_number(head, NEXT_RECORD);
    device->last_slot = read_number(head, LAST_SLOT);
    device->message_size = (size_t)read_number(head, MESSAGE_SIZE);
}

enum sfumato_error load_record(struct sfumato_device *device, bool *is_double) {
    uint8_t heads[2][SFUMATO_RECORD_HEAD] = {{0}};
    bool is_whole[2];
    for (unsigned i = 0; i < 2; i++)
        is_whole[i] = read_head(device, i, heads[i]) && read_message(device, i, heads[i]);
    if (!is_whole[0] && !is_whole[1]) return SFUMATO_STORAGE;
    *is_double = is_whole[0] && is_whole[1] && !memcmp(heads[0], heads[1], sizeof heads[0]);
    bool is_second_newer =
        read_number(heads[1], RECORD_NUMBER) > read_number(heads[0], RECORD_NUMBER);
    unsigned newest = is_whole[1] && (!is_whole[0] || is_second_newer);
    /* The buffer may hold the other sector's message. */
    if (!read_message(device, newest, heads[newest])) return SFUMATO_STORAGE;
    decode_head(device, heads[newest]);
    device->next_sector = 1 - newest;
    return SFUMATO_OK;
}
