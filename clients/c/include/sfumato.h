/* The device side of Sfumato in portable C11: no allocation, no operating system.
 *
 * A sketch is the sum of integer features of a window's records, plus exactly sampled noise, in a
 * message that the device signs. README.md in this folder tells how to use it, and what holds.
 */
#ifndef SFUMATO_H
#define SFUMATO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum sfumato_error {
    SFUMATO_OK = 0,
    /* The entropy callback failed or repeats itself. Nothing was released. */
    SFUMATO_ENTROPY,
    /* The signing callback failed. Nothing was released. */
    SFUMATO_SIGNING,
    /* This processor draws other frequencies than the plan's: its arithmetic is not IEEE 754. */
    SFUMATO_FREQUENCIES,
    /* A buffer is too small: use the sizes of the compiled plan. */
    SFUMATO_CAPACITY,
    /* A stream's name must have 1 to 64 bytes without control characters. */
    SFUMATO_STREAM,
    /* A value would not fit its place: the plan was not compiled by make_plan. */
    SFUMATO_PLAN,
    /* Storage failed, or has no record, or that of another device. Start again; only a new device
     * is formatted. */
    SFUMATO_STORAGE,
    /* The device was not started, or not confirmed with the server. */
    SFUMATO_NOT_READY,
    /* The server has sketches that this device does not know: it is a copy, or was restored. */
    SFUMATO_CLONED,
    /* The plan allows no further sketch of this device. */
    SFUMATO_SPENT,
    /* The window is full, and the message before it still waits: send that, and give the record
     * again. */
    SFUMATO_WAITING,
};

enum {
    SFUMATO_AMPLITUDE = 16380, /* the largest magnitude that one record adds to a coordinate */
    SFUMATO_STEPS = 32767,     /* quantisation steps from the centre of a dimension to its edge */
    SFUMATO_DIGEST = 32,       /* bytes of a SHA-256, of an identity, and of a seed */
    SFUMATO_SIGNATURE = 64,    /* bytes of an Ed25519 signature */
    SFUMATO_STREAM_MOST = 64,  /* bytes of a stream's name */
    SFUMATO_DIMENSIONS_MOST = 32,
    /* Bytes of a message besides its payload, at most. */
    SFUMATO_ENVELOPE_MOST = 512,
};

enum sfumato_mechanism { SFUMATO_LAPLACE, SFUMATO_KNORM };
enum sfumato_radius { SFUMATO_ADAPTED, SFUMATO_FOLDED_GAUSSIAN, SFUMATO_GAUSSIAN };

/* One dimension of a record. */
struct sfumato_dimension {
    double centre;         /* data units */
    double steps_per_unit; /* quantisation steps per data unit */
    double turns_per_step; /* turns of a frequency of 1 in each quantisation step */
};

/* The law of the frequencies' distance from the origin. */
struct sfumato_radius_law {
    enum sfumato_radius kind;
    double sigma_low, sigma_high, tail_share, tail_high;
};

/* Sums around given centres, where a plan's statistic is `clusters`; all lengths are in steps. */
struct sfumato_clusters {
    uint32_t n_coordinates;
    uint32_t n_clusters; /* k */
    uint32_t block_size; /* integers of a cluster */
    uint16_t n_candidates;
    uint8_t n_assigned, n_summed, n_optional;
    /* Numbers of dimensions: those that assign a record, those that are summed, and of these the
     * ones that can be missing. */
    const uint8_t *assigned, *summed, *optional;
    const int16_t *centres; /* (1 + n_candidates, k, n_assigned) */
    const uint32_t *weights; /* n_assigned */
    int64_t cap;             /* of a squared distance */
    const int16_t *origins;  /* (k, n_summed) */
    const uint16_t *radii;   /* (k, n_summed) */
    /* What a record adds at most; 0 leaves a sum out. */
    uint16_t residual, count, square, beyond, presence, total;
    uint16_t largest; /* of these */
    bool is_l1;       /* otherwise residuals are clipped in L2 */
};

/* A program does not link with sources that were compiled for other plans: theirs are larger. */
#ifdef SFUMATO_CLUSTERS
#define sfumato_start sfumato_start_with_clusters
#endif

/* A plan, as `python -m clients.c.make_plan` compiles it from bytes that it has verified. */
struct sfumato_plan {
    uint8_t study[SFUMATO_DIGEST];
    uint8_t digest[SFUMATO_DIGEST]; /* of the plan's bytes: every message carries it */
    uint8_t seed[SFUMATO_DIGEST];
    uint8_t frequencies_digest[SFUMATO_DIGEST];
    uint16_t n_dimensions;            /* d */
    uint16_t n_frequencies;           /* m */
    uint16_t measurements_per_record; /* r: below m, records are masked */
    uint8_t turn_bits;                /* b: frequencies are in 2^-b turns a step */
    uint8_t payload_width;            /* bytes of a released coordinate */
    const struct sfumato_dimension *dimensions; /* d */
    struct sfumato_radius_law radius_law;
    /* Shape (m, d): the d turns of feature 0 first. NULL: drawn again from the seed when used. */
    const int16_t *turns;
    enum sfumato_mechanism mechanism;
    uint64_t rate;         /* the noise has scale 2^52 / rate */
    uint32_t least_radius; /* of K-norm noise */
    int64_t coordinate_bound, noise_bound;
    uint32_t least_records, most_records; /* of one sketch */
    uint32_t most_sketches;               /* of this device, in all */
    bool by_time;                         /* false: every `length` records are a window */
    bool has_end, leaves_out_outside;
    int64_t origin, end; /* seconds since 1970-01-01 UTC */
    uint32_t length;     /* seconds, or records */
#ifdef SFUMATO_CLUSTERS
    const struct sfumato_clusters *clusters; /* NULL: the statistic is `fourier` */
#endif
};

/* What the device must bring. Each callback returns 0 on success. */
struct sfumato_platform {
    void *context;
    /* Fill with uniform random bytes, independent and unpredictable: privacy rests on them. */
    int (*draw_bytes)(void *context, uint8_t *into, size_t count);
    /* Sign with the device's Ed25519 key (RFC 8032, not pre-hashed). */
    int (*sign)(void *context, const uint8_t *data, size_t size,
                uint8_t signature[SFUMATO_SIGNATURE]);
};

/* What a device signs about one sketch. */
struct sfumato_header {
    const uint8_t *study, *plan_digest, *device; /* SFUMATO_DIGEST bytes each */
    const char *stream;                          /* ends with a zero byte */
    uint64_t sequence;
    bool by_time; /* false: windows by count, without slots */
    uint64_t first_slot, last_slot;
    bool is_public; /* false: the number of records is secret */
    uint64_t n_records;
    uint8_t report_id[16];
    bool has_block;
    uint64_t block;
};

/* Sums of the records of one window. */
struct sfumato_window {
    int64_t *sums; /* 2 m: real parts, then imaginary parts; or those of clusters */
    uint32_t n_records;
    uint64_t next_record; /* the stream's counter, which decides masks */
    uint64_t mask_keys[2];
    uint16_t *order; /* m, for plans with masks; otherwise NULL */
    uint64_t ordered_block;
};

/* Check that this processor draws the plan's frequencies, bit for bit: d times all of them. */
enum sfumato_error sfumato_check_frequencies(const struct sfumato_plan *plan);

/* Prepare sums; `stream_id` (device id, '/', stream name) decides masks. */
void sfumato_open_window(const struct sfumato_plan *plan, const uint8_t *stream_id, size_t size,
                         struct sfumato_window *window);

/* Add a record of d values in data units; one that is not finite counts and adds zero. In clusters
 * a summed value that is not finite adds zero to its own sum alone.
 *
 * At most `most_records`; return false, and add nothing, beyond. */
bool sfumato_add(const struct sfumato_plan *plan, struct sfumato_window *window,
                 const double *record);

/* Add fresh noise to sums and clamp them: in place, so the exact sums are gone, whatever is
 * returned. */
enum sfumato_error sfumato_add_noise(const struct sfumato_plan *plan,
                                     const struct sfumato_platform *platform, int64_t *sums,
                                     uint32_t n_records);

/* Encode and sign a message of n released coordinates. */
enum sfumato_error sfumato_encode_message(const struct sfumato_header *header,
                                          const int64_t *released, size_t n, size_t width,
                                          const struct sfumato_platform *platform, uint8_t *into,
                                          size_t capacity, size_t *size);

/* Return the identity of a sketch. */
void sfumato_sketch_id(const struct sfumato_header *header, uint8_t id[SFUMATO_DIGEST]);

/* Two sectors that keep what they hold without power. Each callback returns 0 on success. */
struct sfumato_storage {
    void *context;
    size_t sector_size; /* bytes of each; SFUMATO_RECORD_HEAD and the largest message at least */
    int (*read)(void *context, unsigned sector, size_t offset, void *into, size_t size);
    int (*erase)(void *context, unsigned sector);
    /* Bytes that were erased; the offset is a multiple of SFUMATO_RECORD_HEAD. */
    int (*write)(void *context, unsigned sector, size_t offset, const void *data, size_t size);
};

enum { SFUMATO_RECORD_HEAD = 160 };

/* A device with one stream of one study. The caller sets the first part, and keeps its buffers. */
struct sfumato_device {
    const struct sfumato_plan *plan;
    const struct sfumato_platform *platform;
    const struct sfumato_storage *storage;
    uint8_t id[SFUMATO_DIGEST]; /* SHA-256 of the public key that was enrolled */
    const char *stream;
    int64_t *sums;      /* PLAN_COORDINATES */
    uint16_t *order;    /* PLAN_MASKED_FEATURES, or NULL if that is 0 */
    uint8_t *message;   /* PLAN_MESSAGE_MOST */
    size_t message_most;

    /* The rest belongs to the library. */
    struct sfumato_window window;
    uint64_t first_slot, last_slot; /* of the open window */
    uint64_t record_number, next_sequence;
    size_t message_size; /* of what waits; 0: nothing */
    unsigned next_sector;
    bool is_started, is_confirmed;
};

/* Make the storage of a new device, once. Refused where a device's record lies already. */
enum sfumato_error sfumato_format(struct sfumato_device *device);

/* Read the storage after each start; nothing is sent or released before. */
enum sfumato_error sfumato_start(struct sfumato_device *device);

/* Compare with the server before the first release: its `last_sequence` of the stream, from
 * `GET /v1/devices/me`, or -1 if it has none. */
enum sfumato_error sfumato_confirm(struct sfumato_device *device, int64_t last_sequence);

/* Add a record of a time, in seconds since 1970-01-01 UTC; release the window before if it is due.
 *
 * After an error the record was not added. Windows by count do not read the time. */
enum sfumato_error sfumato_record(struct sfumato_device *device, int64_t now,
                                  const double *record);

/* Release the window if it is due: when records are rare, call it once in a while. */
enum sfumato_error sfumato_tick(struct sfumato_device *device, int64_t now);

/* Return the message to send, or NULL, and its size; it lies in `message` until it is settled. */
const uint8_t *sfumato_waiting(const struct sfumato_device *device, size_t *size);

/* The path of the request that sends what waits, by PUT: a text. */
enum { SFUMATO_PATH = 22 + 4 * SFUMATO_DIGEST + 1 };
void sfumato_path(const struct sfumato_device *device, char path[SFUMATO_PATH]);

/* Forget what waits: the server has stored it, or refused it for good. */
enum sfumato_error sfumato_settle(struct sfumato_device *device);

/* A request's signature headers (RFC 9421), each a text that ends with a zero byte. */
struct sfumato_signed_request {
    char content_digest[64]; /* empty without a body */
    char signature_input[192];
    char signature[112];
};

/* Sign a request; method and path at most 256 characters together. */
enum sfumato_error sfumato_sign_request(const char *method, const char *path, const uint8_t *body,
                                        size_t size, const uint8_t device[SFUMATO_DIGEST],
                                        uint64_t created, const struct sfumato_platform *platform,
                                        struct sfumato_signed_request *request);

#endif
