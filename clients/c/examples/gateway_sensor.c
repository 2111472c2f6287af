/* A sensor that sends its sketches over HTTP, through a gateway that passes requests on by HTTPS.
 *
 * It runs on POSIX; on a board, replace what stands under "The board" by its own drivers. Records
 * come from standard input, "SECONDS VALUE VALUE ..." a line. The key lies in a secure element,
 * behind a socket that takes two bytes of length and the data, and gives a signature of 64 bytes.
 *
 *     gateway_sensor GATEWAY PORT DEVICE_ID ELEMENT FLASH
 */
#define _POSIX_C_SOURCE 200809L

#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "plan.h"

enum { SECTOR = SFUMATO_RECORD_HEAD + PLAN_MESSAGE_MOST, ANSWER_MOST = 4096 };

static const char *gateway, *port, *element;
static FILE *flash;

/* The board: entropy, key and flash. */

static int draw_bytes(void *context, uint8_t *into, size_t count) {
    (void)context;
    static FILE *generator;
    if (!generator) generator = fopen("/dev/urandom", "rb");
    return !generator || fread(into, 1, count, generator) != count;
}

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

static int find(unsigned sector, size_t offset) {
    return fseek(flash, (long)(sector * SECTOR + offset), SEEK_SET);
}

static int read_flash(void *context, unsigned sector, size_t offset, void *into, size_t size) {
    (void)context;
    return find(sector, offset) || fread(into, 1, size, flash) != size;
}

static int write_flash(void *context, unsigned sector, size_t offset, const void *data,
                       size_t size) {
    (void)context;
    /* Stored means stored: not in a buffer of the C library, nor in one of the system. */
    return find(sector, offset) || fwrite(data, 1, size, flash) != size || fflush(flash) ||
           fsync(fileno(flash));
}

static int erase_flash(void *context, unsigned sector) {
    static uint8_t blank[SECTOR];
    memset(blank, 0xff, sizeof blank);
    return write_flash(context, sector, 0, blank, sizeof blank);
}

/* The network: one request a connection. Return the status and the answer, or 0. */

static int open_connection(void) {
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found;
    if (getaddrinfo(gateway, port, &hints, &found)) return -1;
    int line = socket(found->ai_family, found->ai_socktype, found->ai_protocol);
    if (line >= 0 && connect(line, found->ai_addr, found->ai_addrlen)) {
        close(line);
        line = -1;
    }
    freeaddrinfo(found);
    return line;
}

static int exchange(const char *head, const uint8_t *body, size_t size, char *answer) {
    size_t count = 0;
    int status = 0, line = open_connection();
    if (line < 0) return 0;
    if (!write_all(line, head, strlen(head)) && !write_all(line, body, size)) {
        ssize_t got;
        while (count < ANSWER_MOST - 1 &&
               (got = read(line, answer + count, ANSWER_MOST - 1 - count)) > 0)
            count += (size_t)got;
    }
    close(line);
    answer[count] = 0;
    return sscanf(answer, "HTTP/1.%*d %d", &status) == 1 ? status : 0;
}

static const struct sfumato_platform PLATFORM = {.draw_bytes = draw_bytes, .sign = sign};
static const struct sfumato_storage STORAGE = {.sector_size = SECTOR,
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

/* Ask the server what it has of the stream, with a signed request. */
static enum sfumato_error confirm(void) {
    static const char PATH[] = "/v1/devices/me";
    static char head[1024], answer[ANSWER_MOST];
    struct sfumato_signed_request request;
    long long last = -1;
    enum sfumato_error error = sfumato_sign_request("GET", PATH, NULL, 0, device.id,
                                                    (uint64_t)time(NULL), &PLATFORM, &request);
    if (error) return error;
    snprintf(head, sizeof head,
             "GET %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\nSignature-Input: %s\r\n"
             "Signature: %s\r\n\r\n",
             PATH, gateway, request.signature_input, request.signature);
    if (exchange(head, NULL, 0, answer) != 200) return SFUMATO_NOT_READY;
    /* This device has one stream. */
    const char *found = strstr(answer, "\"last_sequence\":");
    if (found) sscanf(found + strlen("\"last_sequence\":"), "%lld", &last);
    return sfumato_confirm(&device, last);
}

/* Whether the server has said, of this very sketch, that it need not be sent again. */
static bool is_settled(int status, const char *path, const char *answer) {
    /* Answers that come from elsewhere, a captive portal's too, do not name the sketch. */
    if (status == 200 || status == 201) return strstr(answer, strrchr(path, '/') + 1) != NULL;
    bool is_refusal = strstr(answer, "application/problem+json") && status >= 400 && status < 500;
    bool is_later = status == 408 || status == 429 || strstr(answer, "/problems/too-early");
    return is_refusal && !is_later;
}

/* Send what waits, unchanged. Where no answer comes, the next call sends the same bytes. */
static enum sfumato_error send_waiting(void) {
    static char head[512], answer[ANSWER_MOST];
    char path[SFUMATO_PATH];
    size_t size;
    const uint8_t *waiting = sfumato_waiting(&device, &size);
    if (!waiting) return SFUMATO_OK;
    sfumato_path(&device, path);
    snprintf(head, sizeof head,
             "PUT %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\nContent-Length: %zu\r\n"
             "Content-Type: application/vnd.sfumato.sketch+cbor\r\n\r\n",
             path, gateway, size);
    int status = exchange(head, waiting, size, answer);
    fprintf(stderr, "PUT %s: %d\n", path, status);
    /* The server holds other bytes under this number: a copy of this device is at work. */
    if (strstr(answer, "/problems/duplicate-upload")) return SFUMATO_CLONED;
    return is_settled(status, path, answer) ? sfumato_settle(&device) : SFUMATO_OK;
}

static enum sfumato_error add_line(char *line) {
    double record[SFUMATO_DIMENSIONS_MOST];
    int64_t now = strtoll(line, &line, 10);
    for (size_t i = 0; i < PLAN.n_dimensions; i++) record[i] = strtod(line, &line);
    enum sfumato_error error = sfumato_record(&device, now, record);
    return error ? error : send_waiting();
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
    gateway = words[1];
    port = words[2];
    read_id(words[3]);
    element = words[4];
    flash = fopen(words[5], "r+b");
    /* A new file is a new device: only a factory formats its flash. */
    bool is_new = !flash;
    if (is_new) flash = fopen(words[5], "w+b");
    if (!flash) return 2;
    enum sfumato_error error = sfumato_check_frequencies(&PLAN);
    if (!error && is_new) error = sfumato_format(&device);
    if (!error) error = sfumato_start(&device);
    if (!error) error = send_waiting();
    if (!error) error = confirm();
    while (!error && fgets(line, sizeof line, stdin)) error = add_line(line);
    if (!error) error = sfumato_tick(&device, (int64_t)time(NULL));
    if (!error) error = send_waiting();
    if (error) fprintf(stderr, "error %d\n", (int)error);
    return error != SFUMATO_OK;
}
