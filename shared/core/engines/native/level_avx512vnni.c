#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>

#include "target.h"
TARGET_BEGIN("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")
#define SKETCH_VNNI
#include "lanes_avx512.h"
#include "kernel.h"
TARGET_END

static int is_supported(void) {
    return __builtin_cpu_supports("avx512f") &&
           __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512vl") &&
           __builtin_cpu_supports("avx512vnni");
}

const struct level level_avx512vnni = {
    "avx512vnni", is_supported, LEVEL_PARTS,
};
#endif
