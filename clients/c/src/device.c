/* Windows of a stream, each released once. */
#include <string.h>

#include "hash.h"
#include "noise.h"
#include "storage.h"
#include "sums.h"

/* Begin an empty window; what the sums held is erased. */
static void open_next_window(struct sfumato_device *device) {
    uint8_t stream_id[SFUMATO_DIGEST + 1 + SFUMATO_STREAM_MOST];
    size_t size = strlen(device->stream);
    memcpy(stream_id, device->id, SFUMATO_DIGEST);
    stream_id[SFUMATO_DIGEST] = '/';
    memcpy(stream_id + SFUMATO_DIGEST + 1, device->stream, size);
    sfumato_open_window(device->plan, stream_id, SFUMATO_DIGEST + 1 + size, &device->window);
    device->first_slot = device->last_slot;
}

static enum sfumato_error prepare(struct sfumato_device *device) {
    size_t size = strlen(device->stream);
    device->is_started = device->is_confirmed = false;
    device->window.sums = device->sums;
    device->window.order = device->order;
    return size > 0 && size <= SFUMATO_STREAM_MOST ? SFUMATO_OK : SFUMATO_STREAM;
}

enum sfumato_error sfumato_format(struct sfumato_device *device) {
    bool is_double;
    enum sfumato_error error = prepare(device);
    if (error) return error;
    /* A ledger that could be begun anew would forget what was spent. */
    if (!load_record(device, &is_double)) return SFUMATO_STORAGE;
    device->record_number = device->next_sequence = device->last_slot = 0;
    device->window.next_record = 0;
    device->message_size = 0;
    device->next_sector = 0;
    error = save_record(device);
    device->is_started = false;
    return error;
}

enum sfumato_error sfumato_start(struct sfumato_device *device) {
    bool is_double = false;
    enum sfumato_error error = prepare(device);
    if (!error) error = load_record(device, &is_double);
    /* Both sectors hold what is sent from now on. */
    if (!error && !is_double) error = save_record(device);
    if (error) return error;
    device->is_started = true;
    open_next_window(device);
    return SFUMATO_OK;
}

enum sfumato_error sfumato_confirm(struct sfumato_device *device, int64_t last_sequence) {
    if (!device->is_started) return SFUMATO_NOT_READY;
    device->is_confirmed = last_sequence < 0 || (uint64_t)last_sequence < device->next_sequence;
    return device->is_confirmed ? SFUMATO_OK : SFUMATO_CLONED;
}

static enum sfumato_error draw_report_id(const struct sfumato_device *device, uint8_t id[16]) {
    struct source source;
    open_source(&source, device->platform);
    draw_bytes(&source, id, 16);
    close_source(&source);
    return source.has_failed ? SFUMATO_ENTROPY : SFUMATO_OK;
}

static struct sfumato_header make_header(const struct sfumato_device *device, uint64_t sequence) {
    const struct sfumato_plan *plan = device->plan;
    struct sfumato_header header = {
        .study = plan->study,
        .plan_digest = plan->digest,
        .device = device->id,
        .stream = device->stream,
        .sequence = sequence,
        .by_time = plan->by_time,
        .first_slot = device->first_slot,
        .last_slot = device->last_slot,
        .is_public = true,
        .n_records = device->window.n_records,
    };
    return header;
}

/* Turn the sums into a signed message. */
static enum sfumato_error make_message(struct sfumato_device *device) {
    const struct sfumato_plan *plan = device->plan;
    struct sfumato_header header = make_header(device, device->next_sequence);
    size_t size = 0;
    enum sfumato_error error = draw_report_id(device, header.report_id);
    if (!error) {
        error = sfumato_add_noise(plan, device->platform, device->sums, device->window.n_records);
    }
    if (!error) {
        error = sfumato_encode_message(&header, device->sums, count_coordinates(plan),
                                       plan->payload_width, device->platform, device->message,
                                       device->message_most, &size);
    }
    if (!error) device->message_size = size;
    return error;
}

/* Ledger and message are stored together before anything is sent. After a failure the records of
 * the window are lost: their sums may have met noise, which is never drawn twice. */
static enum sfumato_error release(struct sfumato_device *device) {
    enum sfumato_error error = make_message(device);
    if (!error) {
        device->next_sequence++;
        error = save_record(device);
    }
    open_next_window(device);
    return error;
}

static uint64_t find_slot(const struct sfumato_plan *plan, int64_t now) {
    return now < plan->origin ? 0 : (uint64_t)(now - plan->origin) / plan->length;
}

static bool is_full(const struct sfumato_device *device) {
    const struct sfumato_plan *plan = device->plan;
    uint32_t n = device->window.n_records;
    return n == plan->most_records || (!plan->by_time && n == plan->length);
}

static bool has_ended(const struct sfumato_device *device, int64_t now) {
    const struct sfumato_plan *plan = device->plan;
    return plan->by_time && device->window.n_records >= plan->least_records &&
           find_slot(plan, now) > device->last_slot;
}

enum sfumato_error sfumato_tick(struct sfumato_device *device, int64_t now) {
    if (!device->is_started || !device->is_confirmed) return SFUMATO_NOT_READY;
    if (!device->window.n_records || (!is_full(device) && !has_ended(device, now)))
        return SFUMATO_OK;
    if (device->next_sequence >= device->plan->most_sketches) return SFUMATO_SPENT;
    return device->message_size ? SFUMATO_WAITING : release(device);
}

static bool is_left_out(const struct sfumato_plan *plan, int64_t now) {
    return plan->by_time && plan->leaves_out_outside &&
           (now < plan->origin || (plan->has_end && now >= plan->end));
}

/* Slots never go back, though clocks may. */
static void reach_slot(struct sfumato_device *device, int64_t now) {
    uint64_t slot = device->plan->by_time ? find_slot(device->plan, now) : 0;
    if (slot > device->last_slot) device->last_slot = slot;
    if (!device->window.n_records) device->first_slot = device->last_slot;
}

enum sfumato_error sfumato_record(struct sfumato_device *device, int64_t now,
                                  const double *record) {
    if (is_left_out(device->plan, now)) return device->is_started ? SFUMATO_OK : SFUMATO_NOT_READY;
    enum sfumato_error error = sfumato_tick(device, now);
    /* While a message waits, a window that is not full goes on over further slots. */
    if (error && (error != SFUMATO_WAITING || is_full(device))) return error;
    reach_slot(device, now);
    sfumato_add(device->plan, &device->window, record);
    return SFUMATO_OK;
}

const uint8_t *sfumato_waiting(const struct sfumato_device *device, size_t *size) {
    *size = device->is_started ? device->message_size : 0;
    return *size ? device->message : NULL;
}

static char *append_hex(char *into, const uint8_t digest[SFUMATO_DIGEST]) {
    static const char DIGITS[] = "0123456789abcdef";
    for (size_t i = 0; i < SFUMATO_DIGEST; i++) {
        *into++ = DIGITS[digest[i] >> 4];
        *into++ = DIGITS[digest[i] & 15];
    }
    return into;
}

static char *append_text(char *into, const char *text) {
    size_t size = strlen(text);
    memcpy(into, text, size);
    return into + size;
}

void sfumato_path(const struct sfumato_device *device, char path[SFUMATO_PATH]) {
    uint8_t id[SFUMATO_DIGEST];
    struct sfumato_header header = make_header(device, device->next_sequence - 1);
    sfumato_sketch_id(&header, id);
    path = append_hex(append_text(path, "/v1/studies/"), device->plan->study);
    *append_hex(append_text(path, "/sketches/"), id) = 0;
}

enum sfumato_error sfumato_settle(struct sfumato_device *device) {
    if (!device->is_started || !device->message_size) return SFUMATO_NOT_READY;
    device->message_size = 0;
    return save_record(device);
}
