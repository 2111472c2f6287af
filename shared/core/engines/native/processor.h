/* What this processor and its system can do, asked of the processor itself: the compilers' own
 * __builtin_cpu_supports needs a run-time library that not all of them bring. */
#if defined(__x86_64__) && defined(__GNUC__)
#include <cpuid.h>

/* Registers that the system saves for a thread (XCR0): 256-bit ones, and 512-bit ones with masks. */
#define SAVES_256 0x06u
#define SAVES_512 0xe6u

static inline unsigned saved_registers(void) {
    unsigned a, b, c, d, low, high;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_OSXSAVE)) return 0;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return low;
}

static inline int has_sse4(void) {
    unsigned a, b, c, d;
    return __get_cpuid(1, &a, &b, &c, &d) && (c & bit_SSE4_1);
}

/* Whether leaf 7 has all of these bits of EBX and ECX, and the system saves these registers. */
static inline int has_leaf_7(unsigned in_b, unsigned in_c, unsigned saved) {
    unsigned a, b, c, d;
    if ((saved_registers() & saved) != saved) return 0;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (b & in_b) == in_b && (c & in_c) == in_c;
}

#define BITS_AVX512 (bit_AVX512F | bit_AVX512BW | bit_AVX512DQ | bit_AVX512VL)
#define BITS_VNNI (1u << 11)
#endif
