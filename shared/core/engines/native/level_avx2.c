#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>

#include "target.h"
TARGET_BEGIN("avx2")
#include "lanes_avx2.h"
#include "kernel.h"
TARGET_END

static int is_supported(void) {
    return __builtin_cpu_supports("avx2");
}

const struct level level_avx2 = {
    "avx2", is_supported, LEVEL_PARTS,
};
#endif
