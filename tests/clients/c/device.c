/* A whole device as a process: commands on standard input, sectors in a file, its key elsewhere.
 *
 * "sign HEX" and "random N" are requests to whoever started it; other lines answer commands. A last
 * argument N cuts the power in the N-th operation of the flash. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "file_board.h"
#include "plan.h"

#ifndef SECTOR
#define SECTOR (SFUMATO_RECORD_HEAD + PLAN_MESSAGE_MOST)
#endif

enum { LINE_MOST = 4096 };

static char line[LINE_MOST];
static struct flash flash = {.sector_size = SECTOR};

static size_t read_hex(const char *text, uint8_t *into, size_t most) {
    size_t size = strspn(text, "0123456789abcdef") / 2;
    if (size > most) exit(3);
    for (size_t i = 0; i < size; i++) {
        char pair[3] = {text[2 * i], text[2 * i + 1], 0};
        into[i] = (uint8_t)strtoul(pair, NULL, 16);
    }
    return size;
}

static void print_hex(const uint8_t *bytes, size_t size) {
    for (size_t i = 0; i < size; i++) printf("%02x", bytes[i]);
}

static int read_answer(uint8_t *into, size_t size) {
    static char answer[LINE_MOST];
    fflush(stdout);
    if (!fgets(answer, sizeof answer, stdin)) return 1;
    return read_hex(answer, into, size) != size;
}

static int sign(void *context, const uint8_t *data, size_t size, uint8_t signature[64]) {
    (void)context;
    printf("sign ");
    print_hex(data, size);
    printf("\n");
    return read_answer(signature, 64);
}

static int draw(void *context, uint8_t *into, size_t count) {
    (void)context;
    printf("random %zu\n", count);
    return read_answer(into, count);
}

static const struct sfumato_platform PLATFORM = {.draw_bytes = draw, .sign = sign};
static const struct sfumato_storage STORAGE = {.context = &flash,
                                               .sector_size = SECTOR,
                                               .read = read_flash,
                                               .erase = erase_flash,
                                               .write = write_flash};
static int64_t sums[PLAN_COORDINATES];
static uint16_t order[PLAN_MASKED_FEATURES + 1];
static uint8_t message[PLAN_MESSAGE_MOST];
static struct sfumato_device device = {.plan = &PLAN,
                                       .platform = &PLATFORM,
                                       .storage = &STORAGE,
                                       .sums = sums,
                                       .order = order,
                                       .message = message,
                                       .message_most = sizeof message};

static double next_double(void) {
    return strtod(strtok(NULL, " \n"), NULL);
}

static enum sfumato_error add_record(void) {
    double record[SFUMATO_DIMENSIONS_MOST];
    int64_t now = (int64_t)next_double();
    for (size_t i = 0; i < PLAN.n_dimensions; i++) record[i] = next_double();
    return sfumato_record(&device, now, record);
}

static void print_waiting(void) {
    char path[SFUMATO_PATH];
    size_t size;
    const uint8_t *waiting = sfumato_waiting(&device, &size);
    if (!waiting) return;
    sfumato_path(&device, path);
    printf(" %s ", path);
    print_hex(waiting, size);
}

static enum sfumato_error run(const char *name) {
    if (!strcmp(name, "check")) return sfumato_check_frequencies(&PLAN);
    if (!strcmp(name, "format")) return sfumato_format(&device);
    if (!strcmp(name, "start")) return sfumato_start(&device);
    if (!strcmp(name, "confirm")) return sfumato_confirm(&device, (int64_t)next_double());
    if (!strcmp(name, "record")) return add_record();
    if (!strcmp(name, "tick")) return sfumato_tick(&device, (int64_t)next_double());
    if (!strcmp(name, "settle")) return sfumato_settle(&device);
    if (strcmp(name, "waiting")) exit(4);
    return SFUMATO_OK;
}

int main(int count, char **words) {
    if (count != 4 && count != 5) return 2;
    flash.file = fopen(words[1], "r+b");
    flash.power = count == 5 ? atol(words[4]) : 0;
    if (!flash.file || read_hex(words[2], device.id, sizeof device.id) != sizeof device.id) return 2;
    device.stream = words[3];
    while (fgets(line, sizeof line, stdin)) {
        const char *name = strtok(line, " \n");
        printf("%d", (int)run(name));
        if (!strcmp(name, "waiting")) print_waiting();
        printf("\n");
        fflush(stdout);
    }
    return 0;
}
