#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>

#include "processor.h"
#include "target.h"
TARGET_BEGIN("avx2")
#include "lanes_avx2.h"
#include "kernel.h"
TARGET_END

static int is_supported(void) {
    return has_leaf_7(bit_AVX2, 0, SAVES_256);
}

const struct level level_avx2 = {
    "avx2", is_supported, LEVEL_PARTS,
};
#endif
