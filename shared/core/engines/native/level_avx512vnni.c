#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>

#include "processor.h"
#include "target.h"
TARGET_BEGIN("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")
#define SKETCH_VNNI
#include "lanes_avx512.h"
#include "kernel.h"
TARGET_END

static int is_supported(void) {
    return has_leaf_7(BITS_AVX512, BITS_VNNI, SAVES_512);
}

const struct level level_avx512vnni = {
    "avx512vnni", is_supported, LEVEL_PARTS,
};
#endif
