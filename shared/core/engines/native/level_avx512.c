#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>

#include "processor.h"
#include "target.h"
TARGET_BEGIN("avx512f,avx512bw,avx512dq,avx512vl")
#include "lanes_avx512.h"
#include "kernel.h"
TARGET_END

static int is_supported(void) {
    return has_leaf_7(BITS_AVX512, 0, SAVES_512);
}

const struct level level_avx512 = {
    "avx512", is_supported, LEVEL_PARTS,
};
#endif
