#define _POSIX_C_SOURCE 200809L

#include "network.h"

#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

enum { ANSWER_MOST = 4096, PATIENCE_S = 30 };

static int open_connection(const struct gateway *gateway) {
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found;
    struct timeval patience = {.tv_sec = PATIENCE_S};
    if (getaddrinfo(gateway->host, gateway->port, &hints, &found)) return -1;
    int line = socket(found->ai_family, found->ai_socktype, found->ai_protocol);
    if (line >= 0 && (setsockopt(line, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience) ||
                      setsockopt(line, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience) ||
                      connect(line, found->ai_addr, found->ai_addrlen))) {
        close(line);
        line = -1;
    }
    freeaddrinfo(found);
    return line;
}

static bool send_all(int line, const void *data, size_t size) {
    const uint8_t *bytes = data;
    while (size > 0) {
        ssize_t count = send(line, bytes, size, MSG_NOSIGNAL);
        if (count <= 0) return false;
        bytes += count;
        size -= (size_t)count;
    }
    return true;
}

/* Make a request on a connection of its own; `answer` has ANSWER_MOST bytes. */
static void exchange(struct gateway *gateway, const char *head, const uint8_t *body, size_t size,
                     char *answer) {
    size_t count = 0;
    int line = open_connection(gateway);
    if (line >= 0 && send_all(line, head, strlen(head)) && send_all(line, body, size)) {
        ssize_t got;
        while (count < ANSWER_MOST - 1 &&
               (got = read(line, answer + count, ANSWER_MOST - 1 - count)) > 0)
            count += (size_t)got;
    }
    if (line >= 0) close(line);
    answer[count] = 0;
    if (sscanf(answer, "HTTP/1.%*d %d", &gateway->status) != 1) gateway->status = 0;
}

enum sfumato_error confirm_device(struct sfumato_device *device, struct gateway *gateway) {
    static const char NAME[] = "\"last_sequence\":";
    static char head[1024], answer[ANSWER_MOST];
    struct sfumato_signed_request request;
    long long last = -1;
    strcpy(gateway->path, "/v1/devices/me");
    enum sfumato_error error =
        sfumato_sign_request("GET", gateway->path, NULL, 0, device->id, (uint64_t)time(NULL),
                             device->platform, &request);
    if (error) return error;
    snprintf(head, sizeof head,
             "GET %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\nSignature-Input: %s\r\n"
             "Signature: %s\r\n\r\n",
             gateway->path, gateway->host, request.signature_input, request.signature);
    exchange(gateway, head, NULL, 0, answer);
    if (gateway->status != 200) return SFUMATO_NOT_READY;
    /* This device has one stream. */
    const char *found = strstr(answer, NAME);
    if (found) sscanf(found + strlen(NAME), "%lld", &last);
    return sfumato_confirm(device, last);
}

/* Print why the server refused: the detail of its problem, whose JSON escapes control characters. */
static void print_refusal(const char *answer) {
    static const char NAME[] = "\"detail\":";
    const char *found = strstr(answer, NAME);
    if (!found) return;
    found += sizeof NAME - 1;
    found += strspn(found, " \"");
    fprintf(stderr, "  the server says: %.*s\n", (int)strcspn(found, "\""), found);
}

/* Return whether the server said of this very sketch that it need not be sent again. */
static bool is_settled(const struct gateway *gateway, const char *answer) {
    int status = gateway->status;
    /* Answers that come from elsewhere, a captive portal's too, do not name the sketch. */
    if (status == 200 || status == 201)
        return strstr(answer, strrchr(gateway->path, '/') + 1) != NULL;
    bool is_refusal = strstr(answer, "application/problem+json") && status >= 400 && status < 500;
    bool is_later = status == 408 || status == 429 || strstr(answer, "/problems/too-early");
    return is_refusal && !is_later;
}

enum sfumato_error send_waiting(struct sfumato_device *device, struct gateway *gateway) {
    static char head[512], answer[ANSWER_MOST];
    size_t size;
    const uint8_t *waiting = sfumato_waiting(device, &size);
    if (!waiting) return SFUMATO_OK;
    sfumato_path(device, gateway->path);
    snprintf(head, sizeof head,
             "PUT %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\nContent-Length: %zu\r\n"
             "Content-Type: application/vnd.sfumato.sketch+cbor\r\n\r\n",
             gateway->path, gateway->host, size);
    exchange(gateway, head, waiting, size, answer);
    fprintf(stderr, "PUT %s: %d\n", gateway->path, gateway->status);
    if (gateway->status >= 400) print_refusal(answer);
    /* The server holds other bytes under this number: a copy of this device is at work. */
    if (strstr(answer, "/problems/duplicate-upload")) return SFUMATO_CLONED;
    return is_settled(gateway, answer) ? sfumato_settle(device) : SFUMATO_OK;
}
