#include "lanes_portable.h"
#include "kernel.h"

static int is_supported(void) { return 1; }

const struct level level_portable = {
    "portable", is_supported, LEVEL_PARTS,
};
