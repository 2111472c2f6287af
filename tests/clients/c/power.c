/* A device whose power fails at chosen operations of its storage, and what it sends.
 *
 * power PLAN KIND FIRST SECOND: two cuts, after so many operations each; a line is printed for all
 * that was sent, and for the end. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hash.h"
#include "plans.h"

enum { SECTOR = 4096, RECORDS = 12, FEATURES_MOST = 512 };
/* How an operation ends when the power fails in it. */
enum kind { UNDONE, HALF, DONE, SCRAMBLED };

static uint8_t sectors[2][SECTOR];
static enum kind kind;
static long left, next_cut;
static bool is_off;
static struct shake entropy;
static int64_t last_stored;

/* Return how many of some bytes change, and whether the power is still on. */
static size_t work(size_t size) {
    if (is_off) return 0;
    if (left-- > 0) return size;
    is_off = true;
    return kind == DONE ? size : kind == UNDONE ? 0 : size / 2;
}

static int read_sector(void *context, unsigned sector, size_t offset, void *into, size_t size) {
    (void)context;
    memcpy(into, sectors[sector] + offset, size);
    return is_off;
}

static int erase_sector(void *context, unsigned sector) {
    (void)context;
    memset(sectors[sector], 0xff, work(SECTOR));
    return is_off;
}

static int write_sector(void *context, unsigned sector, size_t offset, const void *data,
                        size_t size) {
    (void)context;
    size_t count = work(size);
    for (size_t i = 0; i < count; i++) sectors[sector][offset + i] &= ((const uint8_t *)data)[i];
    if (is_off && kind == SCRAMBLED && count) sectors[sector][offset + count - 1] ^= 0x5a;
    return is_off;
}

static int draw(void *context, uint8_t *into, size_t count) {
    (void)context;
    shake_take(&entropy, into, count);
    return 0;
}

static int sign(void *context, const uint8_t *data, size_t size, uint8_t signature[64]) {
    struct sha256 hash;
    (void)context;
    sha256_begin(&hash);
    sha256_add(&hash, data, size);
    sha256_finish(&hash, signature);
    memcpy(signature + 32, signature, 32);
    return 0;
}

static const struct sfumato_platform PLATFORM = {.draw_bytes = draw, .sign = sign};
static const struct sfumato_storage STORAGE = {.sector_size = SECTOR,
                                               .read = read_sector,
                                               .erase = erase_sector,
                                               .write = write_sector};

/* Memory is lost with the power, so nothing is carried over but the storage. */
static enum sfumato_error boot(struct sfumato_device *device, const struct sfumato_plan *plan) {
    static int64_t sums[2 * FEATURES_MOST];
    static uint16_t order[FEATURES_MOST];
    static uint8_t message[8192];
    memset(device, 0xa5, sizeof *device);
    memset(sums, 0xa5, sizeof sums);
    memset(message, 0xa5, sizeof message);
    device->plan = plan;
    device->platform = &PLATFORM;
    device->storage = &STORAGE;
    memset(device->id, 7, sizeof device->id);
    device->stream = "power";
    device->sums = sums;
    device->order = order;
    device->message = message;
    device->message_most = sizeof message;
    enum sfumato_error error = sfumato_start(device);
    return error ? error : sfumato_confirm(device, last_stored);
}

/* The power comes back; it fails once more if there is a second cut. */
static void switch_on(void) {
    if (!is_off) return;
    is_off = false;
    left = next_cut;
    next_cut = INT32_MAX;
}

static void print_sent(const struct sfumato_device *device, const uint8_t *message, size_t size) {
    struct sha256 hash;
    uint8_t digest[32];
    sha256_begin(&hash);
    sha256_add(&hash, message, size);
    sha256_finish(&hash, digest);
    printf("sent %" PRIu64 " ", device->next_sequence - 1);
    for (size_t i = 0; i < sizeof digest; i++) printf("%02x", digest[i]);
    printf("\n");
}

static enum sfumato_error send(struct sfumato_device *device) {
    size_t size;
    const uint8_t *message = sfumato_waiting(device, &size);
    if (!message) return SFUMATO_OK;
    print_sent(device, message, size);
    last_stored = (int64_t)device->next_sequence - 1;
    return sfumato_settle(device);
}

static enum sfumato_error work_once(struct sfumato_device *device, int i) {
    double record[SFUMATO_DIMENSIONS_MOST] = {i, 0.1 * i};
    enum sfumato_error error = send(device);
    if (!error) error = sfumato_record(device, 0, record);
    if (!error) error = sfumato_tick(device, 0);
    return error;
}

/* Make the storage of a new device; a person repeats it until it succeeds. */
static void make_new(struct sfumato_device *device, const struct sfumato_plan *plan) {
    boot(device, plan);
    while (sfumato_format(device)) {
        switch_on();
        if (!boot(device, plan)) break;
    }
}

static void run(const struct sfumato_plan *plan, unsigned long seed) {
    struct sfumato_device device;
    memset(sectors, 0xff, sizeof sectors);
    shake_begin(&entropy);
    shake_absorb(&entropy, &seed, sizeof seed);
    shake_finish(&entropy);
    last_stored = -1;
    make_new(&device, plan);
    enum sfumato_error error = boot(&device, plan);
    for (int i = 0; i < RECORDS;) {
        if (!error) error = work_once(&device, i);
        if (!error) i++;
        if (error && !is_off) {
            printf("error %d\n", (int)error);
            return;
        }
        if (error) {
            switch_on();
            error = boot(&device, plan);
            i++;
        }
    }
    while (send(&device)) {
        switch_on();
        boot(&device, plan);
    }
    printf("end %" PRIu64 "\n", device.next_sequence);
}

int main(int count, char **words) {
    if (count != 5) return 2;
    const struct sfumato_plan *plan = PLANS[atoi(words[1])];
    long first = atol(words[3]), second = atol(words[4]);
    kind = (enum kind)atoi(words[2]);
    for (long i = 0; i < first; i++) {
        for (long j = 0; j < second; j++) {
            left = i;
            next_cut = j;
            is_off = false;
            printf("cut %ld %ld\n", i, j);
            run(plan, (unsigned long)(i * second + j));
        }
    }
    return 0;
}
