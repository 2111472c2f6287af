/* Calls parts of the device by commands on standard input, and prints what they return.
 *
 * Each command is a line of words; each answer is a line. What is to be signed is printed after
 * "sign", and its signature read as the next line. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cbor.h"
#include "sums.h"
#include "frequencies.h"
#include "hash.h"
#include "noise.h"
#include "plans.h"

enum { LINE_MOST = 1 << 16, FEATURES_MOST = 512 };

static char line[LINE_MOST];
static uint8_t given[LINE_MOST / 2];
static size_t given_size, given_at;

static const char *next_word(void) {
    const char *word = strtok(NULL, " \n");
    if (!word) exit(3);
    return word;
}

static uint64_t next_number(void) {
    return strtoull(next_word(), NULL, 10);
}

static size_t read_hex(const char *text, uint8_t *into) {
    size_t size = strlen(text) / 2;
    for (size_t i = 0; i < size; i++) {
        char pair[3] = {text[2 * i], text[2 * i + 1], 0};
        into[i] = (uint8_t)strtoul(pair, NULL, 16);
    }
    return size;
}

/* An empty text is written as "-". */
static size_t next_bytes(uint8_t *into) {
    const char *word = next_word();
    return strcmp(word, "-") ? read_hex(word, into) : 0;
}

static void print_hex(const uint8_t *bytes, size_t size) {
    for (size_t i = 0; i < size; i++) printf("%02x", bytes[i]);
}

/* A generator of given bytes, or of a seed; its failures are part of the tests. */
static struct shake seeded;
static bool is_seeded;
/* Bytes of vectors may repeat, which the check of a generator would take for a failure. */
static struct source *unchecked;

static void next_seed(void) {
    uint8_t seed[64];
    shake_begin(&seeded);
    shake_absorb(&seeded, seed, next_bytes(seed));
    shake_finish(&seeded);
    is_seeded = true;
}

static int draw(void *context, uint8_t *into, size_t count) {
    (void)context;
    if (is_seeded) {
        shake_take(&seeded, into, count);
        return 0;
    }
    /* A source reads ahead, into bytes that no vector has. */
    for (size_t i = 0; i < count; i++, given_at++)
        into[i] = given_at < given_size ? given[given_at] : (uint8_t)(given_at * 167 + 5);
    if (unchecked) unchecked->last[0] = into[0] ^ 1;
    return 0;
}

static int sign(void *context, const uint8_t *data, size_t size, uint8_t signature[64]) {
    static char answer[256];
    (void)context;
    printf("sign ");
    print_hex(data, size);
    printf("\n");
    fflush(stdout);
    if (!fgets(answer, sizeof answer, stdin)) return 1;
    answer[strcspn(answer, "\n")] = 0;
    return read_hex(answer, signature) != 64;
}

static const struct sfumato_platform PLATFORM = {.draw_bytes = draw, .sign = sign};

static void print_wide(struct wide x) {
    printf("%016" PRIx64 "%016" PRIx64, x.high, x.low);
}

static struct wide next_wide(void) {
    uint8_t bytes[16];
    struct wide x = {0, 0};
    next_bytes(bytes);
    for (size_t i = 0; i < 8; i++) {
        x.high = x.high << 8 | bytes[i];
        x.low = x.low << 8 | bytes[8 + i];
    }
    return x;
}

static void run_shake(void) {
    struct shake shake;
    size_t count = next_number();
    static uint8_t message[1024], taken[1024];
    shake_begin(&shake);
    shake_absorb(&shake, message, next_bytes(message));
    shake_finish(&shake);
    shake_take(&shake, taken, count);
    print_hex(taken, count);
}

static void run_sha256(void) {
    struct sha256 hash;
    static uint8_t message[1024];
    uint8_t digest[32];
    sha256_begin(&hash);
    sha256_add(&hash, message, next_bytes(message));
    sha256_finish(&hash, digest);
    print_hex(digest, sizeof digest);
}

static void run_head(void) {
    uint8_t bytes[9];
    struct writer writer = open_writer(bytes, sizeof bytes);
    enum cbor_major major = (enum cbor_major)next_number();
    write_head(&writer, major, next_number());
    print_hex(bytes, writer.size);
}

static void run_divide(void) {
    struct wide a = next_wide(), b = next_wide(), rest;
    print_wide(divide_wide(a, b, &rest));
    printf(" ");
    print_wide(rest);
    printf(" ");
    print_wide(times_wide(a, 38));
}

static void run_table(void) {
    struct sha256 hash;
    uint8_t digest[32];
    sha256_begin(&hash);
    for (uint32_t phase = 0; phase < 65536; phase++) {
        struct feature feature = compute_feature((uint16_t)phase);
        uint16_t c = (uint16_t)feature.cosine, s = (uint16_t)feature.sine;
        uint8_t bytes[4] = {(uint8_t)c, (uint8_t)(c >> 8), (uint8_t)s, (uint8_t)(s >> 8)};
        sha256_add(&hash, bytes, sizeof bytes);
    }
    sha256_finish(&hash, digest);
    print_hex(digest, sizeof digest);
}

static void run_log(void) {
    printf("%a", compute_log(strtod(next_word(), NULL)));
}

static void run_turns(void) {
    const struct sfumato_plan *plan = PLANS[next_number()];
    struct frequency_reader reader;
    int16_t turns[SFUMATO_DIMENSIONS_MOST];
    open_frequencies(&reader, plan);
    printf("%d", (int)sfumato_check_frequencies(plan));
    for (size_t j = 0; j < plan->n_frequencies; j++) {
        if (!draw_turns(&reader, turns)) exit(4);
        for (size_t i = 0; i < plan->n_dimensions; i++) printf(" %d", turns[i]);
    }
}

static void next_record(const struct sfumato_plan *plan, double *record) {
    for (size_t i = 0; i < plan->n_dimensions; i++) record[i] = strtod(next_word(), NULL);
}

static void run_sum(void) {
    static int64_t sums[2 * FEATURES_MOST];
    static uint16_t order[FEATURES_MOST];
    static uint8_t stream_id[512];
    const struct sfumato_plan *plan = PLANS[next_number()];
    struct sfumato_window window = {.sums = sums, .order = order};
    sfumato_open_window(plan, stream_id, next_bytes(stream_id), &window);
    window.next_record = next_number();
    for (uint64_t n = next_number(); n > 0; n--) {
        double record[SFUMATO_DIMENSIONS_MOST];
        int16_t steps[SFUMATO_DIMENSIONS_MOST];
        next_record(plan, record);
        quantise(plan, record, steps);
        for (size_t i = 0; i < plan->n_dimensions; i++) printf("%d ", steps[i]);
        if (!sfumato_add(plan, &window, record)) printf("refused ");
    }
    printf("| %u |", window.n_records);
    for (size_t i = 0; i < count_coordinates(plan); i++) printf(" %" PRId64, sums[i]);
}

/* Variates of given bytes, the source behind them too. */
static void run_exponents(void) {
    struct source source;
    static uint8_t bytes[LINE_MOST / 2];
    uint64_t count = next_number();
    size_t size = next_bytes(bytes);
    is_seeded = false;
    given_size = size - EXPONENT_BYTES * count;
    given_at = 0;
    memcpy(given, bytes + EXPONENT_BYTES * count, given_size);
    open_source(&source, &PLATFORM);
    unchecked = &source;
    for (uint64_t i = 0; i < count; i++) {
        print_wide(read_exponent(bytes + EXPONENT_BYTES * i, &source));
        printf(" ");
    }
    unchecked = NULL;
    /* What was taken, without what was read ahead. */
    printf("%zu %d", given_at - sizeof source.pool + source.at, source.has_failed);
}

static void run_drawn(void) {
    struct source source;
    uint64_t count = next_number();
    is_seeded = false;
    given_size = next_bytes(given);
    given_at = 0;
    open_source(&source, &PLATFORM);
    for (uint64_t i = 0; i < count; i++) {
        print_wide(draw_exponent(&source));
        printf(" ");
    }
    printf("%zu", given_at - sizeof source.pool + source.at);
}

static void run_below(void) {
    struct source source;
    struct wide n = next_wide();
    given_size = next_bytes(given);
    given_at = 0;
    is_seeded = false;
    open_source(&source, &PLATFORM);
    print_wide(draw_below(&source, n));
    printf(" %zu", given_at - sizeof source.pool + source.at);
}

static void run_laplace(void) {
    struct source source;
    uint64_t rate = next_number(), count = next_number();
    next_seed();
    open_source(&source, &PLATFORM);
    for (; count > 0; count--) printf("%" PRId64 " ", draw_laplace(&source, rate));
}

static void run_polygon(void) {
    struct source source;
    struct wide radius = make_wide(next_number());
    uint64_t count = next_number();
    next_seed();
    open_source(&source, &PLATFORM);
    for (; count > 0; count--) {
        int64_t point[2];
        draw_in_polygon(&source, radius, point);
        printf("%" PRId64 ",%" PRId64 " ", point[0], point[1]);
    }
}

static int draw_badly(void *context, uint8_t *into, size_t count) {
    const char *how = context;
    if (*how == 'f') return 1;
    for (size_t i = 0; i < count; i++) into[i] = *how == 's' ? 7 : (uint8_t)i;
    return 0;
}

/* Noise of a plan on given sums; the seed may be a kind of broken generator instead. */
static void run_noise(void) {
    static int64_t sums[2 * FEATURES_MOST];
    static char how[16];
    struct sfumato_platform platform = PLATFORM;
    const struct sfumato_plan *plan = PLANS[next_number()];
    uint32_t n_records = (uint32_t)next_number();
    if (next_number()) {
        strncpy(how, next_word(), sizeof how - 1);
        platform.draw_bytes = draw_badly;
        platform.context = how;
    } else {
        next_seed();
    }
    for (size_t i = 0; i < count_coordinates(plan); i++)
        sums[i] = strtoll(next_word(), NULL, 10);
    printf("%d", (int)sfumato_add_noise(plan, &platform, sums, n_records));
    for (size_t i = 0; i < count_coordinates(plan); i++) printf(" %" PRId64, sums[i]);
}

static void next_header(struct sfumato_header *header) {
    static uint8_t digests[3][SFUMATO_DIGEST];
    static char stream[512];
    const char *word;
    for (size_t i = 0; i < 3; i++) next_bytes(digests[i]);
    header->study = digests[0];
    header->plan_digest = digests[1];
    header->device = digests[2];
    stream[next_bytes((uint8_t *)stream)] = 0;
    header->stream = stream;
    header->sequence = next_number();
    word = next_word();
    header->by_time = strcmp(word, "-") != 0;
    header->first_slot = strtoull(word, NULL, 10);
    header->last_slot = header->by_time ? next_number() : 0;
    word = next_word();
    header->is_public = strcmp(word, "-") != 0;
    header->n_records = strtoull(word, NULL, 10);
    next_bytes(header->report_id);
    word = next_word();
    header->has_block = strcmp(word, "-") != 0;
    header->block = strtoull(word, NULL, 10);
}

static void run_message(void) {
    static int64_t released[2 * FEATURES_MOST];
    static uint8_t message[1 << 14];
    struct sfumato_header header;
    uint8_t id[SFUMATO_DIGEST];
    size_t size = 0;
    next_header(&header);
    size_t width = next_number(), n = next_number(), capacity = next_number();
    for (size_t i = 0; i < n; i++) released[i] = strtoll(next_word(), NULL, 10);
    int error = (int)sfumato_encode_message(&header, released, n, width, &PLATFORM, message,
                                            capacity, &size);
    sfumato_sketch_id(&header, id);
    printf("%d ", error);
    print_hex(id, sizeof id);
    printf(" ");
    if (!error) print_hex(message, size);
}

static void run_request(void) {
    static uint8_t body[4096];
    struct sfumato_signed_request request;
    uint8_t device[SFUMATO_DIGEST];
    const char *method = next_word(), *path = next_word();
    size_t size = next_bytes(body);
    next_bytes(device);
    uint64_t created = next_number();
    int error = (int)sfumato_sign_request(method, path, body, size, device, created, &PLATFORM,
                                          &request);
    printf("%d\t%s\t%s\t%s", error, request.content_digest, request.signature_input,
           request.signature);
}

static const struct {
    const char *name;
    void (*run)(void);
} COMMANDS[] = {
    {"shake", run_shake},         {"sha256", run_sha256},   {"head", run_head},
    {"divide", run_divide},       {"table", run_table},     {"log", run_log},
    {"turns", run_turns},         {"sum", run_sum},         {"exponents", run_exponents},
    {"drawn", run_drawn},         {"below", run_below},     {"laplace", run_laplace},
    {"polygon", run_polygon},
    {"noise", run_noise},         {"message", run_message}, {"request", run_request},
};

int main(void) {
    while (fgets(line, sizeof line, stdin)) {
        const char *name = strtok(line, " \n");
        size_t i = 0;
        while (i < sizeof COMMANDS / sizeof *COMMANDS && strcmp(COMMANDS[i].name, name)) i++;
        if (i == sizeof COMMANDS / sizeof *COMMANDS) return 2;
        COMMANDS[i].run();
        printf("\n");
        fflush(stdout);
    }
    return 0;
}
