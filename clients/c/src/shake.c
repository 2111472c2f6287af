#include <string.h>

#include "hash.h"

/* Rotations and destinations of the rho and pi steps, along their one cycle. */
static const uint8_t ROTATIONS[24] = {1,  3,  6,  10, 15, 21, 28, 36, 45, 55, 2,  14,
                                      27, 41, 56, 8,  25, 43, 62, 18, 39, 61, 20, 44};
static const uint8_t LANES[24] = {10, 7,  11, 17, 18, 3, 5,  16, 8,  21, 24, 4,
                                  15, 23, 19, 13, 12, 2, 20, 14, 22, 9,  6,  1};

static uint64_t rotate_left(uint64_t x, unsigned by) {
    return (x << by) | (x >> (64 - by));
}

static void mix_columns(uint64_t s[25]) {
    uint64_t column[5];
    for (size_t x = 0; x < 5; x++)
        column[x] = s[x] ^ s[x + 5] ^ s[x + 10] ^ s[x + 15] ^ s[x + 20];
    for (size_t x = 0; x < 5; x++) {
        uint64_t mixed = column[(x + 4) % 5] ^ rotate_left(column[(x + 1) % 5], 1);
        for (size_t y = x; y < 25; y += 5) s[y] ^= mixed;
    }
}

static void move_lanes(uint64_t s[25]) {
    uint64_t carried = s[1];
    for (size_t i = 0; i < 24; i++) {
        uint64_t next = s[LANES[i]];
        s[LANES[i]] = rotate_left(carried, ROTATIONS[i]);
        carried = next;
    }
}

static void mix_rows(uint64_t s[25]) {
    for (size_t y = 0; y < 25; y += 5) {
        uint64_t row[5];
        memcpy(row, s + y, sizeof row);
        for (size_t x = 0; x < 5; x++) s[y + x] ^= ~row[(x + 1) % 5] & row[(x + 2) % 5];
    }
}

/* The next round constant, by the linear feedback register of FIPS 202, section 3.2.5. */
static uint64_t next_constant(unsigned *state) {
    uint64_t constant = 0;
    for (unsigned j = 0; j < 7; j++) {
        if (*state & 1) constant |= UINT64_C(1) << ((1u << j) - 1);
        *state = (*state << 1) ^ (*state & 0x80 ? 0x171 : 0);
    }
    return constant;
}

static void permute(uint64_t s[25]) {
    unsigned state = 1;
    for (int round = 0; round < 24; round++) {
        mix_columns(s);
        move_lanes(s);
        mix_rows(s);
        s[0] ^= next_constant(&state);
    }
}

static void absorb_byte(struct shake *shake, size_t at, uint8_t byte) {
    shake->lanes[at / 8] ^= (uint64_t)byte << (8 * (at % 8));
}

void shake_begin(struct shake *shake) {
    memset(shake, 0, sizeof *shake);
}

void shake_absorb(struct shake *shake, const void *data, size_t size) {
    const uint8_t *bytes = data;
    for (size_t i = 0; i < size; i++) {
        absorb_byte(shake, shake->at++, bytes[i]);
        if (shake->at == SHAKE_RATE) {
            permute(shake->lanes);
            shake->at = 0;
        }
    }
}

void shake_finish(struct shake *shake) {
    absorb_byte(shake, shake->at, 0x1f);
    absorb_byte(shake, SHAKE_RATE - 1, 0x80);
    permute(shake->lanes);
    shake->at = 0;
}

void shake_take(struct shake *shake, uint8_t *into, size_t count) {
    for (size_t i = 0; i < count; i++) {
        if (shake->at == SHAKE_RATE) {
            permute(shake->lanes);
            shake->at = 0;
        }
        into[i] = (uint8_t)(shake->lanes[shake->at / 8] >> (8 * (shake->at % 8)));
        shake->at++;
    }
}

void open_stream(struct shake *shake, const uint8_t seed[32], const char *label) {
    shake_begin(shake);
    shake_absorb(shake, "sfumato/v1/", 11);
    /* With the zero byte that ends it. */
    shake_absorb(shake, label, strlen(label) + 1);
    shake_absorb(shake, seed, 32);
    shake_finish(shake);
}

uint64_t take_word(struct shake *shake) {
    uint8_t bytes[8];
    uint64_t word = 0;
    shake_take(shake, bytes, sizeof bytes);
    for (size_t i = 8; i-- > 0;) word = (word << 8) | bytes[i];
    return word;
}
