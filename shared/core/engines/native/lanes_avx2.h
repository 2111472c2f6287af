/* 256-bit lanes. */
#include <immintrin.h>
#include <stdint.h>

typedef __m256i vector;
#define LANES 8

#define ZERO _mm256_setzero_si256()
#define LOAD(pointer) _mm256_loadu_si256((const __m256i *)(pointer))
#define STORE(pointer, x) _mm256_storeu_si256((__m256i *)(pointer), x)
#define REPEAT_16(x) _mm256_set1_epi16(x)
#define REPEAT_32(x) _mm256_set1_epi32(x)
#define ADD_16(x, y) _mm256_add_epi16(x, y)
#define SUB_16(x, y) _mm256_sub_epi16(x, y)
#define SHIFT_LEFT_2_16(x) _mm256_slli_epi16(x, 2)
#define SHIFT_RIGHT_1_16(x) _mm256_srai_epi16(x, 1)
#define HIGH(x, y) _mm256_mulhrs_epi16(x, y)
#define OR_XOR(x, set, flip) _mm256_xor_si256(_mm256_or_si256(x, set), flip)
#define ADD_PAIRS(sum, x, y) _mm256_add_epi32(sum, _mm256_madd_epi16(x, y))

typedef struct {
    __m128i right, left;
} shifts;
static inline shifts make_shifts(int bits) {
    shifts s = {_mm_cvtsi32_si128(bits - 16), _mm_cvtsi32_si128(32 - bits)};
    return s;
}
#define JOIN_PHASES(x, y, s)                                                                     \
    _mm256_blend_epi16(_mm256_srl_epi32(x, (s).right), _mm256_sll_epi32(y, (s).left), 0xAA)

/* A number that is never zero and has the sign of x: what the sign instruction wants. */
typedef __m256i signs;
#define SIGNS(x) _mm256_or_si256(x, _mm256_set1_epi16(1))
#define NEGATE(x, s) _mm256_sign_epi16(x, s)

/* Step 1 for four values; conversion rounds half to even. Returns whether one is not finite. */
#define QUANTISE_AT_ONCE 4
typedef __m256d values;
#define LOAD_DOUBLES(pointer) _mm256_loadu_pd((const double *)(const void *)(pointer))
#define LOAD_FLOATS(pointer) _mm256_cvtps_pd(_mm_loadu_ps((const float *)(const void *)(pointer)))
static inline int quantise_values(values x, const double *centre, const double *scale,
                                  int16_t *steps) {
    values t = _mm256_mul_pd(_mm256_sub_pd(x, LOAD_DOUBLES(centre)), LOAD_DOUBLES(scale));
    t = _mm256_min_pd(_mm256_max_pd(t, _mm256_set1_pd(-32767.0)), _mm256_set1_pd(32767.0));
    __m128i wide = _mm256_cvtpd_epi32(t);
    _mm_storel_epi64((__m128i *)steps, _mm_packs_epi32(wide, wide));
    /* x - x is zero, or not a number when x is not finite. */
    values is_nan = _mm256_cmp_pd(_mm256_sub_pd(x, x), _mm256_setzero_pd(), _CMP_UNORD_Q);
    return _mm256_movemask_pd(is_nan);
}
