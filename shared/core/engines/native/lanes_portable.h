/* 128-bit lanes in the vector types of GCC and Clang: SSE2 on x86-64 (SSE4.1 with SKETCH_SSE4), NEON
 * on ARM, plain code elsewhere. Only what the types cannot say is spelled per machine. */
#include <stdint.h>
#include <string.h>
#if defined(__SSE2__)
#include <emmintrin.h>
#elif defined(__ARM_NEON)
#include <arm_neon.h>
#endif

/* Unsigned, because sums wrap by definition. */
typedef uint32_t vector __attribute__((vector_size(16)));
typedef int32_t signed_words __attribute__((vector_size(16)));
typedef int16_t halves __attribute__((vector_size(16)));
typedef uint16_t unsigned_halves __attribute__((vector_size(16)));
#define LANES 4

#define ZERO ((vector){0, 0, 0, 0})
static inline vector load_vector(const void *pointer) {
    vector x;
    memcpy(&x, pointer, sizeof x);
    return x;
}
#define LOAD(pointer) load_vector(pointer)
#define STORE(pointer, x)                                                                        \
    do {                                                                                         \
        vector stored = (x);                                                                     \
        memcpy(pointer, &stored, sizeof stored);                                                 \
    } while (0)
#define REPEAT_32(x) ((vector){0, 0, 0, 0} + (uint32_t)(x))
#define REPEAT_16(x) ((vector)((unsigned_halves){0, 0, 0, 0, 0, 0, 0, 0} + (uint16_t)(x)))
#define ADD_16(x, y) ((vector)((unsigned_halves)(x) + (unsigned_halves)(y)))
#define SUB_16(x, y) ((vector)((unsigned_halves)(x) - (unsigned_halves)(y)))
#define SHIFT_LEFT_2_16(x) ((vector)((unsigned_halves)(x) << 2))
#define SHIFT_RIGHT_1_16(x) ((vector)((halves)(x) >> 1))
#define OR_XOR(x, set, flip) (((x) | (set)) ^ (flip))

static inline vector add_pairs(vector sum, vector x, vector y) {
#if defined(__SSE2__)
    return sum + (vector)_mm_madd_epi16((__m128i)x, (__m128i)y);
#elif defined(__ARM_NEON) && defined(__aarch64__)
    int16x8_t a = (int16x8_t)x, b = (int16x8_t)y;
    int32x4_t low = vmull_s16(vget_low_s16(a), vget_low_s16(b));
    return sum + (vector)vpaddq_s32(low, vmull_high_s16(a, b));
#else
    signed_words even = ((signed_words)(x << 16) >> 16) * ((signed_words)(y << 16) >> 16);
    signed_words odd = ((signed_words)x >> 16) * ((signed_words)y >> 16);
    return sum + (vector)even + (vector)odd;
#endif
}
#define ADD_PAIRS(sum, x, y) add_pairs(sum, x, y)

static inline vector high(vector x, vector y) {
#if defined(SKETCH_SSE4)
    return (vector)_mm_mulhrs_epi16((__m128i)x, (__m128i)y);
#elif defined(__SSE2__)
    /* (x y >> 15) + the bit below, from the two halves of the product. */
    unsigned_halves top = (unsigned_halves)_mm_mulhi_epi16((__m128i)x, (__m128i)y);
    unsigned_halves low = (unsigned_halves)_mm_mullo_epi16((__m128i)x, (__m128i)y);
    return (vector)((top << 1) + (low >> 15) + ((low >> 14) & 1));
#elif defined(__ARM_NEON)
    return (vector)vqrdmulhq_s16((int16x8_t)x, (int16x8_t)y);
#else
    signed_words even = ((signed_words)(x << 16) >> 16) * ((signed_words)(y << 16) >> 16);
    signed_words odd = ((signed_words)x >> 16) * ((signed_words)y >> 16);
    vector low = (vector)((even + 0x4000) >> 15) & 0xFFFF;
    return low | ((vector)((odd + 0x4000) >> 15) << 16);
#endif
}
#define HIGH(x, y) high(x, y)

typedef struct {
    int right, left;
} shifts;
static inline shifts make_shifts(int bits) {
    shifts s = {bits - 16, 32 - bits};
    return s;
}
/* The lower half of a lane, as a number, is its lower 16 bits whatever the byte order. */
#define JOIN_PHASES(x, y, s) ((((x) >> (s).right) & 0xFFFF) | (((y) << (s).left) & 0xFFFF0000u))

#if defined(SKETCH_SSE4)
typedef __m128i signs;
#define SIGNS(x) ((__m128i)((x) | REPEAT_16(1)))
#define NEGATE(x, s) ((vector)_mm_sign_epi16((__m128i)(x), s))
#else
typedef halves signs;
#define SIGNS(x) ((halves)(x) >> 15)
#define NEGATE(x, s) ((vector)(((halves)(x) ^ (s)) - (s)))
#endif
