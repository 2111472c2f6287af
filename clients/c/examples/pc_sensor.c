/* A device that runs on a PC, to try a study out: records come from a CSV file, and its flash is a
 * file. `--help` describes it, and docs/how-to/microcontrollers.md compiles and runs it.
 *
 * plan.h, identity.h and key.h are those that `python -m clients.c.enrol` writes. Ed25519 is
 * OpenSSL's (-lcrypto). On a board, replace `file_board.c`, `network.c` and `sign`. */
#define _POSIX_C_SOURCE 200809L

#include <errno.h>
#include <math.h>
#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "file_board.h"
#include "identity.h"
#include "key.h"
#include "network.h"
#include "plan.h"

enum {
    DONE,
    FAILED,
    REFUSED,
    LINE_MOST = 4096,
    NAME_MOST = 1024,
    COMPLAINTS_MOST = 10,
    /* As the server's. */
    CLOCK_LEEWAY_S = 300,
};

static const char USAGE[] =
    "usage: sensor [--flash FILE] [--to HOST:PORT] [--cut-power N] [RECORDS]\n"
    "\n"
    "Adds records to windows, and sends a signed sketch with noise of each window that is over.\n"
    "\n"
    "  RECORDS         CSV file; left out, or -: standard input. A line is the time, in seconds\n"
    "                  since 1970, and a number for each dimension; the names of the columns may\n"
    "                  stand above. A file may be given again: times of windows that were\n"
    "                  released are left out; where windows are by count, give each record once.\n"
    "                  Without records, what waits is sent again: < /dev/null\n"
    "  --flash FILE    the device's flash (default: flash.bin); made when it is missing\n"
    "  --to HOST:PORT  a server or a relay by HTTP (default: " DEVICE_SERVER ")\n"
    "  --cut-power N   fail in the middle of the N-th operation of the flash, to try it out\n"
    "\n"
    "Example:\n"
    "  sensor --flash meter.flash --to 127.0.0.1:8760 records.csv\n"
    "\n"
    "Exit status: 0 done; 1 run it again later, nothing is released twice; 2 refused; 9 power cut\n";

static const char *const ERRORS[] = {
    [SFUMATO_ENTROPY] = "draw_bytes: the generator failed or repeats itself; nothing was released."
                        " Check /dev/urandom",
    [SFUMATO_SIGNING] = "sign: no signature was made; nothing was released. Check key.h",
    [SFUMATO_FREQUENCIES] = "plan.h: this program draws other frequencies than the plan's. Compile"
                            " with -ffp-contract=off and without -ffast-math",
    [SFUMATO_CAPACITY] = "plan.h: a buffer is too small. Make plan.h again, and compile everything",
    [SFUMATO_STREAM] = "identity.h: the stream must have 1 to 64 bytes. Enrol the device again",
    [SFUMATO_PLAN] = "plan.h: a value does not fit its place. Make plan.h again",
    [SFUMATO_STORAGE] = "--flash: cannot be read or written, or is not that of this device, study"
                        " and stream. Name the file that this device wrote",
    [SFUMATO_NOT_READY] = "the server did not confirm this device, so nothing is released. Check"
                          " --to and that the server runs, then run it again",
    [SFUMATO_CLONED] = "--flash: the server has sketches that this flash does not know: it was"
                       " deleted, or restored from a copy, or another device has the same key."
                       " Enrol a new device in another folder",
    [SFUMATO_SPENT] = "most_sketches_per_device: this device has released all that the plan"
                      " allows. Nothing more is released",
    [SFUMATO_WAITING] = "the window is full, and the message before it still waits; later records"
                        " were not added. Run it again once the server takes that message",
};

static struct flash flash = {.sector_size = SFUMATO_RECORD_HEAD + PLAN_MESSAGE_MOST};
static const char *flash_path = "flash.bin", *records_path;
static char host[256], port[8];
static struct gateway gateway = {.host = host, .port = port};
/* By earlier runs. */
static uint64_t n_released, released_slot;

static int sign(void *context, const uint8_t *data, size_t size, uint8_t signature[64]) {
    (void)context;
    size_t count = SFUMATO_SIGNATURE;
    EVP_PKEY *key = EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, NULL, DEVICE_KEY, 32);
    EVP_MD_CTX *state = EVP_MD_CTX_new();
    int failed = !key || !state || EVP_DigestSignInit(state, NULL, NULL, NULL, key) != 1 ||
                 EVP_DigestSign(state, signature, &count, data, size) != 1 ||
                 count != SFUMATO_SIGNATURE;
    EVP_MD_CTX_free(state);
    EVP_PKEY_free(key);
    return failed;
}

static const struct sfumato_platform PLATFORM = {.draw_bytes = read_entropy, .sign = sign};
static const struct sfumato_storage STORAGE = {
    .context = &flash,
    .sector_size = SFUMATO_RECORD_HEAD + PLAN_MESSAGE_MOST,
    .read = read_flash,
    .erase = erase_flash,
    .write = write_flash,
};
static int64_t sums[PLAN_COORDINATES];
static uint16_t order[PLAN_MASKED_FEATURES + 1];
static uint8_t message[PLAN_MESSAGE_MOST];
static struct sfumato_device device = {
    .plan = &PLAN,
    .platform = &PLATFORM,
    .storage = &STORAGE,
    .id = DEVICE_ID,
    .stream = DEVICE_STREAM,
    .sums = sums,
    .order = order,
    .message = message,
    .message_most = sizeof message,
};

static _Noreturn void refuse(const char *text) {
    fprintf(stderr, "sensor: error: %s\n", text);
    exit(REFUSED);
}

/* Arguments. */

static void read_address(const char *text) {
    static const char HTTP[] = "http://";
    if (!strncmp(text, HTTP, sizeof HTTP - 1)) text += sizeof HTTP - 1;
    const char *colon = strrchr(text, ':');
    size_t size = colon ? (size_t)(colon - text) : 0;
    if (!size || strchr(text, '/') || size >= sizeof host || strlen(colon + 1) >= sizeof port || !colon[1] ||
        strspn(colon + 1, "0123456789") != strlen(colon + 1))
        refuse("--to: must be HOST:PORT. Write for example 127.0.0.1:8760");
    memcpy(host, text, size);
    host[size] = 0;
    strcpy(port, colon + 1);
}

static void read_server(void) {
    static const char HTTP[] = "http://";
    char address[sizeof host + sizeof port];
    if (strncmp(DEVICE_SERVER, HTTP, sizeof HTTP - 1))
        refuse("--to: is missing, and " DEVICE_SERVER " needs TLS, which this program lacks. Run"
               " `sfumato-agent relay`, and give its address");
    const char *text = &DEVICE_SERVER[sizeof HTTP - 1];
    size_t size = strcspn(text, "/");
    if (size + sizeof ":80" > sizeof address) refuse("--to: is missing. Give HOST:PORT");
    memcpy(address, text, size);
    address[size] = 0;
    if (!strchr(address, ':')) strcat(address, ":80");
    read_address(address);
}

static const char *next_word(int count, char **words, int *i, const char *text) {
    if (++*i >= count) refuse(text);
    return words[*i];
}

static void read_power(const char *text) {
    char *end;
    flash.power = strtol(text, &end, 10);
    if (*end || flash.power < 1) refuse("--cut-power: must be a number from 1. Write for example 9");
}

static void read_arguments(int count, char **words) {
    for (int i = 1; i < count; i++) {
        const char *word = words[i];
        if (!strcmp(word, "--help") || !strcmp(word, "-h")) {
            fputs(USAGE, stdout);
            exit(DONE);
        } else if (!strcmp(word, "--flash")) {
            flash_path = next_word(count, words, &i, "--flash: needs a FILE. Name one");
        } else if (!strcmp(word, "--to")) {
            read_address(next_word(count, words, &i, "--to: needs HOST:PORT. Give both"));
        } else if (!strcmp(word, "--cut-power")) {
            read_power(next_word(count, words, &i, "--cut-power: needs a number. Give one"));
        } else if ((word[0] == '-' && word[1]) || records_path) {
            fprintf(stderr, "sensor: error: %s: is not an option, or one RECORDS too many. See"
                            " --help\n", word);
            exit(REFUSED);
        } else {
            records_path = word;
        }
    }
    if (!host[0]) read_server();
}

/* The device. */

/* Format the flash of a new device. The name appears once the flash is whole, so that a power cut
 * in the factory leaves no half device. */
static enum sfumato_error make_flash(void) {
    char part[NAME_MOST];
    if (snprintf(part, sizeof part, "%s.part", flash_path) >= NAME_MOST)
        refuse("--flash: is too long. Choose a shorter name");
    flash.file = fopen(part, "w+b");
    if (!flash.file) return SFUMATO_STORAGE;
    enum sfumato_error error = sfumato_format(&device);
    if (!error && rename(part, flash_path)) error = SFUMATO_STORAGE;
    if (!error) fprintf(stderr, "made %s: the ledger of this device; never copy or delete it\n",
                        flash_path);
    return error;
}

static enum sfumato_error open_flash(void) {
    flash.file = fopen(flash_path, "r+b");
    if (!flash.file && errno != ENOENT) return SFUMATO_STORAGE;
    return flash.file ? SFUMATO_OK : make_flash();
}

/* A message is tried once when it is made, when the window behind it is full, and at the end. */
static enum sfumato_error send_once(void) {
    static uint64_t tried;
    if (tried == device.next_sequence) return SFUMATO_OK;
    tried = device.next_sequence;
    return send_waiting(&device, &gateway);
}

static enum sfumato_error add_record(int64_t now, const double *record) {
    enum sfumato_error error = sfumato_record(&device, now, record);
    if (error == SFUMATO_WAITING) {
        error = send_waiting(&device, &gateway);
        if (!error) error = sfumato_record(&device, now, record);
    }
    return error ? error : send_once();
}

/* Records. */

static const char SEPARATORS[] = ",;\t ";
static const double TIME_MOST = 1e15;
static unsigned long n_left_out;
static bool has_record;
static const char *const NAMES[] = PLAN_NAMES;

/* Cut the next field off a line; spaces around it, and quotes, do not matter. */
static char *next_field(char **rest) {
    char *field = *rest + strspn(*rest, " \t\"");
    char *end = field + strcspn(field, ",;\t\"\r\n");
    /* Fields between spaces alone are those of a list of numbers. */
    if (strspn(field, "+-.0123456789")) end = field + strcspn(field, ",;\t \"\r\n");
    char *next = end + strspn(end, " \t\"");
    next += *next == ',' || *next == ';';
    if (*next == '\r' || *next == '\n') next += strlen(next);
    *end = 0;
    *rest = next;
    return field;
}

static bool read_number(const char *field, double *number) {
    char *end;
    *number = strtod(field, &end);
    return end != field && !*end;
}

/* Where only the time is no number, the line is a record with a wrong time. */
static bool is_header(char *line) {
    double number;
    char copy[LINE_MOST], *rest = copy;
    strcpy(copy, line);
    return !read_number(next_field(&rest), &number) && !read_number(next_field(&rest), &number);
}

static void check_header(char *line) {
    next_field(&line);
    for (size_t i = 0; i < PLAN.n_dimensions; i++) {
        char *name = next_field(&line);
        if (strcmp(name, NAMES[i])) {
            fprintf(stderr, "sensor: error: RECORDS: column %zu must be %s, and is %s. Put the"
                            " columns in the order of the plan\n",
                    i + 2, NAMES[i], *name ? name : "missing");
            exit(REFUSED);
        }
    }
}

/* Complain of a line; of the first ones only, as a whole file may be wrong. */
static bool leave_out(unsigned long number, const char *name, const char *rule) {
    if (n_left_out++ < COMPLAINTS_MOST)
        fprintf(stderr, "sensor: line %lu: %s: %s; left out\n", number, name, rule);
    return false;
}

/* Read a line; complain, and return false, where it is no record. */
static bool read_record(char *line, unsigned long number, double *time, double *record) {
    char *rest = line;
    if (!read_number(next_field(&rest), time) || !(fabs(*time) < TIME_MOST))
        return leave_out(number, "time", "must be seconds since 1970");
    for (size_t i = 0; i < PLAN.n_dimensions; i++)
        if (!read_number(next_field(&rest), &record[i]))
            return leave_out(number, NAMES[i], "must be a number");
    if (!*rest) return true;
    return leave_out(number, "columns", "must be the time and a number for each dimension");
}

/* A sketch of a window that has not begun would wait in the flash until it has, and keep all others
 * back: rather refuse the file. */
static void require_begun(double when, unsigned long number) {
    if (!PLAN.by_time || when <= (double)time(NULL) + CLOCK_LEEWAY_S) return;
    fprintf(stderr, "sensor: error: RECORDS: line %lu: the time %.0f is in the future. Write seconds"
                    " since 1970, not milliseconds, and check this computer's clock\n", number, when);
    exit(REFUSED);
}

static FILE *open_records(void) {
    if (!records_path || !strcmp(records_path, "-")) return stdin;
    FILE *file = fopen(records_path, "r");
    if (!file) refuse("RECORDS: cannot be read. Name a CSV file, or - for standard input");
    return file;
}

/* Return whether a window that was released may have had a record of this time. A file is read from
 * its beginning by each run, and a record that was in two sketches would cost twice. */
static bool was_released(double time) {
    return PLAN.by_time && n_released > 0 &&
           time < (double)PLAN.origin + ((double)released_slot + 1) * PLAN.length;
}

static enum sfumato_error add_records(FILE *file) {
    static char line[LINE_MOST];
    enum sfumato_error error = SFUMATO_OK;
    unsigned long n_records = 0, n_old = 0;
    for (unsigned long number = 1; !error && fgets(line, sizeof line, file); number++) {
        double time, record[SFUMATO_DIMENSIONS_MOST];
        if (line[strspn(line, SEPARATORS)] == '\n' || line[0] == '#') continue;
        if (number == 1 && is_header(line)) {
            check_header(line);
            continue;
        }
        if (!read_record(line, number, &time, record)) continue;
        has_record = true;
        require_begun(time, number);
        if (was_released(time)) {
            n_old++;
            continue;
        }
        error = add_record((int64_t)floor(time), record);
        if (!error) n_records++;
    }
    if (n_left_out) fprintf(stderr, "left out %lu line(s) that hold no record\n", n_left_out);
    if (n_old)
        fprintf(stderr, "left out %lu records of windows that earlier runs released\n", n_old);
    fprintf(stderr, "added %lu records\n", n_records);
    return error;
}

static enum sfumato_error finish(void) {
    enum sfumato_error error = send_waiting(&device, &gateway);
    if (!error) error = sfumato_tick(&device, (int64_t)time(NULL));
    if (!error) error = send_once();
    return error;
}

static enum sfumato_error run(FILE *records) {
    enum sfumato_error error = sfumato_check_frequencies(&PLAN);
    if (!error) error = open_flash();
    if (!error) error = sfumato_start(&device);
    n_released = device.next_sequence;
    released_slot = device.last_slot;
    if (!error) error = send_once();
    if (!error) error = confirm_device(&device, &gateway);
    if (!error) error = add_records(records);
    return error ? error : finish();
}

static void report(enum sfumato_error error) {
    size_t size;
    if (error) fprintf(stderr, "sensor: error: %s\n", ERRORS[error]);
    if (error == SFUMATO_NOT_READY)
        fprintf(stderr, "  GET %s at %s:%s: %d%s\n", gateway.path, host, port, gateway.status,
                gateway.status ? "" : " (no answer)");
    if (device.is_started && device.window.n_records)
        fprintf(stderr, "%u record(s) of the open window are lost: they lie in memory alone\n",
                (unsigned)device.window.n_records);
    if (!device.is_started) return;
    fprintf(stderr, "released %llu sketches so far%s\n", (unsigned long long)device.next_sequence,
            sfumato_waiting(&device, &size) ? "; one waits, and is sent again by the next run" : "");
}

int main(int count, char **words) {
    read_arguments(count, words);
    enum sfumato_error error = run(open_records());
    report(error);
    if (!error && n_left_out && !has_record)
        refuse("RECORDS: no line holds a record. Write the time and a number for each dimension");
    bool is_later = error == SFUMATO_NOT_READY || error == SFUMATO_WAITING;
    size_t size;
    if (!error) return sfumato_waiting(&device, &size) ? FAILED : DONE;
    return is_later ? FAILED : REFUSED;
}
