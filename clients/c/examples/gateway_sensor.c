/* A sensor that sends its sketches over HTTP, through a gateway that passes requests on by HTTPS.
 *
 * It runs on POSIX; on a board, replace `file_board.c` and `sign` by its own drivers. Records come
 * from standard input, "SECONDS VALUE VALUE ..." a line. The key lies in a secure element, behind a
 * socket that takes two bytes of length and the data, and gives a signature of 64 bytes.
 *
 *     gateway_sensor GATEWAY PORT DEVICE_ID ELEMENT FLASH
 */
#define _POSIX_C_SOURCE 200809L

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "file_board.h"
#include "network.h"
#include "plan.h"

static const char *element;
static struct gateway gateway;
static struct flash flash = {.sector_size = SFUMATO_RECORD_HEAD + PLAN_MESSAGE_MOST};

static int read_all(int line, void *into, size_t size) {
    uint8_t *bytes = into;
    while (size > 0) {
        ssize_t count = read(line, bytes, size);
        if (count <= 0) return 1;
        bytes += count;
        size -= (size_t)count;
    }
    return 0;
}

static int write_all(int line, const void *data, size_t size) {
    const uint8_t *bytes = data;
    while (size > 0) {
        ssize_t count = write(line, bytes, size);
        if (count <= 0) return 1;
        bytes += count;
        size -= (size_t)count;
    }
    return 0;
}

static int sign(void *context, const uint8_t *data, size_t size, uint8_t signature[64]) {
    (void)context;
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    uint8_t length[2] = {(uint8_t)(size >> 8), (uint8_t)size};
    strncpy(address.sun_path, element, sizeof address.sun_path - 1);
    int line = socket(AF_UNIX, SOCK_STREAM, 0);
    int failed = line < 0 || connect(line, (struct sockaddr *)&address, sizeof address) ||
                 write_all(line, length, sizeof length) || write_all(line, data, size) ||
                 read_all(line, signature, SFUMATO_SIGNATURE);
    if (line >= 0) close(line);
    return failed;
}

static const struct sfumato_platform PLATFORM = {.draw_bytes = read_entropy, .sign = sign};
static const struct sfumato_storage STORAGE = {.context = &flash,
                                               .sector_size =
                                                   SFUMATO_RECORD_HEAD + PLAN_MESSAGE_MOST,
                                               .read = read_flash,
                                               .erase = erase_flash,
                                               .write = write_flash};
static int64_t sums[PLAN_COORDINATES];
static uint16_t order[PLAN_MASKED_FEATURES + 1];
static uint8_t message[PLAN_MESSAGE_MOST];
static struct sfumato_device device = {.plan = &PLAN,
                                       .platform = &PLATFORM,
                                       .storage = &STORAGE,
                                       .stream = "sensor",
                                       .sums = sums,
                                       .order = order,
                                       .message = message,
                                       .message_most = sizeof message};

static enum sfumato_error add_line(char *line) {
    double record[SFUMATO_DIMENSIONS_MOST];
    int64_t now = strtoll(line, &line, 10);
    for (size_t i = 0; i < PLAN.n_dimensions; i++) record[i] = strtod(line, &line);
    enum sfumato_error error = sfumato_record(&device, now, record);
    return error ? error : send_waiting(&device, &gateway);
}

static void read_id(const char *text) {
    for (size_t i = 0; i < sizeof device.id; i++) {
        unsigned byte = 0;
        if (sscanf(text + 2 * i, "%2x", &byte) != 1) exit(2);
        device.id[i] = (uint8_t)byte;
    }
}

int main(int count, char **words) {
    static char line[1024];
    if (count != 6) return 2;
    gateway.host = words[1];
    gateway.port = words[2];
    read_id(words[3]);
    element = words[4];
    flash.file = fopen(words[5], "r+b");
    /* A new file is a new device: only a factory formats its flash. */
    bool is_new = !flash.file;
    if (is_new) flash.file = fopen(words[5], "w+b");
    if (!flash.file) return 2;
    enum sfumato_error error = sfumato_check_frequencies(&PLAN);
    if (!error && is_new) error = sfumato_format(&device);
    if (!error) error = sfumato_start(&device);
    if (!error) error = send_waiting(&device, &gateway);
    if (!error) error = confirm_device(&device, &gateway);
    while (!error && fgets(line, sizeof line, stdin)) error = add_line(line);
    if (!error) error = sfumato_tick(&device, (int64_t)time(NULL));
    if (!error) error = send_waiting(&device, &gateway);
    if (error) fprintf(stderr, "error %d\n", (int)error);
    return error != SFUMATO_OK;
}
