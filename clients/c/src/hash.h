/* SHAKE-256 (FIPS 202) and SHA-256 (FIPS 180-4). */
#ifndef SFUMATO_HASH_H
#define SFUMATO_HASH_H

#include <stddef.h>
#include <stdint.h>

#define SHAKE_RATE 136

struct shake {
    uint64_t lanes[25];
    size_t at; /* bytes absorbed or given of the present block */
};

void shake_begin(struct shake *shake);
void shake_absorb(struct shake *shake, const void *data, size_t size);
void shake_finish(struct shake *shake);
void shake_take(struct shake *shake, uint8_t *into, size_t count);

/* Open the public stream called `label`, which ends with a zero byte. */
void open_stream(struct shake *shake, const uint8_t seed[32], const char *label);
/* Return the next 64-bit word. */
uint64_t take_word(struct shake *shake);

struct sha256 {
    uint32_t state[8];
    uint64_t size;
    uint8_t block[64];
};

void sha256_begin(struct sha256 *hash);
void sha256_add(struct sha256 *hash, const void *data, size_t size);
void sha256_finish(struct sha256 *hash, uint8_t digest[32]);

#endif
