#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>

#include "processor.h"
#include "target.h"
TARGET_BEGIN("sse4.1")
#define SKETCH_SSE4
#include "lanes_portable.h"
#include "kernel.h"
TARGET_END

static int is_supported(void) { return has_sse4(); }

const struct level level_sse4 = {
    "sse4", is_supported, LEVEL_PARTS,
};
#endif
