/* 512-bit lanes; with SKETCH_VNNI the multiply-add of pairs also accumulates. */
#include <immintrin.h>
#include <stdint.h>

typedef __m512i vector;
#define LANES 16

#define ZERO _mm512_setzero_si512()
#define LOAD(pointer) _mm512_loadu_si512(pointer)
#define STORE(pointer, x) _mm512_storeu_si512(pointer, x)
#define REPEAT_16(x) _mm512_set1_epi16(x)
#define REPEAT_32(x) _mm512_set1_epi32(x)
#define ADD_16(x, y) _mm512_add_epi16(x, y)
#define SUB_16(x, y) _mm512_sub_epi16(x, y)
#define SHIFT_LEFT_2_16(x) _mm512_slli_epi16(x, 2)
#define SHIFT_RIGHT_1_16(x) _mm512_srai_epi16(x, 1)
#define HIGH(x, y) _mm512_mulhrs_epi16(x, y)
/* (x | 2) ^ 0x8000, in one operation. */
#define OR_XOR(x, set, flip) _mm512_ternarylogic_epi32(x, set, flip, 0x56)

#ifdef SKETCH_VNNI
/* In place: around the intrinsic, GCC 12 moves every sum to another register and back. */
static inline vector add_pairs(vector sum, vector x, vector y) {
    __asm__("vpdpwssd %2, %1, %0" : "+v"(sum) : "v"(x), "v"(y));
    return sum;
}
#define ADD_PAIRS(sum, x, y) add_pairs(sum, x, y)
#define SIGN_OF(x, plus, minus) _mm512_mask_blend_epi16(_mm512_movepi16_mask(x), plus, minus)
#else
#define ADD_PAIRS(sum, x, y) _mm512_add_epi32(sum, _mm512_madd_epi16(x, y))
#endif

typedef struct {
    __m128i right, left;
} shifts;
static inline shifts make_shifts(int bits) {
    shifts s = {_mm_cvtsi32_si128(bits - 16), _mm_cvtsi32_si128(32 - bits)};
    return s;
}
/* Phase of one record into the low halves of lanes, of another into the high halves. */
#define JOIN_PHASES(x, y, s)                                                                     \
    _mm512_mask_blend_epi16(0xAAAAAAAAu, _mm512_srl_epi32(x, (s).right),                         \
                            _mm512_sll_epi32(y, (s).left))

typedef __mmask32 signs;
#define SIGNS(x) _mm512_movepi16_mask(x)
#define NEGATE(x, s) _mm512_mask_sub_epi16(x, s, _mm512_setzero_si512(), x)

/* Step 1 for eight values; conversion rounds half to even. Returns whether one is not finite. */
#define QUANTISE_AT_ONCE 8
typedef __m512d values;
#define LOAD_DOUBLES(pointer) _mm512_loadu_pd((const void *)(pointer))
#define LOAD_FLOATS(pointer) _mm512_cvtps_pd(_mm256_loadu_ps((const float *)(const void *)(pointer)))
static inline int quantise_values(values x, const double *centre, const double *scale,
                                  int16_t *steps) {
    values t = _mm512_mul_pd(_mm512_sub_pd(x, LOAD_DOUBLES(centre)), LOAD_DOUBLES(scale));
    t = _mm512_min_pd(_mm512_max_pd(t, _mm512_set1_pd(-32767.0)), _mm512_set1_pd(32767.0));
    __m128i narrow = _mm256_cvtepi32_epi16(_mm512_cvtpd_epi32(t));
    _mm_storeu_si128((__m128i *)steps, narrow);
    /* Quiet and signalling not-a-number, both infinities. */
    return _mm512_fpclass_pd_mask(x, 0x99);
}
