#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>

#include "target.h"
TARGET_BEGIN("avx512f,avx512bw,avx512dq,avx512vl")
#include "lanes_avx512.h"
#include "kernel.h"
TARGET_END

static int is_supported(void) {
    return __builtin_cpu_supports("avx512f") &&
           __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512vl");
}

const struct level level_avx512 = {
    "avx512", is_supported, LEVEL_PARTS,
};
#endif
