#include <string.h>

#include "hash.h"

static const uint32_t CONSTANTS[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

static uint32_t rotate_right(uint32_t x, unsigned by) {
    return (x >> by) | (x << (32 - by));
}

static uint32_t read_big_endian(const uint8_t *bytes) {
    return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
}

/* The words of the schedule replace each other in a ring of 16. */
static uint32_t next_word(uint32_t w[16], size_t i) {
    uint32_t a = w[(i + 1) % 16], b = w[(i + 14) % 16];
    uint32_t low = rotate_right(a, 7) ^ rotate_right(a, 18) ^ (a >> 3);
    uint32_t high = rotate_right(b, 17) ^ rotate_right(b, 19) ^ (b >> 10);
    return w[i % 16] += low + w[(i + 9) % 16] + high;
}

static void compress(uint32_t state[8], const uint8_t block[64]) {
    uint32_t w[16], s[8];
    for (size_t i = 0; i < 16; i++) w[i] = read_big_endian(block + 4 * i);
    memcpy(s, state, sizeof s);
    for (size_t i = 0; i < 64; i++) {
        uint32_t word = i < 16 ? w[i] : next_word(w, i);
        uint32_t sum1 = rotate_right(s[4], 6) ^ rotate_right(s[4], 11) ^ rotate_right(s[4], 25);
        uint32_t choice = (s[4] & s[5]) ^ (~s[4] & s[6]);
        uint32_t first = s[7] + sum1 + choice + CONSTANTS[i] + word;
        uint32_t sum0 = rotate_right(s[0], 2) ^ rotate_right(s[0], 13) ^ rotate_right(s[0], 22);
        uint32_t majority = (s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]);
        memmove(s + 1, s, 7 * sizeof *s);
        s[4] += first;
        s[0] = first + sum0 + majority;
    }
    for (size_t i = 0; i < 8; i++) state[i] += s[i];
}

void sha256_begin(struct sha256 *hash) {
    static const uint32_t START[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                      0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    memcpy(hash->state, START, sizeof START);
    hash->size = 0;
}

void sha256_add(struct sha256 *hash, const void *data, size_t size) {
    const uint8_t *bytes = data;
    for (size_t i = 0; i < size; i++) {
        hash->block[hash->size++ % 64] = bytes[i];
        if (hash->size % 64 == 0) compress(hash->state, hash->block);
    }
}

void sha256_finish(struct sha256 *hash, uint8_t digest[32]) {
    uint64_t bits = 8 * hash->size;
    uint8_t length[8];
    for (size_t i = 0; i < 8; i++) length[i] = (uint8_t)(bits >> (56 - 8 * i));
    sha256_add(hash, "\x80", 1);
    while (hash->size % 64 != 56) sha256_add(hash, "", 1);
    sha256_add(hash, length, sizeof length);
    for (size_t i = 0; i < 32; i++) digest[i] = (uint8_t)(hash->state[i / 4] >> (24 - 8 * (i % 4)));
}
